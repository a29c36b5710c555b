//! Views per second of phase 1 beside the same network, losses and augmentation in PyTorch eager, on the same machine in
//! one run:
//!
//! ```sh
//! eval "$(cargo xtask setup)"
//! cargo bench --workspace --bench views                          # ours
//! ORCO_PYTHON=PYTHON cargo bench --workspace --bench views       # PyTorch too; PYTHON is one that imports torch
//! cargo bench --workspace --bench views -- resnet12 bf16         # the cases whose names hold both words
//! ```
//!
//! The two take turns, so that what else the machine does falls on both; the median of all epochs counts, the first of
//! each turn left out. The best epoch stands beside it: on a machine that others use too it says more.

use std::env;
use std::path::Path;
use std::process::Command;

use orco_trainer::config::{Architecture, Precision, Recipe};
use orco_trainer::dataset::{Images, Split};
use orco_trainer::model::Model;
use orco_trainer::pretrain::pretrain;
use orco_trainer::run::Run;
use tch::{Device, Kind, Tensor};

const TURNS: usize = 7;
const EPOCHS: usize = 5;
const STEPS: usize = 4;
const CLASSES: usize = 64;

/// A backbone and how it is trained.
struct Case {
    name: &'static str,
    architecture: Architecture,
    width: i64,
    batch: usize,
    precision: Precision,
}

/// Views per second of the epochs after the first.
fn ours(case: &Case) -> Vec<f64> {
    let mut recipe: Recipe = toml::from_str(include_str!("../../recipes/cifar100-edge.toml")).expect("a recipe");
    (recipe.backbone.architecture, recipe.backbone.width) = (case.architecture, case.width);
    (recipe.split.base_classes, recipe.split.sessions, recipe.split.ways) = (CLASSES, 1, 1);
    (recipe.pretrain.epochs, recipe.pretrain.batch, recipe.pretrain.precision) = (EPOCHS, case.batch, case.precision);
    recipe.pretrain.warmup_epochs = 0;
    recipe.pretrain.learning_rate = 0.01;
    let each = STEPS * case.batch / CLASSES;
    let labels: Vec<u16> = (0..=CLASSES as u16).flat_map(|class| std::iter::repeat_n(class, each.max(20))).collect();
    let pixels = Tensor::randint(256, [labels.len() as i64, 3, 32, 32], (Kind::Uint8, Device::Cpu));
    let images = Images { pixels, labels };
    let mut split = Split::new(&recipe.split, 5, &images, &images, None, 1).expect("a split");
    split.base.truncate(STEPS * case.batch);
    let folder = env::temp_dir().join(format!("orco-views-{}", std::process::id()));
    let run = Run::open(&folder, &recipe).expect("a run folder");
    let mut model = Model::new(&recipe, [3, 32, 32], Device::Cpu);
    pretrain(&mut model, &recipe, &images, &split, &run, None).expect("training");
    let rates = run.metrics("pretrain");
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    rates[1..].iter().map(|line| line["views_per_second"].as_f64().expect("a rate")).collect()
}

/// The same in PyTorch, if a Python that has it was named.
fn pytorch(case: &Case) -> Vec<f64> {
    let Some(python) = env::var_os("ORCO_PYTHON") else { return Vec::new() };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/views/pytorch.py");
    let family = if case.architecture == Architecture::Resnet12 { "resnet12" } else { "resnet18" };
    let precision = if case.precision == Precision::Bf16 { "bf16" } else { "f32" };
    let counts = [case.width as usize, case.batch, EPOCHS, STEPS, CLASSES].map(|count| count.to_string());
    let mut command = Command::new(python);
    command.arg(script).args([family, precision]).args(counts);
    // Its own libtorch, not ours; and freed memory stays with it, as with us.
    command.env_remove("LD_LIBRARY_PATH").env("MALLOC_MMAP_MAX_", "0").env("MALLOC_TRIM_THRESHOLD_", "34359738368");
    let output = command.output().expect("ORCO_PYTHON names a program");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(|rate| rate.parse().expect("a rate")).collect()
}

/// Median and highest.
fn summary(mut rates: Vec<f64>) -> (f64, f64) {
    rates.sort_by(f64::total_cmp);
    (rates[rates.len() / 2], rates[rates.len() - 1])
}

fn main() {
    orco_trainer::system::keep_memory();
    let small = |name, precision| Case { name, architecture: Architecture::Resnet18, width: 16, batch: 256, precision };
    let large = |name, precision| Case { name, architecture: Architecture::Resnet12, width: 64, batch: 64, precision };
    let cases = [
        small("resnet18-w16, f32", Precision::F32),
        small("resnet18-w16, bf16", Precision::Bf16),
        large("resnet12-w64, f32", Precision::F32),
        large("resnet12-w64, bf16", Precision::Bf16),
    ];
    println!("views per second of phase 1 (cross entropy and SCL, one view), {} threads", tch::get_num_threads());
    println!("{:20} {:>20} {:>20} {:>8} {:>8}", "", "ours (best)", "PyTorch (best)", "ratio", "(best)");
    // Arguments choose cases by parts of their names (cargo adds `--bench`).
    let wanted: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for case in cases.iter().filter(|case| wanted.iter().all(|part| case.name.contains(part))) {
        let (mut own, mut their) = (Vec::new(), Vec::new());
        for _turn in 0..TURNS {
            own.extend(ours(case));
            their.extend(pytorch(case));
        }
        let (ours, best) = summary(own);
        if their.is_empty() {
            println!("{:20} {ours:12.0} ({best:5.0})   ORCO_PYTHON names no Python with torch", case.name);
            continue;
        }
        let (theirs, their_best) = summary(their);
        let ratios = (ours / theirs, best / their_best);
        println!(
            "{:20} {ours:12.0} ({best:5.0}) {theirs:12.0} ({their_best:5.0}) {:8.2} ({:6.2})",
            case.name, ratios.0, ratios.1
        );
    }
}

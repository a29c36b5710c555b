//! Views per second of phase 1 beside the same network, losses and augmentation in PyTorch eager, on the same machine
//! in one run:
//!
//! ```sh
//! eval "$(cargo xtask setup)"
//! cargo bench --workspace --bench views                          # ours
//! ORCO_PYTHON=PYTHON cargo bench --workspace --bench views       # PyTorch too; PYTHON is one that imports torch
//! cargo bench --workspace --bench views -- resnet12 bf16         # the cases whose names hold both words
//! cargo bench --workspace --bench views -- beside                # the second table alone
//! cargo bench --workspace --bench views -- ranks                 # the third one
//! ```
//!
//! Before the first turn PyTorch says how many parameters its network has, which must be as many as ours. The two take
//! turns of a few seconds, of which the second half is timed, so that what else the machine does falls on both: of
//! every turn counts the ratio of the two rates side by side. The table shows the median rates, the median ratio and
//! its quartiles.
//!
//! A second table (`-- beside`) compares the rates of turns alone with those of turns beside a process that keeps one
//! core busy. A third one (`-- ranks`) compares two processes of one thread each, which share every batch, with one
//! process of two threads; PyTorch's share it by DistributedDataParallel over Gloo, and both gather what contrast
//! compares.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use orco_trainer::config::{Architecture, Precision, Recipe};
use orco_trainer::data::dataset::{Images, Split};
use orco_trainer::model::Model;
use orco_trainer::model::backbone::Description;
use orco_trainer::platform::device::DeviceChoice;
use orco_trainer::platform::distributed::RankGroup;
use orco_trainer::run::{Run, TrainedOn};
use orco_trainer::train::pretrain::pretrain;
use orco_trainer::train::training_loop::BaseSession;
use orco_trials::benchmark::{Unit, record};
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};

const TURNS: usize = 21;
/// Epochs of a turn, of which the last counts.
const EPOCHS: usize = 2;
/// Turns of the second table, of each kind: those of PyTorch can take minutes.
const TURNS_BESIDE: usize = 5;
/// Time for which a busy process runs before a turn beside it.
const BEFORE: Duration = Duration::from_millis(500);
const CLASSES: usize = 64;
const INPUT: [i64; 3] = [3, 32, 32];
/// Tells a process of this program that it trains turns of the case of this name, in the folder of the next variable.
const CASE: &str = "ORCO_VIEWS_CASE";
const FOLDER: &str = "ORCO_VIEWS_FOLDER";

/// A backbone and how it is trained.
struct Case {
    name: &'static str,
    architecture: Architecture,
    width: i64,
    batch: usize,
    /// Steps of an epoch.
    steps: usize,
    precision: Precision,
}

impl Case {
    fn recipe(&self) -> Recipe {
        let mut recipe: Recipe = toml::from_str(include_str!("../../recipes/cifar100-edge.toml")).expect("a recipe");
        (recipe.backbone.architecture, recipe.backbone.width) = (self.architecture, self.width);
        (recipe.split.base_classes, recipe.split.sessions, recipe.split.ways) = (CLASSES, 1, 1);
        let pretrain = &mut recipe.pretrain;
        (pretrain.epochs, pretrain.batch, pretrain.precision) = (EPOCHS, self.batch, self.precision);
        (pretrain.warmup_epochs, pretrain.learning_rate) = (0, 0.01);
        recipe
    }
}

/// Views per second of a turn, which the first rank knows.
fn turn(case: &Case, folder: &Path, group: &RankGroup) -> Option<f64> {
    let recipe = case.recipe();
    let each = case.steps * case.batch / CLASSES;
    let labels: Vec<u16> = (0..=CLASSES as u16).flat_map(|class| std::iter::repeat_n(class, each.max(20))).collect();
    let pixels = Tensor::randint(256, [labels.len() as i64, 3, 32, 32], (Kind::Uint8, Device::Cpu));
    let images = Images { pixels, labels };
    let mut split = Split::new(&recipe.split, 5, &images, &images, None, 1).expect("a split");
    split.base.truncate(case.steps * case.batch);
    let run = match group.size() {
        1 => Run::open(folder, &recipe),
        _ => Run::open_on(folder, &recipe, &NOISE, group),
    };
    let run = run.expect("a run folder");
    let mut model = Model::new(&recipe, INPUT, Device::Cpu);
    let base = BaseSession { images: &images, split: &split, seed: recipe.seed, run: &run };
    pretrain(&mut model, &recipe.pretrain, &base, None).expect("training");
    if !group.is_first() {
        return None;
    }
    let rates = run.metrics("pretrain");
    std::fs::remove_dir_all(folder).expect("the folder is ours");
    rates[EPOCHS - 1]["views_per_second"].as_f64()
}

/// Pixels of noise, which need no digest.
const NOISE: TrainedOn = TrainedOn {
    classes: String::new(),
    count: 0,
    images: String::new(),
    base: String::new(),
    lists: None,
    weights: None,
    onnx: None,
};

/// A folder for the run of a turn.
fn folder() -> PathBuf {
    env::temp_dir().join(format!("orco-views-{}", std::process::id()))
}

/// Views per second of a turn in this process.
fn ours(case: &Case) -> f64 {
    turn(case, &folder(), &RankGroup::alone()).expect("a rate")
}

/// Trains a turn for every line of the input, as one of the ranks that the environment tells of, and prints its rate.
fn train_turns(case: &Case) {
    let group = RankGroup::from_environment(DeviceChoice::Cpu).expect("the other ranks");
    let folder = PathBuf::from(env::var_os(FOLDER).expect("set with the case's name"));
    for _ in std::io::stdin().lines() {
        if let Some(rate) = turn(case, &folder, &group) {
            println!("{rate}");
        }
    }
}

/// Processes that train a turn for every line that they are sent; the first one prints its views per second.
struct Trainer {
    processes: Vec<Child>,
    rates: BufReader<ChildStdout>,
}

impl Trainer {
    /// Starts `ranks` ranks of a program, each with `threads` threads.
    fn start(ranks: usize, threads: usize, program: &dyn Fn() -> Command) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let start = |rank: usize| {
            let mut command = program();
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).env("OMP_NUM_THREADS", threads.to_string());
            if ranks > 1 {
                let numbers =
                    [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", ranks), ("MASTER_PORT", port.into())];
                command.envs(numbers.map(|(name, number)| (name, number.to_string()))).env("MASTER_ADDR", "127.0.0.1");
            }
            command.spawn().expect("ORCO_PYTHON names a program")
        };
        let mut processes: Vec<Child> = (0..ranks).map(start).collect();
        let rates = BufReader::new(processes[0].stdout.take().expect("a pipe"));
        Self { processes, rates }
    }

    /// This program's.
    fn ours(case: &Case, ranks: usize, threads: usize) -> Self {
        Self::start(ranks, threads, &|| {
            let mut command = Command::new(env::current_exe().expect("this program has a path"));
            command.env(CASE, case.name).env(FOLDER, folder());
            command
        })
    }

    /// PyTorch's, if a Python that has it was named.
    fn pytorch(case: &Case, ranks: usize, threads: usize) -> Option<Self> {
        let python = env::var_os("ORCO_PYTHON")?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/views/pytorch.py");
        let named = |value: Value| value.as_str().expect("choices are names").to_owned();
        let family = named(json!(case.architecture));
        let precision = named(json!(case.precision));
        let counts = [case.width as usize, case.batch, EPOCHS, case.steps, CLASSES].map(|count| count.to_string());
        let mut started = Self::start(ranks, threads, &|| {
            let mut command = Command::new(&python);
            command.arg(&script).args([&family, &precision]).args(&counts);
            // Its own libtorch, not ours; and freed memory stays with it, as with us.
            command.env_remove("LD_LIBRARY_PATH");
            command.env("MALLOC_MMAP_MAX_", "0").env("MALLOC_TRIM_THRESHOLD_", "34359738368");
            command
        });
        let parameters = Description::new(&case.recipe().backbone, INPUT).parameters();
        assert_eq!(started.number() as i64, parameters, "parameters of {family} in PyTorch and here");
        Some(started)
    }

    /// Views per second of a turn.
    fn turn(&mut self) -> f64 {
        for process in &mut self.processes {
            writeln!(process.stdin.as_mut().expect("a pipe")).expect("the process reads what it is sent");
        }
        self.number()
    }

    /// The next line.
    fn number(&mut self) -> f64 {
        let mut line = String::new();
        self.rates.read_line(&mut line).expect("the process answers in text");
        line.trim().parse().expect("ORCO_PYTHON names a Python that imports torch")
    }

    /// The processes end with their input: all of them first, since ranks leave together.
    fn stop(mut self) {
        self.processes.iter_mut().for_each(|process| drop(process.stdin.take()));
        for process in &mut self.processes {
            process.wait().expect("the process is ours");
        }
    }
}

/// A process that keeps a core busy, until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
        thread::sleep(BEFORE);
        Self(child)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().expect("the process is ours");
        self.0.wait().expect("it has been killed");
    }
}

/// Lower quartile, median and upper quartile.
fn quartiles(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[(numbers.len() - 1) * quarter / 4])
}

/// The rates side by side, a line for every case.
fn compare(cases: &[&Case]) {
    if !cases.is_empty() {
        println!("{:22} {:>8} {:>8} {:>8}   (quartiles)", "", "ours", "PyTorch", "ratio");
    }
    for case in cases {
        let mut pytorch = Trainer::pytorch(case, 1, tch::get_num_threads() as usize);
        // The first turn of both makes their memory and kernels.
        let pairs = (0..=TURNS).map(|_| (ours(case), pytorch.as_mut().map(Trainer::turn))).skip(1);
        let (own, their): (Vec<f64>, Vec<Option<f64>>) = pairs.unzip();
        let their: Vec<f64> = their.into_iter().flatten().collect();
        let ratios: Vec<f64> = own.iter().zip(&their).map(|(own, their)| own / their).collect();
        let [_, ours, _] = quartiles(own);
        record(case.name, ours, Unit::PerSecond);
        let Some(pytorch) = pytorch else {
            println!("{:22} {ours:8.0}   ORCO_PYTHON names no Python with torch", case.name);
            continue;
        };
        pytorch.stop();
        let ([_, theirs, _], [low, ratio, high]) = (quartiles(their), quartiles(ratios));
        println!("{:22} {ours:8.0} {theirs:8.0} {ratio:8.2}   ({low:.2} to {high:.2})", case.name);
    }
}

/// The rates alone and beside a busy process, a line for every case and program.
fn compare_beside(cases: &[&Case]) {
    if !cases.is_empty() {
        println!("\n{:32} {:>8} {:>8} {:>8}   (quartiles)", "beside a busy process", "alone", "beside", "share");
    }
    for case in cases {
        let row = |program: &str, turn: &mut dyn FnMut() -> f64| {
            turn();
            let mut pair = || {
                let alone = turn();
                let _busy = Busy::start();
                (alone, turn())
            };
            let (alone, beside): (Vec<f64>, Vec<f64>) = (0..TURNS_BESIDE).map(|_| pair()).unzip();
            let shares = alone.iter().zip(&beside).map(|(alone, beside)| 100.0 * beside / alone).collect();
            let ([_, alone, _], [_, beside, _]) = (quartiles(alone), quartiles(beside));
            let [low, share, high] = quartiles(shares);
            let name = format!("{}, {program}", case.name);
            println!("{name:32} {alone:8.0} {beside:8.0} {share:6.0} %   ({low:.0} to {high:.0} %)");
        };
        row("ours", &mut || ours(case));
        if let Some(mut pytorch) = Trainer::pytorch(case, 1, tch::get_num_threads() as usize) {
            row("PyTorch", &mut || pytorch.turn());
            pytorch.stop();
        }
    }
}

/// The rates of one process with two threads and of two with one each, a line for every case and program.
fn compare_ranks(cases: &[&Case]) {
    if !cases.is_empty() {
        println!("\n{:32} {:>8} {:>8} {:>8}   (quartiles)", "ranks x threads", "1 x 2", "2 x 1", "share");
    }
    for case in cases {
        let row = |program: &str, mut whole: Trainer, mut shared: Trainer| {
            let pairs = (0..=TURNS_BESIDE).map(|_| (whole.turn(), shared.turn())).skip(1);
            let (one, two): (Vec<f64>, Vec<f64>) = pairs.unzip();
            whole.stop();
            shared.stop();
            let shares = one.iter().zip(&two).map(|(one, two)| 100.0 * two / one).collect();
            let ([_, one, _], [_, two, _], [low, share, high]) = (quartiles(one), quartiles(two), quartiles(shares));
            let name = format!("{}, {program}", case.name);
            println!("{name:32} {one:8.0} {two:8.0} {share:6.0} %   ({low:.0} to {high:.0} %)");
        };
        row("ours", Trainer::ours(case, 1, 2), Trainer::ours(case, 2, 1));
        if let (Some(whole), Some(shared)) = (Trainer::pytorch(case, 1, 2), Trainer::pytorch(case, 2, 1)) {
            row("PyTorch", whole, shared);
        }
    }
}

fn main() {
    orco_trainer::platform::system::keep_memory();
    orco_trainer::platform::waiting::watch();
    let small = |name, precision| Case {
        name,
        architecture: Architecture::Resnet18,
        width: 16,
        batch: 256,
        steps: 4,
        precision,
    };
    let large = |name, precision| Case {
        name,
        architecture: Architecture::Resnet12,
        width: 64,
        batch: 64,
        steps: 4,
        precision,
    };
    let mobile =
        |name, precision| Case { architecture: Architecture::Mobilenetv2, width: 11, ..small(name, precision) };
    let cases = [
        small("resnet18-w16, f32", Precision::F32),
        small("resnet18-w16, bf16", Precision::Bf16),
        large("resnet12-w64, f32", Precision::F32),
        large("resnet12-w64, bf16", Precision::Bf16),
        mobile("mobilenetv2-w11, f32", Precision::F32),
        mobile("mobilenetv2-w11, bf16", Precision::Bf16),
    ];
    let tiny = Case { width: 8, batch: 64, steps: 8, ..small("resnet18-w8, f32", Precision::F32) };
    let beside = [tiny, small("resnet18-w16, f32", Precision::F32)];
    if let Ok(name) = env::var(CASE) {
        let case = beside.iter().find(|case| case.name == name);
        return train_turns(case.expect("the name of a case"));
    }
    println!("views per second of phase 1 (cross entropy and SCL, one view), {} threads", tch::get_num_threads());
    // Arguments choose cases by parts of their names (cargo adds `--bench`), and `alone`, `beside` or `ranks` one of
    // the tables.
    let wanted: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    fn choose<'a>(cases: &'a [Case], table: &str, wanted: &[String]) -> Vec<&'a Case> {
        let fits = |case: &&Case| wanted.iter().all(|part| part == table || case.name.contains(part.as_str()));
        cases.iter().filter(fits).collect()
    }
    compare(&choose(&cases, "alone", &wanted));
    compare_beside(&choose(&beside, "beside", &wanted));
    compare_ranks(&choose(&beside, "ranks", &wanted));
}

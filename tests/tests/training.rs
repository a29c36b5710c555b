//! Training on small images made here: a run that is stopped and resumed equals one that never stopped, and the way
//! from images to an aligned head works.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use orco_trainer::align::align;
use orco_trainer::config::Recipe;
use orco_trainer::dataset::{Images, Split};
use orco_trainer::model::Model;
use orco_trainer::pretrain::pretrain;
use orco_trainer::run::Run;
use tch::{Device, Kind, Tensor};

/// torch has one random generator per process, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

const CLASSES: i64 = 6;
const EACH: i64 = 24;
/// Names the run folder of the process that is killed.
const CHILD: &str = "ORCO_TEST_KILLED_RUN";
const KILLED_EPOCHS: usize = 40;

/// Noise around one colour and one corner per class, 16x16.
fn images() -> Images {
    tch::manual_seed(3);
    let base = Tensor::rand([CLASSES, 3, 2, 2], (Kind::Float, Device::Cpu)) * 200.0;
    let large = base.upsample_nearest2d([16, 16], None, None).repeat_interleave_self_int(EACH, 0, CLASSES * EACH);
    let noisy = &large + large.rand_like() * 55.0;
    let labels = (0..CLASSES as u16).flat_map(|class| std::iter::repeat_n(class, EACH as usize)).collect();
    Images { pixels: noisy.to_kind(Kind::Uint8), labels }
}

fn recipe(epochs: usize) -> Recipe {
    let text = include_str!("../../trainer/recipes/cifar100-edge.toml");
    let mut recipe: Recipe = toml::from_str(text).unwrap();
    (recipe.split.base_classes, recipe.split.sessions, recipe.split.ways) = (4, 1, 2);
    (recipe.backbone.width, recipe.head.hidden, recipe.head.projection) = (4, 32, 8);
    (recipe.pretrain.epochs, recipe.pretrain.batch, recipe.pretrain.warmup_epochs) = (epochs, 16, 1);
    (recipe.pretrain.views, recipe.pretrain.self_contrast) = (2, 0.1);
    (recipe.align.epochs, recipe.align.batch, recipe.align.cached_views) = (30, 16, 3);
    recipe.align.learning_rate = 0.1;
    recipe.targets.count = 8;
    recipe
}

/// Weights after training `recipe`, stopping whenever the run's checkpoint reaches one of `stops`.
fn train(recipe: &Recipe, folder: &std::path::Path, stops: &[usize]) -> Vec<(String, Tensor)> {
    let images = images();
    let split = Split::new(&recipe.split, 5, &images, &images, None, recipe.seed).unwrap();
    let run = Run::open(folder, recipe).unwrap();
    for &stop in stops {
        let mut model = Model::new(recipe, [3, 16, 16], Device::Cpu);
        pretrain(&mut model, recipe, &images, &split, &run, Some(stop)).unwrap();
    }
    let mut model = Model::new(recipe, [3, 16, 16], Device::Cpu);
    pretrain(&mut model, recipe, &images, &split, &run, None).unwrap();
    model.tensors()
}

#[test]
fn a_resumed_run_equals_one_that_never_stopped() {
    let _turn = TURN.lock();
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recipe = recipe(4);
    let straight = train(&recipe, one.path(), &[]);
    let resumed = train(&recipe, two.path(), &[1, 3]);
    for ((name, straight), (_, resumed)) in straight.iter().zip(&resumed) {
        assert!(straight.equal(resumed), "{name} differs");
    }
    let other = Recipe { seed: 2, ..recipe };
    let error = Run::open(one.path(), &other).unwrap_err().to_string();
    assert!(error.contains("another recipe"), "{error}");
}

/// Not a test of its own: what [`a_killed_run_continues`] starts as another process and kills.
#[test]
#[ignore = "started by a_killed_run_continues"]
fn child_that_trains() {
    if let Some(folder) = std::env::var_os(CHILD) {
        train(&recipe(KILLED_EPOCHS), folder.as_ref(), &[]);
    }
}

#[test]
fn a_killed_run_continues() {
    let _turn = TURN.lock();
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recipe = recipe(KILLED_EPOCHS);
    let straight = train(&recipe, one.path(), &[]);
    for wanted in [1, 4] {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program)
            .args(["--exact", "child_that_trains", "--ignored"])
            .env(CHILD, two.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let epochs = || std::fs::read_to_string(two.path().join("metrics.jsonl")).unwrap_or_default().lines().count();
        let started = Instant::now();
        while epochs() < wanted && started.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!((wanted..KILLED_EPOCHS).contains(&epochs()), "killed after {} epochs", epochs());
    }
    let resumed = train(&recipe, two.path(), &[]);
    for ((name, straight), (_, resumed)) in straight.iter().zip(&resumed) {
        assert!(straight.equal(resumed), "{name} differs");
    }
}

#[test]
fn alignment_brings_base_classes_to_their_targets() {
    let _turn = TURN.lock();
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(6);
    let images = images();
    let split = Split::new(&recipe.split, 5, &images, &images, None, recipe.seed).unwrap();
    let run = Run::open(folder.path(), &recipe).unwrap();
    let mut model = Model::new(&recipe, [3, 16, 16], Device::Cpu);
    pretrain(&mut model, &recipe, &images, &split, &run, None).unwrap();
    let assignment = align(&mut model, &recipe, &images, &split, &run).unwrap();
    let mut rows = assignment.rows.clone();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), 4, "two classes share a target: {:?}", assignment.rows);
    let metrics = std::fs::read_to_string(run.path("metrics.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert!(last["accuracy"].as_f64().unwrap() > 90.0, "{last}");
    let mut again = Model::new(&recipe, [3, 16, 16], Device::Cpu);
    let loaded = align(&mut again, &recipe, &images, &split, &run).unwrap();
    assert_eq!(loaded.rows, assignment.rows);
    assert!(again.head.w1.equal(&model.head.w1), "a finished phase is trained again");
}

//! Training on small images made here: a run that is stopped and resumed equals one that never stopped, and the way
//! from images to an aligned head works.

use std::process::{Command, Stdio};
use std::time::Duration;

use orco_tests::tiny::{self, images};
use orco_trainer::config::{AugmentPolicy, OptimiserKind, Precision, Recipe};
use orco_trainer::data::dataset::{Images, Split};
use orco_trainer::model::Model;
use orco_trainer::run::{PRETRAIN_CHECKPOINT, Run};
use orco_trainer::train::base_align::align;
use orco_trainer::train::pretrain::pretrain;
use orco_trainer::train::training_loop::BaseSession;
use tch::{Device, Tensor};

/// Names the run folder of the process that is killed.
const CHILD: &str = "ORCO_TEST_KILLED_RUN";
/// Epochs of that process: enough that it is killed before it ends.
const KILLED_EPOCHS: usize = 16;

fn recipe(epochs: usize) -> Recipe {
    let mut recipe = tiny::recipe(epochs);
    (recipe.pretrain.views, recipe.pretrain.self_contrast) = (2, 0.1);
    // As shipped: what resumes must do so in this arithmetic, too.
    recipe.pretrain.precision = Precision::Bf16;
    recipe
}

fn split(recipe: &Recipe, images: &Images) -> Split {
    Split::new(&recipe.split, 5, images, images, None, recipe.seed).unwrap()
}

fn untrained(recipe: &Recipe) -> Model {
    Model::new(recipe, [3, 16, 16], Device::Cpu)
}

/// Demands that a resumed training gave the weights of one that never stopped.
fn assert_same_weights(straight: &[(String, Tensor)], resumed: &[(String, Tensor)]) {
    for ((name, straight), (_, resumed)) in straight.iter().zip(resumed) {
        assert!(straight.equal(resumed), "{name} differs");
    }
}

/// Weights after training `recipe`, stopping whenever the run's checkpoint reaches one of `stops`.
fn train(recipe: &Recipe, folder: &std::path::Path, stops: &[usize]) -> Vec<(String, Tensor)> {
    let images = images();
    let split = split(recipe, &images);
    let run = Run::open(folder, recipe).unwrap();
    let base = BaseSession { images: &images, split: &split, seed: recipe.seed, run: &run };
    for &stop in stops {
        let mut model = untrained(recipe);
        pretrain(&mut model, &recipe.pretrain, &base, Some(stop)).unwrap();
    }
    let mut model = untrained(recipe);
    pretrain(&mut model, &recipe.pretrain, &base, None).unwrap();
    model.tensors()
}

#[test]
fn a_resumed_run_equals_one_that_never_stopped() {
    let _turn = orco_trials::torch_generator();
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recipe = recipe(4);
    let straight = train(&recipe, one.path(), &[]);
    let resumed = train(&recipe, two.path(), &[1, 3]);
    assert_same_weights(&straight, &resumed);
    let other = Recipe { seed: 2, ..recipe };
    let error = Run::open(one.path(), &other).unwrap_err().to_string();
    assert!(error.contains("another recipe"), "{error}");
}

/// Trains straight and in three pieces, and demands the same weights.
fn resumes_exactly(recipe: &Recipe) {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let straight = train(recipe, one.path(), &[]);
    let resumed = train(recipe, two.path(), &[1, 2]);
    assert_same_weights(&straight, &resumed);
    let read = |folder: &tempfile::TempDir| std::fs::read(folder.path().join(PRETRAIN_CHECKPOINT)).unwrap();
    assert!(read(&one) == read(&two), "the checkpoints differ");
}

#[test]
fn a_resumed_run_with_lars_and_policies_equals_one_that_never_stopped() {
    let _turn = orco_trials::torch_generator();
    let mut recipe = recipe(3);
    recipe.pretrain.optimiser = OptimiserKind::Lars;
    for policy in [AugmentPolicy::AutoAugment, AugmentPolicy::RandAugment { operations: 2, magnitude: 10 }] {
        recipe.pretrain.augment.policy = policy;
        (recipe.pretrain.augment.hue, recipe.pretrain.augment.cutout) = (0.1, 4);
        resumes_exactly(&recipe);
    }
}

#[test]
fn phase_1_ends_with_the_mean_of_the_last_epochs_weights() {
    let _turn = orco_trials::torch_generator();
    let (plain_folder, averaged_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut recipe = recipe(4);
    recipe.pretrain.precision = Precision::F32;
    let after_4 = train(&recipe, plain_folder.path(), &[3]);
    let run = Run::open(plain_folder.path(), &recipe).unwrap();
    // The checkpoint before the last is that of epoch 3.
    let after_3 = run.load("pretrain-previous.safetensors").unwrap().unwrap();
    recipe.pretrain.average_last = 2;
    let averaged = train(&recipe, averaged_folder.path(), &[]);
    for ((name, last), (_, mean)) in after_4.iter().zip(&averaged) {
        if last.requires_grad() {
            let expected = (last + &after_3[name]) / 2.0;
            assert!(mean.allclose(&expected, 1e-5, 1e-7, false), "{name} is not the mean");
        } else if name.ends_with("norm_variance") {
            assert!(!mean.equal(last), "{name} was not estimated anew");
        }
    }
    resumes_exactly(&recipe);
    recipe.pretrain.precision = Precision::Bf16;
    recipe.pretrain.average_last = 4;
    resumes_exactly(&recipe);
}

/// Where libtorch has f16 convolutions, a run with a scaled loss resumes; elsewhere it is refused before it starts.
#[test]
fn f16_trains_or_is_refused() {
    let _turn = orco_trials::torch_generator();
    let mut recipe = recipe(3);
    recipe.pretrain.precision = Precision::F16;
    let (images, folder) = (images(), tempfile::tempdir().unwrap());
    let split = split(&recipe, &images);
    let run = Run::open(folder.path(), &recipe).unwrap();
    let base = BaseSession { images: &images, split: &split, seed: recipe.seed, run: &run };
    let mut model = untrained(&recipe);
    match pretrain(&mut model, &recipe.pretrain, &base, None) {
        Ok(()) => {
            assert!(run.load(PRETRAIN_CHECKPOINT).unwrap().unwrap().contains_key("scaler.scale"));
            let losses: Vec<f64> = run.metrics("pretrain").iter().map(|line| line["loss"].as_f64().unwrap()).collect();
            assert!(losses[2] < losses[0], "{losses:?}");
            resumes_exactly(&recipe);
        }
        Err(error) => assert!(error.to_string().contains("set pretrain.precision to"), "{error:#}"),
    }
}

/// With steps of no length, a run's loss is that of the first weights under the seed's views: that of a mixture must
/// be the mixture of those of its parts, for any number of views.
#[test]
fn the_losses_mix_by_their_weights() {
    let _turn = orco_trials::torch_generator();
    let loss = |views: usize, supervised: f64, alone: f64, cross_entropy: f64| {
        let mut recipe = recipe(1);
        recipe.pretrain.precision = Precision::F32;
        (recipe.pretrain.learning_rate, recipe.pretrain.views) = (1e-30, views);
        recipe.pretrain.warmup_epochs = 0;
        recipe.pretrain.supervised_contrast = supervised;
        (recipe.pretrain.self_contrast, recipe.pretrain.cross_entropy) = (alone, cross_entropy);
        let folder = tempfile::tempdir().unwrap();
        train(&recipe, folder.path(), &[]);
        Run::open(folder.path(), &recipe).unwrap().metrics("pretrain")[0]["loss"].as_f64().unwrap()
    };
    for views in [2, 3, 4] {
        let parts = (loss(views, 1.0, 0.0, 0.0), loss(views, 0.0, 1.0, 0.0), loss(views, 0.0, 0.0, 1.0));
        let paper = loss(views, 0.9, 0.1, 0.0);
        assert!((paper - 0.9 * parts.0 - 0.1 * parts.1).abs() < 1e-4, "{views} views: {paper} from {parts:?}");
        let all = loss(views, 0.5, 0.2, 2.0);
        let expected = 0.5 * parts.0 + 0.2 * parts.1 + 2.0 * parts.2;
        assert!((all - expected).abs() < 1e-4, "{views} views: {all}, not {expected}");
    }
    let (supervised, cross_entropy) = (loss(1, 1.0, 0.0, 0.0), loss(1, 0.0, 0.0, 1.0));
    assert!((loss(1, 1.0, 0.0, 1.0) - supervised - cross_entropy).abs() < 1e-4);
}

#[test]
fn a_loss_that_is_no_number_keeps_the_last_good_checkpoint() {
    let _turn = orco_trials::torch_generator();
    let (recipe, images, folder) = (recipe(3), images(), tempfile::tempdir().unwrap());
    let split = split(&recipe, &images);
    let run = Run::open(folder.path(), &recipe).unwrap();
    let base = BaseSession { images: &images, split: &split, seed: recipe.seed, run: &run };
    let mut model = untrained(&recipe);
    pretrain(&mut model, &recipe.pretrain, &base, Some(1)).unwrap();
    // A momentum that sends the classifier out of range with the next step.
    let tensors = run.load(PRETRAIN_CHECKPOINT).unwrap().unwrap().into_iter();
    let far = |(name, tensor): (String, Tensor)| {
        let changed = if name == "momentum.classifier.weight" { tensor * 0.0 + 3e38 } else { tensor };
        (name, changed)
    };
    let mut tensors: Vec<_> = tensors.map(far).collect();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    run.save(PRETRAIN_CHECKPOINT, &tensors, 1).unwrap();
    let before = std::fs::read(run.path(PRETRAIN_CHECKPOINT)).unwrap();
    let mut model = untrained(&recipe);
    let error = pretrain(&mut model, &recipe.pretrain, &base, None).unwrap_err().to_string();
    assert!(error.starts_with("the loss became ") && error.contains("the checkpoint of epoch 1 is kept"), "{error}");
    assert!(std::fs::read(run.path(PRETRAIN_CHECKPOINT)).unwrap() == before, "the checkpoint was replaced");
    assert_eq!(run.metrics("pretrain").len(), 1);
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
    let _turn = orco_trials::torch_generator();
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recipe = recipe(KILLED_EPOCHS);
    let straight = train(&recipe, one.path(), &[]);
    for wanted in [1, 4] {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program)
            .args(["--exact", "training::child_that_trains", "--ignored"])
            .env(CHILD, two.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let epochs = || std::fs::read_to_string(two.path().join("metrics.jsonl")).unwrap_or_default().lines().count();
        while epochs() < wanted {
            assert!(child.try_wait().unwrap().is_none(), "the training ended after {} epochs", epochs());
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!((wanted..KILLED_EPOCHS).contains(&epochs()), "killed after {} epochs", epochs());
    }
    let resumed = train(&recipe, two.path(), &[]);
    assert_same_weights(&straight, &resumed);
}

#[test]
fn alignment_brings_base_classes_to_their_targets() {
    let _turn = orco_trials::torch_generator();
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(20);
    recipe.pretrain.precision = Precision::F32;
    let images = images();
    let split = split(&recipe, &images);
    let run = Run::open(folder.path(), &recipe).unwrap();
    let base = BaseSession { images: &images, split: &split, seed: recipe.seed, run: &run };
    let mut model = untrained(&recipe);
    pretrain(&mut model, &recipe.pretrain, &base, None).unwrap();
    let targets = align(&mut model, (&recipe).into(), &base).unwrap();
    let mut rows = targets.assignment.clone();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), 4, "two classes share a target: {:?}", targets.assignment);
    let metrics = std::fs::read_to_string(run.path("metrics.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert!(last["accuracy"].as_f64().unwrap() > 90.0, "{last}");
    let mut again = untrained(&recipe);
    let loaded = align(&mut again, (&recipe).into(), &base).unwrap();
    assert_eq!(loaded.assignment, targets.assignment);
    assert!(again.head.w1.equal(&model.head.w1), "a finished phase is trained again");
}

//! A bundle whose backbone looks closer: trained, opened, taught, and kept apart from one that sees whole pictures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::encode_pictures;
use orco_runtime::encoder::engine_choice::{EngineChoice, Workload};
use orco_runtime::image::{Look, Preprocessing};
use orco_runtime::image_rs::{Rgb, RgbImage, imageops};
use orco_runtime::pack::PackOrigin;
use orco_runtime::prelude::*;

use crate::support::synthetic;

fn train(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orco-train")).args(arguments).output().unwrap()
}

fn succeeds(arguments: &[&Path]) {
    let output = train(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A bundle that sees whole pictures, and one on the same backbone that looks closer, with the recipe of the latter.
fn bundles(folder: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let small = [
        ("data", "train_per_class", 20),
        ("data", "test_per_class", 4),
        ("split", "base_classes", 6),
        ("split", "sessions", 1),
        ("backbone", "width", 4),
        ("pretrain", "epochs", 2),
        ("pretrain", "batch", 32),
        ("targets", "steps", 40),
        ("align", "epochs", 1),
        ("align", "batch", 32),
        ("export", "candidates_per_class", 6),
        ("export", "draws", 1),
    ];
    let whole_recipe = synthetic(folder, &small);
    let (whole, closer) = (folder.join("whole"), folder.join("closer"));
    let made = |recipe: &Path, run: &str, output: &Path| {
        let run = folder.join(run);
        succeeds(&["run".as_ref(), recipe, "--run".as_ref(), &run, "--output".as_ref(), output]);
    };
    made(&whole_recipe, "run-whole", &whole);
    let mut recipe: toml::Table = fs::read_to_string(&whole_recipe).unwrap().parse().unwrap();
    recipe.remove("pretrain");
    recipe["data"].as_table_mut().unwrap().insert("look".into(), vec![1.0, 0.75].into());
    let weights = whole.join("backbone.onnx").display().to_string();
    recipe["backbone"].as_table_mut().unwrap().insert("weights".into(), weights.into());
    let closer_recipe = folder.join("closer.toml");
    fs::write(&closer_recipe, recipe.to_string()).unwrap();
    made(&closer_recipe, "run-closer", &closer);
    (whole, closer, closer_recipe)
}

/// A picture of one colour around a middle of another.
fn picture(around: u8, middle: [u8; 3]) -> RgbImage {
    let is_middle = |at: u32| (20..60).contains(&at);
    RgbImage::from_fn(80, 80, |x, y| {
        if is_middle(x) && is_middle(y) { Rgb(middle) } else { Rgb([around, (x * 3) as u8, (y * 3) as u8]) }
    })
}

/// Features are the mean over those of the whole picture and of its middle, whoever computes them.
fn features_are_means(bundle: &Bundle) {
    let input = bundle.manifest.preprocessing;
    assert_eq!((input.look, input.canvas(), bundle.manifest.format), (Look::new(&[1.0, 0.75]).unwrap(), [32, 32], 2));
    let mut encoder = bundle.encoder(EngineChoice::OnnxRuntime, Workload::Shots).unwrap().encoder;
    let picture = picture(200, [10, 90, 30]);
    let once = Preprocessing { look: Look::WHOLE, ..input };
    let canvas = input.fit(&picture);
    let parts = [once.fit(&canvas), imageops::crop_imm(&canvas, 4, 4, 24, 24).to_image()];
    let rows = encode_pictures(encoder.as_mut(), &once, bundle.base_model.head.inputs, &parts).unwrap();
    let mean = (&rows.row(0) + &rows.row(1)) / 2.0;
    let features = bundle.features(encoder.as_mut(), &picture, 1).unwrap();
    assert!((&features.row(0) - &mean).iter().all(|difference| difference.abs() < 1e-5));
    assert!((&features.row(0) - &rows.row(0)).iter().any(|difference| difference.abs() > 1e-3));
}

#[test]
fn a_bundle_that_looks_closer_learns_and_takes_nothing_from_one_that_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, closer, recipe) = bundles(folder.path());
    let bundle = Bundle::open(&closer).unwrap();
    features_are_means(&bundle);
    let card = fs::read_to_string(closer.join("README.md")).unwrap();
    assert!(card.contains("- Look: whole picture and its middle (0.75 of the side)."), "{card}");
    assert_eq!(Bundle::open(&whole).unwrap().manifest.format, 1);

    let learner = |bundle: &Path, state: &str| {
        let settings = LearnerSettings::default().engine(EngineChoice::OnnxRuntime);
        Learner::new(Bundle::open(bundle).unwrap(), Store::new(folder.path().join(state)), settings).unwrap()
    };
    let shots = [10, 60, 110, 160, 210].map(|around| picture(around, [230, 20, 20]));
    let mut states = Vec::new();
    for state in ["one", "two"] {
        let mut learner = learner(&closer, state);
        let fresh = learner.state().clone();
        learner.learn("lamp", Shots::Pictures(&shots)).unwrap().durable().unwrap();
        assert_eq!(learner.classify(&shots[1]).unwrap().label, "lamp");
        states.push(learner.state().clone());
        learner.undo(1, &mut ()).unwrap().durable().unwrap();
        assert_eq!(*learner.state(), fresh);
        learner.redo(1, &mut ()).unwrap().durable().unwrap();
        assert_eq!(*learner.state(), states[0]);
    }
    assert_eq!(states[0], states[1]);

    let pack = learner(&closer, "one").export("lamp", PackOrigin::default()).unwrap();
    let mut other = learner(&whole, "other");
    let refused = other.import(&[PackClass { pack: &pack, label: None }], &mut ()).unwrap_err().to_string();
    assert!(refused.contains("another bundle"), "{refused}");

    // Statistics of whole pictures do not belong to it.
    let mut differs: toml::Table = fs::read_to_string(&recipe).unwrap().parse().unwrap();
    differs["data"].as_table_mut().unwrap().remove("look");
    let wrong = folder.path().join("wrong.toml");
    fs::write(&wrong, differs.to_string()).unwrap();
    let output = train(&["statistics".as_ref(), &wrong, "--bundle".as_ref(), &closer]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("sees the whole picture and its middle"), "{said}");
    statistics_of_another_split_are_refused(&recipe, &closer, folder.path());
}

/// By another seed, or with others set aside, images that were trained on would count as unseen.
fn statistics_of_another_split_are_refused(recipe: &Path, bundle: &Path, folder: &Path) {
    let refused = |recipe: &Path, more: &[&str]| {
        let mut arguments = vec![Path::new("statistics"), recipe, Path::new("--bundle"), bundle];
        arguments.extend(more.iter().map(Path::new));
        let output = train(&arguments);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refused(recipe, &["--seed", "7"]);
    assert!(said.contains("was trained with seed 1, not 7") && said.contains("give --seed 1"), "{said}");
    let mut differs: toml::Table = fs::read_to_string(recipe).unwrap().parse().unwrap();
    differs["split"].as_table_mut().unwrap().insert("set_aside_per_class".into(), 3.into());
    let other = folder.join("other-split.toml");
    fs::write(&other, differs.to_string()).unwrap();
    let said = refused(&other, &[]);
    assert!(said.contains("was trained on synthetic objects") && said.contains("give those"), "{said}");
    differs["split"].as_table_mut().unwrap().insert("set_aside_per_class".into(), 0.into());
    differs["data"].as_table_mut().unwrap().insert("image_size".into(), 48.into());
    fs::write(&other, differs.to_string()).unwrap();
    let said = refused(&other, &[]);
    assert!(said.contains("takes images of 24 x 24 pixels, but the recipe's data.image_size is 48"), "{said}");
    // The recipe that it was made from is right. A bundle that answers by statistics keeps its settings.
    succeeds(&["preset".as_ref(), bundle, "closed-form".as_ref()]);
    succeeds(&["statistics".as_ref(), recipe, "--bundle".as_ref(), bundle]);
    let manifest: toml::Table = fs::read_to_string(bundle.join("manifest.toml")).unwrap().parse().unwrap();
    assert_eq!(manifest["learn"]["epochs"].as_integer(), Some(0));
}

#[test]
fn what_sees_whole_images_cannot_look_closer() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe: toml::Table = fs::read_to_string(synthetic::<i64>(folder.path(), &[])).unwrap().parse().unwrap();
    recipe["data"].as_table_mut().unwrap().insert("look".into(), vec![1.0, 0.75].into());
    let path = folder.path().join("closer.toml");
    fs::write(&path, recipe.to_string()).unwrap();
    let output = train(&["pretrain".as_ref(), &path, "--run".as_ref(), &folder.path().join("run")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("recipe: data.look is whole picture and its middle"), "{said}");
}

//! `orco-lab seeds` on shipped bundles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use orco_benchmark::benchmark::Benchmark;
use orco_lab::seeds::check;
use orco_runtime::bundle::Bundle;
use serde_json::Value;

use crate::shipped::{copy, models};
use crate::support::shorten;

/// A copy of the smallest bundle that says it was trained with another seed.
fn with_seed(folder: &Path, seed: u64) -> PathBuf {
    let bundle = folder.join(format!("seed {seed}"));
    copy("cifar100-micro", &bundle);
    let manifest = fs::read_to_string(bundle.join("manifest.toml")).unwrap();
    assert!(manifest.contains("\nseed = 1\n"));
    fs::write(bundle.join("manifest.toml"), manifest.replace("\nseed = 1\n", &format!("\nseed = {seed}\n"))).unwrap();
    bundle
}

/// Two such copies, opened.
fn two_seeds(folder: &Path) -> [(Bundle, Benchmark); 2] {
    [1, 2].map(|seed| {
        let bundle = Bundle::open(with_seed(folder, seed)).unwrap();
        let benchmark = Benchmark::of(&bundle).unwrap();
        (bundle, benchmark)
    })
}

fn seeds(bundles: &[&Path], output: &Path) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_orco-lab"));
    program.arg("seeds").args(bundles).args(["--untrained", "--draws", "2", "--output"]).arg(output);
    program.output().unwrap()
}

#[test]
fn trainings_are_taken_together() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (with_seed(folder.path(), 1), with_seed(folder.path(), 2));
    [&first, &second].into_iter().for_each(|bundle| shorten(bundle));
    let output = folder.path().join("numbers");
    let done = seeds(&[&first, &second], &output);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json: Value = serde_json::from_str(&fs::read_to_string(output.join("seeds.json")).unwrap()).unwrap();
    let ours = &json["systems"][0];
    let number = |pointer: &str| ours.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}"));
    // The same training twice: seeds make no difference, draws make that of one.
    assert_eq!(ours["trainings"]["each"][0], ours["trainings"]["each"][1]);
    assert_eq!(
        (number("/trainings/over_seeds/ahm_deviation"), number("/trainings/over_seeds/deviations/2/hm")),
        (0.0, 0.0)
    );
    assert!((number("/ahm_deviation") - number("/trainings/each/0/ahm_deviation")).abs() < 1e-9);
    assert!(number("/ahm_deviation") > 0.0);
    let csv = fs::read_to_string(output.join("seeds.csv")).unwrap();
    let line = csv.lines().find(|line| line.starts_with("device,2,hm,")).unwrap();
    assert_eq!(line.split(',').nth(3).unwrap().parse::<f64>().unwrap(), number("/trainings/over_seeds/sessions/2/hm"));
    let shown = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(shown.contains(&format!("{:.2} ± ", number("/trainings/over_seeds/ahm"))), "{shown}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_standard_output_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_orco-lab"));
    program.arg("seeds").args([1, 2].map(|seed| with_seed(folder.path(), seed)));
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let done = program.stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && said.starts_with("error: cannot write to standard output: "), "{said}");
}

#[test]
fn what_differs_in_more_than_the_seed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = with_seed(folder.path(), 1);
    let output = folder.path().join("numbers");
    let refused = |bundles: &[&Path]| {
        let done = seeds(bundles, &output);
        assert!(!done.status.success() && !output.exists());
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    assert!(refused(&[&first]).contains("name two or more"));
    assert!(refused(&[&first, &first]).contains("were both trained with seed 1"));
    // Of another size under the same name.
    let second = with_seed(folder.path(), 2);
    let manifest = fs::read_to_string(second.join("manifest.toml")).unwrap();
    let larger = manifest.replace("\nmultiply_adds = 14093056\n", "\nmultiply_adds = 1\n");
    assert_ne!(larger, manifest);
    fs::write(second.join("manifest.toml"), larger).unwrap();
    assert!(refused(&[&first, &second]).contains("differ in their backbones"));
    let other = models().join("cifar100-edge");
    assert!(refused(&[&first, &other]).contains("differ in their backbones"));
}

/// A seed draws which base images are set aside, and what a training from scratch normalises colours by is computed
/// from the others.
#[test]
fn colours_may_be_normalised_by_what_each_training_saw() {
    let folder = tempfile::tempdir().unwrap();
    let bundles = [1, 2].map(|seed| with_seed(folder.path(), seed));
    let changed = |key: &str, value: &str| {
        let path = bundles[1].join("manifest.toml");
        let manifest = fs::read_to_string(&path).unwrap();
        let line = manifest.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap();
        fs::write(&path, manifest.replacen(line, &format!("{key} = {value}"), 1)).unwrap();
        check(&[0, 1].map(|index| {
            let bundle = Bundle::open(&bundles[index]).unwrap();
            let benchmark = Benchmark::of(&bundle).unwrap();
            (bundle, benchmark)
        }))
    };
    changed("mean", "[0.507, 0.486, 0.441]").unwrap();
    changed("deviation", "[0.267, 0.257, 0.276]").unwrap();
    let refused = changed("width", "33").unwrap_err().to_string();
    assert!(refused.contains("differ in how they prepare pictures"), "{refused}");
}

/// A seed may draw the test images, too, under the same numbers.
#[test]
fn other_test_images_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut bundles = two_seeds(folder.path());
    check(&bundles).unwrap();
    bundles
        .iter_mut()
        .zip(1..)
        .for_each(|((_, benchmark), seed)| benchmark.source += &format!(", drawn with seed {seed}"));
    let refused = check(&bundles).unwrap_err().to_string();
    assert!(refused.contains("differ in the images that they are measured on"), "{refused}");
    assert!(refused.contains("draws where no folder `test` sets them apart, so not by their seeds alone"), "{refused}");
}

/// A seed draws synthetic classes, too.
#[test]
fn other_classes_are_refused_with_what_may_have_drawn_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut bundles = two_seeds(folder.path());
    bundles[1].1.labels[0] = "striped star 60".into();
    let refused = check(&bundles).unwrap_err().to_string();
    assert!(refused.contains("differ in their classes, which a seed draws of synthetic data"), "{refused}");
}

//! Bundles and made-up shots for benchmarks that need many classes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::Array3;
use orco_core::config::MethodConfig;
use orco_core::math::normalise;
use orco_core::random::Random;
use orco_runtime::bundle::Bundle;
use orco_runtime::manifest::{LEARNER, MANIFEST, hexadecimal};
use orco_state::codec::{self, FileKind};
use orco_state::state::BaseModel;
use orco_trials::folder::copy_folder;
use orco_trials::system::figure;

/// Shots of a class.
pub const SHOTS: usize = 5;

/// The shipped bundles.
pub fn shipped() -> Vec<PathBuf> {
    let entries = fs::read_dir(models()).unwrap().map(|entry| entry.unwrap().path());
    let mut bundles: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    bundles.sort();
    bundles
}

/// The shipped bundles that the command line names; all of them if it names none.
pub fn bundles() -> Vec<PathBuf> {
    let named = env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let named: Vec<PathBuf> = named.map(|name| models().join(name)).collect();
    if named.is_empty() { shipped() } else { named }
}

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models")
}

/// Features of the shots of a new class, `[shots, views, features]`, around those of one of the bundle's exemplars.
pub fn class(base_model: &BaseModel, random: &mut Random) -> Array3<f32> {
    let exemplars = base_model.exemplars.as_exemplars();
    let mut centre = vec![0.0; exemplars.inputs];
    exemplars.read(random.below(exemplars.len()), 0, &mut centre);
    let length = centre.iter().map(|value| value * value).sum::<f32>().sqrt();
    let spread = length / (exemplars.inputs as f32).sqrt();
    let mut away =
        |by: f32| -> Vec<f32> { centre.iter().map(|value| (value + by * spread * random.normal()).max(0.0)).collect() };
    let mean = away(0.7);
    Array3::from_shape_fn((SHOTS, exemplars.views, exemplars.inputs), |(_, _, feature)| {
        (mean[feature] + 0.4 * spread * random.normal()).max(0.0)
    })
}

/// A copy of a bundle that has room for so many learned classes, with the preset that `ORCO_BENCH_PRESET` names.
pub fn copy_with_room(bundle: &Path, folder: &Path, classes: usize) -> PathBuf {
    copy_folder(bundle, folder);
    let opened = Bundle::open(folder).unwrap();
    let mut base_model = opened.base_model.clone();
    let wanted = base_model.classes.len() + classes;
    let mut random = Random::new(1, "room");
    while base_model.targets.len() < wanted * base_model.dimension {
        let mut target: Vec<f32> = (0..base_model.dimension).map(|_| random.normal()).collect();
        normalise(&mut target);
        base_model.targets.extend(target);
    }
    let learner = codec::encode(FileKind::Learner, &base_model);
    let mut manifest = opened.manifest.clone();
    if let Ok(preset) = env::var("ORCO_BENCH_PRESET") {
        let MethodConfig { views, precision, .. } = manifest.learn;
        manifest.learn = MethodConfig { views, precision, ..MethodConfig::preset(&preset).expect("it is a preset") };
    }
    manifest.files.insert(LEARNER.into(), hexadecimal(&codec::digest(&learner)));
    fs::write(folder.join(MANIFEST), toml::to_string(&manifest).unwrap()).unwrap();
    fs::write(folder.join(LEARNER), learner).unwrap();
    folder.into()
}

/// Bytes that this process has handed to the system to be written, where the system tells.
pub fn bytes_written() -> Option<u64> {
    figure("/proc/self/io", "wchar")
}

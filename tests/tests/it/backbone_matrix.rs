//! Backbones of other makers, as PyTorch's two exporters write them, in both engines: they compute what PyTorch
//! computes. `ORCO_BACKBONES` names the folder of what `tests/fixtures/backbones/other_makers.py` exports; with
//! `ORCO_WRITE_BACKBONES=1` the book's page is written anew.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array4, s};
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::encoder::rten::Rten;
use orco_runtime::encoder::{EncodeError, Encoder};
use orco_runtime::state::sentence::with_causes;
use orco_trainer::config::Recipe;
use orco_trainer::data::dataset::ChannelStatistics;
use orco_trainer::model::backbone::OnnxBackbone;
use orco_trials::torch_generator;
use serde::Deserialize;

const IMAGES: usize = 5;
/// Largest difference from PyTorch's features, as a share of the largest of them.
const LIMIT: f32 = 1e-4;
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/results/backbones.md");

#[derive(Deserialize)]
struct Sizes {
    side: usize,
    features: usize,
    parameters: u64,
}

/// A backbone's pictures, and what PyTorch computes of them.
struct Expected {
    sizes: Sizes,
    images: Array4<f32>,
    features: Vec<f32>,
}

impl Expected {
    fn read(folder: &Path) -> Self {
        let numbers = |name: &str| -> Vec<f32> {
            let bytes = fs::read(folder.join(name)).unwrap();
            bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
        };
        let sizes: Sizes = serde_json::from_slice(&fs::read(folder.join("sizes.json")).unwrap()).unwrap();
        let shape = (IMAGES, 3, sizes.side, sizes.side);
        let images = Array4::from_shape_vec(shape, numbers("images.f32")).unwrap();
        let features = numbers("features.f32");
        assert_eq!(features.len(), IMAGES * sizes.features);
        Self { sizes, images, features }
    }

    /// The largest difference of an engine's features, over one image and a batch.
    fn compare(&self, encoder: &mut dyn Encoder) -> f32 {
        let largest = self.features.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        let mut differs = 0.0f32;
        for count in [1, IMAGES] {
            let features = encoder.encode(self.images.slice(s![..count, .., .., ..])).unwrap();
            assert_eq!(features.len(), count * self.sizes.features);
            let pairs = features.iter().zip(&self.features);
            differs = pairs.map(|(own, theirs)| (own - theirs).abs() / largest).fold(differs, f32::max);
        }
        differs
    }
}

/// The backbone that an exporter wrote, as the recipe's `backbone.onnx`; the reason where there is none.
fn exported(folder: &Path, exporter: &str) -> Result<OnnxBackbone, String> {
    let path = folder.join(format!("{exporter}.onnx"));
    if !path.is_file() {
        let reason = fs::read_to_string(folder.join(format!("{exporter}.txt"))).unwrap();
        return Err(format!("PyTorch cannot write it: {}", reason.trim()));
    }
    let recipe: Recipe = toml::from_str(include_str!("../../../trainer/recipes/synthetic-tiny.toml")).unwrap();
    OnnxBackbone::open(&path, &recipe.backbone, recipe.data.side(), ChannelStatistics::default())
        .map_err(|error| with_causes(&error))
}

/// How much ONNX Runtime and rten differ from PyTorch, or why they do not open a backbone.
fn differences(backbone: &OnnxBackbone, expected: &Expected) -> [Result<f32, EncodeError>; 2] {
    let (bytes, input) = (&backbone.bytes, &backbone.input);
    [
        Onnx::open(bytes, input).map(|mut engine| expected.compare(&mut engine)),
        Rten::open(bytes, input).map(|mut engine| expected.compare(&mut engine)),
    ]
}

/// A row of the table; what is wrong with it is noted.
fn row(folder: &Path, exporter: &str, expected: &Expected, wrong: &mut Vec<String>) -> String {
    let name = folder.file_name().unwrap().to_string_lossy();
    let mut note = |reason: String| wrong.push(format!("{name}, {exporter}: {reason}"));
    let backbone = match exported(folder, exporter) {
        Ok(backbone) => backbone,
        Err(reason) => {
            note(reason);
            return String::new();
        }
    };
    let mut text = format!("| {name} | {:.1} M | {exporter} |", expected.sizes.parameters as f64 / 1e6);
    for difference in differences(&backbone, expected) {
        match difference {
            Ok(difference) if difference <= LIMIT => drop(write!(text, " {difference:.0e} |")),
            Ok(difference) => note(format!("differs by {difference:e}")),
            Err(error) => note(error.to_string()),
        }
    }
    text + "\n"
}

#[test]
fn backbones_of_other_makers_compute_what_pytorch_computes() {
    let Some(folder) = std::env::var_os("ORCO_BACKBONES").map(PathBuf::from) else {
        return orco_trials::skipped("backbones of other makers (ORCO_BACKBONES names no folder of exports)");
    };
    let _turn = torch_generator();
    let mut folders: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let (mut rows, mut wrong) = (String::new(), Vec::new());
    for folder in folders.iter().filter(|path| path.join("sizes.json").is_file()) {
        let expected = Expected::read(folder);
        for exporter in ["legacy", "dynamo"] {
            rows += &row(folder, exporter, &expected, &mut wrong);
        }
    }
    println!("{rows}");
    assert!(wrong.is_empty() && !rows.is_empty(), "{wrong:#?}");
    if std::env::var_os("ORCO_WRITE_BACKBONES").is_some() {
        fs::write(PAGE, page(&rows)).unwrap();
    }
}

fn page(rows: &str) -> String {
    format!(
        "<!-- Written by the test backbone_matrix; see its first lines. Do not edit. -->\n# Backbones of other makers\n\nBackbones \
         of torchvision and timm, with random weights, as PyTorch's exporters write them with nothing set but one file \
         and a batch of any size. Each becomes a backbone without help. *Differs* is the largest difference from PyTorch's features over \
         one picture and a batch of five, as a share of the largest feature.\n\n    python3 -m pip install torch torchvision timm onnx onnxscript pillow\n    python3 \
         tests/fixtures/backbones/other_makers.py EXPORTS\n    eval \"$(cargo xtask setup)\"\n    ORCO_BACKBONES=EXPORTS ORCO_WRITE_BACKBONES=1 cargo test --release -p \
         orco-tests --test it backbone_matrix\n\n| backbone | parameters | exporter | ONNX Runtime differs | rten \
         differs |\n|---|---|---|---|---|\n{rows}"
    )
}

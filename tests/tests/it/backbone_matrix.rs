//! Backbones of other makers, as PyTorch's two exporters write them (`tests/backbones/export.py`), in both engines: they
//! compute what PyTorch computes. `ORCO_BACKBONES` names the folder of the exports; with `ORCO_WRITE_BACKBONES=1` the
//! book's page is written anew.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array4, s};
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::encoder::rten::Rten;
use orco_tests::tiny::take_turn;
use orco_trainer::config::Recipe;
use orco_trainer::data::dataset::Channels;
use orco_trainer::model::backbone::OnnxBackbone;
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

fn open(path: &Path) -> Result<OnnxBackbone, String> {
    let recipe: Recipe = toml::from_str(include_str!("../../../trainer/recipes/synthetic-tiny.toml")).unwrap();
    OnnxBackbone::open(path, &recipe.backbone, Channels::default())
        .map_err(|error| orco_runtime::state::sentence::with_causes(&error))
}

#[test]
fn backbones_of_other_makers_compute_what_pytorch_computes() {
    let Some(folder) = std::env::var_os("ORCO_BACKBONES").map(PathBuf::from) else {
        return orco_trials::skipped("backbones of other makers (ORCO_BACKBONES names no folder of exports)");
    };
    let _turn = take_turn();
    let mut rows = String::new();
    let mut wrong = Vec::new();
    let mut backbones: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    backbones.sort();
    for backbone in backbones.iter().filter(|path| path.join("sizes.json").is_file()) {
        let name = backbone.file_name().unwrap().to_string_lossy();
        let expected = Expected::read(backbone);
        let millions = expected.sizes.parameters as f64 / 1e6;
        for exporter in ["legacy", "dynamo"] {
            let path = backbone.join(format!("{exporter}.onnx"));
            if !path.is_file() {
                let reason = fs::read_to_string(backbone.join(format!("{exporter}.txt"))).unwrap();
                wrong.push(format!("{name}, {exporter}: PyTorch cannot write it: {}", reason.trim()));
                continue;
            }
            let opened = match open(&path) {
                Ok(opened) => opened,
                Err(reason) => {
                    wrong.push(format!("{name}, {exporter}: {reason}"));
                    continue;
                }
            };
            let _ = write!(rows, "| {name} | {millions:.1} M | {exporter} |");
            for encoder in [
                Onnx::open(&opened.bytes, &opened.input).map(|onnx| Box::new(onnx) as Box<dyn Encoder>),
                Rten::open(&opened.bytes, &opened.input).map(|rten| Box::new(rten) as Box<dyn Encoder>),
            ] {
                match encoder {
                    Ok(mut encoder) => {
                        let differs = expected.compare(encoder.as_mut());
                        let _ = write!(rows, " {differs:.0e} |");
                        if differs > LIMIT {
                            wrong.push(format!("{name}, {exporter}, {}: differs by {differs:e}", encoder.engine()));
                        }
                    }
                    Err(error) => {
                        rows += " refused |";
                        wrong.push(format!("{name}, {exporter}: {error}"));
                    }
                }
            }
            rows += "\n";
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
         of torchvision and timm, with random weights, as PyTorch's exporters write them with nothing set but a batch of \
         any size. Each becomes a backbone without help. *Differs* is the largest difference from PyTorch's features over \
         one picture and a batch of five, as a share of the largest feature.\n\n    python3 -m pip install torch torchvision timm onnx onnxscript\n    python3 \
         tests/backbones/export.py EXPORTS\n    ORCO_BACKBONES=EXPORTS ORCO_WRITE_BACKBONES=1 cargo test --release -p \
         orco-tests --test it backbone_matrix\n\n| backbone | parameters | exporter | ONNX Runtime differs | rten \
         differs |\n|---|---|---|---|---|\n{rows}"
    )
}

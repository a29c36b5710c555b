//! The export: ONNX Runtime computes what the tch network computes, the file is valid, its bytes are reproducible.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use ndarray::ArrayView4;
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::encoder::rten::Rten;
use orco_runtime::encoder::{EncodeError, Encoder};
use orco_runtime::image::{Look, Preprocessing};
use orco_runtime::manifest::{BACKBONE, BACKBONE_INT8, WeightFormat};
use orco_trainer::config::Precision;
use orco_trainer::export::{Ranges, encode_int8, onnx};
use orco_trainer::model::backbone::{Description, ForwardMode, NORM_MOMENTUM, Network};
use orco_trials::torch_generator;
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor, no_grad};

const INPUT: Preprocessing =
    Preprocessing { width: 32, height: 32, mean: [0.5; 3], deviation: [0.25; 3], look: Look::WHOLE };
/// Images of noise on which the engines are compared with tch; so many in the heavy trials, a tenth otherwise.
const IMAGES: i64 = 1000;

/// A network whose norms have seen data, so that folding them changes something.
fn network(description: Description) -> (VarStore, Network) {
    tch::manual_seed(5);
    let store = VarStore::new(Device::Cpu);
    let network = Network::new(&store.root(), description);
    no_grad(|| {
        let variables: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
        for (name, mut tensor) in variables {
            if name.ends_with("norm_scale") || name.ends_with("norm_variance") {
                let _ = tensor.uniform_(0.5, 1.5);
            } else if name.contains("norm_") {
                let _ = tensor.uniform_(-0.3, 0.3);
            }
        }
    });
    (store, network)
}

/// Shape of so many images of a network's size, and what an engine is told of them.
fn sizes(count: i64, description: &Description) -> ([i64; 4], Preprocessing) {
    let [channels, height, width] = description.input;
    ([count, channels, height, width], Preprocessing { width: width as u32, height: height as u32, ..INPUT })
}

/// Features of images, `[images, features]`.
fn encode(encoder: &mut dyn Encoder, images: &Tensor) -> Result<Tensor, EncodeError> {
    let size: Vec<usize> = images.size().iter().map(|side| *side as usize).collect();
    let flat = Vec::<f32>::try_from(images.contiguous().view(-1)).unwrap();
    let rows = encoder.encode(ArrayView4::from_shape((size[0], size[1], size[2], size[3]), &flat).unwrap())?;
    Ok(Tensor::from_slice(rows.as_slice().unwrap()).view([images.size()[0], -1]))
}

/// Largest deviation of an engine's features from tch's, relative to the largest feature.
fn deviation(encoder: &mut dyn Encoder, images: &Tensor, expected: &Tensor) -> f64 {
    let actual = encode(encoder, images).unwrap();
    let difference = (actual - expected).abs().max();
    difference.double_value(&[]) / expected.abs().max().double_value(&[]).max(1.0)
}

/// How many images each network is compared on.
fn images() -> i64 {
    if orco_trials::heavy() { IMAGES } else { IMAGES / 10 }
}

fn check(description: Description, folder: &Path) -> PathBuf {
    let name = description.name.clone();
    let (_store, network) = network(description);
    let bytes = onnx::encode(&network, &[("task", "test".into())]);
    assert_eq!(bytes, onnx::encode(&network, &[("task", "test".into())]), "{name}: same network, other bytes");
    let (shape, input) = sizes(images(), &network.description);
    let images = Tensor::randn(shape, (Kind::Float, Device::Cpu));
    let expected = no_grad(|| network.forward(&images, Precision::F32, ForwardMode::Inference));
    let in_onnx_runtime = deviation(&mut Onnx::open(&bytes, &input).unwrap(), &images, &expected);
    assert!(in_onnx_runtime <= 1e-4, "{name}: ONNX Runtime differs by {in_onnx_runtime:e}");
    let in_rten = deviation(&mut Rten::open(&bytes, &input).unwrap(), &images, &expected);
    assert!(in_rten <= 1e-4, "{name}: rten differs by {in_rten:e}");
    println!("{name}: ONNX Runtime differs from tch by {in_onnx_runtime:.1e}, rten by {in_rten:.1e}");
    let path = folder.join(format!("{name}.onnx"));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Stores the weights in fewer bits and compares both engines with tch on the exact ones.
fn check_weights(
    description: Description,
    weights: WeightFormat,
    (least, count): (f64, i64),
    folder: &Path,
) -> PathBuf {
    let name = format!("{}-weights-{}", description.name, weights.name());
    let (_store, network) = network(description);
    let bytes = onnx::encode_with(&network, weights, &[("orco.weights", weights.name().into())]);
    assert_eq!(bytes, onnx::encode_with(&network, weights, &[("orco.weights", weights.name().into())]), "{name}");
    let float = onnx::encode(&network, &[]).len();
    let share = if weights == WeightFormat::F16 { 0.6 } else { 0.4 };
    assert!((bytes.len() as f64) < share * float as f64, "{name}: {} of {float} bytes", bytes.len());
    let images = Tensor::randn([count, 3, 32, 32], (Kind::Float, Device::Cpu));
    let expected = no_grad(|| network.forward(&images, Precision::F32, ForwardMode::Inference));
    let actual = encode(&mut Onnx::open(&bytes, &INPUT).unwrap(), &images).unwrap();
    let cosine = Tensor::cosine_similarity(&actual, &expected, 1, 1e-12);
    let (mean, lowest) = (cosine.mean(Kind::Float).double_value(&[]), cosine.min().double_value(&[]));
    let in_rten = deviation(&mut Rten::open(&bytes, &INPUT).unwrap(), &images, &actual);
    let size = bytes.len();
    println!("{name}: {size} of {float} bytes, cosine {mean:.6}, {lowest:.6} at least; rten differs by {in_rten:.1e}");
    assert!(mean > least, "{name}: cosine {mean}");
    assert!(in_rten <= 1e-4, "{name}: rten differs from ONNX Runtime by {in_rten:e}");
    let path = folder.join(format!("{name}.onnx"));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn weights_in_fewer_bits_change_features_little_and_are_valid() {
    let _turn = torch_generator();
    let folder = tempfile::tempdir().unwrap();
    let kinds = [(WeightFormat::F16, [0.99999, 0.9999]), (WeightFormat::Int8, [0.999, 0.9])];
    let files = kinds.map(|(weights, [least, of_random_depthwise])| {
        let check = |description, judged| check_weights(description, weights, judged, folder.path());
        [
            check(Description::resnet18(8, [3, 32, 32]), (least, 200)),
            check(Description::resnet12(64, [3, 32, 32]), (least, 16)),
            check(Description::mobilenetv2(11, [3, 32, 32]), (of_random_depthwise, 200)),
        ]
    });
    // The paper's ResNet-12, 12.4 M parameters, in a file that may lie in a repository.
    let size = std::fs::metadata(&files[1][1]).unwrap().len();
    assert!(size < 20_000_000, "{size} bytes");
    are_valid(&files.concat());
}

/// Lets the norms take the statistics of some images, so that no channel is out of proportion, as far as 60 passes over
/// them would: those statistics are the same in each, so that one tells where the others lead.
fn settle(store: &VarStore, network: &Network, images: &Tensor) {
    let is_running = |name: &str| name.ends_with("norm_mean") || name.ends_with("norm_variance");
    let variables = store.variables().into_iter().filter(|(name, _)| is_running(name));
    let norms: Vec<(Tensor, Tensor)> = variables.map(|(_, norm)| (norm.copy(), norm)).collect();
    assert!(!norms.is_empty(), "no norm has statistics");
    no_grad(|| {
        drop(network.forward(images, Precision::F32, ForwardMode::Training));
        for (before, mut norm) in norms {
            let of_images = (&norm - &before) / NORM_MOMENTUM + &before;
            let settled = (&before - &of_images) * (1.0 - NORM_MOMENTUM).powi(60) + &of_images;
            norm.copy_(&settled);
        }
    });
}

/// Quantises a network whose norms have settled, and compares features of other images than the calibration's.
fn check_int8(description: Description, least: f64, folder: &Path) -> PathBuf {
    let grain = 0.5;
    let name = format!("{}-int8", description.name);
    let (store, network) = network(description);
    // Large shapes and fine grain, as pictures have: without grain, depthwise kernels whose sum is near 0 give channels
    // of almost no variance, which their norms then blow up with the rounding in them.
    let ([_, _, height, width], input) = sizes(200, &network.description);
    let shapes = Tensor::randn([200, 3, height / 4, width / 4], (Kind::Float, Device::Cpu));
    let shapes = shapes.upsample_bilinear2d([height, width], false, None, None);
    let images = &shapes + shapes.randn_like() * grain;
    let (calibration, others) = (images.narrow(0, 0, 100), images.narrow(0, 100, 100));
    settle(&store, &network, &calibration);
    let measure = || Ranges::measure(&network, calibration.split(50, 0).into_iter());
    let bytes = encode_int8(&network, &measure(), &[("task", "test".into())]);
    assert_eq!(bytes, encode_int8(&network, &measure(), &[("task", "test".into())]), "{name}: other bytes");
    let float = onnx::encode(&network, &[]);
    assert!(bytes.len() < float.len() / 2, "{name}: {} of {} bytes", bytes.len(), float.len());
    let features = |bytes: &[u8]| encode(&mut Onnx::open(bytes, &input).unwrap(), &others).unwrap();
    let cosine = Tensor::cosine_similarity(&features(&bytes), &features(&float), 1, 1e-12);
    let (mean, lowest) = (cosine.mean(Kind::Float).double_value(&[]), cosine.min().double_value(&[]));
    let in_rten = Rten::open(&bytes, &input).and_then(|mut rten| encode(&mut rten, &others));
    let in_rten = in_rten.unwrap_or_else(|error| panic!("{name}: {error}"));
    let rten = Tensor::cosine_similarity(&in_rten, &features(&bytes), 1, 1e-12).min().double_value(&[]);
    println!(
        "{name}: cosine to float {mean:.4} on average, {lowest:.4} at least; rten to ONNX Runtime {rten:.4} \
         at least; {} bytes",
        bytes.len()
    );
    assert!(rten > 0.9, "{name}: rten's cosine to ONNX Runtime is {rten}");
    assert!(mean > least, "{name}: cosine {mean}");
    let path = folder.join(format!("{name}.onnx"));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn exported_backbones_equal_their_networks_and_are_valid() {
    let mut trial = orco_trials::trial!(15, "inputs");
    let _turn = torch_generator();
    let folder = tempfile::tempdir().unwrap();
    let mut files = vec![
        check(Description::resnet18(4, [3, 32, 32]), folder.path()),
        check(Description::resnet12(4, [3, 32, 32]), folder.path()),
        check(Description::resnet20(16, [3, 32, 32]), folder.path()),
        check(Description { mirrored: true, ..Description::resnet12(4, [3, 32, 32]) }, folder.path()),
        check(Description::mobilenetv2(11, [3, 32, 32]), folder.path()),
        check(Description::mobilenetv2(21, [3, 32, 32]), folder.path()),
        check(Description::resnet18_imagenet(4, [3, 64, 64]), folder.path()),
    ];
    trial.count(files.len() * images() as usize);
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    for bundle in std::fs::read_dir(models).unwrap() {
        let folder = bundle.unwrap().path();
        files.extend([BACKBONE, BACKBONE_INT8].map(|name| folder.join(name)).into_iter().filter(|path| path.is_file()));
    }
    are_valid(&files);
}

#[test]
fn int8_backbones_stay_close_to_their_networks_and_are_valid() {
    let _turn = torch_generator();
    let folder = tempfile::tempdir().unwrap();
    let mut networks = vec![
        (Description { mirrored: true, ..Description::resnet18(16, [3, 32, 32]) }, 0.99),
        // Seventeen bottlenecks of random depthwise kernels pass rounding on with little signal beside it.
        (Description::mobilenetv2(11, [3, 32, 32]), 0.9),
    ];
    if orco_trials::heavy() {
        networks.extend([
            (Description::resnet18(16, [3, 32, 32]), 0.99),
            (Description::resnet12(8, [3, 32, 32]), 0.99),
            (Description::resnet20(16, [3, 32, 32]), 0.99),
            (Description::resnet18_imagenet(8, [3, 64, 64]), 0.99),
        ]);
    }
    let check = |(description, least)| check_int8(description, least, folder.path());
    let files: Vec<PathBuf> = networks.into_iter().map(check).collect();
    are_valid(&files);
}

/// Asks `onnx.checker`, where it is at hand.
fn are_valid(files: &[PathBuf]) {
    let Some(packages) = std::env::var_os("ORCO_ONNX_CHECKER") else {
        // Written past the harness's capture, so that it is seen.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: onnx.checker (ORCO_ONNX_CHECKER is not set; `cargo xtask test` sets it)"
        );
        return;
    };
    let script = "import sys, onnx\nfor path in sys.argv[1:]: onnx.checker.check_model(path, full_check=True)";
    let checked =
        Command::new("python3").env("PYTHONPATH", packages).args(["-c", script]).args(files).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

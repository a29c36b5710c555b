//! The published settings on small synthetic data: LARS, policies, several views, a trained backbone, through all
//! phases to a bundle. On a machine with a CUDA device this is what runs on it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use orco_runtime::bundle::Bundle;
use orco_trainer::config::{Precision, Recipe};
use orco_trainer::model::Model;
use orco_trainer::model::backbone::ForwardMode;
use orco_trainer::platform::device::{DeviceChoice, cuda_devices, open};
use orco_trainer::run::RunRecord;
use orco_trainer::train::loss::contrast;
use tch::{Device, Kind, Tensor, no_grad};

use orco_trials::torch_generator;

/// A published recipe whose networks, data and epochs are small.
fn shrunk(text: &str, side: i64) -> toml::Table {
    let mut recipe: toml::Table = text.parse().unwrap();
    let mut set = |table: &str, fields: &[(&str, i64)]| {
        let table = recipe.entry(table).or_insert_with(|| toml::Table::new().into()).as_table_mut().unwrap();
        table.extend(fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).into())));
    };
    set("split", &[("base_classes", 8), ("sessions", 2), ("ways", 2)]);
    set("backbone", &[("width", 4)]);
    set("head", &[("hidden", 64), ("projection", 24)]);
    set("pretrain", &[("epochs", 3), ("batch", 32), ("warmup_epochs", 1)]);
    set("targets", &[("count", 20), ("steps", 50)]);
    set("align", &[("epochs", 2), ("batch", 32), ("warmup_epochs", 1), ("cached_views", 4)]);
    set("export", &[("candidates_per_class", 8)]);
    set("learn", &[("epochs", 2)]);
    recipe["backbone"].as_table_mut().unwrap().remove("weights");
    let data = format!("kind = \"synthetic\"\nimage_size = {side}\ntrain_per_class = 30\ntest_per_class = 6");
    recipe.insert("data".into(), data.parse::<toml::Table>().unwrap().into());
    recipe
}

#[test]
fn the_published_recipes_go_through_all_phases() {
    let device = if cuda_devices().is_ok() { "cuda:0" } else { "cpu" };
    let _ = writeln!(std::io::stderr(), "published settings on small data: device {device}");
    for (name, text, side) in [
        ("cifar100", include_str!("../../recipes/cifar100-published.toml"), 32),
        ("mini-ImageNet", include_str!("../../recipes/miniimagenet-published.toml"), 32),
        ("CUB200", include_str!("../../recipes/cub200-published.toml"), 64),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("recipe.toml"), shrunk(text, side).to_string()).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_orco-train"));
        program.arg("run").arg(path("recipe.toml")).arg("--run").arg(path("run")).arg("--output").arg(path("bundle"));
        let output = program.output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(RunRecord::read(&path("run")).unwrap().device, device);
        let metrics = fs::read_to_string(path("run").join("metrics.jsonl")).unwrap();
        let lines: Vec<serde_json::Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for (phase, epochs) in [("pretrain", 3), ("align", 2)] {
            let losses = lines.iter().filter(|line| line["phase"] == phase).map(|line| line["loss"].as_f64());
            let losses: Vec<f64> = losses.flatten().collect();
            assert!(losses.len() == epochs && losses.iter().all(|loss| loss.is_finite()), "{name}: {metrics}");
        }
        let bundle = Bundle::open(path("bundle")).unwrap();
        assert_eq!(bundle.base_model.classes.len(), 8, "{name}");
        let card = fs::read_to_string(path("bundle").join("README.md")).unwrap();
        assert_eq!(card.contains("cross entropy over base classes weighed 0.6"), name == "CUB200", "{card}");
    }
}

/// A network, its loss and its gradients, on a GPU beside the processor: the same but for rounding.
#[test]
fn a_gpu_computes_what_the_processor_computes() {
    let Ok(gpu) = open(DeviceChoice::Cuda(0)) else {
        orco_trials::skipped("a GPU beside the processor (there is no CUDA device)");
        return;
    };
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/synthetic-tiny.toml")).unwrap();
    let recipe: Recipe = toml::from_str(&text).unwrap();
    let _turn = torch_generator();
    tch::manual_seed(1);
    let processor = Model::new(&recipe, [3, 24, 24], Device::Cpu);
    let mut copy = Model::new(&recipe, [3, 24, 24], gpu);
    let tensors = processor.tensors().into_iter().map(|(name, tensor)| (name, no_grad(|| tensor.copy())));
    copy.restore(&tensors.collect()).unwrap();
    let images = Tensor::randn([16, 3, 24, 24], (Kind::Float, Device::Cpu));
    let labels = Tensor::arange(16, (Kind::Int64, Device::Cpu)).remainder(4);
    let computed = |model: &Model, precision| {
        let z = model.head.forward(&model.backbone.forward(
            &images.to_device(model.device()),
            precision,
            ForwardMode::Training,
        ));
        let loss = contrast(&z, &labels.to_device(model.device()), 0.2, Default::default());
        let weights: Vec<Tensor> = model.parameters("head.w1").into_iter().map(|parameter| parameter.tensor).collect();
        let gradients = Tensor::run_backward(&[&loss], &weights, false, false);
        let flat = gradients[0].to_device(Device::Cpu).view(-1);
        (loss.double_value(&[]), Vec::<f32>::try_from(flat).unwrap())
    };
    for (precision, tolerance) in [(Precision::F32, 1e-2), (Precision::Bf16, 5e-2), (Precision::F16, 5e-2)] {
        let ((expected, straight), (loss, gradient)) =
            (computed(&processor, Precision::F32), computed(&copy, precision));
        assert!((loss - expected).abs() < tolerance * expected, "{precision:?}: {loss}, on the processor {expected}");
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        let cosine =
            product(&straight, &gradient) / (product(&straight, &straight) * product(&gradient, &gradient)).sqrt();
        assert!(cosine > 1.0 - tolerance, "{precision:?}: cosine of the gradients {cosine}");
    }
}

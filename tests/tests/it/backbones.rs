//! Backbones that are given: a model that the user brings, weights from a file; and phase 2 with the backbone in it.
//! Everything on small images made here.

use std::path::Path;

use orco_runtime::bundle::{Bundle, OpenError};
use orco_runtime::encoder::engine_choice::{EngineChoice, Workload};
use orco_runtime::manifest::{BACKBONE, BACKBONE_INT8, WeightFormat};
use orco_tests::tiny::{self, images};
use orco_trainer::config::{Architecture, BackboneConfig, BaseAlignSchedule, Precision, Recipe};
use orco_trainer::data::dataset::{ChannelStatistics, DataSet, Images, Split};
use orco_trainer::export::{BundleOutput, onnx, write_bundle};
use orco_trainer::model::backbone::{Description, ForwardMode, Network, OnnxBackbone};
use orco_trainer::model::{Model, Norms, WeightFile};
use orco_trainer::run::Run;
use orco_trainer::train::base_align::align;
use orco_trainer::train::pretrain::pretrain;
use orco_trainer::train::training_loop::BaseSession;
use orco_trainer_lab::comparison::on_device;
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor, no_grad};

const INPUT: [i64; 3] = [3, 16, 16];

fn recipe() -> Recipe {
    let mut recipe = tiny::recipe(20);
    recipe.export.candidates_per_class = 6;
    recipe
}

/// Writes tensors as a file of weights; those of convolutions lie channels-last in memory, which the format does not
/// know.
fn write(tensors: &[(String, Tensor)], path: &Path) {
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name, tensor.contiguous())).collect();
    Tensor::write_safetensors(&tensors, path).unwrap();
}

fn split(recipe: &Recipe, images: &Images) -> Split {
    Split::new(&recipe.split, 6, images, images, None, recipe.seed).unwrap()
}

fn last_accuracy(run: &Run) -> f64 {
    run.metrics("align").last().unwrap()["accuracy"].as_f64().unwrap()
}

/// The whole way to a bundle.
fn export(model: &mut Model, recipe: &Recipe, images: &Images, folder: &Path) -> (Run, Bundle, String) {
    let run = Run::open(&folder.join("run"), recipe).unwrap();
    let split = split(recipe, images);
    let base = BaseSession { images, split: &split, seed: recipe.seed, run: &run };
    if !model.is_imported() {
        pretrain(model, &recipe.pretrain, &base, None).unwrap();
    }
    let targets = align(model, recipe.into(), &base).unwrap();
    let skipped = vec!["one.png is neither a JPEG nor a PNG nor a WebP picture".into()];
    let data = DataSet { skipped, ..tiny::data(images, split) };
    let output = folder.join("bundle");
    let made = BundleOutput::prepare(&output, &folder.join("run")).unwrap();
    write_bundle(model, &targets, recipe, &data, &run, &made).unwrap();
    made.finish().unwrap();
    let card = std::fs::read_to_string(output.join("README.md")).unwrap();
    (run, Bundle::open(&output).unwrap(), card)
}

#[test]
fn a_small_backbone_goes_into_a_bundle_in_float_and_int8() {
    let _turn = orco_trials::torch_generator();
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe();
    recipe.backbone.architecture = Architecture::Resnet20;
    recipe.backbone.width = 8;
    recipe.export.int8 = true;
    recipe.export.weights = WeightFormat::Int8;
    recipe.export.draws = 2;
    recipe.align.views_precision = Precision::Bf16;
    let (run, bundle, card) = export(&mut Model::new(&recipe, INPUT, Device::Cpu), &recipe, &images(), folder.path());
    assert_eq!(bundle.manifest.backbone.architecture, "resnet20-w8");
    assert_eq!(bundle.manifest.backbone.weights, WeightFormat::Int8);
    assert!(bundle.manifest.files.contains_key(BACKBONE_INT8));
    let parameters = bundle.manifest.backbone.parameters as usize;
    assert!(bundle.backbone.len() < 2 * parameters, "{} bytes of {parameters} parameters", bundle.backbone.len());
    for (file, least) in [(BACKBONE, 0.999), (BACKBONE_INT8, 0.99)] {
        let line = card.lines().find(|line| line.starts_with(&format!("- `{file}`"))).unwrap();
        let cosine = line.split("the float ones: mean ").nth(1).unwrap().split(',').next().unwrap();
        assert!(cosine.parse::<f64>().unwrap() > least, "{line}");
    }
    assert!(card.contains("; 1 broken image of the data set was left out.\n"), "{card}");
    assert!(last_accuracy(&run) > 60.0, "{}", last_accuracy(&run));
    let by_classifier = card.split("base classes: ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(by_classifier.parse::<f64>().unwrap() > 60.0, "{card}");
    let command = format!("orco-lab -- eval {} --draws 2", folder.path().join("bundle").display());
    let measured = format!("on {} training images (largest feature: ", images().len().min(1000));
    assert!(card.contains(&measured) && (card.contains(&command) || !card.contains("orco-lab -- eval")), "{card}");
    let front: Vec<&str> = card.lines().skip(1).take_while(|line| *line != "---").collect();
    assert!(
        front.contains(&"license: [\"mit\", \"apache-2.0\"]") && front.contains(&"- name: \"cifar100-edge\""),
        "{front:?}"
    );

    // The device may take the int8 file instead; its features differ little, in either engine.
    let picture =
        orco_runtime::image::from_planes(16, 16, &Vec::<u8>::try_from(images().pixels.get(0).view(-1)).unwrap());
    let features = |bundle: &Bundle| {
        bundle
            .features(bundle.encoder(EngineChoice::Auto, Workload::Shots).unwrap().encoder.as_mut(), &picture, 1)
            .unwrap()
            .into_raw_vec_and_offset()
            .0
    };
    let float = features(&bundle);
    let quantised = bundle.clone().with_int8().unwrap();
    assert_ne!(quantised.backbone, bundle.backbone);
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let int8 = features(&quantised);
    let cosine = dot(&float, &int8) / (dot(&float, &float) * dot(&int8, &int8)).sqrt();
    assert!(cosine > 0.99, "{cosine}");
    std::fs::write(bundle.folder.join(BACKBONE_INT8), b"another file").unwrap();
    assert!(matches!(bundle.with_int8(), Err(OpenError::Digest { .. })));
}

/// An untrained network as an ONNX file.
fn write_model(path: &Path, input: [i64; 3]) {
    write_model_of_mean(path, input, "[0.4, 0.5, 0.6]");
}

/// As [`write_model`], with this mean in its metadata.
fn write_model_of_mean(path: &Path, input: [i64; 3], mean: &str) {
    tch::manual_seed(9);
    let store = VarStore::new(Device::Cpu);
    let network = Network::new(&store.root(), Description::resnet20(4, input));
    std::fs::write(path, onnx::encode(&network, &[("orco.mean", mean.to_owned())])).unwrap();
}

#[test]
fn a_model_that_the_user_brings_becomes_the_backbone() {
    let _turn = orco_trials::torch_generator();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.onnx");
    // Other sizes than the images have: they are scaled.
    write_model(&path, [3, 24, 20]);
    let mut recipe = recipe();
    let mirrored = recipe.clone().with_backbone(&path).unwrap_err().to_string();
    assert!(mirrored.contains("align.mirrored is true"), "{mirrored}");
    recipe.align.mirrored = false;
    let mut recipe = recipe.with_backbone(&path).unwrap();
    // Features that nothing was trained for lie close together: the head needs longer steps, and more of them.
    (recipe.align.epochs, recipe.align.learning_rate) = (100, 1.0);
    let channels = ChannelStatistics { mean: [0.1, 0.2, 0.3], deviation: [0.27, 0.26, 0.28] };
    let onnx = OnnxBackbone::open(&path, &recipe.backbone, 32, channels).unwrap();
    assert_eq!((onnx.features, onnx.input.height, onnx.input.width), (16, 24, 20));
    assert_eq!(onnx.input.mean, [0.4, 0.5, 0.6], "as its metadata say");
    assert_eq!(onnx.input.deviation, [0.27, 0.26, 0.28], "as the data set's");
    let mut model = Model::with_onnx_backbone(onnx, &recipe, Device::Cpu);
    let images = images();
    let (run, bundle, card) = export(&mut model, &recipe, &images, folder.path());
    // Of four classes.
    assert!(last_accuracy(&run) > 60.0, "{}", last_accuracy(&run));
    assert_eq!(bundle.backbone, std::fs::read(&path).unwrap());
    assert_eq!((bundle.manifest.backbone.architecture.as_str(), bundle.manifest.backbone.features), ("mine", 16));
    assert!(bundle.manifest.files.contains_key(BACKBONE) && card.contains("Phase 1: none"), "{card}");
    assert!(!card.contains("phase 1's classifier"), "{card}");
    // An ablation measures it without a bundle.
    let data = tiny::data(&images, split(&recipe, &images));
    let base = BaseSession { images: &images, split: &data.split, seed: recipe.seed, run: &run };
    let targets = align(&mut model, (&recipe).into(), &base).unwrap();
    let measured = on_device(&model, &targets, &recipe, &data, 1).unwrap();
    assert!(measured.sessions.len() == 2 && measured.sessions[0].top1 > 50.0, "{measured:?}");
}

#[test]
fn a_model_of_the_wrong_shape_is_refused_with_a_reason() {
    let _turn = orco_trials::torch_generator();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.onnx");
    let config = recipe().backbone;
    let refused = || OnnxBackbone::open(&path, &config, 32, ChannelStatistics::default()).unwrap_err().to_string();
    assert!(refused().contains("cannot read the backbone"));
    std::fs::write(&path, b"no model").unwrap();
    assert!(refused().contains("mine.onnx is no ONNX model, or not all of one"), "{}", refused());
    std::fs::write(&path, b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n").unwrap();
    assert!(refused().contains("it is a Git LFS pointer: run git lfs pull"), "{}", refused());
    write_model(&path, [1, 16, 16]);
    assert!(refused().contains("[any, 1, 16, 16], but must be one input of images"), "{}", refused());
    for mean in ["(0.4, 0.5, 0.6)", "0.4", "[0.4, 0.5]", "[102, 127, 153]"] {
        write_model_of_mean(&path, INPUT, mean);
        assert!(refused().contains("its metadata orco.mean and orco.deviation are no numbers"), "{}", refused());
    }
    // A side that is left open is the one that pictures have.
    write_model(&path, [3, 0, 16]);
    let onnx = OnnxBackbone::open(&path, &config, 32, ChannelStatistics::default()).unwrap();
    assert_eq!((onnx.input.height, onnx.input.width, onnx.features), (32, 16, 16));
    let mut recipe = recipe();
    (recipe.export.int8, recipe.align.mirrored) = (true, false);
    assert!(recipe.clone().with_backbone(&path).unwrap_err().to_string().contains("export.int8 is true"));
    (recipe.export.int8, recipe.export.weights) = (false, WeightFormat::F16);
    assert!(recipe.with_backbone(&path).unwrap_err().to_string().contains("export.weights is f16"));
}

#[test]
fn a_released_backbone_can_be_trained_on() {
    let _turn = orco_trials::torch_generator();
    let folder = tempfile::tempdir().unwrap();
    let (images, mut recipe) = (images(), recipe());
    recipe.backbone.architecture = Architecture::Mobilenetv2;
    // In inference mode it would take in the mirror image, which training does not.
    recipe.align.mirrored = false;
    // What is exported need not recognise anything.
    (recipe.pretrain.epochs, recipe.align.epochs) = (6, 6);
    let mut trained = Model::new(&recipe, INPUT, Device::Cpu);
    trained.channels = ChannelStatistics { mean: [0.4; 3], deviation: [0.3; 3] };
    let base = split(&recipe, &images).base;
    let features = |model: &Model, mode| {
        let seen = model.channels.normalise(&images.batch(&base, Device::Cpu));
        no_grad(|| model.backbone.forward(&seen, Precision::F32, mode))
    };
    let apart = |a: &Tensor, b: &Tensor| ((a - b).norm() / b.norm()).double_value(&[]);
    for (weights, rounding) in [(WeightFormat::F32, 1e-4), (WeightFormat::F16, 1e-2), (WeightFormat::Int8, 0.1)] {
        (recipe.export.weights, recipe.export.int8) = (weights, weights == WeightFormat::Int8);
        let folder = folder.path().join(format!("{weights:?}"));
        export(&mut trained, &recipe, &images, &folder);
        let mut model = Model::new(&Recipe { seed: recipe.seed + 1, ..recipe.clone() }, INPUT, Device::Cpu);
        assert_eq!(
            model.load_weights(&WeightFile::read(&folder.join("bundle/backbone.onnx")).unwrap()).unwrap().norms,
            Norms::Folded
        );
        assert_eq!(model.channels, trained.channels);
        let folded = features(&model, ForwardMode::Inference);
        assert!(apart(&folded, &features(&trained, ForwardMode::Inference)) < rounding, "{weights:?}");
        // Norms that do nothing in inference are others in training, where they follow the batch.
        let copy = model.to_device(&recipe, Device::Cpu).unwrap();
        assert!(apart(&features(&copy, ForwardMode::Training), &folded) > 0.1, "{weights:?}");
        model.restore_norms(&images, &base);
        assert!(apart(&features(&model, ForwardMode::Inference), &folded) < 1e-4, "{weights:?}");
        assert!(apart(&features(&model, ForwardMode::Training), &folded) < 1e-2, "{weights:?}");
    }
    let other = Recipe { backbone: BackboneConfig { width: 12, ..recipe.backbone.clone() }, ..recipe };
    let onnx = folder.path().join("F32/bundle/backbone.onnx");
    let load = |file: WeightFile| Model::new(&other, INPUT, Device::Cpu).load_weights(&file);
    let refused = |path: &Path| WeightFile::read(path).and_then(load).unwrap_err();
    assert!(refused(&onnx).to_string().contains("but mobilenetv2-w12 needs"), "{:#}", refused(&onnx));
    let model_of_others = folder.path().join("other.onnx");
    write_model(&model_of_others, [3, 24, 20]);
    assert!(format!("{:#}", refused(&model_of_others)).contains("of mobilenetv2-w12: `orco-train` exported it from"));
    let int8 = folder.path().join("Int8/bundle/backbone-int8.onnx");
    assert!(format!("{:#}", refused(&int8)).ends_with("take the bundle's `backbone.onnx`"), "{:#}", refused(&int8));
    assert!(format!("{:#}", refused(folder.path())).ends_with("it is a folder"), "{:#}", refused(folder.path()));
    let nothing = folder.path().join("nothing");
    std::fs::write(&nothing, "no weights").unwrap();
    assert!(format!("{:#}", refused(&nothing)).contains("no safetensors file"), "{:#}", refused(&nothing));
}

#[test]
fn phase_2_trains_the_backbone_from_given_weights() {
    let _turn = orco_trials::torch_generator();
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("weights.safetensors");
    let images = images();
    let mut recipe = recipe();
    // Of sixteen seeds with half the width, two left a class on top of another by the first phase's end; which ones, a
    // processor's rounding says. With this width none did.
    recipe.backbone.width = 8;
    let mut trained = Model::new(&recipe, INPUT, Device::Cpu);
    let run = Run::open(&folder.path().join("first"), &recipe).unwrap();
    let split = split(&recipe, &images);
    let base = BaseSession { images: &images, split: &split, seed: recipe.seed, run: &run };
    pretrain(&mut trained, &recipe.pretrain, &base, None).unwrap();
    write(&trained.tensors(), &weights);

    recipe.backbone.weights = Some(weights.clone());
    recipe.pretrain.epochs = 0;
    recipe.seed = 4;
    (recipe.align.train_backbone, recipe.align.rate, recipe.align.warmup_epochs) = (true, BaseAlignSchedule::Cosine, 3);
    (recipe.align.learning_rate, recipe.align.backbone_learning_rate) = (0.1, Some(0.02));
    let mut model = Model::new(&recipe, INPUT, Device::Cpu);
    assert_eq!(model.load_weights(&WeightFile::read(&weights).unwrap()).unwrap().norms, Norms::Whole);
    let named = |model: &Model| -> Vec<(String, Tensor)> {
        let own = model.tensors().into_iter().filter(|(name, _)| name.starts_with("backbone."));
        own.map(|(name, tensor)| (name, no_grad(|| tensor.copy()))).collect()
    };
    let before = named(&model);
    assert!(before.iter().zip(named(&trained)).all(|(own, given)| own.1.equal(&given.1)));
    let run = Run::open(&folder.path().join("second"), &recipe).unwrap();
    let base = BaseSession { images: &images, split: &split, seed: recipe.seed, run: &run };
    align(&mut model, (&recipe).into(), &base).unwrap();
    assert!(last_accuracy(&run) > 90.0, "{}", last_accuracy(&run));
    let losses: Vec<f64> = run.metrics("align").iter().map(|line| line["loss"].as_f64().unwrap()).collect();
    assert!(losses[29] < losses[0], "{losses:?}");
    for ((name, before), (_, after)) in before.iter().zip(named(&model)) {
        // Statistics of the norms stay, everything else is trained.
        let statistics = name.ends_with("norm_mean") || name.ends_with("norm_variance");
        assert_eq!(before.equal(&after), statistics, "{name}");
    }
    let mut again = Model::new(&recipe, INPUT, Device::Cpu);
    align(&mut again, (&recipe).into(), &base).unwrap();
    let seen = Tensor::rand([2, 3, 16, 16], (Kind::Float, Device::Cpu));
    let features = |model: &Model| no_grad(|| model.backbone.forward(&seen, Precision::F32, ForwardMode::Inference));
    assert!(features(&again).equal(&features(&model)), "the trained backbone is not in the checkpoint");
}

#[test]
fn weights_that_do_not_fit_are_named() {
    let _turn = orco_trials::torch_generator();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let mut recipe = recipe();
    let model = Model::new(&recipe, INPUT, Device::Cpu);
    let lacking: Vec<_> = model.tensors().into_iter().filter(|(name, _)| name != "backbone.stem.weight").collect();
    write(&lacking, &path);
    let refused = |recipe: &Recipe| {
        let file = WeightFile::read(&path).unwrap();
        Model::new(recipe, INPUT, Device::Cpu).load_weights(&file).unwrap_err().to_string()
    };
    assert!(refused(&recipe).contains("lack the tensor backbone.stem.weight of resnet18-w4"), "{}", refused(&recipe));
    write(&model.tensors(), &path);
    recipe.backbone.width = 5;
    let reason = refused(&recipe);
    assert!(reason.contains("has shape [4]") || reason.contains("[4, "), "{reason}");
    assert!(reason.contains("but resnet18-w5 needs"), "{reason}");
}

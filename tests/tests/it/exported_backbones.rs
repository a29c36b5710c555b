//! Networks as PyTorch's exporters and Keras write them, with nothing set but one file and a batch of any size:
//! `tests/fixtures/backbones`, whose `generate.py`, `forms.py` and `keras.py` made the files and the features.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ndarray::{Array4, ArrayView4, s};
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::audit::{AuditError, audit_layers};
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::encoder::rten::Rten;
use orco_runtime::state::sentence::with_causes;
use orco_trainer::config::{BackboneConfig, Pooling, Recipe};
use orco_trainer::data::dataset::ChannelStatistics;
use orco_trainer::model::backbone::OnnxBackbone;
use orco_trials::torch_generator;

const EXPORTERS: [&str; 2] = ["legacy", "dynamo"];
const IMAGES: usize = 5;
const SIDE: usize = 30;
const FEATURES: usize = 16;

/// A file of `tests/fixtures/backbones`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/backbones").join(name)
}

fn recipe() -> Recipe {
    toml::from_str(include_str!("../../../trainer/recipes/synthetic-tiny.toml")).unwrap()
}

/// Opens a file as the recipe's `backbone.onnx`; the reason where it is refused.
fn open(name: &str) -> Result<OnnxBackbone, String> {
    let recipe = recipe();
    OnnxBackbone::open(&fixture(name), &recipe.backbone, recipe.data.side(), ChannelStatistics::default())
        .map_err(|error| with_causes(&error))
}

/// Why a file is refused by these settings.
fn refusal(path: &Path, config: &BackboneConfig) -> String {
    OnnxBackbone::open(path, config, SIDE as u32, ChannelStatistics::default()).unwrap_err().to_string()
}

fn images() -> Array4<f32> {
    let numbers = (0..IMAGES * 3 * SIDE * SIDE).map(|number| (number * 7919 % 256) as f32 / 255.0);
    Array4::from_shape_vec((IMAGES, 3, SIDE, SIDE), numbers.collect()).unwrap()
}

fn deviation(encoder: &mut dyn Encoder, images: ArrayView4<'_, f32>, expected: &[f32]) -> f32 {
    let features = encoder.encode(images).unwrap();
    assert_eq!(features.len(), expected.len());
    features.iter().zip(expected).map(|(own, theirs)| (own - theirs).abs()).fold(0.0, f32::max)
}

/// The features that PyTorch computes of the images, by case.
fn features_of(file: &str) -> BTreeMap<String, Vec<f32>> {
    serde_json::from_str(&std::fs::read_to_string(fixture(file)).unwrap()).unwrap()
}

fn expected_features() -> BTreeMap<String, Vec<f32>> {
    features_of("features.json")
}

/// Both engines compute what the network's maker does, of batches of any size.
fn compute_what_is_expected(backbone: &OnnxBackbone, expected: &[f32], what: &str) {
    compute_of_images(&images(), backbone, expected, what);
}

fn compute_of_images(images: &Array4<f32>, backbone: &OnnxBackbone, expected: &[f32], what: &str) {
    assert_eq!((backbone.features, expected.len()), (FEATURES, IMAGES * FEATURES), "{what}");
    for count in [1, 3, IMAGES] {
        let part = images.slice(s![..count, .., .., ..]);
        let expected = &expected[..count * FEATURES];
        let mut onnx = Onnx::open(&backbone.bytes, &backbone.input).unwrap();
        let in_onnx_runtime = deviation(&mut onnx, part, expected);
        assert!(in_onnx_runtime < 1e-5, "{what}: ONNX Runtime differs by {in_onnx_runtime:e}");
        let in_rten = deviation(&mut Rten::open(&backbone.bytes, &backbone.input).unwrap(), part, expected);
        assert!(in_rten < 1e-5, "{what}: rten differs by {in_rten:e}");
    }
}

#[test]
fn plain_exports_become_backbones_that_compute_what_pytorch_computes() {
    let _turn = torch_generator();
    let expected = expected_features();
    for case in ["padded-by-size", "padded-by-layer", "rows-of-the-batch", "attention"] {
        for exporter in EXPORTERS {
            let name = format!("{case}-{exporter}.onnx");
            let backbone = open(&name).unwrap_or_else(|reason| panic!("{reason}"));
            let file = std::fs::read(fixture(&name)).unwrap();
            assert_eq!(audit_layers(&file).is_ok(), backbone.bytes == file, "{name}: folded only if it has to be");
            compute_what_is_expected(&backbone, &expected[case], &name);
        }
    }
}

/// rten lacks the interpolation, and would refuse to resize an image by it.
#[test]
fn positions_that_are_resized_become_constants() {
    let _turn = torch_generator();
    let expected = expected_features();
    for exporter in EXPORTERS {
        let name = format!("positions-{exporter}.onnx");
        let backbone = open(&name).unwrap_or_else(|reason| panic!("{reason}"));
        let file = std::fs::read(fixture(&name)).unwrap();
        assert_eq!(audit_layers(&file), Ok(()), "{name} has operators of layers alone");
        compute_what_is_expected(&backbone, &expected["positions"], &name);
    }
}

#[test]
fn tokens_of_images_of_any_size_become_feature_vectors() {
    let _turn = torch_generator();
    let expected = expected_features();
    let mut recipe = recipe();
    for exporter in EXPORTERS {
        let name = format!("tokens-{exporter}.onnx");
        let refused = open(&name).unwrap_err();
        assert!(refused.contains("choose one of \"tokens\", \"vector\" by backbone.output"), "{refused}");
        for (output, pool, case) in [
            ("tokens", Some(Pooling::Mean), "tokens-mean"),
            ("tokens", Some(Pooling::First), "tokens-first"),
            ("vector", None, "tokens-vector"),
        ] {
            (recipe.backbone.output, recipe.backbone.pool) = (Some(output.into()), pool);
            let opened =
                OnnxBackbone::open(&fixture(&name), &recipe.backbone, SIDE as u32, ChannelStatistics::default());
            let backbone = opened.unwrap_or_else(|reason| panic!("{name}, {case}: {reason:?}"));
            assert_eq!(backbone.input.width, SIDE as u32);
            compute_what_is_expected(&backbone, &expected[case], &format!("{name}, {case}"));
        }
        (recipe.backbone.output, recipe.backbone.pool) = (Some("vector".into()), Some(Pooling::Mean));
        let refused = refusal(&fixture(&name), &recipe.backbone);
        assert!(refused.contains("its output \"vector\" cannot be pooled by backbone.pool = \"mean\""), "{refused}");
    }
}

#[test]
fn what_the_old_exporter_writes_for_constants_is_folded() {
    for case in ["padded-by-size", "padded-by-layer"] {
        let file = std::fs::read(fixture(&format!("{case}-legacy.onnx"))).unwrap();
        assert!(
            matches!(audit_layers(&file), Err(AuditError::Operator { operator, .. }) if operator == "ConstantOfShape")
        );
        let folded = open(&format!("{case}-legacy.onnx")).unwrap().bytes;
        assert_eq!(audit_layers(&folded), Ok(()));
        assert!(folded.len() < file.len(), "{case}: {} of {} bytes", folded.len(), file.len());
        let own_operators = b"com.microsoft";
        assert!(!folded.windows(own_operators.len()).any(|part| part == own_operators), "{case}");
    }
}

#[test]
fn what_keras_writes_has_its_colours_last_and_becomes_a_backbone() {
    let _turn = torch_generator();
    let expected: Vec<f32> = serde_json::from_slice(&std::fs::read(fixture("keras.json")).unwrap()).unwrap();
    let backbone = open("keras.onnx").unwrap();
    compute_what_is_expected(&backbone, &expected, "keras.onnx");
}

/// Of a network whose weights are rounded to half precision, PyTorch computed the features in f32.
#[test]
fn half_precision_becomes_f32() {
    let _turn = torch_generator();
    let expected = features_of("forms.json");
    for (name, case) in [
        ("form-half-legacy.onnx", "half"),
        ("form-half-dynamo.onnx", "half"),
        ("form-half-converted.onnx", "half"),
        ("form-half-inside.onnx", "half"),
        ("form-bfloat16-dynamo.onnx", "bfloat16"),
    ] {
        let backbone = open(name).unwrap_or_else(|reason| panic!("{reason}"));
        assert!(backbone.parameters > 3_000, "{name}: {} weights of f32", backbone.parameters);
        compute_what_is_expected(&backbone, &expected[case], name);
    }
}

/// Exporters write the number of images into shapes; the newer one keeps large weights in a file of their own.
#[test]
fn a_file_for_one_image_takes_any_number_and_may_have_weights_beside_it() {
    let _turn = torch_generator();
    let expected = features_of("forms.json");
    for (case, exporter) in
        ["one-image", "windows"].into_iter().flat_map(|case| EXPORTERS.map(|exporter| (case, exporter)))
    {
        let name = format!("form-{case}-{exporter}.onnx");
        let backbone = open(&name).unwrap_or_else(|reason| panic!("{reason}"));
        compute_what_is_expected(&backbone, &expected[case], &name);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alone.onnx");
    std::fs::copy(fixture("form-one-image-dynamo.onnx"), &path).unwrap();
    let refused = refusal(&path, &recipe().backbone);
    assert!(refused.contains("\"form-one-image-dynamo.onnx.data\", which cannot be read"), "{refused}");
}

#[test]
fn images_of_bytes_are_given_as_floats_and_normalised_by_the_network() {
    let _turn = torch_generator();
    let expected = features_of("forms.json");
    let mut recipe = recipe();
    for case in ["bytes", "bytes-last"] {
        for exporter in EXPORTERS {
            let name = format!("form-{case}-{exporter}.onnx");
            let backbone = open(&name).unwrap_or_else(|reason| panic!("{reason}"));
            assert!(backbone.names_channels, "nothing has to be guessed");
            let images = images().mapv(|number| (number - backbone.input.mean[0]) / backbone.input.deviation[0]);
            compute_of_images(&images, &backbone, &expected[case], &name);
        }
    }
    recipe.backbone.mean = Some([0.485, 0.456, 0.406]);
    let refused = refusal(&fixture("form-bytes-dynamo.onnx"), &recipe.backbone);
    assert!(refused.contains("normalises them itself; leave out backbone.mean"), "{refused}");
    // What stands in the file itself cannot be left out of the recipe.
    recipe.backbone.mean = None;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.onnx");
    let mut file = std::fs::read(fixture("form-bytes-dynamo.onnx")).unwrap();
    // One more entry of the metadata, as protobuf has it: orco.mean is 0.5.
    file.extend_from_slice(b"\x72\x10\x0a\x09orco.mean\x12\x030.5");
    std::fs::write(&path, file).unwrap();
    let refused = refusal(&path, &recipe.backbone);
    assert!(refused.contains("its metadata orco.mean and orco.deviation are no numbers"), "{refused}");
}

#[test]
fn attention_and_norms_of_newer_operators_are_decomposed() {
    let _turn = torch_generator();
    let name = "form-newer-operators-dynamo.onnx";
    let file = std::fs::read(fixture(name)).unwrap();
    assert!(
        matches!(audit_layers(&file), Err(AuditError::Operator { operator, .. }) if operator == "RMSNormalization")
    );
    let backbone = open(name).unwrap_or_else(|reason| panic!("{reason}"));
    compute_what_is_expected(&backbone, &features_of("forms.json")["newer-operators"], name);
}

/// rten has no norm of groups and no Mish.
#[test]
fn norms_of_groups_run_in_both_engines() {
    let _turn = torch_generator();
    let name = "form-groups-dynamo.onnx";
    let backbone = open(name).unwrap_or_else(|reason| panic!("{reason}"));
    compute_what_is_expected(&backbone, &features_of("forms.json")["groups"], name);
}

/// A device does not follow floats that become sides; once folded, they are whole numbers.
#[test]
fn sides_that_are_computed_in_floats_become_constants() {
    let _turn = torch_generator();
    let name = "form-sides-legacy.onnx";
    let backbone = open(name).unwrap_or_else(|reason| panic!("{reason}"));
    // Behind their lengths, since names of values hold them, too.
    for left in [&b"\x04Ceil"[..], b"\x03Pow", b"\x05cubic"] {
        assert!(!backbone.bytes.windows(left.len()).any(|part| part == left), "{left:?} is left");
    }
    compute_what_is_expected(&backbone, &features_of("forms.json")["sides"], name);
}

#[test]
fn a_window_larger_than_its_map_pools_over_the_map() {
    let _turn = torch_generator();
    let expected = features_of("forms.json");
    for exporter in EXPORTERS {
        let name = format!("form-large-window-{exporter}.onnx");
        let backbone = open(&name).unwrap_or_else(|reason| panic!("{reason}"));
        let operator = b"GlobalAveragePool";
        assert!(backbone.bytes.windows(operator.len()).any(|part| part == operator), "{name}");
        compute_what_is_expected(&backbone, &expected["large-window"], &name);
    }
}

/// BiT in small: its weights are standardised, and its first maps are below 0, padded with zeros and pooled.
#[test]
fn standardised_weights_and_padded_pools_compute_what_pytorch_computes() {
    let _turn = torch_generator();
    let expected = features_of("forms.json");
    for exporter in EXPORTERS {
        let name = format!("form-standardised-{exporter}.onnx");
        let backbone = open(&name).unwrap_or_else(|reason| panic!("{reason}"));
        compute_what_is_expected(&backbone, &expected["standardised"], &name);
    }
}

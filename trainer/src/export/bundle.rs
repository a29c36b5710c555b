//! Writing a bundle: backbone, learner file, labels, benchmark file, manifest, card.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use orco_benchmark::AccuracyCounts;
use orco_benchmark::benchmark::Benchmark;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::image::{Look, Preprocessing};
use orco_runtime::manifest::{
    BACKBONE, BACKBONE_INT8, BENCHMARK, LABELS, LEARNER, MANIFEST, STATISTICS, WeightFormat, hexadecimal,
};
use orco_state::codec::{self, FileKind};
use tch::Tensor;

use super::exported::{ExportReport, PARITY, Parity};
use super::fidelity::Fidelity;
use super::int8::int8;
use super::metadata::{OnnxFacts, metadata};
use super::output::{BundleOutput, CARD};
use super::source::BundleSource;
use super::statistics::{clean_features, statistics};
use super::{card, onnx};
use crate::config::{Arithmetic, Recipe};
use crate::data::dataset::DataSet;
use crate::model::Model;
use crate::run::Run;
use crate::run::files::write_atomically;
use crate::train::objective::Targets;

/// Most images on which both are compared.
const PARITY_IMAGES: usize = 1000;

/// Writes the bundle where `output` has it made, opens it again as a device would, measures it, and writes its card.
/// What is left is to sign it and to [finish](BundleOutput::finish).
///
/// # Errors
/// If a stop was asked for, a file cannot be written, ONNX Runtime is missing, its features differ from tch's by more
/// than 1e-4 of the largest, or storing the weights in fewer bits changed the features by more than that explains.
pub fn write_bundle(
    model: &Model,
    targets: &Targets,
    recipe: &Recipe,
    data: &DataSet,
    run: &Run,
    output: &BundleOutput,
) -> Result<ExportReport> {
    let (split, labels) = (&data.split, data.class_names.as_slice());
    let source = BundleSource::new(model, recipe, data);
    let facts = OnnxFacts {
        name: &recipe.name,
        architecture: &model.backbone.description.name,
        classes: &labels[..split.base_classes.min(labels.len())],
        input: &source.input,
        seed: recipe.seed,
        export: &recipe.export,
        precision: "float32",
        weights: WeightFormat::F32.name(),
    };
    let float = BundleSource::encode(model, &metadata(&facts));
    let open = |bytes: &[u8]| Onnx::pool(bytes, &source.input).context("the export is checked with ONNX Runtime");
    let mut float_encoder = open(&float)?;
    let parity = model.onnx.is_none().then(|| parity(model, &mut float_encoder, &source)).transpose()?;
    if let Some(parity) = parity {
        log::info!("{}", parity.sentence("tch"));
        if !parity.is_rounding() {
            bail!(
                "ONNX Runtime's features differ from tch's by {:.1e}, more than {PARITY:.0e} of the largest, \
                 {:.2e}; nothing was written; please report it, with the recipe",
                parity.deviation,
                parity.largest
            );
        }
    }
    // What ships computes the features that ship.
    let weights = recipe.export.weights;
    let mut smaller = None;
    if !weights.is_f32() {
        let facts = OnnxFacts { weights: weights.name(), ..facts };
        let bytes = onnx::encode_with(&model.backbone, weights, &metadata(&facts));
        smaller = Some((open(&bytes)?, bytes));
    }
    let encoder = smaller.as_mut().map_or(&mut float_encoder, |(encoder, _)| encoder);
    let base_model = source.base_model(model, targets, encoder)?;
    let base = source.clean_features(encoder, source.train, &split.base)?;
    let statistics = statistics(&base_model, encoder, (&source.input, &base), (source.train, split), recipe.seed)?;
    let benchmark = source.benchmark(encoder, &base)?;
    let names: Vec<&str> = base_model.classes.iter().map(|class| class.label.as_str()).collect();
    let (means, float_bytes) = (&benchmark.base_means, float.len());
    let mut stored = None;
    if let Some((encoder, bytes)) = &mut smaller {
        let float = (&mut float_encoder as &mut dyn Encoder, float_bytes);
        let measured = Fidelity::measure(&source, float, (encoder, bytes.len()), means)?;
        log::info!("{BACKBONE} with weights in {} {}", weights.name(), measured.sentence());
        measured.accept(weights)?;
        stored = Some(measured);
    }
    let mut int8_bytes = None;
    let mut int8_measured = None;
    if recipe.export.int8 {
        let (bytes, measured) = int8(model, &source, &facts, (&mut float_encoder, float_bytes), means)?;
        log::info!("{BACKBONE_INT8} {}", measured.sentence());
        (int8_bytes, int8_measured) = (Some(bytes), Some(measured));
    }
    let mut files = vec![
        (BACKBONE, smaller.map_or(float, |(_, bytes)| bytes)),
        (LEARNER, codec::encode(FileKind::Learner, &base_model)),
        (STATISTICS, statistics.encode()),
        (BENCHMARK, codec::encode(FileKind::Benchmark, &benchmark)),
        (LABELS, names.join("\n").into_bytes()),
    ];
    files.extend(int8_bytes.map(|bytes| (BACKBONE_INT8, bytes)));
    let mut digests = BTreeMap::new();
    for (name, bytes) in &files {
        write_atomically(&output.staged().join(name), bytes)?;
        digests.insert((*name).to_owned(), hexadecimal(&codec::digest(bytes)));
    }
    let manifest = source.manifest(model, digests);
    write_atomically(&output.staged().join(MANIFEST), toml::to_string(&manifest)?.as_bytes())?;
    let bundle = Bundle::open(output.staged()).context("the bundle just written does not open")?;
    let phase_1 = classifier_accuracy(model, recipe, &benchmark);
    let exported = ExportReport { folder: output.folder().into(), parity, phase_1, stored, int8: int8_measured };
    let card = card::write(&bundle, recipe, &exported, run, (split, data.skipped.len()))?;
    write_atomically(&output.staged().join(CARD), card.as_bytes())?;
    Ok(exported)
}

/// Largest difference between the exported model's features and the network's.
fn parity(model: &Model, encoder: &mut dyn Encoder, source: &BundleSource<'_>) -> Result<Parity> {
    // Images of the network's own size: scaling rounds here and there in different ways.
    let images = source.train.middle(PARITY_IMAGES, model.input());
    let indices: Vec<usize> = (0..images.len()).collect();
    let mut network = model.source_of_parts(Arithmetic::F32)?;
    let mut expected = Vec::new();
    for indices in indices.chunks(images.forward_batch(PARITY_IMAGES)) {
        expected.push(network.features(&images.batch(indices, model.device()))?.to_device(tch::Device::Cpu));
    }
    let expected = Tensor::cat(&expected, 0);
    let input = Preprocessing { look: Look::WHOLE, ..source.input };
    let actual = clean_features(encoder, &input, source.features, &images, &indices)?;
    let largest = |tensor: &Tensor| tensor.abs().max().double_value(&[]);
    let difference = Tensor::from_slice(&actual).view_as(&expected) - &expected;
    Ok(Parity { deviation: largest(&difference), largest: largest(&expected), images: indices.len() })
}

/// Mean over the base classes of how many of their measured images the classifier of phase 1 recognises by the features
/// that ship, in percent.
fn classifier_accuracy(model: &Model, recipe: &Recipe, benchmark: &Benchmark) -> Option<f64> {
    // A backbone that phase 2 changed is not the classifier's any more.
    let trained = recipe.pretrain.epochs > 0 && recipe.pretrain.cross_entropy > 0.0 && !recipe.align.train_backbone;
    if model.onnx.is_some() || !trained {
        return None;
    }
    let features = Tensor::from_slice(&benchmark.measured.clean()).view([benchmark.measured.len() as i64, -1]);
    let cpu = |tensor: &Tensor| tensor.detach().to_device(tch::Device::Cpu);
    let answers = features.linear(&cpu(&model.classifier), Some(&cpu(&model.classifier_bias))).argmax(1, false);
    let answers = Vec::<i64>::try_from(answers).expect("a row of i64");
    let base = recipe.split.base_classes;
    let mut counts = AccuracyCounts::new(base, base);
    let each = benchmark.measured.classes().iter().zip(answers).filter(|(class, _)| (**class as usize) < base);
    each.for_each(|(class, answer)| counts.count(*class as usize, answer as usize));
    Some(counts.row(0).base)
}

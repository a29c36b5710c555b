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
use orco_state::state::BaseModel;
use orco_state::statistics::Statistics;
use tch::Tensor;

use super::features::clean_features;
use super::fidelity::{EncoderOfFile, Fidelity};
use super::int8::int8;
use super::metadata::{OnnxFacts, metadata};
use super::output::{BundleOutput, CARD};
use super::report::{ExportReport, PARITY, Parity};
use super::source::BundleSource;
use super::statistics::{BaseImages, statistics};
use super::{card, onnx};
use crate::config::{Precision, Recipe};
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
    let source = BundleSource::new(model, recipe, data);
    let facts = float_facts(model, recipe, data, &source.input);
    let mut float = BackboneFile::open(BundleSource::encode(model, &metadata(&facts)), &source)?;
    let parity = (!model.is_imported()).then(|| checked_parity(model, float.encoder.as_mut(), &source)).transpose()?;
    let mut smaller = smaller_file(model, &source, &facts)?;
    // What ships computes the features that ship.
    let content = BundleContent::compute(model, targets, &source, &mut smaller.as_mut().unwrap_or(&mut float).encoder)?;
    let means = &content.benchmark.base_means;
    let stored = smaller.as_mut().map(|smaller| smaller.checked_fidelity(&source, &mut float, means)).transpose()?;
    let int8 = recipe.export.int8.then(|| int8(model, &source, &facts, float.encoder_of_file(), means)).transpose()?;
    let (int8_bytes, int8) = int8.unzip();
    if let Some(measured) = &int8 {
        log::info!("{BACKBONE_INT8} {}", measured.sentence());
    }
    let mut files = content.files(smaller.unwrap_or(float).bytes);
    files.extend(int8_bytes.map(|bytes| (BACKBONE_INT8, bytes)));
    let bundle = write_files(&files, &source, model, run, output)?;
    let classifier_accuracy = classifier_accuracy(model, recipe, &content.benchmark);
    let exported = ExportReport { folder: output.folder().into(), parity, classifier_accuracy, stored, int8 };
    let card = card::write(&bundle, recipe, &exported, run, data)?;
    write_atomically(&output.staged().join(CARD), card.as_bytes())?;
    Ok(exported)
}

/// What the float backbone's file says of itself.
fn float_facts<'a>(model: &'a Model, recipe: &'a Recipe, data: &'a DataSet, input: &'a Preprocessing) -> OnnxFacts<'a> {
    let labels = data.class_names.as_slice();
    OnnxFacts {
        name: &recipe.name,
        architecture: &model.backbone.description.name,
        classes: &labels[..data.split.base_classes.min(labels.len())],
        input,
        seed: recipe.seed,
        license: recipe.license(),
        export: &recipe.export,
        precision: "float32",
        weights: WeightFormat::F32.name(),
    }
}

/// A backbone's file, opened by ONNX Runtime.
struct BackboneFile {
    bytes: Vec<u8>,
    encoder: Box<dyn Encoder>,
}

impl BackboneFile {
    fn open(bytes: Vec<u8>, source: &BundleSource<'_>) -> Result<Self> {
        let encoder = Onnx::pool(&bytes, &source.input).context("the export is checked with ONNX Runtime")?;
        Ok(Self { bytes, encoder: Box::new(encoder) })
    }

    fn encoder_of_file(&mut self) -> EncoderOfFile<'_> {
        EncoderOfFile { encoder: self.encoder.as_mut(), bytes: self.bytes.len() }
    }

    /// How close the features of this file with smaller weights are to those of the float one.
    fn checked_fidelity(&mut self, source: &BundleSource<'_>, float: &mut Self, means: &[f32]) -> Result<Fidelity> {
        let weights = source.recipe.export.weights;
        let measured = Fidelity::measure(source, float.encoder_of_file(), self.encoder_of_file(), means)?;
        log::info!("{BACKBONE} with weights in {} {}", weights.name(), measured.sentence());
        measured.accept(weights)?;
        Ok(measured)
    }
}

/// The backbone with its weights in fewer bits, if the recipe asks for that.
fn smaller_file(model: &Model, source: &BundleSource<'_>, float: &OnnxFacts<'_>) -> Result<Option<BackboneFile>> {
    let weights = source.recipe.export.weights;
    if weights.is_f32() {
        return Ok(None);
    }
    let facts = OnnxFacts { weights: weights.name(), ..*float };
    BackboneFile::open(onnx::encode_with(&model.backbone, weights, &metadata(&facts)), source).map(Some)
}

/// How far ONNX Runtime is from tch; refuses more than rounding explains.
fn checked_parity(model: &Model, encoder: &mut dyn Encoder, source: &BundleSource<'_>) -> Result<Parity> {
    let parity = parity(model, encoder, source)?;
    log::info!("{}", parity.sentence("tch"));
    if !parity.is_rounding() {
        bail!(
            "ONNX Runtime's features differ from tch's by {:.1e}, more than {PARITY:.0e} of the largest, {:.2e}; \
             nothing was written; please report it, with the recipe",
            parity.deviation,
            parity.largest
        );
    }
    Ok(parity)
}

/// What a bundle holds beside its backbone.
struct BundleContent {
    base_model: BaseModel,
    statistics: Statistics,
    benchmark: Benchmark,
}

impl BundleContent {
    fn compute(
        model: &Model,
        targets: &Targets,
        source: &BundleSource<'_>,
        encoder: &mut Box<dyn Encoder>,
    ) -> Result<Self> {
        let encoder = encoder.as_mut();
        let base_model = source.base_model(model, targets, encoder)?;
        let base = source.clean_features(encoder, source.train, &source.split.base)?;
        let images = BaseImages { input: &source.input, train: source.train, split: source.split };
        let statistics = statistics(&base_model, encoder, images, &base, source.recipe.seed)?;
        let benchmark = source.benchmark(encoder, &base)?;
        Ok(Self { base_model, statistics, benchmark })
    }

    /// All files that the manifest lists, but an int8 backbone.
    fn files(&self, backbone: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
        let names: Vec<&str> = self.base_model.classes.iter().map(|class| class.label.as_str()).collect();
        vec![
            (BACKBONE, backbone),
            (LEARNER, codec::encode(FileKind::Learner, &self.base_model)),
            (STATISTICS, self.statistics.encode()),
            (BENCHMARK, codec::encode(FileKind::Benchmark, &self.benchmark)),
            (LABELS, names.join("\n").into_bytes()),
        ]
    }
}

/// Writes the files and the manifest that lists them; opens the bundle as a device would.
fn write_files(
    files: &[(&str, Vec<u8>)],
    source: &BundleSource<'_>,
    model: &Model,
    run: &Run,
    output: &BundleOutput,
) -> Result<Bundle> {
    let mut digests = BTreeMap::new();
    for (name, bytes) in files {
        write_atomically(&output.staged().join(name), bytes)?;
        digests.insert((*name).to_owned(), hexadecimal(&codec::digest(bytes)));
    }
    let manifest = source.manifest(model, run.group().size(), digests);
    write_atomically(&output.staged().join(MANIFEST), toml::to_string(&manifest)?.as_bytes())?;
    Bundle::open(output.staged()).context("the bundle just written does not open")
}

/// Largest difference between the exported model's features and the network's.
fn parity(model: &Model, encoder: &mut dyn Encoder, source: &BundleSource<'_>) -> Result<Parity> {
    // Images of the network's own size: scaling rounds here and there in different ways.
    let images = source.train.middle(PARITY_IMAGES, model.input());
    let indices: Vec<usize> = (0..images.len()).collect();
    let mut network = model.source_of_parts(Precision::F32)?;
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
    if model.is_imported() || !trained {
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

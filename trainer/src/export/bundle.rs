//! Writing a bundle: backbone, learner file, labels, benchmark file, manifest, card.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use orco_core::random::Random;
use orco_lab::Measured;
use orco_lab::benchmark::Benchmark;
use orco_runtime::augment::Views;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::encoder::{Encoder, encode_pictures};
use orco_runtime::image::{Preprocessing, from_planes};
use orco_runtime::manifest::{
    BACKBONE, BACKBONE_INT8, BENCHMARK, BackboneFacts, FORMAT, LABELS, LEARNER, MANIFEST, Manifest, Provenance,
    Weights, hexadecimal,
};
use orco_state::bank::Bank;
use orco_state::codec::{self, Kind as FileKind};
use orco_state::state::{Class, Foundation};
use tch::Tensor;

use super::fidelity::Fidelity;
use super::int8::int8;
use super::metadata::{Facts, metadata};
use super::place::{CARD, Place};
use super::{card, onnx};
use crate::align::Assignment;
use crate::config::{MeasureOn, Precision, Recipe};
use crate::dataset::{DataSet, Images, SHOTS, Split};
use crate::interrupt;
use crate::model::Model;
use crate::progress::Progress;
use crate::run::{Run, write_atomically};

/// Largest deviation between ONNX Runtime and tch that an export may have, as a share of the largest feature: rounding grows
/// with the features.
const PARITY: f64 = 1e-4;
/// Most images on which both are compared.
const PARITY_IMAGES: usize = 1000;

/// What an export was found to be.
#[derive(Debug)]
pub struct Exported {
    /// The bundle's folder.
    pub folder: PathBuf,
    /// How far ONNX Runtime is from tch; none for a backbone that the user brought.
    pub parity: Option<Parity>,
    /// How many of the base classes' measured images the classifier of phase 1 recognises, in percent, if cross entropy
    /// trained it.
    pub phase_1: Option<f64>,
    /// What storing weights in fewer bits cost, if the recipe asks for that.
    pub stored: Option<Fidelity>,
    /// What the int8 backbone was found to be, if the recipe asks for one.
    pub int8: Option<Fidelity>,
}

/// How far ONNX Runtime is from tch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parity {
    /// Largest deviation of a feature.
    pub deviation: f64,
    /// Size of the largest feature.
    pub largest: f64,
    /// Images on which both were compared.
    pub images: usize,
}

impl Parity {
    /// What was measured, for people.
    pub fn sentence(&self, network: &str) -> String {
        format!(
            "ONNX Runtime equals {network} within {:.1e} on {} training images (largest feature: {:.1})",
            self.deviation, self.images, self.largest
        )
    }

    /// Whether the deviation is explained by rounding; not a number is not.
    fn is_rounding(&self) -> bool {
        self.deviation <= PARITY * self.largest.max(1.0)
    }
}

/// Everything that a bundle is made from.
pub(crate) struct Source<'a> {
    pub(crate) recipe: &'a Recipe,
    pub(crate) train: &'a Images,
    /// Images accuracy is measured on.
    pub(crate) measured: &'a Images,
    pub(crate) split: &'a Split,
    pub(crate) labels: &'a [String],
    pub(crate) input: Preprocessing,
    views: Views,
    /// Length of a feature vector.
    pub(crate) features: usize,
}

/// Writes the bundle where `place` has it made, opens it again as a device would, measures it, and writes its card. What
/// is left is to sign it and to [finish](Place::finish).
///
/// # Errors
/// If a stop was asked for, a file cannot be written, ONNX Runtime is missing, its features differ from tch's by more than
/// 1e-4 of the largest, or storing the weights in fewer bits changed the features by more than that explains.
pub fn write_bundle(
    model: &Model,
    assignment: &Assignment,
    recipe: &Recipe,
    data: &DataSet,
    run: &Run,
    place: &Place,
) -> Result<Exported> {
    let (split, labels) = (&data.split, data.class_names.as_slice());
    let source = Source::new(model, recipe, (&data.train, &data.test), split, labels);
    let facts = Facts {
        name: &recipe.name,
        architecture: &model.backbone.description.name,
        classes: &labels[..split.base_classes.min(labels.len())],
        input: &source.input,
        seed: recipe.seed,
        export: &recipe.export,
        precision: "float32",
        weights: Weights::F32.name(),
    };
    let float = source.encode(model, &facts);
    let open = |bytes: &[u8]| Onnx::open(bytes, &source.input).context("the export is checked with ONNX Runtime");
    let mut float_encoder = open(&float)?;
    let parity = model.foreign.is_none().then(|| parity(model, &mut float_encoder, &source)).transpose()?;
    if let Some(parity) = parity {
        log::info!("{}", parity.sentence("tch"));
        if !parity.is_rounding() {
            bail!(
                "ONNX Runtime's features differ from tch's by {:.1e}, more than {PARITY:.0e} of the largest, {:.2e}; nothing was \
                 written; please report it, with the recipe",
                parity.deviation,
                parity.largest
            );
        }
    }
    // What ships computes the features that ship.
    let weights = recipe.export.weights;
    let mut smaller = None;
    if !weights.is_f32() {
        let facts = Facts { weights: weights.name(), ..facts };
        let bytes = onnx::encode_with(&model.backbone, weights, &metadata(&facts));
        smaller = Some((open(&bytes)?, bytes));
    }
    let encoder = smaller.as_mut().map_or(&mut float_encoder, |(encoder, _)| encoder);
    let foundation = source.foundation(model, assignment, encoder)?;
    let benchmark = source.benchmark(encoder)?;
    let names: Vec<&str> = foundation.classes.iter().map(|class| class.label.as_str()).collect();
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
        (LEARNER, codec::encode(FileKind::Learner, &foundation)),
        (BENCHMARK, codec::encode(FileKind::Benchmark, &benchmark)),
        (LABELS, names.join("\n").into_bytes()),
    ];
    files.extend(int8_bytes.map(|bytes| (BACKBONE_INT8, bytes)));
    let mut digests = BTreeMap::new();
    for (name, bytes) in &files {
        write_atomically(&place.staged().join(name), bytes)?;
        digests.insert((*name).to_owned(), hexadecimal(&codec::digest(bytes)));
    }
    let manifest = source.manifest(model, digests);
    write_atomically(&place.staged().join(MANIFEST), toml::to_string(&manifest)?.as_bytes())?;
    let bundle = Bundle::open(place.staged()).context("the bundle just written does not open")?;
    let phase_1 = classifier_accuracy(model, recipe, &benchmark);
    let exported = Exported { folder: place.folder().into(), parity, phase_1, stored, int8: int8_measured };
    let card = card::write(&bundle, recipe, &exported, run, data.skipped.len())?;
    write_atomically(&place.staged().join(CARD), card.as_bytes())?;
    Ok(exported)
}

/// Largest difference between the exported model's features and the network's.
fn parity(model: &Model, encoder: &mut dyn Encoder, source: &Source<'_>) -> Result<Parity> {
    let indices: Vec<usize> = (0..PARITY_IMAGES.min(source.train.len())).collect();
    let images = source.train.batch(&indices, model.device());
    let expected = model.source(Precision::F32)?.features(&images)?.to_device(tch::Device::Cpu);
    let actual = source.clean_features(encoder, source.train, &indices)?;
    let largest = |tensor: &Tensor| tensor.abs().max().double_value(&[]);
    let difference = Tensor::from_slice(&actual).view_as(&expected) - &expected;
    Ok(Parity { deviation: largest(&difference), largest: largest(&expected), images: indices.len() })
}

/// Mean over the base classes of how many of their measured images the classifier of phase 1 recognises by the features
/// that ship, in percent.
fn classifier_accuracy(model: &Model, recipe: &Recipe, benchmark: &Benchmark) -> Option<f64> {
    // A backbone that phase 2 changed is not the classifier's any more.
    let trained = recipe.pretrain.epochs > 0 && recipe.pretrain.cross_entropy > 0.0 && !recipe.align.train_backbone;
    if model.foreign.is_some() || !trained {
        return None;
    }
    let features = Tensor::from_slice(&benchmark.measured.clean()).view([benchmark.measured.len() as i64, -1]);
    let cpu = |tensor: &Tensor| tensor.detach().to_device(tch::Device::Cpu);
    let answers = features.linear(&cpu(&model.classifier), Some(&cpu(&model.classifier_bias))).argmax(1, false);
    let answers = Vec::<i64>::try_from(answers).expect("a row of i64");
    let base = recipe.split.base_classes;
    let mut counts = Measured::new(base);
    let each = benchmark.measured.classes().iter().zip(answers).filter(|(class, _)| (**class as usize) < base);
    each.for_each(|(class, answer)| counts.count(*class as usize, answer as usize));
    Some(counts.row(0, base).base)
}

impl<'a> Source<'a> {
    pub(crate) fn new(
        model: &Model,
        recipe: &'a Recipe,
        (train, test): (&'a Images, &'a Images),
        split: &'a Split,
        labels: &'a [String],
    ) -> Self {
        let [_, height, width] = model.backbone.description.input;
        let own = Preprocessing {
            width: width as u32,
            height: height as u32,
            mean: model.channels.mean,
            deviation: model.channels.deviation,
        };
        Self {
            recipe,
            train,
            measured: if recipe.split.measure_on == MeasureOn::Test { test } else { train },
            split,
            labels,
            input: model.foreign.as_ref().map_or(own, |foreign| foreign.input),
            views: Views::default(),
            features: model.backbone.description.features() as usize,
        }
    }

    /// The float backbone's file: written from the network, or the one that the user brought.
    fn encode(&self, model: &Model, facts: &Facts<'_>) -> Vec<u8> {
        match &model.foreign {
            Some(foreign) => foreign.bytes.clone(),
            None => onnx::encode(&model.backbone, &metadata(facts)),
        }
    }

    fn picture(&self, images: &Images, index: usize) -> image::RgbImage {
        let planes = Vec::<u8>::try_from(images.pixels.get(index as i64).contiguous().view(-1)).expect("u8 tensor");
        let size = images.pixels.size();
        from_planes(size[3] as u32, size[2] as u32, &planes)
    }

    /// Features of the clean views, f32 `[indices, features]`.
    pub(crate) fn clean_features(
        &self,
        encoder: &mut dyn Encoder,
        images: &Images,
        indices: &[usize],
    ) -> Result<Vec<f32>> {
        let mut all = Vec::new();
        for chunk in indices.chunks(256) {
            interrupt::check()?;
            let pictures: Vec<_> = chunk.iter().map(|&index| self.input.fit(&self.picture(images, index))).collect();
            all.extend(encode_pictures(encoder, &self.input, self.features, &pictures)?);
        }
        Ok(all)
    }

    /// Quantised features of images, `views` each, with their classes.
    fn bank(&self, encoder: &mut dyn Encoder, images: &Images, indices: &[usize], views: usize) -> Result<Bank> {
        let mut progress = Progress::new("features", indices.len() as u64, 0);
        let mut bank = Bank::new(self.features, views, self.recipe.learn.precision);
        for &index in indices {
            interrupt::check()?;
            let pictures = self.views.draw(&self.picture(images, index), &self.input, views, self.recipe.seed);
            let features = encode_pictures(encoder, &self.input, self.features, &pictures)?;
            bank.push(u32::from(images.labels[index]), &features);
            progress.advance(1, "");
        }
        progress.finish();
        Ok(bank)
    }

    /// Training images that become the base classes' exemplars, class after class.
    pub(crate) fn base_exemplars(&self) -> Vec<usize> {
        let mut random = Random::new(self.recipe.seed, "base exemplars");
        let mut chosen = Vec::new();
        for class in 0..self.split.base_classes {
            let mut members: Vec<usize> = self
                .split
                .base
                .iter()
                .copied()
                .filter(|&index| usize::from(self.train.labels[index]) == class)
                .collect();
            random.shuffle(&mut members);
            chosen.extend_from_slice(&members[..self.recipe.export.exemplars_per_class.min(members.len())]);
        }
        chosen
    }

    pub(crate) fn foundation(
        &self,
        model: &Model,
        assignment: &Assignment,
        encoder: &mut dyn Encoder,
    ) -> Result<Foundation> {
        let config = self.recipe.learn.clone();
        let exemplars = self.bank(encoder, self.train, &self.base_exemplars(), config.views)?;
        let targets = assignment.targets.to_device(tch::Device::Cpu).contiguous().view(-1);
        let classes = assignment.rows.iter().zip(self.labels).map(|(&row, label)| Class {
            label: label.clone(),
            target: row as u32,
            session: 0,
        });
        Ok(Foundation {
            dimension: self.recipe.head.projection as usize,
            targets: Vec::try_from(targets)?,
            head: model.head.to_runtime(),
            classes: classes.collect(),
            exemplars,
            config,
        })
    }

    pub(crate) fn benchmark(&self, encoder: &mut dyn Encoder) -> Result<Benchmark> {
        log::info!("computing the benchmark's features with {}", encoder.engine());
        let measured = self.bank(encoder, self.measured, &self.split.measured, 1)?;
        let shots: Vec<usize> = self.split.candidates.concat();
        let candidates = self.bank(encoder, self.train, &shots, self.recipe.learn.views)?;
        let base = self.bank(encoder, self.train, &self.split.base, 1)?;
        let data = self.recipe.data.kind.title();
        let sources = |indices: &[usize]| indices.iter().map(|&index| index as u32).collect();
        Ok(Benchmark {
            source: match self.recipe.split.measure_on {
                MeasureOn::Test => format!("{data} test images"),
                MeasureOn::Holdout => format!("held-out {data} training images"),
            },
            labels: self.labels[self.split.base_classes..][..self.split.candidates.len()].to_vec(),
            ways: self.split.sessions.iter().map(|session| session.classes.len() as u32).collect(),
            shots: SHOTS as u32,
            base_means: base.means(self.split.base_classes),
            measured_sources: sources(&self.split.measured),
            measured,
            measured_on_test: self.recipe.split.measure_on == MeasureOn::Test,
            candidate_sources: sources(&shots),
            candidates,
            fixed_draw: self.split.fixed_draw,
        })
    }

    fn manifest(&self, model: &Model, files: BTreeMap<String, String>) -> Manifest {
        let description = &model.backbone.description;
        let parameters = model.foreign.as_ref().map_or(description.parameters() as u64, |foreign| foreign.parameters);
        Manifest {
            format: FORMAT,
            name: self.recipe.name.clone(),
            release: 0,
            preprocessing: self.input,
            views: self.views,
            backbone: BackboneFacts {
                architecture: description.name.clone(),
                features: description.features() as usize,
                parameters,
                multiply_adds: description.multiply_adds() as u64,
                weights: self.recipe.export.weights,
            },
            provenance: Provenance {
                program: format!("orco-train {}", env!("CARGO_PKG_VERSION")),
                trained_on: format!(
                    "{}, {} base classes, {} images",
                    self.recipe.data.kind.title(),
                    self.split.base_classes,
                    self.split.base.len()
                ),
                seed: self.recipe.seed,
                pretrain_epochs: self.recipe.pretrain.epochs,
                align_epochs: self.recipe.align.epochs,
            },
            files,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_grows_with_the_features() {
        let parity = |deviation, largest| Parity { deviation, largest, images: 1 };
        assert!(parity(9e-5, 0.1).is_rounding() && parity(2.1e-4, 22.0).is_rounding());
        assert!(!parity(2e-4, 0.5).is_rounding() && !parity(3e-3, 22.0).is_rounding());
        assert!(!parity(f64::NAN, 22.0).is_rounding());
    }
}

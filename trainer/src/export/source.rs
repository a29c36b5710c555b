//! Everything that a bundle is made from, and the parts of the bundle that follow from it.

use std::collections::BTreeMap;

use anyhow::Result;
use orco_benchmark::benchmark::Benchmark;
use orco_core::random::Random;
use orco_lab::statistics::{Features, class_means};
use orco_runtime::augment::AugmentedViews;
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::stream::{BackboneShape, ViewSource, encode_stream};
use orco_runtime::image::Preprocessing;
use orco_runtime::manifest::{BackboneFacts, Manifest, Provenance};
use orco_state::bank::Bank;
use orco_state::state::{BaseModel, Class};

use super::features::{clean_features, picture};
use super::onnx;
use crate::config::{MeasureOn, Recipe, SHOTS};
use crate::data::dataset::{DataSet, Images, Split};
use crate::model::Model;
use crate::platform::device::values;
use crate::platform::interrupt;
use crate::run::progress::WorkProgress;
use crate::train::objective::Targets;

/// Everything that a bundle is made from.
pub struct BundleSource<'a> {
    /// The recipe.
    pub recipe: &'a Recipe,
    /// Training images.
    pub train: &'a Images,
    /// Images accuracy is measured on.
    pub measured: &'a Images,
    /// Which images are the base classes', which are shots, which are measured.
    pub split: &'a Split,
    /// Names of the classes, by label.
    pub labels: &'a [String],
    /// What is measured on, in words.
    pub measured_on: String,
    /// What the backbone is fed with.
    pub input: Preprocessing,
    views: AugmentedViews,
    /// Length of a feature vector.
    pub features: usize,
}

impl<'a> BundleSource<'a> {
    /// For a model that was trained by this recipe on these data.
    pub fn new(model: &Model, recipe: &'a Recipe, data: &'a DataSet) -> Self {
        let [height, width] = model.input();
        let own = Preprocessing {
            width: width as u32,
            height: height as u32,
            mean: model.channels.mean,
            deviation: model.channels.deviation,
            look: model.look,
        };
        Self {
            recipe,
            train: &data.train,
            measured: data.measured(recipe.split.measure_on),
            split: &data.split,
            labels: &data.class_names,
            measured_on: recipe.measured_on(data.test_seed),
            input: model.onnx.as_ref().map_or(own, |onnx| Preprocessing { look: model.look, ..onnx.input }),
            views: AugmentedViews::default(),
            features: model.backbone.description.features() as usize,
        }
    }

    /// The float backbone's file: written from the network, or the imported one.
    pub fn encode(model: &Model, metadata: &[(&str, String)]) -> Vec<u8> {
        match &model.onnx {
            Some(onnx) => onnx.bytes.clone(),
            None => onnx::encode(&model.backbone, metadata),
        }
    }

    /// Features of the clean views, f32 `[indices, features]`.
    ///
    /// # Errors
    /// If they cannot be computed, or a stop was asked for.
    pub fn clean_features(&self, encoder: &mut dyn Encoder, images: &Images, indices: &[usize]) -> Result<Vec<f32>> {
        clean_features(encoder, &self.input, self.features, images, indices)
    }

    /// Quantised features of images, `views` each, with their classes.
    fn bank(&self, encoder: &mut dyn Encoder, images: &Images, indices: &[usize], views: usize) -> Result<Bank> {
        let mut progress = WorkProgress::new("features", "images", indices.len() as u64, 0);
        let mut bank = Bank::new(self.features, views, self.recipe.learn.precision);
        let mut classes = images.classes(indices).into_iter();
        let pictures = indices.iter().map(|&index| picture(images, index));
        let (views_of, input, seed) = (&self.views, &self.input, self.recipe.seed);
        let draw = |picture: &_| views_of.draw(picture, input, views, seed);
        let shape = BackboneShape { input, features: self.features };
        encode_stream(encoder, shape, pictures, ViewSource { count: views, draw }, |features| {
            interrupt::check()?;
            bank.push(classes.next().expect("an image's class"), features.as_slice().expect("rows as they were made"));
            progress.advance(1, "");
            anyhow::Ok(())
        })?;
        progress.finish();
        Ok(bank)
    }

    /// Training images that become the base classes' exemplars, class after class.
    pub fn base_exemplars(&self) -> Vec<usize> {
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

    /// What devices learn on, with the exemplars' features by `encoder`.
    ///
    /// # Errors
    /// If they cannot be computed, or a stop was asked for.
    pub fn base_model(&self, model: &Model, targets: &Targets, encoder: &mut dyn Encoder) -> Result<BaseModel> {
        let config = self.recipe.learn.clone();
        let exemplars = self.bank(encoder, self.train, &self.base_exemplars(), config.views)?;
        let classes = targets.assignment.iter().zip(self.labels).map(|(&row, label)| Class {
            label: label.clone(),
            target: row as u32,
            session: 0,
        });
        Ok(BaseModel {
            dimension: self.recipe.head.projection as usize,
            targets: values(&targets.vectors),
            head: model.head.to_runtime(),
            classes: classes.collect(),
            exemplars,
            config,
            statistics: None,
        })
    }

    /// The benchmark file's content; `base` is the features of the base images, `[split.base, features]`.
    ///
    /// # Errors
    /// If features cannot be computed, or a stop was asked for.
    pub fn benchmark(&self, encoder: &mut dyn Encoder, base: &[f32]) -> Result<Benchmark> {
        log::info!("computing the benchmark's features with {}", encoder.engine());
        let measured = self.bank(encoder, self.measured, &self.split.measured, 1)?;
        let shots: Vec<usize> = self.split.candidates.concat();
        let candidates = self.bank(encoder, self.train, &shots, self.recipe.learn.views)?;
        let base = Features { values: base, classes: &self.train.classes(&self.split.base) };
        let sources = |indices: &[usize]| indices.iter().map(|&index| index as u32).collect();
        Ok(Benchmark {
            source: self.measured_on.clone(),
            labels: self.labels[self.split.base_classes..][..self.split.candidates.len()].to_vec(),
            ways: self.split.sessions.iter().map(|session| session.classes.len() as u32).collect(),
            shots: SHOTS as u32,
            base_means: class_means(base, self.features, self.split.base_classes),
            measured_sources: sources(&self.split.measured),
            measured,
            measured_on_test: self.recipe.split.measure_on == MeasureOn::Test,
            candidate_sources: sources(&shots),
            candidates,
            fixed_draw: self.split.fixed_draw,
        })
    }

    /// The manifest of a model that this number of `ranks` trained together.
    pub(super) fn manifest(&self, model: &Model, ranks: usize, files: BTreeMap<String, String>) -> Manifest {
        let description = &model.backbone.description;
        let parameters = model.onnx.as_ref().map_or(description.parameters() as u64, |onnx| onnx.parameters);
        Manifest {
            format: Manifest::format_for(&self.input),
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
            learn: self.recipe.learn.clone(),
            provenance: Provenance {
                program: format!("orco-train {}", env!("CARGO_PKG_VERSION")),
                trained_on: describe_training_images(self.recipe, self.split),
                seed: self.recipe.seed,
                // A recipe's phase 1 is left out where the command line brings the backbone.
                pretrain_epochs: if model.is_imported() { 0 } else { self.recipe.pretrain.epochs },
                align_epochs: self.recipe.align.for_images_on(self.split.base.len(), ranks).epochs,
            },
            files,
        }
    }
}

/// The images that phases train on, in words, as a bundle's provenance names them.
pub(super) fn describe_training_images(recipe: &Recipe, split: &Split) -> String {
    format!("{}, {} base classes, {} images", recipe.data.kind.title(), split.base_classes, split.base.len())
}

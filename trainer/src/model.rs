//! What training works on: backbone, head and the auxiliary classifier of phase 1, with their parameters.

pub mod backbone;
pub(crate) mod onnx_proto;
pub mod store;
mod weights;

pub use weights::{LoadedWeights, Norms, WeightChannels, WeightFile};

use std::collections::HashMap;

use anyhow::Result;
use orco_runtime::encoder::EncodeError;
use orco_runtime::image::Look;
use tch::nn::{Init, VarStore};
use tch::{Device, Tensor, no_grad};

use crate::config::{Precision, Recipe};
use crate::data::dataset::{ChannelStatistics, Images};
use crate::model::backbone::{
    Description, FeatureSource, ForwardMode, LookingSource, Network, OnnxBackbone, ProjectionHead, linear_init, parts,
};
use crate::model::store::Parameter;
use crate::platform::mkl;

/// Backbone f, head g, and a linear classifier on the features.
#[derive(Debug)]
pub struct Model {
    store: VarStore,
    /// The feature extractor f; without layers where the user brings another one.
    pub backbone: Network,
    /// The feature extractor that the user brings.
    pub onnx: Option<OnnxBackbone>,
    /// The projection head g.
    pub head: ProjectionHead,
    /// Linear classifier of the base classes, weight `[classes, features]`; used by cross entropy only.
    pub classifier: Tensor,
    /// Its bias, `[classes]`.
    pub classifier_bias: Tensor,
    /// Normalises the images; known from the recipe, or set from the data set (see [`crate::data::dataset::open`]).
    pub channels: ChannelStatistics,
    /// The parts of an image over which a feature vector is the mean.
    pub look: Look,
}

impl Model {
    /// A freshly initialised model; seeds torch's generator.
    pub fn new(recipe: &Recipe, input: [i64; 3], device: Device) -> Self {
        let mirrored = recipe.align.mirrored;
        Self::from_description(recipe, Description { mirrored, ..Description::new(&recipe.backbone, input) }, device)
    }

    /// A freshly initialised head on a feature extractor that the user brings; seeds torch's generator.
    pub fn with_onnx_backbone(onnx: OnnxBackbone, recipe: &Recipe, device: Device) -> Self {
        let description = Description::identity(&onnx.name, onnx.features as i64);
        Self { onnx: Some(onnx), ..Self::from_description(recipe, description, device) }
    }

    /// This model on another device.
    ///
    /// # Errors
    /// If the recipe is not the model's.
    pub fn to_device(&self, recipe: &Recipe, device: Device) -> Result<Self> {
        let mut moved = Self::from_description(recipe, self.backbone.description.clone(), device);
        (moved.onnx, moved.channels) = (self.onnx.clone(), self.channels);
        moved.restore(&self.tensors().into_iter().collect())?;
        Ok(moved)
    }

    fn from_description(recipe: &Recipe, description: Description, device: Device) -> Self {
        mkl::warm_up();
        tch::manual_seed(recipe.seed as i64);
        let store = VarStore::new(device);
        let features = description.features();
        let classes = recipe.split.base_classes as i64;
        let backbone = Network::new(&(store.root() / "backbone"), description);
        let head = ProjectionHead::new(&(store.root() / "head"), features, &recipe.head);
        let linear = store.root() / "classifier";
        let classifier = linear.var("weight", &[classes, features], linear_init(features));
        let classifier_bias = linear.var("bias", &[classes], Init::Const(0.0));
        let channels = ChannelStatistics::of(recipe).unwrap_or_default();
        let look = recipe.data.look;
        Self { store, backbone, onnx: None, head, classifier, classifier_bias, channels, look }
    }

    /// Whether the backbone is imported: a model in an ONNX file, which is not trained.
    pub fn is_imported(&self) -> bool {
        self.onnx.is_some()
    }

    /// Where the model's tensors live.
    pub fn device(&self) -> Device {
        self.store.device()
    }

    /// Every tensor by name, sorted, for a checkpoint.
    pub fn tensors(&self) -> Vec<(String, Tensor)> {
        store::tensors(&self.store)
    }

    /// The trained tensors whose names start with `prefix`, sorted by name; norms and biases do not decay.
    pub fn parameters(&self, prefix: &str) -> Vec<Parameter> {
        let named = self.tensors().into_iter().filter(|(name, _)| name.starts_with(prefix));
        store::parameters(named)
    }

    /// Where features come from: the network in inference mode and the precision given, or the model that the user
    /// brings, which has its own. Features are means over the parts of the look.
    ///
    /// # Errors
    /// [`EncodeError`] if the latter cannot be started.
    pub fn source(&self, precision: Precision) -> Result<Box<dyn FeatureSource + '_>, EncodeError> {
        let once = self.source_of_parts(precision)?;
        let look = self.look;
        Ok(if look.is_whole() { once } else { Box::new(LookingSource { once, look, input: self.input() }) })
    }

    /// Height and width of the backbone's input.
    pub fn input(&self) -> [i64; 2] {
        let [_, height, width] = self.backbone.description.input;
        self.onnx.as_ref().map_or([height, width], |onnx| [onnx.input.height, onnx.input.width].map(i64::from))
    }

    /// The parts of images that the look has, of the size that the backbone takes; images as they are where the look is
    /// the whole alone.
    pub fn parts(&self, images: &Tensor) -> Vec<Tensor> {
        if self.look.is_whole() { vec![images.shallow_clone()] } else { parts(images, self.look, self.input()) }
    }

    /// As [`Model::source`], for images that are parts already.
    ///
    /// # Errors
    /// As for [`Model::source`].
    pub fn source_of_parts(&self, precision: Precision) -> Result<Box<dyn FeatureSource + '_>, EncodeError> {
        Ok(match &self.onnx {
            Some(onnx) => Box::new(onnx.start()?),
            None => Box::new(FrozenNetwork { network: &self.backbone, channels: self.channels, precision }),
        })
    }

    /// Features of images by the model's own backbone, in inference mode and f32, `[indices, features]`. `change` is
    /// applied to the images first.
    pub fn features(&self, images: &Images, indices: &[usize], change: impl Fn(Tensor) -> Tensor) -> Tensor {
        let input = self.channels.normalise(&change(images.batch(indices, self.device())));
        no_grad(|| self.backbone.forward(&input, Precision::F32, ForwardMode::Inference))
    }

    /// Undoes the folding of batch norm into convolutions, with statistics from some of the images at `indices`. In
    /// inference mode the backbone's features stay the same.
    pub fn restore_norms(&self, images: &Images, indices: &[usize]) {
        /// Enough for means and variances, of which every image gives many numbers.
        const COUNT: usize = 1024;
        const BATCH: usize = 128;
        let some: Vec<usize> = indices.iter().copied().step_by((indices.len() / COUNT).max(1)).collect();
        let batches = some.chunks(images.forward_batch(BATCH)).map(|indices| images.batch(indices, self.device()));
        self.backbone.restore_norms(batches.map(|images| self.channels.normalise(&self.parts(&images)[0])));
    }

    /// Sets every tensor of the model from a checkpoint.
    ///
    /// # Errors
    /// If one is missing or has another shape.
    pub fn restore(&mut self, tensors: &HashMap<String, Tensor>) -> Result<()> {
        store::restore(self.tensors(), tensors)
    }
}

/// The network in inference mode, without gradients.
struct FrozenNetwork<'a> {
    network: &'a Network,
    channels: ChannelStatistics,
    precision: Precision,
}

impl FeatureSource for FrozenNetwork<'_> {
    fn features(&mut self, images: &Tensor) -> Result<Tensor, EncodeError> {
        let input = self.channels.normalise(images);
        Ok(no_grad(|| self.network.forward(&input, self.precision, ForwardMode::Inference)))
    }
}

#[cfg(test)]
mod tests {
    use orco_runtime::image::Preprocessing;

    use super::*;

    #[test]
    fn a_model_that_moves_stays_what_it_was() {
        let mut recipe: Recipe = toml::from_str(include_str!("../recipes/synthetic-tiny.toml")).unwrap();
        recipe.backbone.width = 2;
        let input = Preprocessing { width: 8, height: 8, mean: [0.1; 3], deviation: [0.2; 3], look: Look::WHOLE };
        let onnx = OnnxBackbone {
            bytes: vec![1, 2, 3],
            digest: [4; 32],
            name: "imported".into(),
            input,
            features: 5,
            parameters: 7,
            names_channels: true,
        };
        for model in
            [Model::new(&recipe, [3, 24, 24], Device::Cpu), Model::with_onnx_backbone(onnx, &recipe, Device::Cpu)]
        {
            let mut model = model;
            model.channels = ChannelStatistics { mean: [0.3; 3], deviation: [0.4; 3] };
            no_grad(|| model.head.w1.shallow_clone().copy_(&(&model.head.w1 + 1.0)));
            let moved = model.to_device(&recipe, Device::Cpu).unwrap();
            assert_eq!((moved.channels, moved.device()), (model.channels, Device::Cpu));
            let imported = |model: &Model| model.onnx.as_ref().map(|onnx| (onnx.bytes.clone(), onnx.features));
            assert_eq!(imported(&moved), imported(&model));
            let (ours, theirs) = (moved.tensors(), model.tensors());
            assert!(ours.iter().zip(&theirs).all(|(a, b)| a.0 == b.0 && a.1.equal(&b.1)) && ours.len() == theirs.len());
        }
    }
}

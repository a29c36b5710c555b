//! What training works on: backbone, head and the auxiliary classifier of phase 1, with their parameters.

pub mod backbone;
pub(crate) mod onnx_proto;
pub mod store;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use orco_runtime::encoder::EncodeError;
use orco_runtime::files;
use orco_runtime::image::Look;
use orco_runtime::manifest::hexadecimal;
use sha2::{Digest, Sha256};
use tch::nn::{Init, VarStore};
use tch::{Device, Tensor, no_grad};

use crate::config::{Precision, Recipe};
use crate::data::dataset::{ChannelStatistics, Images};
use crate::model::backbone::{
    Description, FeatureSource, ForwardMode, LookingSource, Network, OnnxBackbone, ProjectionHead, UNSOUND_METADATA,
    exported_onnx, names_of, parts, pth, torchvision,
};
use crate::platform::kernels;
use crate::run::checkpoint::TensorFile;
use crate::run::checksum::Checksum;
use crate::train::optimiser::Parameter;

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
    pub fn moved(&self, recipe: &Recipe, device: Device) -> Result<Self> {
        let mut moved = Self::from_description(recipe, self.backbone.description.clone(), device);
        (moved.onnx, moved.channels) = (self.onnx.clone(), self.channels);
        moved.restore(&self.tensors().into_iter().collect())?;
        Ok(moved)
    }

    fn from_description(recipe: &Recipe, description: Description, device: Device) -> Self {
        kernels::warm_up();
        tch::manual_seed(recipe.seed as i64);
        let store = VarStore::new(device);
        let features = description.features();
        let classes = recipe.split.base_classes as i64;
        let backbone = Network::new(&(store.root() / "backbone"), description);
        let head = ProjectionHead::new(&(store.root() / "head"), features, &recipe.head);
        let linear = store.root() / "classifier";
        let bound = 1.0 / (features as f64).sqrt();
        let classifier = linear.var("weight", &[classes, features], Init::Uniform { lo: -bound, up: bound });
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

    /// Where features come from: the network in inference mode and the arithmetic given, or the model that the user
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

    /// Features of images by the model's own backbone, in inference mode and f32, `[indices, features]`: of the images
    /// as they are changed before they go through the backbone.
    pub fn features(&self, images: &Images, indices: &[usize], change: impl Fn(Tensor) -> Tensor) -> Tensor {
        let input = self.channels.normalise(&change(images.batch(indices, self.device())));
        no_grad(|| self.backbone.forward(&input, Precision::F32, ForwardMode::Inference))
    }

    /// Sets the backbone's tensors from a checkpoint of another run, weights that go by
    /// [published names](crate::model::backbone::published_names), or the `backbone.onnx` of a bundle; and the channels,
    /// where those of the weights are known. Heads, classifiers and counters in it are passed over.
    ///
    /// # Errors
    /// If the file is none of these, a tensor of the backbone is missing or has another shape, or the file has further
    /// layers; the model is then as it was.
    pub fn load_weights(&mut self, file: &WeightFile) -> Result<LoadedWeights> {
        let shown = file.path.display();
        let read = decode_weights(&file.bytes, &self.backbone.description);
        let read = read.with_context(|| format!("cannot read the weights {shown}"))?;
        let tensors = read.tensors;
        let network = &self.backbone.description.name;
        let finite = |tensor: &Tensor| !tensor.is_floating_point() || tensor.isfinite().all().int64_value(&[]) != 0;
        let own = self.tensors().into_iter().filter(|(name, _)| name.starts_with("backbone."));
        let (mut pairs, mut taken) = (Vec::new(), HashSet::new());
        for (name, own) in own {
            let Some((key, saved)) = names_of(&name).find_map(|name| tensors.get_key_value(&name)) else {
                bail!("the weights {shown} lack the tensor {name} of {network}{}", remedy_for(&name, &tensors));
            };
            if saved.size() != own.size() {
                bail!(
                    "the tensor {name} of the weights {shown} has shape {:?}, but {network} needs {:?}",
                    saved.size(),
                    own.size()
                );
            }
            if !finite(saved) {
                bail!("the tensor {name} of the weights {shown} holds numbers that are not finite");
            }
            taken.insert(key);
            pairs.push((own, saved));
        }
        if let Some(left) = tensors.keys().filter(|&name| is_of_layer(name) && !taken.contains(name)).min() {
            bail!(
                "the weights {shown} are of another network than {network}, which has no layer for their tensor {left}"
            );
        }
        no_grad(|| pairs.iter_mut().for_each(|(own, saved)| own.copy_(saved)));
        let channels = match read.channels {
            Some(stated) => WeightChannels::Stated(stated),
            None if torchvision::is_of_imagenet(&tensors) => WeightChannels::Published(ChannelStatistics::IMAGENET),
            None => WeightChannels::Unknown,
        };
        if let WeightChannels::Stated(known) | WeightChannels::Published(known) = channels {
            self.channels = known;
        }
        Ok(LoadedWeights { norms: read.norms, channels })
    }

    /// Gives a backbone whose norms came folded the norms that images ask for, some of those at `indices`; what it
    /// computes stays the same.
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

/// How the norms of a backbone came out of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Norms {
    /// As they were trained.
    Whole,
    /// Folded into the convolutions: before anything is trained, [`Model::restore_norms`] has to be called.
    Folded,
}

/// Which channels the images were normalised by that weights were trained on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightChannels {
    /// Those that the file states, as a bundle's does.
    Stated(ChannelStatistics),
    /// Those that the publishers of such weights train with.
    Published(ChannelStatistics),
    /// Nobody says.
    Unknown,
}

/// What [`Model::load_weights`] found in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct LoadedWeights {
    /// How the norms came.
    pub norms: Norms,
    /// What the weights are fed with.
    pub channels: WeightChannels,
}

/// What a file of weights holds.
struct DecodedWeights {
    tensors: HashMap<String, Tensor>,
    norms: Norms,
    channels: Option<ChannelStatistics>,
}

/// A file of weights, read once: for the model, and for the digest that a run keeps.
#[derive(Clone, Debug)]
pub struct WeightFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl WeightFile {
    /// Reads it.
    ///
    /// # Errors
    /// If it cannot be read, or is no file.
    pub fn read(path: &Path) -> Result<Self> {
        // A pipe would be waited for without end.
        let bytes = files::read(path, u64::MAX - 1);
        let bytes = bytes.with_context(|| format!("cannot read the weights {}", path.display()))?;
        Ok(Self { path: path.into(), bytes })
    }

    /// Its SHA-256, in hexadecimal.
    pub fn digest(&self) -> String {
        hexadecimal(&Sha256::digest(&self.bytes))
    }
}

/// Whether a tensor has the published name of one in a block.
fn is_of_published_block(name: &str) -> bool {
    ["layer1.", "layer2.", "layer3.", "layer4.", "_blocks."].iter().any(|start| name.starts_with(start))
}

/// Whether a tensor is one of a backbone's layers; heads, classifiers and counters are not.
fn is_of_layer(name: &str) -> bool {
    (name.starts_with("backbone.") || is_of_published_block(name)) && !name.ends_with(".num_batches_tracked")
}

/// The end of a sentence about a missing tensor: what to do where the file has it with a prefix, as `DataParallel` and
/// Lightning write it, else nothing.
fn remedy_for(own: &str, tensors: &HashMap<String, Tensor>) -> String {
    let known: Vec<String> = names_of(own).collect();
    // "layer1.0.bn1.weight" is no "bn1.weight" with a prefix.
    let prefixed = tensors.keys().filter(|name| !is_of_published_block(name)).filter_map(|name| {
        let prefix = known.iter().find_map(|known| name.strip_suffix(known.as_str()))?;
        prefix.ends_with('.').then_some((name, prefix))
    });
    prefixed.min().map_or_else(String::new, |(name, prefix)| {
        format!("; {name:?} may be it: save the tensors without {prefix:?} before their names")
    })
}

/// Tensors of a file by name: safetensors, PyTorch's format from before its zip one, or an ONNX file of ours.
fn decode_weights(bytes: &[u8], description: &Description) -> Result<DecodedWeights> {
    let whole = |tensors| DecodedWeights { tensors, norms: Norms::Whole, channels: None };
    // PyTorch writes zip archives since 1.6.
    if pth::is_pth(bytes) || bytes.starts_with(b"PK") {
        return Ok(whole(pth::read(bytes)?.into_iter().collect()));
    }
    // After its length, the header of a safetensors file is JSON.
    if bytes.get(8) == Some(&b'{') {
        // What this program wrote, as a checkpoint is, says itself whether it is whole.
        let file = TensorFile::open(bytes).ok().filter(|file| file.checksum() != Checksum::Differs);
        let tensors = file.and_then(|file| file.tensors());
        return Ok(whole(tensors.context("it is damaged or cut off; copy it here again")?));
    }
    let model = exported_onnx::model(bytes)?;
    let channels = model.three("orco.mean").zip(model.three("orco.deviation"));
    let channels = channels.map(|(mean, deviation)| ChannelStatistics { mean, deviation });
    if channels.is_some_and(|channels| !channels.is_sound()) {
        bail!(UNSOUND_METADATA);
    }
    let tensors = exported_onnx::tensors(&model, description)?.into_iter().collect();
    Ok(DecodedWeights { tensors, norms: Norms::Folded, channels })
}

/// A network that only computes.
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
            let moved = model.moved(&recipe, Device::Cpu).unwrap();
            assert_eq!((moved.channels, moved.device()), (model.channels, Device::Cpu));
            let imported = |model: &Model| model.onnx.as_ref().map(|onnx| (onnx.bytes.clone(), onnx.features));
            assert_eq!(imported(&moved), imported(&model));
            let (ours, theirs) = (moved.tensors(), model.tensors());
            assert!(ours.iter().zip(&theirs).all(|(a, b)| a.0 == b.0 && a.1.equal(&b.1)) && ours.len() == theirs.len());
        }
    }
}

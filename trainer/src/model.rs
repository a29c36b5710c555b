//! What training works on: backbone, head and the auxiliary classifier of phase 1, with their parameters.

use std::collections::HashMap;

use anyhow::{Result, bail};
use tch::nn::{Init, VarStore};
use tch::{Device, Tensor, no_grad};

use crate::backbone::{Description, Head, Network};
use crate::config::Recipe;
use crate::dataset::Channels;
use crate::optimiser::Parameter;

/// Backbone f, head g, and a linear classifier on the features.
#[derive(Debug)]
pub struct Model {
    store: VarStore,
    /// The feature extractor f.
    pub backbone: Network,
    /// The projection head g.
    pub head: Head,
    /// Linear classifier of the base classes, weight `[classes, features]`; used by cross entropy only.
    pub classifier: Tensor,
    /// Its bias, `[classes]`.
    pub classifier_bias: Tensor,
    /// Normalises the images; known from the recipe, or set from the data set (see [`crate::dataset::open`]).
    pub channels: Channels,
}

impl Model {
    /// A freshly initialised model; seeds torch's generator.
    pub fn new(recipe: &Recipe, input: [i64; 3], device: Device) -> Self {
        tch::manual_seed(recipe.seed as i64);
        let store = VarStore::new(device);
        let description = Description::new(&recipe.backbone, input);
        let features = description.features();
        let classes = recipe.split.base_classes as i64;
        let backbone = Network::new(&(store.root() / "backbone"), description);
        let head = Head::new(&(store.root() / "head"), features, &recipe.head);
        let linear = store.root() / "classifier";
        let bound = 1.0 / (features as f64).sqrt();
        let classifier = linear.var("weight", &[classes, features], Init::Uniform { lo: -bound, up: bound });
        let classifier_bias = linear.var("bias", &[classes], Init::Const(0.0));
        let channels = Channels::known(&recipe.data).unwrap_or_default();
        Self { store, backbone, head, classifier, classifier_bias, channels }
    }

    /// Where the model's tensors live.
    pub fn device(&self) -> Device {
        self.store.device()
    }

    /// Every tensor by name, sorted, for a checkpoint.
    pub fn tensors(&self) -> Vec<(String, Tensor)> {
        let mut named: Vec<_> = self.store.variables().into_iter().collect();
        named.sort_by(|a, b| a.0.cmp(&b.0));
        named
    }

    /// The trained tensors whose names start with `prefix`, sorted by name; norms and biases do not decay.
    pub fn parameters(&self, prefix: &str) -> Vec<Parameter> {
        let trained =
            self.tensors().into_iter().filter(|(name, tensor)| name.starts_with(prefix) && tensor.requires_grad());
        trained.map(|(name, tensor)| Parameter { decays: tensor.dim() > 1, name, tensor }).collect()
    }

    /// Sets every tensor of the model from a checkpoint.
    ///
    /// # Errors
    /// If one is missing or has another shape.
    pub fn restore(&mut self, tensors: &HashMap<String, Tensor>) -> Result<()> {
        for (name, mut own) in self.tensors() {
            let Some(saved) = tensors.get(&name) else { bail!("the checkpoint lacks the tensor {name}") };
            if saved.size() != own.size() {
                bail!("the checkpoint's {name} has shape {:?}, the recipe's {:?}", saved.size(), own.size());
            }
            no_grad(|| own.copy_(saved));
        }
        Ok(())
    }
}

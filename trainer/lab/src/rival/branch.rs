//! The branch of rivals that train in every session: the last stage of the backbone, from random views of few images.

use anyhow::Result;
use orco_trainer::data::augment::random_view;
use orco_trainer::model::backbone::{ForwardMode, Network};
use orco_trainer::model::store::Parameter;
use orco_trainer::model::{Model, store};
use tch::nn::VarStore;
use tch::{Tensor, no_grad};

use super::embedding::features;
use crate::sessions::Protocol;

/// A model's backbone whose last stage sessions train.
pub(super) struct Branch<'a> {
    pub protocol: Protocol<'a>,
    /// The backbone is the branch.
    pub model: &'a Model,
    /// First block of the last stage.
    last: usize,
    /// The backbone of the base session.
    pub base: (VarStore, Network),
    /// Features of the measured images by the base backbone and by the branch, `[n, d]` on the processor.
    pub by_base: Tensor,
    pub by_branch: Tensor,
    draw: usize,
    session: usize,
}

/// A copy of the model's backbone that nothing trains.
pub(super) fn copied(model: &Model) -> (VarStore, Network) {
    let mut held = VarStore::new(model.device());
    let network = Network::new(&(held.root() / "backbone"), model.backbone.description.clone());
    held.freeze();
    store::copy(model.tensors(), &held.variables());
    (held, network)
}

impl<'a> Branch<'a> {
    /// Begins as the model is, which the base session left.
    ///
    /// # Errors
    /// If a stop was asked for.
    pub fn new(model: &'a Model, protocol: Protocol<'a>) -> Result<Self> {
        let description = &model.backbone.description;
        let by_base = features(model, protocol.measured(), &protocol.data.split.measured)?;
        Ok(Self {
            last: description.stages().last().copied().unwrap_or(description.blocks.len() - 1),
            base: copied(model),
            by_branch: by_base.shallow_clone(),
            by_base,
            draw: 0,
            session: 0,
            model,
            protocol,
        })
    }

    /// Forgets what was trained in sessions, before another draw, and seeds torch for it.
    pub fn begin(&mut self, draw: usize) {
        store::copy(self.base.0.variables(), &self.model.tensors().into_iter().collect());
        self.by_branch = self.by_base.shallow_clone();
        (self.draw, self.session) = (draw, 0);
        self.protocol.seed(draw, 0);
    }

    /// Enters the next session, and seeds torch for it.
    pub fn enter(&mut self) {
        self.session += 1;
        self.protocol.seed(self.draw, self.session);
    }

    /// What the frozen blocks make of a random view of each image, `[images, channels, h, w]`, under no gradient.
    pub fn hidden(&self, images: &[usize]) -> Tensor {
        let config = &self.protocol.recipe.pretrain;
        let images = self.protocol.data.train.batch(images, self.model.device());
        let input = self.model.channels.normalise(&random_view(&images, &config.augment));
        no_grad(|| self.base.1.lower(&input, self.last, config.precision.unscaled(), ForwardMode::Inference))
    }

    /// Features f32 `[n, d]` that the last stage of a network makes of what [`Branch::hidden`] gave; batch norm keeps
    /// its statistics.
    pub fn features(&self, network: &Network, hidden: &Tensor) -> Tensor {
        network.upper(hidden, self.last, ForwardMode::Inference)
    }

    /// What is trained: the last stage, its norms' statistics excepted.
    pub fn trained(&self) -> Vec<Parameter> {
        let blocks = &self.model.backbone.description.blocks[self.last..];
        let convolutions = blocks.iter().flat_map(|block| block.convolutions());
        let parts = convolutions.flat_map(|conv| {
            let of = self.model.backbone.tensors(conv);
            [("weight", &of.weight), ("norm_scale", &of.scale), ("norm_bias", &of.offset)]
                .map(|(part, tensor)| (format!("{}.{part}", conv.name), tensor.shallow_clone()))
        });
        parts.map(|(name, tensor)| Parameter { name, tensor, decays: true }).collect()
    }

    /// Computes the measured images' features anew, after a session.
    ///
    /// # Errors
    /// If a stop was asked for.
    pub fn measure(&mut self) -> Result<()> {
        self.by_branch = features(self.model, self.protocol.measured(), &self.protocol.data.split.measured)?;
        Ok(())
    }
}

//! What is minimised on the base classes: the recipe's own losses, or those of a rival.

use std::collections::HashMap;

use anyhow::Result;
use tch::Tensor;

use super::batch_losses::BatchLosses;
use crate::config::PretrainConfig;
use crate::data::augment::random_view;
use crate::data::dataset::Images;
use crate::model::Model;
use crate::model::backbone::ForwardMode;
use crate::model::store::{self, Parameter};
use crate::platform::device::send;
use crate::platform::distributed::{RankError, RankGroup};
use crate::train::training_loop::BaseSession;

/// What a criterion needs in every step.
pub struct StepContext<'a> {
    /// What is trained.
    pub model: &'a Model,
    /// How.
    pub config: &'a PretrainConfig,
    /// All training images.
    pub images: &'a Images,
    /// The ranks that train together.
    pub group: &'a RankGroup,
}

impl<'a> StepContext<'a> {
    /// Of a phase over the base classes.
    pub fn of(model: &'a Model, config: &'a PretrainConfig, base: &BaseSession<'a>) -> Self {
        Self { model, config, images: base.images, group: base.run.group() }
    }

    /// Draws `count` random views of each image of this rank's b images of a batch, in 0..1: `[count b, 3, h, w]`, the
    /// first views of all images first.
    pub fn views(&self, batch: &[usize], count: usize) -> Tensor {
        let images = self.images.batch(&batch[self.group.own_rows(batch.len())], self.model.device());
        let draw = || (0..count).map(|_| random_view(&images, &self.config.augment)).collect();
        let views: Vec<Tensor> = self.group.draw_separately(draw);
        Tensor::cat(&views, 0)
    }

    /// The labels of a batch, i64 `[batch]`.
    pub fn labels(&self, batch: &[usize]) -> Tensor {
        send(&self.images.select_labels(batch), self.model.device())
    }
}

/// What is minimised, with whatever it has beside the model.
pub trait Criterion {
    /// Everything random of a step.
    type StepDraw;

    /// Name of the loss beside cross entropy in the metrics.
    const OTHER_LOSS: &'static str;

    /// Views of an image in a step.
    fn views(&self, _: &PretrainConfig) -> usize {
        1
    }

    /// Whether cross entropy is among the losses: without it there is no classifier whose accuracy could be told.
    fn classifies(&self, _: &PretrainConfig) -> bool {
        true
    }

    /// Draws all random numbers of a step, so that drawing them is enough to pass over one.
    fn draw(&self, context: &StepContext<'_>, batch: &[usize]) -> Self::StepDraw;

    /// The losses of a batch.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    fn losses(
        &mut self,
        context: &StepContext<'_>,
        drawn: Self::StepDraw,
        batch: &[usize],
    ) -> Result<BatchLosses, RankError>;

    /// All tensors that a checkpoint must have beside the model's.
    fn tensors(&self) -> Vec<(String, Tensor)> {
        Vec::new()
    }

    /// Those of them that are trained.
    fn parameters(&self) -> Vec<Parameter> {
        store::parameters(self.tensors())
    }

    /// Sets all of [`Self::tensors`] from a checkpoint.
    ///
    /// # Errors
    /// If one is missing or has another shape.
    fn restore(&mut self, saved: &HashMap<String, Tensor>) -> Result<()> {
        store::restore(self.tensors(), saved)
    }
}

/// The losses that the recipe names.
pub(super) struct RecipeCriterion;

impl Criterion for RecipeCriterion {
    type StepDraw = Tensor;

    const OTHER_LOSS: &'static str = "contrast";

    fn views(&self, config: &PretrainConfig) -> usize {
        config.views
    }

    fn classifies(&self, config: &PretrainConfig) -> bool {
        config.cross_entropy > 0.0
    }

    fn draw(&self, context: &StepContext<'_>, batch: &[usize]) -> Tensor {
        context.views(batch, context.config.views)
    }

    fn losses(&mut self, context: &StepContext<'_>, drawn: Tensor, batch: &[usize]) -> Result<BatchLosses, RankError> {
        let StepContext { model, config, group, .. } = context;
        let features =
            model.backbone.forward(&model.channels.normalise(&drawn), config.precision, ForwardMode::Training);
        BatchLosses::of_recipe(model, config, &features, &context.labels(batch), group)
    }
}

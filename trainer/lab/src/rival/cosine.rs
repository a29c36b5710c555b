//! Scaled cosines as logits, and cross entropy over them.

use orco_trainer::model::backbone::{ForwardMode, unit};
use orco_trainer::train::pretrain::{BatchLosses, StepContext, accuracy};
use tch::Tensor;

/// What cosines are multiplied by to be logits; the programs of FACT, SAVC, CEC and LIMIT call it temperature.
pub(super) const SCALE: f64 = 16.0;

/// Cosines of every row with every class.
///
/// # Shapes
/// `features` f32 `[n, d]`, `classes` f32 `[c, d]`; returns f32 `[n, c]`.
pub(super) fn cosines(features: &Tensor, classes: &Tensor) -> Tensor {
    unit(features).matmul(&unit(classes).tr())
}

/// Scaled [`cosines`].
pub(super) fn logits(features: &Tensor, classes: &Tensor) -> Tensor {
    cosines(features, classes) * SCALE
}

/// Cross entropy of views of a batch, where `logits` are those of features `[n, d]` and the model's classifier.
pub(super) fn cross_entropy(
    context: &StepContext<'_>,
    views: &Tensor,
    batch: &[usize],
    logits: impl Fn(&Tensor, &Tensor) -> Tensor,
) -> BatchLosses {
    let StepContext { model, config, .. } = context;
    let labels = context.labels(batch);
    let features = model.backbone.forward(&model.channels.normalise(views), config.precision, ForwardMode::Training);
    let logits = logits(&features, &model.classifier);
    let loss = logits.cross_entropy_for_logits(&labels);
    let none = loss.detach().zeros_like();
    BatchLosses::new(loss, none, accuracy(&logits.detach(), &labels))
}

//! Cosines as logits, and the baseline that learns by them: cross entropy over cosines on the base classes, answers by
//! the nearest class mean. All rivals begin so; their programs take the same scale.

use anyhow::Result;
use orco_benchmark::Summary;
use orco_lab::method::Method;
use orco_trainer::config::PretrainConfig;
use orco_trainer::model::backbone::{ForwardMode, unit};
use orco_trainer::platform::distributed::RankError;
use orco_trainer::train::pretrain::{BatchLosses, Criterion, StepContext, accuracy};
use tch::Tensor;

use super::prototypes::PrototypeClassifier;
use super::{BY_CROSS_ENTROPY, RivalSpec, RivalTraining};

pub(super) static BASELINE: RivalSpec = RivalSpec {
    method: Method {
        name: "baseline",
        description: "Cross entropy over cosines, answers by the nearest class mean: what the others stand on.",
        paper_row: None,
    },
    revision: 1,
    backbone: BY_CROSS_ENTROPY,
    measure,
    length: None,
};

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    training.train(&mut CrossEntropy)?;
    training.by_means(&[0], &CrossEntropy)
}

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

/// The baseline.
pub(super) struct CrossEntropy;

impl Criterion for CrossEntropy {
    type StepDraw = Tensor;

    const OTHER: &'static str = "other";

    fn views(&self, _: &PretrainConfig) -> usize {
        1
    }

    fn draw(&self, context: &StepContext<'_>, batch: &[usize]) -> Tensor {
        context.views(batch, 1)
    }

    fn losses(&mut self, context: &StepContext<'_>, drawn: Tensor, batch: &[usize]) -> Result<BatchLosses, RankError> {
        Ok(cross_entropy(context, &drawn, batch, logits))
    }
}

impl PrototypeClassifier for CrossEntropy {
    fn scores(&self, features: &Tensor, classes: &Tensor, _: usize) -> Tensor {
        logits(&features.squeeze_dim(1), &classes.squeeze_dim(1))
    }
}

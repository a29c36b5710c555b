//! The baseline: cross entropy over cosines on the base classes, answers by the nearest class mean. Most rivals begin
//! their base session so, by the same [`CrossEntropy`].

use anyhow::Result;
use orco_benchmark::Summary;
use orco_lab::method::Method;
use orco_trainer::platform::distributed::RankError;
use orco_trainer::train::pretrain::{BatchLosses, Criterion, StepContext};
use tch::Tensor;

use super::cosine::{cross_entropy, logits};
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
    extra_training: None,
};

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    training.train(&mut CrossEntropy)?;
    training.measure_by_means(&[0], &CrossEntropy)
}

/// Cross entropy over scaled cosines, of one view of each image.
pub(super) struct CrossEntropy;

impl Criterion for CrossEntropy {
    type StepDraw = Tensor;

    const OTHER_LOSS: &'static str = "other";

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

//! Rivals that answer by one prototype of each class, over features of a frozen backbone.

use anyhow::Result;
use orco_benchmark::Summary;
use orco_trainer::config::SHOTS;
use tch::{Kind, Tensor};

use super::embedding::{Embedding, class_means};
use crate::sessions::{Protocol, SessionLearner};

/// Scores classes by an image's features and the class means.
pub(super) trait PrototypeClassifier {
    /// Scores of every class, f32 `[n, c]`.
    ///
    /// # Shapes
    /// `features` f32 `[n, t, d]`, `classes` f32 `[c, t, d]`, of which the first `base` are base classes.
    fn scores(&self, features: &Tensor, classes: &Tensor, base: usize) -> Tensor;
}

impl Protocol<'_> {
    /// Measures a classifier over features of a frozen backbone.
    ///
    /// # Errors
    /// If a stop was asked for.
    pub(super) fn measure_by_means(
        &self,
        embedding: &Embedding,
        classifier: &dyn PrototypeClassifier,
    ) -> Result<Summary> {
        let base = self.data.split.base_classes;
        self.run_sessions(&mut PrototypeLearner {
            embedding,
            classifier,
            base,
            classes: embedding.means.shallow_clone(),
        })
    }
}

/// A learner that keeps the mean of each class.
struct PrototypeLearner<'a> {
    embedding: &'a Embedding,
    classifier: &'a dyn PrototypeClassifier,
    base: usize,
    /// `[seen, t, d]`.
    classes: Tensor,
}

impl SessionLearner for PrototypeLearner<'_> {
    fn begin(&mut self, _: usize) -> Result<()> {
        self.classes = self.embedding.means.shallow_clone();
        Ok(())
    }

    fn learn(&mut self, shots: &[usize]) -> Result<()> {
        self.classes = Tensor::cat(&[&self.classes, &new_means(&self.embedding.shots(shots))], 0);
        Ok(())
    }

    fn scores(&self, rows: &Tensor) -> Tensor {
        self.classifier.scores(&self.embedding.measured.index_select(0, rows), &self.classes, self.base)
    }
}

/// Means of the shots of each class, `SHOTS` rows of a class after each other: `[shots, t, d]` to `[classes, t, d]`.
pub(super) fn new_means(shots: &Tensor) -> Tensor {
    let classes = shots.size()[0] / SHOTS as i64;
    let labels =
        Tensor::arange(classes, (Kind::Int64, shots.device())).repeat_interleave_self_int(SHOTS as i64, 0, None);
    class_means(shots, &labels, classes)
}

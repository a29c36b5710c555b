//! The losses of a batch, and their sums over an epoch, both on the device.

use tch::{Device, Kind, Tensor};

use crate::config::PretrainConfig;
use crate::model::Model;
use crate::platform::distributed::{RankError, RankGroup};
use crate::train::loss::contrast;

/// The losses of one batch.
#[derive(Debug)]
pub struct BatchLosses {
    /// What is minimised, a scalar.
    pub total: Tensor,
    cross_entropy: Tensor,
    /// The loss beside cross entropy, for the metrics: of a recipe SCL + SSCL without their weights, of a rival its own
    /// times its weight.
    other: Tensor,
    accuracy: Tensor,
}

/// The fraction of rows whose highest logit is their label's.
///
/// # Shapes
/// `logits` `[n, classes]`, `labels` i64 `[n]`; returns an f32 scalar.
pub fn accuracy(logits: &Tensor, labels: &Tensor) -> Tensor {
    logits.argmax(1, false).eq_tensor(labels).to_kind(Kind::Float).mean(Kind::Float)
}

impl BatchLosses {
    /// The losses of a rival, all scalars: its cross entropy, what it minimises beside, times its weight, and its
    /// accuracy.
    pub fn new(cross_entropy: Tensor, other: Tensor, accuracy: Tensor) -> Self {
        let total = &cross_entropy + &other;
        Self { total, cross_entropy: cross_entropy.detach(), other: other.detach(), accuracy }
    }

    /// Cross entropy, SCL and SSCL (OrCo, Eq. 2), each times its weight in the recipe. Contrast is over the rows of all
    /// ranks and the same on every rank; cross entropy is over the own rows. Their gradients, averaged over the ranks,
    /// are those of a single process.
    ///
    /// # Shapes
    /// `features` `[views b, features]` of the own rows b of the batch, the first view of all first; `labels` i64
    /// `[batch]` of the whole batch.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn of_recipe(
        model: &Model,
        config: &PretrainConfig,
        features: &Tensor,
        labels: &Tensor,
        group: &RankGroup,
    ) -> Result<Self, RankError> {
        let (device, batch) = (features.device(), labels.size()[0]);
        let rows_of_rank = group.own_rows(batch as usize);
        let repeated = |tensor: Tensor| tensor.repeat([config.views as i64]);
        let own_labels = repeated(labels.narrow(0, rows_of_rank.start as i64, rows_of_rank.len() as i64));
        let zero = || Tensor::zeros([], (Kind::Float, device));
        let mut losses = Self { total: zero(), cross_entropy: zero(), other: zero(), accuracy: zero() };
        if config.cross_entropy > 0.0 {
            let logits = features.linear(&model.classifier, Some(&model.classifier_bias));
            losses.accuracy = accuracy(&logits, &own_labels);
            let (mean, smoothing) = (tch::Reduction::Mean, config.label_smoothing);
            let loss = logits.cross_entropy_loss(&own_labels, None::<Tensor>, mean, -100, smoothing);
            losses.cross_entropy = loss.detach();
            losses.total = &losses.total + loss * config.cross_entropy;
        }
        if config.supervised_contrast > 0.0 || config.self_contrast > 0.0 {
            let z = group.gather_views(&model.head.forward(features), config.views as i64)?;
            let mut add = |weight: f64, labels: &Tensor| {
                if weight > 0.0 {
                    let loss = contrast(&z, labels, config.temperature, config.contrast_form);
                    losses.other = &losses.other + loss.detach();
                    losses.total = &losses.total + loss * weight;
                }
            };
            add(config.supervised_contrast, &repeated(labels.shallow_clone()));
            add(config.self_contrast, &repeated(Tensor::arange(batch, (Kind::Int64, device))));
        }
        Ok(losses)
    }

    /// Total, cross entropy, the other loss and accuracy, `[4]`, without gradients.
    pub fn parts(&self) -> Tensor {
        let parts = [&self.total, &self.cross_entropy, &self.other, &self.accuracy].map(Tensor::detach);
        Tensor::stack(&parts, 0)
    }
}

/// Sums over the steps of an epoch: total, cross entropy, the other loss, accuracy. They stay on the device until they
/// are asked for, so that a step need not wait for the one before.
pub(super) struct LossSums(Tensor);

/// Means over the steps so far.
pub(super) struct MeanLosses {
    pub total: f64,
    pub cross_entropy: f64,
    pub other: f64,
    pub accuracy: f64,
}

impl LossSums {
    pub fn new(device: Device) -> Self {
        Self(Tensor::zeros([4], (Kind::Double, device)))
    }

    /// From a checkpoint, f64 `[4]`.
    pub fn of_checkpoint(saved: &Tensor, device: Device) -> Self {
        Self(saved.to_device(device).copy())
    }

    /// For a checkpoint, f64 `[4]`.
    pub fn tensor(&self) -> Tensor {
        self.0.copy()
    }

    /// Adds what [`BatchLosses::parts`] gives.
    pub fn add(&mut self, parts: &Tensor) {
        let _ = self.0.g_add_(&parts.to_kind(Kind::Double));
    }

    /// Waits for the device.
    pub fn means(&self, steps: usize) -> MeanLosses {
        let sums = Vec::<f64>::try_from(self.0.to_device(Device::Cpu)).expect("four numbers");
        let mean = |index: usize| sums[index] / steps as f64;
        MeanLosses { total: mean(0), cross_entropy: mean(1), other: mean(2), accuracy: mean(3) }
    }
}

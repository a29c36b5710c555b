//! The losses of a batch, and their sums over an epoch, both on the device.

use tch::{Device, Kind, Tensor};

use crate::augment::view;
use crate::config::PretrainConfig;
use crate::dataset::Images;
use crate::device::send;
use crate::model::Model;
use crate::objective::contrast;

/// BatchLosses of one batch.
pub(super) struct BatchLosses {
    /// What is minimised, a scalar.
    pub total: Tensor,
    cross_entropy: Tensor,
    contrast: Tensor,
    accuracy: Tensor,
}

/// Draws the views of a batch, in 0..1.
///
/// These are all the random numbers of a step, so that drawing them is enough to pass over one.
pub(super) fn views(model: &Model, config: &PretrainConfig, train: &Images, batch: &[usize]) -> Tensor {
    let images = train.batch(batch, model.device());
    let views: Vec<Tensor> = (0..config.views).map(|_| view(&images, &config.augment)).collect();
    Tensor::cat(&views, 0)
}

impl BatchLosses {
    /// Sends a batch through the model.
    pub fn of(model: &Model, config: &PretrainConfig, train: &Images, batch: &[usize]) -> Self {
        let device = model.device();
        let input = model.channels.normalise(&views(model, config, train, batch));
        let repeated = |tensor: Tensor| tensor.repeat([config.views as i64]);
        let labels = repeated(send(&train.select_labels(batch), device));
        let features = model.backbone.forward(&input, config.precision, true);
        let zero = || Tensor::zeros([], (Kind::Float, device));
        let mut losses = Self { total: zero(), cross_entropy: zero(), contrast: zero(), accuracy: zero() };
        if config.cross_entropy > 0.0 {
            let logits = features.linear(&model.classifier, Some(&model.classifier_bias));
            losses.accuracy = logits.argmax(1, false).eq_tensor(&labels).to_kind(Kind::Float).mean(Kind::Float);
            let loss =
                logits.cross_entropy_loss(&labels, None::<Tensor>, tch::Reduction::Mean, -100, config.label_smoothing);
            losses.cross_entropy = loss.detach();
            losses.total += loss * config.cross_entropy;
        }
        if config.supervised_contrast > 0.0 || config.self_contrast > 0.0 {
            let z = model.head.forward(&features);
            let mut add = |weight: f64, labels: &Tensor| {
                if weight > 0.0 {
                    let loss = contrast(&z, labels, config.temperature, config.contrast_form);
                    losses.contrast = &losses.contrast + loss.detach();
                    losses.total = &losses.total + loss * weight;
                }
            };
            add(config.supervised_contrast, &labels);
            add(config.self_contrast, &repeated(Tensor::arange(batch.len() as i64, (Kind::Int64, device))));
        }
        losses
    }
}

/// Sums over the steps of an epoch: total, cross entropy, contrast, accuracy. They stay on the device until they are
/// asked for, so that a step need not wait for the one before.
pub(super) struct Sums(Tensor);

/// Means over the steps so far.
pub(super) struct Means {
    pub total: f64,
    pub cross_entropy: f64,
    pub contrast: f64,
    pub accuracy: f64,
}

impl Sums {
    pub fn new(device: Device) -> Self {
        Self(Tensor::zeros([4], (Kind::Double, device)))
    }

    /// From a checkpoint.
    pub fn restored(saved: &Tensor, device: Device) -> Self {
        Self(saved.to_device(device).copy())
    }

    /// For a checkpoint, f64 `[4]`.
    pub fn tensor(&self) -> Tensor {
        self.0.copy()
    }

    pub fn add(&mut self, losses: &BatchLosses) {
        let parts = [&losses.total, &losses.cross_entropy, &losses.contrast, &losses.accuracy].map(Tensor::detach);
        let _ = self.0.g_add_(&Tensor::stack(&parts, 0).to_kind(Kind::Double));
    }

    /// Waits for the device.
    pub fn means(&self, steps: usize) -> Means {
        let sums = Vec::<f64>::try_from(self.0.to_device(Device::Cpu)).expect("four numbers");
        let mean = |index: usize| sums[index] / steps as f64;
        Means { total: mean(0), cross_entropy: mean(1), contrast: mean(2), accuracy: mean(3) }
    }
}

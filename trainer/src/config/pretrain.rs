//! Phase 1: losses, optimiser and precision.

use orco_core::loss::contrast::ContrastForm;
use serde::{Deserialize, Serialize};

use super::augment::{AugmentConfig, AugmentPolicy};
use super::check::{ConfigError, amount, count, demand, learning_rate, momentum, probability, temperature};
use super::defaults;

/// Phase 1: f and g on the base classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretrainConfig {
    /// Passes over the base images.
    pub epochs: usize,
    /// Images per step (each with `views` views).
    pub batch: usize,
    /// Augmented views of an image per step.
    pub views: usize,
    /// Peak learning rate; it falls to 0 along a cosine.
    pub learning_rate: f64,
    /// Optimiser.
    #[serde(default)]
    pub optimiser: OptimiserKind,
    /// Momentum (of SGD: Nesterov's).
    pub momentum: f64,
    /// Weight decay; none on biases and norms.
    pub weight_decay: f64,
    /// LARS only: the trust coefficient eta, the share of a weight's norm that a step of rate 1 may move it by.
    #[serde(default = "defaults::trust")]
    pub trust: f64,
    /// Linear warm-up, in epochs.
    pub warmup_epochs: usize,
    /// Learning rate of the warm-up's first step.
    #[serde(default)]
    pub warmup_start: f64,
    /// Weight of cross entropy on the features; 0 in the paper.
    pub cross_entropy: f64,
    /// Label smoothing of the cross entropy.
    pub label_smoothing: f64,
    /// Weight of SCL, the contrastive loss by class labels (OrCo, Eq. 2); 0.9 in the paper.
    pub supervised_contrast: f64,
    /// Weight of SSCL, the contrastive loss by image identities; 0.1 in the paper.
    pub self_contrast: f64,
    /// Temperature of both contrastive losses.
    pub temperature: f64,
    /// Form of both: `inside` (the published program), `outside`, or `negatives` (the paper's Eq. 2).
    #[serde(default = "defaults::inside", skip_serializing_if = "defaults::is_inside")]
    pub contrast_form: ContrastForm,
    /// Precision of the backbone.
    pub precision: Precision,
    /// Whether batch norm takes its statistics from the images of all ranks where several train together, as a single
    /// process does, instead of from those of each rank. Costs two messages for each norm, forwards and backwards.
    #[serde(default, skip_serializing_if = "defaults::is_default")]
    pub sync_batch_norm: bool,
    /// Phase 1 ends with the mean of the weights at the ends of this many last epochs, and batch-norm statistics
    /// estimated anew for that mean from views of training images; 0 for the weights of the last step.
    #[serde(default, skip_serializing_if = "defaults::is_default")]
    pub average_last: usize,
    /// The views.
    pub augment: AugmentConfig,
}

impl Default for PretrainConfig {
    /// No phase 1; the views are those of phase 2.
    fn default() -> Self {
        Self {
            epochs: 0,
            batch: 256,
            views: 1,
            learning_rate: 0.1,
            optimiser: OptimiserKind::Sgd,
            momentum: 0.9,
            weight_decay: 5e-4,
            trust: defaults::trust(),
            warmup_epochs: 0,
            warmup_start: 0.0,
            cross_entropy: 1.0,
            label_smoothing: 0.0,
            supervised_contrast: 0.0,
            self_contrast: 0.0,
            temperature: 0.2,
            contrast_form: ContrastForm::Inside,
            precision: Precision::F32,
            sync_batch_norm: false,
            average_last: 0,
            augment: AugmentConfig {
                crop_scale: [0.35, 1.0],
                policy: AugmentPolicy::None,
                jitter_probability: 0.5,
                jitter: 0.4,
                hue: 0.0,
                grey_probability: 0.1,
                erase_probability: 0.0,
                cutout: 0,
            },
        }
    }
}

/// Precision of convolutions in training: f32, or mixed precision (Micikevicius et al., 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Everything in f32.
    #[default]
    F32,
    /// Convolutions in bf16, weights and statistics in f32.
    Bf16,
    /// Convolutions in f16, weights and statistics in f32, the loss scaled so that small gradients survive.
    F16,
}

impl Precision {
    /// Where no loss is scaled: f32 in place of f16.
    pub fn unscaled(self) -> Self {
        if self == Self::F16 { Self::F32 } else { self }
    }
}

/// Optimisers of phase 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimiserKind {
    /// Stochastic gradient descent with Nesterov's momentum.
    #[default]
    Sgd,
    /// Layer-wise adaptive rate scaling, for large batches (You, Gitman and Ginsburg, 2017).
    Lars,
}

impl PretrainConfig {
    /// Steps of an epoch over this many images; only full batches count.
    pub fn steps_per_epoch(&self, images: usize) -> usize {
        images / self.batch
    }

    /// Checks every value.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        count("pretrain.epochs", self.epochs, 0..=1_000_000, "at most 1000000")?;
        count("pretrain.batch", self.batch, 2..=65_536, "from 2 to 65536")?;
        let views = if self.self_contrast > 0.0 { 2 } else { 1 };
        let expected = "from 1 to 64, at least 2 when pretrain.self_contrast is not 0";
        count("pretrain.views", self.views, views..=64, expected)?;
        learning_rate("pretrain.learning_rate", self.learning_rate)?;
        momentum("pretrain.momentum", self.momentum)?;
        probability("pretrain.weight_decay", self.weight_decay)?;
        demand("pretrain.trust", self.trust, self.trust > 0.0 && self.trust <= 100.0, "above 0 and at most 100")?;
        let averaged = self.average_last <= self.epochs;
        demand("pretrain.average_last", self.average_last, averaged, "at most pretrain.epochs")?;
        let short = self.warmup_epochs == 0 || self.epochs == 0 || self.warmup_epochs < self.epochs;
        demand("pretrain.warmup_epochs", self.warmup_epochs, short, "fewer than pretrain.epochs")?;
        demand(
            "pretrain.warmup_start",
            self.warmup_start,
            (0.0..=100.0).contains(&self.warmup_start),
            "from 0 to 100",
        )?;
        amount("pretrain.cross_entropy", self.cross_entropy)?;
        let smoothing = self.label_smoothing;
        demand("pretrain.label_smoothing", smoothing, (0.0..1.0).contains(&smoothing), "at least 0 and below 1")?;
        amount("pretrain.supervised_contrast", self.supervised_contrast)?;
        amount("pretrain.self_contrast", self.self_contrast)?;
        let losses = self.cross_entropy + self.supervised_contrast + self.self_contrast;
        demand(
            "pretrain.cross_entropy",
            self.cross_entropy,
            losses > 0.0,
            "above 0 when the other losses have weight 0",
        )?;
        temperature("pretrain.temperature", self.temperature)?;
        self.augment.check("pretrain.augment")
    }
}

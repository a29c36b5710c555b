//! Phase 2 of a recipe.

use orco_core::loss::contrast::Form;
use serde::{Deserialize, Serialize};

use super::Precision;
use super::check::{ConfigError, amount, count, demand, learning_rate, momentum, probability, temperature};
use super::defaults::{self, is_default};

/// Phase 2: g is aligned to the targets, f frozen unless the recipe says otherwise.
///
/// Settings that a recipe leaves out are those of the published program on CIFAR-100; they are not written either, so
/// that what was made before they existed is still recognised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlignConfig {
    /// Passes over the base images.
    pub epochs: usize,
    /// Images per step.
    pub batch: usize,
    /// Learning rate (the highest, where it changes).
    pub learning_rate: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// SGD momentum.
    pub momentum: f64,
    /// SGD dampening.
    pub dampening: f64,
    /// Weight of cross entropy over the base classes.
    pub cross_entropy: f64,
    /// Weight of the orthogonality loss.
    pub orthogonality: f64,
    /// Temperature of PSCL.
    pub temperature: f64,
    /// Width e of the perturbation; see [`Noise`].
    pub perturbation: f64,
    /// Augmented feature views computed per image beforehand; two different ones enter each step. Means nothing where
    /// the backbone is trained, since every step then draws views of its own.
    pub cached_views: usize,
    /// Arithmetic of the backbone on the cached views; the clean image, and whatever is exported, is computed in f32. Means
    /// nothing where the backbone is trained or an ONNX model that the user brings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub views_precision: Precision,
    /// Whether a feature vector is from here on, in the exported backbone too, the mean of those of an image and of its
    /// mirror image: steadier, for twice the arithmetic.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mirrored: bool,
    /// Weight of PSCL.
    #[serde(default = "defaults::one", skip_serializing_if = "defaults::is_one")]
    pub contrast: f64,
    /// Form of PSCL: `outside` (the published program), `inside` or `negatives` (the paper's text).
    #[serde(default, skip_serializing_if = "is_default")]
    pub contrast_form: Form,
    /// Which targets are perturbed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub perturbed: Perturbed,
    /// How they are perturbed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub noise: Noise,
    /// How the learning rate goes over the epochs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rate: AlignRate,
    /// Linear warm-up, in epochs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warmup_epochs: usize,
    /// Whether f is trained too (the paper's CUB200, and its comparison of fine-tuning f and g). Its norms keep the
    /// statistics that they have; their scales and offsets are trained.
    #[serde(default, skip_serializing_if = "is_default")]
    pub train_backbone: bool,
    /// Highest learning rate of f; `learning_rate` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backbone_learning_rate: Option<f64>,
}

/// Targets that PSCL sees perturbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Perturbed {
    /// None: PSCL is the plain supervised contrast.
    None,
    /// Those that no base class has, as in the published program.
    #[default]
    Free,
    /// Those of the base classes, which pull their samples.
    Assigned,
    /// All.
    All,
}

/// Distribution of a perturbation of width e, per coordinate, before the target is normalised again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    /// U(-e/2, e/2): the published program.
    #[default]
    Uniform,
    /// U(-e, e): the paper's text.
    Wide,
    /// Normal with deviation e: the paper's comparison.
    Gaussian,
}

/// The learning rate's way after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlignRate {
    /// Stays.
    #[default]
    Constant,
    /// Falls to 0 along a cosine, changed after every epoch.
    Cosine,
}

impl AlignConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        count("align.epochs", self.epochs, 1..=1_000_000, "from 1 to 1000000")?;
        count("align.batch", self.batch, 1..=65_536, "from 1 to 65536")?;
        count("align.cached_views", self.cached_views, 2..=64, "from 2 to 64")?;
        let precision = self.views_precision;
        demand("align.views_precision", "f16", precision != Precision::F16, "\"f32\" or \"bf16\"")?;
        learning_rate("align.learning_rate", self.learning_rate)?;
        probability("align.weight_decay", self.weight_decay)?;
        momentum("align.momentum", self.momentum)?;
        probability("align.dampening", self.dampening)?;
        amount("align.cross_entropy", self.cross_entropy)?;
        amount("align.orthogonality", self.orthogonality)?;
        temperature("align.temperature", self.temperature)?;
        demand("align.perturbation", self.perturbation, (0.0..=100.0).contains(&self.perturbation), "from 0 to 100")?;
        amount("align.contrast", self.contrast)?;
        let losses = self.contrast + self.cross_entropy + self.orthogonality;
        demand("align.contrast", self.contrast, losses > 0.0, "above 0 when the other losses have weight 0")?;
        let short = self.warmup_epochs < self.epochs.max(1) || self.warmup_epochs == 0;
        demand("align.warmup_epochs", self.warmup_epochs, short, "fewer than align.epochs")?;
        let trained = self.train_backbone || self.backbone_learning_rate.is_none();
        demand("align.backbone_learning_rate", "set", trained, "left out unless align.train_backbone is true")?;
        let rate = self.backbone_learning_rate.unwrap_or_default();
        demand("align.backbone_learning_rate", rate, (0.0..=100.0).contains(&rate), "from 0 to 100")
    }
}

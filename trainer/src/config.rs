//! The recipe: one TOML file that says everything about a run, checked once.

use std::path::Path;

use orco_runtime::config::Config as LearnConfig;
use orco_runtime::target::Method;
use serde::{Deserialize, Serialize};

/// Why a recipe was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the recipe {path}")]
    Read {
        /// The recipe's path.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is no recipe.
    #[error("{path} is not a valid recipe")]
    Parse {
        /// The recipe's path.
        path: String,
        /// What the parser said, with line and column.
        source: Box<toml::de::Error>,
    },
    /// A value makes no sense.
    #[error("recipe: {field} is {value}, but must be {expected}")]
    Value {
        /// Dotted name of the field.
        field: &'static str,
        /// What was written.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
}

/// A whole training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name of the bundle that the run makes.
    pub name: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// Which classes are base, which arrive later, what is measured on.
    pub split: SplitConfig,
    /// The feature extractor f.
    pub backbone: BackboneConfig,
    /// The projection head g.
    pub head: HeadConfig,
    /// Phase 1.
    pub pretrain: PretrainConfig,
    /// The pseudo-targets.
    pub targets: TargetConfig,
    /// Phase 2.
    pub align: AlignConfig,
    /// What of the data goes into the bundle.
    pub export: ExportConfig,
    /// Phase 3, as shipped in the bundle.
    #[serde(default)]
    pub learn: LearnConfig,
}

/// The few-shot class-incremental split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitConfig {
    /// Number of base classes; they are the labels `0..base_classes`.
    pub base_classes: usize,
    /// Number of incremental sessions.
    pub sessions: usize,
    /// New classes per session.
    pub ways: usize,
    /// Training images per class that no training step sees.
    #[serde(default)]
    pub holdout_per_class: usize,
    /// What accuracy is measured on.
    pub measure_on: MeasureOn,
}

/// Which images accuracy is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MeasureOn {
    /// The test set: for reporting only.
    Test,
    /// Held-out training images: for choosing settings.
    Holdout,
}

/// The feature extractor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackboneConfig {
    /// The family.
    pub architecture: Architecture,
    /// Channels of the first stage; later stages double it.
    pub width: i64,
}

/// Families of backbones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// ResNet-12 of the few-shot literature: channels w, 2.5w, 5w, 10w.
    Resnet12,
    /// ResNet-18 with a 3x3 stem: channels w, 2w, 4w, 8w.
    Resnet18,
}

/// The projection head g: features - hidden - projection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadConfig {
    /// Width of the hidden layer.
    pub hidden: i64,
    /// Dimension d of the sphere.
    pub projection: i64,
}

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
    /// Highest learning rate.
    pub learning_rate: f64,
    /// Momentum of SGD (Nesterov).
    pub momentum: f64,
    /// Weight decay; none on biases and norms.
    pub weight_decay: f64,
    /// Linear warm-up, in epochs.
    pub warmup_epochs: usize,
    /// Weight of cross entropy on the features (0 = the paper's).
    pub cross_entropy: f64,
    /// Label smoothing of the cross entropy.
    pub label_smoothing: f64,
    /// Weight of the supervised contrastive loss.
    pub supervised_contrast: f64,
    /// Weight of the self-supervised contrastive loss.
    pub self_contrast: f64,
    /// Temperature of both contrastive losses.
    pub temperature: f64,
    /// Arithmetic of the backbone.
    pub precision: Precision,
    /// The views.
    pub augment: AugmentConfig,
}

/// Arithmetic of convolutions in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Everything in f32.
    F32,
    /// Convolutions in bf16, weights and statistics in f32.
    Bf16,
}

/// Random views of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugmentConfig {
    /// Smallest and largest share of the image's area in a crop.
    pub crop_scale: [f64; 2],
    /// Probability of brightness, contrast and saturation jitter.
    pub jitter_probability: f64,
    /// Strength of each jitter: a factor from `1 - s` to `1 + s`.
    pub jitter: f64,
    /// Probability of turning grey.
    pub grey_probability: f64,
    /// Probability of erasing a rectangle.
    pub erase_probability: f64,
}

/// Pseudo-targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetConfig {
    /// How many: the most classes that the device can ever know.
    pub count: usize,
    /// How they are made.
    pub method: Method,
    /// Steps of the optimised method.
    pub steps: usize,
}

/// Phase 2: g is aligned to the targets, f frozen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlignConfig {
    /// Passes over the base images.
    pub epochs: usize,
    /// Images per step.
    pub batch: usize,
    /// Learning rate, constant in effect.
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
    /// Width e of the perturbation U(-e/2, e/2).
    pub perturbation: f64,
    /// Augmented feature views computed per image beforehand; two different ones enter each step.
    pub cached_views: usize,
}

/// What the bundle carries besides the models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportConfig {
    /// Exemplars of each base class.
    pub exemplars_per_class: usize,
    /// Candidate shots of each incremental class in the benchmark file.
    pub candidates_per_class: usize,
}

impl Recipe {
    /// Reads and checks a recipe.
    ///
    /// # Errors
    /// [`ConfigError`] if the file cannot be read, is no recipe, or holds a value out of range.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: shown.clone(), source })?;
        let recipe: Self =
            toml::from_str(&text).map_err(|source| ConfigError::Parse { path: shown, source: Box::new(source) })?;
        recipe.check()?;
        Ok(recipe)
    }

    /// Classes that exist at the end of the last session.
    pub fn classes(&self) -> usize {
        self.split.base_classes.saturating_add(self.split.sessions.saturating_mul(self.split.ways))
    }

    fn check(&self) -> Result<(), ConfigError> {
        let pretrain = &self.pretrain;
        let numbers = [
            pretrain.learning_rate,
            pretrain.momentum,
            pretrain.weight_decay,
            pretrain.cross_entropy,
            pretrain.label_smoothing,
            pretrain.supervised_contrast,
            pretrain.self_contrast,
            pretrain.augment.jitter,
            self.align.learning_rate,
            self.align.momentum,
            self.align.dampening,
            self.align.weight_decay,
            self.align.cross_entropy,
            self.align.orthogonality,
            self.align.perturbation,
        ];
        let wrong = numbers.iter().copied().find(|number| !(number.is_finite() && *number >= 0.0));
        let chances = [
            pretrain.augment.jitter_probability,
            pretrain.augment.grey_probability,
            pretrain.augment.erase_probability,
        ];
        let no_chance = chances.iter().copied().find(|chance| !(0.0..=1.0).contains(chance));
        let most = match self.targets.method {
            Method::Orthonormal => self.head.projection,
            Method::Simplex => self.head.projection.saturating_add(1),
            _ => i64::MAX,
        };
        let fits = self.targets.count as i64 <= most;
        let rules: &[(&'static str, f64, bool, &'static str)] = &[
            ("a rate, weight or width", wrong.unwrap_or(0.0), wrong.is_none(), "a number of at least 0"),
            ("a probability", no_chance.unwrap_or(0.0), no_chance.is_none(), "from 0 to 1"),
            (
                "targets.count",
                self.targets.count as f64,
                fits,
                "at most head.projection for orthonormal targets, one more for a simplex",
            ),
            ("align.epochs", self.align.epochs as f64, self.align.epochs >= 1, "at least 1"),
            (
                "learn.epochs",
                self.learn.epochs as f64,
                self.learn.is_sound(),
                "in range, as every other field of learn",
            ),
            (
                "split.base_classes",
                self.split.base_classes as f64,
                (2..=4096).contains(&self.split.base_classes),
                "from 2 to 4096",
            ),
            ("backbone.width", self.backbone.width as f64, (1..=1024).contains(&self.backbone.width), "from 1 to 1024"),
            ("head.hidden", self.head.hidden as f64, self.head.hidden >= 1, "at least 1"),
            ("head.projection", self.head.projection as f64, self.head.projection >= 2, "at least 2"),
            ("pretrain.epochs", self.pretrain.epochs as f64, self.pretrain.epochs >= 1, "at least 1"),
            ("pretrain.batch", self.pretrain.batch as f64, self.pretrain.batch >= 2, "at least 2"),
            ("pretrain.views", self.pretrain.views as f64, self.pretrain.views >= 1, "at least 1"),
            (
                "pretrain.views",
                self.pretrain.views as f64,
                self.pretrain.self_contrast == 0.0 || self.pretrain.views >= 2,
                "at least 2 when pretrain.self_contrast is not 0",
            ),
            ("pretrain.temperature", self.pretrain.temperature, self.pretrain.temperature > 0.0, "above 0"),
            (
                "pretrain.augment.crop_scale",
                self.pretrain.augment.crop_scale[0],
                self.pretrain.augment.crop_scale[0] > 0.0
                    && self.pretrain.augment.crop_scale[0] <= self.pretrain.augment.crop_scale[1]
                    && self.pretrain.augment.crop_scale[1] <= 1.0,
                "two rising numbers above 0 and up to 1",
            ),
            (
                "targets.count",
                self.targets.count as f64,
                self.targets.count >= self.classes() && self.targets.count <= 4096,
                "at least the number of classes of the split, at most 4096",
            ),
            ("align.batch", self.align.batch as f64, self.align.batch >= 1, "at least 1"),
            ("align.cached_views", self.align.cached_views as f64, self.align.cached_views >= 2, "at least 2"),
            ("align.temperature", self.align.temperature, self.align.temperature > 0.0, "above 0"),
            (
                "export.exemplars_per_class",
                self.export.exemplars_per_class as f64,
                self.export.exemplars_per_class >= 1,
                "at least 1",
            ),
            (
                "export.candidates_per_class",
                self.export.candidates_per_class as f64,
                self.split.sessions == 0 || self.export.candidates_per_class >= 5,
                "at least 5, the shots of one draw",
            ),
            (
                "split.holdout_per_class",
                self.split.holdout_per_class as f64,
                self.split.measure_on == MeasureOn::Test || self.split.holdout_per_class >= 1,
                "at least 1 when split.measure_on is \"holdout\"",
            ),
        ];
        for (field, value, holds, expected) in rules {
            if !holds {
                return Err(ConfigError::Value { field, value: value.to_string(), expected });
            }
        }
        Ok(())
    }
}

//! The recipe: one TOML file that says everything about a run, checked once.

mod align;
mod backbone;
mod check;
mod data;
mod defaults;
mod export;
mod pretrain;

pub use align::{BaseAlignConfig, BaseAlignRate, BaseAssignment};
pub use backbone::{Architecture, BackboneConfig, Pooling, Stem};
pub use check::ConfigError;
pub use data::{DataConfig, DataKind, SquareFit};
pub use export::ExportConfig;
pub use pretrain::{AugmentPolicy, OptimiserKind};

use std::path::Path;

use orco_core::config::LearnConfig;
use orco_core::loss::contrast::ContrastForm;
use orco_state::target::TargetMethod;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A whole training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name of the bundle that the run makes.
    pub name: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// The images; CIFAR-100 if the recipe says nothing.
    #[serde(default)]
    pub data: DataConfig,
    /// Which classes are base, which arrive later, what is measured on.
    pub split: SplitConfig,
    /// The feature extractor f.
    pub backbone: BackboneConfig,
    /// The projection head g.
    #[serde(default)]
    pub head: HeadConfig,
    /// Phase 1; none if the recipe says nothing, which needs a backbone that is given.
    #[serde(default)]
    pub pretrain: PretrainConfig,
    /// The pseudo-targets.
    #[serde(default)]
    pub targets: TargetConfig,
    /// Phase 2. Without this table, as many steps as converge on any data; a partial table gets defaults for its
    /// missing fields ([`BaseAlignConfig`]).
    #[serde(default, deserialize_with = "align::filled")]
    pub align: BaseAlignConfig,
    /// Views of phase 3 where it is trained from images, which is what `compare` does; those of phase 1 if left out. (A
    /// device makes its own views of its shots.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_augment: Option<AugmentConfig>,
    /// What of the data goes into the bundle.
    #[serde(default)]
    pub export: ExportConfig,
    /// What devices do, as the bundle says it: a `preset` (`combined` if none is named) and what differs from it.
    #[serde(default = "LearnConfig::combined", deserialize_with = "learn")]
    pub learn: LearnConfig,
}

/// Reads settings of phase 3: a preset and what differs from it.
fn learn<'de, D: Deserializer<'de>>(deserializer: D) -> Result<LearnConfig, D::Error> {
    let mut changes = toml::Table::deserialize(deserializer)?;
    let all = toml::Table::try_from(LearnConfig::orco()).expect("settings are a table");
    let preset = match changes.remove("preset") {
        // Settings as a run writes them, where a table that is left out says that there is none.
        None if all.keys().all(|field| changes.contains_key(field)) => LearnConfig::orco(),
        None => LearnConfig::combined(),
        Some(name) => name.as_str().and_then(LearnConfig::preset).ok_or_else(|| {
            D::Error::custom(format!("there is no preset {name}; known are {}", LearnConfig::PRESETS.join(", ")))
        })?,
    };
    with_changes(&preset, changes).map_err(D::Error::custom)
}

/// Settings of phase 3 with some of their fields changed.
///
/// # Errors
/// If there is no such field, or its value is of another type.
pub fn with_changes(config: &LearnConfig, changes: toml::Table) -> Result<LearnConfig, toml::de::Error> {
    if let Some((name, fixed)) = changes.keys().find_map(|name| Some((name, LearnConfig::fixed(name)?))) {
        return Err(toml::de::Error::custom(format!("{name} is no setting of phase 3: {fixed}; leave it out")));
    }
    let mut table = toml::Table::try_from(config).expect("settings are a table");
    table.extend(changes);
    table.try_into()
}

/// Shots per class in one draw (K of the protocol).
pub const SHOTS: usize = 5;

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
    /// Training images per class that no training step sees. With `measure_on = "test"`, those of base classes tell how
    /// much easier the samples set aside are, which corrects the accuracies that a device promises.
    #[serde(default)]
    pub holdout_per_class: usize,
    /// Further images of each base class that no training step sees, a fifth of them at most: by these a device chooses
    /// the border between base classes and new ones. With 0 they are taken from among those that were trained on, which
    /// makes base classes look surer than they are.
    #[serde(default = "set_aside")]
    pub set_aside_per_class: usize,
    /// What accuracy is measured on.
    pub measure_on: MeasureOn,
}

fn set_aside() -> usize {
    SHOTS
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

/// The projection head g: features - hidden - projection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadConfig {
    /// Width of the hidden layer.
    pub hidden: i64,
    /// Dimension d of the sphere.
    pub projection: i64,
}

impl Default for HeadConfig {
    fn default() -> Self {
        Self { hidden: 512, projection: 256 }
    }
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
    /// Who takes the steps.
    #[serde(default)]
    pub optimiser: OptimiserKind,
    /// Momentum (of SGD: Nesterov's).
    pub momentum: f64,
    /// Weight decay; none on biases and norms.
    pub weight_decay: f64,
    /// LARS only: eta, the share of a weight's norm that a step of rate 1 may move it by.
    #[serde(default = "defaults::trust")]
    pub trust: f64,
    /// Linear warm-up, in epochs.
    pub warmup_epochs: usize,
    /// Learning rate of the warm-up's first step.
    #[serde(default)]
    pub warmup_start: f64,
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
    /// Form of both: `inside` (the published program), `outside`, or `negatives` (the paper's Eq. 2).
    #[serde(default = "defaults::inside", skip_serializing_if = "defaults::is_inside")]
    pub contrast_form: ContrastForm,
    /// Arithmetic of the backbone.
    pub precision: Arithmetic,
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
            precision: Arithmetic::F32,
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

/// Arithmetic of convolutions in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// Everything in f32.
    #[default]
    F32,
    /// Convolutions in bf16, weights and statistics in f32.
    Bf16,
    /// Convolutions in f16, weights and statistics in f32, the loss scaled so that small gradients survive.
    F16,
}

impl Arithmetic {
    /// Where no loss is scaled: f32 in place of f16.
    pub fn unscaled(self) -> Self {
        if self == Self::F16 { Self::F32 } else { self }
    }
}

/// Random views of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugmentConfig {
    /// Smallest and largest share of the image's area in a crop.
    pub crop_scale: [f64; 2],
    /// The policy of operations between crop and jitter.
    #[serde(default)]
    pub policy: AugmentPolicy,
    /// Probability of brightness, contrast, saturation and hue jitter.
    pub jitter_probability: f64,
    /// Strength of the first three: a factor from `1 - s` to `1 + s`.
    pub jitter: f64,
    /// Strength of the hue's jitter: a shift by up to this share of the colour circle, at most 0.5.
    #[serde(default)]
    pub hue: f64,
    /// Probability of turning grey.
    pub grey_probability: f64,
    /// Probability of erasing a rectangle.
    pub erase_probability: f64,
    /// Side of the square that cutout covers, in pixels; 0 for none.
    #[serde(default)]
    pub cutout: usize,
}

/// Pseudo-targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetConfig {
    /// How many: the most classes that the device can ever know; 200 more than the split has if left out.
    #[serde(default)]
    pub count: usize,
    /// How they are made.
    #[serde(default)]
    pub method: TargetMethod,
    /// Steps of the optimised method.
    #[serde(default = "defaults::target_steps")]
    pub steps: usize,
    /// Its learning rate: 1 in the published program, 0.01 in the paper's text.
    #[serde(default = "defaults::one", skip_serializing_if = "defaults::is_one")]
    pub learning_rate: f64,
    /// Whether its gradients add up from step to step, as in the published program, which never zeroes them.
    #[serde(default = "defaults::yes", skip_serializing_if = "defaults::is_yes")]
    pub accumulate: bool,
}

impl Default for TargetConfig {
    fn default() -> Self {
        let (method, steps) = (TargetMethod::Optimised, defaults::target_steps());
        Self { count: 0, method, steps, learning_rate: 1.0, accumulate: true }
    }
}

impl Recipe {
    /// Reads and checks a recipe.
    ///
    /// # Errors
    /// [`ConfigError`] if the file cannot be read, is no recipe, or holds a value out of range.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: shown, source })?;
        Self::parse(&text, path)
    }

    /// Checks the recipe that a file holds.
    ///
    /// # Errors
    /// [`ConfigError`] if it is no recipe, or holds a value out of range.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let shown = path.display().to_string();
        if let Ok(table) = text.parse() {
            align::refuse_old_names(&table)?;
        }
        let mut recipe: Self =
            toml::from_str(text).map_err(|source| ConfigError::Parse { path: shown, source: Box::new(source) })?;
        if recipe.targets.count == 0 {
            /// Classes that a device may learn beyond those of the benchmark.
            const ROOM: usize = 200;
            recipe.targets.count = recipe.classes().saturating_add(ROOM);
        }
        recipe.check()?;
        Ok(recipe)
    }

    /// Reads and checks a recipe whose backbone is a feature extractor that the user brings as an ONNX file, whatever
    /// network the recipe names. What its `[backbone]` says of such a file holds: mean, deviation, output, pool.
    ///
    /// # Errors
    /// [`ConfigError`] if the file cannot be read, is no recipe, or holds a value out of range.
    pub fn read_on(path: &Path, model: &Path) -> Result<Self, ConfigError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: shown.clone(), source })?;
        let mut table: toml::Table =
            text.parse().map_err(|source| ConfigError::Parse { path: shown, source: Box::new(source) })?;
        let named = table.remove("backbone").and_then(|named| named.try_into::<toml::Table>().ok()).unwrap_or_default();
        let is_of_file = |key: &String| ["mean", "deviation", "output", "pool"].contains(&key.as_str());
        let mut backbone: toml::Table = named.into_iter().filter(|(key, _)| is_of_file(key)).collect();
        backbone.insert("onnx".into(), model.display().to_string().into());
        table.insert("backbone".into(), backbone.into());
        // By its path itself, which need not be text.
        Self::parse(&table.to_string(), path)?.with_backbone(model)
    }

    /// This recipe on a feature extractor that the user brings as an ONNX file.
    ///
    /// # Errors
    /// [`ConfigError`] if other settings do not go with one.
    pub fn with_backbone(mut self, model: &Path) -> Result<Self, ConfigError> {
        self.backbone.onnx = Some(model.into());
        self.check()?;
        Ok(self)
    }

    /// Classes that exist at the end of the last session.
    pub fn classes(&self) -> usize {
        self.split.base_classes.saturating_add(self.split.sessions.saturating_mul(self.split.ways))
    }
}

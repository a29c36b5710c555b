//! The recipe: one TOML file that says everything about a run, checked once.

mod align;
mod augment;
mod backbone;
mod check;
mod data;
mod defaults;
mod export;
mod head;
mod pretrain;
mod split;
mod targets;
#[cfg(test)]
mod tests;

pub use align::{BaseAlignConfig, BaseAlignSchedule, BaseAssignment};
pub use augment::{AugmentConfig, AugmentPolicy};
pub use backbone::{Architecture, BackboneConfig, Pooling, Stem};
pub use check::ConfigError;
pub(crate) use check::MAX_CLASSES;
pub(crate) use data::IMAGENET;
pub use data::{DataConfig, DataKind, SquareFit};
pub use export::ExportConfig;
pub use head::HeadConfig;
pub use pretrain::{OptimiserKind, Precision, PretrainConfig};
pub use split::{MeasureOn, SHOTS, SplitConfig};
pub use targets::TargetConfig;

use std::io;
use std::path::Path;

use orco_core::config::MethodConfig;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use check::{demand, refuse_long_lists};

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
    /// The feature extractor f; the command line may name one in its place.
    #[serde(default)]
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
    #[serde(default = "MethodConfig::combined", deserialize_with = "learn")]
    pub learn: MethodConfig,
}

/// Reads settings of phase 3, of what is kept of a shot, and of answers: a preset and what differs from it.
fn learn<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MethodConfig, D::Error> {
    let mut changes = toml::Table::deserialize(deserializer)?;
    let all = toml::Table::try_from(MethodConfig::published()).expect("settings are a table");
    let preset = match changes.remove("preset") {
        // Settings as a run writes them, where a table that is left out says that there is none.
        None if all.keys().all(|field| changes.contains_key(field)) => MethodConfig::published(),
        None => MethodConfig::combined(),
        Some(name) => name.as_str().and_then(MethodConfig::preset).ok_or_else(|| {
            D::Error::custom(format!("there is no preset {name}; known are {}", MethodConfig::PRESETS.join(", ")))
        })?,
    };
    with_changes(&preset, changes).map_err(D::Error::custom)
}

/// Settings of phase 3, of what is kept of a shot, and of answers, with some of their fields changed.
///
/// # Errors
/// If there is no such field, or its value is of another type.
pub fn with_changes(config: &MethodConfig, changes: toml::Table) -> Result<MethodConfig, toml::de::Error> {
    if let Some((name, fixed)) = changes.keys().find_map(|name| Some((name, MethodConfig::fixed_choice(name)?))) {
        return Err(toml::de::Error::custom(format!("{name} is no setting of phase 3: {fixed}; leave it out")));
    }
    let mut table = toml::Table::try_from(config).expect("settings are a table");
    table.extend(changes);
    table.try_into()
}

/// The text of a recipe.
fn text_of(path: &Path) -> Result<String, ConfigError> {
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8: save it in that encoding");
    let text = std::fs::read(path).and_then(|bytes| String::from_utf8(bytes).map_err(no_text));
    text.map_err(|source| ConfigError::Read { path: path.display().to_string(), source })
}

impl Recipe {
    /// Reads and checks a recipe.
    ///
    /// # Errors
    /// [`ConfigError`] if the file cannot be read, is no recipe, or holds a value out of range.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&text_of(path)?, path)
    }

    /// License of the weights: what the recipe names, else this program's; that of a backbone, or of weights to start
    /// from, that somebody else made is not known here.
    pub fn license(&self) -> &str {
        let default = if self.backbone.is_given() { "unknown" } else { env!("CARGO_PKG_LICENSE") };
        self.export.license.as_deref().unwrap_or(default)
    }

    /// Checks the recipe that a file holds.
    ///
    /// # Errors
    /// [`ConfigError`] if it is no recipe, or holds a value out of range.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        Self::unchecked(text, path)?.checked()
    }

    /// Reads and checks a recipe whose backbone is a feature extractor that the user brings as an ONNX file, whatever
    /// network the recipe names. What its `[backbone]` says of such a file holds: mean, deviation, output, pool.
    ///
    /// # Errors
    /// [`ConfigError`] if the file cannot be read, is no recipe, or holds a value out of range.
    pub fn read_on(path: &Path, model: &Path) -> Result<Self, ConfigError> {
        let mut recipe = Self::unchecked(&text_of(path)?, path)?;
        recipe.backbone = recipe.backbone.replaced_by(model);
        recipe.checked()
    }

    /// Reads and checks a recipe for its images alone: one that is whole only with a model from the command line
    /// (`--backbone`) will do.
    ///
    /// # Errors
    /// [`ConfigError`] if the file cannot be read, is no recipe, or holds a value out of range.
    pub fn read_for_images(path: &Path) -> Result<Self, ConfigError> {
        let mut recipe = Self::unchecked(&text_of(path)?, path)?;
        if recipe.backbone.needs_model() {
            recipe.backbone = recipe.backbone.replaced_by(Path::new(""));
        }
        recipe.checked()
    }

    /// What a file holds, with the number of targets, but with its values as they are.
    fn unchecked(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let shown = path.display().to_string();
        let written: Option<toml::Table> = text.parse().ok();
        if let Some(written) = &written {
            align::refuse_old_names(written)?;
        }
        let mut recipe: Self =
            toml::from_str(text).map_err(|source| ConfigError::Parse { path: shown, source: Box::new(source) })?;
        if let (Some(written), Ok(read)) = (&written, toml::Table::try_from(&recipe)) {
            refuse_long_lists("", written, &read)?;
        }
        if recipe.targets.count == 0 {
            /// Classes that a device may learn beyond those of the benchmark.
            const ROOM: usize = 200;
            recipe.targets.count = recipe.classes().saturating_add(ROOM).min(MAX_CLASSES);
        }
        Ok(recipe)
    }

    fn checked(self) -> Result<Self, ConfigError> {
        self.check()?;
        Ok(self)
    }

    /// This recipe on a feature extractor that the user brings as an ONNX file.
    ///
    /// # Errors
    /// [`ConfigError`] if other settings do not go with one.
    pub fn with_backbone(mut self, model: &Path) -> Result<Self, ConfigError> {
        self.backbone.onnx = Some(model.into());
        self.checked()
    }

    /// Whether phase 1 trains the backbone; not where an ONNX file is imported, or `pretrain.epochs` is 0.
    pub fn has_phase_1(&self) -> bool {
        !self.backbone.is_imported() && self.pretrain.epochs > 0
    }

    /// Classes that exist at the end of the last session.
    pub fn classes(&self) -> usize {
        self.split.classes()
    }

    /// The images that accuracy is measured on, in words, with the seed that drew them from all if one did: trainings
    /// with other seeds are measured on other images.
    pub fn measured_on(&self, test_seed: Option<u64>) -> String {
        let images = self.split.measure_on.of(self.data.kind.title());
        match test_seed.filter(|_| self.split.measure_on == MeasureOn::Test) {
            Some(seed) => format!("{images}, drawn with seed {seed}"),
            None => images,
        }
    }

    /// Checks every value.
    fn check(&self) -> Result<(), ConfigError> {
        let printable = !self.name.is_empty() && !self.name.chars().any(char::is_control);
        let expected = "a text that is not empty, without control characters";
        demand("name", format_args!("\"{}\"", self.name.escape_debug()), printable, expected)?;
        // Torch's generator and TOML both know integers up to here.
        demand("seed", self.seed, i64::try_from(self.seed).is_ok(), "at most 9223372036854775807")?;
        self.data.check()?;
        self.split.check()?;
        self.backbone.check()?;
        self.head.check()?;
        let trained = self.pretrain.epochs >= 1 || self.backbone.is_given();
        let expected = "at least 1 unless the recipe names backbone.weights or backbone.onnx";
        demand("pretrain.epochs", self.pretrain.epochs, trained, expected)?;
        self.pretrain.check()?;
        self.targets.check(self.classes(), self.head.projection)?;
        self.session_augment.as_ref().map_or(Ok(()), |augment| augment.check("session_augment"))?;
        self.align.check()?;
        self.export.check()?;
        let side = self.data.side();
        for (field, augment) in [
            ("pretrain.augment.cutout", Some(&self.pretrain.augment)),
            ("session_augment.cutout", self.session_augment.as_ref()),
        ] {
            let cutout = augment.map_or(0, |augment| augment.cutout);
            demand(field, cutout, cutout < side as usize, "below data.image_size, so that some of the image is left")?;
        }
        let left = self.backbone.architecture != Architecture::Resnet12 || side >= 16 || self.backbone.is_imported();
        demand("data.image_size", side, left, "at least 16 for resnet12, which halves it four times")?;
        let scaled = self.pretrain.precision != Precision::F16 || !self.align.train_backbone;
        demand("pretrain.precision", "f16", scaled, "bf16 or f32 where align.train_backbone is true")?;
        let own = !self.backbone.is_imported();
        demand("align.train_backbone", true, own || !self.align.train_backbone, "false where backbone.onnx is set")?;
        demand("align.mirrored", true, own || !self.align.mirrored, "false where backbone.onnx is set")?;
        let once = self.data.look.is_whole();
        let expected = "left out unless the backbone is given and stays as it is: what is trained sees whole images";
        let frozen = self.pretrain.epochs == 0 && !self.align.train_backbone;
        demand("data.look", self.data.look, once || frozen, expected)?;
        let weights = &self.export.weights;
        demand("export.weights", weights.name(), own || weights.is_f32(), "f32 where backbone.onnx is set")?;
        demand("export.int8", true, own || !self.export.int8, "false where backbone.onnx is set")?;
        self.learn.problem().map_or(Ok(()), |problem| Err(ConfigError::Learn { problem }))
    }
}

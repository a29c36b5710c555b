//! What a recipe must fulfil, section by section.

use std::fmt::Display;

use orco_runtime::target::Method;

use super::{AugmentConfig, MeasureOn, Policy, PretrainConfig, Recipe, SplitConfig};

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
    /// A setting of phase 3 makes no sense.
    #[error("recipe: learn.{problem}")]
    Learn {
        /// Its name and what it must be.
        problem: &'static str,
    },
}

/// Largest number of classes and of pseudo-targets.
const MOST: usize = 4096;

/// Refuses the recipe unless the rule holds.
pub(super) fn demand(
    field: &'static str,
    value: impl Display,
    holds: bool,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::Value { field, value: value.to_string(), expected }) }
}

pub(super) fn count(
    field: &'static str,
    value: usize,
    least: usize,
    expected: &'static str,
) -> Result<(), ConfigError> {
    demand(field, value, value >= least, expected)
}

pub(super) fn amount(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, value.is_finite() && value >= 0.0, "a number of at least 0")
}

pub(super) fn positive(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, value.is_finite() && value > 0.0, "a number above 0")
}

pub(super) fn probability(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, (0.0..=1.0).contains(&value), "from 0 to 1")
}

impl Recipe {
    /// Checks every value.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let printable = !self.name.is_empty() && !self.name.chars().any(char::is_control);
        demand("name", self.name.escape_debug(), printable, "a text without control characters")?;
        // Torch's generator and TOML both know integers up to here.
        demand("seed", self.seed, i64::try_from(self.seed).is_ok(), "at most 9223372036854775807")?;
        self.data.check()?;
        self.split.check()?;
        self.backbone.check()?;
        let (hidden, projection) = (self.head.hidden, self.head.projection);
        demand("head.hidden", hidden, (1..=65_536).contains(&hidden), "from 1 to 65536")?;
        demand("head.projection", projection, (2..=65_536).contains(&projection), "from 2 to 65536")?;
        let trained = self.pretrain.epochs >= 1 || self.backbone.is_given();
        let expected = "at least 1 unless the recipe names backbone.weights or backbone.onnx";
        demand("pretrain.epochs", self.pretrain.epochs, trained, expected)?;
        self.pretrain.check()?;
        let targets = self.targets.count;
        let enough = targets >= self.classes() && targets <= MOST;
        demand("targets.count", targets, enough, "at least the number of classes of the split, at most 4096")?;
        let fits = match self.targets.method {
            Method::Orthonormal => targets as i64 <= projection,
            Method::Simplex => targets as i64 <= projection + 1,
            Method::Optimised | Method::Random => true,
        };
        demand(
            "targets.count",
            targets,
            fits,
            "at most head.projection for orthonormal targets, one more for a simplex",
        )?;
        self.align.check()?;
        self.export.check()?;
        let own = self.backbone.onnx.is_none();
        demand("align.train_backbone", true, own || !self.align.train_backbone, "false where backbone.onnx is set")?;
        let weights = &self.export.weights;
        demand("export.weights", weights.name(), own || weights.is_f32(), "f32 where backbone.onnx is set")?;
        demand("export.int8", true, own || !self.export.int8, "false where backbone.onnx is set")?;
        self.learn.problem().map_or(Ok(()), |problem| Err(ConfigError::Learn { problem }))
    }
}

impl SplitConfig {
    fn check(&self) -> Result<(), ConfigError> {
        demand("split.base_classes", self.base_classes, (2..=MOST).contains(&self.base_classes), "from 2 to 4096")?;
        count("split.sessions", self.sessions, 1, "at least 1, since the bundle's benchmark needs one")?;
        count("split.ways", self.ways, 1, "at least 1")?;
        let measurable = self.measure_on == MeasureOn::Test || self.holdout_per_class >= 1;
        let expected = "at least 1 when split.measure_on is \"holdout\"";
        demand("split.holdout_per_class", self.holdout_per_class, measurable, expected)
    }
}

impl PretrainConfig {
    fn check(&self) -> Result<(), ConfigError> {
        count("pretrain.batch", self.batch, 2, "at least 2")?;
        let views = if self.self_contrast > 0.0 { 2 } else { 1 };
        count("pretrain.views", self.views, views, "at least 1, at least 2 when pretrain.self_contrast is not 0")?;
        positive("pretrain.learning_rate", self.learning_rate)?;
        amount("pretrain.momentum", self.momentum)?;
        amount("pretrain.weight_decay", self.weight_decay)?;
        positive("pretrain.trust", self.trust)?;
        amount("pretrain.warmup_start", self.warmup_start)?;
        amount("pretrain.cross_entropy", self.cross_entropy)?;
        probability("pretrain.label_smoothing", self.label_smoothing)?;
        amount("pretrain.supervised_contrast", self.supervised_contrast)?;
        amount("pretrain.self_contrast", self.self_contrast)?;
        let losses = self.cross_entropy + self.supervised_contrast + self.self_contrast;
        demand(
            "pretrain.cross_entropy",
            self.cross_entropy,
            losses > 0.0,
            "above 0 when the other losses have weight 0",
        )?;
        positive("pretrain.temperature", self.temperature)?;
        self.augment.check()
    }
}

impl AugmentConfig {
    fn check(&self) -> Result<(), ConfigError> {
        let [low, high] = self.crop_scale;
        let rising = low > 0.0 && low <= high && high <= 1.0;
        demand("pretrain.augment.crop_scale", low, rising, "two rising numbers above 0 and up to 1")?;
        probability("pretrain.augment.jitter_probability", self.jitter_probability)?;
        probability("pretrain.augment.jitter", self.jitter)?;
        probability("pretrain.augment.grey_probability", self.grey_probability)?;
        probability("pretrain.augment.erase_probability", self.erase_probability)?;
        let hue = (0.0..=0.5).contains(&self.hue);
        demand("pretrain.augment.hue", self.hue, hue, "from 0 to 0.5")?;
        if let Policy::RandAugment { operations, magnitude } = self.policy {
            let few = (1..=14).contains(&operations);
            demand("pretrain.augment.policy.operations", operations, few, "from 1 to 14")?;
            let known = magnitude <= Policy::HIGHEST;
            demand("pretrain.augment.policy.magnitude", magnitude, known, "from 0 to 30")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(from: &str, to: &str) -> String {
        let text = include_str!("../../recipes/cifar100-edge.toml");
        assert!(text.contains(from), "{from}");
        let recipe: Recipe = toml::from_str(&text.replace(from, to)).unwrap();
        recipe.check().unwrap_err().to_string()
    }

    #[test]
    fn the_recipes_are_sound() {
        for text in [
            include_str!("../../recipes/cifar100-edge.toml"),
            include_str!("../../recipes/cifar100-edge-holdout.toml"),
            include_str!("../../recipes/cifar100-small.toml"),
            include_str!("../../recipes/cifar100-mobile.toml"),
            include_str!("../../recipes/cifar100-paper.toml"),
            include_str!("../../recipes/cub200-paper.toml"),
            include_str!("../../recipes/miniimagenet-paper.toml"),
        ] {
            toml::from_str::<Recipe>(text).unwrap().check().unwrap();
        }
    }

    #[test]
    fn settings_of_phase_2_that_are_left_out_are_not_written() {
        let recipe: Recipe = toml::from_str(include_str!("../../recipes/cifar100-edge.toml")).unwrap();
        let written = serde_json::to_value(&recipe.align).unwrap();
        assert_eq!(written.as_object().unwrap().len(), 11, "{written}");
        let text = "cached_views = 6\nrate = \"cosine\"\nperturbed = \"all\"\nnoise = \"wide\"\ntrain_backbone = true";
        let text = include_str!("../../recipes/cifar100-edge.toml").replace("cached_views = 6", text);
        let recipe: Recipe = toml::from_str(&text).unwrap();
        recipe.check().unwrap();
        let again: Recipe = toml::from_str(&toml::to_string(&recipe).unwrap()).unwrap();
        assert_eq!(again, recipe);
    }

    #[test]
    fn a_wrong_value_is_named() {
        assert_eq!(
            refused("count = 100", "count = 99"),
            "recipe: targets.count is 99, but must be at least the number of classes of the split, at most 4096"
        );
        assert!(
            refused("momentum = 0.9\nweight_decay", "momentum = nan\nweight_decay")
                .contains("pretrain.momentum is NaN")
        );
        assert!(refused("self_contrast = 0.0", "self_contrast = 0.1").contains("pretrain.views is 1"));
        assert!(refused("crop_scale = [0.35, 1.0]", "crop_scale = [0.9, 0.5]").contains("crop_scale"));
        let policy = "crop_scale = [0.35, 1.0]\npolicy = { kind = \"randaugment\", operations = 2, magnitude = 31 }";
        assert!(refused("crop_scale = [0.35, 1.0]", policy).contains("policy.magnitude is 31"));
        assert!(refused("jitter = 0.4", "jitter = 0.4\nhue = 0.6").contains("hue is 0.6"));
        assert!(refused("views = 1", "views = 1\ntrust = 0.0").contains("pretrain.trust is 0"));
        assert!(refused("preset = \"edge\"", "epochs = 0").contains("learn"));
        assert!(refused("name = \"", "name = \"a\\u0007").contains("recipe: name is a\\u{7}"));
        let mut large: Recipe = toml::from_str(include_str!("../../recipes/cifar100-edge.toml")).unwrap();
        large.seed = i64::MAX as u64 + 1;
        assert!(large.check().unwrap_err().to_string().starts_with("recipe: seed is 9223372036854775808, but"));
        assert!(refused("width = 16", "onnx = \"a.onnx\"\nweights = \"b\"").contains("backbone.weights"));
        assert!(refused("width = 16", "").contains("backbone.width is 0"));
        let stem = "architecture = \"resnet12\"\nstem = \"imagenet\"";
        assert!(refused("architecture = \"resnet18\"", stem).contains("backbone.stem is imagenet"));
        assert!(refused("epochs = 90", "epochs = 0").contains("pretrain.epochs is 0"));
        assert!(
            refused("cached_views = 6", "cached_views = 6\nbackbone_learning_rate = 0.1").contains("train_backbone")
        );
        let text = include_str!("../../recipes/cifar100-edge.toml").replace("\"edge\"", "\"best\"");
        let unknown = toml::from_str::<Recipe>(&text).unwrap_err().to_string();
        assert!(unknown.contains("no preset \"best\"; known are orco, paper, edge"), "{unknown}");
    }
}

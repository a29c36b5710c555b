//! What a recipe must fulfil, section by section.

use std::fmt::Display;
use std::ops::RangeInclusive;

use orco_state::target::TargetMethod;

use super::{
    Architecture, Arithmetic, AugmentConfig, AugmentPolicy, MeasureOn, PretrainConfig, Recipe, SplitConfig,
    TargetConfig,
};

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
        field: String,
        /// What was written.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A setting goes by another name.
    #[error("recipe: {field} is now {instead}")]
    Renamed {
        /// What was written.
        field: &'static str,
        /// What to write.
        instead: &'static str,
    },
    /// A setting of phase 3 makes no sense.
    #[error("recipe: learn.{problem}")]
    Learn {
        /// Its name and what it must be.
        problem: &'static str,
    },
}

/// Largest number of classes and of pseudo-targets.
const MAX_CLASSES: usize = 4096;

/// Refuses the recipe unless the rule holds.
pub(super) fn demand(
    field: &'static str,
    value: impl Display,
    holds: bool,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::Value { field: field.into(), value: value.to_string(), expected }) }
}

pub(super) fn count(
    field: &'static str,
    value: usize,
    range: RangeInclusive<usize>,
    expected: &'static str,
) -> Result<(), ConfigError> {
    demand(field, value, range.contains(&value), expected)
}

/// A weight of a loss, or the width of a noise.
pub(super) fn amount(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, (0.0..=1e6).contains(&value), "from 0 to 1000000")
}

/// A learning rate.
pub(super) fn learning_rate(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, value > 0.0 && value <= 100.0, "above 0 and at most 100")
}

/// A momentum, of which 1 would never let go.
pub(super) fn momentum(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, (0.0..1.0).contains(&value), "at least 0 and below 1")
}

/// A temperature; cosines over a lower one than 0.001 overflow.
pub(super) fn temperature(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, (1e-3..=1e3).contains(&value), "from 0.001 to 1000")
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
        let enough = targets >= self.classes() && targets <= MAX_CLASSES;
        demand("targets.count", targets, enough, "at least the number of classes of the split, at most 4096")?;
        let fits = match self.targets.method {
            TargetMethod::Orthonormal => targets as i64 <= projection,
            TargetMethod::Simplex => targets as i64 <= projection + 1,
            TargetMethod::Optimised | TargetMethod::Random => true,
        };
        demand(
            "targets.count",
            targets,
            fits,
            "at most head.projection for orthonormal targets, one more for a simplex",
        )?;
        count("targets.steps", self.targets.steps, 0..=1_000_000, "from 0 to 1000000")?;
        let TargetConfig { method, learning_rate, accumulate, .. } = self.targets;
        let rate = (1e-6..=100.0).contains(&learning_rate);
        demand("targets.learning_rate", learning_rate, rate, "from 0.000001 to 100")?;
        let descends = method == TargetMethod::Optimised;
        let expected = "left out unless targets.method is \"optimised\"";
        demand("targets.learning_rate", learning_rate, descends || learning_rate == 1.0, expected)?;
        demand("targets.accumulate", accumulate, descends || accumulate, expected)?;
        self.session_augment.as_ref().map_or(Ok(()), |augment| augment.check("session_augment"))?;
        self.align.check()?;
        self.export.check()?;
        let side = self.data.side();
        let left = self.backbone.architecture != Architecture::Resnet12 || side >= 16 || self.backbone.onnx.is_some();
        demand("data.image_size", side, left, "at least 16 for resnet12, which halves it four times")?;
        let scaled = self.pretrain.precision != Arithmetic::F16 || !self.align.train_backbone;
        demand("pretrain.precision", "f16", scaled, "bf16 or f32 where align.train_backbone is true")?;
        let own = self.backbone.onnx.is_none();
        demand("align.train_backbone", true, own || !self.align.train_backbone, "false where backbone.onnx is set")?;
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

impl SplitConfig {
    fn check(&self) -> Result<(), ConfigError> {
        demand(
            "split.base_classes",
            self.base_classes,
            (2..=MAX_CLASSES).contains(&self.base_classes),
            "from 2 to 4096",
        )?;
        let expected = "from 1 to 4096, since the bundle's benchmark needs one";
        count("split.sessions", self.sessions, 1..=MAX_CLASSES, expected)?;
        count("split.ways", self.ways, 1..=MAX_CLASSES, "from 1 to 4096")?;
        let measurable = self.measure_on == MeasureOn::Test || self.holdout_per_class >= 1;
        let expected = "at least 1 when split.measure_on is \"holdout\"";
        demand("split.holdout_per_class", self.holdout_per_class, measurable, expected)?;
        count("split.set_aside_per_class", self.set_aside_per_class, 0..=1000, "at most 1000")?;
        count("split.holdout_per_class", self.holdout_per_class, 0..=100_000, "at most 100000")
    }
}

impl PretrainConfig {
    fn check(&self) -> Result<(), ConfigError> {
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

impl AugmentConfig {
    /// Checks the views of the table of that name.
    fn check(&self, table: &str) -> Result<(), ConfigError> {
        self.check_values().map_err(|error| match error {
            ConfigError::Value { field, value, expected } => {
                ConfigError::Value { field: format!("{table}.{field}"), value, expected }
            }
            other => other,
        })
    }

    fn check_values(&self) -> Result<(), ConfigError> {
        let [low, high] = self.crop_scale;
        let rising = low > 0.0 && low <= high && high <= 1.0;
        demand("crop_scale", low, rising, "two rising numbers above 0 and up to 1")?;
        probability("jitter_probability", self.jitter_probability)?;
        probability("jitter", self.jitter)?;
        probability("grey_probability", self.grey_probability)?;
        probability("erase_probability", self.erase_probability)?;
        demand("hue", self.hue, (0.0..=0.5).contains(&self.hue), "from 0 to 0.5")?;
        count("cutout", self.cutout, 0..=1024, "from 0 to 1024")?;
        if let AugmentPolicy::RandAugment { operations, magnitude } = self.policy {
            demand("policy.operations", operations, (1..=14).contains(&operations), "from 1 to 14")?;
            demand("policy.magnitude", magnitude, magnitude <= AugmentPolicy::HIGHEST, "from 0 to 30")?;
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
        let recipes = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/recipes")).unwrap();
        let paths: Vec<_> = recipes.map(|entry| entry.unwrap().path()).collect();
        assert!(paths.len() > 20, "{paths:?}");
        for path in paths {
            let recipe = Recipe::read(&path).unwrap();
            assert_eq!(path.file_stem().unwrap().to_str(), Some(recipe.name.as_str()));
        }
    }

    #[test]
    fn settings_of_phase_2_that_are_left_out_are_not_written() {
        let recipe: Recipe = toml::from_str(include_str!("../../recipes/cifar100-small.toml")).unwrap();
        let written = serde_json::to_value(&recipe.align).unwrap();
        assert_eq!(written.as_object().unwrap().len(), 11, "{written}");
        let text = "cached_views = 6\nrate = \"cosine\"\nperturbation = \"gaussian\"\ntrain_backbone = true";
        let text = include_str!("../../recipes/cifar100-small.toml").replace("cached_views = 6", text);
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
        assert!(refused("jitter = 0.4", "jitter = 0.4\nhue = 0.6").contains("recipe: pretrain.augment.hue is 0.6"));
        assert!(refused("views = 1", "views = 1\ntrust = 0.0").contains("pretrain.trust is 0"));
        let averaged = refused("views = 1", "views = 1\naverage_last = 1000");
        assert!(averaged.contains("pretrain.average_last is 1000, but must be at most pretrain.epochs"), "{averaged}");
        for (from, to, said) in [
            ("views = 1", "views = 1000000", "views is 1000000, but must be from 1 to 64"),
            ("temperature = 0.2", "temperature = 1e-30", "pretrain.temperature is 0.0000000000000000000000000000"),
            ("learning_rate = 0.4\nmomentum = 0.9", "learning_rate = 0.4\nmomentum = 5.0", "pretrain.momentum is 5"),
            ("weight_decay = 5e-4\nwarmup", "weight_decay = 1e30\nwarmup", "pretrain.weight_decay is 1000"),
            ("learning_rate = 0.4", "learning_rate = 101.0", "pretrain.learning_rate is 101"),
            ("warmup_epochs = 3", "warmup_epochs = 90", "pretrain.warmup_epochs is 90, but must be fewer than"),
            (
                "label_smoothing = 0.1",
                "label_smoothing = 1.0",
                "label_smoothing is 1, but must be at least 0 and below 1",
            ),
            ("cached_views = 6", "cached_views = 1000", "align.cached_views is 1000, but must be from 2 to 64"),
            ("temperature = 0.07", "temperature = 1e-30", "align.temperature"),
            (
                "steps = 1000",
                "steps = 1\nlearning_rate = 1e-60",
                "targets.learning_rate is 0.0000000000000000000000000000",
            ),
            (
                "method = \"optimised\"",
                "method = \"simplex\"\naccumulate = false",
                "targets.accumulate is false, but must be left out unless",
            ),
            ("steps = 1000", "steps = 9000000", "targets.steps is 9000000, but must be from 0 to 1000000"),
            ("exemplars_per_class = 5", "exemplars_per_class = 99999", "export.exemplars_per_class is 99999"),
        ] {
            assert!(refused(from, to).contains(said), "{said}: {}", refused(from, to));
        }
        assert!(refused("preset = \"edge\"", "epochs = 10001").contains("learn"));
        let mut views: Recipe = toml::from_str(include_str!("../../recipes/cifar100-paper.toml")).unwrap();
        views.session_augment.as_mut().unwrap().cutout = 2000;
        let said = views.check().unwrap_err().to_string();
        assert_eq!(said, "recipe: session_augment.cutout is 2000, but must be from 0 to 1024");
        assert!(refused("name = \"", "name = \"a\\u0007").contains("recipe: name is a\\u{7}"));
        let mut large: Recipe = toml::from_str(include_str!("../../recipes/cifar100-small.toml")).unwrap();
        large.seed = i64::MAX as u64 + 1;
        assert!(large.check().unwrap_err().to_string().starts_with("recipe: seed is 9223372036854775808, but"));
        assert!(refused("width = 16", "onnx = \"a.onnx\"\nweights = \"b\"").contains("backbone.weights"));
        assert!(refused("width = 16", "").contains("backbone.width is 0"));
        let stem = "architecture = \"resnet12\"\nstem = \"imagenet\"";
        assert!(refused("architecture = \"resnet18\"", stem).contains("backbone.stem is imagenet"));
        assert!(refused("epochs = 90", "epochs = 0").contains("pretrain.epochs is 0"));
        let half = refused("cached_views = 6", "cached_views = 6\nviews_precision = \"f16\"");
        assert!(half.contains("align.views_precision is f16, but must be \"f32\" or \"bf16\""), "{half}");
        assert!(
            refused("cached_views = 6", "cached_views = 6\nbackbone_learning_rate = 0.1").contains("train_backbone")
        );
        let text = include_str!("../../recipes/cifar100-small.toml").replace("\"edge\"", "\"best\"");
        let unknown = toml::from_str::<Recipe>(&text).unwrap_err().to_string();
        assert!(
            unknown.contains("no preset \"best\"; known are orco, paper, edge, combined, closed-form"),
            "{unknown}"
        );
    }

    #[test]
    fn settings_that_do_not_go_together_are_refused() {
        let changed = |change: fn(&mut Recipe)| {
            let mut recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
            recipe.check().unwrap();
            change(&mut recipe);
            recipe.check().map_err(|error| error.to_string())
        };
        let small = changed(|recipe| {
            (recipe.backbone.architecture, recipe.data.image_size) = (Architecture::Resnet12, Some(8));
        });
        assert_eq!(
            small.unwrap_err(),
            "recipe: data.image_size is 8, but must be at least 16 for resnet12, which halves it four times"
        );
        assert!(changed(|recipe| recipe.backbone.architecture = Architecture::Resnet12).is_ok());
        let half = changed(|recipe| (recipe.align.train_backbone, recipe.pretrain.precision) = (true, Arithmetic::F16));
        assert!(half.unwrap_err().contains("pretrain.precision is f16, but must be bf16 or f32 where align.train"));
        assert!(changed(|recipe| recipe.pretrain.precision = Arithmetic::F16).is_ok());
    }
}

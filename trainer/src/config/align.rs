//! Phase 2 of a recipe.

use orco_core::align::{Perturbation, PerturbedTargets};
use orco_core::config::UnperturbedTargets;
use orco_core::loss::contrast::ContrastForm;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::Precision;
use super::check::{ConfigError, amount, count, demand, learning_rate, momentum, probability, temperature};
use super::defaults::{self, is_default};

/// Phase 2: g is aligned to the targets, f frozen unless the recipe says otherwise.
///
/// A recipe's table that has every required key, `epochs` aside, stands for itself: optional keys that it leaves out
/// have the values of the published program on CIFAR-100, a constant rate among them. Any other table takes each
/// missing key from [`BaseAlignConfig::default`], `steps` only if it has no `epochs`. Optional keys with the published
/// program's values are not serialised, so the settings of older runs compare as equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseAlignConfig {
    /// Passes over the base images; where `steps` is given, as many as make that many steps.
    #[serde(default)]
    pub epochs: usize,
    /// Steps in the place of epochs, so that a recipe holds for few images and for many: the batch is made smaller
    /// where it would not be filled, and the head is scaled to the size of the features before the first step. These
    /// are the most: phase 2 ends once a quarter of the epochs, and at least five, have passed without the loss on
    /// images set aside falling by 1 %. It keeps the head from before those epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// Images per step.
    pub batch: usize,
    /// Learning rate; the peak, if there is a schedule.
    pub learning_rate: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// SGD momentum.
    pub momentum: f64,
    /// SGD dampening.
    pub dampening: f64,
    /// Weight of CE over the base classes (OrCo, Eq. 5).
    pub cross_entropy: f64,
    /// Weight of ORTH (OrCo, Eq. 7).
    pub orthogonality: f64,
    /// Temperature of PSCL.
    pub temperature: f64,
    /// Magnitude e of the perturbation.
    pub perturbation_width: f64,
    /// Augmented views of each image whose features are computed before training; each step takes two different ones.
    /// Ignored with `train_backbone`: every step then draws new views.
    pub cached_views: usize,
    /// Precision of the backbone on the cached views. Clean images and exported features are computed in f32. Ignored
    /// with `train_backbone` and for an imported backbone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub views_precision: Precision,
    /// Whether a feature vector is the mean over an image and its mirror image, from phase 2 on and in the exported
    /// backbone. Doubles the backbone's arithmetic. Not for an imported backbone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mirrored: bool,
    /// Weight of PSCL (OrCo, Eq. 6).
    #[serde(default = "defaults::one", skip_serializing_if = "defaults::is_one")]
    pub contrast: f64,
    /// Form of PSCL: `outside` (the published program), `inside` or `negatives` (the paper's text).
    #[serde(default, skip_serializing_if = "is_default")]
    pub contrast_form: ContrastForm,
    /// Which targets PSCL sees perturbed; there are no incremental classes yet.
    #[serde(default = "free", skip_serializing_if = "is_free")]
    pub perturbed: PerturbedTargets,
    /// How they are perturbed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub perturbation: Perturbation,
    /// Which targets are rows of PSCL unperturbed, beside those: none in the published program, all in the paper's
    /// text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unperturbed_targets: UnperturbedTargets,
    /// How base classes get their targets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub assignment: BaseAssignment,
    /// Schedule of the learning rate over the epochs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rate: BaseAlignSchedule,
    /// Linear warm-up, in epochs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warmup_epochs: usize,
    /// Whether f is trained too, as the paper does on CUB200 and where it compares fine-tuning f and g. Batch norm
    /// stays in inference mode; its scales and offsets are trained.
    #[serde(default, skip_serializing_if = "is_default")]
    pub train_backbone: bool,
    /// Peak learning rate of f; `learning_rate` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backbone_learning_rate: Option<f64>,
}

/// The perturbed targets of the published program's phase 2: those that no base class has.
const FREE: PerturbedTargets = PerturbedTargets { base: false, incremental: false, free: true };

fn free() -> PerturbedTargets {
    FREE
}

fn is_free(perturbed: &PerturbedTargets) -> bool {
    *perturbed == FREE
}

/// Reads `[align]`, and fills in what it leaves out, as [`BaseAlignConfig`] says.
pub(super) fn filled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BaseAlignConfig, D::Error> {
    let mut given = toml::Table::deserialize(deserializer)?;
    let default = toml::Table::try_from(BaseAlignConfig::default()).expect("settings are a table");
    // Optional keys with their default values are not serialised, so this table has the required keys alone.
    let required = toml::Table::try_from(BaseAlignConfig {
        rate: BaseAlignSchedule::Constant,
        steps: None,
        ..BaseAlignConfig::default()
    });
    let whole = required.expect("settings are a table").keys().all(|key| key == "epochs" || given.contains_key(key));
    if !whole {
        let by_epochs = given.contains_key("epochs");
        let others = default.into_iter().filter(|(key, _)| !given.contains_key(key));
        let others = others.filter(|(key, _)| !(by_epochs && key == "steps")).collect::<Vec<_>>();
        given.extend(others);
    }
    given.try_into().map_err(D::Error::custom)
}

/// How base classes get their pseudo-targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BaseAssignment {
    /// The best match of the class means.
    #[default]
    Matched,
    /// Any targets, drawn by the recipe's seed: what the paper compares with.
    Random,
}

/// Schedule of the learning rate after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BaseAlignSchedule {
    /// Constant.
    #[default]
    Constant,
    /// Falls to 0 along a cosine, changed after every epoch.
    Cosine,
}

impl Default for BaseAlignConfig {
    /// Phase 2 on a given backbone and any data.
    fn default() -> Self {
        Self {
            epochs: 0,
            steps: Some(2000),
            batch: 128,
            learning_rate: 0.25,
            weight_decay: 5e-4,
            momentum: 0.9,
            dampening: 0.9,
            cross_entropy: 1.0,
            orthogonality: 1.0,
            temperature: 0.07,
            perturbation_width: 9e-5,
            cached_views: 2,
            views_precision: Precision::F32,
            mirrored: false,
            contrast: 1.0,
            contrast_form: ContrastForm::default(),
            perturbed: FREE,
            perturbation: Perturbation::default(),
            unperturbed_targets: UnperturbedTargets::NONE,
            assignment: BaseAssignment::default(),
            rate: BaseAlignSchedule::Cosine,
            warmup_epochs: 0,
            train_backbone: false,
            backbone_learning_rate: None,
        }
    }
}

impl BaseAlignConfig {
    /// The published program's settings as the paper's text reads them, as
    /// [`orco_core::config::MethodConfig::with_paper_text`] does for phase 3. Cross entropy and ORTH, over base classes
    /// alone, are the same in both.
    #[must_use]
    pub fn with_paper_text(&self) -> Self {
        Self {
            contrast_form: ContrastForm::Negatives,
            perturbation_width: 2e-2,
            unperturbed_targets: UnperturbedTargets::ALL,
            ..self.clone()
        }
    }

    /// These settings for that many base images: epochs and batch where `steps` says how long phase 2 takes.
    pub fn for_images(&self, images: usize) -> Self {
        let Some(steps) = self.steps else { return self.clone() };
        let batch = self.batch.min(images).max(1);
        Self { epochs: steps.div_ceil((images / batch).max(1)), batch, ..self.clone() }
    }

    /// As [`for_images`](Self::for_images), where `ranks` ranks share each batch equally: a batch that was made smaller
    /// is rounded down to a multiple of their number.
    pub fn for_images_on(&self, images: usize, ranks: usize) -> Self {
        let settled = self.for_images(images);
        let over = if settled.batch < self.batch { settled.batch % ranks } else { 0 };
        // Fewer images than ranks cannot be shared.
        let batch = if over < settled.batch { settled.batch - over } else { settled.batch };
        Self { batch, ..settled }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self.steps {
            None => count("align.epochs", self.epochs, 1..=1_000_000, "from 1 to 1000000")?,
            Some(steps) => {
                count("align.steps", steps, 1..=10_000_000, "from 1 to 10000000")?;
                demand("align.epochs", self.epochs, self.epochs == 0, "left out where align.steps is given")?;
            }
        }
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
        let width = self.perturbation_width;
        demand("align.perturbation_width", width, (0.0..=100.0).contains(&width), "from 0 to 100")?;
        let known = !self.perturbed.incremental;
        demand("align.perturbed.incremental", true, known, "false, since phase 2 knows base classes only")?;
        amount("align.contrast", self.contrast)?;
        let losses = self.contrast + self.cross_entropy + self.orthogonality;
        demand("align.contrast", self.contrast, losses > 0.0, "above 0 when the other losses have weight 0")?;
        let short = self.warmup_epochs < self.epochs || self.warmup_epochs == 0;
        let expected =
            if self.steps.is_some() { "left out where align.steps is given" } else { "fewer than align.epochs" };
        demand("align.warmup_epochs", self.warmup_epochs, short, expected)?;
        let trained = self.train_backbone || self.backbone_learning_rate.is_none();
        demand("align.backbone_learning_rate", "set", trained, "left out unless align.train_backbone is true")?;
        let rate = self.backbone_learning_rate.unwrap_or_default();
        demand("align.backbone_learning_rate", rate, (0.0..=100.0).contains(&rate), "from 0 to 100")
    }
}

/// Refuses the names that settings of phase 2 had before they took those of phase 3.
pub(super) fn refuse_old_names(recipe: &toml::Table) -> Result<(), ConfigError> {
    let Some(align) = recipe.get("align").and_then(toml::Value::as_table) else { return Ok(()) };
    let is_old = |name: &str| match align.get(name) {
        Some(toml::Value::String(_)) => name == "perturbed",
        Some(toml::Value::Float(_) | toml::Value::Integer(_)) => name == "perturbation",
        _ => false,
    };
    let (field, instead) = if align.contains_key("noise") {
        ("align.noise", "align.perturbation, where \"wide\" is \"uniform\" with twice the perturbation_width")
    } else if is_old("perturbation") {
        ("a number in align.perturbation", "align.perturbation_width; align.perturbation is the distribution")
    } else if is_old("perturbed") {
        ("a word in align.perturbed", "a table, such as { base = false, incremental = false, free = true }")
    } else {
        return Ok(());
    };
    Err(ConfigError::Renamed { field, instead })
}

#[cfg(test)]
mod tests {
    use super::super::Recipe;
    use super::*;

    #[test]
    fn a_table_that_leaves_out_what_it_needs_differs_from_the_default() {
        let with = |table: &str| {
            #[derive(Deserialize)]
            struct AlignFields {
                #[serde(deserialize_with = "filled")]
                align: BaseAlignConfig,
            }
            toml::from_str::<AlignFields>(table).map(|only| only.align).map_err(|error| error.to_string())
        };
        let default = BaseAlignConfig::default();
        assert_eq!(with("[align]").unwrap(), default);
        let fewer = BaseAlignConfig { steps: Some(500), mirrored: true, ..default.clone() };
        assert_eq!(with("align = { steps = 500, mirrored = true }").unwrap(), fewer);
        let epochs = BaseAlignConfig { steps: None, epochs: 3, ..default.clone() };
        assert_eq!(with("align = { epochs = 3 }").unwrap(), epochs);
        // As a run writes it, where a rate that is left out is constant.
        let constant = BaseAlignConfig { rate: BaseAlignSchedule::Constant, ..default };
        let written = toml::to_string(&constant).unwrap();
        assert_eq!(with(&format!("[align]\n{written}")).unwrap(), constant);
        assert!(with("align = { stepps = 500 }").unwrap_err().contains("unknown field `stepps`"));
    }

    #[test]
    fn ranks_can_share_a_batch_that_was_made_smaller() {
        let config = BaseAlignConfig::default();
        let batch = |images, ranks| config.for_images_on(images, ranks).batch;
        assert_eq!([batch(61, 1), batch(61, 2), batch(61, 8)], [61, 60, 56]);
        assert_eq!([batch(60, 2), batch(500, 2), batch(500, 3), batch(3, 8)], [60, 128, 128, 3]);
        assert_eq!(config.for_images_on(61, 2).epochs, config.for_images(61).epochs);
        // What the recipe says for itself stays.
        let by_epochs = BaseAlignConfig { steps: None, epochs: 3, batch: 33, ..config };
        assert_eq!(by_epochs.for_images_on(20, 2), by_epochs);
    }

    #[test]
    fn old_names_are_refused_with_the_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recipe.toml");
        let with = |line: &str| {
            let text = include_str!("../../recipes/cifar100-edge.toml").replace("perturbation_width = 9e-5", line);
            std::fs::write(&path, text).unwrap();
            Recipe::read(&path).map(|recipe| recipe.align).map_err(|error| error.to_string())
        };
        let rest = "perturbation_width = 9e-5";
        let refused = |line: &str| with(line).unwrap_err();
        assert_eq!(
            refused("perturbation = 9e-5"),
            "recipe: a number in align.perturbation is now align.perturbation_width; align.perturbation is the \
             distribution"
        );
        assert!(refused(&format!("{rest}\nnoise = \"wide\"")).contains("align.noise is now align.perturbation, where"));
        assert!(refused(&format!("{rest}\nperturbed = \"all\"")).contains("align.perturbed is now a table, such as {"));
        let incremental = format!("{rest}\nperturbed = {{ base = true, incremental = true, free = true }}");
        assert!(refused(&incremental).contains("align.perturbed.incremental is true, but must be false"));
        let named = format!("{rest}\nperturbation = \"gaussian\"");
        assert_eq!(with(&named).unwrap().perturbation, Perturbation::Gaussian);
        assert_eq!(with(rest).unwrap().perturbed, FREE);
    }
}

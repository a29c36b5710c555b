//! Random views of an image.

use serde::{Deserialize, Serialize};

use super::check::{ConfigError, count, demand, probability};

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

/// Which operations a view passes through after crop and flip.
///
/// In a recipe: `policy = { kind = "autoaugment" }`, or
/// `policy = { kind = "randaugment", operations = 2, magnitude = 9 }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", try_from = "AugmentPolicyFields")]
pub enum AugmentPolicy {
    /// None.
    #[default]
    None,
    /// The policy that AutoAugment found on CIFAR-10: one of 25 pairs of operations.
    AutoAugment,
    /// As many random operations as `operations`, all of one magnitude.
    RandAugment {
        /// N: operations in a row.
        operations: usize,
        /// M: strength, 0..=30.
        magnitude: usize,
    },
}

/// The table of a policy as it is read: `tag` alone would pass over fields that a policy without settings has not.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, such as { kind = \"autoaugment\" }")]
struct AugmentPolicyFields {
    kind: AugmentPolicyKind,
    operations: Option<usize>,
    magnitude: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum AugmentPolicyKind {
    None,
    AutoAugment,
    RandAugment,
}

impl TryFrom<AugmentPolicyFields> for AugmentPolicy {
    type Error = &'static str;

    fn try_from(
        AugmentPolicyFields { kind, operations, magnitude }: AugmentPolicyFields,
    ) -> Result<Self, &'static str> {
        let alone = operations.is_none() && magnitude.is_none();
        match (kind, operations, magnitude) {
            (AugmentPolicyKind::RandAugment, Some(operations), Some(magnitude)) => {
                Ok(Self::RandAugment { operations, magnitude })
            }
            (AugmentPolicyKind::RandAugment, _, _) => Err("the policy randaugment needs both operations and magnitude"),
            (AugmentPolicyKind::None, _, _) if alone => Ok(Self::None),
            (AugmentPolicyKind::AutoAugment, _, _) if alone => Ok(Self::AutoAugment),
            _ => Err("operations and magnitude go with the policy randaugment only"),
        }
    }
}

impl AugmentPolicy {
    /// Highest magnitude of RandAugment.
    pub const HIGHEST: usize = 30;
}

impl AugmentConfig {
    /// Checks the views of the table of that name.
    pub(super) fn check(&self, table: &str) -> Result<(), ConfigError> {
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
    use super::super::{OptimiserKind, Recipe};
    use super::*;

    const RECIPE: &str = include_str!("../../recipes/cifar100-edge.toml");

    #[test]
    fn recipes_without_the_choices_keep_their_meaning() {
        let recipe: Recipe = toml::from_str(RECIPE).unwrap();
        let pretrain = &recipe.pretrain;
        assert_eq!((pretrain.optimiser, pretrain.trust, pretrain.warmup_start), (OptimiserKind::Sgd, 0.02, 0.0));
        let augment = &pretrain.augment;
        assert_eq!((augment.policy, augment.hue, augment.cutout), (AugmentPolicy::None, 0.0, 0));
    }

    #[test]
    fn a_policy_takes_its_own_fields_only() {
        let read = |table: &str| {
            let text = RECIPE.replace("crop_scale = ", &format!("policy = {{ {table} }}\ncrop_scale = "));
            toml::from_str::<Recipe>(&text).map(|recipe| recipe.pretrain.augment.policy).map_err(|e| e.to_string())
        };
        assert_eq!(read("kind = \"autoaugment\""), Ok(AugmentPolicy::AutoAugment));
        let refused = |table: &str| read(table).unwrap_err();
        assert!(refused("kind = \"autoaugment\", magnitude = 3").contains("go with the policy randaugment only"));
        assert!(refused("kind = \"none\", strength = 3").contains("unknown field `strength`"));
        let bare = RECIPE.replace("crop_scale = ", "policy = \"autoaugment\"\ncrop_scale = ");
        let bare = toml::from_str::<Recipe>(&bare).unwrap_err().to_string();
        assert!(bare.contains("expected a table, such as { kind = \"autoaugment\" }"), "{bare}");
        assert!(refused("kind = \"randaugment\", magnitude = 3").contains("needs both operations and magnitude"));
    }

    #[test]
    fn choices_survive_writing_and_reading() {
        for policy in [
            AugmentPolicy::None,
            AugmentPolicy::AutoAugment,
            AugmentPolicy::RandAugment { operations: 2, magnitude: 9 },
        ] {
            let mut recipe: Recipe = toml::from_str(RECIPE).unwrap();
            (recipe.pretrain.optimiser, recipe.pretrain.augment.policy) = (OptimiserKind::Lars, policy);
            let text = toml::to_string(&recipe).unwrap();
            assert_eq!(toml::from_str::<Recipe>(&text).unwrap(), recipe, "{text}");
        }
    }
}

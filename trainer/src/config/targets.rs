//! Pseudo-targets.

use orco_state::target::TargetMethod;
use serde::{Deserialize, Serialize};

use super::check::{ConfigError, MAX_CLASSES, count, demand};
use super::defaults;

/// Pseudo-targets (OrCo, section 3.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetConfig {
    /// Number of targets, the most classes that a device can ever know; if left out, 200 more than the split has.
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

impl TargetConfig {
    /// Checks every value, for the split's number of classes and the projection's dimension.
    pub(super) fn check(&self, classes: usize, projection: i64) -> Result<(), ConfigError> {
        let Self { count: targets, method, steps, learning_rate, accumulate } = *self;
        let enough = targets >= classes && targets <= MAX_CLASSES;
        demand("targets.count", targets, enough, "at least the number of classes of the split, at most 4096")?;
        let fits = match method {
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
        count("targets.steps", steps, 0..=1_000_000, "from 0 to 1000000")?;
        let rate = (1e-6..=100.0).contains(&learning_rate);
        demand("targets.learning_rate", learning_rate, rate, "from 0.000001 to 100")?;
        let descends = method == TargetMethod::Optimised;
        let expected = "left out unless targets.method is \"optimised\"";
        demand("targets.learning_rate", learning_rate, descends || learning_rate == 1.0, expected)?;
        demand("targets.accumulate", accumulate, descends || accumulate, expected)
    }
}

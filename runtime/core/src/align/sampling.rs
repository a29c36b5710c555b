//! How batches are drawn: from which seed, and how targets are perturbed. Settings of a bundle do not name the
//! perturbation, since devices always have the published program's; measurements and phase 2 vary it.

use serde::{Deserialize, Serialize};

/// How perturbed targets are drawn around a pseudo-target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Perturbation {
    /// t + U(-e/2, e/2) per coordinate, renormalised.
    #[default]
    Uniform,
    /// t + N(0, e) per coordinate, renormalised.
    Gaussian,
    /// t itself.
    None,
}

/// Which pseudo-targets are perturbed in PSCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerturbedTargets {
    /// Those of base classes.
    pub base: bool,
    /// Those of incremental classes.
    pub incremental: bool,
    /// Those of no class.
    pub free: bool,
}

impl PerturbedTargets {
    /// The published program's in phase 3: all but those of base classes.
    pub const PHASE_3: Self = Self { base: false, incremental: true, free: true };
}

/// How the batches of phase 3 are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Seed of shuffling and perturbation.
    pub seed: u64,
    /// Which targets are perturbed.
    pub perturbed: PerturbedTargets,
    /// How they are; [`crate::config::MethodConfig::perturbation_width`] is e.
    pub perturbation: Perturbation,
}

impl Sampling {
    /// The published program's, from a seed.
    pub const fn seeded(seed: u64) -> Self {
        Self { seed, perturbed: PerturbedTargets::PHASE_3, perturbation: Perturbation::Uniform }
    }
}

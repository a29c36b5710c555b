//! The questions of the paper's ablations, and one about our answers. [`crate::phase3_ablations`] answers those that
//! vary phase 3 alone; the trainer answers the others, and the numbers that the paper gives for both stand in
//! [`crate::published`].

use orco_core::config::MethodConfig;
use serde::{Deserialize, Serialize};

/// What an ablation varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// Which losses are used: in phase 3 alone by the lab, in phases 2 and 3 by the trainer.
    Losses,
    /// How pseudo-targets are generated.
    Targets,
    /// Which losses phase 1 uses.
    Pretraining,
    /// Whether the incremental sessions train the head g alone, or the backbone f as well.
    Frozen,
    /// The backbone's family.
    Backbone,
    /// Which targets phase 3 perturbs, and with which distribution.
    Perturbation,
    /// How new classes get their targets.
    Assignment,
    /// Exemplars of each base class in phase 3.
    Exemplars,
    /// How far phase 3 perturbs targets.
    Noise,
    /// Which losses phase 3 uses where answers are a device's default ones. The paper does not ask this.
    Answer,
}

impl Question {
    /// All of the paper's.
    pub const PAPER: [Self; 9] = [
        Self::Losses,
        Self::Targets,
        Self::Pretraining,
        Self::Frozen,
        Self::Backbone,
        Self::Perturbation,
        Self::Assignment,
        Self::Exemplars,
        Self::Noise,
    ];

    /// Its name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Losses => "losses",
            Self::Targets => "targets",
            Self::Pretraining => "pretraining",
            Self::Frozen => "frozen",
            Self::Backbone => "backbone",
            Self::Perturbation => "perturbation",
            Self::Assignment => "assignment",
            Self::Exemplars => "exemplars",
            Self::Noise => "noise",
            Self::Answer => "answer",
        }
    }

    /// The question of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::PAPER.into_iter().chain([Self::Answer]).find(|question| question.name() == name)
    }

    /// What is asked, as the title of a table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Losses => "Losses of phase 3",
            Self::Targets => "How pseudo-targets are made",
            Self::Pretraining => "Losses of phase 1",
            Self::Frozen => "The head alone, or the backbone too",
            Self::Backbone => "Backbones",
            Self::Perturbation => "Pull and perturb",
            Self::Assignment => "Assignment",
            Self::Exemplars => "Exemplars of earlier classes",
            Self::Noise => "How far targets are perturbed",
            Self::Answer => "Losses behind the default answer",
        }
    }
}

/// One row of an ablation's table.
#[derive(Clone, Debug, PartialEq)]
pub struct AblationVariant<S> {
    /// Its name among those of its question.
    pub name: String,
    /// What it is trained or learned with.
    pub settings: S,
}

/// The losses that phases 2 and 3 use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossSelection {
    /// PSCL, perturbed supervised contrast.
    pub contrast: bool,
    /// Cross entropy.
    pub cross_entropy: bool,
    /// ORTH, orthogonality.
    pub orthogonality: bool,
}

impl LossSelection {
    /// All three.
    pub const ALL: Self = Self { contrast: true, cross_entropy: true, orthogonality: true };

    const NONE: Self = Self { contrast: false, cross_entropy: false, orthogonality: false };

    /// The paper's variants of [`Question::Losses`], each with its name.
    pub const VARIANTS: [(&'static str, Self); 6] = [
        ("CE", Self { cross_entropy: true, ..Self::NONE }),
        ("CE + ORTH", Self { contrast: false, ..Self::ALL }),
        ("PSCL", Self { contrast: true, ..Self::NONE }),
        ("PSCL + ORTH", Self { cross_entropy: false, ..Self::ALL }),
        ("PSCL + CE", Self { orthogonality: false, ..Self::ALL }),
        ("all", Self::ALL),
    ];

    /// `config` with these losses alone.
    pub fn applied_to(self, config: &MethodConfig) -> MethodConfig {
        let mut config = config.clone();
        if !self.contrast {
            config.contrast = 0.0;
        }
        if !self.cross_entropy {
            (config.cross_entropy, config.base_cross_entropy) = (0.0, 0.0);
        }
        if !self.orthogonality {
            config.orthogonality = 0.0;
        }
        config
    }
}

//! The few-shot class-incremental split.

use serde::{Deserialize, Serialize};

use super::check::{ConfigError, MAX_CLASSES, count, demand};

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
    /// Training images per class that no phase sees. With `measure_on = "test"`, those of base classes correct the
    /// accuracy that a device estimates: the samples set aside are easier than unseen images.
    #[serde(default)]
    pub holdout_per_class: usize,
    /// Training images of each base class, a fifth of them at most, by which a device chooses the border between base
    /// and new classes. No phase is trained on them. With 0 a device uses images that were trained on, which have
    /// higher scores than unseen ones.
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

impl MeasureOn {
    /// These images of a data set, in words.
    pub fn of(self, data: &str) -> String {
        // The title "own images" would double the word: "own images test images".
        let data = data.strip_suffix(" images").unwrap_or(data);
        match self {
            Self::Test => format!("{data} test images"),
            Self::Holdout => format!("held-out {data} training images"),
        }
    }
}

impl SplitConfig {
    /// Classes of the base session and of all others.
    pub fn classes(&self) -> usize {
        self.base_classes.saturating_add(self.sessions.saturating_mul(self.ways))
    }

    /// Checks every value.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        demand(
            "split.base_classes",
            self.base_classes,
            (2..=MAX_CLASSES).contains(&self.base_classes),
            "from 2 to 4096",
        )?;
        let expected = "from 1 to 4096, since the bundle's benchmark needs one";
        count("split.sessions", self.sessions, 1..=MAX_CLASSES, expected)?;
        count("split.ways", self.ways, 1..=MAX_CLASSES, "from 1 to 4096")?;
        let expected = "so few that base_classes + sessions * ways is at most 4096";
        demand("split.sessions", self.sessions, self.classes() <= MAX_CLASSES, expected)?;
        let measurable = self.measure_on == MeasureOn::Test || self.holdout_per_class >= 1;
        let expected = "at least 1 when split.measure_on is \"holdout\"";
        demand("split.holdout_per_class", self.holdout_per_class, measurable, expected)?;
        count("split.set_aside_per_class", self.set_aside_per_class, 0..=1000, "at most 1000")?;
        count("split.holdout_per_class", self.holdout_per_class, 0..=100_000, "at most 100000")
    }
}

//! The accuracy to be expected on new pictures, by the border and by shots that are left out of their class in turn.

use alloc::vec::Vec;

use serde::Serialize;

use crate::answer::{JudgeableSamples, LeftOutAccuracy, judgeable_samples};
use crate::effective_sample_size::{ShotIndependence, of_judged, range};
use crate::state::{BaseModel, State};
use orco_core::border::Border;

/// Accuracies to be expected on new pictures, if answers name all classes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExpectedAccuracy {
    /// Accuracy on base classes, 0..1; `None` without samples.
    pub base: Option<f32>,
    /// Accuracy on learned classes with three different shots or more, 0..1; `None` without samples.
    pub learned: Option<f32>,
    /// The range around `learned`, by how many independent shots it rests on ([`crate::effective_sample_size`]).
    pub learned_range: Option<[f32; 2]>,
}

impl ExpectedAccuracy {
    /// Takes them from the border of a state; `None` where answers have no border. The border holds one estimate for
    /// all learned classes. Where some of these have just two different shots, that estimate is too low, and `learned`
    /// is `None`; [`ExpectedByScope`] leaves such classes out instead.
    pub fn of(base_model: &BaseModel, state: &State) -> Option<Self> {
        let border = state.calibration?.border;
        let evidence = AccuracyEvidence::of(base_model, state)?;
        let learned = (!evidence.judged.has_two_shot_class).then_some(border.learned);
        Some(evidence.among_all(border.base, learned))
    }
}

/// Accuracy to be expected on new pictures of learned classes, of which there are two or more, if answers name these
/// alone. Base classes are no rivals then, so it is at least the accuracy among all classes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LearnedOnlyAccuracy {
    /// Accuracy on classes with three different shots or more, 0..1.
    pub learned: f32,
    /// The range around `learned`, by how many independent shots it rests on ([`crate::effective_sample_size`]).
    pub learned_range: Option<[f32; 2]>,
}

/// What is to be expected on new pictures, by which classes answers name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ExpectedByScope {
    /// Accuracies if answers name all classes; `None` where they have no border.
    pub all: Option<ExpectedAccuracy>,
    /// Accuracy if answers name learned classes alone; `None` where they have no border, there are fewer than two
    /// learned classes, or too few shots to tell.
    pub learned_only: Option<LearnedOnlyAccuracy>,
}

impl ExpectedByScope {
    /// Takes them from the border of a state and its left-out shots.
    pub fn of(base_model: &BaseModel, state: &State, left_out: Option<LeftOutAccuracy>) -> Self {
        let Some(calibration) = state.calibration else { return Self::default() };
        let evidence = AccuracyEvidence::of(base_model, state);
        evidence.map(|evidence| evidence.by_scope(calibration.border, left_out)).unwrap_or_default()
    }
}

/// The samples of a state that an expected accuracy rests on.
pub(super) struct AccuracyEvidence {
    judged: JudgeableSamples,
    /// Number of classes that came with the bundle; they are the first.
    base_classes: usize,
    /// How alike the shots of every learned class are; `None` where nothing tells how alike the shots of a class
    /// usually are.
    independence: Option<Vec<ShotIndependence>>,
}

impl AccuracyEvidence {
    /// `None` where the bundle has no statistics.
    pub(super) fn of(base_model: &BaseModel, state: &State) -> Option<Self> {
        let judged = judgeable_samples(base_model, state)?;
        let independence = of_judged(base_model, state, &judged.counts);
        Some(Self { judged, base_classes: base_model.classes.len(), independence })
    }

    /// How many samples of each class can be judged.
    pub(super) fn judged_counts(&self) -> &[usize] {
        &self.judged.counts
    }

    /// How alike the shots of each learned class are.
    pub(super) fn independence(&self) -> Option<&[ShotIndependence]> {
        self.independence.as_deref()
    }

    /// What a border and left-out shots promise.
    pub(super) fn by_scope(&self, border: Border, left_out: Option<LeftOutAccuracy>) -> ExpectedByScope {
        // A single class would be right whatever is seen.
        let has_rival = self.judged.counts.len() > self.base_classes + 1;
        let among_learned = left_out.filter(|_| has_rival).map(|left_out| left_out.among_learned);
        ExpectedByScope {
            all: Some(self.among_all(border.base, left_out.map(|left_out| left_out.among_all))),
            learned_only: among_learned
                .map(|learned| LearnedOnlyAccuracy { learned, learned_range: self.range(learned) }),
        }
    }

    /// Accuracies among all classes, each only where its side has samples.
    fn among_all(&self, base: f32, learned: Option<f32>) -> ExpectedAccuracy {
        let (of_base, of_learned) = self.judged.counts.split_at(self.base_classes);
        let has_samples = |counts: &[usize]| counts.iter().any(|count| *count > 0);
        let learned = learned.filter(|_| has_samples(of_learned));
        ExpectedAccuracy {
            base: has_samples(of_base).then_some(base),
            learned,
            learned_range: learned.and_then(|learned| self.range(learned)),
        }
    }

    /// The range around an accuracy on learned classes.
    fn range(&self, learned: f32) -> Option<[f32; 2]> {
        self.independence().map(|shots| range(learned, shots))
    }
}

//! Whether a picture shows anything known: a score that is high for known pictures, and a threshold that all but a
//! chosen share of them pass.
//!
//! The threshold comes from pictures whose class is known: the samples of base classes that the bundle set aside, and
//! the stored exemplars of the device, each left out of its own class; where there are many, some at even distances.
//! Every class counts alike. It is chosen anew from the state whenever that changes; nothing of it is stored, so the
//! share may be another one at every start.
//!
//! Where learned classes alone are answered, the shots of these alone say what is known: a picture must look as much
//! like a learned class as their views do, and no base class may be ahead by more than it is on them. A banana that
//! nobody taught is unknown then, and no mug. All views count: shots that are taken one after the other look more alike
//! than a picture in another light or place, and their clean views alone would refuse it.

use alloc::vec::Vec;

use crate::answer::{KnownSamples, ScoredSample, familiarity};
use crate::prediction_set::{ProbabilityScale, RightProbabilities, SetThresholds};
use crate::ranked::{ClassValue, RankedValues};

/// Share of known pictures that may be taken for unknown ones unless a setting says otherwise.
pub const FALSE_ALARMS: f32 = 0.05;

/// What known pictures score.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownScores {
    familiarity: RankedValues,
    learned: Option<LearnedScores>,
    right: RightProbabilities,
}

/// What views of learned classes' shots score.
#[derive(Clone, Debug, PartialEq)]
struct LearnedScores {
    /// The best score of a learned class.
    familiarity: RankedValues,
    /// The margin by which that score is ahead of the best base class's.
    margin: RankedValues,
}

/// What a picture must reach to show a learned class, where these alone are answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnedThresholds {
    /// The best score of a learned class.
    pub familiarity: f32,
    /// The margin by which that score must be ahead of the best base class's; at most 0.
    pub margin: f32,
}

impl KnownScores {
    /// Collects them from samples whose class is known; their scores have the border among them.
    pub(crate) fn of(samples: &KnownSamples, scale: ProbabilityScale) -> Option<Self> {
        let KnownSamples { all, learned, views } = samples;
        let base = scale.base;
        if all.is_empty() {
            return None;
        }
        let ranked = |samples: &[ScoredSample], of: &dyn Fn(&[f32]) -> f32| {
            let value = |sample: &ScoredSample| ClassValue { class: sample.class, value: of(&sample.scores) };
            RankedValues::of(&samples.iter().map(value).collect::<Vec<_>>())
        };
        let of_views = (!views.is_empty()).then(|| LearnedScores {
            familiarity: ranked(views, &|scores| familiarity(&scores[base..])),
            margin: ranked(views, &|scores| margin(scores, base)),
        });
        let right = RightProbabilities::of(all, learned, scale);
        Some(Self { familiarity: ranked(all, &familiarity), learned: of_views, right })
    }

    /// The highest score that at most a share of `false_alarms`, 0..1, of known pictures stays below. A picture with a
    /// lower one is unknown.
    pub fn threshold(&self, false_alarms: f32) -> f32 {
        self.familiarity.threshold(false_alarms)
    }

    /// The scores below which a picture is unknown where learned classes alone are answered, for a share of
    /// `false_alarms`, 0..1; none where no shot tells.
    pub fn learned_thresholds(&self, false_alarms: f32) -> Option<LearnedThresholds> {
        let LearnedScores { familiarity, margin } = self.learned.as_ref()?;
        // Each of the two may refuse half of them.
        let share = false_alarms / 2.0;
        Some(LearnedThresholds { familiarity: familiarity.threshold(share), margin: margin.threshold(share).min(0.0) })
    }

    /// Least probabilities with which a label is in the set that holds the right one with a probability of `coverage`.
    pub fn set_thresholds(&self, coverage: f32) -> SetThresholds {
        self.right.thresholds(coverage)
    }
}

impl LearnedThresholds {
    /// Whether a picture of these scores shows a learned class; the first `base` are those of base classes.
    pub fn are_reached(&self, scores: &[f32], base: usize) -> bool {
        scores.len() > base && familiarity(&scores[base..]) >= self.familiarity && margin(scores, base) >= self.margin
    }
}

/// The margin by which the best learned class's score is ahead of the best base class's.
fn margin(scores: &[f32], base: usize) -> f32 {
    familiarity(&scores[base..]) - familiarity(&scores[..base])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_that_nobody_taught_is_unknown_among_what_was_taught() {
        let sample = |class, scores: [f32; 3]| ScoredSample { class, is_set_aside: true, scores: scores.to_vec() };
        let base = [sample(0, [3.0, 0.0, 0.5])];
        let shots: Vec<ScoredSample> = (0..4).map(|shot| sample(2, [1.0, 0.2, 2.0 + 0.1 * shot as f32])).collect();
        let samples = KnownSamples { all: base.to_vec(), learned: shots.clone(), views: shots };
        let known = KnownScores::of(&samples, ProbabilityScale { base: 2, temperature: 1.0, ratio: 1.0 }).unwrap();
        let thresholds = known.learned_thresholds(FALSE_ALARMS).unwrap();
        assert_eq!(thresholds, LearnedThresholds { familiarity: 2.0, margin: 0.0 });
        assert!(thresholds.are_reached(&[2.0, 0.0, 2.1], 2));
        assert!(!thresholds.are_reached(&[0.0, 0.0, 1.9], 2), "like nothing that was taught");
        assert!(!thresholds.are_reached(&[2.5, 0.0, 2.1], 2), "a base class");
        assert!(!thresholds.are_reached(&[2.5, 0.0], 2), "nothing was taught");
    }
}

//! Whether a picture shows anything known: a score that is high for known pictures, and a threshold that all but a
//! chosen share of them pass.
//!
//! The threshold comes from pictures whose class is known: the samples of base classes that the bundle set aside, and
//! the stored exemplars of the device, each left out of its own class; where there are many, evenly chosen ones. Every
//! class counts alike. It is chosen anew from the state whenever that changes; nothing of it is stored, so the share
//! may be another one at every start.

use alloc::vec;
use alloc::vec::Vec;

use crate::answer::{ScoredSample, familiarity};

/// Share of known pictures that may be taken for unknown ones unless a setting says otherwise.
pub const FALSE_ALARMS: f32 = 0.05;

/// What known pictures score.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownScores {
    /// In the order of their scores, the lowest first.
    scores: Vec<KnownScore>,
}

/// What a known picture scores.
#[derive(Clone, Copy, Debug, PartialEq)]
struct KnownScore {
    score: f32,
    /// Its share among all, classes counting alike.
    share: f32,
}

impl KnownScores {
    /// Collects them from samples whose class is known, one of `classes`; their scores have the border among them.
    pub(crate) fn of(samples: &[ScoredSample], classes: usize) -> Option<Self> {
        let mut counts = vec![0.0f32; classes];
        samples.iter().for_each(|sample| counts[sample.class as usize] += 1.0);
        let classes = counts.iter().filter(|count| **count > 0.0).count() as f32;
        let share = |sample: &ScoredSample| 1.0 / (counts[sample.class as usize] * classes);
        let scored = |sample: &ScoredSample| KnownScore { score: familiarity(&sample.scores), share: share(sample) };
        let mut scores: Vec<KnownScore> = samples.iter().map(scored).collect();
        scores.sort_by(|a, b| a.score.total_cmp(&b.score));
        (!scores.is_empty()).then_some(Self { scores })
    }

    /// The highest score that at most a share of `false_alarms`, 0..1, of known pictures stays below. A picture with a
    /// lower one is unknown.
    pub fn threshold(&self, false_alarms: f32) -> f32 {
        let mut below = 0.0;
        for &KnownScore { score, share } in &self.scores {
            below += share;
            if below > false_alarms {
                return score;
            }
        }
        f32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_lets_the_chosen_share_fall_below() {
        let known = |score, share| KnownScore { score, share };
        let even = KnownScores { scores: (0..20).map(|index| known(index as f32, 0.05)).collect() };
        assert_eq!(even.threshold(0.0), 0.0);
        assert_eq!(even.threshold(0.12), 2.0);
        let uneven = KnownScores { scores: vec![known(1.0, 0.5), known(2.0, 0.25), known(3.0, 0.25)] };
        assert_eq!((uneven.threshold(0.4), uneven.threshold(0.6)), (1.0, 2.0));
    }
}

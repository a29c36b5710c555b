//! Whether a picture shows anything known: a score that is high for known pictures, and a threshold that all but a
//! chosen share of them pass.
//!
//! The threshold comes from pictures whose class is known: the samples of base classes that the bundle set aside, and
//! the stored exemplars of the device, each left out of its own class; where there are many, evenly chosen ones. Every
//! class counts alike. It is chosen anew from the state whenever that changes; nothing of it is stored, so the share
//! may be another one at every start.

use alloc::vec;
use alloc::vec::Vec;

use crate::answer::familiarity;

/// Share of known pictures that may be taken for unknown ones unless a setting says otherwise.
pub const FALSE_ALARMS: f32 = 0.05;

/// What known pictures score.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownScores {
    /// Scores, rising, with the share of each among all, classes counting alike.
    scores: Vec<(f32, f32)>,
}

impl KnownScores {
    /// Collects them from rows of scores, the border among them, of samples whose class is known, one of `classes`.
    pub(crate) fn of(rows: &[(u32, Vec<f32>)], classes: usize) -> Option<Self> {
        let mut counts = vec![0.0f32; classes];
        rows.iter().for_each(|(class, _)| counts[*class as usize] += 1.0);
        let classes = counts.iter().filter(|count| **count > 0.0).count() as f32;
        let one = |(class, row): &(u32, Vec<f32>)| (familiarity(row), 1.0 / (counts[*class as usize] * classes));
        let mut scores: Vec<(f32, f32)> = rows.iter().map(one).collect();
        scores.sort_by(|a, b| a.0.total_cmp(&b.0));
        (!scores.is_empty()).then_some(Self { scores })
    }

    /// The highest score that at most a share of `false_alarms`, 0..1, of known pictures stays below. A picture with a
    /// lower one is unknown.
    pub fn threshold(&self, false_alarms: f32) -> f32 {
        let mut below = 0.0;
        for &(score, share) in &self.scores {
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
        let known = KnownScores { scores: (0..20).map(|index| (index as f32, 0.05)).collect() };
        assert_eq!(known.threshold(0.0), 0.0);
        assert_eq!(known.threshold(0.12), 2.0);
        let uneven = KnownScores { scores: vec![(1.0, 0.5), (2.0, 0.25), (3.0, 0.25)] };
        assert_eq!((uneven.threshold(0.4), uneven.threshold(0.6)), (1.0, 2.0));
    }
}

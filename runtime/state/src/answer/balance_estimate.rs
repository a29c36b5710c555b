//! What answers would recognise with every balance, estimated from samples that are scored anyway.
//!
//! A change chooses the border of one balance, from all samples and the views of shots. The other borders are chosen
//! here, when somebody asks, from the clean views of some samples. Where these put the present border elsewhere than
//! the change did, the others are off by as much and are moved by the difference.

use alloc::vec::Vec;

use super::ScoredSample;
use super::calibrate::{BestPerSide, Calibrator};
use crate::state::Balance;

/// What answers recognise with one balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceEstimate {
    /// The balance.
    pub balance: Balance,
    /// Shots of learned classes that were judged, each left out of its class.
    pub shots: usize,
    /// How many of them are recognised.
    pub recognised: usize,
    /// Samples of base classes that were judged.
    pub base_samples: usize,
    /// How many of them are taken for a learned class.
    pub taken_for_learned: usize,
}

/// The border that answers have, and what it was chosen for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PresentBorder {
    /// Number of base classes.
    pub(super) base: usize,
    /// Number of known classes.
    pub(super) count: usize,
    /// The balance.
    pub(super) balance: Balance,
    /// What is added to the scores of learned classes.
    pub(super) shift: f32,
}

/// What every balance is estimated from: the leading classes of samples whose scores hold no border.
#[derive(Clone, Debug)]
pub(super) struct BalanceSamples {
    present: PresentBorder,
    /// Class of each sample, those of base classes first.
    classes: Vec<u32>,
    best: Vec<BestPerSide>,
    /// How many samples are of base classes.
    base_samples: usize,
}

impl BalanceSamples {
    /// Of samples of all classes, those of base classes, and of shots of learned ones.
    pub(super) fn of(evenly: &[ScoredSample], learned: &[ScoredSample], present: PresentBorder) -> Self {
        let of_base = evenly.iter().filter(|sample| (sample.class as usize) < present.base);
        let (mut classes, mut best) = (Vec::new(), Vec::new());
        for sample in of_base.chain(learned) {
            classes.push(sample.class);
            best.push(BestPerSide::of(&sample.scores, present.base));
        }
        let base_samples = classes.len() - learned.len();
        Self { present, classes, best, base_samples }
    }

    /// An estimate for every balance; none where one of the sides has no samples.
    pub(super) fn estimates(&self) -> Vec<BalanceEstimate> {
        let Self { present, classes, best, base_samples } = self;
        if *base_samples == 0 || *base_samples == best.len() {
            return Vec::new();
        }
        let calibrator = Calibrator::of_best(classes, present.base, present.count, best.clone());
        let shift = |balance| calibrator.border(balance, 0.0, present.shift).shift;
        let error = present.shift - shift(present.balance);
        Balance::ALL.map(|balance| self.estimate(balance, shift(balance) + error)).to_vec()
    }

    /// What is recognised where the border of a balance lies at a shift.
    fn estimate(&self, balance: Balance, shift: f32) -> BalanceEstimate {
        let answers: Vec<usize> = self.best.iter().map(|best| best.answer(shift)).collect();
        let (of_base, of_learned) = answers.split_at(self.base_samples);
        let is_right = |(answer, class): &(&usize, &u32)| **answer == **class as usize;
        BalanceEstimate {
            balance,
            shots: of_learned.len(),
            recognised: of_learned.iter().zip(&self.classes[self.base_samples..]).filter(is_right).count(),
            base_samples: self.base_samples,
            taken_for_learned: of_base.iter().filter(|answer| **answer >= self.present.base).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const BASE: usize = 2;

    /// A sample that the learned class scores so much higher than the best base class.
    fn sample(class: u32, margin: f32) -> ScoredSample {
        let [first, second] = if class == 1 { [-1.0, 0.0] } else { [0.0, -1.0] };
        ScoredSample { class, scores: vec![first, second, margin] }
    }

    fn samples() -> (Vec<ScoredSample>, Vec<ScoredSample>) {
        let base = (0..40).map(|index| sample(index % 2, -0.9 + 0.02 * index as f32)).collect();
        (base, (0..10).map(|index| sample(2, 0.2 - 0.06 * index as f32)).collect())
    }

    #[test]
    fn the_more_a_balance_favours_learned_classes_the_more_it_recognises_and_mistakes() {
        let (base, learned) = samples();
        let present = PresentBorder { base: BASE, count: BASE + 1, balance: Balance::Balanced, shift: 0.1 };
        let [keep, balanced, favour] = BalanceSamples::of(&base, &learned, present).estimates()[..] else {
            panic!("one for each balance")
        };
        assert_eq!([keep, balanced, favour].map(|one| one.balance), Balance::ALL);
        assert_eq!([keep, balanced, favour].map(|one| (one.shots, one.base_samples)), [(10, 40); 3]);
        assert!(keep.recognised <= balanced.recognised && balanced.recognised <= favour.recognised);
        assert!(keep.recognised < favour.recognised, "{keep:?} {favour:?}");
        assert!(keep.taken_for_learned <= favour.taken_for_learned, "{keep:?} {favour:?}");
        // The present balance answers with the border that it has: of shots with margins 0.2, 0.14 ... five win.
        assert_eq!(balanced.recognised, learned.iter().filter(|shot| shot.scores[2] + 0.1 > 0.0).count());
    }

    #[test]
    fn nothing_is_estimated_without_samples_of_both_sides() {
        let (base, learned) = samples();
        let present = PresentBorder { base: BASE, count: BASE + 1, balance: Balance::Balanced, shift: 0.0 };
        assert!(BalanceSamples::of(&base, &[], present).estimates().is_empty());
        assert!(BalanceSamples::of(&[], &learned, present).estimates().is_empty());
    }
}

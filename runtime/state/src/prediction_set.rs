//! The fewest labels that hold the right one with a chosen probability: split conformal prediction (Vovk et al. 2005;
//! Angelopoulos and Bates, *A gentle introduction to conformal prediction*, 2021).
//!
//! Of samples whose class is known - those that the bundle set aside, and the device's shots, each left out of its own
//! class - the probability of the right class is computed. A label is in a picture's set if its probability is at least
//! the one that all but a chosen share of the samples reach, with the correction for a finite number of samples.
//! Base classes and learned ones have a threshold each, so that the promise holds for both (Mondrian conformal
//! prediction).
//!
//! Samples that the bundle set aside are easier than pictures to come, which are recognised less often by a ratio that
//! the bundle brings. So the right class's score is lowered on all of these alike, by as much as it takes to recognise
//! that share of them. A device's shots of base classes are pictures to come themselves.

use alloc::vec::Vec;

use crate::answer::{AnsweredClasses, ScoredSample, softmax};
use crate::ranked::{ClassValue, RankedValues};

/// The probability with which a set holds the right label.
pub const COVERAGE: f32 = 0.9;

/// Probabilities of the right class, of samples whose class is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RightProbabilities {
    all: RankedValues,
    base: RankedValues,
    learned: RankedValues,
    /// Of learned classes where no base class is answered.
    learned_only: RankedValues,
}

/// Least probabilities with which a label is in a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetThresholds {
    /// For base classes.
    pub base: f32,
    /// For learned classes.
    pub learned: f32,
    /// For learned classes where no base class is answered; `None` where too few shots support any.
    pub learned_only: Option<f32>,
}

/// How the scores of samples become probabilities that stand for pictures to come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbabilityScale {
    /// Number of base classes.
    pub(crate) base: usize,
    /// What scores are divided by before the softmax.
    pub(crate) temperature: f32,
    /// Accuracy on pictures of base classes to come, as a multiple of that on samples set aside.
    pub(crate) ratio: f32,
}

impl ProbabilityScale {
    /// The probability of a sample's class among those from index `first` on, its score less `lowered`.
    fn right(&self, sample: &ScoredSample, first: usize, lowered: f32) -> ClassValue {
        let (mut scores, own) = (sample.scores[first..].to_vec(), sample.class as usize - first);
        scores[own] -= lowered;
        softmax(&mut scores, self.temperature);
        ClassValue { class: sample.class, value: scores[own] }
    }

    /// Those of samples of base classes, as of pictures to come.
    fn of_base(&self, samples: &[ScoredSample]) -> Vec<ClassValue> {
        let easier = samples.iter().filter(|sample| sample.is_set_aside);
        let leads: Vec<ClassValue> =
            easier.map(|sample| ClassValue { class: sample.class, value: lead(sample) }).collect();
        let leads = RankedValues::of(&leads);
        let right = self.ratio * (1.0 - leads.share_below(0.0));
        let lowered = if leads.len() > 0 { leads.threshold(1.0 - right).max(0.0) } else { 0.0 };
        let base = samples.iter().filter(|sample| (sample.class as usize) < self.base);
        base.map(|sample| self.right(sample, 0, if sample.is_set_aside { lowered } else { 0.0 })).collect()
    }
}

/// By how much the score of a sample's class is ahead of all others'; below 0 where another one is ahead.
fn lead(sample: &ScoredSample) -> f32 {
    let (before, rest) = sample.scores.split_at(sample.class as usize);
    rest[0] - before.iter().chain(&rest[1..]).copied().fold(f32::MIN, f32::max)
}

impl RightProbabilities {
    /// Computes them for samples of base classes and for shots of learned ones; scores have the border among them.
    pub(crate) fn of(samples: &[ScoredSample], shots: &[ScoredSample], scale: ProbabilityScale) -> Self {
        let base = scale.of_base(samples);
        let of_shots = |first: usize| shots.iter().map(|sample| scale.right(sample, first, 0.0)).collect::<Vec<_>>();
        let learned = of_shots(0);
        let all: Vec<ClassValue> = base.iter().chain(&learned).copied().collect();
        Self {
            all: RankedValues::of(&all),
            base: RankedValues::of(&base),
            learned: RankedValues::of(&learned),
            learned_only: RankedValues::of(&of_shots(scale.base)),
        }
    }

    /// Thresholds by which sets hold the right label with a probability of `coverage`, 0..1. Where a side has too few
    /// samples to tell, all of them together do. Where learned classes alone are answered, probabilities among all
    /// classes say nothing: without enough shots there is no threshold.
    pub(crate) fn thresholds(&self, coverage: f32) -> SetThresholds {
        let all = conformal(&self.all, coverage).unwrap_or(0.0);
        let of = |side: &RankedValues| conformal(side, coverage).unwrap_or(all);
        let learned_only = conformal(&self.learned_only, coverage);
        SetThresholds { base: of(&self.base), learned: of(&self.learned), learned_only }
    }
}

/// The floor((1 - coverage) (n + 1))-th smallest of n probabilities, classes counting alike; none where that is 0. It
/// is the quantile of split conformal prediction (Angelopoulos and Bates 2021, section 1) for the score 1 -
/// probability.
fn conformal(right: &RankedValues, coverage: f32) -> Option<f32> {
    let count = right.len() as f32;
    let below = ((1.0 - coverage) * (count + 1.0) - 1.0) / count;
    // Shares add up with rounding.
    (count > 0.0 && below > -1e-6).then(|| right.threshold(below.max(0.0) + 1e-6))
}

impl SetThresholds {
    /// The threshold of a class, if it has one; `base` is the number of base classes.
    pub fn of_class(&self, class: usize, base: usize, answered: AnsweredClasses) -> Option<f32> {
        match answered {
            AnsweredClasses::Learned => self.learned_only,
            AnsweredClasses::All if class < base => Some(self.base),
            AnsweredClasses::All => Some(self.learned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(count: usize) -> RankedValues {
        let sample = |sample: usize| ClassValue { class: sample as u32, value: sample as f32 / 100.0 };
        RankedValues::of(&(0..count).map(sample).collect::<Vec<_>>())
    }

    #[test]
    fn the_threshold_is_the_right_order_statistic() {
        // floor(0.1 * 20) = 2, the second smallest of 19; with nine the smallest, with eight none.
        assert_eq!(conformal(&ranked(19), 0.9), Some(0.01));
        assert_eq!(conformal(&ranked(9), 0.9), Some(0.0));
        assert_eq!(conformal(&ranked(8), 0.9), None);
        assert_eq!(conformal(&ranked(0), 0.9), None);
    }

    /// Eight left-out shots support no threshold, nine do: 90 % of ten.
    #[test]
    fn among_learned_classes_alone_too_few_shots_support_no_set() {
        let sample = |class| ScoredSample { class, is_set_aside: class < 2, scores: [1.0, 0.0, 2.0, 0.0].to_vec() };
        let scale = ProbabilityScale { base: 2, temperature: 1.0, ratio: 1.0 };
        let thresholds = |shots: usize| {
            let samples: Vec<ScoredSample> = (0..40).map(|number| sample(number % 2)).collect();
            RightProbabilities::of(&samples, &alloc::vec![sample(2); shots], scale).thresholds(COVERAGE)
        };
        assert_eq!([0, 3, 8].map(|shots| thresholds(shots).learned_only), [None; 3]);
        let of_lead = |lead: f32| 1.0 / (1.0 + orco_core::math::exp(-lead));
        assert!((thresholds(9).learned_only.unwrap() - of_lead(2.0)).abs() < 1e-5, "{:?}", thresholds(9));
        assert_eq!(thresholds(0).learned, thresholds(0).base, "all samples together, among all classes");
    }

    #[test]
    fn samples_are_made_as_hard_as_pictures_to_come() {
        // Leads of 1, 2 ... 20 over the other class. Of pictures to come 62 % are recognised: the eighth loses its
        // lead of 8, so that the second smallest is one of -6.
        let sample =
            |lead: usize, is_set_aside| ScoredSample { class: 0, is_set_aside, scores: [lead as f32, 0.0].to_vec() };
        let of = |is_set_aside| (1..=20).map(|lead| sample(lead, is_set_aside)).collect::<Vec<_>>();
        let scale = |ratio| ProbabilityScale { base: 1, temperature: 1.0, ratio };
        let base = |ratio| RightProbabilities::of(&of(true), &[], scale(ratio)).thresholds(COVERAGE).base;
        let of_lead = |lead: f32| 1.0 / (1.0 + orco_core::math::exp(-lead));
        assert!((base(0.62) - of_lead(-6.0)).abs() < 1e-5, "{}", base(0.62));
        assert_eq!(lead(&sample(3, true)), 3.0);
        // The device's own shots are such pictures, beside samples set aside or alone.
        let shots = scale(0.62).of_base(&of(false));
        assert_eq!(shots, scale(1.0).of_base(&of(false)));
        assert_eq!(scale(0.62).of_base(&[of(true), of(false)].concat())[20..], shots);
    }
}

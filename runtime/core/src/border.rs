//! Where the border between known classes and new ones lies: one number, added to the scores of all new classes.
//!
//! A backbone that was trained on the base classes pulls pictures of other things towards them, and a class mean of
//! five shots errs more than one of hundreds; one constant makes up for both (calibrated stacking, Chao et al., ECCV
//! 2016). It is chosen from samples whose class is known and that no score was made from: base samples set aside, and
//! shots left out of their class's mean in turn.
//!
//! ```
//! use orco_core::border::{Sample, choose};
//!
//! let sample = |lead, right, share| Sample { lead, right, share };
//! // Two samples of base classes, and two shots that lose by 0.2 and 0.6 to a base class.
//! let mut known = [sample(-2.0, true, 0.5), sample(-1.0, true, 0.5)];
//! let mut new = [sample(-0.2, true, 0.5), sample(-0.6, true, 0.5)];
//! let border = choose(&mut known, &mut new, 0.75);
//! assert!((0.6..1.0).contains(&border.shift));
//! assert_eq!((border.base, border.new), (1.0, 1.0));
//! ```

use serde::{Deserialize, Serialize};

/// What a sample of a known class says about the border.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The highest score of a new class less the highest one of a base class.
    pub lead: f32,
    /// Whether the best class of the sample's own side is its class.
    pub right: bool,
    /// Its share in the accuracy of its side; those of a side add up to 1.
    pub share: f32,
}

/// The border, with the accuracies that the samples promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Border {
    /// What is added to the scores of new classes.
    pub shift: f32,
    /// Accuracy on base classes to be expected, 0..1.
    pub base: f32,
    /// Accuracy on new classes to be expected, 0..1.
    pub new: f32,
}

/// The border with the highest harmonic mean of both sides' accuracies, in which base classes weigh `weight`, 0..1, and
/// new ones the rest; in the middle of all that are as good. Sorts the samples.
///
/// Without samples on one of the sides there is nothing to be chosen, and the border lies at 0.
pub fn choose(base: &mut [Sample], new: &mut [Sample], weight: f32) -> Border {
    if base.is_empty() || new.is_empty() {
        return at(base, new, 0.0);
    }
    // As the shift grows, samples go over to the new side one by one, those with the highest lead first.
    let highest_first = |a: &Sample, b: &Sample| b.lead.total_cmp(&a.lead);
    base.sort_unstable_by(highest_first);
    new.sort_unstable_by(highest_first);
    let right = |samples: &[Sample]| samples.iter().filter(|sample| sample.right).map(|sample| sample.share).sum();
    let (mut accuracy, mut found) = ([right(base), 0.0f32], 0.0f32);
    let (mut best, mut from, mut to) = (-1.0, 0.0, 0.0);
    let (mut i, mut j) = (0, 0);
    let mut open = false;
    loop {
        let value = harmonic(accuracy[0], found, weight);
        let next = match (base.get(i), new.get(j)) {
            (None, None) => None,
            (Some(a), Some(b)) => Some(a.lead.max(b.lead)),
            (Some(one), None) | (None, Some(one)) => Some(one.lead),
        };
        let start = if i + j == 0 { None } else { Some(passed(base, new, i, j)) };
        // The shifts between the last sample that went over and the next one.
        let low = start.unwrap_or_else(|| -next.unwrap_or(0.0) - OUTSIDE);
        let high = next.map_or(low + OUTSIDE, |lead| -lead);
        if value > best + TIE {
            (best, from, to, open) = (value, low, high, true);
        } else if open && value >= best - TIE {
            to = high;
        } else {
            open = false;
        }
        let Some(lead) = next else { break };
        while let Some(sample) = base.get(i).filter(|sample| sample.lead >= lead) {
            accuracy[0] -= if sample.right { sample.share } else { 0.0 };
            i += 1;
        }
        while let Some(sample) = new.get(j).filter(|sample| sample.lead >= lead) {
            found += if sample.right { sample.share } else { 0.0 };
            j += 1;
        }
    }
    at(base, new, (from + to) / 2.0)
}

/// How far beyond the last sample a border lies that no sample bounds.
const OUTSIDE: f32 = 0.2;
/// Shares add up with rounding errors.
const TIE: f32 = 1e-5;

/// Lead of the sample that went over last, as the shift at which it did.
fn passed(base: &[Sample], new: &[Sample], i: usize, j: usize) -> f32 {
    let lead = |samples: &[Sample], count: usize| count.checked_sub(1).map_or(f32::MAX, |last| samples[last].lead);
    -lead(base, i).min(lead(new, j))
}

/// The accuracies that a shift gives.
pub fn at(base: &[Sample], new: &[Sample], shift: f32) -> Border {
    let accuracy = |samples: &[Sample], over: bool| -> f32 {
        let own = |sample: &&Sample| sample.right && (sample.lead + shift > 0.0) == over;
        // From 0 on, since the sum of nothing is -0.
        let sum = samples.iter().filter(own).fold(0.0, |sum, sample| sum + sample.share);
        sum.min(1.0)
    };
    Border { shift, base: accuracy(base, false), new: accuracy(new, true) }
}

fn harmonic(base: f32, new: f32, weight: f32) -> f32 {
    const LEAST: f32 = 1e-6;
    1.0 / (weight / base.max(LEAST) + (1.0 - weight) / new.max(LEAST))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn samples(leads: &[(f32, bool)]) -> Vec<Sample> {
        let share = 1.0 / leads.len() as f32;
        leads.iter().map(|&(lead, right)| Sample { lead, right, share }).collect()
    }

    #[test]
    fn the_weight_moves_the_border() {
        let base: Vec<(f32, bool)> = (0..10).map(|i| (-0.05 - 0.1 * i as f32, true)).collect();
        let new: Vec<(f32, bool)> = (0..10).map(|i| (0.5 - 0.1 * i as f32, true)).collect();
        let shift = |weight| choose(&mut samples(&base), &mut samples(&new), weight).shift;
        assert!(shift(0.9) < shift(0.5) && shift(0.5) < shift(0.1), "{} {}", shift(0.9), shift(0.5));
    }

    #[test]
    fn without_samples_nothing_moves() {
        let base = samples(&[(-1.0, true), (0.5, true)]);
        let border = choose(&mut base.clone(), &mut [], 0.5);
        assert_eq!((border.shift, border.base, border.new), (0.0, 0.5, 0.0));
        assert_eq!(choose(&mut [], &mut [], 0.5), Border::default());
    }

    proptest! {
        #[test]
        fn no_other_shift_is_better(
            base in prop::collection::vec((-30i8..30, any::<bool>()), 1..20),
            new in prop::collection::vec((-30i8..30, any::<bool>()), 1..20),
            weight in 0.1f32..0.9,
        ) {
            let leads = |of: &[(i8, bool)]| -> Vec<_> {
                of.iter().map(|(lead, right)| (f32::from(*lead) / 8.0, *right)).collect()
            };
            let (mut base, mut new) = (samples(&leads(&base)), samples(&leads(&new)));
            let border = choose(&mut base, &mut new, weight);
            let value = |border: Border| harmonic(border.base, border.new, weight);
            for step in -200..200 {
                let other = at(&base, &new, step as f32 / 40.0 + 0.003);
                prop_assert!(value(other) <= value(border) + 1e-4, "{other:?} beats {border:?}");
            }
        }
    }
}

//! Where the border between base classes and learned ones lies: one number, added to the scores of all learned classes.
//!
//! A backbone that was trained on the base classes pulls pictures of other things towards them, and a class mean of
//! five shots errs more than one of hundreds; one constant makes up for both (calibrated stacking, Chao et al., ECCV
//! 2016). It is chosen from samples whose class is known and that no score was made from: base samples set aside, and
//! shots left out of their class's mean in turn.
//!
//! Counted one by one, single samples would decide where it lies. So each counts on both sides of its lead as much as a
//! kernel gives it, whose width follows the normal reference rule (Silverman, *Density Estimation*, 1986, section 3.4).
//!
//! ```
//! use orco_core::border::{BorderObjective, BorderSample, choose};
//!
//! let sample = |lead, right, share| BorderSample { lead, right, share };
//! // Two samples of base classes, and two shots that lose by 0.2 and 0.6 to a base class.
//! let base = [sample(-2.0, true, 0.5), sample(-1.0, true, 0.5)];
//! let new = [sample(-0.2, true, 0.5), sample(-0.6, true, 0.5)];
//! let border = choose(&base, &new, &BorderObjective { weights: &[0.75], share: 0.5, least: 0.0 });
//! assert!((0.6..1.0).contains(&border.shift));
//! assert_eq!((border.base, border.new), (1.0, 1.0));
//! ```

use core::array::from_fn;

use serde::{Deserialize, Serialize};

use crate::math::{exp, ln, sqrt};

/// What a sample whose class is known says about the border.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BorderSample {
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

impl Border {
    /// Expected accuracy over all classes, 0..1; `share` is the fraction that are base classes.
    pub fn overall(&self, share: f32) -> f32 {
        share * self.base + (1.0 - share) * self.new
    }
}

/// What a border is chosen for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BorderObjective<'a> {
    /// Weights of the accuracy on base classes in the harmonic mean of both sides' accuracies, 0..1 and ascending; new
    /// classes have the rest. The first counts, and a heavier one only where it takes that to reach `least`.
    pub weights: &'a [f32],
    /// Fraction of all classes that are base classes, 0..1.
    pub share: f32,
    /// Accuracy over all classes that should be reached, 0..1.
    pub least: f32,
}

/// Chooses the border by the weighted harmonic mean of both sides' accuracies.
///
/// Tries the weights in order. For each, it takes the middle of the shifts with the highest mean. Returns the first border
/// whose expected accuracy over all classes reaches [`BorderObjective::least`], else the one that expects most.
///
/// Without samples on one of the sides, the border is 0.
pub fn choose(base: &[BorderSample], new: &[BorderSample], aim: &BorderObjective<'_>) -> Border {
    if base.is_empty() || new.is_empty() {
        return at(base, new, 0.0);
    }
    let curve = curve(base, new);
    let mut best: Option<Border> = None;
    for &weight in aim.weights {
        let border = at(base, new, highest(&curve, weight));
        if best.is_none_or(|best| border.overall(aim.share) > best.overall(aim.share) + TIE) {
            best = Some(border);
        }
        if border.overall(aim.share) >= aim.least - TIE {
            return border;
        }
    }
    best.unwrap_or_else(|| at(base, new, 0.0))
}

/// Shifts at which the accuracies are looked at, from where nothing is new to where everything is.
const STEPS: usize = 256;
/// How far beyond the last sample a border lies that no sample bounds.
const OUTSIDE: f32 = 0.2;
/// Shares add up with rounding errors.
const TIE: f32 = 1e-5;

/// A shift, with the accuracies that the samples' kernels give.
#[derive(Clone, Copy, Debug)]
struct CurvePoint {
    shift: f32,
    base: f32,
    new: f32,
}

fn curve(base: &[BorderSample], new: &[BorderSample]) -> [CurvePoint; STEPS + 1] {
    let widths = [width(base), width(new)];
    let (mut low, mut high) = (f32::MAX, f32::MIN);
    for (samples, width) in [base, new].into_iter().zip(widths) {
        for sample in samples {
            low = low.min(-sample.lead - width);
            high = high.max(-sample.lead + width);
        }
    }
    let (low, length) = (low - OUTSIDE, high - low + 2.0 * OUTSIDE);
    from_fn(|step| {
        let shift = low + length * step as f32 / STEPS as f32;
        // How much of a sample lies beyond the border, and what is left of it before.
        let over = |sample: &BorderSample, width: f32| sample.share * ramp((sample.lead + shift) / width);
        let right = |samples: &[BorderSample], width| -> f32 {
            samples.iter().filter(|sample| sample.right).map(|sample| over(sample, width)).sum()
        };
        let all: f32 = base.iter().filter(|sample| sample.right).map(|sample| sample.share).sum();
        CurvePoint { shift, base: all - right(base, widths[0]), new: right(new, widths[1]) }
    })
}

/// Half the width of the kernel by which samples of a side count: by Silverman's rule for Epanechnikov's kernel, from
/// the deviation of the leads of those that are right.
fn width(samples: &[BorderSample]) -> f32 {
    const REFERENCE: f32 = 2.34;
    const NARROWEST: f32 = 1e-3;
    let sum = |of: &dyn Fn(&BorderSample) -> f32| -> f32 { samples.iter().filter(|sample| sample.right).map(of).sum() };
    let shares = sum(&|sample| sample.share).max(f32::MIN_POSITIVE);
    let mean = sum(&|sample| sample.share * sample.lead) / shares;
    let variance = sum(&|sample| sample.share * (sample.lead - mean) * (sample.lead - mean)) / shares;
    let count = shares * shares / sum(&|sample| sample.share * sample.share).max(f32::MIN_POSITIVE);
    (REFERENCE * sqrt(variance) * exp(-0.2 * ln(count.max(1.0)))).max(NARROWEST)
}

/// Epanechnikov's kernel, summed up to here: from 0 at -1 to 1 at 1.
fn ramp(x: f32) -> f32 {
    let x = x.clamp(-1.0, 1.0);
    0.25 * (2.0 + x * (3.0 - x * x))
}

/// The middle of the shifts with the highest harmonic mean.
fn highest(curve: &[CurvePoint], weight: f32) -> f32 {
    let value = |point: &CurvePoint| harmonic(point.base, point.new, weight);
    let most = curve.iter().map(value).fold(0.0, f32::max);
    let as_good = |point: &&CurvePoint| value(point) >= most * (1.0 - TIE);
    let mut best = curve.iter().skip_while(|point| !as_good(point)).take_while(as_good).map(|point| point.shift);
    let first = best.next().unwrap_or(0.0);
    (first + best.last().unwrap_or(first)) / 2.0
}

/// The accuracies that a shift gives.
pub fn at(base: &[BorderSample], new: &[BorderSample], shift: f32) -> Border {
    let accuracy = |samples: &[BorderSample], over: bool| -> f32 {
        let own = |sample: &&BorderSample| sample.right && (sample.lead + shift > 0.0) == over;
        // From 0 on, since the sum of nothing is -0.
        let sum = samples.iter().filter(own).fold(0.0, |sum, sample| sum + sample.share);
        sum.min(1.0)
    };
    Border { shift, base: accuracy(base, false), new: accuracy(new, true) }
}

fn harmonic(base: f32, new: f32, weight: f32) -> f32 {
    const LEAST: f32 = 1e-3;
    1.0 / (weight / base.max(LEAST) + (1.0 - weight) / new.max(LEAST))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn samples(leads: &[(f32, bool)]) -> Vec<BorderSample> {
        let share = 1.0 / leads.len() as f32;
        leads.iter().map(|&(lead, right)| BorderSample { lead, right, share }).collect()
    }

    fn aim(weights: &[f32]) -> BorderObjective<'_> {
        BorderObjective { weights, share: 0.5, least: 0.0 }
    }

    /// Ten samples of base classes and ten shots, whose leads overlap.
    fn overlapping() -> [Vec<BorderSample>; 2] {
        let base: Vec<(f32, bool)> = (0..10).map(|i| (-0.05 - 0.1 * i as f32, true)).collect();
        let new: Vec<(f32, bool)> = (0..10).map(|i| (0.5 - 0.1 * i as f32, true)).collect();
        [samples(&base), samples(&new)]
    }

    #[test]
    fn the_weight_moves_the_border() {
        let [base, new] = overlapping();
        let shift = |weight| choose(&base, &new, &aim(&[weight])).shift;
        assert!(shift(0.9) < shift(0.5) && shift(0.5) < shift(0.1), "{} {}", shift(0.9), shift(0.5));
    }

    #[test]
    fn a_heavier_weight_is_taken_only_where_the_aim_needs_it() {
        let [base, new] = overlapping();
        let weights = [0.5, 0.65, 0.8];
        let each = weights.map(|weight| choose(&base, &new, &aim(&[weight])));
        let share = 0.9;
        let overall = each.map(|border| border.overall(share));
        assert!(overall[0] < overall[1] && overall[1] < overall[2], "{overall:?}");
        let border = |least| choose(&base, &new, &BorderObjective { weights: &weights, share, least });
        assert_eq!(border(0.0), each[0]);
        assert_eq!(border(overall[0]), each[0]);
        assert_eq!(border(overall[1]), each[1]);
        assert_eq!(border(overall[2]), each[2]);
        assert_eq!(border(1.0), each[2], "what cannot be reached is neared");
    }

    #[test]
    fn without_samples_nothing_moves() {
        let base = samples(&[(-1.0, true), (0.5, true)]);
        let border = choose(&base, &[], &aim(&[0.5]));
        assert_eq!((border.shift, border.base, border.new), (0.0, 0.5, 0.0));
        assert_eq!(choose(&[], &[], &aim(&[0.5])), Border::default());
    }

    #[test]
    fn a_single_sample_of_each_side_is_told_apart() {
        let border = choose(&samples(&[(-3.0, true)]), &samples(&[(-1.0, true)]), &aim(&[0.75]));
        assert_eq!((border.base, border.new), (1.0, 1.0));
        assert!((border.shift - 2.0).abs() < 0.1, "in the middle: {}", border.shift);
    }

    #[test]
    fn where_no_shot_is_right_nothing_of_the_base_classes_is_given_up() {
        let border = choose(&samples(&[(-3.0, true), (0.5, true)]), &samples(&[(-1.0, false)]), &aim(&[0.75]));
        assert_eq!((border.base, border.new), (1.0, 0.0));
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
            let (base, new) = (samples(&leads(&base)), samples(&leads(&new)));
            let border = choose(&base, &new, &aim(&[weight]));
            let curve = curve(&base, &new);
            let value = |point: &CurvePoint| harmonic(point.base, point.new, weight);
            let distance = |point: &CurvePoint| (point.shift - border.shift).abs();
            let nearest = |a: &&CurvePoint, b: &&CurvePoint| distance(a).total_cmp(&distance(b));
            let chosen = value(curve.iter().min_by(nearest).unwrap());
            for point in &curve {
                prop_assert!(value(point) <= chosen + 1e-4, "{point:?} beats {border:?}");
            }
        }

        #[test]
        fn kernels_keep_the_number_of_samples(
            leads in prop::collection::vec((-30i8..30, any::<bool>()), 1..20),
        ) {
            let leads: Vec<_> = leads.iter().map(|(lead, right)| (f32::from(*lead) / 8.0, *right)).collect();
            let all = samples(&leads);
            let right = at(&all, &all, f32::MIN).base;
            let curve = curve(&all, &all);
            let [first, last] = [&curve[0], &curve[STEPS]];
            prop_assert!((first.base - right).abs() < 1e-4 && first.new.abs() < 1e-4, "{first:?}");
            prop_assert!(last.base.abs() < 1e-4 && (last.new - right).abs() < 1e-4, "{last:?}");
        }
    }
}

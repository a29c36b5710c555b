//! Where the border between base classes and learned ones lies: one number, added to the scores of all learned classes.
//!
//! A backbone that was trained on the base classes pulls pictures of other things towards them, and a class mean of
//! five shots errs more than one of hundreds; one constant makes up for both (calibrated stacking, Chao et al., ECCV
//! 2016). It is chosen from samples whose class is known and that no score was made from: base samples set aside, and
//! shots left out of their class's mean in turn.
//!
//! Counted one by one, single samples would decide where it lies. So each base sample counts on both sides of its
//! margin as much as a kernel gives it, whose width follows the normal reference rule (Silverman, *Density Estimation*,
//! 1986, section 3.4). Of learned classes there are few shots: their margins are modelled as normally distributed.
//!
//! ```
//! use orco_core::border::{BorderObjective, BorderSample, BorderWeights, choose};
//!
//! let sample = |margin| BorderSample { margin, right: true, weight: 0.1 };
//! // Ten samples of base classes, and ten shots, most of which lose to a base class.
//! let base: Vec<_> = (0..10).map(|i| sample(-1.6 - 0.1 * i as f32)).collect();
//! let learned: Vec<_> = (0..10).map(|i| sample(0.1 - 0.1 * i as f32)).collect();
//! let weights = BorderWeights { base: 0.5, harmonic: &[1.0] };
//! let border = choose(&base, &learned, &BorderObjective { weights, base_fraction: 0.5, min_accuracy: 0.0 });
//! assert!((0.8..1.6).contains(&border.shift));
//! assert!(border.base > 0.95 && border.learned > 0.95);
//! ```

use core::array::from_fn;

use serde::{Deserialize, Serialize};

use crate::math::{exp, ln, normal_cdf, sqrt};

/// What a sample whose class is known says about the border.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BorderSample {
    /// The highest score of a learned class less the highest one of a base class.
    pub margin: f32,
    /// Whether the best class of the sample's own side is its class.
    pub right: bool,
    /// What the sample adds to the accuracy of its side if it is recognised. The weights of a side sum to 1 at most,
    /// and to less where its samples are easier than new pictures.
    pub weight: f32,
}

/// The border, with the accuracies that the samples promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Border {
    /// What is added to the scores of learned classes.
    pub shift: f32,
    /// Accuracy on base classes to be expected, 0..1.
    pub base: f32,
    /// Accuracy on learned classes to be expected, 0..1.
    pub learned: f32,
}

impl Border {
    /// Expected accuracy over all classes, 0..1; `base_fraction` is the fraction of them that are base classes.
    pub fn overall(&self, base_fraction: f32) -> f32 {
        base_fraction * self.base + (1.0 - base_fraction) * self.learned
    }
}

/// Weights of the border objective h HM + (1 - h) A: HM = 1 / (w / A_base + (1 - w) / A_inc) is the weighted harmonic
/// mean, A = c A_base + (1 - c) A_inc the accuracy over all classes, of which the fraction c are base classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BorderWeights<'a> {
    /// w: weight of the accuracy on base classes in the harmonic mean, 0..1; learned classes have the rest.
    pub base: f32,
    /// h: weights of the harmonic mean in the objective, 0..1, in descending order; the accuracy over all classes has
    /// the rest. The first is used unless it misses [`BorderObjective::min_accuracy`]; then the next ones are tried.
    pub harmonic: &'a [f32],
}

/// What a border is chosen by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BorderObjective<'a> {
    /// Weights of both accuracies.
    pub weights: BorderWeights<'a>,
    /// c: fraction of all classes that are base classes, 0..1.
    pub base_fraction: f32,
    /// Accuracy over all classes that should be reached, 0..1.
    pub min_accuracy: f32,
}

impl BorderObjective<'_> {
    fn value(&self, border: &Border, harmonic_weight: f32) -> f32 {
        let mean = harmonic(border.base, border.learned, self.weights.base);
        harmonic_weight * mean + (1.0 - harmonic_weight) * border.overall(self.base_fraction)
    }
}

/// Chooses the border with the highest objective ([`BorderWeights`]).
///
/// Tries the weights of the harmonic mean in order. For each, it takes the middle of the shifts with the highest value.
/// Returns the first border whose expected accuracy over all classes reaches [`BorderObjective::min_accuracy`], else
/// the one that expects most.
///
/// Without samples on one of the sides, the border is 0.
pub fn choose(base: &[BorderSample], learned: &[BorderSample], objective: &BorderObjective<'_>) -> Border {
    if base.is_empty() || learned.is_empty() {
        return expected(base, learned, 0.0);
    }
    let expectation = Expectation::of(base, learned);
    let curve = expectation.curve(learned);
    let overall = |border: &Border| border.overall(objective.base_fraction);
    let mut best: Option<Border> = None;
    for &weight in objective.weights.harmonic {
        let border = expectation.at(middle_of_highest(&curve, |point| objective.value(point, weight)));
        if best.is_none_or(|best| overall(&border) > overall(&best) + TIE) {
            best = Some(border);
        }
        if overall(&border) >= objective.min_accuracy - TIE {
            return border;
        }
    }
    best.unwrap_or_else(|| expectation.at(0.0))
}

/// The accuracies to be expected where the border lies at a shift.
pub fn expected(base: &[BorderSample], learned: &[BorderSample], shift: f32) -> Border {
    Expectation::of(base, learned).at(shift)
}

/// Steps between the shifts at which accuracies are computed, from the shift at which every sample is answered with a
/// base class to the one at which every sample is answered with a learned class.
const STEPS: usize = 256;
/// How far the shifts reach beyond the outermost samples, in units of scores (each score has unit deviation over base
/// images before it is weighted).
const OUTSIDE: f32 = 0.2;
/// Weights add up with rounding errors.
const TIE: f32 = 1e-5;
/// Smallest deviation of margins, so that samples which are all alike do not make an infinitely sharp step.
const NARROWEST: f32 = 1e-3;

/// Margins of the samples of a side that are right.
#[derive(Clone, Copy, Debug)]
struct MarginSpread {
    /// Their weights together.
    weight: f32,
    mean: f32,
    deviation: f32,
    /// (sum w)^2 / sum w^2 (Kish 1965): as many samples of equal weight say as much.
    effective_sample_size: f32,
}

impl MarginSpread {
    fn of(samples: &[BorderSample]) -> Self {
        let sum = |of: &dyn Fn(&BorderSample) -> f32| -> f32 {
            // From 0 on, since the sum of nothing is -0.
            samples.iter().filter(|sample| sample.right).map(of).fold(0.0, |sum, value| sum + value)
        };
        let weight = sum(&|sample| sample.weight);
        let positive = weight.max(f32::MIN_POSITIVE);
        let mean = sum(&|sample| sample.weight * sample.margin) / positive;
        let variance = sum(&|sample| sample.weight * (sample.margin - mean) * (sample.margin - mean)) / positive;
        let squares = sum(&|sample| sample.weight * sample.weight).max(f32::MIN_POSITIVE);
        Self { weight, mean, deviation: sqrt(variance), effective_sample_size: weight * weight / squares }
    }

    /// Half the width h of the kernel by which samples count: h = 2.34 s n^(-1/5), the normal reference rule for
    /// Epanechnikov's kernel, with the deviation s of n samples.
    fn kernel_width(&self) -> f32 {
        const REFERENCE: f32 = 2.34;
        (REFERENCE * self.deviation * exp(-0.2 * ln(self.effective_sample_size.max(1.0)))).max(NARROWEST)
    }
}

/// Expected accuracies at any shift, by the samples of both sides.
struct Expectation<'a> {
    base: &'a [BorderSample],
    base_weight: f32,
    width: f32,
    learned: MarginSpread,
}

impl<'a> Expectation<'a> {
    fn of(base: &'a [BorderSample], learned: &[BorderSample]) -> Self {
        let spread = MarginSpread::of(base);
        Self { base, base_weight: spread.weight, width: spread.kernel_width(), learned: MarginSpread::of(learned) }
    }

    fn at(&self, shift: f32) -> Border {
        let Self { base, base_weight, width, learned } = self;
        // How much of a sample's kernel lies beyond the border.
        let over = |sample: &BorderSample| sample.weight * ramp((sample.margin + shift) / width);
        let lost = base.iter().filter(|sample| sample.right).map(over).fold(0.0, |sum, lost| sum + lost);
        let won = learned.weight * normal_cdf((learned.mean + shift) / learned.deviation.max(NARROWEST));
        Border { shift, base: (base_weight - lost).clamp(0.0, 1.0), learned: won.clamp(0.0, 1.0) }
    }

    /// The borders from where no sample is answered with a learned class to where every one is.
    fn curve(&self, learned: &[BorderSample]) -> [Border; STEPS + 1] {
        let (mut low, mut high) = (f32::MAX, f32::MIN);
        for (samples, width) in [(self.base, self.width), (learned, self.learned.deviation)] {
            for sample in samples {
                low = low.min(-sample.margin - width);
                high = high.max(-sample.margin + width);
            }
        }
        let (low, length) = (low - OUTSIDE, high - low + 2.0 * OUTSIDE);
        from_fn(|step| self.at(low + length * step as f32 / STEPS as f32))
    }
}

/// The integral of Epanechnikov's kernel up to x: from 0 at -1 to 1 at 1.
fn ramp(x: f32) -> f32 {
    let x = x.clamp(-1.0, 1.0);
    0.25 * (2.0 + x * (3.0 - x * x))
}

/// The middle of the shifts with the highest value.
fn middle_of_highest(curve: &[Border], value: impl Fn(&Border) -> f32) -> f32 {
    let most = curve.iter().map(&value).fold(0.0, f32::max);
    let as_good = |point: &&Border| value(point) >= most * (1.0 - TIE);
    let mut best = curve.iter().skip_while(|point| !as_good(point)).take_while(as_good).map(|point| point.shift);
    let first = best.next().unwrap_or(0.0);
    (first + best.last().unwrap_or(first)) / 2.0
}

/// Weighted harmonic mean 1 / (w / base + (1 - w) / learned); with w = 1/2 it is the field's HM. Where one
/// accuracy is 0, a floor under both lets the mean still rise with the other.
fn harmonic(base: f32, learned: f32, weight: f32) -> f32 {
    const LEAST: f32 = 1e-3;
    1.0 / (weight / base.max(LEAST) + (1.0 - weight) / learned.max(LEAST))
}

#[cfg(test)]
mod tests;

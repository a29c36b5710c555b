//! The border and the temperature, chosen from samples whose class is known.

use alloc::vec;
use alloc::vec::Vec;

use orco_core::border::{self, Border, BorderObjective, BorderSample};
use orco_core::loss::exponentiate;
use orco_core::math::{exp, highest};

use super::embed::share_of_view;
use crate::state::{Balance, Calibration};
use crate::target::argmax;

/// Most samples by which a temperature is chosen; more cost time and change nothing that matters.
const MAX_TEMPERATURE_SAMPLES: usize = 1000;

/// A class with its score for a sample, before the border is added.
#[derive(Clone, Copy, Debug)]
struct BestScore {
    class: usize,
    score: f32,
}

impl BestScore {
    /// The best of some classes, of which the first has this index.
    fn of(scores: &[f32], first: usize) -> Self {
        let best = argmax(scores);
        Self { class: first + best, score: scores[best] }
    }
}

/// The best base class and the best learned one for a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct BestPerSide {
    base: BestScore,
    learned: Option<BestScore>,
}

impl BestPerSide {
    pub(super) fn of(row: &[f32], base: usize) -> Self {
        let (of_base, of_learned) = row.split_at(base);
        let learned = (!of_learned.is_empty()).then(|| BestScore::of(of_learned, base));
        Self { base: BestScore::of(of_base, 0), learned }
    }

    /// For a sample of this learned class: how far the best learned class is ahead of the best base class, and whether
    /// it is the sample's.
    fn margin_of_learned(&self, class: usize) -> Option<(f32, bool)> {
        self.learned.map(|learned| (learned.score - self.base.score, learned.class == class))
    }

    /// The answer with a border of this shift; of equal scores, the base class.
    pub(super) fn answer(&self, shift: f32) -> usize {
        match self.learned {
            Some(learned) if learned.score + shift > self.base.score => learned.class,
            _ => self.base.class,
        }
    }
}

/// The margin of a view of a left-out shot.
#[derive(Clone, Copy, Debug)]
struct ViewMargin {
    /// Number of the shot among the samples.
    sample: usize,
    /// How far the best learned class is ahead of the best base class, without the border.
    margin: f32,
    /// Whether that learned class is the shot's.
    right: bool,
    /// The view's share of its shot's weight.
    fraction: f32,
}

/// Accuracies to be expected on learned classes, 0..1, by their left-out shots.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LeftOutAccuracy {
    /// If answers name all classes, with the border in use.
    pub among_all: f32,
    /// If answers name learned classes alone.
    pub among_learned: f32,
}

/// Scores of one of the samples by which the temperature is chosen.
struct TemperatureSample {
    /// Its number.
    sample: usize,
    scores: Vec<f32>,
}

/// Collects scores of samples whose class is known, and chooses border and temperature by them.
pub struct Calibrator<'a> {
    /// Class of every sample.
    classes: &'a [u32],
    base: usize,
    /// Number of classes.
    count: usize,
    /// Number of base classes that are replaced, and never answered.
    replaced: usize,
    /// Of each sample so far.
    best: Vec<BestPerSide>,
    /// Whether a sample is excluded: it changes neither border nor temperature.
    excluded: Vec<bool>,
    /// Views of shots. If there are any, they count in place of the shots.
    views: Vec<ViewMargin>,
    /// Number of samples that were set aside; these come first.
    set_aside: usize,
    /// Accuracy on unseen pictures over that on the samples set aside.
    ratio: f32,
    /// Evenly spread samples, by which the temperature is chosen.
    temperature_samples: Vec<TemperatureSample>,
}

impl<'a> Calibrator<'a> {
    /// Nothing collected yet. `classes` holds the class of each sample. There are `count` known classes, and the first
    /// `base` of them are base classes.
    pub fn new(classes: &'a [u32], base: usize, count: usize) -> Self {
        Self {
            classes,
            base,
            count,
            replaced: 0,
            best: Vec::new(),
            excluded: Vec::new(),
            views: Vec::new(),
            set_aside: 0,
            ratio: 1.0,
            temperature_samples: Vec::new(),
        }
    }

    /// Says how many base classes are replaced by learned ones, and so are never answered.
    #[must_use]
    pub fn with_replaced(self, replaced: usize) -> Self {
        Self { replaced, ..self }
    }

    /// Says that the first `set_aside` samples are easier than pictures to come: those are recognised `ratio` times as
    /// well ([`Statistics::accuracy_ratio`](crate::statistics::Statistics::accuracy_ratio)).
    #[must_use]
    pub fn with_accuracy_ratio(self, set_aside: usize, ratio: f32) -> Self {
        Self { set_aside, ratio, ..self }
    }

    /// Takes the next sample's scores, `[count]`, without a border.
    pub fn add(&mut self, row: &[f32]) {
        let sample = self.best.len();
        self.best.push(BestPerSide::of(row, self.base));
        self.excluded.push(false);
        if sample.is_multiple_of(self.classes.len().div_ceil(MAX_TEMPERATURE_SAMPLES)) {
            self.temperature_samples.push(TemperatureSample { sample, scores: row.to_vec() });
        }
    }

    /// Takes the scores of the next sample, as [`add`](Self::add) does, and excludes it.
    pub(super) fn add_excluded(&mut self, row: &[f32]) {
        self.best.push(BestPerSide::of(row, self.base));
        self.excluded.push(true);
    }

    /// Takes the scores `[views, count]` of the views of the last sample, a shot of a learned class: the clean one
    /// first, without a border. Where shots have views, the border is chosen by those alone.
    pub fn add_views(&mut self, rows: &[f32]) {
        let Some(sample) = self.best.len().checked_sub(1) else { return };
        let (class, views) = (self.classes[sample] as usize, rows.len() / self.count.max(1));
        let best = rows.chunks_exact(self.count).map(|row| BestPerSide::of(row, self.base));
        self.views.extend(best.enumerate().filter_map(|(view, best)| {
            let (margin, right) = best.margin_of_learned(class)?;
            Some(ViewMargin { sample, margin, right, fraction: share_of_view(view, views) })
        }));
    }

    /// Chooses the border by the weights of a balance, and the temperature. Lower weights of the harmonic mean are
    /// tried only until the expected accuracy over all classes reaches `min_accuracy`. `initial` is the shift without
    /// samples.
    pub fn choose(&mut self, balance: Balance, min_accuracy: f32, initial: f32) -> Calibration {
        let border = self.choose_border(balance, min_accuracy, initial);
        let base = self.base;
        self.temperature_samples.iter_mut().for_each(|row| add_border(&mut row.scores, base, border.shift));
        Calibration { border, temperature: self.temperature(&self.shares()) }
    }

    /// Chooses the border alone.
    pub(super) fn choose_border(&self, balance: Balance, min_accuracy: f32, initial: f32) -> Border {
        let [base, learned] = self.sides();
        if base.is_empty() || learned.is_empty() {
            return border::expected(&base, &learned, initial);
        }
        let (weights, base_fraction) = (balance.weights(), self.base_fraction());
        border::choose(&base, &learned, &BorderObjective { weights, base_fraction, min_accuracy })
    }

    /// Accuracy over all classes to be expected without a border, 0..1.
    pub fn accuracy(&self) -> f32 {
        let [base, learned] = self.sides();
        border::expected(&base, &learned, 0.0).overall(self.base_fraction())
    }

    /// Accuracies to be expected on the learned classes for which `is_wanted` holds, where the border has this shift;
    /// `None` where they have no sample.
    pub(super) fn left_out_accuracy(&self, is_wanted: &dyn Fn(usize) -> bool, shift: f32) -> Option<LeftOutAccuracy> {
        let learned = self.learned_side(is_wanted);
        // Among learned classes alone no border is in the way: the best of them is the answer.
        // From 0: the sum of nothing would be -0.
        let right = learned.iter().filter(|sample| sample.right).fold(0.0, |sum, sample| sum + sample.weight);
        (!learned.is_empty()).then(|| LeftOutAccuracy {
            among_all: border::expected(&[], &learned, shift).learned,
            among_learned: right.clamp(0.0, 1.0),
        })
    }

    /// Fraction of base classes among the classes that can be answered.
    fn base_fraction(&self) -> f32 {
        (self.base - self.replaced) as f32 / (self.count - self.replaced).max(1) as f32
    }

    /// Class of a sample.
    fn class_of(&self, sample: usize) -> usize {
        self.classes[sample] as usize
    }

    /// Whether a class is a base class.
    pub(super) fn is_base(&self, class: usize) -> bool {
        class < self.base
    }

    /// The samples that count, each with its class.
    pub(super) fn included(&self) -> impl Iterator<Item = (usize, &BestPerSide)> {
        let samples = self.classes.iter().zip(&self.best).zip(&self.excluded);
        samples.filter(|(_, excluded)| !**excluded).map(|((class, best), _)| (*class as usize, best))
    }

    /// Share of every sample in the accuracy of its side, in which all classes weigh the same; 0 for excluded samples.
    fn shares(&self) -> Vec<f32> {
        self.shares_of(&|sample| !self.excluded[sample])
    }

    /// As [`Self::shares`], for the samples for which `counts` holds; 0 for others.
    fn shares_of(&self, counts: &dyn Fn(usize) -> bool) -> Vec<f32> {
        let mut samples = vec![0.0f32; self.count];
        let classes = || self.classes[..self.best.len()].iter().map(|class| *class as usize).enumerate();
        classes().filter(|(sample, _)| counts(*sample)).for_each(|(_, class)| samples[class] += 1.0);
        let seen = |classes: &[f32]| classes.iter().filter(|count| **count > 0.0).count() as f32;
        let (base, learned) = samples.split_at(self.base);
        let sides = [seen(base), seen(learned)];
        let share = |(sample, class): (usize, usize)| {
            let side = sides[usize::from(class >= self.base)];
            if counts(sample) { 1.0 / (samples[class] * side) } else { 0.0 }
        };
        classes().map(share).collect()
    }

    /// Samples of base classes and of learned ones, without excluded ones.
    fn sides(&self) -> [Vec<BorderSample>; 2] {
        [self.base_side(), self.learned_side(&|_| true)]
    }

    /// Samples of base classes, without excluded ones.
    fn base_side(&self) -> Vec<BorderSample> {
        let shares = self.shares();
        let of_base = |&sample: &usize| !self.excluded[sample] && self.is_base(self.class_of(sample));
        let samples = (0..self.best.len()).filter(of_base).filter_map(|sample| {
            let BestPerSide { base, learned } = self.best[sample];
            let ratio = if sample < self.set_aside { self.ratio } else { 1.0 };
            let (margin, right) = (learned?.score - base.score, base.class == self.class_of(sample));
            Some(BorderSample { margin, right, weight: ratio * shares[sample] })
        });
        samples.collect()
    }

    /// Samples of the learned classes for which `is_wanted` holds, without excluded ones. Where shots have views, those
    /// alone.
    fn learned_side(&self, is_wanted: &dyn Fn(usize) -> bool) -> Vec<BorderSample> {
        let counts = |sample: usize| {
            let class = self.class_of(sample);
            !self.excluded[sample] && !self.is_base(class) && is_wanted(class)
        };
        if self.views.is_empty() { self.learned_shots(&counts) } else { self.learned_views(&counts) }
    }

    /// The shots of learned classes that count.
    fn learned_shots(&self, counts: &dyn Fn(usize) -> bool) -> Vec<BorderSample> {
        let shares = self.shares_of(counts);
        let samples = (0..self.best.len()).filter(|sample| counts(*sample)).filter_map(|sample| {
            let (margin, right) = self.best[sample].margin_of_learned(self.class_of(sample))?;
            Some(BorderSample { margin, right, weight: shares[sample] })
        });
        samples.collect()
    }

    /// The views of those shots of learned classes that count and have views.
    fn learned_views(&self, counts: &dyn Fn(usize) -> bool) -> Vec<BorderSample> {
        let mut has_views = vec![false; self.best.len()];
        self.views.iter().for_each(|view| has_views[view.sample] = counts(view.sample));
        let shares = self.shares_of(&|sample| has_views[sample]);
        let views = self.views.iter().filter(|view| has_views[view.sample]);
        let samples = views.map(|&ViewMargin { sample, margin, right, fraction }| BorderSample {
            margin,
            right,
            weight: shares[sample] * fraction,
        });
        samples.collect()
    }

    /// The temperature at which the softmax of the samples' scores gives their classes the highest likelihood
    /// (temperature scaling, Guo et al., ICML 2017), from 0.01 to 2.2 in steps of 12 percent.
    fn temperature(&self, shares: &[f32]) -> f32 {
        const STEPS: i32 = 48;
        if self.temperature_samples.is_empty() || self.count < 2 {
            return Calibration::TEMPERATURE;
        }
        // The loss is convex in 1 / temperature: where it rises from a step to the next, its valley lies before.
        let at = |step: i32| 0.01 * exp(0.115 * step as f32);
        let (mut low, mut high) = (0, STEPS - 1);
        while low < high {
            let middle = (low + high) / 2;
            if self.loss(at(middle), shares) <= self.loss(at(middle + 1), shares) {
                high = middle
            } else {
                low = middle + 1
            }
        }
        at(low)
    }

    /// Cross entropy of the softmax at a temperature.
    fn loss(&self, temperature: f32, shares: &[f32]) -> f32 {
        let mut divided = Vec::with_capacity(self.count);
        let each = self.temperature_samples.iter().map(|TemperatureSample { sample, scores }| {
            divided.clear();
            divided.extend(scores.iter().map(|score| score / temperature));
            let own = divided[self.classes[*sample] as usize];
            let (log_sum, _) = exponentiate(&mut divided);
            shares[*sample] * (log_sum - own)
        });
        each.sum()
    }
}

/// Adds the border's shift to the scores of learned classes.
pub(super) fn add_border(scores: &mut [f32], base: usize, shift: f32) {
    scores.iter_mut().skip(base).for_each(|score| *score += shift);
}

/// Turns scores into probabilities.
pub(crate) fn softmax(scores: &mut [f32], temperature: f32) {
    let highest = highest(scores);
    scores.iter_mut().for_each(|score| *score = exp((*score - highest) / temperature));
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
}

#[cfg(test)]
pub(super) mod tests;

//! The border and the temperature, chosen from samples whose class is known.

use alloc::vec;
use alloc::vec::Vec;

use orco_core::border::{self, BorderObjective, BorderSample};
use orco_core::math::{exp, highest, ln};

use crate::state::{Balance, Calibration};
use crate::target::argmax;

/// Most samples by which a temperature is chosen; more cost time and change nothing that matters.
const MAX_TEMPERATURE_SAMPLES: usize = 1000;

/// A class with its score for a sample, before the border is added.
#[derive(Clone, Copy, Debug)]
struct LeadingClass {
    class: usize,
    score: f32,
}

impl LeadingClass {
    /// The best of some classes, of which the first has this index.
    fn of(scores: &[f32], first: usize) -> Self {
        let best = argmax(scores);
        Self { class: first + best, score: scores[best] }
    }
}

/// The best base class and the best learned one for a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct BestScores {
    base: LeadingClass,
    learned: Option<LeadingClass>,
}

impl BestScores {
    pub(super) fn of(row: &[f32], base: usize) -> Self {
        let (known, new) = row.split_at(base);
        Self { base: LeadingClass::of(known, 0), learned: (!new.is_empty()).then(|| LeadingClass::of(new, base)) }
    }

    /// The class that a border makes the answer, the base class of equal ones.
    pub(super) fn answer(&self, border: f32) -> usize {
        match self.learned {
            Some(learned) if learned.score + border > self.base.score => learned.class,
            _ => self.base.class,
        }
    }
}

/// Scores of one of the samples by which the temperature is chosen.
struct TemperatureSample {
    /// Its number.
    sample: usize,
    scores: Vec<f32>,
}

/// Collects what samples say about the border and the temperature, by which both are chosen in every change.
pub struct Calibrator<'a> {
    /// Class of every sample.
    classes: &'a [u32],
    base: usize,
    /// Number of classes.
    count: usize,
    /// Of the samples so far.
    pub(super) leaders: Vec<BestScores>,
    /// Whether a sample is excluded, and counts for nothing.
    excluded: Vec<bool>,
    /// Evenly spread samples.
    rows: Vec<TemperatureSample>,
}

impl<'a> Calibrator<'a> {
    /// Nothing collected yet. Samples are of these classes, of `count` known ones, the first `base` of them base
    /// classes.
    pub fn new(classes: &'a [u32], base: usize, count: usize) -> Self {
        Self { classes, base, count, leaders: Vec::new(), excluded: Vec::new(), rows: Vec::new() }
    }

    /// Takes the next sample's scores, `[count]`, without a border; an excluded one counts for nothing.
    pub fn add(&mut self, row: &[f32], excluded: bool) {
        let sample = self.leaders.len();
        self.leaders.push(BestScores::of(row, self.base));
        self.excluded.push(excluded);
        if !excluded && sample.is_multiple_of(self.classes.len().div_ceil(MAX_TEMPERATURE_SAMPLES)) {
            self.rows.push(TemperatureSample { sample, scores: row.to_vec() });
        }
    }

    /// Chooses both: the border by the weights of a balance, of which a heavier one counts only where it takes that to
    /// recognise as many of the samples as `simplest`, the accuracy of a simpler answer over all classes; `start` is
    /// the border where there is nothing to choose it from.
    pub fn choose(&mut self, balance: Balance, simplest: f32, start: f32) -> Calibration {
        let shares = self.shares();
        let [known, new] = self.sides(&shares);
        let border = if known.is_empty() || new.is_empty() {
            border::at(&known, &new, start)
        } else {
            border::choose(
                &known,
                &new,
                &BorderObjective { weights: balance.weights(), share: self.share(), least: simplest },
            )
        };
        let base = self.base;
        self.rows.iter_mut().for_each(|row| shift(&mut row.scores, base, border.shift));
        Calibration { border, temperature: self.temperature(&shares) }
    }

    /// Accuracy over all classes without a border, 0..1.
    pub fn accuracy(&self) -> f32 {
        let [known, new] = self.sides(&self.shares());
        border::at(&known, &new, 0.0).overall(self.share())
    }

    /// Share of base classes in all classes.
    fn share(&self) -> f32 {
        self.base as f32 / self.count.max(1) as f32
    }

    /// Share of every sample in the accuracy of its side, classes counting alike; 0 for excluded ones.
    fn shares(&self) -> Vec<f32> {
        let mut samples = vec![0.0f32; self.count];
        let included = self.classes.iter().zip(&self.excluded).filter(|(_, excluded)| !**excluded);
        included.for_each(|(class, _)| samples[*class as usize] += 1.0);
        let seen = |classes: &[f32]| classes.iter().filter(|count| **count > 0.0).count() as f32;
        let (base, learned) = samples.split_at(self.base);
        let sides = [seen(base), seen(learned)];
        let share = |(&class, &excluded): (&u32, &bool)| {
            let side = sides[usize::from(class as usize >= self.base)];
            if excluded { 0.0 } else { 1.0 / (samples[class as usize] * side) }
        };
        self.classes.iter().zip(&self.excluded).map(share).collect()
    }

    /// Samples of base classes and of learned ones, without excluded ones.
    fn sides(&self, shares: &[f32]) -> [Vec<BorderSample>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        for (sample, leaders) in self.leaders.iter().enumerate().filter(|(sample, _)| !self.excluded[*sample]) {
            let Some(learned) = leaders.learned else { continue };
            let class = self.classes[sample] as usize;
            let is_new = class >= self.base;
            let own = if is_new { learned } else { leaders.base };
            let (lead, right) = (learned.score - leaders.base.score, own.class == class);
            sides[usize::from(is_new)].push(BorderSample { lead, right, share: shares[sample] });
        }
        sides
    }

    /// The temperature at which the softmax of the rows gives the samples' classes the highest likelihood, from 0.01 to
    /// 2.2 in steps of 12 percent.
    fn temperature(&self, shares: &[f32]) -> f32 {
        const STEPS: i32 = 48;
        if self.rows.is_empty() || self.count < 2 {
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
        let each = self.rows.iter().map(|TemperatureSample { sample, scores }| {
            let highest = highest(scores);
            let sum: f32 = scores.iter().map(|score| exp((score - highest) / temperature)).sum();
            let own = scores[self.classes[*sample] as usize];
            shares[*sample] * (ln(sum) - (own - highest) / temperature)
        });
        each.sum()
    }
}

/// Adds the border to the scores of learned classes.
pub(super) fn shift(scores: &mut [f32], base: usize, border: f32) {
    scores.iter_mut().skip(base).for_each(|score| *score += border);
}

/// Turns scores into probabilities.
pub(super) fn softmax(scores: &mut [f32], temperature: f32) {
    let highest = highest(scores);
    scores.iter_mut().for_each(|score| *score = exp((*score - highest) / temperature));
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty base classes with a sample each, and one learned class with four shots, of which one alone can be won
    /// without losing eight of the base classes.
    const BASE: usize = 20;

    fn fitting(classes: &[u32]) -> Calibrator<'_> {
        let mut fitting = Calibrator::new(classes, BASE, BASE + 1);
        for (sample, &class) in classes.iter().enumerate() {
            let mut row = vec![0.0; BASE + 1];
            let lead = match sample {
                0..8 => -0.3,
                8..BASE => -2.0,
                BASE => 0.5,
                _ => -0.5,
            };
            row[if class as usize == BASE { 0 } else { class as usize }] = 1.0;
            row[BASE] = 1.0 + lead;
            fitting.add(&row, false);
        }
        fitting
    }

    #[test]
    fn what_a_simpler_answer_would_recognise_makes_base_classes_weigh_more() {
        let classes: Vec<u32> = (0..BASE as u32).chain([BASE as u32; 4]).collect();
        let border = |balance, simplest| fitting(&classes).choose(balance, simplest, 0.0).border;
        let [keep, favour] = [Balance::KeepBase, Balance::FavourNew].map(|balance| border(balance, 1.0));
        let light = border(Balance::Balanced, 0.0);
        assert!(light.base < 0.75 && light.new > 0.95, "{light:?}");
        let heavier = border(Balance::Balanced, 0.9);
        assert!(heavier.overall(20.0 / 21.0) >= 0.9, "{heavier:?}");
        assert!(keep.shift <= heavier.shift && heavier.shift < light.shift, "{keep:?} {heavier:?} {light:?}");
        assert_eq!(favour, border(Balance::FavourNew, 0.0), "what people set counts alone");
    }

    #[test]
    fn excluded_samples_take_no_share() {
        let classes = [0, 0, 1, 2, 3];
        let mut fitting = Calibrator::new(&classes, 2, 4);
        for (class, excluded) in classes.into_iter().zip([false, false, true, false, true]) {
            let mut row = vec![0.0; 4];
            row[class as usize] = 1.0;
            fitting.add(&row, excluded);
        }
        assert_eq!(fitting.shares(), [0.5, 0.5, 0.0, 1.0, 0.0]);
        assert_eq!(fitting.accuracy(), 1.0);
    }
}

//! The border and the temperature, chosen from samples whose class is known.

use alloc::vec;
use alloc::vec::Vec;

use orco_core::border::{self, Sample};
use orco_core::math::{exp, highest, ln};

use crate::state::Calibration;
use crate::target::argmax;

/// Most samples by which a temperature is chosen; more cost time and change nothing that matters.
const MOST: usize = 1000;

/// The best base class and the best learned one for a sample, with their scores, no border among them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaders {
    known: (usize, f32),
    learned: Option<(usize, f32)>,
}

impl Leaders {
    pub(super) fn of(row: &[f32], base: usize) -> Self {
        let (old, new) = row.split_at(base);
        let best = |side: &[f32], first: usize| {
            let index = argmax(side);
            (first + index, side[index])
        };
        Self { known: best(old, 0), learned: (!new.is_empty()).then(|| best(new, base)) }
    }

    /// The class that a border makes the answer, the base class of equal ones.
    pub(super) fn answer(&self, border: f32) -> usize {
        match self.learned {
            Some((class, score)) if score + border > self.known.1 => class,
            _ => self.known.0,
        }
    }
}

/// Collects what samples say about the border and the temperature, by which both are chosen in every change.
pub struct Fitting<'a> {
    /// Class of every sample.
    classes: &'a [u32],
    /// Share of every sample in the accuracy of its side, classes counting alike.
    shares: Vec<f32>,
    base: usize,
    /// Number of classes.
    count: usize,
    /// Of the samples so far.
    pub(super) leaders: Vec<Leaders>,
    /// Those that say nothing.
    mute: Vec<bool>,
    /// Whole rows of scores of evenly spread samples, with their numbers.
    rows: Vec<(usize, Vec<f32>)>,
}

impl<'a> Fitting<'a> {
    /// Nothing collected yet. Samples are of these classes, of `count` known ones, the first `base` of them base
    /// classes.
    pub fn new(classes: &'a [u32], base: usize, count: usize) -> Self {
        let shares = shares(classes, base, count);
        Self { classes, shares, base, count, leaders: Vec::new(), mute: Vec::new(), rows: Vec::new() }
    }

    /// Takes the next sample's scores, `[count]`, without a border; a mute one counts for nothing.
    pub fn add(&mut self, row: &[f32], mute: bool) {
        let sample = self.leaders.len();
        self.leaders.push(Leaders::of(row, self.base));
        self.mute.push(mute);
        if !mute && sample.is_multiple_of(self.classes.len().div_ceil(MOST)) {
            self.rows.push((sample, row.to_vec()));
        }
    }

    /// Chooses both, base classes weighing `weight` of 1; `start` is the border where there is nothing to choose it
    /// from.
    pub fn choose(&mut self, weight: f32, start: f32) -> Calibration {
        let (mut known, mut new) = (Vec::new(), Vec::new());
        for (sample, leaders) in self.leaders.iter().enumerate().filter(|(sample, _)| !self.mute[*sample]) {
            let Some((learned, score)) = leaders.learned else { continue };
            let class = self.classes[sample] as usize;
            let is_known = class < self.base;
            let own = if is_known { leaders.known.0 } else { learned };
            let lead = score - leaders.known.1;
            let sample = Sample { lead, right: own == class, share: self.shares[sample] };
            if is_known { &mut known } else { &mut new }.push(sample);
        }
        let border = if known.is_empty() || new.is_empty() {
            border::at(&known, &new, start)
        } else {
            border::choose(&mut known, &mut new, weight)
        };
        let base = self.base;
        self.rows.iter_mut().for_each(|(_, row)| shift(row, base, border.shift));
        Calibration { border, temperature: self.temperature() }
    }

    /// The temperature at which the softmax of the rows gives the samples' classes the highest likelihood, from 0.01 to
    /// 2.5 in steps of 12 percent.
    fn temperature(&self) -> f32 {
        const STEPS: i32 = 48;
        let loss = |temperature: f32| -> f32 {
            let each = self.rows.iter().map(|(sample, row)| {
                let highest = highest(row);
                let sum: f32 = row.iter().map(|score| exp((score - highest) / temperature)).sum();
                let own = row[self.classes[*sample] as usize];
                self.shares[*sample] * (ln(sum) - (own - highest) / temperature)
            });
            each.sum()
        };
        if self.rows.is_empty() || self.count < 2 {
            return Calibration::TEMPERATURE;
        }
        // The loss is convex in 1 / temperature: where it rises from a step to the next, its valley lies before.
        let at = |step: i32| 0.01 * exp(0.115 * step as f32);
        let (mut low, mut high) = (0, STEPS - 1);
        while low < high {
            let middle = (low + high) / 2;
            if loss(at(middle)) <= loss(at(middle + 1)) { high = middle } else { low = middle + 1 }
        }
        at(low)
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

/// Share of every sample in the accuracy of its side, classes counting alike.
fn shares(classes: &[u32], base: usize, count: usize) -> Vec<f32> {
    let mut samples = vec![0.0f32; count];
    classes.iter().for_each(|class| samples[*class as usize] += 1.0);
    let seen = |range: core::ops::Range<usize>| samples[range].iter().filter(|count| **count > 0.0).count() as f32;
    let sides = [seen(0..base), seen(base..count)];
    classes.iter().map(|&class| 1.0 / (samples[class as usize] * sides[usize::from(class as usize >= base)])).collect()
}

//! The batches of phase 3: shuffled exemplars with two views each, and perturbed targets.

use alloc::vec::Vec;

use super::alignment::{Batch, Goals};
use crate::config::{Config, Perturbation};
use crate::exemplar::Bank;
use crate::math::normalise;
use crate::random::Random;

/// Draws batches.
pub(super) struct Sampler<'a> {
    bank: &'a Bank,
    config: &'a Config,
    random: Random,
    dimension: usize,
    /// Targets that may be perturbed, `[k, dimension]`, and their labels `[k]`: a class's index, then numbers past the
    /// classes for the free ones.
    perturbable: Vec<f32>,
    perturbable_labels: Vec<u32>,
    order: Vec<usize>,
    target_order: Vec<usize>,
    features: Vec<f32>,
    classes: Vec<u32>,
    perturbed: Vec<f32>,
    perturbed_labels: Vec<u32>,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(bank: &'a Bank, goals: &Goals<'_>, config: &'a Config, random: Random) -> Self {
        let (base, incremental) = goals.assigned.split_at(goals.base_classes * goals.dimension);
        let chosen = [
            (config.perturbed.base, base),
            (config.perturbed.incremental, incremental),
            (config.perturbed.free, goals.free),
        ];
        let mut perturbable = Vec::new();
        let mut perturbable_labels = Vec::new();
        let mut label = 0;
        for (wanted, targets) in chosen {
            for target in targets.chunks_exact(goals.dimension) {
                if wanted {
                    perturbable.extend_from_slice(target);
                    perturbable_labels.push(label);
                }
                label += 1;
            }
        }
        let count = perturbable_labels.len();
        Self {
            bank,
            config,
            random,
            dimension: goals.dimension,
            perturbable,
            perturbable_labels,
            order: (0..bank.len()).collect(),
            target_order: (0..count).collect(),
            features: Vec::new(),
            classes: Vec::new(),
            perturbed: Vec::new(),
            perturbed_labels: Vec::new(),
        }
    }

    /// Shuffles the exemplars; returns the number of steps of the epoch (the last batch is kept).
    pub(super) fn start_epoch(&mut self) -> usize {
        self.random.shuffle(&mut self.order);
        self.order.len().div_ceil(self.config.batch)
    }

    /// Batch number `step` of the epoch.
    pub(super) fn batch(&mut self, step: usize) -> Batch<'_> {
        let first = step * self.config.batch;
        let last = (first + self.config.batch).min(self.order.len());
        let size = last - first;
        let row = self.bank.dimension();
        self.classes.clear();
        self.features.resize(2 * size * row, 0.0);
        let (first_view, second_view) = self.features.split_at_mut(size * row);
        let places = first_view.chunks_exact_mut(row).zip(second_view.chunks_exact_mut(row));
        for (&exemplar, (one, two)) in self.order[first..last].iter().zip(places) {
            let (view, other) = two_of(self.bank.views(), &mut self.random);
            self.bank.read(exemplar, view, one);
            self.bank.read(exemplar, other, two);
            self.classes.push(self.bank.classes()[exemplar]);
        }
        self.perturb(size);
        Batch {
            features: &self.features,
            classes: &self.classes,
            perturbed: &self.perturbed,
            perturbed_labels: &self.perturbed_labels,
        }
    }

    /// As many perturbed targets per view as the batch has samples: a random permutation, repeated or cut to that
    /// count; both views use the same targets with independent noise.
    fn perturb(&mut self, size: usize) {
        self.perturbed.clear();
        self.perturbed_labels.clear();
        if self.perturbable_labels.is_empty() {
            return;
        }
        self.random.shuffle(&mut self.target_order);
        for _view in 0..2 {
            for &place in self.target_order.iter().cycle().take(size) {
                let start = self.perturbed.len();
                self.perturbed.extend_from_slice(&self.perturbable[place * self.dimension..][..self.dimension]);
                let target = &mut self.perturbed[start..];
                let width = self.config.perturbation_width;
                match self.config.perturbation {
                    Perturbation::None => continue,
                    Perturbation::Uniform => {
                        target.iter_mut().for_each(|value| *value += self.random.uniform(-width / 2.0, width / 2.0));
                    }
                    Perturbation::Gaussian => {
                        target.iter_mut().for_each(|value| *value += width * self.random.normal());
                    }
                }
                normalise(target);
            }
        }
        let labels = self.target_order.iter().cycle().take(size).map(|&place| self.perturbable_labels[place]);
        self.perturbed_labels.extend(labels);
    }
}

/// Two different views out of `views`, or twice the only one.
fn two_of(views: usize, random: &mut Random) -> (usize, usize) {
    if views == 1 {
        return (0, 0);
    }
    let first = random.below(views);
    let second = random.below(views - 1);
    (first, if second >= first { second + 1 } else { second })
}

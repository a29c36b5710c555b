//! C-FSCIL's head, mode 3 (Hersche et al., Constrained Few-shot Class-incremental Learning, CVPR 2022), on given
//! features.
//!
//! Of every class seen one mean feature vector is kept. After each session the prototypes, their projections, are nudged
//! apart until they are nearly orthogonal, without going far from where they were; the head, as meta-learning left it, is
//! trained so that the mean features come to the nudged prototypes; and the means' new projections are what pictures are
//! compared with.
//!
//! Otherwise than there: the backbone and the head that it starts from are the bundle's, trained by OrCo's phases 1
//! and 2 instead of meta-learning; the head has a hidden layer; and rate and steps are ours.

use orco_core::math::{add_scaled, exp, normalise_rows};
use orco_core::random::Random;
use orco_core::workers::Workers;
use orco_state::head::{Head, Projector};
use orco_state::session::{LearnError, NewClass, OnProgress};
use orco_state::state::BaseModel;
use orco_state::target::cosines;

use super::pull::{Pull, Puller, Settings};
use super::{Learner, clean};
use crate::benchmark::Benchmark;

/// How sharply likeness is punished.
const ALPHA: f32 = 4.0;
const NUDGES: usize = 100;
const NUDGE: f32 = 0.01;
const TRAINING: Settings = Settings { epochs: 50, batch: 64, rate: 0.01 };

/// The head with what it remembers.
pub(super) struct CFscil<'a> {
    start: &'a Head,
    workers: &'a dyn Workers,
    /// A mean feature vector of every class seen, `[classes, inputs]`.
    means: Vec<f32>,
    head: Head,
    random: Random,
}

impl<'a> CFscil<'a> {
    pub(super) fn new(base_model: &'a BaseModel, benchmark: &Benchmark, seed: u64, workers: &'a dyn Workers) -> Self {
        let start = &base_model.head;
        let random = Random::new(seed, "c-fscil");
        let mut own = Self { start, workers, means: benchmark.base_means.clone(), head: start.clone(), random };
        own.train(&mut |_| core::ops::ControlFlow::Continue(())).expect("nothing cancels it");
        own
    }

    fn train(&mut self, on_progress: OnProgress<'_>) -> Result<f64, LearnError> {
        let nudged = nudged(self.start.project(&self.means), self.start.outputs);
        let mut puller = Puller::new(self.start, self.workers);
        let operations = puller.train((&self.means, &nudged), Pull::Cosine, TRAINING, &mut self.random, on_progress)?;
        self.head = puller.head();
        Ok(operations)
    }
}

/// Prototypes moved down the gradient of sum_(i != j) (e^(alpha cos(k_i, k_j)) - 1) + sum_i (e^(-alpha cos(k_i, p_i)) -
/// 1), from where they are (p); unit rows.
fn nudged(prototypes: Vec<f32>, outputs: usize) -> Vec<f32> {
    let mut moved = prototypes.clone();
    for _ in 0..NUDGES {
        let likeness = cosines(&moved, &moved, outputs);
        let count = moved.len() / outputs;
        let mut gradient = vec![0.0; moved.len()];
        for (row, to) in gradient.chunks_exact_mut(outputs).enumerate() {
            for other in (0..count).filter(|other| *other != row) {
                // Every pair stands twice in the sum.
                let slope = 2.0 * ALPHA * exp(ALPHA * likeness[row * count + other]);
                add_scaled(to, slope, &moved[other * outputs..][..outputs]);
            }
            let (own, start) = (&moved[row * outputs..][..outputs], &prototypes[row * outputs..][..outputs]);
            let back = -ALPHA * exp(-ALPHA * orco_core::math::dot(own, start));
            add_scaled(to, back, start);
            let along = orco_core::math::dot(to, own);
            add_scaled(to, -along, own);
        }
        // So that a step is as long whatever the number of classes.
        add_scaled(&mut moved, -NUDGE / count as f32, &gradient);
        normalise_rows(&mut moved, outputs);
    }
    moved
}

impl Learner for CFscil<'_> {
    fn learn(&mut self, new: &[NewClass], on_progress: OnProgress<'_>) -> Result<f64, LearnError> {
        let inputs = self.start.inputs;
        for class in new {
            let mut mean = vec![0.0; inputs];
            let share = 1.0 / class.shots.len().max(1) as f32;
            clean(class, inputs).chunks_exact(inputs).for_each(|row| add_scaled(&mut mean, share, row));
            self.means.extend(mean);
        }
        self.train(on_progress)
    }

    fn scores(&self, features: &[f32]) -> Vec<f32> {
        let head = Projector::new(&self.head);
        cosines(&head.project(features), &head.project(&self.means), self.start.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prototypes_are_nudged_apart_and_no_further_than_needed() {
        // Two prototypes 60 degrees apart in the plane: symmetric, so they turn by the same angle, away from each other.
        let moved = nudged(vec![1.0, 0.0, 0.5, 0.75f32.sqrt()], 2);
        let cosine = cosines(&moved, &moved, 2)[1];
        assert!(cosine < 0.4, "{cosine}");
        assert!(moved[1] < 0.0 && moved[0] > 0.0, "the first turns clockwise: {moved:?}");
        let turned = |a: &[f32], b: &[f32]| orco_core::math::dot(a, b);
        let (first, second) = (turned(&moved[..2], &[1.0, 0.0]), turned(&moved[2..], &[0.5, 0.75f32.sqrt()]));
        assert!((first - second).abs() < 1e-4, "{first} and {second}");
    }

    #[test]
    fn a_lone_prototype_stays() {
        let moved = nudged(vec![0.6, 0.8], 2);
        assert!((moved[0] - 0.6).abs() < 1e-5 && (moved[1] - 0.8).abs() < 1e-5);
    }
}

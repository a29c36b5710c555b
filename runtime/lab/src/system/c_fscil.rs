//! C-FSCIL's head, mode 3 (Hersche et al., Constrained Few-shot Class-incremental Learning, CVPR 2022), on given
//! features.
//!
//! Of every class seen one mean feature vector is kept. In each session the prototypes, their projections, are nudged
//! apart until they are nearly orthogonal, without going far from where they were; the head is trained on so that the
//! mean features come to the nudged prototypes; and the means' new projections are what pictures are compared with.
//! Losses, rates and steps are those of the authors' command for mode 3.
//!
//! Differences from the authors' program:
//!
//! - Backbone and head begin as the bundle's, trained by OrCo's phases 1 and 2 instead of meta-learning; the head has a
//!   hidden layer.
//! - Prototypes are unit vectors, not hyperbolic tangents of a layer's outputs, so that the same rate turns them
//!   further.
//! - The head's weight decay is 1e-4 instead of 5e-4.
//! - Its momentum is plain instead of Nesterov's, and begins at zero in each session instead of being kept.
//! - Its rate falls along a cosine.
//!
//! `orco-train-lab rival c-fscil` trains the whole method.

use orco_core::math::{add_scaled, dot, exp, normalise_rows};
use orco_core::random::Random;
use orco_core::workers::Workers;
use orco_state::head::{Head, Projector};
use orco_state::session::{LearnError, NewClass, OnProgress};
use orco_state::state::BaseModel;
use orco_state::target::cosines;

use super::goal::{GoalLoss, GoalSamples, GoalSettings, GoalTrainer};
use super::{SystemContext, SystemSpec, as_measured, clean, mean};
use crate::method::Method;
use orco_benchmark::FeatureLearner;
use orco_benchmark::benchmark::Benchmark;

pub(super) static C_FSCIL: SystemSpec = SystemSpec {
    method: Method {
        name: "c-fscil",
        description: "The head alone, mode 3: prototypes are nudged apart and the head is trained to them in every \
                       session (Hersche et al., CVPR 2022). Backbone and start are the bundle's.",
        paper_row: Some("C-FSCIL"),
    },
    about: "mode 3, nudged prototypes; CVPR 2022",
    trains: true,
    needs_statistics: false,
    settings: as_measured,
    start: |context| {
        let SystemContext { base_model, benchmark, seed, workers, .. } = *context;
        Box::new(CFscilHead::new(base_model, benchmark, seed, workers))
    },
};

/// How sharply likeness is punished.
const ALPHA: f32 = 4.0;
/// Steps of nudging, their rate, and Nesterov's momentum.
const NUDGES: usize = 100;
const NUDGE: f32 = 0.1;
const MOMENTUM: f32 = 0.9;
/// All classes at once in a step.
const TRAINING: GoalSettings = GoalSettings { epochs: 50, batch: usize::MAX, rate: 0.01 };

/// The head with what it remembers.
struct CFscilHead<'a> {
    workers: &'a dyn Workers,
    /// A mean feature vector of every class seen, `[classes, inputs]`.
    means: Vec<f32>,
    head: Head,
    random: Random,
}

impl<'a> CFscilHead<'a> {
    fn new(base_model: &BaseModel, benchmark: &Benchmark, seed: u64, workers: &'a dyn Workers) -> Self {
        let random = Random::new(seed, "c-fscil");
        let mut own = Self { workers, means: benchmark.base_means.clone(), head: base_model.head.clone(), random };
        own.train(&mut |_| std::ops::ControlFlow::Continue(())).expect("nothing cancels it");
        own
    }

    fn train(&mut self, on_progress: OnProgress<'_>) -> Result<f64, LearnError> {
        let nudged = nudged(&self.head.project(&self.means), self.head.outputs, NUDGE);
        let mut trainer = GoalTrainer::new(&self.head, self.workers);
        let samples = GoalSamples { features: &self.means, goals: &nudged };
        let operations = trainer.train(samples, GoalLoss::Cosine, TRAINING, &mut self.random, on_progress)?;
        self.head = trainer.head();
        Ok(operations)
    }
}

/// Prototypes k moved from where they are (p) down the gradient of the mean over i < j of e^(alpha c_ij) +
/// e^(-alpha c_ij) - 2, c_ij = cos(k_i, k_j), plus the mean over i of 1 - cos(k_i, p_i); unit rows before and after.
fn nudged(prototypes: &[f32], outputs: usize, rate: f32) -> Vec<f32> {
    let count = prototypes.len() / outputs;
    let pairs = (count * (count - 1) / 2).max(1) as f32;
    let mut moved = prototypes.to_vec();
    let mut momenta = vec![0.0; moved.len()];
    for _ in 0..NUDGES {
        let mut units = moved.clone();
        normalise_rows(&mut units, outputs);
        let likeness = cosines(&units, &units, outputs);
        for row in 0..count {
            let at = row * outputs..(row + 1) * outputs;
            let own = &units[at.clone()];
            let mut gradient = vec![0.0; outputs];
            for other in (0..count).filter(|other| *other != row) {
                let cosine = likeness[row * count + other];
                let slope = ALPHA * (exp(ALPHA * cosine) - exp(-ALPHA * cosine)) / pairs;
                add_scaled(&mut gradient, slope, &units[other * outputs..][..outputs]);
            }
            add_scaled(&mut gradient, -1.0 / count as f32, &prototypes[at.clone()]);
            // What is left of it where only the direction counts.
            let along = dot(&gradient, own);
            add_scaled(&mut gradient, -along, own);
            let length = dot(&moved[at.clone()], own);
            for ((to, momentum), slope) in moved[at.clone()].iter_mut().zip(&mut momenta[at]).zip(gradient) {
                let slope = slope / length;
                *momentum = MOMENTUM * *momentum + slope;
                *to -= rate * (slope + MOMENTUM * *momentum);
            }
        }
    }
    normalise_rows(&mut moved, outputs);
    moved
}

impl FeatureLearner for CFscilHead<'_> {
    fn learn(&mut self, new: &[NewClass], on_progress: OnProgress<'_>) -> Result<f64, LearnError> {
        let inputs = self.head.inputs;
        for class in new {
            self.means.extend(mean(&clean(class, inputs), inputs));
        }
        self.train(on_progress)
    }

    fn scores(&self, features: &[f32]) -> Vec<f32> {
        let head = Projector::new(&self.head);
        cosines(&head.project(features), &head.project(&self.means), self.head.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prototypes_are_nudged_apart_and_no_further_than_needed() {
        // Two prototypes 60 degrees apart in the plane: symmetric, so both turn away from each other by an angle d,
        // with the loss 2 cosh(4 c) - 2 + 1 - cos d, c = cos(60 + 2 d). It is least where sin d = 16 sin(60 + 2 d)
        // sinh(4 c): almost at right angles, d = 14.9 and c = sin d / 64 = 0.004.
        let third = 0.75f32.sqrt();
        let moved = nudged(&[1.0, 0.0, 0.5, third], 2, 0.01);
        let cosine = cosines(&moved, &moved, 2)[1];
        assert!((cosine - 0.004).abs() < 5e-4, "{cosine}");
        assert!(moved[1] < 0.0 && moved[0] > 0.0, "the first turns clockwise: {moved:?}");
        let (first, second) = (dot(&moved[..2], &[1.0, 0.0]), dot(&moved[2..], &[0.5, third]));
        assert!((first - second).abs() < 1e-4, "{first} and {second}");
    }

    #[test]
    fn opposite_prototypes_are_nudged_together() {
        // 120 degrees apart: the loss punishes likeness of either sign.
        let moved = nudged(&[1.0, 0.0, -0.5, 0.75f32.sqrt()], 2, 0.01);
        let cosine = cosines(&moved, &moved, 2)[1];
        assert!((cosine + 0.004).abs() < 5e-4, "{cosine}");
    }

    #[test]
    fn a_lone_prototype_stays() {
        let moved = nudged(&[0.6, 0.8], 2, 0.01);
        assert!((moved[0] - 0.6).abs() < 1e-5 && (moved[1] - 0.8).abs() < 1e-5);
    }
}

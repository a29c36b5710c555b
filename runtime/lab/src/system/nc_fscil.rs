//! NC-FSCIL's head (Yang et al., Neural Collapse Inspired Feature-Classifier Alignment, ICLR 2023) on given features.
//!
//! Every class, also of sessions to come, has a vertex of one regular simplex as its fixed classifier. The
//! dot-regression loss pulls projections to the vertex of their class: in the base session on what a bundle carries of
//! the base classes, in later ones on the new shots and one mean feature vector of every earlier class. The head goes
//! on from session to session. New classes take the vertices in the order in which they come.
//!
//! Differences from the authors' program:
//!
//! - The backbone is the bundle's.
//! - The head starts as phase 2 left it instead of being trained on all base images.
//! - The vertices are the centred pseudo-targets.
//! - Rate and epochs are ours.
//!
//! `orco-train-lab rival nc-fscil` trains the whole method.

use orco_core::math::{add_scaled, normalise_rows};
use orco_core::random::Random;
use orco_core::workers::Workers;
use orco_state::head::Projector;
use orco_state::session::{LearnError, NewClass, OnProgress};
use orco_state::state::{BaseModel, State};
use orco_state::target::cosines;

use super::goal::{GoalLoss, GoalSamples, GoalSettings, GoalTrainer};
use super::{SystemContext, SystemSpec, as_measured, clean, mean};
use crate::method;
use orco_benchmark::FeatureLearner;
use orco_benchmark::benchmark::Benchmark;

pub(super) static NC_FSCIL: SystemSpec = SystemSpec {
    method: method::NC_FSCIL,
    about: "simplex, dot-regression; ICLR 2023",
    trains: true,
    needs_statistics: false,
    settings: as_measured,
    start: |context| {
        let SystemContext { base_model, benchmark, seed, workers, .. } = *context;
        Box::new(NcFscilHead::new(base_model, benchmark, seed, workers))
    },
};

const TRAINING: GoalSettings = GoalSettings { epochs: 100, batch: 64, rate: 0.25 };

/// The head with what it remembers.
struct NcFscilHead<'a> {
    trainer: GoalTrainer<'a>,
    inputs: usize,
    outputs: usize,
    /// Vertices of all classes, `[classes to come, outputs]`.
    vertices: Vec<f32>,
    /// A mean feature vector of every class seen, `[classes, inputs]`.
    means: Vec<f32>,
    random: Random,
    /// Operations of the base session, which count with those of the first.
    before: f64,
}

impl<'a> NcFscilHead<'a> {
    fn new(base_model: &BaseModel, benchmark: &Benchmark, seed: u64, workers: &'a dyn Workers) -> Self {
        let (inputs, outputs) = (base_model.head.inputs, base_model.dimension);
        let free = State::fresh(base_model, [0; 32]).free_targets(base_model);
        let of_base = base_model.classes.iter().map(|class| class.target);
        let rows = of_base.chain(free.into_iter().take(benchmark.labels.len()));
        let targets: Vec<f32> = rows.flat_map(|target| base_model.target(target)).copied().collect();
        let mut head = Self {
            trainer: GoalTrainer::new(&base_model.head, workers),
            inputs,
            outputs,
            vertices: simplex(targets, outputs),
            means: benchmark.base_means.clone(),
            random: Random::new(seed, "nc-fscil"),
            before: 0.0,
        };
        let exemplars = base_model.exemplars.as_exemplars();
        let mut samples = head.remembered();
        let mut view = vec![0.0; inputs];
        for (exemplar, &class) in exemplars.classes.iter().enumerate() {
            for number in 0..exemplars.views {
                exemplars.read(exemplar, number, &mut view);
                samples.add(&view, head.vertex(class as usize));
            }
        }
        let uncancelled = &mut |_| std::ops::ControlFlow::Continue(());
        head.before = head.train(&samples, uncancelled).expect("nothing cancels it");
        head
    }

    fn vertex(&self, class: usize) -> &[f32] {
        &self.vertices[class * self.outputs..][..self.outputs]
    }

    /// The means of the classes seen, each with its vertex.
    fn remembered(&self) -> Samples {
        let seen = self.means.len() / self.inputs;
        Samples { features: self.means.clone(), goals: self.vertices[..seen * self.outputs].to_vec() }
    }

    fn train(&mut self, samples: &Samples, on_progress: OnProgress<'_>) -> Result<f64, LearnError> {
        let samples = GoalSamples { features: &samples.features, goals: &samples.goals };
        self.trainer.train(samples, GoalLoss::DotRegression, TRAINING, &mut self.random, on_progress)
    }
}

/// What is trained on.
struct Samples {
    features: Vec<f32>,
    goals: Vec<f32>,
}

impl Samples {
    fn add(&mut self, features: &[f32], goal: &[f32]) {
        self.features.extend_from_slice(features);
        self.goals.extend_from_slice(goal);
    }
}

/// Targets seen from their mean, as unit vectors: a regular simplex, if they are orthonormal or one already.
fn simplex(mut targets: Vec<f32>, outputs: usize) -> Vec<f32> {
    let mean = mean(&targets, outputs);
    targets.chunks_exact_mut(outputs).for_each(|row| add_scaled(row, -1.0, &mean));
    normalise_rows(&mut targets, outputs);
    targets
}

impl FeatureLearner for NcFscilHead<'_> {
    fn learn(&mut self, new: &[NewClass], on_progress: OnProgress<'_>) -> Result<f64, LearnError> {
        let mut samples = self.remembered();
        let seen = self.means.len() / self.inputs;
        for (number, class) in new.iter().enumerate() {
            let views = class.shots.iter().flat_map(|shot| shot.chunks_exact(self.inputs));
            views.for_each(|view| samples.add(view, self.vertex(seen + number)));
        }
        let operations = self.train(&samples, on_progress)? + std::mem::take(&mut self.before);
        for class in new {
            self.means.extend(mean(&clean(class, self.inputs), self.inputs));
        }
        Ok(operations)
    }

    fn scores(&self, features: &[f32]) -> Vec<f32> {
        let seen = self.means.len() / self.inputs;
        let projected = Projector::new(&self.trainer.head()).project(features);
        cosines(&projected, &self.vertices[..seen * self.outputs], self.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centred_orthonormal_targets_are_a_simplex() {
        // Three axes seen from (1, 1, 1) / 3: (2, -1, -1) / sqrt(6) and so on, cosines -1/2.
        let vertices = simplex(vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], 3);
        assert!((vertices[0] - 2.0 / 6f32.sqrt()).abs() < 1e-6);
        for (index, cosine) in cosines(&vertices, &vertices, 3).into_iter().enumerate() {
            let expected = if index % 4 == 0 { 1.0 } else { -0.5 };
            assert!((cosine - expected).abs() < 1e-6, "{index}: {cosine}");
        }
    }
}

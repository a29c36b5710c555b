//! Class means: imprinting, the nearest class mean, and TEEN, which shifts the means of new classes.

use orco_core::math::{add_scaled, exp, highest, normalise_rows};
use orco_state::classify::{Classifier, mean_direction};
use orco_state::session::{LearnError, NewClass, OnProgress};
use orco_state::state::{BaseModel, State};
use orco_state::target::cosines;

use crate::method::Method;

use super::{SystemSpec, as_measured, clean};
use orco_benchmark::FeatureLearner;
use orco_benchmark::benchmark::Benchmark;

pub(super) static IMPRINT: SystemSpec = SystemSpec {
    method: Method {
        name: "imprint",
        description: "No training: a learned class is the mean projection of its shots, a base class its \
                       pseudo-target, on the head of phase 2. The paper imprints weights before phase 2: that is ncm.",
        paper_row: None,
    },
    about: "mean projections on the head of phase 2",
    trains: false,
    needs_statistics: false,
    settings: as_measured,
    start: |context| Box::new(Imprinted::new(context.base_model)),
};

pub(super) static NCM: SystemSpec = SystemSpec {
    method: Method {
        name: "ncm",
        description: "The nearest class mean by cosine on the backbone's features: of a base class over all its \
                       training images, of a learned class over its shots. As weights of a cosine classifier, these \
                       means are imprinted (Qi et al., CVPR 2018): the paper's row IW.",
        paper_row: Some("IW (imprinting)"),
    },
    about: "nearest class mean",
    trains: false,
    needs_statistics: false,
    settings: as_measured,
    start: |context| Box::new(ClassMeans::new(context.base_model, context.benchmark, None)),
};

pub(super) static TEEN: SystemSpec = SystemSpec {
    method: Method {
        name: "teen",
        description: "The nearest class mean, with the means of learned classes moved halfway to the base means that \
                       are like them (Wang et al., NeurIPS 2023; alpha 0.5 and tau 16, the defaults of its authors' \
                       program).",
        paper_row: None,
    },
    about: "new means moved to similar base means; NeurIPS 2023",
    trains: false,
    needs_statistics: false,
    settings: as_measured,
    start: |context| Box::new(ClassMeans::new(context.base_model, context.benchmark, Some(TEEN_SHIFT))),
};

/// Imprinting in the projected space.
struct Imprinted(Classifier);

impl Imprinted {
    fn new(base_model: &BaseModel) -> Self {
        let by_targets = base_model.config.by_targets_alone();
        Self(Classifier::with_config(base_model, &State::fresh(base_model, [0; 32]), &by_targets))
    }
}

impl FeatureLearner for Imprinted {
    fn learn(&mut self, new: &[NewClass], _: OnProgress<'_>) -> Result<f64, LearnError> {
        new.iter().for_each(|class| self.0.imprint(&class.shots));
        Ok(0.0)
    }

    fn scores(&self, features: &[f32]) -> Vec<f32> {
        self.0.scores(features)
    }
}

/// How far and how sharply TEEN moves the means of new classes.
#[derive(Clone, Copy)]
pub(super) struct TeenShift {
    alpha: f32,
    tau: f32,
}

/// The defaults of its authors' program; its command for CIFAR-100 has an alpha of 0.1. The average of the base means
/// is mixed in as the paper writes it; the program brings it to unit length first.
pub(super) const TEEN_SHIFT: TeenShift = TeenShift { alpha: 0.5, tau: 16.0 };

impl TeenShift {
    /// Moves a mean to the base means that are like it: (1 - alpha) mean + alpha x their average, weighed by the
    /// softmax of tau x cosine.
    pub(super) fn moved(self, mean: &[f32], base: &[f32]) -> Vec<f32> {
        let inputs = mean.len();
        let mut direction = mean.to_vec();
        normalise_rows(&mut direction, inputs);
        let mut directions = base.to_vec();
        normalise_rows(&mut directions, inputs);
        let likeness = cosines(&direction, &directions, inputs);
        let highest = highest(&likeness);
        let weights: Vec<f32> = likeness.iter().map(|cosine| exp(self.tau * (cosine - highest))).collect();
        let all: f32 = weights.iter().sum();
        let mut moved: Vec<f32> = mean.iter().map(|value| value * (1.0 - self.alpha)).collect();
        let rows = base.chunks_exact(inputs).zip(weights);
        rows.for_each(|(row, weight)| add_scaled(&mut moved, self.alpha * weight / all, row));
        moved
    }
}

/// The nearest class mean by cosine.
struct ClassMeans {
    inputs: usize,
    /// Unit rows, `[base, inputs]`.
    base: Vec<f32>,
    /// Unit rows, `[classes, inputs]`.
    means: Vec<f32>,
    shift: Option<TeenShift>,
}

impl ClassMeans {
    fn new(base_model: &BaseModel, benchmark: &Benchmark, shift: Option<TeenShift>) -> Self {
        let inputs = base_model.head.inputs;
        let mut means = benchmark.base_means.clone();
        normalise_rows(&mut means, inputs);
        Self { inputs, base: means.clone(), means, shift }
    }
}

impl FeatureLearner for ClassMeans {
    fn learn(&mut self, new: &[NewClass], _: OnProgress<'_>) -> Result<f64, LearnError> {
        for class in new {
            let mean = mean_direction(&clean(class, self.inputs), self.inputs);
            let mut mean = self.shift.map_or(mean.clone(), |shift| shift.moved(&mean, &self.base));
            normalise_rows(&mut mean, self.inputs);
            self.means.extend(mean);
        }
        Ok(0.0)
    }

    fn scores(&self, features: &[f32]) -> Vec<f32> {
        let mut directions = features.to_vec();
        normalise_rows(&mut directions, self.inputs);
        cosines(&directions, &self.means, self.inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_moves_halfway_to_the_base_means_that_are_like_it() {
        // Cosines 1 and 0 with two base means: weights 1 and e^-16, that is one mean alone; the new mean is on its ray.
        let moved = TEEN_SHIFT.moved(&[2.0, 0.0], &[4.0, 0.0, 0.0, 6.0]);
        assert!((moved[0] - 3.0).abs() < 1e-4 && moved[1].abs() < 1e-4, "{moved:?}");
        // Equally like both: half of the way to the mean of both.
        let moved = TEEN_SHIFT.moved(&[1.0, 1.0], &[1.0, 0.0, 0.0, 1.0]);
        assert!((moved[0] - 0.75).abs() < 1e-6 && (moved[1] - 0.75).abs() < 1e-6, "{moved:?}");
    }
}

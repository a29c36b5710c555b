//! Ridge regression on random features, a rival (RanPAC, McDonnell et al., NeurIPS 2023), fitted to what a device has:
//! the bundle's exemplars and the shots.
//!
//! Its authors sum a Gram matrix over all training images of the base classes, which no bundle carries. With n samples
//! in place of all of them, the same regression is solved in its dual form, n by n, whatever the number of random
//! features; and leaving a sample out of it costs nothing (Rifkin and Lippert 2007): its score without itself is
//! y_i - c_i / Q_ii, with Q the inverse of K + lambda I and c = Q y. Where samples outnumber random features,
//! as with a thousand classes, the primal form, whose matrix is features by features, gives the same for less work.

use std::cell::{Ref, RefCell};

use nalgebra::{Cholesky, DMatrix, Dyn};
use orco_core::discriminant::direction;
use orco_core::math::{add_scaled, dot, normalise, normalise_rows};
use orco_core::random::Random;
use orco_state::answer::Calibrator;
use orco_state::session::{LearnError, NewClass, OnProgress};
use orco_state::state::{Balance, BaseModel};
use orco_state::statistics::Statistics;
use orco_state::target::cosines;

use crate::method::Method;

use super::{SystemSpec, as_measured, clean};
use orco_benchmark::FeatureLearner;

/// Random features, each the positive part of an inner product with a random vector.
const WIDTH: usize = 2000;

pub(super) static RIDGE: SystemSpec = SystemSpec {
    method: Method {
        name: "ridge + border",
        description: "Ridge regression on 2,000 random features (RanPAC, McDonnell et al., NeurIPS 2023). Its authors \
                       fit it to all training images of the base classes; here it has what a device has, the \
                       bundle's exemplars and the shots. Its strength is chosen on exemplars left out in turn, its \
                       border as ours is.",
        paper_row: None,
    },
    about: "RanPAC on exemplars and shots, our border; NeurIPS 2023",
    trains: false,
    needs_statistics: true,
    settings: as_measured,
    start: |context| Box::new(Ridge::new(context.base_model, context.seed)),
};

/// The regression with what it is fitted to.
struct Ridge<'a> {
    base_model: &'a BaseModel,
    /// `[WIDTH, inputs]`.
    projection: Vec<f32>,
    /// Random features of the samples, `[samples, WIDTH]`: the bundle's exemplars, then shots.
    samples: Vec<f32>,
    classes: Vec<usize>,
    /// Features of the shots among them, `[shots, inputs]`.
    shots: Vec<f32>,
    count: usize,
    lambda: f64,
    /// Random features of the samples that the bundle set aside.
    aside: Vec<f32>,
    /// Weights of the classes, `[count, WIDTH]`, and the border's shift.
    weights: Vec<f32>,
    border_shift: f32,
    /// Features that were scored last, and their random features: a session's begin with those of the one before.
    scored: RefCell<(Vec<f32>, Vec<f32>)>,
}

impl<'a> Ridge<'a> {
    /// Fits the regression to the bundle's exemplars; its strength is that with the least error on exemplars left out
    /// in turn.
    fn new(base_model: &'a BaseModel, seed: u64) -> Self {
        let mut random = Random::new(seed, "random features");
        let projection: Vec<f32> = (0..WIDTH * base_model.head.inputs).map(|_| random.normal()).collect();
        let aside = base_model.statistics.as_ref().map_or_else(Vec::new, |statistics| statistics.set_aside.clean());
        let mut ridge = Self {
            base_model,
            projection,
            samples: Vec::new(),
            classes: base_model.exemplars.classes().iter().map(|class| *class as usize).collect(),
            shots: Vec::new(),
            count: base_model.classes.len(),
            lambda: 1.0,
            aside: Vec::new(),
            weights: Vec::new(),
            border_shift: 0.0,
            scored: RefCell::default(),
        };
        ridge.samples = ridge.expand(&base_model.exemplars.clean());
        ridge.aside = ridge.expand(&aside);
        let kernel = ridge.kernel();
        let scale = kernel.trace() / ridge.classes.len().max(1) as f64;
        let strengths = (-12..=4).map(|step| scale * 10f64.powf(f64::from(step) / 4.0));
        let error = |lambda: f64| {
            ridge.solved(&kernel, lambda).map_or(f64::INFINITY, |(_, left_out)| {
                left_out.iter().zip(ridge.targets().iter()).map(|(score, target)| (score - target).powi(2)).sum()
            })
        };
        let best = strengths.map(|lambda| (error(lambda), lambda)).min_by(|a, b| a.0.total_cmp(&b.0));
        ridge.lambda = best.map_or(scale, |(_, lambda)| lambda);
        ridge.fit();
        ridge
    }

    /// Random features of the directions of features.
    fn expand(&self, features: &[f32]) -> Vec<f32> {
        let inputs = self.base_model.head.inputs;
        let mut directions = features.to_vec();
        normalise_rows(&mut directions, inputs);
        let mut expanded = cosines(&directions, &self.projection, inputs);
        expanded.iter_mut().for_each(|value| *value = value.max(0.0));
        expanded
    }

    /// Random features of features that are scored; expands only those that were not expanded before.
    fn expand_scored(&self, features: &[f32]) -> Ref<'_, [f32]> {
        let mut scored = self.scored.borrow_mut();
        let (known, expanded) = &mut *scored;
        if !features.starts_with(known) {
            known.clear();
            expanded.clear();
        }
        let further = &features[known.len()..];
        known.reserve_exact(further.len());
        known.extend_from_slice(further);
        let rows = self.expand(further);
        expanded.reserve_exact(rows.len());
        expanded.extend(rows);
        drop(scored);
        Ref::map(self.scored.borrow(), |(_, expanded)| expanded.as_slice())
    }

    /// Random features of the samples, `[samples, WIDTH]`.
    fn sample_rows(&self) -> DMatrix<f64> {
        DMatrix::from_row_iterator(self.classes.len(), WIDTH, self.samples.iter().map(|value| f64::from(*value)))
    }

    /// Products of samples, `[samples, samples]`, or of random features where these are fewer, `[WIDTH, WIDTH]`.
    fn kernel(&self) -> DMatrix<f64> {
        if self.classes.len() > WIDTH {
            let samples = self.sample_rows();
            return samples.tr_mul(&samples);
        }
        let products = cosines(&self.samples, &self.samples, WIDTH);
        DMatrix::from_iterator(self.classes.len(), self.classes.len(), products.into_iter().map(f64::from))
    }

    /// One where a sample is of a class, `[samples, classes]`.
    fn targets(&self) -> DMatrix<f64> {
        DMatrix::from_fn(self.classes.len(), self.count, |sample, class| f64::from(self.classes[sample] == class))
    }

    /// Dual coefficients, and the scores of samples left out in turn, both `[samples, classes]`; none where the matrix
    /// is not positive definite to the precision of numbers.
    fn solved(&self, kernel: &DMatrix<f64>, lambda: f64) -> Option<(DMatrix<f64>, DMatrix<f64>)> {
        let (inverse, targets) = (regularised_inverse(kernel, lambda)?, self.targets());
        Some(if kernel.nrows() < self.classes.len() {
            solved_by_feature(&self.sample_rows(), &inverse, &targets, lambda)
        } else {
            solved_by_sample(&inverse, &targets)
        })
    }

    fn fit(&mut self) {
        let base = self.base_model.classes.len();
        let Some((coefficients, left_out)) = self.solved(&self.kernel(), self.lambda) else { return };
        // Columns of the product are classes.
        self.weights = self.sample_rows().tr_mul(&coefficients).iter().map(|weight| *weight as f32).collect();
        self.border_shift = 0.0;
        if self.count == base {
            return;
        }
        let aside = self.base_model.statistics.as_ref().map_or(&[][..], |known| known.set_aside.classes());
        let shots: Vec<usize> = (0..self.classes.len()).filter(|sample| self.classes[*sample] >= base).collect();
        let of_shots = shots.iter().map(|shot| self.classes[*shot] as u32);
        let classes: Vec<u32> = aside.iter().copied().chain(of_shots).collect();
        let mut fitting = self.calibrator(&classes);
        let rows = cosines(&self.aside, &self.weights, WIDTH);
        rows.chunks_exact(self.count).for_each(|row| fitting.add(row));
        for shot in shots {
            let row: Vec<f32> = left_out.row(shot).iter().map(|score| *score as f32).collect();
            fitting.add(&row);
        }
        let simplest = self.base_model.statistics.as_ref().map_or(0.0, |known| self.nearest_mean(known, &classes));
        self.border_shift = fitting.choose(Balance::default(), simplest, 0.0).border.shift;
    }

    /// To choose a border as ours is chosen, by the clean views of shots.
    fn calibrator<'c>(&self, classes: &'c [u32]) -> Calibrator<'c> {
        let fitting = Calibrator::new(classes, self.base_model.classes.len(), self.count);
        let Some(known) = &self.base_model.statistics else { return fitting };
        fitting.with_accuracy_ratio(known.set_aside.len(), known.accuracy_ratio())
    }

    /// Accuracy over all classes of the nearest class mean on the samples by which the border is chosen, of these
    /// classes: those that the bundle set aside, then the shots, each left out of its class's mean.
    fn nearest_mean(&self, known: &Statistics, classes: &[u32]) -> f32 {
        let inputs = self.base_model.head.inputs;
        let seen = |mut features: Vec<f32>| {
            features.chunks_exact_mut(inputs).for_each(|one| direction(one, &known.centre));
            features
        };
        let (aside, shots) = (seen(known.set_aside.clean()), seen(self.shots.clone()));
        let of_shots = &classes[known.set_aside.len()..];
        let mut sums = known.directions.clean();
        sums.resize(self.count * inputs, 0.0);
        for (shot, &class) in shots.chunks_exact(inputs).zip(of_shots) {
            add_scaled(&mut sums[class as usize * inputs..][..inputs], 1.0, shot);
        }
        let mut means = sums.clone();
        normalise_rows(&mut means, inputs);
        let mut fitting = self.calibrator(classes);
        let rows = cosines(&aside, &means, inputs);
        rows.chunks_exact(self.count).for_each(|row| fitting.add(row));
        for (shot, &class) in shots.chunks_exact(inputs).zip(of_shots) {
            let mut row = cosines(shot, &means, inputs);
            let mut rest = sums[class as usize * inputs..][..inputs].to_vec();
            add_scaled(&mut rest, -1.0, shot);
            normalise(&mut rest);
            row[class as usize] = dot(&rest, shot);
            fitting.add(&row);
        }
        fitting.accuracy()
    }
}

/// The inverse of products to which lambda was added on the diagonal.
fn regularised_inverse(products: &DMatrix<f64>, lambda: f64) -> Option<DMatrix<f64>> {
    let size = products.nrows();
    let factor: Cholesky<f64, Dyn> = Cholesky::new(products + DMatrix::identity(size, size) * lambda)?;
    Some(factor.inverse())
}

/// What [`Ridge::solved`] gives, by the inverse in the dual form, `[samples, samples]`.
fn solved_by_sample(inverse: &DMatrix<f64>, targets: &DMatrix<f64>) -> (DMatrix<f64>, DMatrix<f64>) {
    let coefficients = inverse * targets;
    let left_out = DMatrix::from_fn(targets.nrows(), targets.ncols(), |sample, class| {
        targets[(sample, class)] - coefficients[(sample, class)] / inverse[(sample, sample)]
    });
    (coefficients, left_out)
}

/// The same by the inverse in the primal form, `[features, features]`.
fn solved_by_feature(
    samples: &DMatrix<f64>,
    inverse: &DMatrix<f64>,
    targets: &DMatrix<f64>,
    lambda: f64,
) -> (DMatrix<f64>, DMatrix<f64>) {
    let projected = samples * inverse;
    let weights = projected.tr_mul(targets);
    let residuals = targets - samples * weights;
    // Lambda times the diagonal of the dual form's inverse.
    let diagonal: Vec<f64> =
        (0..samples.nrows()).map(|sample| 1.0 - projected.row(sample).dot(&samples.row(sample))).collect();
    let left_out = DMatrix::from_fn(targets.nrows(), targets.ncols(), |sample, class| {
        targets[(sample, class)] - residuals[(sample, class)] / diagonal[sample]
    });
    (residuals / lambda, left_out)
}

impl FeatureLearner for Ridge<'_> {
    /// Fits it to further classes, too, and chooses the border as ours is chosen.
    fn learn(&mut self, new: &[NewClass], _: OnProgress<'_>) -> Result<f64, LearnError> {
        for class in new {
            self.classes.extend(class.shots.iter().map(|_| self.count));
            let shots = clean(class, self.base_model.head.inputs);
            self.samples.extend(self.expand(&shots));
            self.shots.extend(shots);
            self.count += 1;
        }
        self.fit();
        Ok(0.0)
    }

    /// The border is among them.
    fn scores(&self, features: &[f32]) -> Vec<f32> {
        let mut scores = cosines(&self.expand_scored(features), &self.weights, WIDTH);
        let base = self.base_model.classes.len();
        scores
            .chunks_exact_mut(self.count)
            .for_each(|row| row[base..].iter_mut().for_each(|to| *to += self.border_shift));
        scores
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orco_core::config::MethodConfig;
    use orco_core::exemplar::ExemplarPrecision;
    use orco_core::projection::HeadShape;
    use orco_state::bank::Bank;
    use orco_state::head::Head;
    use orco_state::state::Class;

    #[test]
    fn both_forms_give_the_same() {
        let mut random = Random::new(2, "samples");
        let samples = DMatrix::from_fn(9, 6, |_, _| f64::from(random.normal()));
        let targets = DMatrix::from_fn(9, 3, |sample, class| f64::from(sample % 3 == class));
        let lambda = 0.5;
        let [dual, primal] = [&samples * samples.transpose(), samples.tr_mul(&samples)]
            .map(|products| regularised_inverse(&products, lambda).unwrap());
        let (coefficients, left_out) = solved_by_sample(&dual, &targets);
        let primal = solved_by_feature(&samples, &primal, &targets, lambda);
        assert!((coefficients - primal.0).amax() < 1e-9);
        assert!((left_out - primal.1).amax() < 1e-9);
    }

    #[test]
    fn leaving_a_sample_out_gives_what_fitting_without_it_gives() {
        let mut random = Random::new(1, "samples");
        let mut exemplars = Bank::new(4, 1, ExemplarPrecision::F16);
        (0..9).for_each(|sample| exemplars.push(sample % 3, &std::array::from_fn::<f32, 4, _>(|_| random.normal())));
        let class = |target: u32| Class { label: format!("class {target}"), target, session: 0 };
        let base_model = BaseModel {
            dimension: 3,
            targets: vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
            head: Head::zeros(HeadShape { inputs: 4, hidden: 2, outputs: 3 }),
            classes: (0..3).map(class).collect(),
            exemplars,
            config: MethodConfig::closed_form(),
            statistics: None,
        };
        let ridge = Ridge::new(&base_model, 1);
        // Whatever was scored before.
        let features = base_model.exemplars.clean();
        let fresh = ridge.scores(&features);
        for scored in [&features[..8], &features, &features[4..], &features] {
            let expected = Ridge::new(&base_model, 1).scores(scored);
            assert_eq!(ridge.scores(scored), expected);
        }
        assert_eq!(ridge.scores(&features), fresh);
        let (_, left_out) = ridge.solved(&ridge.kernel(), ridge.lambda).unwrap();
        for sample in 0..9 {
            let others: Vec<usize> = (0..9).filter(|other| *other != sample).collect();
            let row = |sample: usize| &ridge.samples[sample * WIDTH..][..WIDTH];
            let without = Ridge {
                samples: others.iter().flat_map(|&other| row(other)).copied().collect(),
                classes: others.iter().map(|&other| ridge.classes[other]).collect(),
                aside: Vec::new(),
                weights: Vec::new(),
                projection: Vec::new(),
                shots: Vec::new(),
                scored: RefCell::default(),
                ..ridge
            };
            let (coefficients, _) = without.solved(&without.kernel(), ridge.lambda).unwrap();
            let kernel = cosines(row(sample), &without.samples, WIDTH);
            for class in 0..3 {
                let product = |(other, product): (usize, &f32)| f64::from(*product) * coefficients[(other, class)];
                let score: f64 = kernel.iter().enumerate().map(product).sum();
                let expected = left_out[(sample, class)];
                assert!((score - expected).abs() < 1e-3 * (1.0 + expected.abs()), "{score} instead of {expected}");
            }
        }
    }
}

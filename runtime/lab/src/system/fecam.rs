//! C-FeCAM's head (FeCAM, Goswami et al., NeurIPS 2023; calibrated for few shots: Goswami et al., CVPR Workshops 2024)
//! on what a bundle carries.
//!
//! A picture gets, for every class, the Mahalanobis distance to its mean under a covariance that is shrunk and
//! normalised to unit variances. The means of new classes are calibrated as TEEN does.
//!
//! Differences from the authors' programs:
//!
//! - All classes share one covariance, that of the bundle's samples around their classes' means: ten samples of a base
//!   class are too few for a covariance of its own.
//! - Features are directions of signed square roots from their centre, of which the bundle has each base class's mean
//!   over all its images.
//! - The calibrated program, written for ViT-B/16, keeps 0.75 to 0.9 of a new class's mean, shrinks by 100 and
//!   normalises the means of all classes. Here 0.5 of the mean is kept, as in TEEN, and shrinkage is 1, as in FeCAM
//!   for ResNets.

use nalgebra::{Cholesky, DMatrix};
use orco_core::discriminant::root_direction;
use orco_core::math::{add_scaled, dot, normalise_rows};
use orco_state::session::{LearnError, NewClass, OnProgress};
use orco_state::state::BaseModel;
use orco_state::statistics::Statistics;
use orco_state::target::cosines;

use crate::method::Method;

use super::means::TEEN_SHIFT;
use super::{SystemSpec, as_measured, clean, mean};
use orco_benchmark::FeatureLearner;

/// How much of the mean variance, and of the mean covariance, is added to every one.
const SHRINKAGE: f64 = 1.0;

pub(super) static C_FECAM: SystemSpec = SystemSpec {
    method: Method {
        name: "c-fecam",
        description: "Mahalanobis distances under one covariance that all classes share, with calibrated means of \
                       learned classes (C-FeCAM, Goswami et al., CVPR Workshops 2024).",
        paper_row: None,
    },
    about: "common covariance, calibrated means; CVPRW 2024",
    trains: false,
    needs_statistics: true,
    settings: as_measured,
    start: |context| Box::new(CFecamHead::new(context.base_model)),
};

/// The distances with what they are measured from.
struct CFecamHead<'a> {
    inputs: usize,
    centre: &'a [f32],
    /// Whitens: |W x|^2 is the squared length under the covariance; `[inputs, inputs]`.
    whitening: Vec<f32>,
    /// Means of the base classes, `[base, inputs]`.
    base: Vec<f32>,
    /// Whitened means of the classes seen, `[classes, inputs]`.
    means: Vec<f32>,
}

impl<'a> CFecamHead<'a> {
    /// # Panics
    /// If the bundle has no statistics ([`crate::System::fits`]).
    fn new(base_model: &'a BaseModel) -> Self {
        let statistics = base_model.statistics.as_ref().expect("asked before");
        let inputs = base_model.head.inputs;
        let centre = &statistics.root_centre[..];
        let base = unwhitened(statistics, inputs);
        let mut samples = mapped(&base_model.exemplars.clean(), centre);
        samples.extend(mapped(&statistics.set_aside.clean(), centre));
        let classes = base_model.exemplars.classes().iter().chain(statistics.set_aside.classes());
        for (row, &class) in samples.chunks_exact_mut(inputs).zip(classes) {
            add_scaled(row, -1.0, &base[class as usize * inputs..][..inputs]);
        }
        let whitening = whitening(normalised(shrunk(covariance(&samples, inputs))));
        let means = cosines(&base, &whitening, inputs);
        Self { inputs, centre, whitening, base, means }
    }
}

/// Roots of features, as directions from their centre.
fn mapped(features: &[f32], centre: &[f32]) -> Vec<f32> {
    let mut rows = features.to_vec();
    rows.chunks_exact_mut(centre.len()).for_each(|row| root_direction(row, centre));
    rows
}

/// The base classes' means before the bundle's own whitening, `[base, inputs]`.
fn unwhitened(statistics: &Statistics, inputs: usize) -> Vec<f32> {
    let (mut means, axes) = (statistics.whitened.clean(), statistics.axes.clean());
    for mean in means.chunks_exact_mut(inputs) {
        mean.iter_mut().for_each(|value| *value /= statistics.factor);
        for (axis, damping) in axes.chunks_exact(inputs).zip(&statistics.damping) {
            let length = dot(axis, axis);
            // Of an axis that was taken away whole nothing is left to be restored.
            let kept = (1.0 - damping * length).max(1e-3);
            let along = dot(axis, mean);
            add_scaled(mean, along * damping / kept, axis);
        }
    }
    means
}

/// Mean product of every two entries of the rows.
fn covariance(rows: &[f32], inputs: usize) -> DMatrix<f64> {
    let samples = (rows.len() / inputs).max(1);
    // Columns of the matrix are samples.
    let rows = DMatrix::from_iterator(inputs, rows.len() / inputs, rows.iter().map(|value| f64::from(*value)));
    &rows * rows.transpose() / samples as f64
}

/// S + g v1 I + g v2 (1 - I), with v1 the mean variance and v2 the mean covariance.
fn shrunk(mut covariance: DMatrix<f64>) -> DMatrix<f64> {
    let size = covariance.nrows();
    let trace = covariance.trace();
    let (variance, pairs) = (trace / size as f64, (size * size - size).max(1) as f64);
    let between = (covariance.sum() - trace) / pairs;
    for row in 0..size {
        for column in 0..size {
            covariance[(row, column)] += SHRINKAGE * if row == column { variance } else { between };
        }
    }
    covariance
}

/// Divided by the deviations, so that every variance is 1.
fn normalised(covariance: DMatrix<f64>) -> DMatrix<f64> {
    let variances: Vec<f64> = covariance.diagonal().iter().map(|variance| variance.max(1e-12)).collect();
    DMatrix::from_fn(covariance.nrows(), covariance.ncols(), |row, column| {
        covariance[(row, column)] / (variances[row] * variances[column]).sqrt()
    })
}

/// A matrix W with W^T W the inverse of a covariance, row-major; the identity where that has none.
fn whitening(covariance: DMatrix<f64>) -> Vec<f32> {
    let size = covariance.nrows();
    let identity = DMatrix::identity(size, size);
    let inverse = Cholesky::new(covariance).and_then(|factor| factor.l().solve_lower_triangular(&identity));
    inverse.unwrap_or(identity).transpose().iter().map(|value| *value as f32).collect()
}

impl FeatureLearner for CFecamHead<'_> {
    fn learn(&mut self, new: &[NewClass], _: OnProgress<'_>) -> Result<f64, LearnError> {
        for class in new {
            let shots = mapped(&clean(class, self.inputs), self.centre);
            let moved = TEEN_SHIFT.moved(&mean(&shots, self.inputs), &self.base);
            self.means.extend(cosines(&moved, &self.whitening, self.inputs));
        }
        Ok(0.0)
    }

    /// Squared distances with their sign turned, less what is the same for all classes.
    fn scores(&self, features: &[f32]) -> Vec<f32> {
        let mut rows = mapped(features, self.centre);
        normalise_rows(&mut rows, self.inputs);
        let whitened = cosines(&rows, &self.whitening, self.inputs);
        let mut scores = cosines(&whitened, &self.means, self.inputs);
        let lengths: Vec<f32> = self.means.chunks_exact(self.inputs).map(|mean| dot(mean, mean) / 2.0).collect();
        let rows = scores.chunks_exact_mut(lengths.len());
        rows.for_each(|row| row.iter_mut().zip(&lengths).for_each(|(score, length)| *score -= length));
        scores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_covariance_is_shrunk_normalised_and_inverted_as_on_paper() {
        // Rows (2, 1) and (-2, 1): variances 4 and 1, covariance 0; mean variance 2.5, mean covariance 0.
        let found = covariance(&[2.0, 1.0, -2.0, 1.0], 2);
        assert_eq!(found, DMatrix::from_row_slice(2, 2, &[4.0, 0.0, 0.0, 1.0]));
        assert_eq!(shrunk(found), DMatrix::from_row_slice(2, 2, &[6.5, 0.0, 0.0, 3.5]));
        // Variances 7 and 5, covariance 2: correlation 2 / sqrt(35).
        let shrunk = shrunk(DMatrix::from_row_slice(2, 2, &[4.0, 1.0, 1.0, 2.0]));
        assert_eq!(shrunk, DMatrix::from_row_slice(2, 2, &[7.0, 2.0, 2.0, 5.0]));
        let normalised = normalised(shrunk);
        assert!((normalised[(0, 1)] - 2.0 / 35f64.sqrt()).abs() < 1e-12 && normalised[(1, 1)] == 1.0);
        // Correlation r: |W (1, 0)|^2 = 1 / (1 - r^2).
        let r = normalised[(0, 1)];
        let whitening = whitening(normalised);
        let (a, b) = (whitening[0], whitening[2]);
        assert!((f64::from(a * a + b * b) - 1.0 / (1.0 - r * r)).abs() < 1e-6, "{whitening:?}");
    }
}

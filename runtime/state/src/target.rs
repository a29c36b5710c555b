//! Pseudo-targets: points spread over the unit sphere, one for each class known or to come.

use alloc::vec;
use alloc::vec::Vec;

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};

use orco_core::assignment::{self, AssignmentMemory};
use orco_core::linalg::{LeftFactor, RightFactor, padded, product, transpose};
use orco_core::loss::{PairScratch, UnitRows, orthogonality};
use orco_core::math::{add_scaled, dot, normalise, normalise_rows};
use orco_core::random::Random;
use orco_core::workers::Serial;

/// How pseudo-targets are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetMethod {
    /// Gradient descent on L_TG: learning rate 1, gradients accumulated from step to step (the published program).
    #[default]
    Optimised,
    /// Random directions made exactly orthogonal; needs at least as many dimensions as targets.
    Orthonormal,
    /// The vertices of a regular simplex in a random position: all cosines -1/(count - 1), the minimum of L_TG; needs
    /// at least `count - 1` dimensions.
    Simplex,
    /// Random directions.
    Random,
}

/// Makes `count` unit vectors of length `dimension`, row-major `[count, dimension]`; `steps` is for
/// [`TargetMethod::Optimised`] alone.
///
/// # Panics
/// If [`TargetMethod::Orthonormal`] or [`TargetMethod::Simplex`] is asked for more targets than fit.
pub fn generate(method: TargetMethod, count: usize, dimension: usize, steps: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed, "pseudo-targets");
    match method {
        TargetMethod::Optimised => {
            let mut targets = random_directions(count, dimension, &mut random);
            let mut generator = TargetGenerator::new(count, dimension);
            for _ in 0..steps {
                generator.step(&mut targets, 1.0);
            }
            targets
        }
        TargetMethod::Orthonormal => orthonormal(count, dimension, &mut random),
        TargetMethod::Simplex => simplex(count, dimension, &mut random),
        TargetMethod::Random => random_directions(count, dimension, &mut random),
    }
}

/// Directions drawn uniformly from the sphere, one a row.
fn random_directions(count: usize, dimension: usize, random: &mut Random) -> Vec<f32> {
    let mut directions: Vec<f32> = (0..count * dimension).map(|_| random.normal()).collect();
    normalise_rows(&mut directions, dimension);
    directions
}

/// Gradient descent on L_TG ([`orthogonality::target_loss`]; OrCo, section 3.1), gradients accumulated over the steps,
/// rows renormalised after each step, as the published program does; [`TargetGenerator::reset_gradient`] before every
/// step gives the paper's plain descent.
#[derive(Clone, Debug)]
pub struct TargetGenerator {
    dimension: usize,
    accumulated: Vec<f32>,
    /// Rows filled up, their gradient, and the loss's working memory.
    unit: Vec<f32>,
    gradient: Vec<f32>,
    pairs: Vec<f32>,
}

impl TargetGenerator {
    /// A descent at its first step.
    pub fn new(count: usize, dimension: usize) -> Self {
        let width = padded(dimension);
        Self {
            dimension,
            accumulated: vec![0.0; count * dimension],
            unit: vec![0.0; count * width],
            gradient: vec![0.0; count * width],
            pairs: vec![0.0; PairScratch::length(count, count, width)],
        }
    }

    /// Zeroes what earlier steps accumulated.
    pub fn reset_gradient(&mut self) {
        self.accumulated.fill(0.0);
    }

    /// Takes one step on `targets` `[count, dimension]` and returns the loss before it.
    pub fn step(&mut self, targets: &mut [f32], learning_rate: f32) -> f32 {
        let (dimension, width) = (self.dimension, padded(self.dimension));
        let normalised = |(to, from): (&mut [f32], &[f32])| {
            to[..dimension].copy_from_slice(from);
            normalise(to)
        };
        let rows = self.unit.chunks_exact_mut(width).zip(targets.chunks_exact(dimension));
        let norms: Vec<f32> = rows.map(normalised).collect();
        self.gradient.fill(0.0);
        let rows = UnitRows { values: &self.unit, width };
        let mut pairs = PairScratch { memory: &mut self.pairs };
        let loss = orthogonality::target_loss(rows, &mut self.gradient, &mut pairs, &Serial);
        let rows = self.accumulated.chunks_exact_mut(dimension).zip(self.gradient.chunks_exact(width));
        for (((sum, gradient), unit), norm) in rows.zip(self.unit.chunks_exact(width)).zip(norms) {
            let along = dot(gradient, unit);
            for ((sum, value), unit) in sum.iter_mut().zip(gradient).zip(unit) {
                *sum += (value - along * unit) / norm;
            }
        }
        add_scaled(targets, -learning_rate, &self.accumulated);
        normalise_rows(targets, dimension);
        loss
    }
}

/// `count` random orthonormal columns, by a QR decomposition whose diagonal is positive.
fn orthonormal_axes(count: usize, dimension: usize, normal: impl FnMut(usize, usize) -> f64) -> DMatrix<f64> {
    let (mut axes, triangle) = DMatrix::from_fn(dimension, count, normal).qr().unpack();
    for (mut axis, diagonal) in axes.column_iter_mut().zip(triangle.diagonal().iter()) {
        axis *= diagonal.signum();
    }
    axes
}

/// Random directions made orthogonal, one a row.
fn orthonormal(count: usize, dimension: usize, random: &mut Random) -> Vec<f32> {
    assert!(count <= dimension, "{count} orthonormal targets do not fit into {dimension} dimensions");
    let axes = orthonormal_axes(count, dimension, |_, _| random.normal().into());
    // Column-major: a column's numbers stand side by side.
    axes.iter().map(|value| *value as f32).collect()
}

/// The regular simplex in a random position. The rows of an orthonormal basis of what is orthogonal to (1, .., 1) are
/// its vertices; random orthonormal axes take them into the space.
fn simplex(count: usize, dimension: usize, random: &mut Random) -> Vec<f32> {
    assert!(count <= dimension + 1, "a simplex of {count} targets does not fit into {dimension} dimensions");
    let axes = orthonormal_axes(count.saturating_sub(1), dimension, |_, _| random.normal().into());
    let with_ones = orthonormal_axes(count, count, |_, column| if column == 0 { 1.0 } else { random.normal().into() });
    let vertices = with_ones.columns(1, count.saturating_sub(1)) * axes.transpose();
    let mut targets: Vec<f32> = vertices.transpose().iter().map(|value| *value as f32).collect();
    if count == 1 {
        targets[0] = 1.0;
    }
    normalise_rows(&mut targets, dimension);
    targets
}

/// Assigns every class mean a target of its own so that the sum of cosines is the highest possible (see
/// [`orco_core::assignment`]).
///
/// # Shapes
/// `means` `[classes, dimension]` and `targets` `[free, dimension]`, unit rows; returns for every class the row of
/// its target.
/// # Panics
/// If there are more classes than targets.
pub fn assign_by_cosine(means: &[f32], targets: &[f32], dimension: usize) -> Vec<usize> {
    let (classes, free) = (means.len() / dimension, targets.len() / dimension);
    let cosines = cosines(means, targets, dimension);
    let AssignmentMemory { numbers, indices } = AssignmentMemory::of(classes, free);
    let (mut assigned, mut numbers, mut indices) = (vec![0; classes], vec![0.0; numbers], vec![0; indices]);
    let cosine = |class: usize, target: usize| cosines[class * free + target];
    assignment::hungarian(&mut assigned, free, cosine, &mut numbers, &mut indices);
    assigned.into_iter().map(|target| target as usize).collect()
}

/// Cosines of unit rows with unit targets: `z` `[n, d]`, `targets` `[t, d]`, result `[n, t]`.
pub fn cosines(z: &[f32], targets: &[f32], dimension: usize) -> Vec<f32> {
    let (rows, columns) = (z.len() / dimension, targets.len() / dimension);
    let mut transposed = vec![0.0; dimension * padded(columns)];
    transpose(columns, dimension, targets, &mut transposed);
    let mut result = vec![0.0; rows * columns];
    let right = RightFactor::rows(&transposed, padded(columns));
    product(rows, dimension, LeftFactor::rows(z, dimension), right, |row, column, sums| {
        let line = &mut result[row * columns..][..columns];
        line.iter_mut().skip(column).zip(sums).for_each(|(to, sum)| *to = *sum);
    });
    result
}

/// Row of `targets` `[t, d]` with the largest inner product, for each row of `z` `[n, d]`; the first of equal ones.
/// Empty if there is no target.
pub fn nearest(z: &[f32], targets: &[f32], dimension: usize) -> Vec<usize> {
    let count = targets.len() / dimension;
    cosines(z, targets, dimension).chunks_exact(count.max(1)).map(argmax).collect()
}

/// Index of the largest number, the first of equal ones.
pub fn argmax(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, index| if row[index] > row[best] { index } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimised_targets_form_a_simplex() {
        let (count, dimension) = (20, 24);
        let targets = generate(TargetMethod::Optimised, count, dimension, 1000, 3);
        let gram = cosines(&targets, &targets, dimension);
        for (index, cosine) in gram.iter().enumerate() {
            let expected = if index % (count + 1) == 0 { 1.0 } else { -1.0 / (count as f32 - 1.0) };
            assert!((cosine - expected).abs() < 1e-2, "{index}: {cosine}");
        }
    }

    #[test]
    fn simplex_targets_have_equal_cosines() {
        for (count, dimension) in [(1, 4), (2, 4), (5, 4), (20, 24)] {
            let targets = generate(TargetMethod::Simplex, count, dimension, 0, 3);
            for (index, cosine) in cosines(&targets, &targets, dimension).iter().enumerate() {
                let expected = if index % (count + 1) == 0 { 1.0 } else { -1.0 / (count as f32 - 1.0) };
                assert!((cosine - expected).abs() < 1e-5, "{count} in {dimension}, {index}: {cosine}");
            }
        }
    }

    #[test]
    fn orthonormal_targets_are_orthonormal() {
        let targets = generate(TargetMethod::Orthonormal, 16, 16, 0, 3);
        for (index, cosine) in cosines(&targets, &targets, 16).iter().enumerate() {
            let expected = if index % 17 == 0 { 1.0 } else { 0.0 };
            assert!((cosine - expected).abs() < 1e-5, "{index}: {cosine}");
        }
    }
}

//! L_TG over pseudo-targets, and ORTH over class means and pseudo-targets.

use alloc::vec::Vec;

use super::exponentiate;
use crate::linalg::{multiply, multiply_transposed};
use crate::math::{add_scaled, dot, normalise};

/// Working memory of this module's losses.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    similarity: Vec<f32>,
    rows: Vec<f32>,
    norms: Vec<f32>,
    gradient: Vec<f32>,
}

/// L_TG(T) = 1/n sum_i log sum_j exp(t_i . t_j), temperature 1, j = i included (OrCo, section 3.1).
///
/// The gradient is (P + P^T) T / n with P the row-wise softmax of T T^T.
///
/// # Shapes
/// `rows` `[n, dimension]` unit rows; adds to `gradient` of the same shape; returns the loss.
pub fn loss(rows: &[f32], dimension: usize, gradient: &mut [f32], scratch: &mut Scratch) -> f32 {
    let Scratch { similarity, .. } = scratch;
    loss_in(rows, dimension, gradient, similarity)
}

fn loss_in(rows: &[f32], dimension: usize, gradient: &mut [f32], similarity: &mut Vec<f32>) -> f32 {
    let n = rows.len() / dimension;
    similarity.resize(n * n, 0.0);
    multiply_transposed(n, dimension, n, rows, rows, 0.0, similarity);
    let mut total = 0.0f64;
    for row in similarity.chunks_exact_mut(n) {
        let (log_sum, sum) = exponentiate(row);
        total += f64::from(log_sum);
        let factor = 1.0 / (sum * n as f32);
        row.iter_mut().for_each(|value| *value *= factor);
    }
    for i in 0..n {
        for k in 0..i {
            let value = similarity[i * n + k] + similarity[k * n + i];
            similarity[i * n + k] = value;
            similarity[k * n + i] = value;
        }
        similarity[i * n + i] *= 2.0;
    }
    multiply(n, n, dimension, similarity, rows, 1.0, gradient);
    (total / n as f64) as f32
}

/// Which rows of a batch make up the means of classes.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    /// For every row the mean to which it belongs, if any, `[n]`.
    pub of_rows: &'a [Option<usize>],
    /// Number of means; each must have a member.
    pub means: usize,
}

/// ORTH: L_TG over the normalised means of the batch's classes and the given targets (OrCo, section 3.3), which are
/// those that stand for absent classes and the free ones.
///
/// # Shapes
/// `z` `[n, dimension]` unit rows, `targets` `[t, dimension]`; adds `weight` times its gradient to `gradient`
/// `[n, dimension]`; returns the unweighted loss.
pub fn with_means(
    z: &[f32],
    dimension: usize,
    members: &Members<'_>,
    targets: &[f32],
    weight: f32,
    gradient: &mut [f32],
    scratch: &mut Scratch,
) -> f32 {
    let Members { of_rows, means } = *members;
    let Scratch { similarity, rows, norms, gradient: row_gradient } = scratch;
    rows.clear();
    rows.resize(means * dimension, 0.0);
    rows.extend_from_slice(targets);
    let counted = || of_rows.iter().enumerate().filter_map(|(row, mean)| Some((row, (*mean)?)));
    let mut counts = alloc::vec![0usize; means];
    for (row, mean) in counted() {
        counts[mean] += 1;
        add_scaled(&mut rows[mean * dimension..][..dimension], 1.0, &z[row * dimension..][..dimension]);
    }
    norms.clear();
    for (mean, count) in rows.chunks_exact_mut(dimension).zip(&counts) {
        mean.iter_mut().for_each(|value| *value /= *count as f32);
        norms.push(normalise(mean));
    }
    row_gradient.clear();
    row_gradient.resize(rows.len(), 0.0);
    let loss = loss_in(rows, dimension, row_gradient, similarity);
    for (row, mean) in counted() {
        let unit = &rows[mean * dimension..][..dimension];
        let upstream = &row_gradient[mean * dimension..][..dimension];
        let along = dot(upstream, unit);
        let factor = weight / (norms[mean] * counts[mean] as f32);
        let target = &mut gradient[row * dimension..][..dimension];
        for ((value, upstream), unit) in target.iter_mut().zip(upstream).zip(unit) {
            *value += factor * (upstream - along * unit);
        }
    }
    loss
}

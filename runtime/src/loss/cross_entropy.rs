//! Cross entropy over cosine logits.

use alloc::vec::Vec;

use super::exponentiate;
use crate::linalg::{multiply, multiply_transposed};

/// Working memory of [`loss`].
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    logits: Vec<f32>,
}

/// Cross entropy over the cosines with the assigned targets, temperature 1; rows whose label is `None` do not count.
///
/// With p the softmax of a row of Z T^T and e the one-hot label, the gradient is (p - e) T / m over the m rows that
/// count.
///
/// # Shapes
/// `z` `[n, dimension]` unit rows, `targets` `[classes, dimension]` unit rows, `labels` `[n]`; adds `weight` times its
/// gradient to `gradient` `[n, dimension]`; returns the unweighted loss, 0 if no row counts.
pub fn loss(
    z: &[f32],
    dimension: usize,
    targets: &[f32],
    labels: &[Option<usize>],
    weight: f32,
    gradient: &mut [f32],
    scratch: &mut Scratch,
) -> f32 {
    let (n, classes) = (labels.len(), targets.len() / dimension);
    let counted = labels.iter().flatten().count();
    if counted == 0 {
        return 0.0;
    }
    let logits = &mut scratch.logits;
    logits.resize(n * classes, 0.0);
    multiply_transposed(n, dimension, classes, z, targets, 0.0, logits);
    let factor = weight / counted as f32;
    let mut total = 0.0f64;
    for (row, label) in logits.chunks_exact_mut(classes).zip(labels) {
        let Some(label) = *label else {
            row.fill(0.0);
            continue;
        };
        let hit = row[label];
        let (log_sum, sum) = exponentiate(row);
        total += f64::from(log_sum - hit);
        row.iter_mut().for_each(|value| *value *= factor / sum);
        row[label] -= factor;
    }
    multiply(n, classes, dimension, logits, targets, 1.0, gradient);
    (total / counted as f64) as f32
}

//! Contrastive losses over rows with labels: the form of phase 1 (SCL, SSCL) and PSCL of phases 2 and 3.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::exponentiate;
use crate::linalg::{multiply, multiply_transposed};

/// Where the sum over an anchor's positives stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Mean over the positives p of -log(e^{s_p} / sum_{k != anchor} e^{s_k}): PSCL in the published program.
    #[default]
    Outside,
    /// -log(sum_p e^{s_p} / sum_{k != anchor} e^{s_k}): SCL and SSCL in the published program.
    Inside,
    /// Mean over the positives p of -log(e^{s_p} / sum_n e^{s_n}), n over the negatives alone: the paper's Eq. 2.
    Negatives,
}

/// Working memory of [`loss`].
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    similarity: Vec<f32>,
    coefficient: Vec<f32>,
}

/// Contrastive loss: the mean over all anchors that have a positive (a row of equal label other than itself) and, for
/// [`Form::Negatives`], a negative.
///
/// With s_ik = z_i . z_k / t and p_i the softmax of s_i over the rows in the denominator, the gradient with respect to
/// s_ik is p_ik - q_ik, where q_i is uniform over the positives ([`Form::Outside`], [`Form::Negatives`]) or
/// proportional to e^{s_ik} over them ([`Form::Inside`]); S = Z Z^T / t makes it dZ = (G + G^T) Z / t.
///
/// # Shapes
/// `z` `[n, dimension]` unit rows, `labels` `[n]`; adds to `gradient` `[n, dimension]`; returns the loss.
pub fn loss(
    z: &[f32],
    dimension: usize,
    labels: &[u32],
    temperature: f32,
    form: Form,
    gradient: &mut [f32],
    scratch: &mut Scratch,
) -> f32 {
    let n = labels.len();
    let counts = |i: usize| {
        let positives = (0..n).filter(|&k| k != i && labels[k] == labels[i]).count();
        let usable = positives > 0 && (form != Form::Negatives || positives + 1 < n);
        usable.then_some(positives)
    };
    let anchors = (0..n).filter(|&i| counts(i).is_some()).count();
    if anchors == 0 {
        return 0.0;
    }
    let Scratch { similarity, coefficient } = scratch;
    similarity.resize(n * n, 0.0);
    multiply_transposed(n, dimension, n, z, z, 0.0, similarity);
    let inverse_temperature = 1.0 / temperature;
    let weight = 1.0 / anchors as f32;
    let mut total = 0.0f64;
    for (i, row) in similarity.chunks_exact_mut(n).enumerate() {
        let positive = |k: usize| k != i && labels[k] == labels[i];
        let Some(positives) = counts(i) else {
            row.fill(0.0);
            continue;
        };
        row.iter_mut().for_each(|value| *value *= inverse_temperature);
        let hits: f32 = (0..n).filter(|&k| positive(k)).map(|k| row[k]).sum();
        row[i] = f32::NEG_INFINITY;
        if form == Form::Negatives {
            (0..n).filter(|&k| positive(k)).for_each(|k| row[k] = f32::NEG_INFINITY);
        }
        let (log_sum, sum) = exponentiate(row);
        let positive_sum: f32 = (0..n).filter(|&k| positive(k)).map(|k| row[k]).sum();
        let share = match form {
            Form::Outside | Form::Negatives => {
                total += f64::from(log_sum - hits / positives as f32);
                1.0 / positives as f32
            }
            Form::Inside => {
                total -= f64::from(crate::math::ln((positive_sum / sum).max(f32::MIN_POSITIVE)));
                1.0 / positive_sum.max(f32::MIN_POSITIVE)
            }
        };
        for (k, value) in row.iter_mut().enumerate() {
            let wanted = match form {
                _ if !positive(k) => 0.0,
                Form::Outside | Form::Negatives => share,
                Form::Inside => *value * share,
            };
            *value = (*value / sum - wanted) * weight * inverse_temperature;
        }
    }
    symmetrise(similarity, n, coefficient);
    multiply(n, n, dimension, coefficient, z, 1.0, gradient);
    (total / anchors as f64) as f32
}

/// G + G^T.
fn symmetrise(square: &[f32], n: usize, sum: &mut Vec<f32>) {
    sum.resize(n * n, 0.0);
    for i in 0..n {
        for k in 0..=i {
            let value = square[i * n + k] + square[k * n + i];
            sum[i * n + k] = value;
            sum[k * n + i] = value;
        }
    }
}

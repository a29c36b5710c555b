//! Cross entropy over cosine logits.

use super::{GradientAccumulator, UnitRows, add_to, exponentiate};
use crate::linalg::{LeftFactor, RightFactor, padded, product};
use crate::workers::{Workers, for_each_chunk};

/// Rows that are handled together by one thread.
const ROWS: usize = 16;

/// The targets that a softmax runs over.
#[derive(Clone, Copy, Debug)]
pub struct ClassRows<'a> {
    /// `[classes, width]` unit rows.
    pub targets: UnitRows<'a>,
    /// Their transpose, as [`crate::linalg::pack_transposed`] leaves it; further targets may follow in it.
    pub transposed: &'a [f32],
    /// The first class that the softmax runs over: those before it are no alternative.
    pub first: usize,
}

/// What cross entropy is computed over.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyBatch<'a, L> {
    /// `[n, width]` unit rows: projections.
    pub rows: UnitRows<'a>,
    /// Says of a row, 0..n, which class it belongs to; `None` leaves it out. No label is below [`ClassRows::first`].
    pub label: L,
    /// The targets that the softmax runs over.
    pub classes: ClassRows<'a>,
}

/// Numbers of working memory needed for this many rows and classes.
pub const fn memory(rows: usize, classes: usize) -> usize {
    rows * (padded(classes) + 1)
}

/// CE: cross entropy over the cosines with the assigned targets (OrCo, Eq. 5), temperature 1: the mean over rows z of
/// -log(exp(z . t_y) / sum_c exp(z . t_c)), y the row's label, c over the classes from `first` on. Rows whose label is
/// `None` do not count.
///
/// With p the softmax of a row of Z T^T and o the one-hot label, the gradient is (p - o) T / m over the m rows that
/// count.
///
/// # Shapes
/// `gradient` is `[n, width]`; `scratch` holds [`memory`] numbers. Returns the loss, 0 if no row counts.
pub fn loss(
    batch: CrossEntropyBatch<'_, impl Fn(usize) -> Option<usize> + Sync>,
    gradient: GradientAccumulator<'_>,
    scratch: &mut [f32],
    workers: &dyn Workers,
) -> f32 {
    let CrossEntropyBatch { rows, label, classes } = batch;
    let GradientAccumulator { weight, values: gradient } = gradient;
    let (count, width, known) = (rows.count(), rows.width, classes.targets.count());
    let counted = (0..count).filter(|&row| label(row).is_some()).count();
    if counted == 0 {
        return 0.0;
    }
    let stride = padded(known);
    let (logits, rest) = scratch.split_at_mut(count * stride);
    let losses = &mut rest[..count];
    let factor = weight / counted as f32;
    let buffers = [(logits, ROWS * stride), (&mut *losses, ROWS), (gradient, ROWS * width)];
    for_each_chunk(workers, buffers, |block, [logits, losses, gradient]| {
        let left = LeftFactor::rows(&rows.values[block * ROWS * width..], width);
        product(
            losses.len(),
            width,
            left,
            RightFactor::packed(classes.transposed, width, stride),
            |row, column, sums| {
                logits[row * stride + column..][..sums.len()].copy_from_slice(sums);
            },
        );
        for (row, (line, loss)) in logits.chunks_exact_mut(stride).zip(&mut *losses).enumerate() {
            let line = &mut line[..known];
            *loss = 0.0;
            let Some(label) = label(block * ROWS + row) else {
                line.fill(0.0);
                continue;
            };
            line[..classes.first].fill(f32::NEG_INFINITY);
            let hit = line[label];
            let (log_sum, sum) = exponentiate(line);
            *loss = log_sum - hit;
            line.iter_mut().for_each(|value| *value *= factor / sum);
            line[label] -= factor;
        }
        let right = RightFactor::rows(classes.targets.values, width);
        product(losses.len(), known, LeftFactor::rows(logits, stride), right, add_to(gradient, width, 1.0));
    });
    let total: f64 = losses.iter().map(|loss| f64::from(*loss)).sum();
    (total / counted as f64) as f32
}

//! ORTH over class means and pseudo-targets, and L_TG over pseudo-targets alone, by which these are generated.

use super::{GradientAccumulator, PairScratch, UnitRows, exponentiate};
use crate::math::{add_scaled, dot, normalise};
use crate::workers::Workers;

/// L_TG(T) = 1/n sum_i log sum_j exp(t_i . t_j / tau_o), tau_o = 1, over n rows, j = i included (OrCo, section 3.1).
///
/// The gradient is (P + P^T) T / n with P the row-wise softmax of T T^T.
///
/// # Shapes
/// `rows` `[n, width]`; adds its gradient to `gradient` `[m, width]`, that of the first m rows; returns the loss, 0 if
/// there is no row.
pub fn target_loss(
    rows: UnitRows<'_>,
    gradient: &mut [f32],
    pairs: &mut PairScratch<'_>,
    workers: &dyn Workers,
) -> f32 {
    let n = rows.count();
    if n == 0 {
        return 0.0;
    }
    let total = pairs.sum_over_rows(rows, 1.0, 1.0 / n as f32, gradient, workers, |_, row| {
        let (log_sum, sum) = exponentiate(row);
        row.iter_mut().for_each(|value| *value /= sum);
        log_sum
    });
    (total / n as f64) as f32
}

/// What ORTH is computed of: the rows of a batch, and which mean each belongs to.
#[derive(Clone, Copy, Debug)]
pub struct OrthogonalityBatch<'a, M> {
    /// `[n, width]` unit rows: projections.
    pub rows: UnitRows<'a>,
    /// Says of a row, 0..n, which of the means it belongs to, if any. Each mean has a row.
    pub mean_of: M,
}

/// Working memory of [`loss`].
#[derive(Debug)]
pub struct OrthogonalityScratch<'a> {
    /// `[means + targets, width]`: room for the means, then the targets, put there by the caller.
    pub rows: &'a mut [f32],
    /// `[means, width]`.
    pub gradient: &'a mut [f32],
    /// `[means]`.
    pub norms: &'a mut [f32],
    /// `[means]`.
    pub counts: &'a mut [u32],
    /// For `means + targets` rows, `means` of them with gradients.
    pub pairs: PairScratch<'a>,
}

/// ORTH: L_TG over the normalised means of the batch's classes and the given targets (OrCo, section 3.3, Eq. 7): those
/// of classes without a mean, and the free ones.
///
/// With m = |a| of a class's average a over its b rows, and d the gradient with respect to a / m, each of these rows
/// gets (d - (d . a / m) a / m) / (m b).
///
/// # Shapes
/// `gradient` is `[n, width]`. Returns the loss.
pub fn loss(
    batch: OrthogonalityBatch<'_, impl Fn(usize) -> Option<usize>>,
    gradient: GradientAccumulator<'_>,
    scratch: OrthogonalityScratch<'_>,
    workers: &dyn Workers,
) -> f32 {
    let OrthogonalityBatch { rows, mean_of } = batch;
    let GradientAccumulator { weight, values: gradient } = gradient;
    let OrthogonalityScratch { rows: all, gradient: mean_gradient, norms, counts, mut pairs } = scratch;
    let width = rows.width;
    let means = mean_gradient.len() / width;
    all[..means * width].fill(0.0);
    counts.fill(0);
    let members = || (0..rows.count()).filter_map(|row| Some((row, mean_of(row)?)));
    for (row, mean) in members() {
        counts[mean] += 1;
        add_scaled(&mut all[mean * width..][..width], 1.0, rows.row(row));
    }
    for ((mean, count), norm) in all.chunks_exact_mut(width).zip(&*counts).zip(&mut *norms) {
        mean.iter_mut().for_each(|value| *value /= *count as f32);
        *norm = normalise(mean);
    }
    mean_gradient.fill(0.0);
    let loss = target_loss(UnitRows { values: all, width }, mean_gradient, &mut pairs, workers);
    for (row, mean) in members() {
        let unit = &all[mean * width..][..width];
        let upstream = &mean_gradient[mean * width..][..width];
        let along = dot(upstream, unit);
        // A mean of opposite rows has no direction, and no gradient either.
        let factor =
            if norms[mean] > crate::math::SHORTEST { weight / (norms[mean] * counts[mean] as f32) } else { 0.0 };
        let target = &mut gradient[row * width..][..width];
        for ((value, upstream), unit) in target.iter_mut().zip(upstream).zip(unit) {
            *value += factor * (upstream - along * unit);
        }
    }
    loss
}

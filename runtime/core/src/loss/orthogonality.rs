//! ORTH over class means and pseudo-targets, and L_TG over pseudo-targets alone, which generates them.

use super::{GradientAccumulator, PairScratch, UnitRows, add_to, exponentiate};
use crate::linalg::kernel::on_vector_units;
use crate::linalg::{LeftFactor, RightFactor, pack_transposed, padded, product};
use crate::math::{SHORTEST, add_scaled, dot, exp, ln, normalise, sum};
use crate::workers::{Workers, for_each_chunk};

/// Rows that are handled together by one thread.
const ROWS: usize = 8;

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

/// All pseudo-targets, prepared for [`loss`]. They do not move, so their transpose and sums hold for every step.
#[derive(Clone, Copy, Debug)]
pub struct OrthogonalityTargets<'a> {
    /// `[targets, width]` unit rows.
    pub rows: UnitRows<'a>,
    /// Their transpose, as [`pack_transposed`] leaves it.
    pub transposed: &'a [f32],
    /// Their [`target_sums`], `[targets]`.
    pub sums: &'a [f32],
}

/// For every target t_i the sum of exp(t_i . t_j - 1) over all targets t_j.
///
/// # Shapes
/// `rows` `[targets, width]`, `transposed` their transpose, as [`pack_transposed`] leaves it, `sums` `[targets]`;
/// `scratch` holds [`memory`] numbers for these targets and any number of means.
pub fn target_sums(
    rows: UnitRows<'_>,
    transposed: &[f32],
    sums: &mut [f32],
    scratch: &mut [f32],
    workers: &dyn Workers,
) {
    let (count, width) = (rows.count(), rows.width);
    if count == 0 {
        return;
    }
    let stride = padded(count);
    let at_once = scratch.len() / stride;
    for (block_rows, sums) in rows.values.chunks(at_once * width).zip(sums.chunks_mut(at_once)) {
        let lines = &mut scratch[..sums.len() * stride];
        for_each_chunk(workers, [(lines, ROWS * stride), (sums, ROWS)], |block, [lines, sums]| {
            let rows = &block_rows[block * ROWS * width..][..sums.len() * width];
            exponentials(UnitRows { values: rows, width }, transposed, lines, stride);
            let lines = lines.chunks_exact(stride).map(|line| &line[..count]);
            sums.iter_mut().zip(lines).for_each(|(to, line)| *to = sum_of(line));
        });
    }
}

/// A batch as [`loss`] takes it: its rows, and the mean that each belongs to.
#[derive(Clone, Copy, Debug)]
pub struct OrthogonalityBatch<'a, M> {
    /// `[n, width]` unit rows: projections.
    pub rows: UnitRows<'a>,
    /// The mean, if any, that a row 0..n belongs to. Each mean has a row.
    pub mean_of: M,
    /// For each mean the target of its class, which it replaces in the loss, `[means]`; all of them differ.
    pub target_of_mean: &'a [u32],
}

/// Working memory of [`loss`].
#[derive(Debug)]
pub struct OrthogonalityScratch<'a> {
    /// [`memory`] numbers.
    pub numbers: &'a mut [f32],
    /// `[means, width]`.
    pub gradient: &'a mut [f32],
    /// `[means]`.
    pub norms: &'a mut [f32],
    /// `[means]`.
    pub counts: &'a mut [u32],
}

/// Numbers of working memory needed for this many means and targets.
pub const fn memory(means: usize, targets: usize, width: usize) -> usize {
    let lines = if means == 0 { 1 } else { 2 * means };
    2 * means * width + lines * padded(targets) + targets + padded(means) * (width + means) + means
}

/// ORTH: L_TG over the normalised means of the batch's classes and the targets of all others, the free ones among them
/// (OrCo, section 3.3, Eq. 7).
///
/// Targets do not move, so most of each sum in L_TG is known in advance: from the sum of target t_i, the terms of the
/// batch's targets are subtracted, and the terms of the means are added.
///
/// With m = |a| of a class's average a over its b rows, and d the gradient with respect to a / m, each of these rows
/// gets (d - (d . a / m) a / m) / (m b).
///
/// # Shapes
/// `gradient` is `[n, width]`. Returns the loss.
pub fn loss(
    batch: OrthogonalityBatch<'_, impl Fn(usize) -> Option<usize>>,
    targets: OrthogonalityTargets<'_>,
    gradient: GradientAccumulator<'_>,
    scratch: OrthogonalityScratch<'_>,
    workers: &dyn Workers,
) -> f32 {
    let OrthogonalityBatch { rows, mean_of, target_of_mean } = batch;
    let GradientAccumulator { weight, values: gradient } = gradient;
    let OrthogonalityScratch { numbers, gradient: mean_gradient, norms, counts } = scratch;
    let (width, length) = (rows.width, target_of_mean.len() * rows.width);
    let (means, numbers) = numbers.split_at_mut(length);
    means.fill(0.0);
    counts.fill(0);
    let members = || (0..rows.count()).filter_map(|row| Some((row, mean_of(row)?)));
    for (row, mean) in members() {
        counts[mean] += 1;
        add_scaled(&mut means[mean * width..][..width], 1.0, rows.row(row));
    }
    for ((mean, count), norm) in means.chunks_exact_mut(width).zip(&*counts).zip(&mut *norms) {
        mean.iter_mut().for_each(|value| *value /= *count as f32);
        *norm = normalise(mean);
    }
    let means = UnitRows { values: means, width };
    let loss = loss_of_means(means, target_of_mean, targets, mean_gradient, numbers, workers);
    for (row, mean) in members() {
        let unit = means.row(mean);
        let upstream = &mean_gradient[mean * width..][..width];
        let along = dot(upstream, unit);
        // A mean of opposite rows has no direction, and no gradient either.
        let factor = if norms[mean] > SHORTEST { weight / (norms[mean] * counts[mean] as f32) } else { 0.0 };
        let row_gradient = &mut gradient[row * width..][..width];
        for ((value, upstream), unit) in row_gradient.iter_mut().zip(upstream).zip(unit) {
            *value += factor * (upstream - along * unit);
        }
    }
    loss
}

/// [`target_loss`] over unit rows of means, `[means, width]`, and all targets but those that the means replace; writes
/// the gradient with respect to the means.
///
/// With e_ij = exp(r_i . r_j - 1) and s_i the sum of e_ij over all n rows r_j, the loss is 1/n sum_i (1 + log s_i), and
/// the gradient with respect to r_k is 1/n sum_i e_ik (1 / s_i + 1 / s_k) r_i.
fn loss_of_means(
    means: UnitRows<'_>,
    target_of_mean: &[u32],
    targets: OrthogonalityTargets<'_>,
    gradient: &mut [f32],
    numbers: &mut [f32],
    workers: &dyn Workers,
) -> f32 {
    let (count, target_count, width) = (means.count(), targets.rows.count(), means.width);
    let (stride, mean_stride) = (padded(target_count), padded(count));
    let (replaced, rest) = numbers.split_at_mut(count * width);
    let (of_means, rest) = rest.split_at_mut(count * stride);
    let (of_replaced, rest) = rest.split_at_mut(count * stride);
    let (sums, rest) = rest.split_at_mut(target_count);
    let (transposed, rest) = rest.split_at_mut(width * mean_stride);
    let (among_means, rest) = rest.split_at_mut(count * mean_stride);
    let mean_sums = &mut rest[..count];
    for (row, target) in replaced.chunks_exact_mut(width).zip(target_of_mean) {
        row.copy_from_slice(targets.rows.row(*target as usize));
    }
    for (rows, lines) in [(means.values, &mut *of_means), (&*replaced, &mut *of_replaced)] {
        for_each_chunk(workers, [(lines, ROWS * stride)], |block, [lines]| {
            let rows = UnitRows { values: &rows[block * ROWS * width..], width };
            exponentials(rows, targets.transposed, lines, stride);
        });
    }
    pack_transposed(count, width, means.values, transposed);
    exponentials(means, transposed, among_means, mean_stride);
    sums.copy_from_slice(targets.sums);
    of_replaced.chunks_exact(stride).for_each(|line| add_scaled(sums, -1.0, &line[..target_count]));
    of_means.chunks_exact(stride).for_each(|line| add_scaled(sums, 1.0, &line[..target_count]));
    // A replaced target is no row. Infinity stands for its sum, so its inverse is 0.
    for &target in target_of_mean {
        sums[target as usize] = f32::INFINITY;
        of_means.chunks_exact_mut(stride).for_each(|line| line[target as usize] = 0.0);
    }
    let mut total = 0.0;
    let mut add_log_and_invert = |sum: f32| {
        total += f64::from(1.0 + ln(sum));
        1.0 / sum
    };
    for value in &mut *sums {
        *value = if *value == f32::INFINITY { 0.0 } else { add_log_and_invert(*value) };
    }
    let lines = of_means.chunks_exact(stride).zip(among_means.chunks_exact(mean_stride.max(1)));
    for (value, (line, among)) in mean_sums.iter_mut().zip(lines) {
        *value = add_log_and_invert(sum_of(&line[..target_count]) + sum_of(&among[..count]));
    }
    let (inverse_sums, inverse_mean_sums, factor) = (&*sums, &*mean_sums, 1.0 / target_count as f32);
    let buffers = [(of_means, ROWS * stride), (among_means, ROWS * mean_stride.max(1)), (gradient, ROWS * width)];
    for_each_chunk(workers, buffers, |block, [lines, among, gradient]| {
        gradient.fill(0.0);
        let own = &inverse_mean_sums[block * ROWS..];
        let target_terms = GradientTerms { rows: targets.rows, inverse_sums, stride, factor };
        target_terms.add(lines, own, gradient);
        let mean_terms = GradientTerms { rows: means, inverse_sums: inverse_mean_sums, stride: mean_stride, factor };
        mean_terms.add(among, own, gradient);
    });
    (total / target_count as f64) as f32
}

/// Rows r_i that add e_ik (1 / s_i + 1 / s_k) r_i to the gradient with respect to r_k.
struct GradientTerms<'a> {
    rows: UnitRows<'a>,
    /// 1 / s_i of every row.
    inverse_sums: &'a [f32],
    /// Length of a line of e_ik.
    stride: usize,
    /// Factor of every term.
    factor: f32,
}

impl GradientTerms<'_> {
    /// Adds the terms of some rows r_k to their gradient; `own_inverse_sums` begins with their 1 / s_k. `lines` holds a
    /// line e_ik for each of them, and is overwritten.
    fn add(&self, lines: &mut [f32], own_inverse_sums: &[f32], gradient: &mut [f32]) {
        let Self { rows, inverse_sums, stride, factor } = *self;
        let width = rows.width;
        for (line, own) in lines.chunks_exact_mut(stride).zip(own_inverse_sums) {
            line.iter_mut().zip(inverse_sums).for_each(|(value, inverse)| *value *= inverse + own);
        }
        let (left, right) = (LeftFactor::rows(lines, stride), RightFactor::rows(rows.values, width));
        product(lines.len() / stride, inverse_sums.len(), left, right, add_to(gradient, width, factor));
    }
}

/// Fills lines of `stride` numbers with exp(r_i . t_j - 1), one line for each of the first rows r_i. `transposed` is
/// the transpose of the rows t_j, packed. What pads a line is undefined.
fn exponentials(rows: UnitRows<'_>, transposed: &[f32], lines: &mut [f32], stride: usize) {
    let width = rows.width;
    let (left, right) = (LeftFactor::rows(rows.values, width), RightFactor::packed(transposed, width, stride));
    product(lines.len() / stride.max(1), width, left, right, |row, column, sums| {
        lines[row * stride + column..][..sums.len()].copy_from_slice(sums);
    });
    exponentiate_cosines(lines);
}

on_vector_units! {
    /// Replaces cosines by exp(cosine - 1), which is 1 at most.
    fn exponentiate_cosines(values: &mut [f32]) -> () {
        values.iter_mut().for_each(|value| *value = exp(*value - 1.0));
    }
}

on_vector_units! {
    fn sum_of(values: &[f32]) -> f32 {
        sum(values)
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::random::Random;
    use crate::workers::Serial;

    const WIDTH: usize = 32;

    fn unit_rows(count: usize, stream: &str) -> Vec<f32> {
        let mut random = Random::new(3, stream);
        let mut rows: Vec<f32> = (0..count * WIDTH).map(|_| random.uniform(-1.0, 1.0)).collect();
        for row in rows.chunks_exact_mut(WIDTH) {
            normalise(row);
        }
        rows
    }

    /// More means than are handled together, none, and as many as targets; targets that fill their padding, and that do
    /// not.
    #[test]
    fn sums_known_in_advance_change_neither_loss_nor_gradient() {
        let cases = [(70, vec![3, 0, 69, 12, 40, 5, 6, 7, 8, 9]), (64, vec![1]), (33, Vec::new()), (3, vec![2, 0, 1])];
        for (count, replaced) in cases {
            let targets = unit_rows(count, "targets");
            let means = unit_rows(replaced.len(), "means");
            let others = targets.chunks_exact(WIDTH).zip(0..).filter(|(_, target)| !replaced.contains(target));
            let all: Vec<f32> = means.iter().chain(others.flat_map(|(row, _)| row)).copied().collect();
            let mut expected = vec![0.0; means.len()];
            let mut memory = vec![0.0; PairScratch::length(count, replaced.len(), WIDTH)];
            let rows = UnitRows { values: &all, width: WIDTH };
            let loss = target_loss(rows, &mut expected, &mut PairScratch { memory: &mut memory }, &Serial);

            let rows = UnitRows { values: &targets, width: WIDTH };
            let mut transposed = vec![0.0; WIDTH * padded(count)];
            pack_transposed(count, WIDTH, &targets, &mut transposed);
            let mut numbers = vec![0.0; super::memory(replaced.len(), count, WIDTH)];
            let mut sums = vec![0.0; count];
            target_sums(rows, &transposed, &mut sums, &mut numbers, &Serial);
            let targets = OrthogonalityTargets { rows, transposed: &transposed, sums: &sums };
            let mut gradient = vec![9.0; means.len()];
            let means = UnitRows { values: &means, width: WIDTH };
            let of_means = loss_of_means(means, &replaced, targets, &mut gradient, &mut numbers, &Serial);
            assert!((of_means - loss).abs() < 1e-6, "{count} targets: {of_means} instead of {loss}");
            for (value, expected) in gradient.iter().zip(&expected) {
                assert!((value - expected).abs() < 1e-7, "{count} targets: {value} instead of {expected}");
            }
        }
    }
}

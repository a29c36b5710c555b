//! What the losses over all pairs of rows have in common.

use super::{UnitRows, add_to};
use crate::linalg::kernel::on_vector_units;
use crate::linalg::{LeftFactor, RightFactor, pack_transposed, padded, product};
use crate::workers::{Workers, for_each_chunk};

/// Rows that are handled together by one thread.
const ROWS: usize = 16;

/// Working memory of a loss over all pairs of rows.
#[derive(Debug)]
pub struct PairScratch<'a> {
    /// [`PairScratch::length`] numbers.
    pub memory: &'a mut [f32],
}

impl PairScratch<'_> {
    /// Numbers needed for a loss over `rows` rows of `width` numbers, with gradients for `wanted` of them.
    pub const fn length(rows: usize, wanted: usize, width: usize) -> usize {
        width * padded(rows) + (rows + wanted) * padded(rows) + rows
    }

    /// Sum over all rows of a loss that depends on the inner products of a row with all rows, s_ik = scale z_i . z_k;
    /// adds the gradient of that sum.
    ///
    /// `of_row(i, s_i)` returns the loss of row i and replaces s_i by the loss's gradient G_i with respect to it; S =
    /// scale Z Z^T then makes dZ = scale (G + G^T) Z, which times `weight` is added to `gradient` for as many leading
    /// rows as that has.
    pub(super) fn sum_over_rows(
        &mut self,
        rows: UnitRows<'_>,
        scale: f32,
        weight: f32,
        gradient: &mut [f32],
        workers: &dyn Workers,
        of_row: impl Fn(usize, &mut [f32]) -> f32 + Sync,
    ) -> f64 {
        let (count, width) = (rows.count(), rows.width);
        let (stride, wanted) = (padded(count), gradient.len() / width);
        let (transposed, rest) = self.memory.split_at_mut(width * stride);
        let (similarity, rest) = rest.split_at_mut(count * stride);
        let (coefficient, rest) = rest.split_at_mut(wanted * stride);
        let losses = &mut rest[..count];
        pack_transposed(count, width, rows.values, transposed);
        let right = RightFactor::packed(transposed, width, stride);
        for_each_chunk(workers, [(&mut *similarity, ROWS * stride), (&mut *losses, ROWS)], |block, [lines, losses]| {
            let left = LeftFactor::rows(&rows.values[block * ROWS * width..], width);
            product(losses.len(), width, left, right, |row, column, sums| {
                let line = &mut lines[row * stride + column..][..sums.len()];
                line.iter_mut().zip(sums).for_each(|(value, sum)| *value = scale * sum);
            });
            for (row, (line, loss)) in lines.chunks_exact_mut(stride).zip(losses).enumerate() {
                *loss = of_row(block * ROWS + row, &mut line[..count]);
            }
        });
        let (similarity, factor) = (&*similarity, weight * scale);
        let buffers = [(gradient, ROWS * width), (coefficient, ROWS * stride)];
        for_each_chunk(workers, buffers, |block, [gradient, lines]| {
            let first = block * ROWS;
            lines.copy_from_slice(&similarity[first * stride..][..lines.len()]);
            add_transposed(lines, &similarity[first..], stride);
            let right = RightFactor::rows(rows.values, width);
            let left = LeftFactor::rows(lines, stride);
            product(lines.len() / stride, count, left, right, add_to(gradient, width, factor));
        });
        losses.iter().map(|loss| f64::from(*loss)).sum()
    }
}

on_vector_units! {
    /// Adds to every row of `to` the column of `from` with the same number; rows of `stride` numbers in both.
    fn add_transposed(to: &mut [f32], from: &[f32], stride: usize) -> () {
        let rows = to.len() / stride;
        for (index, across) in from.chunks(stride).enumerate() {
            let across = &across[..rows.min(across.len())];
            for (row, value) in across.iter().enumerate() {
                to[row * stride + index] += value;
            }
        }
    }
}

//! Epilogues of the matrix products of the head: what becomes of the sums.

use core::ops::Range;

use super::SgdUpdate;
use crate::linalg::{AHEAD, Epilogue, LANES, Prefetch, blocks, blocks_mut};

/// The hidden units of a panel.
pub(super) struct HeadActivation<'a> {
    /// `[rows, LANES]`.
    pub(super) hidden: &'a mut [f32],
    /// `[LANES]`.
    pub(super) biases: &'a [f32],
    /// Whether the sums start here.
    pub(super) first: bool,
    /// Whether the sums end here, so that bias and activation follow.
    pub(super) last: bool,
    /// The weights that come next.
    pub(super) next: Prefetch,
}

impl Epilogue for HeadActivation<'_> {
    const PIECES: usize = 1;

    #[inline(always)]
    fn finish(&mut self, row: usize, column: usize, sums: &[f32]) {
        let hidden = &mut self.hidden[row * LANES + column..][..sums.len()];
        if !self.last {
            return hidden.copy_from_slice(sums);
        }
        let biases = &self.biases[column..][..sums.len()];
        for ((values, sums), biases) in blocks_mut(hidden).iter_mut().zip(blocks(sums)).zip(blocks(biases)) {
            let mut results = *biases;
            for (result, sum) in results.iter_mut().zip(sums) {
                *result = (sum + *result).max(0.0);
            }
            *values = results;
        }
    }

    #[inline(always)]
    fn start(&self, rows: Range<usize>, columns: Range<usize>) -> Option<(&[f32], usize)> {
        (!self.first).then(|| (&self.hidden[rows.start * LANES + columns.start..], LANES))
    }

    #[inline(always)]
    fn ahead(&self, rows: Range<usize>, columns: Range<usize>) -> [Prefetch; AHEAD] {
        [self.next.part(rows, self.hidden.len() / LANES).part(columns, LANES), Prefetch::NONE]
    }
}

/// A sum of products.
pub(super) struct ColumnSum<'a> {
    /// `[rows, width]`.
    pub(super) sum: &'a mut [f32],
    pub(super) width: usize,
    /// The factors of the next product.
    pub(super) next: [Prefetch; 2],
}

impl Epilogue for ColumnSum<'_> {
    const PIECES: usize = 2;

    #[inline(always)]
    fn finish(&mut self, row: usize, column: usize, sums: &[f32]) {
        let sum = &mut self.sum[row * self.width + column..][..sums.len()];
        for (values, sums) in blocks_mut(sum).iter_mut().zip(blocks(sums)) {
            let mut results = *values;
            results.iter_mut().zip(sums).for_each(|(value, sum)| *value += sum);
            *values = results;
        }
    }

    #[inline(always)]
    fn ahead(&self, rows: Range<usize>, columns: Range<usize>) -> [Prefetch; AHEAD] {
        let count = self.sum.len() / self.width;
        let [right, left] = self.next;
        [
            right.part(columns.clone(), self.width).part(rows.clone(), count),
            left.part(rows, count).part(columns, self.width),
        ]
    }
}

/// The gradient of a panel's hidden units, in their place.
pub(super) struct MaskedActivation<'a> {
    /// `[rows, LANES]`: the units; nothing flows back through those that are zero.
    pub(super) hidden: &'a mut [f32],
    /// What the next panel begins with.
    pub(super) next: [Prefetch; 2],
}

impl Epilogue for MaskedActivation<'_> {
    const PIECES: usize = 2;

    #[inline(always)]
    fn finish(&mut self, row: usize, column: usize, sums: &[f32]) {
        let hidden = &mut self.hidden[row * LANES + column..][..sums.len()];
        for (values, sums) in blocks_mut(hidden).iter_mut().zip(blocks(sums)) {
            let mut results = *values;
            for (value, sum) in results.iter_mut().zip(sums) {
                // A mask instead of a branch, which would be taken at random.
                let mask = u32::from(*value > 0.0).wrapping_neg();
                *value = f32::from_bits(sum.to_bits() & mask);
            }
            *values = results;
        }
    }

    #[inline(always)]
    fn ahead(&self, rows: Range<usize>, columns: Range<usize>) -> [Prefetch; AHEAD] {
        let count = self.hidden.len() / LANES;
        self.next.map(|next| next.part(rows.clone(), count).part(columns.clone(), LANES))
    }
}

/// Parameters that are updated as their gradient comes.
pub(super) struct Descent<'a> {
    /// `[rows, width]`.
    pub(super) weights: &'a mut [f32],
    pub(super) momenta: &'a mut [f32],
    pub(super) width: usize,
    pub(super) update: SgdUpdate,
    pub(super) rate: f32,
}

impl Epilogue for Descent<'_> {
    const PIECES: usize = 2;

    #[inline(always)]
    fn finish(&mut self, row: usize, column: usize, sums: &[f32]) {
        let index = row * self.width + column..row * self.width + column + sums.len();
        self.update.apply(self.rate, &mut self.weights[index.clone()], &mut self.momenta[index], sums);
    }

    #[inline(always)]
    fn ahead(&self, rows: Range<usize>, _: Range<usize>) -> [Prefetch; AHEAD] {
        // Those of the next tile, which follow where the columns are those of a panel.
        let ahead = |of: &[f32]| Prefetch::of(of, rows.end * self.width, rows.len() * self.width);
        if self.width == LANES { [ahead(self.weights), ahead(self.momenta)] } else { [Prefetch::NONE; AHEAD] }
    }
}

//! Matrix products, with the same bits on AVX-512, AVX2 and NEON: all of the crate's go through here.
//!
//! Matrices are dense f32 slices. The kernels take no memory of their own, and every sum is one chain of fused
//! multiply-adds in the order of its terms: however rows and columns are shared among threads, and whichever vector
//! unit computes them (AVX-512, AVX2, NEON), the bits are the same; without one of these, products are rounded before
//! they are added. That is why no kernel crate serves here: those at hand allocate their packing buffers call by call,
//! and the order of their sums differs from processor to processor. The benchmark `step` measures one beside ours.

pub(crate) mod kernel;
mod layout;

pub use layout::{pack, pack_transposed, transpose, transpose_columns};

use core::ops::Range;
use core::sync::atomic::Ordering;

/// Number of columns in a group: rows have a multiple of this, and packed factors hold group after group. Shorter rows
/// are padded with zeros, which change no product.
pub const LANES: usize = 32;

/// Numbers of an [`Epilogue`] that are all read before the first is written. The compiler cannot know that what is read
/// and what is written lie apart; in this order it uses vectors all the same.
pub(crate) const BLOCK: usize = 16;

/// The blocks of a slice of a multiple of [`BLOCK`] numbers.
#[inline(always)]
pub(crate) fn blocks(values: &[f32]) -> &[[f32; BLOCK]] {
    let (blocks, rest) = values.as_chunks();
    debug_assert!(rest.is_empty());
    blocks
}

/// As [`blocks`], to be changed.
#[inline(always)]
pub(crate) fn blocks_mut(values: &mut [f32]) -> &mut [[f32; BLOCK]] {
    let (blocks, rest) = values.as_chunks_mut();
    debug_assert!(rest.is_empty());
    blocks
}

/// The next multiple of [`LANES`].
pub const fn padded(length: usize) -> usize {
    length.next_multiple_of(LANES)
}

/// Allows products to use AVX-512 where the processor has it, which is the default, or forbids it: to measure both
/// paths on one processor. No result changes.
pub fn allow_avx512(is_allowed: bool) {
    kernel::WITHOUT_AVX512.store(!is_allowed, Ordering::Relaxed);
}

/// The left factor of a product, in any layout: entry (row, depth) stands at `row * row_stride + depth * depth_stride`.
#[derive(Clone, Copy, Debug)]
pub struct LeftFactor<'a> {
    /// The numbers.
    pub values: &'a [f32],
    /// Distance between rows.
    pub row_stride: usize,
    /// Distance between the entries of a row.
    pub depth_stride: usize,
}

impl<'a> LeftFactor<'a> {
    /// A matrix whose rows of `stride` numbers lie one after the other.
    pub fn rows(values: &'a [f32], stride: usize) -> Self {
        Self { values, row_stride: stride, depth_stride: 1 }
    }

    /// The transpose of such a matrix.
    pub fn transposed(values: &'a [f32], stride: usize) -> Self {
        Self { values, row_stride: 1, depth_stride: stride }
    }
}

/// The right factor of a product, in groups of [`LANES`] columns: entry (depth, column) stands at
/// `column / LANES * group_stride + depth * stride + column % LANES`.
#[derive(Clone, Copy, Debug)]
pub struct RightFactor<'a> {
    /// The numbers.
    pub values: &'a [f32],
    /// Distance between rows.
    pub stride: usize,
    /// Distance between groups of columns.
    pub group_stride: usize,
    /// Columns, a multiple of [`LANES`].
    pub columns: usize,
}

impl<'a> RightFactor<'a> {
    /// A matrix whose rows of `columns` numbers lie one after the other.
    pub fn rows(values: &'a [f32], columns: usize) -> Self {
        Self { values, stride: columns, group_stride: LANES, columns }
    }

    /// A matrix of `rows` rows as [`pack`] and [`pack_transposed`] leave it, group after group: what a product reads
    /// lies together.
    pub fn packed(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self { values, stride: LANES, group_stride: rows * LANES, columns }
    }
}

/// Most pieces of memory that [`Epilogue::ahead`] names.
pub const AHEAD: usize = 2;

/// Memory that will be needed soon: an address, to be asked for and never read.
#[derive(Clone, Copy, Debug)]
pub struct Prefetch {
    pub(crate) start: *const f32,
    pub(crate) length: usize,
}

impl Prefetch {
    /// None.
    pub const NONE: Self = Self { start: core::ptr::null(), length: 0 };

    /// `length` numbers from index `from` of a slice on, which may lie outside of it.
    #[inline(always)]
    pub fn of(slice: &[f32], from: usize, length: usize) -> Self {
        Self { start: slice.as_ptr().wrapping_add(from), length }
    }

    /// The share that a range has in `of` equal parts.
    #[inline(always)]
    pub fn part(self, range: Range<usize>, of: usize) -> Self {
        let from = self.length * range.start / of;
        Self { start: self.start.wrapping_add(from), length: self.length * range.end / of - from }
    }
}

/// Takes the entries of a product as they are computed; see [`product_to`].
pub trait Epilogue {
    /// How many pieces of memory [`Epilogue::ahead`] names.
    const PIECES: usize = 0;

    /// Takes the entries of a row from `column` on.
    fn finish(&mut self, row: usize, column: usize, sums: &[f32]);

    /// Sums to start a tile of these rows and columns from instead of zero: those over the depth before, which the
    /// product continues. They begin with the tile's first entry; the number is the distance between rows.
    #[inline(always)]
    fn start(&self, _rows: Range<usize>, _columns: Range<usize>) -> Option<(&[f32], usize)> {
        None
    }

    /// Memory to bring near while a tile of these rows and columns is computed: what [`Epilogue::finish`] will touch,
    /// or what comes after the product. It changes no result.
    #[inline(always)]
    fn ahead(&self, _rows: Range<usize>, _columns: Range<usize>) -> [Prefetch; AHEAD] {
        [Prefetch::NONE; AHEAD]
    }
}

/// A function that takes the entries and names no memory.
struct ForEach<F>(F);

impl<F: FnMut(usize, usize, &[f32])> Epilogue for ForEach<F> {
    #[inline(always)]
    fn finish(&mut self, row: usize, column: usize, sums: &[f32]) {
        (self.0)(row, column, sums);
    }
}

/// The product of `left` `[rows, length]` and `right` `[length, columns]`: `finish(row, column, sums)` is given every
/// row of the result in pieces, once each; `sums` are the entries from `column` on.
///
/// ```
/// use orco_core::linalg::{LANES, LeftFactor, RightFactor, product};
/// let (a, b) = ([1.0, 2.0], [[1.0; LANES], [10.0; LANES]].concat());
/// let mut c = vec![0.0; LANES];
/// product(1, 2, LeftFactor::rows(&a, 2), RightFactor::rows(&b, LANES), |_, column, sums| {
///     c[column..column + sums.len()].copy_from_slice(sums);
/// });
/// assert_eq!(c, vec![21.0; LANES]);
/// ```
///
/// # Panics
/// If a slice is shorter than its shape, or `right.columns` is no multiple of [`LANES`].
pub fn product(
    rows: usize,
    length: usize,
    left: LeftFactor<'_>,
    right: RightFactor<'_>,
    finish: impl FnMut(usize, usize, &[f32]),
) {
    product_to(rows, length, left, right, ForEach(finish));
}

/// As [`product`], with an [`Epilogue`] that says what memory will be needed.
///
/// # Panics
/// As for [`product`].
pub fn product_to(rows: usize, length: usize, left: LeftFactor<'_>, right: RightFactor<'_>, finish: impl Epilogue) {
    if rows == 0 || right.columns == 0 {
        return;
    }
    assert!(right.columns.is_multiple_of(LANES), "right factor is not padded");
    if length > 0 {
        // Strides come from the caller: sums must not wrap.
        let reach = |a: usize, b: usize, c: usize, d: usize| a.checked_mul(b)?.checked_add(c.checked_mul(d)?);
        let last = reach(rows - 1, left.row_stride, length - 1, left.depth_stride);
        assert!(last.is_some_and(|last| last < left.values.len()), "left factor is shorter than its shape");
        let last = reach(length - 1, right.stride, right.columns / LANES - 1, right.group_stride);
        let end = last.and_then(|last| last.checked_add(LANES));
        assert!(end.is_some_and(|end| end <= right.values.len()), "right factor is shorter than its shape");
    }
    // SAFETY: the largest indices that the shapes lead to were checked above.
    unsafe { kernel::product(rows, length, left, right, finish) }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::random::Random;

    #[test]
    #[should_panic(expected = "left factor is shorter")]
    fn strides_that_wrap_around_are_refused() {
        let a = [0.0; 4];
        let left = LeftFactor { values: &a[1..3], row_stride: usize::MAX, depth_stride: 1 };
        product(2, 2, left, RightFactor::rows(&[0.0; 2 * LANES], LANES), |_, _, _| {});
    }

    proptest! {
        #[test]
        fn products_agree_with_a_loop(
            rows in 1usize..20, length in 0usize..40, blocks in 1usize..4, flip in any::<bool>()
        ) {
            let columns = blocks * LANES;
            let mut random = Random::new(rows as u64, "product");
            let a: Vec<f32> = (0..rows * length).map(|_| random.normal()).collect();
            let b: Vec<f32> = (0..length * columns).map(|_| random.normal()).collect();
            let left = if flip { LeftFactor::transposed(&a, rows) } else { LeftFactor::rows(&a, length) };
            let mut result = vec![f32::NAN; rows * columns];
            product(rows, length, left, RightFactor::rows(&b, columns), |row, column, sums| {
                result[row * columns + column..][..sums.len()].copy_from_slice(sums);
            });
            for (index, &value) in result.iter().enumerate() {
                let (row, column) = (index / columns, index % columns);
                let entry = |depth: usize| a[row * left.row_stride + depth * left.depth_stride];
                let term = |depth: usize| f64::from(entry(depth)) * f64::from(b[depth * columns + column]);
                let exact: f64 = (0..length).map(term).sum();
                prop_assert!((f64::from(value) - exact).abs() < 1e-4, "{index}: {value} and {exact}");
            }
        }
    }
}

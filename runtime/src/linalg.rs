//! The one seam through which matrix products go.
//!
//! Matrices are dense f32 slices. The kernels take no memory of their own, and every sum is one chain of fused
//! multiply-adds in the order of its terms: however rows and columns are shared among threads, and whichever vector unit
//! computes them (AVX-512, AVX2, NEON), the bits are the same; without one of these, products are rounded before they are
//! added. That is why no kernel crate serves here: those at hand allocate their packing buffers call by call, and the
//! order of their sums differs from processor to processor. The benchmark `step` measures one beside ours.

mod kernel;

/// Columns come in multiples of this; shorter rows are filled up with zeros, which change no product.
pub const LANES: usize = 32;

/// The next multiple of [`LANES`].
pub const fn padded(length: usize) -> usize {
    length.next_multiple_of(LANES)
}

/// The left factor of a product, in any layout: entry (row, place) stands at `row * row_stride + place * place_stride`.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// The numbers.
    pub values: &'a [f32],
    /// Distance between rows.
    pub row_stride: usize,
    /// Distance between the entries of a row.
    pub place_stride: usize,
}

impl<'a> Left<'a> {
    /// A matrix whose rows of `stride` numbers lie one after the other.
    pub fn rows(values: &'a [f32], stride: usize) -> Self {
        Self { values, row_stride: stride, place_stride: 1 }
    }

    /// The transpose of such a matrix.
    pub fn transposed(values: &'a [f32], stride: usize) -> Self {
        Self { values, row_stride: 1, place_stride: stride }
    }
}

/// The right factor of a product: rows of `stride` numbers, of which the first `columns` count.
#[derive(Clone, Copy, Debug)]
pub struct Right<'a> {
    /// The numbers.
    pub values: &'a [f32],
    /// Distance between rows.
    pub stride: usize,
    /// Columns, a multiple of [`LANES`].
    pub columns: usize,
}

impl<'a> Right<'a> {
    /// A matrix whose rows of `columns` numbers lie one after the other.
    pub fn rows(values: &'a [f32], columns: usize) -> Self {
        Self { values, stride: columns, columns }
    }
}

/// The product of `left` `[rows, length]` and `right` `[length, columns]`: `finish(row, column, sums)` is given every
/// row of the result in pieces, once each; `sums` are the entries from `column` on.
///
/// ```
/// use orco_runtime::linalg::{LANES, Left, Right, product};
/// let (a, b) = ([1.0, 2.0], [[1.0; LANES], [10.0; LANES]].concat());
/// let mut c = vec![0.0; LANES];
/// product(1, 2, Left::rows(&a, 2), Right::rows(&b, LANES), |_, column, sums| {
///     c[column..column + sums.len()].copy_from_slice(sums);
/// });
/// assert_eq!(c, vec![21.0; LANES]);
/// ```
///
/// # Panics
/// If a slice is shorter than its shape, or `right.columns` is no multiple of [`LANES`].
pub fn product(rows: usize, length: usize, left: Left<'_>, right: Right<'_>, finish: impl FnMut(usize, usize, &[f32])) {
    if rows == 0 || right.columns == 0 {
        return;
    }
    assert!(right.columns.is_multiple_of(LANES) && right.columns <= right.stride, "right factor is not padded");
    if length > 0 {
        // Strides come from the caller: sums must not wrap.
        let reach = |a: usize, b: usize, c: usize, d: usize| a.checked_mul(b)?.checked_add(c.checked_mul(d)?);
        let last = reach(rows - 1, left.row_stride, length - 1, left.place_stride);
        assert!(last.is_some_and(|last| last < left.values.len()), "left factor is shorter than its shape");
        let end = reach(length - 1, right.stride, right.columns, 1);
        assert!(end.is_some_and(|end| end <= right.values.len()), "right factor is shorter than its shape");
    }
    // SAFETY: the largest indices that the shapes lead to were checked above.
    unsafe { kernel::product(rows, length, left, right, finish) }
}

/// Writes the transpose of `from` `[rows, columns]` into `to` `[columns, padded(rows)]`, filled up with zeros.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn transpose(rows: usize, columns: usize, from: &[f32], to: &mut [f32]) {
    const BLOCK: usize = 16;
    let stride = padded(rows);
    if stride == 0 {
        return;
    }
    for (block, lines) in to[..columns * stride].chunks_mut(BLOCK * stride).enumerate() {
        let first = block * BLOCK;
        lines.chunks_exact_mut(stride).for_each(|line| line[rows..].fill(0.0));
        if lines.len() == BLOCK * stride {
            let mut rest = lines;
            let lines: [&mut [f32]; BLOCK] = core::array::from_fn(|_| {
                let (line, after) = core::mem::take(&mut rest).split_at_mut(stride);
                rest = after;
                &mut line[..rows]
            });
            for row in 0..rows {
                let from = &from[row * columns + first..][..BLOCK];
                for column in 0..BLOCK {
                    lines[column][row] = from[column];
                }
            }
        } else {
            for (column, line) in lines.chunks_exact_mut(stride).enumerate() {
                let column = from.iter().skip(first + column).step_by(columns);
                line.iter_mut().zip(column).take(rows).for_each(|(to, from)| *to = *from);
            }
        }
    }
}

#[cfg(all(test, feature = "std"))]
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
        let left = Left { values: &a[1..3], row_stride: usize::MAX, place_stride: 1 };
        product(2, 2, left, Right::rows(&[0.0; 2 * LANES], LANES), |_, _, _| {});
    }

    proptest! {
        #[test]
        fn products_agree_with_a_loop(rows in 1usize..20, length in 0usize..40, blocks in 1usize..4, flip in any::<bool>()) {
            let columns = blocks * LANES;
            let mut random = Random::new(rows as u64, "product");
            let a: Vec<f32> = (0..rows * length).map(|_| random.normal()).collect();
            let b: Vec<f32> = (0..length * columns).map(|_| random.normal()).collect();
            let left = if flip { Left::transposed(&a, rows) } else { Left::rows(&a, length) };
            let mut result = vec![f32::NAN; rows * columns];
            product(rows, length, left, Right::rows(&b, columns), |row, column, sums| {
                result[row * columns + column..][..sums.len()].copy_from_slice(sums);
            });
            for (index, &value) in result.iter().enumerate() {
                let (row, column) = (index / columns, index % columns);
                let entry = |place: usize| a[row * left.row_stride + place * left.place_stride];
                let exact: f64 = (0..length).map(|place| f64::from(entry(place)) * f64::from(b[place * columns + column])).sum();
                prop_assert!((f64::from(value) - exact).abs() < 1e-4, "{index}: {value} and {exact}");
            }
        }

        #[test]
        fn transposing_fills_up_with_zeros(rows in 0usize..40, columns in 0usize..40) {
            let from: Vec<f32> = (0..rows * columns).map(|i| i as f32 + 1.0).collect();
            let mut to = vec![f32::NAN; columns * padded(rows)];
            transpose(rows, columns, &from, &mut to);
            for (index, value) in to.iter().enumerate() {
                let (column, row) = (index / padded(rows), index % padded(rows));
                let expected = if row < rows { from[row * columns + column] } else { 0.0 };
                prop_assert_eq!(*value, expected);
            }
        }
    }
}

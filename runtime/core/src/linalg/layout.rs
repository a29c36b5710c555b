//! Matrices brought into the order in which products read them.

use super::{LANES, kernel, padded};

/// Writes the transpose of `from` `[rows, columns]` into `to` `[columns, padded(rows)]`, filled up with zeros.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn transpose(rows: usize, columns: usize, from: &[f32], to: &mut [f32]) {
    transpose_columns(rows, columns, from, 0, &mut to[..columns * padded(rows)]);
}

/// Writes that part of the [transpose] which is made of the columns from `first` on, as many as `to` has room for.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn transpose_columns(rows: usize, columns: usize, from: &[f32], first: usize, to: &mut [f32]) {
    let stride = padded(rows);
    let count = to.len().checked_div(stride).unwrap_or(0);
    if count == 0 {
        return;
    }
    assert!(first + count <= columns && rows * columns <= from.len(), "the matrix is shorter than its shape");
    to.chunks_exact_mut(stride).for_each(|line| line[rows..].fill(0.0));
    // Blocks as wide as a vector, then what is left at the edges.
    let (whole_rows, whole) = kernel::transpose_blocks(rows, columns, &from[first..], count, stride, to);
    for (column, line) in to.chunks_exact_mut(stride).enumerate() {
        let done = if column < whole { whole_rows } else { 0 };
        for (row, to) in line[..rows].iter_mut().enumerate().skip(done) {
            *to = from[row * columns + first + column];
        }
    }
}

/// Writes `from` `[rows, columns]`, whose columns are a multiple of [`LANES`], into `to` in the order of
/// [`super::RightFactor::packed`].
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn pack(rows: usize, columns: usize, from: &[f32], to: &mut [f32]) {
    for (row, from) in from[..rows * columns].chunks_exact(columns.max(1)).enumerate() {
        for (group, from) in from.chunks_exact(LANES).enumerate() {
            to[(group * rows + row) * LANES..][..LANES].copy_from_slice(from);
        }
    }
}

/// Writes the transpose of `from` `[rows, columns]`, filled up with zeros to `[columns, padded(rows)]`, into `to` in
/// the order of [`super::RightFactor::packed`].
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn pack_transposed(rows: usize, columns: usize, from: &[f32], to: &mut [f32]) {
    if columns > 0 {
        let groups = from[..rows * columns].chunks(LANES * columns);
        let to = to[..columns * padded(rows)].chunks_exact_mut(columns * LANES);
        groups.zip(to).for_each(|(from, to)| transpose(from.len() / columns, columns, from, to));
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
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

        #[test]
        fn groups_hold_the_transpose(rows in 0usize..80, columns in 1usize..40) {
            let from: Vec<f32> = (0..rows * columns).map(|i| i as f32 + 1.0).collect();
            let mut transposed = vec![f32::NAN; columns * padded(rows)];
            let mut packed = transposed.clone();
            let mut again = packed.clone();
            transpose(rows, columns, &from, &mut transposed);
            pack_transposed(rows, columns, &from, &mut packed);
            pack(columns, padded(rows), &transposed, &mut again);
            prop_assert_eq!(&packed, &again);
            let first = columns / 2;
            let mut part = vec![f32::NAN; (columns - first) * padded(rows)];
            transpose_columns(rows, columns, &from, first, &mut part);
            prop_assert_eq!(&part, &transposed[first * padded(rows)..]);
        }
    }
}

//! The losses of the alignment with their gradients in closed form: PSCL in [`contrast`], cross entropy in
//! [`cross_entropy`], ORTH in [`orthogonality`]. [`crate::align`] adds them up for a step (`align/step.rs`);
//! `tests/align.rs` checks the gradients against finite differences.
//!
//! Every loss takes unit rows and adds its gradient with respect to them to a caller's buffer; the projection onto the
//! sphere is differentiated once, by [`crate::projection::HeadShape::backward_normalisation`]. Rows are filled up to a
//! multiple of [`crate::linalg::LANES`] with zeros, which change no inner product.

pub mod contrast;
pub mod cross_entropy;
pub mod orthogonality;
mod pairs;

pub use pairs::PairScratch;

use crate::linalg::kernel::on_vector_units;
use crate::math::{add_scaled, exp, highest, ln, sum};

/// Unit rows of `width` numbers, a multiple of [`crate::linalg::LANES`].
#[derive(Clone, Copy, Debug)]
pub struct UnitRows<'a> {
    /// `[count, width]`.
    pub values: &'a [f32],
    /// Length of a row.
    pub width: usize,
}

impl UnitRows<'_> {
    /// Number of rows.
    pub fn count(&self) -> usize {
        self.values.len() / self.width
    }

    /// One of the rows.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..][..self.width]
    }
}

/// Where a loss adds its gradient with respect to its rows, and the weight that it adds it with.
#[derive(Debug)]
pub struct GradientAccumulator<'a> {
    /// Factor on the gradient. The loss itself is returned without it.
    pub weight: f32,
    /// `[m, width]`: the gradient with respect to the first m rows, to which the loss adds its own.
    pub values: &'a mut [f32],
}

/// What a matrix product does with its entries: adds them, times a factor, to a gradient `[rows, width]`.
fn add_to(gradient: &mut [f32], width: usize, factor: f32) -> impl FnMut(usize, usize, &[f32]) {
    move |row, column, sums| add_scaled(&mut gradient[row * width + column..][..sums.len()], factor, sums)
}

on_vector_units! {
    /// Replaces a row by its exponentials relative to the row's maximum and returns (log of their sum with the maximum
    /// put back, sum relative to the maximum). Safe for any finite entries and for minus infinity.
    pub fn exponentiate(row: &mut [f32]) -> (f32, f32) {
        let highest = highest(row);
        row.iter_mut().for_each(|value| *value = exp(*value - highest));
        let sum = sum(row);
        (highest + ln(sum), sum)
    }
}

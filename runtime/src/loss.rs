//! The losses of the alignment with their gradients in closed form.
//!
//! Every loss takes unit rows and adds its gradient with respect to them to a caller's buffer; the projection onto the
//! sphere is differentiated once, by [`crate::head::Head::unnormalise_gradient`].

pub mod contrast;
pub mod cross_entropy;
pub mod orthogonality;

use crate::math::{exp, ln};

/// Replaces a row by its exponentials relative to the row's maximum and returns (log of their sum with the maximum
/// put back, sum relative to the maximum). Safe for any finite entries and for minus infinity.
fn exponentiate(row: &mut [f32]) -> (f32, f32) {
    let highest = row.iter().copied().fold(f32::MIN, f32::max);
    let mut sum = 0.0;
    for value in row.iter_mut() {
        *value = exp(*value - highest);
        sum += *value;
    }
    (highest + ln(sum), sum)
}

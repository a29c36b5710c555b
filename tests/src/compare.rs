//! Judges our numbers against reference numbers, by the agreement that float32 allows.

use std::fmt;

/// Tolerance of a loss, relative.
pub const LOSS: f64 = 1e-5;
/// Tolerance of a gradient, relative to its largest entry.
pub const GRADIENT: f64 = 1e-4;
/// Tolerance of weights after training, relative to their largest entry.
pub const WEIGHTS: f64 = 1e-3;

/// How our numbers differ from the reference.
#[derive(Clone, Debug, PartialEq)]
pub enum Mismatch {
    /// There are more or fewer of them.
    Length {
        /// What is compared.
        what: String,
        /// Numbers in the reference.
        expected: usize,
        /// Numbers that we have.
        actual: usize,
    },
    /// One of them is too far off, or is not a number.
    Value {
        /// What is compared.
        what: String,
        /// Place of the number, from 0.
        index: usize,
        /// The reference.
        expected: f64,
        /// Ours.
        actual: f64,
        /// Their difference, relative to the reference's largest entry.
        deviation: f64,
        /// The most that was allowed.
        tolerance: f64,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { what, expected, actual } => {
                write!(f, "{what}: {actual} numbers where the reference has {expected}")
            }
            Self::Value { what, index, expected, actual, deviation, tolerance } => write!(
                f,
                "{what}[{index}] is {actual:e}, the reference {expected:e}: {deviation:.2e} of the largest entry \
                 apart, {tolerance:.0e} allowed"
            ),
        }
    }
}

impl std::error::Error for Mismatch {}

/// Compares numbers with reference numbers and returns the largest difference, relative to the reference's largest
/// entry; for a single number that is the relative difference.
///
/// # Errors
/// [`Mismatch`] at the first difference above `tolerance`, at anything that is not a number, at unequal lengths.
pub fn compare<A, E>(what: &str, actual: &[A], expected: &[E], tolerance: f64) -> Result<f64, Mismatch>
where
    A: Copy + Into<f64>,
    E: Copy + Into<f64>,
{
    if actual.len() != expected.len() {
        return Err(Mismatch::Length { what: what.to_owned(), expected: expected.len(), actual: actual.len() });
    }
    let largest = expected.iter().map(|&value| value.into().abs()).fold(f64::MIN_POSITIVE, f64::max);
    let mut worst = 0.0f64;
    for (index, (&actual, &expected)) in actual.iter().zip(expected).enumerate() {
        let (actual, expected) = (actual.into(), expected.into());
        let deviation = (actual - expected).abs() / largest;
        if deviation.is_nan() || deviation > tolerance {
            let what = what.to_owned();
            return Err(Mismatch::Value { what, index, expected, actual, deviation, tolerance });
        }
        worst = worst.max(deviation);
    }
    Ok(worst)
}

/// [`compare`] for a test: fails it on a mismatch, else prints the deviation (shown by `--nocapture`).
///
/// # Panics
/// With the mismatch.
#[track_caller]
pub fn assert_close<A, E>(what: &str, actual: &[A], expected: &[E], tolerance: f64)
where
    A: Copy + Into<f64>,
    E: Copy + Into<f64>,
{
    match compare(what, actual, expected, tolerance) {
        Ok(deviation) => println!("{what}: deviates by {deviation:.1e}, {tolerance:.0e} allowed"),
        Err(mismatch) => panic!("{mismatch}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviation_is_relative_to_the_largest_entry() {
        let deviation = compare("v", &[1.0f32, 4.0, 0.25], &[1.0f64, 4.0, 0.0], 0.1).unwrap();
        assert_eq!(deviation, 0.0625);
    }

    #[test]
    fn too_far_off_is_refused() {
        let refused = compare("v", &[2.0f32, 3.5], &[2.0f32, 4.0], 0.1);
        assert!(matches!(refused, Err(Mismatch::Value { index: 1, deviation: 0.125, .. })), "{refused:?}");
        assert!(compare("v", &[1.0f32], &[0.0f32], LOSS).is_err());
        assert!(compare("v", &[1.0f32], &[1.0f32, 1.0], LOSS).is_err());
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        assert!(compare("v", &[f32::NAN], &[1.0f32], 1.0).is_err());
        assert!(compare("v", &[1.0f32], &[f32::NAN], 1.0).is_err());
        assert!(compare("v", &[f32::INFINITY], &[f32::INFINITY], 1.0).is_err());
    }
}

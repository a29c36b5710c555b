//! Scalar functions and short vector operations. None calls the system's math library, so results are the same on every
//! platform.

// ln(2) in two parts, of which the first has so few bits that its product with a small integer is exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// e^x, within 2 units in the last place; 0 below -87.3, the largest finite power above 88.
///
/// Without branches and table, so that loops over it run on vector units: x = n ln 2 + r with |r| <= ln(2)/2, e^r by
/// its Taylor polynomial of degree 7 (remainder below 6e-9), 2^n by its bits.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Adding this rounds to an integer, which then stands in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let clamped = x.clamp(-87.3, 88.0);
    let rounded = clamped * core::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (clamped - n * LN_2_HIGH) - n * LN_2_LOW;
    let tail = r * (1.0 / 720.0 + r * (1.0 / 5040.0));
    let series = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + tail)))));
    let power = f32::from_bits(rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if x < -87.3 { 0.0 } else { series * power }
}

/// Natural logarithm.
#[inline]
pub fn ln(x: f32) -> f32 {
    libm::logf(x)
}

/// Natural logarithm of a positive number that is no subnormal, within 2 units in the last place; of others nothing
/// that means anything.
///
/// Without branches and table, so that loops over it run on vector units: x = 2^n m with m from sqrt(1/2) to sqrt(2),
/// ln m = 2 artanh((m - 1) / (m + 1)) by its Taylor polynomial of degree 9 (remainder below 1e-9).
#[inline(always)]
pub fn ln_of_normal(x: f32) -> f32 {
    const SQRT_HALF: u32 = core::f32::consts::FRAC_1_SQRT_2.to_bits();
    const MANTISSA_BITS: u32 = 23;
    let above = x.to_bits().wrapping_sub(SQRT_HALF);
    let n = (above as i32 >> MANTISSA_BITS) as f32;
    let m = f32::from_bits((above & ((1 << MANTISSA_BITS) - 1)) + SQRT_HALF);
    let ratio = (m - 1.0) / (m + 1.0);
    let square = ratio * ratio;
    let tail = square * (2.0 / 5.0 + square * (2.0 / 7.0 + square * (2.0 / 9.0)));
    n * LN_2_HIGH + (n * LN_2_LOW + ratio * (2.0 + square * (2.0 / 3.0 + tail)))
}

/// Square root.
#[inline]
pub fn sqrt(x: f32) -> f32 {
    libm::sqrtf(x)
}

/// The cumulative distribution function of the standard normal distribution, within 1e-6: Abramowitz and Stegun,
/// *Handbook of Mathematical Functions*, 26.2.17.
pub fn normal_cdf(x: f32) -> f32 {
    const COEFFICIENTS: [f32; 5] = [1.330_274_4, -1.821_255_9, 1.781_477_9, -0.356_563_78, 0.319_381_53];
    const INVERSE_ROOT_OF_TAU: f32 = 0.398_942_3;
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = COEFFICIENTS.iter().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let beyond = INVERSE_ROOT_OF_TAU * exp(-0.5 * x * x) * series;
    if x > 0.0 { 1.0 - beyond } else { beyond }
}

/// Partial sums that run side by side, as many on every processor, so that the bits are the same on all.
const SUM_LANES: usize = 8;

/// Folds pairs of entries into [`SUM_LANES`] partial results, then these.
#[inline(always)]
fn in_lanes<T: Copy>(
    a: &[f32],
    b: &[T],
    start: f32,
    fold: impl Fn(f32, f32, T) -> f32,
    join: fn(f32, f32) -> f32,
) -> f32 {
    let mut lanes = [start; SUM_LANES];
    let (chunks_a, chunks_b) = (a.chunks_exact(SUM_LANES), b.chunks_exact(SUM_LANES));
    let rest = chunks_a.remainder().iter().zip(chunks_b.remainder()).fold(start, |sum, (x, y)| fold(sum, *x, *y));
    for (x, y) in chunks_a.zip(chunks_b) {
        for lane in 0..SUM_LANES {
            lanes[lane] = fold(lanes[lane], x[lane], y[lane]);
        }
    }
    lanes.into_iter().fold(rest, join)
}

/// Inner product of two vectors of equal length.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    in_lanes(a, b, 0.0, |sum, x, y| sum + x * y, |a, b| a + b)
}

/// Sum of a vector's entries.
#[inline(always)]
pub fn sum(a: &[f32]) -> f32 {
    in_lanes(a, a, 0.0, |sum, x, _| sum + x, |a, b| a + b)
}

/// Sum of the entries whose label is the given one.
#[inline(always)]
pub fn sum_of_label(a: &[f32], labels: &[u32], label: u32) -> f32 {
    in_lanes(a, labels, 0.0, |sum, x, of| sum + if of == label { x } else { 0.0 }, |a, b| a + b)
}

/// Largest entry of a vector; the smallest finite number if it is empty.
#[inline(always)]
pub fn highest(a: &[f32]) -> f32 {
    in_lanes(a, a, f32::MIN, |highest, x, _| if x > highest { x } else { highest }, f32::max)
}

/// Adds `factor * x` to `y`.
#[inline]
pub fn add_scaled(y: &mut [f32], factor: f32, x: &[f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}

/// Scales a vector to unit length and returns its former norm. A vector shorter than 1e-12 is divided by 1e-12, as
/// `torch.nn.functional.normalize` does, so that the zero vector stays zero.
#[inline]
pub fn normalise(x: &mut [f32]) -> f32 {
    let squares = dot(x, x);
    if squares == f32::INFINITY {
        // Too long to be squared: brought down by its largest entry first. Not so where an entry is no number.
        let largest = x.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        if largest.is_finite() {
            x.iter_mut().for_each(|value| *value /= largest);
            return largest * normalise(x);
        }
    }
    let norm = sqrt(squares).max(SHORTEST);
    let inverse = 1.0 / norm;
    x.iter_mut().for_each(|value| *value *= inverse);
    norm
}

/// [Scales](normalise) every row of that length.
pub fn normalise_rows(rows: &mut [f32], length: usize) {
    rows.chunks_exact_mut(length).for_each(|row| {
        normalise(row);
    });
}

/// Vectors no longer than this have no direction.
pub const SHORTEST: f32 = 1e-12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_within_a_millionth() {
        for step in -800..=800 {
            let x = step as f32 / 100.0;
            let exact = 0.5 * libm::erfc(-f64::from(x) * core::f64::consts::FRAC_1_SQRT_2);
            let ours = f64::from(normal_cdf(x));
            assert!((ours - exact).abs() < 1e-6 && (0.0..=1.0).contains(&ours), "{x}: {ours} instead of {exact}");
        }
    }

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let mut x = -90.0f32;
        while x < 90.0 {
            let exact = libm::exp(f64::from(x.clamp(-100.0, 88.0)));
            let expected = if x < -87.3 { 0.0 } else { exact };
            let error = (f64::from(exp(x)) - expected).abs();
            assert!(error <= 2.0 * f64::from(f32::EPSILON) * expected, "e^{x}: {} instead of {expected}", exp(x));
            x += 0.001_7;
        }
        assert_eq!((exp(0.0), exp(f32::NEG_INFINITY), exp(-1e30)), (1.0, 0.0, 0.0));
        assert!(exp(1e30).is_finite());
    }

    #[test]
    fn ln_of_normal_numbers_is_within_two_units_in_the_last_place() {
        let mut x = f32::MIN_POSITIVE;
        while x < 1e38 {
            let exact = libm::log(f64::from(x));
            let error = (f64::from(ln_of_normal(x)) - exact).abs();
            assert!(error <= 2.0 * f64::from(f32::EPSILON) * exact.abs(), "ln {x}: {}", ln_of_normal(x));
            x *= 1.000_37;
        }
        assert_eq!(ln_of_normal(1.0), 0.0);
    }

    #[test]
    fn long_and_short_vectors_are_normalised() {
        let mut long = [3e30, -4e30];
        assert!((normalise(&mut long) / 5e30 - 1.0).abs() < 1e-6);
        assert!((long[0] - 0.6).abs() < 1e-6 && (long[1] + 0.8).abs() < 1e-6);
        let mut zero = [0.0; 3];
        assert_eq!((normalise(&mut zero), zero), (SHORTEST, [0.0; 3]));
    }

    #[test]
    fn vectors_that_cannot_be_normalised_become_nan() {
        for entries in [[f32::NAN, 1.0], [f32::NAN, f32::INFINITY], [f32::NAN, 3e38], [f32::INFINITY, 1.0]] {
            let mut entries = entries;
            normalise(&mut entries);
            assert!(entries.iter().any(|entry| entry.is_nan()), "{entries:?}");
        }
    }

    #[test]
    fn lanes_count_every_entry_once() {
        for length in 0..40u16 {
            let entries = core::array::from_fn::<f32, 40, _>(|i| i as f32 + 1.0);
            let labels = core::array::from_fn::<u32, 40, _>(|i| i as u32 % 3);
            let (entries, labels) = (&entries[..length.into()], &labels[..length.into()]);
            let expected: f32 = entries.iter().sum();
            assert_eq!(sum(entries), expected);
            assert_eq!(dot(entries, entries), entries.iter().map(|x| x * x).sum::<f32>());
            assert_eq!((0..3).map(|label| sum_of_label(entries, labels, label)).sum::<f32>(), expected);
            assert_eq!(highest(entries), entries.last().copied().unwrap_or(f32::MIN));
        }
    }
}

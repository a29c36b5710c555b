//! Scalar functions and short vector operations, the same on every platform (libm, not the system's).

/// e^x.
#[inline]
pub fn exp(x: f32) -> f32 {
    libm::expf(x)
}

/// Natural logarithm.
#[inline]
pub fn ln(x: f32) -> f32 {
    libm::logf(x)
}

/// Square root.
#[inline]
pub fn sqrt(x: f32) -> f32 {
    libm::sqrtf(x)
}

/// Inner product of two vectors of equal length, summed in eight lanes.
#[inline]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0f32; LANES];
    let (chunks_a, chunks_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = chunks_a.remainder().iter().zip(chunks_b.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in chunks_a.zip(chunks_b) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
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
    let norm = sqrt(dot(x, x)).max(SHORTEST);
    let inverse = 1.0 / norm;
    x.iter_mut().for_each(|value| *value *= inverse);
    norm
}

const SHORTEST: f32 = 1e-12;

//! The one seam through which every larger matrix product goes.
//!
//! All matrices are dense, row-major f32 slices.

/// `c = a b^T + beta c`: `a` `[m, k]`, `b` `[n, k]`, `c` `[m, n]`.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn multiply_transposed(m: usize, k: usize, n: usize, a: &[f32], b: &[f32], beta: f32, c: &mut [f32]) {
    gemm([m, k, n], a, [k, 1], b, [1, k], beta, c);
}

/// `c = a b + beta c`: `a` `[m, k]`, `b` `[k, n]`, `c` `[m, n]`.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn multiply(m: usize, k: usize, n: usize, a: &[f32], b: &[f32], beta: f32, c: &mut [f32]) {
    gemm([m, k, n], a, [k, 1], b, [n, 1], beta, c);
}

/// `c = a^T b + beta c`: `a` `[k, m]`, `b` `[k, n]`, `c` `[m, n]`.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn transposed_multiply(m: usize, k: usize, n: usize, a: &[f32], b: &[f32], beta: f32, c: &mut [f32]) {
    gemm([m, k, n], a, [1, m], b, [n, 1], beta, c);
}

fn gemm(
    [m, k, n]: [usize; 3],
    a: &[f32],
    a_strides: [usize; 2],
    b: &[f32],
    b_strides: [usize; 2],
    beta: f32,
    c: &mut [f32],
) {
    assert!(a.len() >= m * k && b.len() >= k * n && c.len() >= m * n, "matrix slice shorter than its shape");
    // SAFETY: the lengths were checked above; with these strides every access stays inside m*k, k*n and m*n elements,
    // and `c` is borrowed mutably, so it overlaps neither `a` nor `b`.
    unsafe {
        matrixmultiply::sgemm(
            m,
            k,
            n,
            1.0,
            a.as_ptr(),
            a_strides[0] as isize,
            a_strides[1] as isize,
            b.as_ptr(),
            b_strides[0] as isize,
            b_strides[1] as isize,
            beta,
            c.as_mut_ptr(),
            n as isize,
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_three_products_agree_with_a_loop() {
        let (m, k, n) = (3, 5, 4);
        let a: Vec<f32> = (0..m * k).map(|i| i as f32 - 6.0).collect();
        let b: Vec<f32> = (0..k * n).map(|i| 0.5 * i as f32 - 3.0).collect();
        let transpose = |x: &[f32], rows: usize, columns: usize| -> Vec<f32> {
            (0..rows * columns).map(|i| x[(i % rows) * columns + i / rows]).collect()
        };
        let expected: Vec<f32> =
            (0..m * n).map(|i| (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum()).collect();
        let mut c = vec![0.0; m * n];
        multiply(m, k, n, &a, &b, 0.0, &mut c);
        assert_eq!(c, expected);
        multiply_transposed(m, k, n, &a, &transpose(&b, k, n), 0.0, &mut c);
        assert_eq!(c, expected);
        transposed_multiply(m, k, n, &transpose(&a, m, k), &b, 0.0, &mut c);
        assert_eq!(c, expected);
    }
}

//! Matrix products on the vector unit at hand: tiles of the result are kept in registers over the whole length.

use super::{Left, Right};

/// Most entries in a tile.
const TILE: usize = 8 * 32;

/// See [`super::product`].
///
/// # Safety
/// The slices must hold every entry that the shapes lead to; the columns must be a multiple of [`super::LANES`].
pub(super) unsafe fn product(
    rows: usize,
    length: usize,
    left: Left<'_>,
    right: Right<'_>,
    finish: impl FnMut(usize, usize, &[f32]),
) {
    #[cfg(target_arch = "x86_64")]
    {
        if x86::avx512() {
            // SAFETY: the processor has the feature; the rest is the caller's promise.
            return unsafe { x86::product_avx512(rows, length, left, right, finish) };
        }
        if x86::avx2() {
            // SAFETY: as above.
            return unsafe { x86::product_avx2(rows, length, left, right, finish) };
        }
    }
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    // SAFETY: NEON is part of the architecture; the rest is the caller's promise.
    return unsafe { tiles::<neon::Quad, 6, 4>(rows, length, left, right, finish) };
    #[cfg(not(all(target_arch = "aarch64", target_feature = "neon")))]
    // SAFETY: the caller's promise.
    unsafe {
        tiles::<Plain, 2, 2>(rows, length, left, right, finish);
    }
}

/// A register of f32 numbers.
trait Vector: Copy {
    const WIDTH: usize;
    unsafe fn broadcast(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// self + a b.
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
}

#[inline(always)]
unsafe fn tiles<V: Vector, const ROWS: usize, const VECTORS: usize>(
    rows: usize,
    length: usize,
    left: Left<'_>,
    right: Right<'_>,
    mut finish: impl FnMut(usize, usize, &[f32]),
) {
    let width = VECTORS * V::WIDTH;
    const { assert!(ROWS * VECTORS * V::WIDTH <= TILE && super::LANES.is_multiple_of(VECTORS * V::WIDTH)) };
    let mut sums = [0.0f32; TILE];
    for column in (0..right.columns).step_by(width) {
        let mut row = 0;
        while row < rows {
            let a = left.values.as_ptr().wrapping_add(row * left.row_stride);
            let b = right.values.as_ptr().wrapping_add(column);
            let strides = [left.row_stride, left.place_stride, right.stride];
            let full = row + ROWS <= rows;
            // SAFETY: row and column are inside the shapes, whose entries the caller promises.
            unsafe {
                if full {
                    tile::<V, ROWS, VECTORS>(length, a, b, strides, &mut sums);
                } else {
                    tile::<V, 1, VECTORS>(length, a, b, strides, &mut sums);
                }
            }
            let done = if full { ROWS } else { 1 };
            for (place, sums) in sums[..done * width].chunks_exact(width).enumerate() {
                finish(row + place, column, sums);
            }
            row += done;
        }
    }
}

#[inline(always)]
unsafe fn tile<V: Vector, const ROWS: usize, const VECTORS: usize>(
    length: usize,
    mut a: *const f32,
    mut b: *const f32,
    [row_stride, place_stride, right_stride]: [usize; 3],
    sums: &mut [f32; TILE],
) {
    // SAFETY: the caller promises ROWS rows of `length` entries and as many rows of VECTORS vectors; `sums` has room for
    // the tile.
    unsafe {
        let mut tile = [[V::broadcast(0.0); VECTORS]; ROWS];
        for _ in 0..length {
            let mut line = [V::broadcast(0.0); VECTORS];
            for (place, vector) in line.iter_mut().enumerate() {
                *vector = V::load(b.add(place * V::WIDTH));
            }
            for (row, sums) in tile.iter_mut().enumerate() {
                let factor = V::broadcast(*a.add(row * row_stride));
                for (sum, vector) in sums.iter_mut().zip(line) {
                    *sum = sum.plus_product(factor, vector);
                }
            }
            a = a.wrapping_add(place_stride);
            b = b.wrapping_add(right_stride);
        }
        for (row, vectors) in tile.iter().enumerate() {
            for (place, vector) in vectors.iter().enumerate() {
                vector.store(sums.as_mut_ptr().add((row * VECTORS + place) * V::WIDTH));
            }
        }
    }
}

/// Eight numbers without a vector unit of their own; the products are rounded before they are added.
#[derive(Clone, Copy)]
#[cfg(not(all(target_arch = "aarch64", target_feature = "neon")))]
struct Plain([f32; 8]);

#[cfg(not(all(target_arch = "aarch64", target_feature = "neon")))]
impl Vector for Plain {
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn broadcast(value: f32) -> Self {
        Self([value; 8])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller promises eight numbers.
        Self(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller promises room for eight numbers.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) };
    }

    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        Self(core::array::from_fn(|lane| self.0[lane] + a.0[lane] * b.0[lane]))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::{
        __m256, __m512, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm512_fmadd_ps,
        _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps,
    };

    use super::{Left, Right, Vector, tiles};

    cpufeatures::new!(has_avx512, "avx512f");
    cpufeatures::new!(has_avx2, "avx2", "fma");

    pub(super) fn avx512() -> bool {
        has_avx512::get()
    }

    pub(super) fn avx2() -> bool {
        has_avx2::get()
    }

    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn product_avx512(
        rows: usize,
        length: usize,
        left: Left<'_>,
        right: Right<'_>,
        finish: impl FnMut(usize, usize, &[f32]),
    ) {
        // SAFETY: the caller's promise.
        unsafe { tiles::<__m512, 8, 2>(rows, length, left, right, finish) }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn product_avx2(
        rows: usize,
        length: usize,
        left: Left<'_>,
        right: Right<'_>,
        finish: impl FnMut(usize, usize, &[f32]),
    ) {
        // SAFETY: the caller's promise.
        unsafe { tiles::<__m256, 6, 2>(rows, length, left, right, finish) }
    }

    macro_rules! vector {
        ($register:ty, $width:literal, $broadcast:ident, $load:ident, $store:ident, $fused:ident) => {
            // SAFETY, of every function: they are inlined into the functions above, which demand the feature; pointers
            // are the caller's promise.
            impl Vector for $register {
                const WIDTH: usize = $width;

                #[inline(always)]
                unsafe fn broadcast(value: f32) -> Self {
                    unsafe { $broadcast(value) }
                }

                #[inline(always)]
                unsafe fn load(from: *const f32) -> Self {
                    unsafe { $load(from) }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut f32) {
                    unsafe { $store(to, self) }
                }

                #[inline(always)]
                unsafe fn plus_product(self, a: Self, b: Self) -> Self {
                    unsafe { $fused(a, b, self) }
                }
            }
        };
    }

    vector!(__m512, 16, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps);
    vector!(__m256, 8, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps);
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon {
    use core::arch::aarch64::{float32x4_t, vdupq_n_f32, vfmaq_f32, vld1q_f32, vst1q_f32};

    use super::Vector;

    pub(super) type Quad = float32x4_t;

    // SAFETY, of every function: NEON is part of the architecture; pointers are the caller's promise.
    impl Vector for Quad {
        const WIDTH: usize = 4;

        #[inline(always)]
        unsafe fn broadcast(value: f32) -> Self {
            unsafe { vdupq_n_f32(value) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { vld1q_f32(from) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { vst1q_f32(to, self) }
        }

        #[inline(always)]
        unsafe fn plus_product(self, a: Self, b: Self) -> Self {
            unsafe { vfmaq_f32(self, a, b) }
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::linalg::LANES;
    use crate::random::Random;

    /// A product of 13 rows by the given kernel.
    fn by(
        length: usize,
        a: &[f32],
        b: &[f32],
        kernel: impl FnOnce(Left<'_>, Right<'_>, &mut dyn FnMut(usize, usize, &[f32])),
    ) -> Vec<f32> {
        let mut result = vec![f32::NAN; 13 * 2 * LANES];
        kernel(Left::rows(a, length), Right::rows(b, 2 * LANES), &mut |row, column, sums| {
            result[row * 2 * LANES + column..][..sums.len()].copy_from_slice(sums);
        });
        result
    }

    proptest! {
        #[test]
        fn every_vector_unit_gives_the_chain_of_fused_multiply_adds(length in 1usize..50, seed in 0u64..100) {
            let mut random = Random::new(seed, "kernels");
            let a: Vec<f32> = (0..13 * length).map(|_| random.normal()).collect();
            let b: Vec<f32> = (0..length * 2 * LANES).map(|_| random.normal()).collect();
            let chain = |index: usize| {
                let (row, column) = (index / (2 * LANES), index % (2 * LANES));
                (0..length).fold(0.0f32, |sum, place| {
                    a[row * length + place].mul_add(b[place * 2 * LANES + column], sum)
                })
            };
            let expected: Vec<f32> = (0..13 * 2 * LANES).map(chain).collect();
            // SAFETY, of every kernel: the slices have the lengths of the shapes, the processor has the feature.
            #[cfg(target_arch = "x86_64")]
            {
                if x86::avx512() {
                    let result = by(length, &a, &b, |l, r, f| unsafe { x86::product_avx512(13, length, l, r, f) });
                    prop_assert_eq!(&result, &expected, "AVX-512");
                }
                if x86::avx2() {
                    let result = by(length, &a, &b, |l, r, f| unsafe { x86::product_avx2(13, length, l, r, f) });
                    prop_assert_eq!(&result, &expected, "AVX2");
                }
                let result = by(length, &a, &b, |l, r, f| unsafe { tiles::<Plain, 2, 2>(13, length, l, r, f) });
                for (value, expected) in result.iter().zip(&expected) {
                    prop_assert!((value - expected).abs() < 1e-4, "without a vector unit: {value}, {expected}");
                }
            }
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            {
                let result = by(length, &a, &b, |l, r, f| unsafe { tiles::<neon::Quad, 6, 4>(13, length, l, r, f) });
                prop_assert_eq!(&result, &expected, "NEON");
            }
        }
    }
}

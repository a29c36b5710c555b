//! AVX-512 and AVX2.

use core::arch::asm;
use core::arch::x86_64::{
    __m256, __m512, _MM_HINT_T0, _mm_prefetch, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_permute2f128_ps,
    _mm256_set1_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps,
};
use core::array;
use core::sync::atomic::Ordering;

use super::{Epilogue, LeftFactor, RightFactor, Vector, tiles};

cpufeatures::new!(has_avx512, "avx512f");
cpufeatures::new!(has_avx2, "avx2", "fma");

#[inline]
pub(crate) fn avx512() -> bool {
    has_avx512::get() && !super::WITHOUT_AVX512.load(Ordering::Relaxed)
}

#[inline]
pub(crate) fn avx2() -> bool {
    has_avx2::get()
}

#[target_feature(enable = "avx512f")]
pub(super) unsafe fn product_avx512(
    rows: usize,
    length: usize,
    left: LeftFactor<'_>,
    right: RightFactor<'_>,
    finish: impl Epilogue,
) {
    // SAFETY: the caller's promise.
    unsafe { tiles::<__m512, _, 8, 2>(rows, length, left, right, finish) }
}

#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn product_avx2(
    rows: usize,
    length: usize,
    left: LeftFactor<'_>,
    right: RightFactor<'_>,
    finish: impl Epilogue,
) {
    // SAFETY: the caller's promise.
    unsafe { tiles::<__m256, _, 6, 2>(rows, length, left, right, finish) }
}

/// Transposes eight rows of eight numbers.
///
/// # Safety
/// The processor has AVX2; there are eight numbers at each of eight strides in both places.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose_block(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
    // SAFETY: the caller's promise.
    let rows: [__m256; 8] = array::from_fn(|row| unsafe { _mm256_loadu_ps(from.add(row * from_stride)) });
    // Pairs of rows, then of pairs, then of halves.
    let pairs: [__m256; 8] = array::from_fn(|index| {
        let (a, b) = (rows[index / 2 * 2], rows[index / 2 * 2 + 1]);
        if index % 2 == 0 { _mm256_unpacklo_ps(a, b) } else { _mm256_unpackhi_ps(a, b) }
    });
    let fours: [__m256; 8] = array::from_fn(|index| {
        let (a, b) = (pairs[index / 4 * 4 + index / 2 % 2], pairs[index / 4 * 4 + index / 2 % 2 + 2]);
        if index % 2 == 0 { _mm256_shuffle_ps::<0x44>(a, b) } else { _mm256_shuffle_ps::<0xee>(a, b) }
    });
    for column in 0..8 {
        let (a, b) = (fours[column % 4], fours[column % 4 + 4]);
        let line = if column < 4 { _mm256_permute2f128_ps::<0x20>(a, b) } else { _mm256_permute2f128_ps::<0x31>(a, b) };
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_ps(to.add(column * to_stride), line) };
    }
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

            // The pointer goes through a register and nothing is read through it.
            #[allow(clippy::pointers_in_nomem_asm_block)]
            #[inline(always)]
            fn opaque(mut pointer: *const f32) -> *const f32 {
                // SAFETY: does nothing.
                unsafe { asm!("/* {0} */", inout(reg) pointer, options(pure, nomem, nostack, preserves_flags)) };
                pointer
            }

            #[inline(always)]
            fn fetch(line: *const f32) {
                // SAFETY: every x86-64 has it, and no address makes it fail.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
            }
        }
    };
}

vector!(__m512, 16, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps);
vector!(__m256, 8, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps);

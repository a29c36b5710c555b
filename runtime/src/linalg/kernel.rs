//! Matrix products on the vector unit at hand: tiles of the result are kept in registers over the whole length.

use core::hint;
use core::sync::atomic::AtomicBool;

use super::{AHEAD, Finish, LANES, Left, Piece, Right};

/// Set where AVX2 is measured or tested on a processor that has AVX-512, too.
pub(super) static WITHOUT_AVX512: AtomicBool = AtomicBool::new(false);

/// Most entries in a tile.
const TILE: usize = 8 * 32;

/// A tile's entries on their way to [`Finish`], on whole cache lines.
#[repr(align(64))]
struct Sums([f32; TILE]);

/// See [`super::product_to`].
///
/// # Safety
/// The slices must hold every entry that the shapes lead to; the columns must be a multiple of [`LANES`].
pub(super) unsafe fn product(rows: usize, length: usize, left: Left<'_>, right: Right<'_>, finish: impl Finish) {
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
    return unsafe { tiles::<neon::Quad, _, 6, 4>(rows, length, left, right, finish) };
    #[cfg(not(all(target_arch = "aarch64", target_feature = "neon")))]
    // SAFETY: the caller's promise.
    unsafe {
        tiles::<Plain, _, 2, 2>(rows, length, left, right, finish);
    }
}

/// Transposes as many blocks of eight rows and columns as there are: `count` columns of a matrix whose rows lie `columns`
/// apart become lines that lie `stride` apart. Returns how many rows and columns are done.
pub(super) fn transpose_blocks(
    rows: usize,
    columns: usize,
    from: &[f32],
    count: usize,
    stride: usize,
    to: &mut [f32],
) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    if x86::avx2() {
        let (rows, count) = (rows / 8 * 8, count / 8 * 8);
        if rows > 0 && count > 0 {
            assert!(from.len() >= (rows - 1) * columns + count && to.len() >= (count - 1) * stride + rows);
            for column in (0..count).step_by(8) {
                for row in (0..rows).step_by(8) {
                    // SAFETY: the processor has the feature; the last entries of the blocks were checked above.
                    unsafe {
                        let from = from.as_ptr().add(row * columns + column);
                        x86::transpose_block(from, columns, to.as_mut_ptr().add(column * stride + row), stride);
                    }
                }
            }
            return (rows, count);
        }
    }
    let _ = (rows, columns, from, count, stride, to);
    (0, 0)
}

/// A function whose loops are compiled for every vector unit and run on the one at hand. Its numbers are the same on each:
/// nothing is fused or reordered.
macro_rules! on_vector_units {
    ($(#[$about:meta])* $visible:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block) => {
        $(#[$about])*
        $visible fn $name($($argument: $type),*) -> $result {
            #[inline(always)]
            fn plain($($argument: $type),*) -> $result $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f")]
                fn avx512($($argument: $type),*) -> $result {
                    plain($($argument),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $type),*) -> $result {
                    plain($($argument),*)
                }
                if $crate::linalg::kernel::avx512() {
                    // SAFETY: the processor has the feature.
                    return unsafe { avx512($($argument),*) };
                }
                if $crate::linalg::kernel::avx2() {
                    // SAFETY: as above.
                    return unsafe { avx2($($argument),*) };
                }
            }
            plain($($argument),*)
        }
    };
}
pub(crate) use on_vector_units;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{avx2, avx512};

/// A register of f32 numbers.
trait Vector: Copy {
    const WIDTH: usize;
    unsafe fn broadcast(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// self + a b.
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// Brings the cache line at an address near, where the processor can be asked to.
    #[inline(always)]
    fn fetch(_: *const f32) {}
}

/// Rows of the next tile where so many are left: tiles of `most`, then of four, two and one; not so many of `most` that
/// one or two rows would be left alone, since those take as long as four.
#[inline(always)]
const fn next_tile(left: usize, most: usize) -> usize {
    match left {
        1 => 1,
        2 | 3 => 2,
        _ if left == most || left >= most + 4 || left > most && left < 8 => most,
        _ => 4,
    }
}

#[inline(always)]
unsafe fn tiles<V: Vector, F: Finish, const ROWS: usize, const VECTORS: usize>(
    rows: usize,
    length: usize,
    left: Left<'_>,
    right: Right<'_>,
    mut finish: F,
) {
    let width = VECTORS * V::WIDTH;
    const { assert!(ROWS <= 8 && ROWS >= 4 || ROWS == 2, "tiles of four rows are the largest but one") };
    const { assert!(ROWS * VECTORS * V::WIDTH <= TILE && LANES.is_multiple_of(VECTORS * V::WIDTH)) };
    let mut sums = Sums([0.0; TILE]);
    for column in (0..right.columns).step_by(width) {
        let mut row = 0;
        while row < rows {
            let a = left.values.as_ptr().wrapping_add(row * left.row_stride);
            let b = right.values.as_ptr().wrapping_add(column / LANES * right.group_stride + column % LANES);
            let strides = [left.row_stride, left.place_stride, right.stride];
            let taken = if ROWS < 4 { ROWS.min(rows - row) } else { next_tile(rows - row, ROWS) };
            let ahead = finish.ahead(row..row + taken, column..column + width);
            let start = finish.start(row..row + taken, column..column + width).map(|(sums, stride)| {
                assert!(
                    (taken - 1) * stride + width <= sums.len(),
                    "the sums to start from are shorter than their shape"
                );
                (sums.as_ptr(), stride)
            });
            // SAFETY: row and column are inside the shapes, whose entries the caller promises.
            unsafe {
                if taken == ROWS {
                    tile::<V, F, ROWS, VECTORS>(length, a, b, strides, start, ahead, &mut sums);
                } else if taken == 4 {
                    tile::<V, F, 4, VECTORS>(length, a, b, strides, start, ahead, &mut sums);
                } else if taken == 2 {
                    tile::<V, F, 2, VECTORS>(length, a, b, strides, start, ahead, &mut sums);
                } else {
                    tile::<V, F, 1, VECTORS>(length, a, b, strides, start, ahead, &mut sums);
                }
            }
            for (place, sums) in sums.0[..taken * width].chunks_exact(width).enumerate() {
                finish.finish(row + place, column, sums);
            }
            row += taken;
        }
    }
}

#[inline(always)]
unsafe fn tile<V: Vector, F: Finish, const ROWS: usize, const VECTORS: usize>(
    length: usize,
    a: *const f32,
    mut b: *const f32,
    [row_stride, place_stride, right_stride]: [usize; 3],
    start: Option<(*const f32, usize)>,
    ahead: [Piece; AHEAD],
    sums: &mut Sums,
) {
    // SAFETY: the caller promises ROWS rows of `length` entries, as many rows of VECTORS vectors and, where there is a
    // start, as many again; `sums` has room for the tile.
    unsafe {
        let mut tile = [[V::broadcast(0.0); VECTORS]; ROWS];
        if let Some((start, stride)) = start {
            for (row, vectors) in tile.iter_mut().enumerate() {
                for (place, vector) in vectors.iter_mut().enumerate() {
                    *vector = V::load(start.add(row * stride + place * V::WIDTH));
                }
            }
        }
        // Two pointers and three distances reach every row. Where the compiler can see how they hang together, it makes a
        // chain of additions that takes as long as the products do.
        let [one, two, three] = hint::black_box([row_stride, 2 * row_stride, 3 * row_stride]);
        let [mut a, mut a_from_4] = hint::black_box([a, a.wrapping_add(4 * row_stride)]);
        // What is needed later comes evenly over all steps, and without a branch. No piece: what is near anyway.
        let mut fetched = ahead.map(|piece| if piece.length == 0 { b } else { piece.start });
        let fetch_strides = ahead.map(|piece| (piece.length * size_of::<f32>()).div_ceil(length.max(1)));
        for _ in 0..length {
            for (line, stride) in fetched.iter_mut().zip(fetch_strides).take(F::PIECES) {
                V::fetch(*line);
                *line = line.wrapping_byte_add(stride);
            }
            let mut line = [V::broadcast(0.0); VECTORS];
            for (place, vector) in line.iter_mut().enumerate() {
                *vector = V::load(b.add(place * V::WIDTH));
            }
            for (row, sums) in tile.iter_mut().enumerate() {
                let four = if row < 4 { a } else { a_from_4 };
                let factor = V::broadcast(*four.wrapping_add([0, one, two, three][row % 4]));
                for (sum, vector) in sums.iter_mut().zip(line) {
                    *sum = sum.plus_product(factor, vector);
                }
            }
            a = a.wrapping_add(place_stride);
            a_from_4 = a_from_4.wrapping_add(place_stride);
            b = b.wrapping_add(right_stride);
        }
        for (row, vectors) in tile.iter().enumerate() {
            for (place, vector) in vectors.iter().enumerate() {
                vector.store(sums.0.as_mut_ptr().add((row * VECTORS + place) * V::WIDTH));
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
        __m256, __m512, _MM_HINT_T0, _mm_prefetch, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_permute2f128_ps,
        _mm256_set1_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps, _mm512_fmadd_ps,
        _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps,
    };
    use core::array;
    use core::sync::atomic::Ordering;

    use super::{Finish, Left, Right, Vector, tiles};

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
        left: Left<'_>,
        right: Right<'_>,
        finish: impl Finish,
    ) {
        // SAFETY: the caller's promise.
        unsafe { tiles::<__m512, _, 8, 2>(rows, length, left, right, finish) }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn product_avx2(
        rows: usize,
        length: usize,
        left: Left<'_>,
        right: Right<'_>,
        finish: impl Finish,
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
        let pairs: [__m256; 8] = array::from_fn(|place| {
            let (a, b) = (rows[place / 2 * 2], rows[place / 2 * 2 + 1]);
            if place % 2 == 0 { _mm256_unpacklo_ps(a, b) } else { _mm256_unpackhi_ps(a, b) }
        });
        let fours: [__m256; 8] = array::from_fn(|place| {
            let (a, b) = (pairs[place / 4 * 4 + place / 2 % 2], pairs[place / 4 * 4 + place / 2 % 2 + 2]);
            if place % 2 == 0 { _mm256_shuffle_ps::<0x44>(a, b) } else { _mm256_shuffle_ps::<0xee>(a, b) }
        });
        for column in 0..8 {
            let (a, b) = (fours[column % 4], fours[column % 4 + 4]);
            let line =
                if column < 4 { _mm256_permute2f128_ps::<0x20>(a, b) } else { _mm256_permute2f128_ps::<0x31>(a, b) };
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
    use crate::linalg::Each;
    use crate::random::Random;

    /// A product of 13 rows by the given kernel.
    fn by(
        length: usize,
        a: &[f32],
        b: &[f32],
        kernel: impl FnOnce(Left<'_>, Right<'_>, Each<&mut dyn FnMut(usize, usize, &[f32])>),
    ) -> Vec<f32> {
        let mut result = vec![f32::NAN; 13 * 2 * LANES];
        kernel(
            Left::rows(a, length),
            Right::rows(b, 2 * LANES),
            Each(&mut |row: usize, column: usize, sums: &[f32]| {
                result[row * 2 * LANES + column..][..sums.len()].copy_from_slice(sums);
            }),
        );
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
                let result = by(length, &a, &b, |l, r, f| unsafe { tiles::<Plain, _, 2, 2>(13, length, l, r, f) });
                for (value, expected) in result.iter().zip(&expected) {
                    prop_assert!((value - expected).abs() < 1e-4, "without a vector unit: {value}, {expected}");
                }
            }
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            {
                let result = by(length, &a, &b, |l, r, f| unsafe { tiles::<neon::Quad, _, 6, 4>(13, length, l, r, f) });
                prop_assert_eq!(&result, &expected, "NEON");
            }
        }
    }
}

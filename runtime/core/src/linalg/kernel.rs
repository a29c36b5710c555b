//! Matrix products on the vector unit at hand: tiles of the result are kept in registers over the whole length.

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

use core::hint;
use core::sync::atomic::AtomicBool;

use super::{AHEAD, Epilogue, LANES, LeftFactor, Prefetch, RightFactor};

/// Set where AVX2 is measured or tested on a processor that has AVX-512, too.
pub(super) static WITHOUT_AVX512: AtomicBool = AtomicBool::new(false);

/// Most entries in a tile.
const TILE: usize = 8 * 32;

/// A tile's entries on their way to [`Epilogue`], on whole cache lines.
#[repr(align(64))]
struct TileSums([f32; TILE]);

/// See [`super::product_to`].
///
/// # Safety
/// The slices must hold every entry that the shapes lead to; the columns must be a multiple of [`LANES`].
pub(super) unsafe fn product(
    rows: usize,
    length: usize,
    left: LeftFactor<'_>,
    right: RightFactor<'_>,
    finish: impl Epilogue,
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
    return unsafe { tiles::<neon::Quad, _, 6, 4>(rows, length, left, right, finish) };
    #[cfg(not(all(target_arch = "aarch64", target_feature = "neon")))]
    // SAFETY: the caller's promise.
    unsafe {
        tiles::<Plain, _, 2, 2>(rows, length, left, right, finish);
    }
}

/// Transposes as many blocks of eight rows and columns as there are: `count` columns of a matrix whose rows lie
/// `columns` apart become lines that lie `stride` apart. Returns how many rows and columns are done.
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

/// A function whose loops are compiled for every vector unit and run on the one at hand. Its numbers are the same on
/// each: nothing is fused or reordered.
macro_rules! on_vector_units {
    (
        $(#[$about:meta])*
        $visible:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block
    ) => {
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
    /// Puts a pointer into a register and hides from the compiler where it came from, if there is a way to.
    #[inline(always)]
    fn opaque(pointer: *const f32) -> *const f32 {
        pointer
    }
    /// Brings the cache line at an address near, where the processor can be asked to.
    #[inline(always)]
    fn fetch(_: *const f32) {}
}

/// Rows of the next tile where `left` are left: tiles of `most`, then of four, two and one; fewer of `most` where one
/// or two rows would be left alone otherwise, since those take as long as four.
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
unsafe fn tiles<V: Vector, F: Epilogue, const ROWS: usize, const VECTORS: usize>(
    rows: usize,
    length: usize,
    left: LeftFactor<'_>,
    right: RightFactor<'_>,
    mut finish: F,
) {
    let width = VECTORS * V::WIDTH;
    const { assert!(ROWS <= 8 && ROWS >= 4 || ROWS == 2, "tiles of four rows are the largest but one") };
    const { assert!(ROWS * VECTORS * V::WIDTH <= TILE && LANES.is_multiple_of(VECTORS * V::WIDTH)) };
    let mut sums = TileSums([0.0; TILE]);
    for column in (0..right.columns).step_by(width) {
        let mut row = 0;
        while row < rows {
            let a = left.values.as_ptr().wrapping_add(row * left.row_stride);
            let b = right.values.as_ptr().wrapping_add(column / LANES * right.group_stride + column % LANES);
            let strides = [left.row_stride, left.depth_stride, right.stride];
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
            for (index, sums) in sums.0[..taken * width].chunks_exact(width).enumerate() {
                finish.finish(row + index, column, sums);
            }
            row += taken;
        }
    }
}

#[inline(always)]
unsafe fn tile<V: Vector, F: Epilogue, const ROWS: usize, const VECTORS: usize>(
    length: usize,
    a: *const f32,
    mut b: *const f32,
    [row_stride, depth_stride, right_stride]: [usize; 3],
    start: Option<(*const f32, usize)>,
    ahead: [Prefetch; AHEAD],
    sums: &mut TileSums,
) {
    // SAFETY: the caller promises ROWS rows of `length` entries, as many rows of VECTORS vectors and, where there is a
    // start, as many again; `sums` has room for the tile.
    unsafe {
        let mut tile = [[V::broadcast(0.0); VECTORS]; ROWS];
        if let Some((start, stride)) = start {
            for (row, vectors) in tile.iter_mut().enumerate() {
                for (index, vector) in vectors.iter_mut().enumerate() {
                    *vector = V::load(start.add(row * stride + index * V::WIDTH));
                }
            }
        }
        // Two pointers and three distances reach every row. The compiler would rather keep a pointer for every row, and
        // has not the registers for it.
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
            for (index, vector) in line.iter_mut().enumerate() {
                *vector = V::load(b.add(index * V::WIDTH));
            }
            for (row, sums) in tile.iter_mut().enumerate() {
                let four = if row < 4 { a } else { a_from_4 };
                let factor = V::broadcast(*four.wrapping_add([0, one, two, three][row % 4]));
                for (sum, vector) in sums.iter_mut().zip(line) {
                    *sum = sum.plus_product(factor, vector);
                }
            }
            a = V::opaque(a.wrapping_add(depth_stride));
            a_from_4 = V::opaque(a_from_4.wrapping_add(depth_stride));
            b = b.wrapping_add(right_stride);
        }
        for (row, vectors) in tile.iter().enumerate() {
            for (index, vector) in vectors.iter().enumerate() {
                vector.store(sums.0.as_mut_ptr().add((row * VECTORS + index) * V::WIDTH));
            }
        }
    }
}

/// Eight numbers without a vector unit of their own; the products are rounded before they are added.
#[derive(Clone, Copy)]
#[cfg(any(test, not(all(target_arch = "aarch64", target_feature = "neon"))))]
struct Plain([f32; 8]);

#[cfg(any(test, not(all(target_arch = "aarch64", target_feature = "neon"))))]
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

#[cfg(test)]
mod tests;

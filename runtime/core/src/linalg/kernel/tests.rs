//! Every vector unit against the definition.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::linalg::{ForEach, Range, allow_avx512, pack, product, product_to};
use crate::random::Random;

/// A product by the given kernel.
fn by(
    rows: usize,
    length: usize,
    a: &[f32],
    b: &[f32],
    kernel: impl FnOnce(LeftFactor<'_>, RightFactor<'_>, ForEach<&mut dyn FnMut(usize, usize, &[f32])>),
) -> Vec<f32> {
    let mut result = vec![f32::NAN; rows * 2 * LANES];
    kernel(
        LeftFactor::rows(a, length),
        RightFactor::rows(b, 2 * LANES),
        ForEach(&mut |row: usize, column: usize, sums: &[f32]| {
            result[row * 2 * LANES + column..][..sums.len()].copy_from_slice(sums);
        }),
    );
    result
}

proptest! {
    #[test]
    fn every_vector_unit_gives_the_chain_of_fused_multiply_adds(
        rows in 1usize..20, length in 1usize..50, seed in 0u64..100,
    ) {
        let mut random = Random::new(seed, "kernels");
        let a: Vec<f32> = (0..rows * length).map(|_| random.normal()).collect();
        let b: Vec<f32> = (0..length * 2 * LANES).map(|_| random.normal()).collect();
        let chain = |index: usize| {
            let (row, column) = (index / (2 * LANES), index % (2 * LANES));
            (0..length).fold(0.0f32, |sum, depth| {
                a[row * length + depth].mul_add(b[depth * 2 * LANES + column], sum)
            })
        };
        let expected: Vec<f32> = (0..rows * 2 * LANES).map(chain).collect();
        // SAFETY, of every kernel: the slices have the lengths of the shapes, the processor has the feature.
        #[cfg(target_arch = "x86_64")]
        {
            if x86::avx512() {
                let result = by(rows, length, &a, &b, |l, r, f| unsafe { x86::product_avx512(rows, length, l, r, f) });
                prop_assert_eq!(&result, &expected, "AVX-512");
            }
            if x86::avx2() {
                let result = by(rows, length, &a, &b, |l, r, f| unsafe { x86::product_avx2(rows, length, l, r, f) });
                prop_assert_eq!(&result, &expected, "AVX2");
            }
        }
        #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
        {
            let result = by(rows, length, &a, &b, |l, r, f| unsafe {
                tiles::<neon::Quad, _, 6, 4>(rows, length, l, r, f)
            });
            prop_assert_eq!(&result, &expected, "NEON");
        }
        // Here every product is rounded before it is added: half a unit in the last place of each, and of each sum.
        let result = by(rows, length, &a, &b, |l, r, f| unsafe { tiles::<Plain, _, 2, 2>(rows, length, l, r, f) });
        for (value, expected) in result.iter().zip(&expected) {
            prop_assert!((value - expected).abs() < 1e-4, "without a vector unit: {value}, {expected}");
        }
    }
}

/// A product that starts from sums that are there already.
struct Continued<'a> {
    sums: &'a mut [f32],
    width: usize,
}

impl Epilogue for Continued<'_> {
    const PIECES: usize = 1;

    fn finish(&mut self, row: usize, column: usize, sums: &[f32]) {
        self.sums[row * self.width + column..][..sums.len()].copy_from_slice(sums);
    }

    fn start(&self, rows: Range<usize>, columns: Range<usize>) -> Option<(&[f32], usize)> {
        Some((&self.sums[rows.start * self.width + columns.start..], self.width))
    }

    fn ahead(&self, rows: Range<usize>, _: Range<usize>) -> [Prefetch; AHEAD] {
        // Past the end for the last tiles: asked for and never read.
        [Prefetch::of(self.sums, rows.end * self.width, rows.len() * self.width), Prefetch::NONE]
    }
}

proptest! {
    #[test]
    fn a_product_in_parts_is_the_product(rows in 1usize..30, cut in 0usize..20, rest in 0usize..20) {
        let (length, width) = (cut + rest, 2 * LANES);
        let mut random = Random::new(rows as u64, "parts");
        let a: Vec<f32> = (0..rows * length).map(|_| random.normal()).collect();
        let b: Vec<f32> = (0..length * width).map(|_| random.normal()).collect();
        let mut packed = vec![f32::NAN; b.len()];
        pack(length, width, &b, &mut packed);
        let mut whole = vec![f32::NAN; rows * width];
        product(rows, length, LeftFactor::rows(&a, length), RightFactor::packed(&packed, length, width), |row, column, sums| {
            whole[row * width + column..][..sums.len()].copy_from_slice(sums);
        });
        for is_allowed in [true, false] {
            allow_avx512(is_allowed);
            let mut sums = vec![0.0; rows * width];
            for depths in [0..cut, cut..length] {
                let left = LeftFactor { values: &a[depths.start..], row_stride: length, depth_stride: 1 };
                let right = RightFactor::rows(&b[depths.start * width..], width);
                product_to(rows, depths.len(), left, right, Continued { sums: &mut sums, width });
            }
            allow_avx512(true);
            prop_assert_eq!(&sums, &whole, "with AVX-512: {}", is_allowed);
        }
    }

    #[test]
    fn tiles_cover_the_rows(rows in 0usize..200, most in prop::sample::select(vec![6, 8])) {
        let (mut left, mut small) = (rows, 0);
        while left > 0 {
            let taken = next_tile(left, most);
            prop_assert!([1, 2, 4, most].contains(&taken) && taken <= left);
            small += usize::from(taken < most);
            left -= taken;
        }
        prop_assert!(small <= 4, "{} small tiles", small);
    }
}

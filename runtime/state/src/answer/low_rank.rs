//! Linear maps that shorten vectors along a few axes, such as whitening, applied to many vectors at a time.

use alloc::vec;
use alloc::vec::Vec;

use orco_core::linalg::{LeftFactor, RightFactor, pack, pack_transposed, padded, product};
use orco_core::math::normalise_rows;

use crate::statistics::Statistics;

/// Multiplies vectors by factor (I - sum of damping a a^T), a sum over axes a: a multiple of the identity with an
/// update of low rank.
#[derive(Clone, Debug)]
pub(super) struct LowRankMap {
    /// `[inputs, padded(axes)]`, packed.
    transposed: Vec<f32>,
    /// `[axes, padded(inputs)]`, packed.
    axes: Vec<f32>,
    damping: Vec<f32>,
    factor: f32,
    inputs: usize,
}

impl LowRankMap {
    /// What whitens by the covariance of base classes: [`orco_core::discriminant::Whitening`] for many vectors at a
    /// time.
    pub(super) fn whitening(statistics: &Statistics, inputs: usize) -> Self {
        let mut axes = statistics.axes.clean();
        normalise_rows(&mut axes, inputs);
        Self::new(&axes, statistics.damping.clone(), statistics.factor, inputs)
    }

    /// A map with these axes `[n, inputs]`, of length 1 if damping is to be a share.
    pub(super) fn new(axes: &[f32], damping: Vec<f32>, factor: f32, inputs: usize) -> Self {
        let (count, width) = (damping.len(), padded(inputs));
        let mut transposed = vec![0.0; inputs * padded(count)];
        pack_transposed(count, inputs, axes, &mut transposed);
        let mut wide = vec![0.0; count * width];
        wide.chunks_exact_mut(width).zip(axes.chunks_exact(inputs)).for_each(|(to, from)| {
            to[..inputs].copy_from_slice(from);
        });
        let mut packed = vec![0.0; count * width];
        pack(count, width, &wide, &mut packed);
        Self { transposed, axes: packed, damping, factor, inputs }
    }

    /// Multiplies vectors `[n, inputs]` by it.
    pub(super) fn apply(&self, vectors: &mut [f32]) {
        let (rows, count) = (vectors.len() / self.inputs, self.damping.len());
        let width = padded(count);
        let mut along = vec![0.0; rows * width];
        let axes = RightFactor::packed(&self.transposed, self.inputs, width);
        product(rows, self.inputs, LeftFactor::rows(vectors, self.inputs), axes, |row, column, sums| {
            let line = along[row * width + column..].iter_mut();
            let damping = self.damping.iter().skip(column);
            line.zip(sums).zip(damping).for_each(|((to, sum), damping)| *to = damping * sum);
        });
        let back = RightFactor::packed(&self.axes, count, padded(self.inputs));
        product(rows, count, LeftFactor::rows(&along, width), back, |row, column, sums| {
            let line = vectors[row * self.inputs..][..self.inputs].iter_mut().skip(column);
            line.zip(sums).for_each(|(value, sum)| *value = self.factor * (*value - sum));
        });
    }
}

#[cfg(test)]
mod tests {
    use orco_core::linalg::allow_avx512;

    use super::*;

    /// Tiles of all vector units but AVX-512 are narrower than the columns that an axis is padded to.
    #[test]
    fn one_axis_is_damped_on_every_vector_unit() {
        let map = LowRankMap::new(&[1.0, 0.0, 0.0], vec![0.5], 2.0, 3);
        for is_allowed in [true, false] {
            let mut vectors = [4.0, 1.0, 2.0, -2.0, 0.0, 1.0];
            allow_avx512(is_allowed);
            map.apply(&mut vectors);
            allow_avx512(true);
            assert_eq!(vectors, [4.0, 2.0, 4.0, -2.0, 0.0, 2.0], "with AVX-512: {is_allowed}");
        }
    }
}

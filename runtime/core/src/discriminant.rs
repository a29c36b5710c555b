//! Second-order statistics of features: signed roots, directions from a centre, and the whitening with which the
//! Euclidean distance becomes that of the linear discriminant.
//!
//! The covariance that classes share, shrunk towards a multiple of the identity, is kept as the few axes along which
//! samples of a class scatter most: whitening shortens a vector along each of them and leaves the rest.

use nalgebra::{Dyn, U1, VectorView, VectorViewMut};

use crate::math::{add_scaled, normalise, sqrt};

/// Replaces every entry by its square root, with its sign: features of rectified layers are skewed, and their roots
/// are nearer to normally distributed (Tukey's ladder of powers).
pub fn signed_sqrt(features: &mut [f32]) {
    features.iter_mut().for_each(|value| *value = sqrt(value.abs()).copysign(*value));
}

/// Turns features into their direction as seen from a centre: a unit vector, or zero at the centre. Nearest class means
/// of such vectors are SimpleShot's CL2N (Wang et al. 2019).
pub fn direction(features: &mut [f32], centre: &[f32]) {
    add_scaled(features, -1.0, centre);
    normalise(features);
}

/// Turns features into the [direction] of their [roots](signed_sqrt), as seen from the centre of such roots.
pub fn root_direction(features: &mut [f32], root_centre: &[f32]) {
    signed_sqrt(features);
    direction(features, root_centre);
}

/// A whitening x -> factor (x - sum_i damping_i (u_i . x) u_i), with orthonormal axes u_i.
///
/// It is C^(-1/2) of a covariance C that has the variance v_i along u_i and v across all axes: factor = 1 / sqrt(v),
/// damping_i = 1 - sqrt(v / v_i).
#[derive(Clone, Copy, Debug)]
pub struct Whitening<'a> {
    /// Unit rows `[axes, inputs]`.
    pub axes: &'a [f32],
    /// How much of a vector's part along each axis is taken away, `[axes]`, 0..1.
    pub damping: &'a [f32],
    /// What is multiplied with what is left.
    pub factor: f32,
}

impl Whitening<'_> {
    /// Whitens one vector.
    pub fn apply(&self, vector: &mut [f32]) {
        let inputs = vector.len();
        let mut rest = VectorViewMut::from_slice_generic(vector, Dyn(inputs), U1);
        // The axes are orthonormal: what was taken away along one changes nothing along the next.
        for (axis, damping) in self.axes.chunks_exact(inputs).zip(self.damping) {
            let axis = VectorView::from_slice_generic(axis, Dyn(inputs), U1);
            let along = axis.dot(&rest);
            rest.axpy(-damping * along, &axis, 1.0);
        }
        rest *= self.factor;
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn roots_keep_signs_and_directions_have_unit_length() {
        let mut features = [4.0, -9.0, 0.0];
        signed_sqrt(&mut features);
        assert_eq!(features, [2.0, -3.0, 0.0]);
        direction(&mut features, &[2.0, -7.0, 3.0]);
        assert!((features[1] - 0.8).abs() < 1e-6 && (features[2] + 0.6).abs() < 1e-6);
        direction(&mut features, &[0.0, 0.8, -0.6].map(|value: f32| value));
        assert!(features.iter().all(|value| value.is_finite()));
    }

    #[test]
    fn whitening_along_many_axes_is_that_in_double_precision() {
        let (inputs, count) = (203, 6);
        // Cosines of different frequencies are orthogonal.
        let entry = |axis: usize, input: usize| {
            let angle = core::f64::consts::PI * (axis + 1) as f64 * (input as f64 + 0.5) / inputs as f64;
            libm::cos(angle) * libm::sqrt(2.0 / inputs as f64)
        };
        let axes: Vec<f32> =
            (0..count).flat_map(|axis| (0..inputs).map(move |input| entry(axis, input) as f32)).collect();
        let damping: Vec<f32> = (0..count).map(|axis| 0.9 - 0.1 * axis as f32).collect();
        let start: Vec<f32> = (0..inputs).map(|input| libm::sin(input as f64) as f32).collect();
        let mut whitened = start.clone();
        Whitening { axes: &axes, damping: &damping, factor: 1.5 }.apply(&mut whitened);
        for (input, value) in whitened.iter().enumerate() {
            let along =
                |axis: usize| (0..inputs).map(|input| entry(axis, input) * f64::from(start[input])).sum::<f64>();
            let taken: f64 = (0..count).map(|axis| f64::from(damping[axis]) * along(axis) * entry(axis, input)).sum();
            let exact = 1.5 * (f64::from(start[input]) - taken);
            assert!((f64::from(*value) - exact).abs() < 1e-5, "{input}: {value} and {exact}");
        }
    }

    #[test]
    fn whitening_divides_by_the_deviation_along_each_axis() {
        // Variances 4 along (0.6, 0.8), 1 across it: deviations 2 and 1.
        let whitening = Whitening { axes: &[0.6, 0.8], damping: &[0.5], factor: 1.0 };
        let mut along = [1.2, 1.6];
        whitening.apply(&mut along);
        assert!((along[0] - 0.6).abs() < 1e-6 && (along[1] - 0.8).abs() < 1e-6);
        let mut across = [0.8, -0.6];
        whitening.apply(&mut across);
        assert!((across[0] - 0.8).abs() < 1e-6 && (across[1] + 0.6).abs() < 1e-6);
    }
}

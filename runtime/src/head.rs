//! The projection head: z = normalise(W2 relu(W1 f + b1) + b2), forward and backward.

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::linalg::{multiply, multiply_transposed, transposed_multiply};
use crate::math::{dot, normalise};

/// A projection head g, or a gradient or momentum of the same shape (OrCo, section 3.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Length of a feature vector.
    pub inputs: usize,
    /// Width of the hidden layer.
    pub hidden: usize,
    /// Dimension d of the sphere.
    pub outputs: usize,
    /// `[hidden, inputs]`, row-major.
    pub w1: Vec<f32>,
    /// `[hidden]`.
    pub b1: Vec<f32>,
    /// `[outputs, hidden]`, row-major.
    pub w2: Vec<f32>,
    /// `[outputs]`.
    pub b2: Vec<f32>,
}

/// What a forward pass leaves for the backward pass.
#[derive(Clone, Debug, Default)]
pub struct Activations {
    /// relu(W1 f + b1), `[batch, hidden]`.
    pub hidden: Vec<f32>,
    /// z on the unit sphere, `[batch, outputs]`.
    pub z: Vec<f32>,
    /// |g(f)| of each row, `[batch]`.
    pub norms: Vec<f32>,
    gradient_hidden: Vec<f32>,
}

impl Head {
    /// A head of the given shape, all zero.
    pub fn zeros(inputs: usize, hidden: usize, outputs: usize) -> Self {
        Self {
            inputs,
            hidden,
            outputs,
            w1: vec![0.0; hidden * inputs],
            b1: vec![0.0; hidden],
            w2: vec![0.0; outputs * hidden],
            b2: vec![0.0; outputs],
        }
    }

    /// Whether the parameters have the lengths that the shape asks for and are all finite.
    pub fn is_sound(&self) -> bool {
        let lengths = self.inputs.checked_mul(self.hidden) == Some(self.w1.len())
            && self.b1.len() == self.hidden
            && self.outputs.checked_mul(self.hidden) == Some(self.w2.len())
            && self.b2.len() == self.outputs;
        lengths && self.parameters().iter().all(|values| values.iter().all(|value| value.is_finite()))
    }

    /// The parameters, in the order w1, b1, w2, b2.
    pub fn parameters(&self) -> [&[f32]; 4] {
        [&self.w1, &self.b1, &self.w2, &self.b2]
    }

    /// The parameters, in the order w1, b1, w2, b2.
    pub fn parameters_mut(&mut self) -> [&mut [f32]; 4] {
        [&mut self.w1, &mut self.b1, &mut self.w2, &mut self.b2]
    }

    /// Projects features onto the unit sphere.
    ///
    /// # Shapes
    /// `features` `[batch, inputs]`; leaves z `[batch, outputs]` in `activations.z`, |z| = 1 within 1e-6.
    /// # Panics
    /// If `features.len()` is not a multiple of `inputs`.
    pub fn forward(&self, features: &[f32], activations: &mut Activations) {
        assert_eq!(features.len() % self.inputs, 0, "features are not rows of {}", self.inputs);
        let batch = features.len() / self.inputs;
        let Activations { hidden, z, norms, .. } = activations;
        hidden.clear();
        (0..batch).for_each(|_| hidden.extend_from_slice(&self.b1));
        multiply_transposed(batch, self.inputs, self.hidden, features, &self.w1, 1.0, hidden);
        hidden.iter_mut().for_each(|value| *value = value.max(0.0));
        z.clear();
        (0..batch).for_each(|_| z.extend_from_slice(&self.b2));
        multiply_transposed(batch, self.hidden, self.outputs, hidden, &self.w2, 1.0, z);
        norms.clear();
        norms.extend(z.chunks_exact_mut(self.outputs).map(normalise));
    }

    /// Projects features onto the unit sphere, `[batch, outputs]`, in batches of bounded size.
    ///
    /// # Panics
    /// If `features.len()` is not a multiple of `inputs`.
    pub fn project(&self, features: &[f32]) -> Vec<f32> {
        const ROWS: usize = 256;
        let mut activations = Activations::default();
        let mut z = Vec::with_capacity(features.len() / self.inputs * self.outputs);
        for rows in features.chunks(ROWS * self.inputs) {
            self.forward(rows, &mut activations);
            z.extend_from_slice(&activations.z);
        }
        z
    }

    /// Turns the gradient with respect to z into that with respect to the unnormalised projection, in place:
    /// (I - z z^T) dz / |g(f)|.
    pub fn unnormalise_gradient(&self, activations: &Activations, gradient: &mut [f32]) {
        let rows = gradient.chunks_exact_mut(self.outputs).zip(activations.z.chunks_exact(self.outputs));
        for ((row, z), norm) in rows.zip(&activations.norms) {
            let along = dot(row, z);
            let inverse = 1.0 / norm;
            row.iter_mut().zip(z).for_each(|(value, z)| *value = (*value - along * z) * inverse);
        }
    }

    /// Writes the gradient of the parameters into `gradient`, a head of the same shape.
    ///
    /// # Shapes
    /// `features` `[batch, inputs]` as given to [`Head::forward`]; `gradient_projection` `[batch, outputs]` with
    /// respect to the unnormalised projection (see [`Head::unnormalise_gradient`]).
    pub fn backward(
        &self,
        features: &[f32],
        activations: &mut Activations,
        gradient_projection: &[f32],
        gradient: &mut Head,
    ) {
        let batch = features.len() / self.inputs;
        let Activations { hidden, gradient_hidden, .. } = activations;
        transposed_multiply(self.outputs, batch, self.hidden, gradient_projection, hidden, 0.0, &mut gradient.w2);
        sum_rows(gradient_projection, &mut gradient.b2);
        gradient_hidden.resize(batch * self.hidden, 0.0);
        multiply(batch, self.outputs, self.hidden, gradient_projection, &self.w2, 0.0, gradient_hidden);
        for (value, hidden) in gradient_hidden.iter_mut().zip(hidden.iter()) {
            *value = if *hidden > 0.0 { *value } else { 0.0 };
        }
        transposed_multiply(self.hidden, batch, self.inputs, gradient_hidden, features, 0.0, &mut gradient.w1);
        sum_rows(gradient_hidden, &mut gradient.b1);
    }
}

/// Sum over the rows of a matrix whose rows have the length of `sum`.
fn sum_rows(rows: &[f32], sum: &mut [f32]) {
    sum.fill(0.0);
    for row in rows.chunks_exact(sum.len()) {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
}

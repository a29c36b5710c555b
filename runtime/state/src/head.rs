//! The projection head as it is stored and handed over, and ready-made projecting with it.

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use orco_core::projection::{HeadBatch, HeadParameters, HeadShape};
use orco_core::workers::Serial;

/// The parameters of a projection head g (OrCo, section 3.2); see [`orco_core::projection`] for what is computed with
/// them.
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

impl Head {
    /// A head of the given shape, all zero.
    pub fn zeros(shape: HeadShape) -> Self {
        let HeadShape { inputs, hidden, outputs } = shape;
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

    /// Its shape.
    pub fn shape(&self) -> HeadShape {
        HeadShape { inputs: self.inputs, hidden: self.hidden, outputs: self.outputs }
    }

    /// Whether the parameters have the lengths that the shape asks for and are all finite.
    pub fn is_sound(&self) -> bool {
        let lengths = self.inputs.checked_mul(self.hidden) == Some(self.w1.len())
            && self.b1.len() == self.hidden
            && self.outputs.checked_mul(self.hidden) == Some(self.w2.len())
            && self.b2.len() == self.outputs;
        lengths && self.parameters().iter().all(|values| values.iter().all(|value| value.is_finite()))
    }

    /// The parameters, borrowed as [`HeadShape::load`] reads them.
    pub fn as_parameters(&self) -> HeadParameters<&[f32]> {
        HeadParameters { w1: &self.w1, b1: &self.b1, w2: &self.w2, b2: &self.b2 }
    }

    /// The parameters, borrowed as [`HeadShape::store`] writes them.
    pub fn as_parameters_mut(&mut self) -> HeadParameters<&mut [f32]> {
        HeadParameters { w1: &mut self.w1, b1: &mut self.b1, w2: &mut self.w2, b2: &mut self.b2 }
    }

    /// The parameters, in the order w1, b1, w2, b2.
    pub fn parameters(&self) -> [&[f32]; 4] {
        [&self.w1, &self.b1, &self.w2, &self.b2]
    }

    /// The parameters, in the order w1, b1, w2, b2.
    pub fn parameters_mut(&mut self) -> [&mut [f32]; 4] {
        [&mut self.w1, &mut self.b1, &mut self.w2, &mut self.b2]
    }

    /// Projects features `[n, inputs]` onto the unit sphere, `[n, outputs]`; see [`Projector`] for doing so often.
    ///
    /// # Panics
    /// If `features.len()` is not a multiple of `inputs`.
    pub fn project(&self, features: &[f32]) -> Vec<f32> {
        Projector::new(self).project(features)
    }
}

/// A head made ready for projecting.
#[derive(Clone, Debug, PartialEq)]
pub struct Projector {
    shape: HeadShape,
    parameters: Vec<f32>,
}

impl Projector {
    /// Packs the head's parameters for matrix products.
    pub fn new(head: &Head) -> Self {
        let shape = head.shape();
        let mut parameters = vec![0.0; shape.parameters()];
        shape.load(head.as_parameters(), &mut parameters);
        Self { shape, parameters }
    }

    /// Length of a feature vector.
    pub fn inputs(&self) -> usize {
        self.shape.inputs
    }

    /// Projects features `[n, inputs]` onto the unit sphere, `[n, outputs]`, |z| = 1 within 1e-6, in batches of bounded
    /// size.
    ///
    /// # Panics
    /// If `features.len()` is not a multiple of `inputs`.
    pub fn project(&self, features: &[f32]) -> Vec<f32> {
        const ROWS: usize = 256;
        let HeadShape { inputs, outputs, .. } = self.shape;
        assert_eq!(features.len() % inputs, 0, "features are not rows of {inputs}");
        let rows = ROWS.min(features.len() / inputs);
        let mut hidden = vec![0.0; self.shape.activations(rows)];
        let (mut z, mut norms) = (vec![0.0; rows * self.shape.width()], vec![0.0; rows]);
        let mut projected = Vec::with_capacity(features.len() / inputs * outputs);
        for features in features.chunks(ROWS * inputs) {
            let rows = features.len() / inputs;
            let mut batch = HeadBatch {
                features,
                hidden: &mut hidden[..self.shape.activations(rows)],
                z: &mut z[..rows * self.shape.width()],
                norms: &mut norms[..rows],
            };
            self.shape.forward(&self.parameters, &mut batch, &Serial);
            projected.extend(batch.z.chunks_exact(self.shape.width()).flat_map(|row| &row[..outputs]));
        }
        projected
    }
}

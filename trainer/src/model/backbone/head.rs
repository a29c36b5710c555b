//! The projection head g as trainable tensors.

use tch::nn::{Init, Path};
use tch::{Kind, Tensor};

use crate::config::HeadConfig;
use crate::platform::device::values;

/// g(f) = W2 relu(W1 f + b1) + b2 (OrCo, section 3.2); the caller normalises.
#[derive(Debug)]
pub struct ProjectionHead {
    /// `[hidden, features]`.
    pub w1: Tensor,
    /// `[hidden]`.
    pub b1: Tensor,
    /// `[projection, hidden]`.
    pub w2: Tensor,
    /// `[projection]`.
    pub b2: Tensor,
}

impl ProjectionHead {
    /// Creates the parameters under `path`, initialised by [`linear_init`].
    pub fn new(path: &Path<'_>, features: i64, config: &HeadConfig) -> Self {
        Self {
            w1: path.var("w1", &[config.hidden, features], linear_init(features)),
            b1: path.var("b1", &[config.hidden], linear_init(features)),
            w2: path.var("w2", &[config.projection, config.hidden], linear_init(config.hidden)),
            b2: path.var("b2", &[config.projection], linear_init(config.hidden)),
        }
    }

    /// Divides the first layer's weights by the size of features, so that whatever backbone gives them the head starts
    /// as it would with features of size 1.
    ///
    /// # Shapes
    /// `features` f32 `[n, features]`.
    pub fn scale_to(&self, features: &Tensor) {
        let size = features.square().mean(Kind::Float).sqrt().double_value(&[]).max(1e-6);
        tch::no_grad(|| self.w1.shallow_clone().copy_(&(&self.w1 / size)));
    }

    /// Projects features, unnormalised.
    ///
    /// # Shapes
    /// `features` f32 `[n, features]`; returns f32 `[n, projection]`.
    pub fn forward(&self, features: &Tensor) -> Tensor {
        features.linear(&self.w1, Some(&self.b1)).relu().linear(&self.w2, Some(&self.b2))
    }

    /// Projects features onto the unit sphere, `[n, projection]`.
    pub fn project(&self, features: &Tensor) -> Tensor {
        unit(&self.forward(features))
    }

    /// Dimension d of the sphere.
    pub fn dimension(&self) -> i64 {
        self.w2.size()[0]
    }

    /// The parameters, in the order w1, b1, w2, b2.
    pub fn parameters(&self) -> [&Tensor; 4] {
        [&self.w1, &self.b1, &self.w2, &self.b2]
    }

    /// This head as the device stores it.
    pub fn to_runtime(&self) -> orco_state::head::Head {
        orco_state::head::Head {
            inputs: self.w1.size()[1] as usize,
            hidden: self.w1.size()[0] as usize,
            outputs: self.w2.size()[0] as usize,
            w1: values(&self.w1),
            b1: values(&self.b1),
            w2: values(&self.w2),
            b2: values(&self.b2),
        }
    }
}

/// The initial weights and biases of a layer with this fan-in, as `torch.nn.Linear` draws them: uniform in
/// +-1/sqrt(fan-in).
pub fn linear_init(fan_in: i64) -> Init {
    let bound = 1.0 / (fan_in as f64).sqrt();
    Init::Uniform { lo: -bound, up: bound }
}

/// Rows `[n, d]`, each divided by its length.
pub fn unit(x: &Tensor) -> Tensor {
    let norm = x.norm_scalaropt_dim(2.0, [1].as_slice(), true).clamp_min(1e-12);
    x / norm
}

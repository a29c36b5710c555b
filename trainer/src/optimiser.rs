//! Optimisers whose whole state can be saved and resumed: SGD, LARS, and the scaling of losses for f16.

mod fused;
mod lars;
mod scaler;
mod sgd;

pub use lars::{Lars, LarsConfig};
pub use scaler::Scaler;
pub use sgd::{Sgd, SgdConfig};

use std::collections::HashMap;

use tch::{Kind, Tensor, no_grad};

use crate::config::{OptimiserKind, PretrainConfig};

/// The optimiser that a recipe names for phase 1.
#[derive(Debug)]
pub enum Optimiser {
    /// Stochastic gradient descent.
    Sgd(Sgd),
    /// Layer-wise adaptive rate scaling.
    Lars(Lars),
}

impl Optimiser {
    /// The optimiser of phase 1, at its first step.
    pub fn new(parameters: Vec<Parameter>, config: &PretrainConfig) -> Self {
        let (momentum, weight_decay) = (config.momentum, config.weight_decay);
        match config.optimiser {
            OptimiserKind::Sgd => {
                let settings = SgdConfig { momentum, dampening: 0.0, weight_decay, nesterov: true };
                Self::Sgd(Sgd::new(parameters, settings))
            }
            OptimiserKind::Lars => {
                Self::Lars(Lars::new(parameters, LarsConfig { momentum, weight_decay, trust: config.trust }))
            }
        }
    }

    /// The parameters, in the order they were given.
    pub fn parameters(&self) -> &[Parameter] {
        match self {
            Self::Sgd(sgd) => sgd.parameters(),
            Self::Lars(lars) => lars.parameters(),
        }
    }

    /// Takes one step along gradients, one for each parameter (see [`gradients`]).
    pub fn step(&mut self, gradients: &[Tensor], learning_rate: f64) {
        match self {
            Self::Sgd(sgd) => sgd.step(gradients, learning_rate),
            Self::Lars(lars) => lars.step(gradients, learning_rate),
        }
    }

    /// The momenta by parameter name, for a checkpoint.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        match self {
            Self::Sgd(sgd) => sgd.state(),
            Self::Lars(lars) => lars.state(),
        }
    }

    /// Takes the momenta out of a checkpoint's tensors.
    pub fn restore(&mut self, tensors: &HashMap<String, Tensor>) {
        match self {
            Self::Sgd(sgd) => sgd.restore(tensors),
            Self::Lars(lars) => lars.restore(tensors),
        }
    }
}

/// A parameter with its name and whether weight decay applies.
#[derive(Debug)]
pub struct Parameter {
    /// Name in checkpoints.
    pub name: String,
    /// The trained tensor.
    pub tensor: Tensor,
    /// Whether weight decay applies.
    pub decays: bool,
}

/// Gradients of a loss, one for each parameter; undefined where the loss does not depend on it.
///
/// They are handed over as the backward pass made them. Collected in the parameters, as `backward` does, they would be
/// zeroed and added to, which is two passes over memory more.
pub fn gradients<'a>(loss: &Tensor, parameters: impl IntoIterator<Item = &'a Parameter>) -> Vec<Tensor> {
    let tensors: Vec<&Tensor> = parameters.into_iter().map(|parameter| &parameter.tensor).collect();
    Tensor::run_backward(&[loss], &tensors, false, false)
}

/// Divides gradients by `scale`; says whether every one of them is finite.
pub fn unscale(gradients: &mut [Tensor], scale: f64) -> bool {
    no_grad(|| {
        let defined = gradients.iter_mut().filter(|gradient| gradient.defined());
        let finite: Vec<Tensor> = defined
            .map(|gradient| {
                *gradient = &*gradient * (1.0 / scale);
                gradient.isfinite().all()
            })
            .collect();
        finite.is_empty() || Tensor::stack(&finite, 0).all().to_kind(Kind::Int64).int64_value(&[]) == 1
    })
}

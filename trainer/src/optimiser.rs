//! Optimisers whose whole state can be saved and resumed: SGD, LARS, and the scaling of losses for f16.

mod lars;
mod scaler;

pub use lars::{Lars, LarsConfig};
pub use scaler::Scaler;

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

    fn parameters_mut(&mut self) -> &mut [Parameter] {
        match self {
            Self::Sgd(sgd) => sgd.parameters_mut(),
            Self::Lars(lars) => lars.parameters_mut(),
        }
    }

    /// Sets all gradients to zero.
    pub fn zero_grad(&mut self) {
        self.parameters_mut().iter_mut().for_each(|parameter| parameter.tensor.zero_grad());
    }

    /// Divides all gradients by `scale`; says whether every one of them is finite.
    pub fn unscale(&mut self, scale: f64) -> bool {
        no_grad(|| {
            let gradients = self.parameters_mut().iter().map(|parameter| parameter.tensor.grad());
            let finite: Vec<Tensor> = gradients
                .filter(Tensor::defined)
                .map(|mut gradient| {
                    let _ = gradient.g_mul_scalar_(1.0 / scale);
                    gradient.isfinite().all()
                })
                .collect();
            finite.is_empty() || Tensor::stack(&finite, 0).all().to_kind(Kind::Int64).int64_value(&[]) == 1
        })
    }

    /// Takes one step along the gradients found in the parameters.
    pub fn step(&mut self, learning_rate: f64) {
        match self {
            Self::Sgd(sgd) => sgd.step(learning_rate),
            Self::Lars(lars) => lars.step(learning_rate),
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

/// Settings of [`Sgd`] other than the learning rate.
#[derive(Clone, Copy, Debug)]
pub struct SgdConfig {
    /// Share of the old direction that is kept.
    pub momentum: f64,
    /// Share of the new gradient that is left out (after the first step, as PyTorch does).
    pub dampening: f64,
    /// L2 pull towards zero on the parameters marked for it.
    pub weight_decay: f64,
    /// Look ahead along the new direction.
    pub nesterov: bool,
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

/// SGD with momentum, dampening and weight decay, in PyTorch's definition.
#[derive(Debug)]
pub struct Sgd {
    config: SgdConfig,
    parameters: Vec<Parameter>,
    momenta: Vec<Option<Tensor>>,
}

impl Sgd {
    /// An optimiser at its first step.
    pub fn new(parameters: Vec<Parameter>, config: SgdConfig) -> Self {
        let momenta = parameters.iter().map(|_| None).collect();
        Self { config, parameters, momenta }
    }

    fn parameters_mut(&mut self) -> &mut [Parameter] {
        &mut self.parameters
    }

    /// Sets all gradients to zero.
    pub fn zero_grad(&mut self) {
        for parameter in &mut self.parameters {
            parameter.tensor.zero_grad();
        }
    }

    /// Takes one step along the gradients found in the parameters.
    pub fn step(&mut self, learning_rate: f64) {
        no_grad(|| {
            for (parameter, momentum) in self.parameters.iter_mut().zip(&mut self.momenta) {
                let gradient = parameter.tensor.grad();
                if !gradient.defined() {
                    continue;
                }
                let gradient = if parameter.decays && self.config.weight_decay != 0.0 {
                    gradient + &parameter.tensor * self.config.weight_decay
                } else {
                    gradient
                };
                let direction = match momentum {
                    Some(old) => {
                        let kept: Tensor = &*old * self.config.momentum;
                        kept + &gradient * (1.0 - self.config.dampening)
                    }
                    None => gradient.copy(),
                };
                let update = if self.config.nesterov {
                    &gradient + &direction * self.config.momentum
                } else {
                    direction.shallow_clone()
                };
                let _ = parameter.tensor.g_sub_(&(update * learning_rate));
                *momentum = Some(direction);
            }
        });
    }

    /// The momenta by parameter name, for a checkpoint.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let named = self.parameters.iter().zip(&self.momenta);
        named.filter_map(|(p, m)| Some((format!("momentum.{}", p.name), m.as_ref()?.shallow_clone()))).collect()
    }

    /// Takes the momenta out of a checkpoint's tensors.
    pub fn restore(&mut self, tensors: &HashMap<String, Tensor>) {
        for (parameter, momentum) in self.parameters.iter().zip(&mut self.momenta) {
            *momentum = tensors.get(&format!("momentum.{}", parameter.name)).map(Tensor::shallow_clone);
        }
    }
}

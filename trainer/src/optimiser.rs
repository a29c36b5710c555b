//! Stochastic gradient descent whose whole state can be saved and resumed.

use tch::{Tensor, no_grad};

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
    pub fn restore(&mut self, tensors: &std::collections::HashMap<String, Tensor>) {
        for (parameter, momentum) in self.parameters.iter().zip(&mut self.momenta) {
            *momentum = tensors.get(&format!("momentum.{}", parameter.name)).map(Tensor::shallow_clone);
        }
    }
}

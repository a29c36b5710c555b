//! Stochastic gradient descent with momentum.

use std::collections::HashMap;

use tch::{Tensor, no_grad};

use super::Parameter;
use super::fused::{self, FusedStep, FusedTensors};

/// Settings of [`Sgd`] other than the learning rate.
#[derive(Clone, Copy, Debug)]
pub struct SgdConfig {
    /// Factor of the momentum buffer in each step.
    pub momentum: f64,
    /// The gradient enters the buffer times 1 - dampening; the first one in full, as in PyTorch.
    pub dampening: f64,
    /// Factor of the L2 penalty, on parameters with [`Parameter::decays`].
    pub weight_decay: f64,
    /// Whether momentum is Nesterov's.
    pub nesterov: bool,
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

    /// The parameters, in the order they were given.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Takes one step along gradients, one for each parameter (see [`super::gradients`]); parameters whose gradient is
    /// undefined stay as they are.
    pub fn step(&mut self, gradients: &[Tensor], learning_rate: f64) {
        let config = self.config;
        let step = FusedStep {
            momentum: config.momentum as f32,
            gradient_weight: (1.0 - config.dampening) as f32,
            weight_decay: config.weight_decay as f32,
            nesterov: config.nesterov,
            learning_rate: learning_rate as f32,
        };
        let firsts: Vec<bool> = self.momenta.iter().map(Option::is_none).collect();
        no_grad(|| {
            let mut parts = Vec::with_capacity(gradients.len());
            let each = self.parameters.iter_mut().zip(&mut self.momenta).zip(gradients).zip(firsts);
            for (((parameter, momentum), gradient), first) in each.filter(|((_, gradient), _)| gradient.defined()) {
                let weights = &mut parameter.tensor;
                let momentum = momentum.get_or_insert_with(|| weights.zeros_like());
                if FusedTensors::fits(weights, momentum, gradient) {
                    parts.push(FusedTensors::new(weights, momentum, gradient, parameter.decays, first));
                } else {
                    let weight_decay = if parameter.decays { config.weight_decay } else { 0.0 };
                    let config = SgdConfig { weight_decay, ..config };
                    by_tensors(weights, momentum, gradient, config, first, learning_rate);
                }
            }
            fused::apply(parts, step);
        });
    }

    /// The momenta by parameter name, for a checkpoint.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let named = self.parameters.iter().zip(&self.momenta);
        named.filter_map(|(p, m)| Some((format!("momentum.{}", p.name), m.as_ref()?.shallow_clone()))).collect()
    }

    /// Takes the momenta out of a checkpoint's tensors, onto the device and into the memory layout of the parameters.
    pub fn restore(&mut self, tensors: &HashMap<String, Tensor>) {
        for (parameter, momentum) in self.parameters.iter().zip(&mut self.momenta) {
            *momentum = tensors.get(&format!("momentum.{}", parameter.name)).map(|saved| {
                let mut own = no_grad(|| parameter.tensor.zeros_like());
                own.copy_(saved);
                own
            });
        }
    }
}

/// Takes one step of each group of parameters at its own learning rate. `gradients` are those of the groups'
/// parameters, group after group.
///
/// # Panics
/// If there are fewer gradients than parameters.
pub fn step_groups<'a>(groups: impl IntoIterator<Item = (&'a mut Sgd, f64)>, gradients: &[Tensor]) {
    let mut rest = gradients;
    for (group, learning_rate) in groups {
        let (own, others) = rest.split_at(group.parameters.len());
        group.step(own, learning_rate);
        rest = others;
    }
}

/// A step of one parameter as tensor operations, where `FusedTensors` does not fit it.
fn by_tensors(
    weights: &mut Tensor,
    momentum: &mut Tensor,
    gradient: &Tensor,
    config: SgdConfig,
    first: bool,
    learning_rate: f64,
) {
    let gradient = gradient + &*weights * config.weight_decay;
    if first {
        momentum.copy_(&gradient);
    } else {
        let _ = momentum.g_mul_scalar_(config.momentum).g_add_(&(&gradient * (1.0 - config.dampening)));
    }
    let update = if config.nesterov { gradient + &*momentum * config.momentum } else { momentum.shallow_clone() };
    let _ = weights.g_sub_(&(update * learning_rate));
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    /// Both ways of taking a step agree, over several steps and in every setting, whatever the layout.
    #[test]
    fn the_pass_over_memory_equals_the_tensor_operations() {
        let options = (Kind::Float, Device::Cpu);
        tch::manual_seed(4);
        for (dampening, weight_decay, nesterov) in [(0.0, 5e-4, true), (0.9, 1e-2, false), (0.0, 0.0, false)] {
            let config = SgdConfig { momentum: 0.9, dampening, weight_decay, nesterov };
            let shaped = || Tensor::randn([300, 5, 7, 11], options).permute([0, 3, 1, 2]);
            let start = shaped();
            let parameter = Parameter { name: "w".into(), tensor: start.copy(), decays: true };
            let mut sgd = Sgd::new(vec![parameter], config);
            let (mut weights, mut momentum) = (start.copy(), start.zeros_like());
            for step in 0..3 {
                // The last gradient lies otherwise in memory, and goes the other way.
                let gradient = if step < 2 { shaped() } else { shaped().contiguous() };
                sgd.step(&[gradient.shallow_clone()], 0.1);
                by_tensors(&mut weights, &mut momentum, &gradient, config, step == 0, 0.1);
                let near = |a: &Tensor, b: &Tensor| (a - b).abs().max().double_value(&[]) < 1e-6;
                assert!(near(&sgd.parameters[0].tensor, &weights), "step {step}");
                assert!(near(sgd.momenta[0].as_ref().unwrap(), &momentum), "step {step}");
            }
        }
    }
}

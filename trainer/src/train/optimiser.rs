//! Optimisers whose whole state can be saved and resumed: SGD, LARS, and the scaling of losses for f16.

mod fused;
mod lars;
mod loss_scaler;
mod sgd;

pub use lars::{Lars, LarsConfig};
pub use loss_scaler::LossScaler;
pub use sgd::{Sgd, SgdConfig, step_groups};

use std::collections::HashMap;

use tch::{Kind, Tensor, no_grad};

use crate::config::{OptimiserKind, PretrainConfig};
use crate::model::store::Parameter;

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

    /// The SGD by which every variant takes its steps: it has the parameters and the whole state.
    fn sgd(&self) -> &Sgd {
        match self {
            Self::Sgd(sgd) => sgd,
            Self::Lars(lars) => &lars.sgd,
        }
    }

    /// The parameters, in the order they were given.
    pub fn parameters(&self) -> &[Parameter] {
        self.sgd().parameters()
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
        self.sgd().state()
    }

    /// Takes the momenta out of a checkpoint's tensors.
    pub fn restore(&mut self, tensors: &HashMap<String, Tensor>) {
        match self {
            Self::Sgd(sgd) => sgd.restore(tensors),
            Self::Lars(lars) => lars.sgd.restore(tensors),
        }
    }
}

/// Gradients of a loss, one for each parameter; undefined where the loss does not depend on it.
///
/// They are handed over as the backward pass made them. Collected in the parameters, as `backward` does, they would be
/// zeroed and added to, which is two passes over memory more.
pub fn gradients<'a>(loss: &Tensor, parameters: impl IntoIterator<Item = &'a Parameter>) -> Vec<Tensor> {
    let tensors: Vec<&Tensor> = parameters.into_iter().map(|parameter| &parameter.tensor).collect();
    Tensor::run_backward(&[loss], &tensors, false, false)
}

/// Whether every number of every floating point tensor is finite; waits for the device once.
pub fn all_finite<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> bool {
    let floats = tensors.into_iter().filter(|tensor| tensor.is_floating_point());
    let each: Vec<Tensor> = no_grad(|| floats.map(|tensor| tensor.isfinite().all()).collect());
    each.is_empty() || Tensor::stack(&each, 0).all().to_kind(Kind::Int64).int64_value(&[]) == 1
}

/// Divides gradients by `scale`; says whether every one of them is finite.
pub fn unscale(gradients: &mut [Tensor], scale: f64) -> bool {
    no_grad(|| {
        let defined = gradients.iter_mut().filter(|gradient| gradient.defined());
        defined.for_each(|gradient| *gradient = &*gradient * (1.0 / scale));
    });
    all_finite(gradients.iter().filter(|gradient| gradient.defined()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_that_is_not_finite_is_found() {
        let good = Tensor::from_slice(&[1.0f32, -2.0]);
        assert!(all_finite(&[good.copy(), Tensor::from_slice(&[7i64])]) && all_finite(&[]));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(!all_finite(&[good.copy(), Tensor::from_slice(&[0.0, bad])]), "{bad}");
        }
    }

    #[test]
    fn momenta_come_back_to_where_their_parameters_are() {
        for kind in [OptimiserKind::Sgd, OptimiserKind::Lars] {
            let mut config: PretrainConfig =
                toml::from_str::<crate::config::Recipe>(include_str!("../../recipes/synthetic-tiny.toml"))
                    .unwrap()
                    .pretrain;
            config.optimiser = kind;
            let tensor = Tensor::ones([2, 3, 5, 4], (Kind::Float, tch::Device::Cpu)).permute([0, 3, 1, 2]);
            let parameter = |tensor: &Tensor| Parameter { name: "w".into(), tensor: tensor.copy(), decays: true };
            let mut first = Optimiser::new(vec![parameter(&tensor)], &config);
            first.step(&[tensor.ones_like()], 0.1);
            // As a checkpoint holds them: in the usual order.
            let saved = first.state().into_iter().map(|(name, momentum)| (name, momentum.contiguous())).collect();
            let mut second = Optimiser::new(vec![parameter(&first.parameters()[0].tensor)], &config);
            second.restore(&saved);
            let (there, own) = (&second.state()[0].1, &second.parameters()[0].tensor);
            assert_eq!((there.device(), there.stride()), (own.device(), own.stride()));
            first.step(&[tensor.ones_like()], 0.1);
            second.step(&[tensor.ones_like()], 0.1);
            assert!(first.parameters()[0].tensor.equal(&second.parameters()[0].tensor));
        }
    }
}

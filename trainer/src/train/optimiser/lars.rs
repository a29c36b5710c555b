//! LARS: SGD whose gradients are rescaled layer by layer, so that large batches can take large steps.

use tch::{Kind, Tensor, no_grad};

use super::{Parameter, Sgd, SgdConfig};

/// Keeps a vanishing gradient from dividing by zero.
const EPSILON: f64 = 1e-8;

/// Settings of [`Lars`] other than the learning rate.
#[derive(Clone, Copy, Debug)]
pub struct LarsConfig {
    /// Factor of the momentum buffer in each step.
    pub momentum: f64,
    /// w: factor of the L2 penalty, on parameters with [`Parameter::decays`].
    pub weight_decay: f64,
    /// Eta: the share of a weight's norm that a step may move it by.
    pub trust: f64,
}

/// Layer-wise adaptive rate scaling with clipping (You, Gitman and Ginsburg, 2017; clipped as in LARC): the decayed
/// gradient g + w p of every parameter that decays is multiplied by
/// min(eta |p| / (|g| + w |p|) / rate, 1), then SGD with momentum takes the step. Biases and norms are not rescaled.
#[derive(Debug)]
pub struct Lars {
    config: LarsConfig,
    /// Takes the steps along rescaled gradients.
    pub(super) sgd: Sgd,
}

impl Lars {
    /// An optimiser at its first step.
    pub fn new(parameters: Vec<Parameter>, config: LarsConfig) -> Self {
        let settings = SgdConfig { momentum: config.momentum, dampening: 0.0, weight_decay: 0.0, nesterov: false };
        Self { config, sgd: Sgd::new(parameters, settings) }
    }

    /// Takes one step along gradients, one for each parameter (see [`super::gradients`]).
    pub fn step(&mut self, gradients: &[Tensor], learning_rate: f64) {
        let adapted = |(parameter, gradient): (&Parameter, &Tensor)| {
            if parameter.decays && gradient.defined() {
                adapt(&parameter.tensor, gradient, learning_rate, self.config)
            } else {
                gradient.shallow_clone()
            }
        };
        let gradients: Vec<Tensor> = no_grad(|| self.sgd.parameters().iter().zip(gradients).map(adapted).collect());
        self.sgd.step(&gradients, learning_rate);
    }
}

/// The decayed, rescaled gradient; as it is where the weight or its gradient is zero throughout.
fn adapt(weight: &Tensor, gradient: &Tensor, learning_rate: f64, config: LarsConfig) -> Tensor {
    let norm = |tensor: &Tensor| tensor.to_kind(Kind::Float).norm();
    let (of_weight, of_gradient) = (norm(weight), norm(gradient));
    let trust = &of_weight * config.trust / (&of_gradient + &of_weight * config.weight_decay + EPSILON);
    let clipped = (trust / learning_rate.max(f64::MIN_POSITIVE)).clamp_max(1.0);
    let adapted = (gradient + weight * config.weight_decay) * clipped;
    let usable = of_weight.gt(0.0).logical_and(&of_gradient.gt(0.0));
    adapted.where_self(&usable, gradient)
}

#[cfg(test)]
mod tests {
    use tch::{Device, Tensor};

    use super::super::gradients;
    use super::*;

    const CONFIG: LarsConfig = LarsConfig { momentum: 0.9, weight_decay: 0.1, trust: 0.02 };

    /// A weight [3, 4] and a bias [1] with gradients [0.6, 0.8] times `scale` and [2].
    fn setting(scale: f64) -> (Tensor, Tensor, Lars, f64) {
        let weight = Tensor::from_slice(&[3.0f32, 4.0]).view([1, 2]).set_requires_grad(true);
        let bias = Tensor::from_slice(&[1.0f32]).set_requires_grad(true);
        let parameters = vec![
            Parameter { name: "weight".into(), tensor: weight.shallow_clone(), decays: true },
            Parameter { name: "bias".into(), tensor: bias.shallow_clone(), decays: false },
        ];
        (weight, bias, Lars::new(parameters, CONFIG), scale)
    }

    fn step((weight, bias, lars, scale): &mut (Tensor, Tensor, Lars, f64), rate: f64) {
        let gradient = Tensor::from_slice(&[0.6f32, 0.8]).view([1, 2]) * *scale;
        let loss = (&*weight * gradient).sum(Kind::Float) + (&*bias * 2.0).sum(Kind::Float);
        let gradients = gradients(&loss, lars.sgd.parameters());
        lars.step(&gradients, rate);
    }

    fn close(tensor: &Tensor, expected: &[f32]) {
        let values = Vec::<f32>::try_from(tensor.detach().view(-1)).unwrap();
        assert!(values.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{values:?}, not {expected:?}");
    }

    #[test]
    fn steps_are_those_computed_by_hand() {
        let mut setting = setting(1.0);
        // |p| = 5, |g| = 1: 0.02 * 5 / (1 + 0.1 * 5) / 0.5 = 0.1333; (0.6 + 0.3, 0.8 + 0.4) * 0.1333 = (0.12, 0.16).
        step(&mut setting, 0.5);
        close(&setting.0, &[3.0 - 0.5 * 0.12, 4.0 - 0.5 * 0.16]);
        close(&setting.1, &[0.0]);
        // Second step: |p| = 4.9, g as before; 0.02 * 4.9 / 1.49 / 0.5 = 0.1315436; momentum 0.9 of the first.
        step(&mut setting, 0.5);
        let second = [0.1315436 * (0.6 + 0.294) + 0.9 * 0.12, 0.1315436 * (0.8 + 0.392) + 0.9 * 0.16];
        close(&setting.0, &[2.94 - 0.5 * second[0], 3.92 - 0.5 * second[1]]);
        close(&setting.1, &[0.0 - 0.5 * (2.0 + 0.9 * 2.0)]);
    }

    #[test]
    fn small_rates_are_clipped_to_plain_steps() {
        let mut setting = setting(1.0);
        step(&mut setting, 0.01);
        close(&setting.0, &[3.0 - 0.01 * 0.9, 4.0 - 0.01 * 1.2]);
    }

    #[test]
    fn zero_gradients_move_nothing() {
        let mut setting = setting(0.0);
        step(&mut setting, 0.5);
        close(&setting.0, &[3.0, 4.0]);
        assert!(setting.2.sgd.state().iter().all(|(_, tensor)| tensor.device() == Device::Cpu));
    }
}

//! The loss of phase 3 in tch.

use orco_core::config::{Config, CrossEntropyOn, Perturbation};
use tch::{Kind, Tensor};

use crate::backbone::unit;
use crate::loss::{class_means, contrast, cosine_cross_entropy, orthogonality};

/// What a session trains towards.
pub(super) struct Goals<'a> {
    /// Number of base classes.
    pub(super) base: i64,
    /// Targets of the known classes, `[classes, d]`.
    pub(super) assigned: Tensor,
    /// The others, `[free, d]`.
    pub(super) free: Tensor,
    /// Weights of the terms, and how targets are perturbed.
    pub(super) config: &'a Config,
}

impl Goals<'_> {
    /// PSCL + CE + ORTH (protocol, phase 3): `z` `[views b, d]` unit rows, the first view of all samples first, `classes`
    /// `[b]`.
    pub(super) fn loss(&self, z: &Tensor, classes: &Tensor) -> Tensor {
        let config = self.config;
        let batch = classes.size()[0];
        let labels = classes.repeat([z.size()[0] / batch]);
        let mut total = Tensor::zeros([], (Kind::Float, z.device()));
        if config.contrast > 0.0 {
            let (rows, row_labels) = self.perturbed(z, &labels, batch);
            let loss = contrast(&rows, &row_labels, f64::from(config.temperature), config.contrast_form);
            total += loss * f64::from(config.contrast);
        }
        let least = if config.cross_entropy_on == CrossEntropyOn::All { 0 } else { self.base };
        let counted = [(config.cross_entropy, labels.ge(least)), (config.base_cross_entropy, labels.less(self.base))];
        for (weight, counted) in counted.iter().filter(|(weight, _)| *weight > 0.0) {
            let counted = counted.nonzero().squeeze_dim(1);
            if counted.numel() > 0 {
                let (z, labels) = (z.index_select(0, &counted), labels.index_select(0, &counted));
                total += cosine_cross_entropy(&z, &self.assigned, &labels) * f64::from(*weight);
            }
        }
        if config.orthogonality > 0.0 {
            // Base classes enter by their targets, and so does a new class that the batch lacks.
            let (means, present) = class_means(&z.narrow(0, 0, batch), classes, 0..self.assigned.size()[0]);
            let new = Tensor::arange(present.size()[0], (Kind::Int64, z.device())).ge(self.base).unsqueeze(1);
            let known = means.where_self(&present.logical_and(&new), &self.assigned);
            let rows = Tensor::cat(&[known, self.free.shallow_clone()], 0);
            total += orthogonality(&rows) * f64::from(config.orthogonality);
        }
        total
    }

    /// The rows with perturbed targets below them, twice as many as the batch has samples, and all labels: a class's
    /// number, then numbers past the classes for free targets.
    fn perturbed(&self, z: &Tensor, labels: &Tensor, batch: i64) -> (Tensor, Tensor) {
        let wanted = self.config.perturbed;
        let (known, free) = (self.assigned.size()[0], self.free.size()[0]);
        let parts =
            [(0, self.base, wanted.base), (self.base, known, wanted.incremental), (known, known + free, wanted.free)];
        let pool: Vec<i64> = parts.iter().filter(|part| part.2).flat_map(|part| part.0..part.1).collect();
        if pool.is_empty() {
            return (z.shallow_clone(), labels.shallow_clone());
        }
        let count = pool.len() as i64;
        let order = Tensor::from_slice(&pool).to_device(z.device()).index_select(0, &permutation(count, z));
        let chosen = order.repeat([(batch + count - 1) / count]).narrow(0, 0, batch);
        let clean = Tensor::cat(&[&self.assigned, &self.free], 0).index_select(0, &chosen);
        let width = f64::from(self.config.perturbation_width);
        let noisy = || match self.config.perturbation {
            Perturbation::None => clean.shallow_clone(),
            Perturbation::Uniform => unit(&(&clean + (clean.rand_like() - 0.5) * width)),
            Perturbation::Gaussian => unit(&(&clean + clean.randn_like() * width)),
        };
        (Tensor::cat(&[z.shallow_clone(), noisy(), noisy()], 0), Tensor::cat(&[labels, &chosen, &chosen], 0))
    }
}

fn permutation(count: i64, like: &Tensor) -> Tensor {
    Tensor::randperm(count, (Kind::Int64, like.device()))
}

#[cfg(test)]
mod tests {
    use orco_core::align::{Alignment, Batch, Extent, Goals as Fixed};
    use orco_core::config::Perturbed;
    use orco_core::loss::contrast::Form;
    use orco_core::projection::Shape;
    use orco_core::workers::Serial;
    use orco_state::head::Head;
    use tch::Device;

    use super::*;

    #[test]
    fn the_loss_is_the_runtimes() {
        for contrast_form in [Form::Outside, Form::Inside, Form::Negatives] {
            the_loss_with(contrast_form);
        }
    }

    /// The runtime's loss of the same batch, without perturbed targets: number and gradients must be the same. The batch
    /// lacks two classes.
    fn the_loss_with(contrast_form: Form) {
        tch::manual_seed(7);
        let random = |shape: &[i64]| Tensor::randn(shape, (Kind::Float, Device::Cpu));
        let flat = |tensor: &Tensor| Vec::<f32>::try_from(tensor.contiguous().view(-1)).unwrap();
        let targets = unit(&random(&[9, 6]));
        let (assigned, free) = (targets.narrow(0, 0, 7), targets.narrow(0, 7, 2));
        let config = Config {
            perturbed: Perturbed { base: false, incremental: false, free: false },
            cross_entropy: 0.5,
            base_cross_entropy: 0.6,
            contrast_form,
            ..Config::orco()
        };
        let classes = [0i64, 5, 2, 6, 5, 0, 1];
        let weights = [random(&[5, 4]), random(&[5]), random(&[6, 5]), random(&[6])];
        let [w1, b1, w2, b2] = weights.each_ref().map(|weight| weight.set_requires_grad(true));
        let features = random(&[14, 4]);
        let z = unit(&features.linear(&w1, Some(&b1)).relu().linear(&w2, Some(&b2)));
        let goals = Goals { base: 4, assigned: assigned.copy(), free: free.copy(), config: &config };
        let loss = goals.loss(&z, &Tensor::from_slice(&classes));
        let gradients = Tensor::run_backward(&[&loss], &[&w1, &b1, &w2, &b2], false, false);
        let ours = loss.double_value(&[]);

        let shape = Shape { inputs: 4, hidden: 5, outputs: 6 };
        let [w1, b1, w2, b2] = weights.map(|tensor| flat(&tensor.detach()));
        let head = Head { inputs: 4, hidden: 5, outputs: 6, w1, b1, w2, b2 };
        let extent = Extent { shape, samples: 7, views: 2, classes: 7, targets: 9 };
        let (mut numbers, mut indices) = (vec![0.0; extent.needs().numbers], vec![0; extent.needs().indices]);
        let (assigned, free) = (flat(&assigned), flat(&free));
        let fixed = Fixed { base_classes: 4, assigned: &assigned, free: &free };
        let mut alignment = Alignment::new(&extent, head.view(), &fixed, &mut numbers, &mut indices, &Serial);
        let classes = classes.map(|class| class as u32);
        let batch = Batch { features: &flat(&features), classes: &classes, perturbed: &[], perturbed_labels: &[] };
        let mut gradient = head.clone();
        let theirs = f64::from(alignment.gradient(&batch, &config, gradient.view_mut()).total());
        assert!((ours - theirs).abs() < 1e-4 * theirs.abs(), "{ours}, the runtime's {theirs}");
        for (ours, theirs) in gradients.iter().zip([&gradient.w1, &gradient.b1, &gradient.w2, &gradient.b2]) {
            let ours = flat(ours);
            let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4 * (1.0 + b.abs());
            assert!(
                ours.len() == theirs.len() && ours.iter().zip(theirs).all(near),
                "{ours:?}, the runtime's {theirs:?}"
            );
        }
    }
}

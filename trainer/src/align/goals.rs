//! What phase 2 trains towards: the targets by role, and the OrCo loss over them.

use tch::{Kind, Tensor};

use super::Assignment;
use crate::backbone::unit;
use crate::config::{AlignConfig, Noise, Perturbed};
use crate::loss::{class_means, contrast, cosine_cross_entropy, orthogonality};

/// The targets by role.
pub(super) struct Goals {
    /// Of the base classes, in order of label, `[base, d]`.
    assigned: Tensor,
    /// The others, `[free, d]`.
    free: Tensor,
}

impl Goals {
    pub(super) fn new(assignment: &Assignment, device: tch::Device) -> Self {
        let free: Vec<i64> = (0..assignment.targets.size()[0]).filter(|row| !assignment.rows.contains(row)).collect();
        let select = |rows: &[i64]| assignment.targets.index_select(0, &Tensor::from_slice(rows).to_device(device));
        Self { assigned: select(&assignment.rows), free: select(&free) }
    }

    /// PSCL + ORTH + CE of a batch (protocol, phase 2): `z` `[2 b, d]` unit rows of both views, `labels` `[b]`.
    pub(super) fn loss(&self, z: &Tensor, labels: &Tensor, config: &AlignConfig) -> Tensor {
        let batch = labels.size()[0];
        let both = labels.repeat([2]);
        let mut total = Tensor::zeros([], (Kind::Float, z.device()));
        if config.contrast > 0.0 {
            let (rows, row_labels) = self.perturbed(z, &both, batch, config);
            let loss = contrast(&rows, &row_labels, config.temperature, config.contrast_form);
            total += loss * config.contrast;
        }
        if config.cross_entropy > 0.0 {
            total += cosine_cross_entropy(z, &self.assigned, &both) * config.cross_entropy;
        }
        if config.orthogonality > 0.0 {
            let (means, present) = class_means(&z.narrow(0, 0, batch), labels, 0..self.assigned.size()[0]);
            // A class that the batch lacks enters by its target.
            let known = means.where_self(&present, &self.assigned);
            let rows = Tensor::cat(&[known, self.free.shallow_clone()], 0);
            total += orthogonality(&rows) * config.orthogonality;
        }
        total
    }

    /// The rows `z` with perturbed targets below them, as many for each view as the batch has images, and all labels.
    fn perturbed(&self, z: &Tensor, labels: &Tensor, batch: i64, config: &AlignConfig) -> (Tensor, Tensor) {
        let base = self.assigned.size()[0];
        let (pool, first) = match config.perturbed {
            Perturbed::None => return (z.shallow_clone(), labels.shallow_clone()),
            Perturbed::Free => (self.free.shallow_clone(), base),
            Perturbed::Assigned => (self.assigned.shallow_clone(), 0),
            Perturbed::All => (Tensor::cat(&[&self.assigned, &self.free], 0), 0),
        };
        let count = pool.size()[0];
        let mut rows = vec![z.shallow_clone()];
        let mut row_labels = vec![labels.shallow_clone()];
        if count > 0 {
            let order = Tensor::randperm(count, (Kind::Int64, z.device()));
            let chosen = order.repeat([(batch + count - 1) / count]).narrow(0, 0, batch);
            for _view in 0..2 {
                let clean = pool.index_select(0, &chosen);
                let noise = match config.noise {
                    Noise::Uniform => (clean.rand_like() - 0.5) * config.perturbation,
                    Noise::Wide => (clean.rand_like() - 0.5) * (2.0 * config.perturbation),
                    Noise::Gaussian => clean.randn_like() * config.perturbation,
                };
                rows.push(unit(&(clean + noise)));
                row_labels.push(&chosen + first);
            }
        }
        (Tensor::cat(&rows, 0), Tensor::cat(&row_labels, 0))
    }

    /// Draws what [`Goals::loss`] draws for a batch of so many images.
    pub(super) fn draw(&self, batch: i64, config: &AlignConfig) {
        if config.contrast > 0.0 {
            let none = self.assigned.narrow(0, 0, 0);
            let labels = Tensor::zeros([0], (Kind::Int64, none.device()));
            let _ = self.perturbed(&none, &labels, batch, config);
        }
    }

    /// Share of rows whose nearest assigned target is their class's.
    pub(super) fn accuracy(&self, z: &Tensor, labels: &Tensor) -> f64 {
        let nearest = z.matmul(&self.assigned.transpose(0, 1)).argmax(1, false);
        nearest.eq_tensor(labels).to_kind(Kind::Float).mean(Kind::Float).double_value(&[])
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::config::Recipe;

    #[test]
    fn the_settings_say_which_targets_are_perturbed_and_how_much() {
        let recipe: Recipe = toml::from_str(include_str!("../../recipes/cifar100-edge.toml")).unwrap();
        let targets = Tensor::eye(5, (Kind::Float, Device::Cpu));
        let goals = Goals::new(&Assignment { targets, rows: vec![4, 1] }, Device::Cpu);
        let (z, labels) = (goals.assigned.shallow_clone(), Tensor::from_slice(&[0i64, 1]));
        let drawn = |perturbed, noise| {
            let config = AlignConfig { perturbed, noise, perturbation: 0.01, ..recipe.align.clone() };
            let (rows, labels) = goals.perturbed(&z, &labels, 60, &config);
            let mut labels: Vec<i64> = Vec::try_from(labels.slice(0, 2, None, 1)).unwrap();
            labels.sort_unstable();
            labels.dedup();
            let all = Tensor::cat(&[&goals.assigned, &goals.free], 0);
            let added = rows.slice(0, 2, None, 1);
            let gap = (&added - all.index_select(0, &added.matmul(&all.transpose(0, 1)).argmax(1, false))).abs();
            (labels, if gap.numel() == 0 { 0.0 } else { gap.max().double_value(&[]) })
        };
        assert_eq!(drawn(Perturbed::None, Noise::Uniform), (vec![], 0.0));
        let (labels, widest) = drawn(Perturbed::Free, Noise::Uniform);
        assert_eq!(labels, [2, 3, 4]);
        assert!((0.004..0.0051).contains(&widest), "{widest}");
        let (labels, widest) = drawn(Perturbed::Assigned, Noise::Wide);
        assert_eq!(labels, [0, 1]);
        assert!((0.008..0.0102).contains(&widest), "{widest}");
        let (labels, widest) = drawn(Perturbed::All, Noise::Gaussian);
        assert_eq!(labels, [0, 1, 2, 3, 4]);
        assert!(widest > 0.015, "{widest}");
    }
}

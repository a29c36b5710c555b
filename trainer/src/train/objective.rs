//! The objective of phases 2 and 3 in tch: PSCL + CE + ORTH over the pseudo-targets by role (OrCo, section 3.4).
//!
//! Phase 2 and the comparison of phase 3 minimise the same sum; what differs is in [`ObjectiveConfig`], and in which
//! classes enter ORTH by their targets. The runtime's learner computes the same on the device ([`orco_core::align`]).

mod generation;

use std::ops::Range;

use orco_core::align::{Perturbation, PerturbedTargets};
use orco_core::config::{ClassScope, MethodConfig, UnperturbedTargets};
use orco_core::loss::contrast::ContrastForm;
use tch::{Device, Kind, Tensor};

pub use self::generation::pseudo_targets;
use crate::config::BaseAlignConfig;
use crate::model::backbone::unit;
use crate::train::loss::{contrast, cosine_cross_entropy, orthogonality, unit_class_means};

/// The pseudo-targets, and which of them each known class has.
#[derive(Debug)]
pub struct Targets {
    /// Unit rows, f32 `[count, d]`.
    pub vectors: Tensor,
    /// The row in `vectors` of each known class's target, in order of label.
    pub assignment: Vec<i64>,
}

impl Targets {
    /// The known classes' targets in order of label, `[known, d]`.
    pub fn assigned(&self) -> Tensor {
        self.select(&self.assignment)
    }

    /// Rows of the unassigned targets, ascending.
    pub fn free_rows(&self) -> Vec<i64> {
        (0..self.vectors.size()[0]).filter(|row| !self.assignment.contains(row)).collect()
    }

    /// The unassigned targets, `[free, d]`.
    pub fn free(&self) -> Tensor {
        self.select(&self.free_rows())
    }

    /// These targets on another device.
    #[must_use]
    pub fn to_device(&self, device: Device) -> Self {
        Self { vectors: self.vectors.to_device(device), assignment: self.assignment.clone() }
    }

    fn select(&self, rows: &[i64]) -> Tensor {
        self.vectors.index_select(0, &Tensor::from_slice(rows).to_device(self.vectors.device()))
    }
}

/// Weights of the three terms, the temperature of PSCL, and how its targets are perturbed: what phase 2 and phase 3 set
/// differently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectiveConfig {
    /// Weight of PSCL; 0 leaves it out, as for the others.
    contrast: f64,
    contrast_form: ContrastForm,
    temperature: f64,
    perturbed: PerturbedTargets,
    perturbation: Perturbation,
    /// Magnitude e of the perturbation: the width of the uniform distribution, the deviation of the Gaussian one.
    perturbation_width: f64,
    /// Targets that are rows of PSCL unperturbed.
    unperturbed_targets: UnperturbedTargets,
    /// Weight of a cross entropy over the samples of incremental classes.
    cross_entropy: f64,
    /// Classes in the softmax of that cross entropy.
    cross_entropy_classes: ClassScope,
    /// Weight of a cross entropy over the samples of base classes alone.
    base_cross_entropy: f64,
    orthogonality: f64,
    /// Classes that enter ORTH by their means in a session.
    orthogonality_classes: ClassScope,
}

impl From<&BaseAlignConfig> for ObjectiveConfig {
    fn from(config: &BaseAlignConfig) -> Self {
        Self {
            contrast: config.contrast,
            contrast_form: config.contrast_form,
            temperature: config.temperature,
            perturbed: config.perturbed,
            perturbation: config.perturbation,
            perturbation_width: config.perturbation_width,
            unperturbed_targets: config.unperturbed_targets,
            // Phase 2 has samples of base classes only, and they enter ORTH by their means.
            cross_entropy: 0.0,
            cross_entropy_classes: ClassScope::All,
            base_cross_entropy: config.cross_entropy,
            orthogonality: config.orthogonality,
            orthogonality_classes: ClassScope::All,
        }
    }
}

impl From<&MethodConfig> for ObjectiveConfig {
    fn from(config: &MethodConfig) -> Self {
        Self {
            contrast: config.contrast.into(),
            contrast_form: config.contrast_form,
            temperature: config.temperature.into(),
            perturbed: PerturbedTargets::PHASE_3,
            perturbation: Perturbation::Uniform,
            perturbation_width: config.perturbation_width.into(),
            unperturbed_targets: config.unperturbed_targets,
            cross_entropy: config.cross_entropy.into(),
            cross_entropy_classes: config.cross_entropy_classes,
            base_cross_entropy: config.base_cross_entropy.into(),
            orthogonality: config.orthogonality.into(),
            orthogonality_classes: config.orthogonality_classes,
        }
    }
}

/// What phase 2, or a session of the comparison, minimises.
#[derive(Debug)]
pub struct Objective {
    config: ObjectiveConfig,
    /// Number of base classes.
    base: i64,
    /// The known classes' targets, `[known, d]`.
    assigned: Tensor,
    /// Unassigned targets, `[free, d]`.
    free: Tensor,
    /// `assigned`, then `free`.
    all: Tensor,
    /// Rows of `all` that are perturbed, i64.
    perturbed: Tensor,
    /// Rows of `all` that enter PSCL as they are, i64.
    unperturbed: Tensor,
}

impl Objective {
    /// The objective of phase 2, which knows base classes only; their means in the batch enter ORTH.
    pub fn of_base(targets: &Targets, config: ObjectiveConfig) -> Self {
        Self::of_session(targets, config, targets.assignment.len() as i64)
    }

    /// The objective of an incremental session, where the first `base` known classes are base classes.
    pub fn of_session(targets: &Targets, config: ObjectiveConfig, base: i64) -> Self {
        let (assigned, free) = (targets.assigned(), targets.free());
        let all = Tensor::cat(&[&assigned, &free], 0);
        let (known, count) = (assigned.size()[0], all.size()[0]);
        let rows_of = |roles: &[(Range<i64>, bool)]| {
            let chosen = roles.iter().filter(|(_, is_chosen)| *is_chosen).flat_map(|(rows, _)| rows.clone());
            Tensor::from_slice(&chosen.collect::<Vec<i64>>()).to_device(all.device())
        };
        let PerturbedTargets { base: of_base, incremental, free: of_free } = config.perturbed;
        let perturbed = rows_of(&[(0..base, of_base), (base..known, incremental), (known..count, of_free)]);
        let UnperturbedTargets { assigned: of_known, free: of_free } = config.unperturbed_targets;
        let unperturbed = rows_of(&[(0..known, of_known), (known..count, of_free)]);
        Self { config, base, assigned, free, all, perturbed, unperturbed }
    }

    /// PSCL + CE + ORTH of a batch, each times its weight.
    ///
    /// # Shapes
    /// `z` f32 `[views b, d]` unit rows, the first view of all samples first; `labels` i64 `[b]`; returns a scalar.
    pub fn loss(&self, z: &Tensor, labels: &Tensor) -> Tensor {
        let (config, batch) = (&self.config, labels.size()[0]);
        let row_labels = labels.repeat([z.size()[0] / batch]);
        let mut total = Tensor::zeros([], (Kind::Float, z.device()));
        if config.contrast > 0.0 {
            total += self.perturbed_contrast(z, &row_labels, batch) * config.contrast;
        }
        if config.cross_entropy > 0.0
            && let Some(loss) = self.incremental_cross_entropy(z, &row_labels)
        {
            total += loss * config.cross_entropy;
        }
        if config.base_cross_entropy > 0.0
            && let Some(loss) = self.base_cross_entropy(z, &row_labels)
        {
            total += loss * config.base_cross_entropy;
        }
        if config.orthogonality > 0.0 {
            total += self.batch_orthogonality(&z.narrow(0, 0, batch), labels) * config.orthogonality;
        }
        total
    }

    /// PSCL (OrCo, Eq. 6): contrast over the rows of all views and the targets that join them, and twice as many
    /// perturbed targets as the batch has samples.
    fn perturbed_contrast(&self, z: &Tensor, labels: &Tensor, batch: i64) -> Tensor {
        let (rows, labels) = self.with_perturbed(z, labels, batch);
        let (rows, labels) = self.with_unperturbed(rows, labels);
        contrast(&rows, &labels, self.config.temperature, self.config.contrast_form)
    }

    /// CE (OrCo, Eq. 5) of the rows of incremental classes; nothing if there is none.
    fn incremental_cross_entropy(&self, z: &Tensor, labels: &Tensor) -> Option<Tensor> {
        let first = self.config.cross_entropy_classes.first(self.base as usize) as i64;
        self.cross_entropy_of(&labels.ge(self.base), z, labels, first)
    }

    /// CE of the rows of base classes, over all known classes; nothing if there is none.
    fn base_cross_entropy(&self, z: &Tensor, labels: &Tensor) -> Option<Tensor> {
        if self.assigned.size()[0] == self.base {
            // In phase 2 every row is of a base class: a GPU need not be waited for.
            return Some(cosine_cross_entropy(z, &self.assigned, labels));
        }
        self.cross_entropy_of(&labels.less(self.base), z, labels, 0)
    }

    /// Cross entropy of the rows that `counted` (bool `[n]`) marks, over the targets of the known classes from `first`
    /// on; nothing if it marks none.
    fn cross_entropy_of(&self, counted: &Tensor, z: &Tensor, labels: &Tensor, first: i64) -> Option<Tensor> {
        let counted = counted.nonzero().squeeze_dim(1);
        let (z, labels) = (z.index_select(0, &counted), labels.index_select(0, &counted));
        let targets = self.assigned.narrow(0, first, self.assigned.size()[0] - first);
        (counted.numel() > 0).then(|| cosine_cross_entropy(&z, &targets, &(labels - first)))
    }

    /// ORTH (OrCo, Eq. 7) over the means of those classes in the batch that `orthogonality_classes` covers, as the
    /// first view shows them, the targets of all other known classes, and the free targets.
    fn batch_orthogonality(&self, first_view: &Tensor, labels: &Tensor) -> Tensor {
        let (means, is_present) = unit_class_means(first_view, labels, 0..self.assigned.size()[0]);
        let first = self.config.orthogonality_classes.first(self.base as usize) as i64;
        let enters_by_mean =
            Tensor::arange(is_present.size()[0], (Kind::Int64, first_view.device())).ge(first).unsqueeze(1);
        let known = means.where_self(&is_present.logical_and(&enters_by_mean), &self.assigned);
        orthogonality(&Tensor::cat(&[known, self.free.shallow_clone()], 0))
    }

    /// The rows and labels of PSCL with the unperturbed targets below them.
    fn with_unperturbed(&self, rows: Tensor, labels: Tensor) -> (Tensor, Tensor) {
        if self.unperturbed.numel() == 0 {
            return (rows, labels);
        }
        let unperturbed = self.all.index_select(0, &self.unperturbed);
        (Tensor::cat(&[rows, unperturbed], 0), Tensor::cat(&[labels, self.unperturbed.shallow_clone()], 0))
    }

    /// The rows `z` with perturbed targets below them, and the labels of both: the number of a class, then numbers past
    /// the classes for free targets.
    ///
    /// Targets are drawn without replacement as far as there are enough, one for each sample of the batch, and each is
    /// perturbed twice: unit(t + e (u - 1/2)) with u uniform in `[0, 1]^d` (the published program), or unit(t + e n)
    /// with n standard normal; e is [`ObjectiveConfig::perturbation_width`].
    ///
    /// # Shapes
    /// `z` f32 `[n, d]`, `labels` i64 `[n]`; returns f32 `[n + 2 batch, d]`, i64 `[n + 2 batch]`.
    fn with_perturbed(&self, z: &Tensor, labels: &Tensor, batch: i64) -> (Tensor, Tensor) {
        let count = self.perturbed.size()[0];
        if count == 0 {
            return (z.shallow_clone(), labels.shallow_clone());
        }
        let order = self.perturbed.index_select(0, &Tensor::randperm(count, (Kind::Int64, z.device())));
        let chosen = order.repeat([(batch + count - 1) / count]).narrow(0, 0, batch);
        let targets = self.all.index_select(0, &chosen);
        let width = self.config.perturbation_width;
        let perturbed = || match self.config.perturbation {
            Perturbation::None => targets.shallow_clone(),
            Perturbation::Uniform => unit(&(&targets + (targets.rand_like() - 0.5) * width)),
            Perturbation::Gaussian => unit(&(&targets + targets.randn_like() * width)),
        };
        (Tensor::cat(&[z.shallow_clone(), perturbed(), perturbed()], 0), Tensor::cat(&[labels, &chosen, &chosen], 0))
    }

    /// Draws the random numbers that [`Objective::loss`] draws for a batch of this many samples, to skip a step.
    pub fn replay_draws(&self, batch: i64) {
        if self.config.contrast > 0.0 {
            let none = self.assigned.narrow(0, 0, 0);
            let labels = Tensor::zeros([0], (Kind::Int64, none.device()));
            let _ = self.with_perturbed(&none, &labels, batch);
        }
    }

    /// The known class whose target is nearest to each row, i64 `[n]`.
    pub fn nearest(&self, z: &Tensor) -> Tensor {
        z.matmul(&self.assigned.transpose(0, 1)).argmax(1, false)
    }
}

#[cfg(test)]
mod tests;

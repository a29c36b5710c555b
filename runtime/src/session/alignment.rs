//! One training step of phase 3: losses, gradient, update.

use alloc::vec::Vec;

use crate::config::{Config, CrossEntropyOn};
use crate::head::{Activations, Head};
use crate::loss::orthogonality::Members;
use crate::loss::{contrast, cross_entropy, orthogonality};

/// What the head is aligned to; unchanged during a session.
#[derive(Clone, Copy, Debug)]
pub struct Goals<'a> {
    /// Dimension d of the sphere.
    pub dimension: usize,
    /// Number of base classes, which come first among the classes.
    pub base_classes: usize,
    /// Targets of all known classes, `[classes, dimension]`.
    pub assigned: &'a [f32],
    /// Targets that no class has, `[free, dimension]`.
    pub free: &'a [f32],
}

/// The samples of one step.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Features of the first view of every sample, then of the second: `[2 b, inputs]`.
    pub features: &'a [f32],
    /// Class of every sample, `[b]`.
    pub classes: &'a [u32],
    /// Perturbed targets for the first view, then for the second: `[2 p, dimension]`, unit rows.
    pub perturbed: &'a [f32],
    /// Their labels `[p]`: the class of an assigned target, a number past the classes for a free one.
    pub perturbed_labels: &'a [u32],
}

/// The three terms of the loss; cross entropy and orthogonality with their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// PSCL.
    pub contrast: f32,
    /// CE.
    pub cross_entropy: f32,
    /// ORTH.
    pub orthogonality: f32,
}

impl Losses {
    /// The sum of the terms.
    pub fn total(&self) -> f32 {
        self.contrast + self.cross_entropy + self.orthogonality
    }

    pub(super) fn add(&mut self, other: &Losses, weight: f32) {
        self.contrast += weight * other.contrast;
        self.cross_entropy += weight * other.cross_entropy;
        self.orthogonality += weight * other.orthogonality;
    }
}

/// A head in training, with its momentum and all working memory.
#[derive(Clone, Debug)]
pub struct Alignment {
    head: Head,
    gradient: Head,
    momentum: Head,
    started: bool,
    activations: Activations,
    rows: Vec<f32>,
    row_gradient: Vec<f32>,
    labels: Vec<u32>,
    targets_apart: Vec<f32>,
    contrast: contrast::Scratch,
    cross_entropy: cross_entropy::Scratch,
    orthogonality: orthogonality::Scratch,
}

impl Alignment {
    /// Training that starts from `head`.
    pub fn new(head: Head) -> Self {
        let like = || Head::zeros(head.inputs, head.hidden, head.outputs);
        Self {
            gradient: like(),
            momentum: like(),
            head,
            started: false,
            activations: Activations::default(),
            rows: Vec::new(),
            row_gradient: Vec::new(),
            labels: Vec::new(),
            targets_apart: Vec::new(),
            contrast: contrast::Scratch::default(),
            cross_entropy: cross_entropy::Scratch::default(),
            orthogonality: orthogonality::Scratch::default(),
        }
    }

    /// The head as trained so far.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Gradient of the last batch, of the head's shape.
    pub fn last_gradient(&self) -> &Head {
        &self.gradient
    }

    /// Ends training.
    pub fn into_head(self) -> Head {
        self.head
    }

    /// Computes the losses of a batch and the gradient of their sum with respect to the head.
    pub fn gradient(&mut self, goals: &Goals<'_>, batch: &Batch<'_>, config: &Config) -> Losses {
        let dimension = goals.dimension;
        self.head.forward(batch.features, &mut self.activations);
        let samples = self.activations.z.len();
        self.rows.clear();
        self.rows.extend_from_slice(&self.activations.z);
        self.rows.extend_from_slice(batch.perturbed);
        self.row_gradient.clear();
        self.row_gradient.resize(self.rows.len(), 0.0);
        let losses = Losses {
            contrast: self.contrast(dimension, batch, config),
            cross_entropy: self.cross_entropy(goals, batch, config),
            orthogonality: self.orthogonality(goals, batch, config),
        };
        let row_gradient = &mut self.row_gradient[..samples];
        self.head.unnormalise_gradient(&self.activations, row_gradient);
        self.head.backward(batch.features, &mut self.activations, row_gradient, &mut self.gradient);
        losses
    }

    /// One step of SGD with momentum, dampening and weight decay, in PyTorch's definition (the first direction is the
    /// gradient itself, undamped).
    pub fn update(&mut self, rate: f32, config: &Config) {
        let (keep, take) = if self.started { (config.momentum, 1.0 - config.dampening) } else { (0.0, 1.0) };
        self.started = true;
        let gradients = self.gradient.parameters();
        for ((weights, momenta), gradients) in
            self.head.parameters_mut().into_iter().zip(self.momentum.parameters_mut()).zip(gradients)
        {
            for ((weight, momentum), gradient) in weights.iter_mut().zip(momenta).zip(gradients) {
                *momentum = keep * *momentum + take * (gradient + config.weight_decay * *weight);
                *weight -= rate * *momentum;
            }
        }
    }

    /// PSCL over both views and the perturbed targets. Gradients of the perturbed rows are computed and dropped.
    fn contrast(&mut self, dimension: usize, batch: &Batch<'_>, config: &Config) -> f32 {
        if config.contrast == 0.0 {
            return 0.0;
        }
        self.labels.clear();
        for labels in [batch.classes, batch.classes, batch.perturbed_labels, batch.perturbed_labels] {
            self.labels.extend_from_slice(labels);
        }
        let loss = contrast::loss(
            &self.rows,
            dimension,
            &self.labels,
            config.temperature,
            config.contrast_form,
            &mut self.row_gradient,
            &mut self.contrast,
        );
        if config.contrast != 1.0 {
            self.row_gradient.iter_mut().for_each(|value| *value *= config.contrast);
        }
        config.contrast * loss
    }

    /// CE over both views, softmax over all known classes.
    fn cross_entropy(&mut self, goals: &Goals<'_>, batch: &Batch<'_>, config: &Config) -> f32 {
        if config.cross_entropy == 0.0 {
            return 0.0;
        }
        let counts = |class: u32| match config.cross_entropy_on {
            CrossEntropyOn::Incremental => class as usize >= goals.base_classes,
            CrossEntropyOn::All => true,
        };
        let both_views = batch.classes.iter().chain(batch.classes);
        let labels: Vec<Option<usize>> = both_views.map(|&class| counts(class).then_some(class as usize)).collect();
        let samples = labels.len() * goals.dimension;
        let loss = cross_entropy::loss(
            &self.rows[..samples],
            goals.dimension,
            goals.assigned,
            &labels,
            config.cross_entropy,
            &mut self.row_gradient[..samples],
            &mut self.cross_entropy,
        );
        config.cross_entropy * loss
    }

    /// ORTH over the first view's means of incremental classes, the targets of all other known classes, and the free
    /// targets.
    fn orthogonality(&mut self, goals: &Goals<'_>, batch: &Batch<'_>, config: &Config) -> f32 {
        if config.orthogonality == 0.0 {
            return 0.0;
        }
        let dimension = goals.dimension;
        let mut present: Vec<u32> =
            batch.classes.iter().copied().filter(|&class| class as usize >= goals.base_classes).collect();
        present.sort_unstable();
        present.dedup();
        self.targets_apart.clear();
        for (class, target) in goals.assigned.chunks_exact(dimension).enumerate() {
            if present.binary_search(&(class as u32)).is_err() {
                self.targets_apart.extend_from_slice(target);
            }
        }
        self.targets_apart.extend_from_slice(goals.free);
        let of_rows: Vec<Option<usize>> = batch.classes.iter().map(|class| present.binary_search(class).ok()).collect();
        let samples = of_rows.len() * dimension;
        let loss = orthogonality::with_means(
            &self.rows[..samples],
            dimension,
            &Members { of_rows: &of_rows, means: present.len() },
            &self.targets_apart,
            config.orthogonality,
            &mut self.row_gradient[..samples],
            &mut self.orthogonality,
        );
        config.orthogonality * loss
    }
}

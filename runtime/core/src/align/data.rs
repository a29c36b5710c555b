//! What an alignment learns from.

use super::perturbation::Sampling;
use super::step::StepExtent;
use crate::config::MethodConfig;
use crate::exemplar::Exemplars;
use crate::projection::{HeadParameters, HeadShape};

/// Everything that a session learns from. Classes are numbered base classes first.
#[derive(Clone, Copy, Debug)]
pub struct AlignmentData<'a> {
    /// Shape of the head.
    pub shape: HeadShape,
    /// The head after phase 2.
    pub head: HeadParameters<&'a [f32]>,
    /// Pseudo-targets, unit rows `[targets, outputs]`.
    pub targets: &'a [f32],
    /// Number of base classes.
    pub base_classes: usize,
    /// Exemplars of the base classes, which the bundle brings.
    pub base: Exemplars<'a>,
    /// Exemplars collected on the device, of any class.
    pub learned: Exemplars<'a>,
}

/// What [`super::align`] takes: data, the targets of the classes, settings, and how batches are drawn.
#[derive(Clone, Copy, Debug)]
pub struct AlignmentInput<'a> {
    /// What the head learns from.
    pub data: &'a AlignmentData<'a>,
    /// For every known class the row of its target, `[classes]`, as [`super::assign_new_classes`] leaves it.
    pub assigned: &'a [u32],
    /// How it learns.
    pub config: &'a MethodConfig,
    /// How its batches are drawn.
    pub sampling: Sampling,
}

impl<'a> AlignmentData<'a> {
    /// Numbers of the exemplars trained on: at most as many of each base class as the configuration says, and all that
    /// the device collected.
    pub fn exemplars(&self, config: &MethodConfig) -> impl Iterator<Item = u32> + use<'a> {
        let (classes, limit) = (self.base.classes, config.base_exemplars);
        let earlier = move |exemplar: usize| classes[..exemplar].iter().filter(|of| **of == classes[exemplar]).count();
        let base = (0..classes.len()).filter(move |&exemplar| earlier(exemplar) < limit);
        base.chain(classes.len()..classes.len() + self.learned.len()).map(|exemplar| exemplar as u32)
    }

    /// The bank that holds an exemplar of that number, and its number there.
    pub fn find(&self, exemplar: u32) -> (&Exemplars<'a>, usize) {
        let (exemplar, base) = (exemplar as usize, self.base.len());
        if exemplar < base { (&self.base, exemplar) } else { (&self.learned, exemplar - base) }
    }

    /// Class of an exemplar of that number.
    pub(super) fn class_of(&self, exemplar: u32) -> u32 {
        let (bank, exemplar) = self.find(exemplar);
        bank.classes[exemplar]
    }

    /// Most views that an exemplar has.
    pub(super) fn views(&self) -> usize {
        self.base.views.max(self.learned.views)
    }

    /// Number of pseudo-targets.
    pub(super) fn target_count(&self) -> usize {
        self.targets.len() / self.shape.outputs
    }

    /// How large the steps of an alignment of so many known classes are at most.
    pub(super) fn extent(&self, classes: usize, config: &MethodConfig) -> StepExtent {
        StepExtent::new(self.shape, self.target_count(), classes, self.base.len() + self.learned.len(), config)
    }

    /// Floating-point operations of the matrix products of [`super::align`] over so many known classes: those of the
    /// head and of the losses.
    pub fn operations(&self, classes: usize, config: &MethodConfig) -> u64 {
        operations(self.shape, self.target_count(), classes, self.exemplars(config).count(), config)
    }
}

/// Floating-point operations of the matrix products of [`super::align`] for a head of that shape and so many
/// pseudo-targets, known classes and exemplars: those of the head and of the losses.
pub fn operations(shape: HeadShape, targets: usize, classes: usize, exemplars: usize, config: &MethodConfig) -> u64 {
    let samples = config.samples_of_epoch(exemplars);
    let batch = config.batch.max(1);
    let of_step = |samples: usize| operations_of_step(shape, targets, classes, samples, config);
    let steps = (samples / batch) as u64 * of_step(batch);
    let last = match samples % batch {
        0 => 0,
        rest => of_step(rest),
    };
    config.epochs as u64 * (steps + last)
}

/// Floating-point operations of a step with so many samples.
fn operations_of_step(shape: HeadShape, targets: usize, classes: usize, samples: usize, config: &MethodConfig) -> u64 {
    let (views, outputs) = (config.sample.views(), shape.outputs);
    let (rows, means) = (views * samples, samples.min(classes));
    let beside = 2 * samples + config.unperturbed_targets.count(classes, targets);
    let pairs = |rows: usize, wanted: usize| (rows * rows + wanted * rows) * outputs;
    let entropies = 1 + usize::from(config.base_cross_entropy != 0.0);
    let losses = pairs(rows + beside, rows) + entropies * 2 * rows * classes * outputs + pairs(targets, means);
    2 * (rows as u64 * (shape.forward_cost() + shape.backward_cost()) + losses as u64)
}

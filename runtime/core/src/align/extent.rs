//! How large an alignment is: the working memory and the arithmetic that follow from it, before it begins.

use super::data::AlignmentData;
use super::memory::{WorkspaceSize, total_length};
use super::sampler::Sampler;
use super::step::StepExtent;
use super::{AssignmentNumbers, assignment_indices};
use crate::config::MethodConfig;
use crate::projection::HeadShape;

/// The shapes of an alignment, at most; known when a program is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignmentExtent {
    /// Shape of the head.
    pub shape: HeadShape,
    /// Pseudo-targets, assigned and free.
    pub targets: usize,
    /// Known classes, base classes among them.
    pub classes: usize,
    /// Exemplars, those of base classes among them.
    pub exemplars: usize,
}

impl AlignmentExtent {
    /// Working memory that [`super::assign_new_classes`] and [`super::align`] need. With 0 epochs only the
    /// assignment needs memory.
    pub const fn workspace_size(&self, config: &MethodConfig) -> WorkspaceSize {
        let Self { shape, targets, classes, exemplars } = *self;
        let assigning = WorkspaceSize {
            numbers: AssignmentNumbers::size(shape, classes, targets),
            indices: total_length(&assignment_indices(classes, targets)),
        };
        if config.epochs == 0 {
            return assigning;
        }
        let step = self.step_extent(config);
        let target_rows = WorkspaceSize { numbers: targets * shape.outputs, indices: 0 };
        let sampler = Sampler::workspace_size(shape, step.samples, exemplars, targets, config);
        target_rows.plus(sampler).plus(step.workspace_size()).max(assigning)
    }

    /// The largest steps of the alignment.
    const fn step_extent(&self, config: &MethodConfig) -> StepExtent {
        let Self { shape, targets, classes, exemplars } = *self;
        let samples = if config.batch < exemplars { config.batch } else { exemplars };
        let samples = if samples == 0 { 1 } else { samples };
        StepExtent {
            shape,
            samples,
            views: config.sample.views(),
            classes,
            targets,
            unperturbed_targets: config.unperturbed_targets,
        }
    }

    /// Floating-point operations of the matrix products of [`super::align`], those of the head and of the losses, where
    /// it trains on all of the exemplars.
    pub fn operations(&self, config: &MethodConfig) -> u64 {
        if config.epochs == 0 {
            return 0;
        }
        let samples = config.samples_of_epoch(self.exemplars);
        let batch = config.batch.max(1);
        let steps = (samples / batch) as u64 * self.operations_of_step(batch, config);
        let last = match samples % batch {
            0 => 0,
            rest => self.operations_of_step(rest, config),
        };
        let before = 2 * (self.targets * self.targets * self.shape.outputs) as u64;
        before + config.epochs as u64 * (steps + last)
    }

    /// Floating-point operations of a step with this many samples: two for each multiply-add.
    fn operations_of_step(&self, samples: usize, config: &MethodConfig) -> u64 {
        let Self { shape, targets, classes, .. } = *self;
        let (views, outputs) = (config.sample.views(), shape.outputs);
        let (rows, means) = (views * samples, samples.min(classes));
        let target_rows = 2 * samples + config.unperturbed_targets.count(classes, targets);
        let pairs = |rows: usize, wanted: usize| (rows * rows + wanted * rows) * outputs;
        let entropies = 1 + usize::from(config.base_cross_entropy != 0.0);
        let contrast = pairs(rows + target_rows, rows);
        let orthogonality = 3 * means * targets * outputs + pairs(means, means);
        let losses = contrast + entropies * 2 * rows * classes * outputs + orthogonality;
        2 * (rows as u64 * (shape.forward_cost() + shape.backward_cost()) + losses as u64)
    }
}

impl AlignmentData<'_> {
    /// The extent of an alignment of this many known classes on this many exemplars.
    fn extent(&self, classes: usize, exemplars: usize) -> AlignmentExtent {
        AlignmentExtent { shape: self.shape, targets: self.target_count(), classes, exemplars }
    }

    /// Working memory that [`super::assign_new_classes`] and [`super::align`] need for this many known classes, and
    /// `more` exemplars beyond those of the data.
    pub fn workspace_size(&self, classes: usize, more: usize, config: &MethodConfig) -> WorkspaceSize {
        self.extent(classes, self.base.len() + self.learned.len() + more).workspace_size(config)
    }

    /// How large the steps of an alignment of this many known classes are at most.
    pub(super) fn step_extent(&self, classes: usize, config: &MethodConfig) -> StepExtent {
        self.extent(classes, self.base.len() + self.learned.len()).step_extent(config)
    }

    /// Floating-point operations of the matrix products of [`super::align`] over this many known classes: those of the
    /// head and of the losses.
    pub fn operations(&self, classes: usize, config: &MethodConfig) -> u64 {
        self.extent(classes, self.exemplars(config).count()).operations(config)
    }
}

//! What an alignment learns from.

use super::sampling::Sampling;
use crate::config::MethodConfig;
use crate::exemplar::Exemplars;
use crate::projection::{HeadParameters, HeadShape};

/// Everything that an alignment learns from. Classes are numbered base classes first.
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
}

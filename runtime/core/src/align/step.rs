//! Trains the head in phase 3: what stays from step to step, then losses, gradient and update of each step.

use super::memory::{Workspace, WorkspaceSize, buffers};
use crate::config::{MethodConfig, UnperturbedTargets};
use crate::linalg::{pack_transposed, padded};
use crate::loss::contrast::{ContrastBatch, ContrastSettings};
use crate::loss::cross_entropy::{self, ClassRows, CrossEntropyBatch};
use crate::loss::orthogonality::{self, OrthogonalityBatch, OrthogonalityScratch, OrthogonalityTargets};
use crate::loss::{GradientAccumulator, PairScratch, UnitRows, contrast};
use crate::projection::{self, HeadParameters, HeadShape, SgdUpdate, TrainableHead};
use crate::workers::Workers;

/// What the head is aligned to; unchanged during an alignment.
#[derive(Clone, Copy, Debug)]
pub struct TargetRows<'a> {
    /// Number of base classes, which come first among the classes.
    pub base_classes: usize,
    /// Targets of all known classes, `[classes, outputs]`.
    pub assigned: &'a [f32],
    /// Targets that no class has, `[free, outputs]`.
    pub free: &'a [f32],
}

/// The samples of one step.
#[derive(Clone, Copy, Debug)]
pub struct StepBatch<'a> {
    /// Features of the first view of every sample, then those of the second view, if there is one: `[views b, inputs]`.
    pub features: &'a [f32],
    /// Class of every sample, `[b]`.
    pub classes: &'a [u32],
    /// Perturbed targets, each twice: those for the first view, then those for the second, `[2 p, outputs]`, unit rows.
    pub perturbed: &'a [f32],
    /// Their labels `[p]`: the class of an assigned target, a number past the classes for a free one.
    pub perturbed_labels: &'a [u32],
}

/// The three terms of the loss, each with its weight in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossTerms {
    /// PSCL.
    pub contrast: f32,
    /// CE.
    pub cross_entropy: f32,
    /// ORTH.
    pub orthogonality: f32,
}

impl LossTerms {
    /// The sum of the terms.
    pub fn total(&self) -> f32 {
        self.contrast + self.cross_entropy + self.orthogonality
    }

    pub(super) fn add(&mut self, other: &LossTerms, weight: f32) {
        self.contrast += weight * other.contrast;
        self.cross_entropy += weight * other.cross_entropy;
        self.orthogonality += weight * other.orthogonality;
    }
}

/// The largest step that a training may take: upper bounds of its shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepExtent {
    /// Shape of the head.
    pub shape: HeadShape,
    /// Samples.
    pub samples: usize,
    /// Views of a sample, 1 or 2.
    pub views: usize,
    /// Known classes.
    pub classes: usize,
    /// Targets, assigned and free.
    pub targets: usize,
    /// Which targets are rows of PSCL unperturbed.
    pub unperturbed_targets: UnperturbedTargets,
}

impl StepExtent {
    /// Working memory of a [`HeadTrainer`].
    pub const fn workspace_size(&self) -> WorkspaceSize {
        WorkspaceSize { numbers: StepNumbers::size(self), indices: StepIndices::size(self) }
    }

    /// Rows that are projected in a step: all views of the samples.
    const fn projections(&self) -> usize {
        self.views * self.samples
    }

    /// Rows of the sphere in a step: the projections, two perturbed targets for each sample, and unperturbed ones.
    const fn rows(&self) -> usize {
        self.projections() + 2 * self.samples + self.unperturbed_targets.count(self.classes, self.targets)
    }

    /// Class means in a step.
    const fn means(&self) -> usize {
        if self.samples < self.classes { self.samples } else { self.classes }
    }

    /// Numbers that PSCL works with, or ORTH.
    const fn pairs(&self) -> usize {
        let contrast = PairScratch::length(self.rows(), self.projections(), self.shape.width());
        let orthogonality = orthogonality::memory(self.means(), self.targets, self.shape.width());
        if contrast > orthogonality { contrast } else { orthogonality }
    }
}

buffers! {
    /// The numbers of a training; `width` is [`HeadShape::width`], the outputs padded to whole vectors.
    struct StepNumbers of f32, sized by (extent: &StepExtent) {
        /// The head in panel layout ([`HeadShape::load`]).
        parameters: extent.shape.parameters(),
        /// Its momenta.
        momenta: extent.shape.parameters(),
        /// What its backward pass works with ([`HeadShape::scratch`]).
        backward: extent.shape.scratch(extent.projections()),
        /// Hidden units of the batch ([`HeadShape::activations`]).
        hidden: extent.shape.activations(extent.projections()),
        /// Lengths of the projections before they were normalised, `[projections]`.
        norms: extent.projections(),
        /// Unit rows: projections, then perturbed targets, then unperturbed ones, `[rows, width]`.
        rows: extent.rows() * extent.shape.width(),
        /// The losses' gradient with respect to the projections, `[projections, width]`.
        gradient: extent.projections() * extent.shape.width(),
        /// All targets, those of the classes first, `[targets, width]`.
        targets: extent.targets * extent.shape.width(),
        /// The targets transposed ([`pack_transposed`]).
        transposed: padded(extent.targets) * extent.shape.width(),
        /// For each target its sum of exponentials over all targets ([`orthogonality::target_sums`]), `[targets]`.
        target_sums: extent.targets,
        /// What the losses over pairs of rows work with: PSCL ([`PairScratch`]), then ORTH ([`orthogonality::memory`]).
        pairs: extent.pairs(),
        /// What cross entropy works with ([`cross_entropy::memory`]).
        logits: cross_entropy::memory(extent.projections(), extent.classes),
        /// ORTH's gradient with respect to the class means, `[means, width]`.
        mean_gradient: extent.means() * extent.shape.width(),
        /// Lengths of the class means before they were normalised, `[means]`.
        mean_norms: extent.means(),
    }
}

buffers! {
    /// The indices of a training.
    struct StepIndices of u32, sized by (extent: &StepExtent) {
        /// Labels of the rows.
        labels: extent.rows(),
        /// Number of each class's mean, or [`ABSENT`].
        mean_of_class: extent.classes,
        /// Class of each mean.
        class_of_mean: extent.means(),
        /// Samples of each mean.
        mean_counts: extent.means(),
    }
}

/// Trains a head step by step: it has the parameters, their momenta, and all working memory.
pub struct HeadTrainer<'a> {
    shape: HeadShape,
    workers: &'a dyn Workers,
    base_classes: usize,
    classes: usize,
    started: bool,
    numbers: StepNumbers<'a>,
    indices: StepIndices<'a>,
}

/// Marks a class that is not in the batch.
const ABSENT: u32 = u32::MAX;

impl<'a> HeadTrainer<'a> {
    /// Training that starts from `head`, in a workspace of at least [`StepExtent::workspace_size`].
    ///
    /// # Panics
    /// If the workspace or a slice is too short.
    pub fn new(
        extent: &StepExtent,
        head: HeadParameters<&[f32]>,
        target_rows: &TargetRows<'_>,
        workspace: Workspace<'a>,
    ) -> Self {
        let Workspace { numbers, indices, workers } = workspace;
        let StepExtent { shape, classes, targets: count, .. } = *extent;
        let mut numbers = StepNumbers::carve(numbers, extent);
        let indices = StepIndices::carve(indices, extent);
        shape.load(head, numbers.parameters);
        numbers.momenta.fill(0.0);
        let targets = [target_rows.assigned, target_rows.free];
        let targets = targets.iter().flat_map(|rows| rows.chunks_exact(shape.outputs));
        let width = shape.width();
        numbers.targets.chunks_exact_mut(width).zip(targets).for_each(|(to, from)| copy_zero_padded(to, from));
        pack_transposed(count, width, numbers.targets, numbers.transposed);
        let StepNumbers { targets, transposed, target_sums, pairs, .. } = &mut numbers;
        orthogonality::target_sums(UnitRows { values: targets, width }, transposed, target_sums, pairs, workers);
        let base_classes = target_rows.base_classes;
        Self { shape, workers, base_classes, classes, started: false, numbers, indices }
    }

    /// Writes out the head as trained so far.
    pub fn store(&self, head: HeadParameters<&mut [f32]>) {
        self.shape.store(self.numbers.parameters, head);
    }

    /// Whether all parameters are finite.
    pub fn is_finite(&self) -> bool {
        self.numbers.parameters.iter().all(|value| value.is_finite())
    }

    /// One step of SGD with momentum, dampening and weight decay, in PyTorch's definition (the first direction is the
    /// gradient itself, undamped). Returns the loss terms before the update.
    ///
    /// # Panics
    /// If the batch is empty, or larger than the extent.
    pub fn step(&mut self, batch: &StepBatch<'_>, config: &MethodConfig, rate: f32) -> LossTerms {
        let (momentum, gradient_scale) =
            if self.started { (config.momentum, 1.0 - config.dampening) } else { (0.0, 1.0) };
        self.started = true;
        let [first, last] = config.layer_rates;
        let decay = config.weight_decay;
        let (rate, last_rate) = (rate * first, rate * last);
        self.run_batch(batch, config, SgdUpdate { rate, last_rate, momentum, gradient_scale, decay })
    }

    /// Writes out the gradient of a batch's loss with respect to the head, and returns the losses; the next step starts
    /// without momentum.
    pub fn gradient(
        &mut self,
        batch: &StepBatch<'_>,
        config: &MethodConfig,
        gradient: HeadParameters<&mut [f32]>,
    ) -> LossTerms {
        let losses = self.run_batch(batch, config, SgdUpdate::GRADIENT);
        self.started = false;
        self.shape.store(self.numbers.momenta, gradient);
        losses
    }

    /// Forward, losses, backward with the update.
    fn run_batch(&mut self, batch: &StepBatch<'_>, config: &MethodConfig, update: SgdUpdate) -> LossTerms {
        self.forward(batch);
        self.place_targets(batch, config);
        let length = self.projections(batch) * self.shape.width();
        self.numbers.gradient[..length].fill(0.0);
        let losses = LossTerms {
            contrast: self.contrast(batch, config),
            cross_entropy: self.cross_entropy(batch, config),
            orthogonality: self.orthogonality(batch, config),
        };
        self.backward(batch, update);
        losses
    }

    /// Rows that are projected for a batch.
    fn projections(&self, batch: &StepBatch<'_>) -> usize {
        batch.features.len() / self.shape.inputs
    }

    /// Projects the batch.
    fn forward(&mut self, batch: &StepBatch<'_>) {
        let Self { shape, workers, .. } = *self;
        let StepNumbers { parameters, hidden, rows, norms, .. } = &mut self.numbers;
        shape.forward(parameters, &mut pass(shape, batch, hidden, rows, norms), workers);
    }

    /// Puts the targets of PSCL below the projections, and the labels of all rows.
    fn place_targets(&mut self, batch: &StepBatch<'_>, config: &MethodConfig) {
        let (shape, projections) = (self.shape, self.projections(batch));
        let width = shape.width();
        let StepNumbers { rows, targets, .. } = &mut self.numbers;
        let perturbed = batch.perturbed.chunks_exact(shape.outputs);
        let unperturbed = unperturbed_labels(config.unperturbed_targets, self.classes, targets.len() / width);
        let labels = batch.perturbed_labels.iter().copied().cycle().take(perturbed.len());
        let labels = batch.classes.iter().copied().cycle().take(projections).chain(labels).chain(unperturbed.clone());
        let mut rest = rows[projections * width..].chunks_exact_mut(width);
        rest.by_ref().zip(perturbed).for_each(|(to, from)| copy_zero_padded(to, from));
        rest.zip(unperturbed).for_each(|(to, label)| to.copy_from_slice(&targets[label as usize * width..][..width]));
        self.indices.labels.iter_mut().zip(labels).for_each(|(to, from)| *to = from);
    }

    /// Adds the gradient of PSCL over the projections and the targets beside them; returns the weighted loss.
    fn contrast(&mut self, batch: &StepBatch<'_>, config: &MethodConfig) -> f32 {
        let weight = config.contrast;
        if weight == 0.0 {
            return 0.0;
        }
        let (width, projections) = (self.shape.width(), self.projections(batch));
        let StepNumbers { rows, gradient, pairs, targets, .. } = &mut self.numbers;
        let unperturbed = config.unperturbed_targets.count(self.classes, targets.len() / width);
        let count = projections + batch.perturbed.len() / self.shape.outputs + unperturbed;
        let rows = UnitRows { values: &rows[..count * width], width };
        let labels = &self.indices.labels[..count];
        let settings = ContrastSettings { temperature: config.temperature, form: config.contrast_form };
        let batch = ContrastBatch { rows, labels, settings };
        let gradient = GradientAccumulator { weight, values: &mut gradient[..projections * width] };
        weight * contrast::loss(batch, gradient, &mut PairScratch { memory: pairs }, self.workers)
    }

    /// Adds the gradients of cross entropy over samples of incremental classes, then of base classes; returns the
    /// weighted losses.
    fn cross_entropy(&mut self, batch: &StepBatch<'_>, config: &MethodConfig) -> f32 {
        let (width, projections) = (self.shape.width(), self.projections(batch));
        let (samples, base) = (batch.classes.len(), self.base_classes);
        let StepNumbers { rows, gradient, targets, transposed, logits, .. } = &mut self.numbers;
        let rows = UnitRows { values: &rows[..projections * width], width };
        let gradient = &mut gradient[..projections * width];
        let targets = UnitRows { values: &targets[..self.classes * width], width };
        let first = config.cross_entropy_classes.first(base);
        let mut sum = 0.0;
        for (weight, of_base, first) in [(config.cross_entropy, false, first), (config.base_cross_entropy, true, 0)] {
            if weight != 0.0 {
                let classes = ClassRows { targets, transposed, first };
                let label = |row: usize| {
                    let class = batch.classes[row % samples] as usize;
                    ((class < base) == of_base).then_some(class)
                };
                let batch = CrossEntropyBatch { rows, label, classes };
                let gradient = GradientAccumulator { weight, values: &mut *gradient };
                sum += weight * cross_entropy::loss(batch, gradient, logits, self.workers);
            }
        }
        sum
    }

    /// Adds the gradient of ORTH over the means of the first views and the other targets; returns the weighted loss.
    fn orthogonality(&mut self, batch: &StepBatch<'_>, config: &MethodConfig) -> f32 {
        let weight = config.orthogonality;
        if weight == 0.0 {
            return 0.0;
        }
        let (width, samples) = (self.shape.width(), batch.classes.len());
        let StepIndices { mean_of_class, class_of_mean, mean_counts, .. } = &mut self.indices;
        let StepNumbers { rows, gradient, targets, transposed, target_sums, mean_gradient, mean_norms, pairs, .. } =
            &mut self.numbers;
        let first = config.orthogonality_classes.first(self.base_classes);
        let count = number_means(batch.classes, first, mean_of_class, class_of_mean);
        let scratch = OrthogonalityScratch {
            numbers: pairs,
            gradient: &mut mean_gradient[..count * width],
            norms: &mut mean_norms[..count],
            counts: &mut mean_counts[..count],
        };
        let mean_of = |row: usize| {
            let mean = mean_of_class[batch.classes[row] as usize];
            (mean != ABSENT).then_some(mean as usize)
        };
        let targets = OrthogonalityTargets { rows: UnitRows { values: targets, width }, transposed, sums: target_sums };
        let rows = UnitRows { values: &rows[..samples * width], width };
        let first_views = OrthogonalityBatch { rows, mean_of, target_of_mean: &class_of_mean[..count] };
        let gradient = GradientAccumulator { weight, values: &mut gradient[..samples * width] };
        weight * orthogonality::loss(first_views, targets, gradient, scratch, self.workers)
    }

    /// Takes the gradient back through the head, with the update.
    fn backward(&mut self, batch: &StepBatch<'_>, update: SgdUpdate) {
        let Self { shape, workers, .. } = *self;
        let gradient_length = self.projections(batch) * shape.width();
        let StepNumbers { parameters, momenta, backward, hidden, norms, rows, gradient, .. } = &mut self.numbers;
        let gradient = &mut gradient[..gradient_length];
        let mut pass = pass(shape, batch, hidden, rows, norms);
        shape.backward_normalisation(&pass, gradient);
        let mut head = TrainableHead { parameters, momenta, scratch: backward };
        shape.backward(&mut head, &mut pass, gradient, update, workers);
    }
}

/// A batch on its way through the head, in the buffers of a step.
fn pass<'a>(
    shape: HeadShape,
    batch: &StepBatch<'a>,
    hidden: &'a mut [f32],
    rows: &'a mut [f32],
    norms: &'a mut [f32],
) -> projection::HeadBatch<'a> {
    let projections = batch.features.len() / shape.inputs;
    projection::HeadBatch {
        features: batch.features,
        hidden: &mut hidden[..shape.activations(projections)],
        z: &mut rows[..projections * shape.width()],
        norms: &mut norms[..projections],
    }
}

/// Labels of the targets that are rows of PSCL unperturbed. The first `classes` of `targets` are assigned.
fn unperturbed_labels(which: UnperturbedTargets, classes: usize, targets: usize) -> impl Iterator<Item = u32> + Clone {
    let assigned = if which.assigned { classes } else { 0 };
    let first_free = if which.free { classes } else { targets };
    (0..assigned as u32).chain(first_free as u32..targets as u32)
}

/// Numbers the classes of a batch from `first` on, in their order; returns how many there are.
fn number_means(classes: &[u32], first: usize, mean_of_class: &mut [u32], class_of_mean: &mut [u32]) -> usize {
    mean_of_class.fill(ABSENT);
    classes.iter().filter(|class| **class as usize >= first).for_each(|class| mean_of_class[*class as usize] = 0);
    let mut count = 0;
    for (class, mean) in mean_of_class.iter_mut().enumerate().filter(|(_, mean)| **mean != ABSENT) {
        *mean = count as u32;
        class_of_mean[count] = class as u32;
        count += 1;
    }
    count
}

/// Copies a row and pads it with zeros.
pub(super) fn copy_zero_padded(to: &mut [f32], from: &[f32]) {
    to[..from.len()].copy_from_slice(from);
    to[from.len()..].fill(0.0);
}

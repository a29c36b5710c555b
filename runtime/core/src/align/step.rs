//! One training step of phase 3: losses, gradient, update.

use super::memory::{WorkspaceSize, carve, sum};
use crate::config::Config;
use crate::linalg::{pack_transposed, padded};
use crate::loss::cross_entropy::{self, ClassRows};
use crate::loss::orthogonality::{self, OrthogonalityScratch};
use crate::loss::{ContrastPairs, UnitRows, contrast};
use crate::projection::{self, HeadParameters, HeadShape, SgdUpdate, TrainedHead};
use crate::workers::Workers;

/// What the head is aligned to; unchanged during a session.
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

/// The three terms of the loss; cross entropy and orthogonality with their weights.
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

/// How large the steps of a training are at most.
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
}

impl StepExtent {
    /// Working memory of an [`Alignment`].
    pub const fn needs(&self) -> WorkspaceSize {
        WorkspaceSize { numbers: sum(&self.numbers()), indices: sum(&self.indices()) }
    }

    /// Rows of the sphere in a step: all views of the samples, and two perturbed targets for each.
    const fn rows(&self) -> usize {
        (self.views + 2) * self.samples
    }

    const fn means(&self) -> usize {
        if self.samples < self.classes { self.samples } else { self.classes }
    }

    const fn numbers(&self) -> [usize; 14] {
        let Self { shape, samples, views, classes, targets } = *self;
        let width = shape.width();
        let pairs = ContrastPairs::length(self.rows(), views * samples, width);
        let spread = ContrastPairs::length(targets, self.means(), width);
        [
            shape.parameters(),
            shape.parameters(),
            shape.scratch(views * samples),
            shape.activations(views * samples),
            views * samples,
            self.rows() * width,
            views * samples * width,
            targets * width,
            padded(classes) * width,
            if pairs > spread { pairs } else { spread },
            cross_entropy::memory(views * samples, classes),
            targets * width,
            self.means() * width,
            self.means(),
        ]
    }

    const fn indices(&self) -> [usize; 3] {
        [self.rows(), self.classes, self.means()]
    }
}

/// A head in training, with its momentum and all working memory.
pub struct Alignment<'a> {
    shape: HeadShape,
    workers: &'a dyn Workers,
    base_classes: usize,
    classes: usize,
    started: bool,
    parameters: &'a mut [f32],
    momenta: &'a mut [f32],
    backward: &'a mut [f32],
    hidden: &'a mut [f32],
    norms: &'a mut [f32],
    rows: &'a mut [f32],
    gradient: &'a mut [f32],
    targets: &'a mut [f32],
    transposed: &'a mut [f32],
    pairs: &'a mut [f32],
    logits: &'a mut [f32],
    means: &'a mut [f32],
    mean_gradient: &'a mut [f32],
    mean_norms: &'a mut [f32],
    labels: &'a mut [u32],
    mean_of_class: &'a mut [u32],
    mean_counts: &'a mut [u32],
}

/// Marks a class that is not in the batch.
const ABSENT: u32 = u32::MAX;

impl<'a> Alignment<'a> {
    /// Training that starts from `head`, in memory of at least [`StepExtent::needs`].
    ///
    /// # Panics
    /// If the memory or a slice is too short.
    pub fn new(
        extent: &StepExtent,
        head: HeadParameters<&[f32]>,
        target_rows: &TargetRows<'_>,
        numbers: &'a mut [f32],
        indices: &'a mut [u32],
        workers: &'a dyn Workers,
    ) -> Self {
        let StepExtent { shape, classes, .. } = *extent;
        let [
            parameters,
            momenta,
            backward,
            hidden,
            norms,
            rows,
            gradient,
            targets,
            transposed,
            pairs,
            logits,
            means,
            mean_gradient,
            mean_norms,
        ] = carve(numbers, extent.numbers());
        let [labels, mean_of_class, mean_counts] = carve(indices, extent.indices());
        shape.load(head, parameters);
        momenta.fill(0.0);
        let both = target_rows.assigned.chunks_exact(shape.outputs).chain(target_rows.free.chunks_exact(shape.outputs));
        targets.chunks_exact_mut(shape.width()).zip(both).for_each(|(to, from)| fill_up(to, from));
        pack_transposed(classes, shape.width(), &targets[..classes * shape.width()], transposed);
        let base_classes = target_rows.base_classes;
        Self {
            shape,
            workers,
            base_classes,
            classes,
            started: false,
            parameters,
            momenta,
            backward,
            hidden,
            norms,
            rows,
            gradient,
            targets,
            transposed,
            pairs,
            logits,
            means,
            mean_gradient,
            mean_norms,
            labels,
            mean_of_class,
            mean_counts,
        }
    }

    /// Writes out the head as trained so far.
    pub fn store(&self, head: HeadParameters<&mut [f32]>) {
        self.shape.store(self.parameters, head);
    }

    /// Whether all parameters are finite.
    pub fn is_finite(&self) -> bool {
        self.parameters.iter().all(|value| value.is_finite())
    }

    /// One step of SGD with momentum, dampening and weight decay, in PyTorch's definition (the first direction is the
    /// gradient itself, undamped). Returns the losses before it.
    ///
    /// # Panics
    /// If the batch is empty, or larger than the extent.
    pub fn step(&mut self, batch: &StepBatch<'_>, config: &Config, rate: f32) -> LossTerms {
        let (keep, take) = if self.started { (config.momentum, 1.0 - config.dampening) } else { (0.0, 1.0) };
        self.started = true;
        let [first, last] = config.layer_rates;
        let decay = config.weight_decay;
        self.follow(batch, config, SgdUpdate { rate: rate * first, last_rate: rate * last, keep, take, decay })
    }

    /// Writes out the gradient of a batch's loss with respect to the head, and returns the losses; the next step starts
    /// without momentum.
    pub fn gradient(
        &mut self,
        batch: &StepBatch<'_>,
        config: &Config,
        gradient: HeadParameters<&mut [f32]>,
    ) -> LossTerms {
        let losses = self.follow(batch, config, SgdUpdate::GRADIENT);
        self.started = false;
        self.shape.store(self.momenta, gradient);
        losses
    }

    /// Forward, losses, backward with the update.
    fn follow(&mut self, batch: &StepBatch<'_>, config: &Config, update: SgdUpdate) -> LossTerms {
        let Self { shape, workers, .. } = *self;
        let width = shape.width();
        let samples = batch.classes.len();
        let projected = batch.features.len() / shape.inputs;
        let perturbed = batch.perturbed.len() / shape.outputs;
        let mut pass = projection::HeadBatch {
            features: batch.features,
            hidden: &mut self.hidden[..shape.activations(projected)],
            z: &mut self.rows[..projected * width],
            norms: &mut self.norms[..projected],
        };
        shape.forward(self.parameters, &mut pass, workers);
        let rest = self.rows[projected * width..].chunks_exact_mut(width);
        rest.zip(batch.perturbed.chunks_exact(shape.outputs)).for_each(|(to, from)| fill_up(to, from));
        let classes = batch.classes.iter().cycle().take(projected);
        let labels = classes.chain(batch.perturbed_labels.iter().cycle().take(perturbed));
        self.labels.iter_mut().zip(labels).for_each(|(to, from)| *to = *from);

        let rows = UnitRows { values: &self.rows[..(projected + perturbed) * width], width };
        let gradient = &mut self.gradient[..projected * width];
        gradient.fill(0.0);
        let mut losses = LossTerms::default();
        if config.contrast != 0.0 {
            let (form, weight) = ((config.temperature, config.contrast_form), config.contrast);
            let (labels, mut pairs) = (&self.labels[..rows.count()], ContrastPairs { memory: self.pairs });
            losses.contrast = weight * contrast::loss(rows, labels, form, weight, gradient, &mut pairs, workers);
        }
        let z = UnitRows { values: &self.rows[..projected * width], width };
        let base = self.base_classes;
        let counted: [(f32, &(dyn Fn(usize) -> bool + Sync)); 2] =
            [(config.cross_entropy, &|class| class >= base), (config.base_cross_entropy, &|class| class < base)];
        for (weight, counts) in counted.into_iter().filter(|(weight, _)| *weight != 0.0) {
            let targets = UnitRows { values: &self.targets[..self.classes * width], width };
            let classes = ClassRows { targets, transposed: self.transposed };
            let label = |row: usize| Some(batch.classes[row % samples] as usize).filter(|class| counts(*class));
            let loss = cross_entropy::loss(z, classes, label, weight, gradient, self.logits, workers);
            losses.cross_entropy += weight * loss;
        }
        if config.orthogonality != 0.0 {
            let first = UnitRows { values: &self.rows[..samples * width], width };
            let into = &mut gradient[..samples * width];
            let weight = config.orthogonality;
            let means = count_means(batch.classes, self.base_classes, self.mean_of_class);
            // The targets of absent classes and the free ones stand after the means.
            let apart = self
                .targets
                .chunks_exact(width)
                .enumerate()
                .filter(|(target, _)| self.mean_of_class.get(*target).is_none_or(|mean| *mean == ABSENT));
            let rest = self.means[means * width..].chunks_exact_mut(width);
            rest.zip(apart).for_each(|(to, (_, from))| to.copy_from_slice(from));
            let scratch = OrthogonalityScratch {
                rows: self.means,
                gradient: &mut self.mean_gradient[..means * width],
                norms: &mut self.mean_norms[..means],
                counts: &mut self.mean_counts[..means],
                pairs: ContrastPairs { memory: self.pairs },
            };
            let mean_of = |row: usize| {
                let mean = self.mean_of_class[batch.classes[row] as usize];
                (mean != ABSENT).then_some(mean as usize)
            };
            losses.orthogonality = weight * orthogonality::with_means(first, mean_of, weight, into, scratch, workers);
        }
        let mut pass = projection::HeadBatch {
            features: batch.features,
            hidden: &mut self.hidden[..shape.activations(projected)],
            z: &mut self.rows[..projected * width],
            norms: &mut self.norms[..projected],
        };
        shape.unnormalise(&pass, gradient);
        let mut head = TrainedHead { parameters: self.parameters, momenta: self.momenta, scratch: self.backward };
        shape.backward(&mut head, &mut pass, gradient, update, workers);
        losses
    }
}

/// Numbers the incremental classes of a batch in their order; returns how many there are.
fn count_means(classes: &[u32], base_classes: usize, mean_of_class: &mut [u32]) -> usize {
    mean_of_class.fill(ABSENT);
    classes
        .iter()
        .filter(|class| **class as usize >= base_classes)
        .for_each(|class| mean_of_class[*class as usize] = 0);
    let present = mean_of_class.iter_mut().filter(|mean| **mean != ABSENT);
    present.enumerate().map(|(number, mean)| *mean = number as u32).count()
}

/// Copies a row and fills it up with zeros.
pub(super) fn fill_up(to: &mut [f32], from: &[f32]) {
    to[..from.len()].copy_from_slice(from);
    to[from.len()..].fill(0.0);
}

//! The batches of phase 3: shuffled exemplars with their views, and perturbed targets.

use super::data::{AlignmentData, AlignmentInput};
use super::memory::{WorkspaceSize, buffers};
use super::sampling::Perturbation;
use super::step::{StepBatch, TargetRows};
use crate::config::{MethodConfig, SampleViews};
use crate::math::normalise;
use crate::projection::HeadShape;
use crate::random::Random;

buffers! {
    /// The numbers of a batch.
    struct SamplerNumbers of f32, sized by (shape: HeadShape, samples: usize, config: &MethodConfig) {
        /// Features of the first views, then of the second ones, `[views, samples, inputs]`.
        features: config.sample.views() * samples * shape.inputs,
        /// Perturbed targets, two for each sample, `[2, samples, outputs]`.
        perturbed: 2 * samples * shape.outputs,
    }
}

buffers! {
    /// What batches are drawn from, and the labels of a batch.
    struct SamplerIndices of u32, sized by (samples: usize, exemplars: usize, targets: usize) {
        /// The exemplars, class after class.
        members: exemplars,
        /// Samples in the order of the epoch, of which the first come into it: `exemplar * views + view`.
        order: 2 * exemplars,
        /// Perturbable targets in the order of the step, by label: a class's index, then numbers past the classes for
        /// the free ones.
        targets: targets,
        /// Class of every sample.
        classes: samples,
        /// Labels of the perturbed targets.
        perturbed_labels: samples,
    }
}

/// Draws batches.
pub struct Sampler<'a> {
    data: &'a AlignmentData<'a>,
    config: &'a MethodConfig,
    target_rows: TargetRows<'a>,
    perturbation: Perturbation,
    random: Random,
    /// Exemplars that a class has on average, rounded down; classes without any do not count.
    average: usize,
    numbers: SamplerNumbers<'a>,
    indices: SamplerIndices<'a>,
}

impl<'a> Sampler<'a> {
    /// Working memory for this many samples in a step and exemplars in an epoch.
    pub(super) const fn workspace_size(
        shape: HeadShape,
        samples: usize,
        exemplars: usize,
        targets: usize,
        config: &MethodConfig,
    ) -> WorkspaceSize {
        WorkspaceSize {
            numbers: SamplerNumbers::size(shape, samples, config),
            indices: SamplerIndices::size(samples, exemplars, targets),
        }
    }

    /// A sampler before its first epoch, on working memory as [`AlignmentData::workspace_size`] counts it.
    pub fn new(
        input: &AlignmentInput<'a>,
        target_rows: TargetRows<'a>,
        numbers: &'a mut [f32],
        indices: &'a mut [u32],
    ) -> Self {
        let AlignmentInput { data, config, sampling, .. } = *input;
        let outputs = data.shape.outputs;
        let (assigned, free) = (target_rows.assigned.len() / outputs, target_rows.free.len() / outputs);
        let is_perturbable = |label: usize| match label {
            label if label < target_rows.base_classes => sampling.perturbed.base,
            label if label < assigned => sampling.perturbed.incremental,
            _ => sampling.perturbed.free,
        };
        let perturbable = || (0..assigned + free).filter(|&label| is_perturbable(label)).map(|label| label as u32);
        let exemplars = || data.exemplars(config);
        let samples = data.step_extent(assigned, config).samples;
        let numbers = SamplerNumbers::carve(numbers, data.shape, samples, config);
        let mut indices = SamplerIndices::carve(indices, samples, exemplars().count(), perturbable().count());
        let SamplerIndices { members, order, targets, .. } = &mut indices;
        members.iter_mut().zip(exemplars()).for_each(|(slot, exemplar)| *slot = exemplar);
        targets.iter_mut().zip(perturbable()).for_each(|(slot, label)| *slot = label);
        let views = data.views() as u32;
        order.iter_mut().zip(members.iter()).for_each(|(slot, exemplar)| *slot = exemplar * views);
        members.sort_unstable_by_key(|&exemplar| (data.class_of(exemplar), exemplar));
        let present = members.chunk_by(|a, b| data.class_of(*a) == data.class_of(*b)).count();
        let average = members.len() / present.max(1);
        Self {
            data,
            config,
            target_rows,
            perturbation: sampling.perturbation,
            random: Random::new(sampling.seed, "alignment"),
            average,
            numbers,
            indices,
        }
    }

    /// Shuffles the samples of the next epoch; returns how many there are.
    pub fn start_epoch(&mut self) -> usize {
        let exemplars = self.indices.members.len();
        let count = self.config.samples_of_epoch(exemplars);
        let drawn = if self.config.balanced { self.oversample() } else { exemplars };
        self.random.shuffle(&mut self.indices.order[..drawn]);
        count
    }

    /// Oversamples small classes ([`MethodConfig::balanced`]): takes every exemplar once, and those of classes that
    /// have fewer than the average again, with their next views, until they have as many. Returns how many samples that
    /// makes.
    fn oversample(&mut self) -> usize {
        let (data, views) = (self.data, self.data.views());
        let mut drawn = 0;
        for own in self.indices.members.chunk_by(|a, b| data.class_of(*a) == data.class_of(*b)) {
            for sample in 0..own.len().max(self.average) {
                let view = sample / own.len() % views;
                self.indices.order[drawn] = (own[sample % own.len()] as usize * views + view) as u32;
                drawn += 1;
            }
        }
        drawn
    }

    /// Batch number `step` of the epoch, which has `count` samples.
    pub fn batch(&mut self, step: usize, count: usize) -> StepBatch<'_> {
        let first = step * self.config.batch;
        let last = (first + self.config.batch).min(count);
        let (size, row, views) = (last - first, self.data.shape.inputs, self.data.views());
        let (first_views, second_views) = self.numbers.features.split_at_mut(size * row);
        let mut second_views = second_views.chunks_exact_mut(row);
        for (index, &sample) in self.indices.order[first..last].iter().enumerate() {
            let (bank, exemplar) = self.data.find((sample as usize / views) as u32);
            let stored = bank.views.min(self.config.views);
            let into = &mut first_views[index * row..][..row];
            match self.config.sample {
                SampleViews::Pair => {
                    let (view, other) = two_of(stored, &mut self.random);
                    bank.read(exemplar, view, into);
                    if let Some(into) = second_views.next() {
                        bank.read(exemplar, other, into);
                    }
                }
                SampleViews::One => {
                    let augmented = stored > 1 && self.random.unit() < self.config.augmented;
                    let view = if augmented { 1 + self.random.below(stored - 1) } else { sample as usize % views };
                    bank.read(exemplar, view % stored, into);
                }
            }
            self.indices.classes[index] = bank.classes[exemplar];
        }
        let perturbed = if self.indices.targets.is_empty() { 0 } else { size };
        self.perturb(perturbed);
        StepBatch {
            features: &self.numbers.features[..self.config.sample.views() * size * row],
            classes: &self.indices.classes[..size],
            perturbed: &self.numbers.perturbed[..2 * perturbed * self.data.shape.outputs],
            perturbed_labels: &self.indices.perturbed_labels[..perturbed],
        }
    }

    /// As many perturbed targets as the batch has samples: a random permutation, repeated or cut to that count; each
    /// target comes twice, with independent noise.
    fn perturb(&mut self, size: usize) {
        let Self { config, target_rows, perturbation, random, .. } = self;
        let SamplerIndices { targets, perturbed_labels, .. } = &mut self.indices;
        let outputs = self.data.shape.outputs;
        random.shuffle(targets);
        let chosen = targets.iter().cycle().take(size);
        perturbed_labels.iter_mut().zip(chosen).for_each(|(to, label)| *to = *label);
        let (assigned, width) = (target_rows.assigned.len() / outputs, config.perturbation_width);
        let labels = perturbed_labels[..size].iter().cycle();
        for (row, &label) in self.numbers.perturbed.chunks_exact_mut(outputs).take(2 * size).zip(labels) {
            let label = label as usize;
            let of = if label < assigned {
                &target_rows.assigned[label * outputs..]
            } else {
                &target_rows.free[(label - assigned) * outputs..]
            };
            row.copy_from_slice(&of[..outputs]);
            match perturbation {
                Perturbation::None => continue,
                Perturbation::Uniform => {
                    row.iter_mut().for_each(|value| *value += random.uniform(-width / 2.0, width / 2.0));
                }
                Perturbation::Gaussian => row.iter_mut().for_each(|value| *value += width * random.normal()),
            }
            normalise(row);
        }
    }
}

/// Two different views out of `views`, or twice the only one.
fn two_of(views: usize, random: &mut Random) -> (usize, usize) {
    if views == 1 {
        return (0, 0);
    }
    let first = random.below(views);
    let second = random.below(views - 1);
    (first, if second >= first { second + 1 } else { second })
}

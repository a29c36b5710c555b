//! All known classes of a state, each as the sum over its shots.

use alloc::vec;
use alloc::vec::Vec;

use orco_core::math::{add_scaled, highest};
use orco_core::workers::{Workers, for_each_chunk};

use super::ScoringWork;
use super::embed::{EMBED_BATCH, Embedder, EmbeddingPart, Projections};
use super::scatter::{RemovedShot, ScatterChange, ScatteredShot};
use super::score::{ClassRow, ClassRowBuilder, ScoreRows};
use crate::bank::Bank;
use crate::codec;
use crate::parallel::for_each_result;
use crate::state::{BaseModel, Scoring, State};

/// Weight of a base class's mean, in shots, where the device adds shots to it. The place of use differs from that of
/// the training images, so few shots must be able to move it.
const BASE_WEIGHT: f32 = 10.0;

/// Share of the set-aside samples, those that come nearest to a learned class, by which its class offset is chosen.
/// With it the offset gains nothing certain on two hold-outs (journal of the book, 2026-11-25, combined answer), so
/// presets leave the offset off.
const NEAREST_SHARE: f32 = 0.05;

/// A shot that is left out of its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeftOutShot {
    /// Its index in the bank that samples come from.
    pub(super) exemplar: usize,
    /// The class that it is left out of.
    pub(super) class: usize,
    /// How often the class has it.
    pub(super) copies: u32,
}

/// A class with the exemplars that are its shots.
struct ShotsOfClass {
    class: usize,
    exemplars: Vec<usize>,
    /// A digest of these, where sums are kept.
    digest: Option<[u8; 32]>,
}

/// The scoring of all classes of a state.
pub(crate) struct ScoringModel<'a> {
    pub(super) state: &'a State,
    base_model: &'a BaseModel,
    pub(super) embedder: Embedder,
    pub(super) row_builder: ClassRowBuilder,
    /// Projections of the state's exemplars that are samples, or are left out beside them.
    pub(super) projections: Projections,
    /// Sums of what each class's shots add, the last part whitened, `[classes, length]`.
    sums: Vec<f32>,
    /// Number of shots of each class, `[classes]`; [`BASE_WEIGHT`] more for a base class.
    counts: Vec<f32>,
    /// What is added to each class's score, so that no learned class lies nearer to everything than others.
    pub(super) class_offsets: Vec<f32>,
    /// Rows of all classes, the class offsets included.
    pub(super) rows: ScoreRows,
}

impl<'a> ScoringModel<'a> {
    /// Projections of the state's exemplars `wanted`, in ascending order, are kept.
    pub(crate) fn new(
        base_model: &'a BaseModel,
        state: &'a State,
        scoring: Scoring<'_>,
        wanted: &[usize],
        work: &mut ScoringWork<'_>,
    ) -> Self {
        let mut embedder = Embedder::new(base_model, state, scoring);
        let row_builder = ClassRowBuilder::new(&embedder, scoring, &state.exemplars, work);
        if let Some(cache) = &mut work.cache {
            embedder.generation = cache.begin_state(embedder.heads.iter().map(|head| &head.projector));
        }
        let projections = embedder.projections(&state.exemplars, wanted, work);
        let (length, inputs, statistics) = (embedder.length(), embedder.inputs, scoring.statistics);
        let base = base_model.classes.len();
        let count = base + state.classes.len();
        let (directions, whitened) = (statistics.directions.clean(), statistics.whitened.clean());
        let mut sums = Vec::with_capacity(count * length);
        for (class, (direction, whitened)) in
            base_model.classes.iter().zip(directions.chunks_exact(inputs).zip(whitened.chunks_exact(inputs)))
        {
            embedder.heads.iter().for_each(|_| sums.extend_from_slice(base_model.target(class.target)));
            sums.extend_from_slice(direction);
            sums.extend_from_slice(&whitened[..embedder.roots_len]);
        }
        sums.iter_mut().for_each(|value| *value *= BASE_WEIGHT);
        sums.resize(count * length, 0.0);
        let mut counts = vec![BASE_WEIGHT; base];
        counts.resize(count, 0.0);
        let rows = ScoreRows::empty(length);
        let class_offsets = vec![0.0; count];
        let mut model =
            Self { state, base_model, embedder, row_builder, projections, sums, counts, class_offsets, rows };
        model.add_shots(work);
        model.rows = model.rows_of_sums(work.workers);
        model.rows.add(&model.replacements());
        if scoring.weights.class_offset > 0.0 {
            model.class_offsets = model.offsets_by(&scoring.statistics.set_aside, scoring.weights.class_offset);
            model.rows.add(&model.class_offsets);
        }
        model
    }

    /// Offsets that keep replaced base classes out of answers, `[base]`.
    fn replacements(&self) -> Vec<f32> {
        /// Far below every score, but not minus infinity: where all base classes are replaced, learned classes lead
        /// them by this, and sums of such leads must stay finite.
        const REPLACED: f32 = -1e6;
        let replaced = self.state.replaced(self.base_model);
        replaced.into_iter().map(|is_replaced| if is_replaced { REPLACED } else { 0.0 }).collect()
    }

    /// Class offsets: a share of how much less a learned class's excess is than that of learned classes on average. The
    /// excess is what it leads the best base class by, on those of the set-aside samples where it leads most.
    fn offsets_by(&self, set_aside: &Bank, share: f32) -> Vec<f32> {
        let (base, count) = (self.base(), self.len());
        let mut offsets = vec![0.0; count];
        if count == base || set_aside.is_empty() {
            return offsets;
        }
        let mut leads: Vec<Vec<f32>> = vec![Vec::with_capacity(set_aside.len()); count - base];
        let replaced = self.state.replaced(self.base_model);
        let is_answered = |sample: &usize| !replaced[set_aside.classes()[*sample] as usize];
        let answered: Vec<usize> = (0..set_aside.len()).filter(is_answered).collect();
        for samples in answered.chunks(EMBED_BATCH) {
            let features = set_aside.clean_of(samples);
            for scores in self.rows.scores(&self.embedder.embed(&features)).chunks_exact(count) {
                let (of_base, of_learned) = scores.split_at(base);
                let best = highest(of_base);
                leads.iter_mut().zip(of_learned).for_each(|(leads, score)| leads.push(score - best));
            }
        }
        if answered.is_empty() {
            return offsets;
        }
        let nearest = ((NEAREST_SHARE * answered.len() as f32) as usize).max(1);
        for (excess, leads) in offsets[base..].iter_mut().zip(&mut leads) {
            leads.sort_unstable_by(|a, b| b.total_cmp(a));
            *excess = leads[..nearest].iter().sum::<f32>() / nearest as f32;
        }
        let mean = offsets[base..].iter().sum::<f32>() / (count - base) as f32;
        offsets[base..].iter_mut().for_each(|excess| *excess = share * (mean - *excess));
        offsets
    }

    /// Adds the device's exemplars to their classes.
    fn add_shots(&mut self, work: &mut ScoringWork<'_>) {
        let bank = &self.state.exemplars;
        let digest = |exemplars: &[usize]| {
            let digests: Vec<u8> = exemplars.iter().flat_map(|&exemplar| bank.digest_of(exemplar)).collect();
            codec::digest(&digests)
        };
        let shots_of_class = |(class, exemplars): (u32, Vec<usize>)| ShotsOfClass {
            class: class as usize,
            digest: work.cache.is_some().then(|| digest(&exemplars)),
            exemplars,
        };
        let classes: Vec<ShotsOfClass> = bank.by_class().into_iter().map(shots_of_class).collect();
        classes.iter().for_each(|shots| self.counts[shots.class] += shots.exemplars.len() as f32);
        for part in self.embedder.parts() {
            self.add_part(part, &classes, work);
        }
    }

    /// Adds one part of what shots add to their classes. Sums come from the cache, or are computed and kept there.
    fn add_part(&mut self, part: EmbeddingPart, classes: &[ShotsOfClass], work: &mut ScoringWork<'_>) {
        let (length, range) = (self.embedder.length(), self.embedder.range_of(part));
        let counts = |class: usize| range.start >= self.added_from(class);
        let counted: Vec<&ShotsOfClass> = classes.iter().filter(|shots| counts(shots.class)).collect();
        let mut kept = work.cache.as_deref_mut().and_then(|cache| match part {
            EmbeddingPart::Projection(head) => cache.of_head(head, self.embedder.generation).map(|kept| &mut kept.sums),
            EmbeddingPart::Direction => Some(&mut cache.direction_sums),
            EmbeddingPart::Roots => Some(&mut cache.whitened_sums),
        });
        let mut missing = Vec::new();
        for shots in counted {
            let sum = kept.as_mut().zip(shots.digest.as_ref()).and_then(|(kept, digest)| kept.get(digest));
            match sum {
                Some(sum) => add_scaled(&mut self.sums[shots.class * length..][range.clone()], 1.0, sum),
                None => missing.push(shots),
            }
        }
        let sums = self.sums_of(part, &missing, work.workers);
        for (shots, sum) in missing.iter().zip(sums.chunks_exact(range.len())) {
            add_scaled(&mut self.sums[shots.class * length..][range.clone()], 1.0, sum);
            if let Some((kept, digest)) = kept.as_mut().zip(shots.digest) {
                kept.insert(digest, sum);
            }
        }
    }

    /// What the shots of classes add up to, `[classes, length of the part]`; roots are whitened.
    fn sums_of(&self, part: EmbeddingPart, classes: &[&ShotsOfClass], workers: &dyn Workers) -> Vec<f32> {
        let (bank, length) = (&self.state.exemplars, self.embedder.range_of(part).len());
        let mut sums = vec![0.0; classes.len() * length];
        let exemplars: Vec<usize> = classes.iter().flat_map(|shots| &shots.exemplars).copied().collect();
        let mut rows = classes.iter().enumerate().flat_map(|(row, shots)| shots.exemplars.iter().map(move |_| row));
        let contributions = |some: &[usize]| self.embedder.part_of(part, bank, some, &self.projections);
        for_each_result(workers, &exemplars, EMBED_BATCH, contributions, |contributions| {
            for (contribution, row) in contributions.chunks_exact(length).zip(&mut rows) {
                add_scaled(&mut sums[row * length..][..length], 1.0, contribution);
            }
        });
        if part == EmbeddingPart::Roots {
            // Sums are whitened once for a class, not once for a shot.
            for_each_chunk(workers, [(&mut sums, EMBED_BATCH * length)], |_, [rows]| {
                self.row_builder.whiten_roots(rows)
            });
        }
        sums
    }

    /// Where what shots add to their class begins in a contribution: a base class keeps its pseudo-target under every
    /// head. A learned class does not have its own, though the head was aligned to it: its shots were trained towards
    /// it, so they would lie nearer than any other picture of the class, and the border would be wrong.
    fn added_from(&self, class: usize) -> usize {
        if class < self.base() { self.embedder.projections_len } else { 0 }
    }

    /// Number of known classes.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn base(&self) -> usize {
        self.base_model.classes.len()
    }

    fn rows_of_sums(&self, workers: &dyn Workers) -> ScoreRows {
        let length = self.embedder.length();
        ScoreRows::compute(self.len(), length, workers, |classes| {
            let mut rows = self.sums[classes.start * length..classes.end * length].to_vec();
            let counts: Vec<f32> = self.counts[classes].iter().map(|count| count.max(1.0)).collect();
            let offsets = self.row_builder.finish_rows(&mut rows, &counts);
            (rows, offsets)
        })
    }

    /// For each shot that is left out, how scores change because the scatter lacks it, too; `None` for one that is
    /// not in the scatter.
    pub(super) fn scatter_changes<'s>(
        &self,
        left_out: impl Iterator<Item = ScatteredShot<'s>>,
    ) -> Vec<Option<ScatterChange>> {
        let removed = self.row_builder.without_shots(left_out);
        let residuals: Vec<f32> = removed.iter().flatten().flat_map(|shot| &shot.residual).copied().collect();
        let products = self.rows.products_of_last(&residuals, self.embedder.inputs);
        let mut row_products = products.chunks_exact(self.len().max(1));
        let mut change = |removed: RemovedShot| {
            let row_products = row_products.next().expect("one row for each that is removed");
            self.row_builder.change(removed, row_products.to_vec())
        };
        removed.into_iter().map(|removed| removed.map(&mut change)).collect()
    }

    /// For each shot that is left out, the row that its class would have without it and its copies; `None` where
    /// nothing would be left. `contributions` are those of the shots, `[shots, length]`.
    pub(super) fn without(&self, left_out: &[LeftOutShot], mut contributions: Vec<f32>) -> Vec<Option<ClassRow>> {
        let length = self.embedder.length();
        self.row_builder.whiten(&mut contributions);
        let mut counts = Vec::with_capacity(left_out.len());
        for (&LeftOutShot { class, copies, .. }, row) in left_out.iter().zip(contributions.chunks_exact_mut(length)) {
            let copies = copies as f32;
            subtract_from(&self.sums[class * length..][..length], row, copies, self.added_from(class));
            counts.push(self.counts[class] - copies);
        }
        self.rows_of_few(contributions, &counts, left_out)
    }

    /// For each of a class's other shots, the row that the class would have without `shot` and that one; `None` where
    /// nothing would be left. `contributions` are those of `shot`, then of the others, `[1 + others, length]`.
    pub(super) fn without_pairs(
        &self,
        shot: LeftOutShot,
        others: &[LeftOutShot],
        mut contributions: Vec<f32>,
    ) -> Vec<Option<ClassRow>> {
        let length = self.embedder.length();
        self.row_builder.whiten(&mut contributions);
        let (without_shot, rows) = contributions.split_at_mut(length);
        let (copies, from) = (shot.copies as f32, self.added_from(shot.class));
        subtract_from(&self.sums[shot.class * length..][..length], without_shot, copies, from);
        let mut counts = Vec::with_capacity(others.len());
        for (other, row) in others.iter().zip(rows.chunks_exact_mut(length)) {
            let other_copies = other.copies as f32;
            subtract_from(without_shot, row, other_copies, from);
            counts.push(self.counts[shot.class] - copies - other_copies);
        }
        contributions.drain(..length);
        self.rows_of_few(contributions, &counts, others)
    }

    /// Rows of classes without these shots, from the sums `[shots, length]` and `counts` that are left; `None` where
    /// nothing is left.
    fn rows_of_few(&self, mut sums: Vec<f32>, counts: &[f32], left_out: &[LeftOutShot]) -> Vec<Option<ClassRow>> {
        let length = self.embedder.length();
        let offsets =
            self.row_builder.finish_rows(&mut sums, &counts.iter().map(|left| left.max(1.0)).collect::<Vec<_>>());
        let rows = sums.chunks_exact(length).zip(offsets).zip(left_out.iter().zip(counts));
        let class_row = |((row, offset), (shot, left)): ((&[f32], f32), (&LeftOutShot, &f32))| {
            let offset = offset + self.class_offsets[shot.class];
            (*left > 0.5).then(|| ClassRow { row: row.to_vec(), offset })
        };
        rows.map(class_row).collect()
    }

    /// Number of shots of a class; [`BASE_WEIGHT`] more for a base class.
    pub(super) fn count(&self, class: usize) -> f32 {
        self.counts[class]
    }
}

/// Turns a shot's contribution to its class into the class's `sum` without `copies` of the shot. Shots add nothing
/// before `from`: the sum is copied there.
fn subtract_from(sum: &[f32], contribution: &mut [f32], copies: f32, from: usize) {
    let (kept, changed) = contribution.split_at_mut(from);
    kept.copy_from_slice(&sum[..from]);
    changed.iter_mut().zip(&sum[from..]).for_each(|(value, sum)| *value = sum - copies * *value);
}

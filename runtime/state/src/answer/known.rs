//! All known classes of a state, as what their shots add up to.

use alloc::vec;
use alloc::vec::Vec;

use orco_core::config::AnswerWeights;
use orco_core::math::add_scaled;

use super::embed::{Embedder, Projections, TOGETHER};
use super::score::{ScoreRows, Scorer};
use crate::state::{BaseModel, State};
use crate::statistics::Statistics;

/// As many shots the mean of a base class counts where the device collects further ones: the place of use differs
/// from that of the training images, so few shots must be able to move it.
const BASE_COUNTS: f32 = 10.0;

/// A state with everything that scores its classes.
pub(crate) struct ScoringModel<'a> {
    pub(super) state: &'a State,
    base_model: &'a BaseModel,
    pub(super) embedder: Embedder,
    pub(super) scorer: Scorer,
    /// Of the state's exemplars.
    pub(super) projections: Projections,
    /// Sums of what each class's shots add, the last part whitened, `[classes, length]`.
    sums: Vec<f32>,
    counts: Vec<f32>,
    /// What gives the classes' scores.
    pub(super) rows: ScoreRows,
}

impl<'a> ScoringModel<'a> {
    pub(crate) fn new(base_model: &'a BaseModel, state: &'a State, with: (AnswerWeights, &Statistics)) -> Self {
        let embedder = Embedder::new(base_model, state, with);
        let scorer = Scorer::new(&embedder, with);
        let projections = embedder.projections(&state.exemplars);
        let (length, inputs, statistics) = (embedder.length(), embedder.inputs, with.1);
        let base = base_model.classes.len();
        let count = base + state.classes.len();
        let (directions, whitened) = (statistics.directions.clean(), statistics.whitened.clean());
        let mut sums = Vec::with_capacity(count * length);
        for (class, (direction, whitened)) in
            base_model.classes.iter().zip(directions.chunks_exact(inputs).zip(whitened.chunks_exact(inputs)))
        {
            if embedder.outputs > 0 {
                sums.extend_from_slice(base_model.target(class.target));
            }
            sums.extend_from_slice(direction);
            sums.extend_from_slice(&whitened[..embedder.roots]);
        }
        sums.iter_mut().for_each(|value| *value *= BASE_COUNTS);
        sums.resize(count * length, 0.0);
        let mut counts = vec![BASE_COUNTS; base];
        counts.resize(count, 0.0);
        let rows = ScoreRows::new(&[], Vec::new(), length);
        let mut known = Self { state, base_model, embedder, scorer, projections, sums, counts, rows };
        known.add_shots();
        // Learned classes that the head was aligned to have their targets, the others what their shots add up to.
        if known.keeps_target(base) {
            let outputs = known.embedder.outputs;
            for (class, sum) in state.classes.iter().zip(known.sums.chunks_exact_mut(length).skip(base)) {
                sum[..outputs].copy_from_slice(&base_model.target(class.target)[..outputs]);
            }
        }
        known.rows = known.rows_of_sums();
        known
    }

    /// Adds the device's exemplars to their classes, some at a time.
    fn add_shots(&mut self) {
        let (length, bank, rooted) = (self.embedder.length(), &self.state.exemplars, self.scorer.rooted());
        // Sums are whitened once for a class, not once for a shot.
        let mut roots: Vec<Option<Vec<f32>>> = vec![None; self.counts.len()];
        let every: Vec<usize> = (0..bank.len()).collect();
        for exemplars in every.chunks(TOGETHER) {
            let contributions = self.embedder.contributions_of(bank, exemplars, &self.projections);
            for (contribution, &exemplar) in contributions.chunks_exact(length).zip(exemplars) {
                let class = bank.classes()[exemplar] as usize;
                let from = self.added_from(class);
                add_scaled(&mut self.sums[class * length..][from..rooted], 1.0, &contribution[from..rooted]);
                let sum = roots[class].get_or_insert_with(|| vec![0.0; self.embedder.roots]);
                add_scaled(sum, 1.0, &contribution[rooted..]);
                self.counts[class] += 1.0;
            }
        }
        if self.embedder.roots == 0 {
            return;
        }
        let (classes, roots): (Vec<usize>, Vec<Vec<f32>>) =
            roots.into_iter().enumerate().filter_map(|(class, sum)| Some((class, sum?))).unzip();
        for (classes, roots) in classes.chunks(TOGETHER).zip(roots.chunks(TOGETHER)) {
            let whitened = self.scorer.whitened(roots.concat());
            for (&class, whitened) in classes.iter().zip(whitened.chunks_exact(self.embedder.roots)) {
                add_scaled(&mut self.sums[class * length..][rooted..length], 1.0, whitened);
            }
        }
    }

    /// Whether a class's first part is its pseudo-target, whatever shots it has: a base class's always, a learned
    /// one's where the head was aligned to it.
    fn keeps_target(&self, class: usize) -> bool {
        class < self.base_model.classes.len() || self.state.head.is_some()
    }

    /// Where that begins in a contribution which shots add to their class.
    fn added_from(&self, class: usize) -> usize {
        if self.keeps_target(class) { self.embedder.outputs } else { 0 }
    }

    /// Number of known classes.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn base(&self) -> usize {
        self.base_model.classes.len()
    }

    fn rows_of_sums(&self) -> ScoreRows {
        let length = self.embedder.length();
        let mut rows = self.sums.clone();
        let mut offsets = Vec::with_capacity(self.counts.len());
        for (rows, counts) in rows.chunks_mut(TOGETHER * length).zip(self.counts.chunks(TOGETHER)) {
            let counts: Vec<f32> = counts.iter().map(|count| count.max(1.0)).collect();
            offsets.extend(self.scorer.rows(rows, &counts));
        }
        ScoreRows::new(&rows, offsets, length)
    }

    /// For each of these classes the row `[length]` and offset that it would have without one of its shots, as often as
    /// it has it; the shots' contributions are given, `[shots, length]`. None where nothing would be left.
    pub(super) fn without(
        &self,
        classes: &[(usize, u32)],
        mut contributions: Vec<f32>,
    ) -> Vec<Option<(Vec<f32>, f32)>> {
        let length = self.embedder.length();
        self.scorer.whiten(&mut contributions);
        let mut counts = Vec::with_capacity(classes.len());
        for (&(class, copies), row) in classes.iter().zip(contributions.chunks_exact_mut(length)) {
            let copies = copies as f32;
            let from = self.added_from(class);
            let sum = &self.sums[class * length..][..length];
            row[..from].copy_from_slice(&sum[..from]);
            row[from..].iter_mut().zip(&sum[from..]).for_each(|(value, sum)| *value = sum - copies * *value);
            counts.push(self.counts[class] - copies);
        }
        let offsets =
            self.scorer.rows(&mut contributions, &counts.iter().map(|left| left.max(1.0)).collect::<Vec<_>>());
        let rows = contributions.chunks_exact(length).zip(offsets).zip(counts);
        rows.map(|((row, offset), left)| (left > 0.5).then(|| (row.to_vec(), offset))).collect()
    }
}

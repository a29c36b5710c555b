//! All known classes of a state, as what their shots add up to.

use alloc::vec;
use alloc::vec::Vec;

use orco_core::math::{add_scaled, highest};

use super::embed::{Embedder, Projections, TOGETHER};
use super::score::{ClassRow, ScoreRows, Scorer};
use crate::bank::Bank;
use crate::state::{BaseModel, Scoring, State};

/// As many shots the mean of a base class counts where the device collects further ones: the place of use differs
/// from that of the training images, so few shots must be able to move it.
const BASE_COUNTS: f32 = 10.0;

/// Share of the set-aside samples, those that come nearest to a learned class, by which its offset is chosen.
const NEAREST_SHARE: f32 = 0.05;

/// A shot that is left out of its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeftOutShot {
    /// Its number among the exemplars that are samples.
    pub(super) exemplar: usize,
    /// The class that it is left out of.
    pub(super) class: usize,
    /// How often the class has it.
    pub(super) copies: u32,
}

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
    /// What is added to each class's score, so that no learned class lies nearer to everything than others.
    pub(super) class_offsets: Vec<f32>,
    /// What gives the classes' scores, class offsets among it.
    pub(super) rows: ScoreRows,
}

impl<'a> ScoringModel<'a> {
    pub(crate) fn new(base_model: &'a BaseModel, state: &'a State, scoring: Scoring<'_>) -> Self {
        let embedder = Embedder::new(base_model, state, scoring);
        let scorer = Scorer::new(&embedder, scoring);
        let projections = embedder.projections(&state.exemplars);
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
            sums.extend_from_slice(&whitened[..embedder.roots]);
        }
        sums.iter_mut().for_each(|value| *value *= BASE_COUNTS);
        sums.resize(count * length, 0.0);
        let mut counts = vec![BASE_COUNTS; base];
        counts.resize(count, 0.0);
        let rows = ScoreRows::new(&[], Vec::new(), length);
        let class_offsets = vec![0.0; count];
        let mut known = Self { state, base_model, embedder, scorer, projections, sums, counts, class_offsets, rows };
        known.add_shots();
        known.rows = known.rows_of_sums();
        known.rows.add(&known.replacements());
        if scoring.weights.class_offset > 0.0 {
            known.class_offsets = known.offsets_by(&scoring.statistics.set_aside, scoring.weights.class_offset);
            known.rows.add(&known.class_offsets);
        }
        known
    }

    /// Offsets that keep base classes out of the answer that learned ones replace.
    fn replacements(&self) -> Vec<f32> {
        let replaced = self.state.replaced(self.base_model);
        replaced.into_iter().map(|is_replaced| if is_replaced { f32::MIN } else { 0.0 }).collect()
    }

    /// Class offsets: a share of how much less a learned class's excess is than that of learned classes on average. The
    /// excess is what it leads the best base class by, on those of the set-aside samples where it leads most.
    fn offsets_by(&self, set_aside: &Bank, share: f32) -> Vec<f32> {
        let (base, count, inputs) = (self.base(), self.len(), self.embedder.inputs);
        let mut offsets = vec![0.0; count];
        if count == base || set_aside.is_empty() {
            return offsets;
        }
        let mut leads: Vec<Vec<f32>> = vec![Vec::with_capacity(set_aside.len()); count - base];
        let replaced = self.state.replaced(self.base_model);
        let counts = |sample: &usize| !replaced[set_aside.classes()[*sample] as usize];
        let every: Vec<usize> = (0..set_aside.len()).filter(counts).collect();
        for samples in every.chunks(TOGETHER) {
            let mut features = vec![0.0; samples.len() * inputs];
            for (&sample, row) in samples.iter().zip(features.chunks_exact_mut(inputs)) {
                set_aside.view().read(sample, 0, row);
            }
            for scores in self.rows.scores(&self.embedder.embed(&features)).chunks_exact(count) {
                let (known, learned) = scores.split_at(base);
                let best = highest(known);
                leads.iter_mut().zip(learned).for_each(|(leads, score)| leads.push(score - best));
            }
        }
        if every.is_empty() {
            return offsets;
        }
        let nearest = ((NEAREST_SHARE * every.len() as f32) as usize).max(1);
        for (excess, leads) in offsets[base..].iter_mut().zip(&mut leads) {
            leads.sort_unstable_by(|a, b| b.total_cmp(a));
            *excess = leads[..nearest].iter().sum::<f32>() / nearest as f32;
        }
        let mean = offsets[base..].iter().sum::<f32>() / (count - base) as f32;
        offsets[base..].iter_mut().for_each(|excess| *excess = share * (mean - *excess));
        offsets
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

    /// Where what shots add to their class begins in a contribution: a base class keeps its pseudo-target under every
    /// head. A learned class does not have its own, though the head was aligned to it: its shots were trained towards
    /// it, so they would lie nearer than any other picture of the class, and the border would be wrong.
    fn added_from(&self, class: usize) -> usize {
        if class < self.base() { self.embedder.outputs } else { 0 }
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

    /// For each shot that is left out, the row that its class would have without it and its copies; the shots'
    /// contributions are given, `[shots, length]`. None where nothing would be left.
    pub(super) fn without(&self, left_out: &[LeftOutShot], mut contributions: Vec<f32>) -> Vec<Option<ClassRow>> {
        let length = self.embedder.length();
        self.scorer.whiten(&mut contributions);
        let mut counts = Vec::with_capacity(left_out.len());
        for (&LeftOutShot { class, copies, .. }, row) in left_out.iter().zip(contributions.chunks_exact_mut(length)) {
            let copies = copies as f32;
            let from = self.added_from(class);
            let sum = &self.sums[class * length..][..length];
            row[..from].copy_from_slice(&sum[..from]);
            row[from..].iter_mut().zip(&sum[from..]).for_each(|(value, sum)| *value = sum - copies * *value);
            counts.push(self.counts[class] - copies);
        }
        self.rows_of_few(contributions, &counts, left_out)
    }

    /// The same for a shot that is left out together with one of its class's other shots: one row for each of these.
    /// Contributions are those of the shot, then of the others, `[1 + others, length]`.
    pub(super) fn without_pairs(
        &self,
        shot: LeftOutShot,
        others: &[LeftOutShot],
        mut contributions: Vec<f32>,
    ) -> Vec<Option<ClassRow>> {
        let length = self.embedder.length();
        self.scorer.whiten(&mut contributions);
        let (own, rows) = contributions.split_at_mut(length);
        let from = self.added_from(shot.class);
        let sum = &self.sums[shot.class * length..][..length];
        let mut counts = Vec::with_capacity(others.len());
        for (other, row) in others.iter().zip(rows.chunks_exact_mut(length)) {
            let [copies, of_other] = [shot.copies as f32, other.copies as f32];
            row[..from].copy_from_slice(&sum[..from]);
            let values = row[from..].iter_mut().zip(sum[from..].iter().zip(&own[from..]));
            values.for_each(|(value, (sum, own))| *value = sum - copies * own - of_other * *value);
            counts.push(self.counts[shot.class] - copies - of_other);
        }
        contributions.drain(..length);
        self.rows_of_few(contributions, &counts, others)
    }

    /// Rows from what is left of classes, `[shots, length]`, without these shots; none where nothing is.
    fn rows_of_few(&self, mut sums: Vec<f32>, counts: &[f32], left_out: &[LeftOutShot]) -> Vec<Option<ClassRow>> {
        let length = self.embedder.length();
        let offsets = self.scorer.rows(&mut sums, &counts.iter().map(|left| left.max(1.0)).collect::<Vec<_>>());
        let rows = sums.chunks_exact(length).zip(offsets).zip(left_out.iter().zip(counts));
        let class_row = |((row, offset), (shot, left)): ((&[f32], f32), (&LeftOutShot, &f32))| {
            let offset = offset + self.class_offsets[shot.class];
            (*left > 0.5).then(|| ClassRow { row: row.to_vec(), offset })
        };
        rows.map(class_row).collect()
    }

    /// How many shots a class has, a base class those of the workstation among them.
    pub(super) fn count(&self, class: usize) -> f32 {
        self.counts[class]
    }
}

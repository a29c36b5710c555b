//! Answers from all that is known of a class: its target under the head, its mean, and the linear discriminant, with a
//! border between base classes and new ones.
//!
//! A picture's features become one long vector, its *embedding*: their projection by the head; their direction from
//! the centre of all base features; and the direction of their roots from the centre of those. A class is the mean of
//! such vectors over its shots, clean views and augmented ones counting half each. A score is then one inner product
//! and one offset:
//!
//! - targets: the cosine to the class's pseudo-target, or to its mean projection where the head was not aligned to it;
//! - means: the cosine to its mean direction (nearest class mean);
//! - discriminant: z . m - |m|^2 / 2 of whitened roots, which orders classes as their distances do. Whitening is linear
//!   and symmetric: it is applied to the means alone, once in m and once more for z.
//!
//! Each is divided by its deviation over base images, so that weights mean the same with every backbone.

mod calibrate;
mod judged;

use alloc::vec;
use alloc::vec::Vec;

use orco_core::config::Answer;
use orco_core::discriminant::{Whitening, direction, root};
use orco_core::linalg::{Left, Right, padded, product};
use orco_core::math::{add_scaled, dot, highest, normalise, normalise_rows};

pub use self::calibrate::Fitting;
use self::calibrate::{shift, softmax};
pub(crate) use self::judged::{Judged, Judgement};
use crate::bank::Bank;
use crate::head::Projector;
use crate::state::{BaseModel, Calibration, State};
use crate::statistics::Statistics;

/// As many shots the mean of a base class counts where the device collects further ones: the place of use differs
/// from that of the training images, so few shots must be able to move it.
const BASE_COUNTS: f32 = 10.0;

/// Turns features into embeddings.
#[derive(Clone, Debug)]
struct Embedder {
    /// None where targets do not count.
    head: Option<Projector>,
    outputs: usize,
    inputs: usize,
    centre: Vec<f32>,
    root_centre: Vec<f32>,
}

impl Embedder {
    fn new(base_model: &BaseModel, state: &State, (answer, statistics): (Answer, &Statistics)) -> Self {
        let head = (answer.targets > 0.0).then(|| Projector::new(state.head(base_model)));
        Self {
            outputs: if head.is_some() { base_model.dimension } else { 0 },
            head,
            inputs: base_model.head.inputs,
            centre: statistics.centre.clone(),
            root_centre: statistics.root_centre.clone(),
        }
    }

    fn length(&self) -> usize {
        self.outputs + 2 * self.inputs
    }

    /// Embeddings `[n, length]` of features `[n, inputs]`.
    fn embed(&self, features: &[f32]) -> Vec<f32> {
        let length = self.length();
        let mut embedded = vec![0.0; features.len() / self.inputs * length];
        let projected = self.head.as_ref().map(|head| head.project(features));
        for (index, (to, from)) in embedded.chunks_exact_mut(length).zip(features.chunks_exact(self.inputs)).enumerate()
        {
            let (z, rest) = to.split_at_mut(self.outputs);
            if let Some(projected) = &projected {
                z.copy_from_slice(&projected[index * self.outputs..][..self.outputs]);
            }
            let (directed, rooted) = rest.split_at_mut(self.inputs);
            directed.copy_from_slice(from);
            direction(directed, &self.centre);
            rooted.copy_from_slice(from);
            root(rooted);
            direction(rooted, &self.root_centre);
        }
        embedded
    }

    /// What each shot adds to its class, `[shots, length]`: the mean of its clean view's embedding and of the
    /// augmented ones' mean.
    ///
    /// # Shapes
    /// `shots` `[shots, views, inputs]`, the clean view of each first.
    fn contributions(&self, shots: &[f32], views: usize) -> Vec<f32> {
        let length = self.length();
        let mut embedded = self.embed(shots);
        if views == 1 {
            return embedded;
        }
        let mut contributions = Vec::with_capacity(embedded.len() / views);
        for shot in embedded.chunks_exact_mut(views * length) {
            let (clean, augmented) = shot.split_at_mut(length);
            clean.iter_mut().for_each(|value| *value *= 0.5);
            let share = 0.5 / (views - 1) as f32;
            augmented.chunks_exact(length).for_each(|row| add_scaled(clean, share, row));
            contributions.extend_from_slice(clean);
        }
        contributions
    }

    /// What each of these exemplars of a bank adds to its class, `[exemplars, length]`.
    fn contributions_of(&self, bank: &Bank, exemplars: &[usize]) -> Vec<f32> {
        let mut shots = vec![0.0; exemplars.len() * bank.views() * self.inputs];
        for (&exemplar, shot) in exemplars.iter().zip(shots.chunks_exact_mut(bank.views() * self.inputs)) {
            for (view, row) in shot.chunks_exact_mut(self.inputs).enumerate() {
                bank.view().read(exemplar, view, row);
            }
        }
        self.contributions(&shots, bank.views())
    }
}

/// Turns what is known of a class into what scores it.
#[derive(Clone, Debug)]
struct Scorer {
    axes: Vec<f32>,
    damping: Vec<f32>,
    factor: f32,
    outputs: usize,
    inputs: usize,
    /// Weights of the three parts, divided by their deviations; of all together 1.
    weights: [f32; 3],
}

impl Scorer {
    fn new(embedder: &Embedder, (answer, statistics): (Answer, &Statistics)) -> Self {
        let weights = [answer.targets, answer.means, answer.discriminant];
        let all: f32 = weights.iter().sum();
        let weight = |part: usize| weights[part] / all / statistics.deviations[part];
        let mut axes = statistics.axes.clean();
        normalise_rows(&mut axes, embedder.inputs);
        Self {
            axes,
            damping: statistics.damping.clone(),
            factor: statistics.factor,
            outputs: embedder.outputs,
            inputs: embedder.inputs,
            weights: [weight(0), weight(1), weight(2)],
        }
    }

    fn whiten(&self, vector: &mut [f32]) {
        Whitening { axes: &self.axes, damping: &self.damping, factor: self.factor }.apply(vector);
    }

    /// The row and the offset that give a class's score, from the sum of what its shots add, the last part whitened.
    fn row(&self, sum: &[f32], count: f32) -> (Vec<f32>, f32) {
        let mut row: Vec<f32> = sum.iter().map(|value| value / count).collect();
        let (z, rest) = row.split_at_mut(self.outputs);
        let (directed, whitened) = rest.split_at_mut(self.inputs);
        normalise(z);
        normalise(directed);
        let offset = -0.5 * self.weights[2] * dot(whitened, whitened);
        self.whiten(whitened);
        for (part, weight) in [z, directed, whitened].into_iter().zip(self.weights) {
            part.iter_mut().for_each(|value| *value *= weight);
        }
        (row, offset)
    }
}

/// All known classes, as sums of what their shots add, the last part whitened.
struct Classes {
    /// `[classes, length]`.
    sums: Vec<f32>,
    counts: Vec<f32>,
    length: usize,
}

impl Classes {
    fn new(
        (embedder, scorer): (&Embedder, &Scorer),
        base_model: &BaseModel,
        state: &State,
        statistics: &Statistics,
    ) -> Self {
        let (length, inputs) = (embedder.length(), embedder.inputs);
        let base = base_model.classes.len();
        let count = base + state.classes.len();
        let (directions, whitened) = (statistics.directions.clean(), statistics.whitened.clean());
        let mut sums = Vec::with_capacity(count * length);
        for (class, (direction, whitened)) in
            base_model.classes.iter().zip(directions.chunks_exact(inputs).zip(whitened.chunks_exact(inputs)))
        {
            if embedder.head.is_some() {
                sums.extend_from_slice(base_model.target(class.target));
            }
            sums.extend_from_slice(direction);
            sums.extend_from_slice(whitened);
        }
        sums.iter_mut().for_each(|value| *value *= BASE_COUNTS);
        sums.resize(count * length, 0.0);
        let mut counts = vec![BASE_COUNTS; base];
        counts.resize(count, 0.0);
        let mut classes = Self { sums, counts, length };
        classes.add_shots(embedder, scorer, base_model, state);
        // Learned classes that the head was aligned to have their targets, the others what their shots add up to.
        if targets_are_kept(base, base_model, state) && embedder.head.is_some() {
            for (index, class) in state.classes.iter().enumerate() {
                classes.sums[(base + index) * length..][..embedder.outputs]
                    .copy_from_slice(base_model.target(class.target));
            }
        }
        classes
    }

    /// Adds the device's exemplars to their classes, some at a time.
    fn add_shots(&mut self, embedder: &Embedder, scorer: &Scorer, base_model: &BaseModel, state: &State) {
        let (length, bank) = (self.length, &state.exemplars);
        let rooted = embedder.outputs + embedder.inputs;
        // Roots are whitened once for a class, not once for a shot.
        let mut roots: Vec<Option<Vec<f32>>> = vec![None; self.counts.len()];
        let every: Vec<usize> = (0..bank.len()).collect();
        for exemplars in every.chunks(TOGETHER) {
            let contributions = embedder.contributions_of(bank, exemplars);
            for (contribution, &exemplar) in contributions.chunks_exact(length).zip(exemplars) {
                let class = bank.classes()[exemplar] as usize;
                let from = if targets_are_kept(class, base_model, state) { embedder.outputs } else { 0 };
                add_scaled(&mut self.sums[class * length..][from..rooted], 1.0, &contribution[from..rooted]);
                let sum = roots[class].get_or_insert_with(|| vec![0.0; embedder.inputs]);
                add_scaled(sum, 1.0, &contribution[rooted..]);
                self.counts[class] += 1.0;
            }
        }
        for (class, mut sum) in roots.into_iter().enumerate().filter_map(|(class, sum)| Some((class, sum?))) {
            scorer.whiten(&mut sum);
            add_scaled(&mut self.sums[class * length..][rooted..length], 1.0, &sum);
        }
    }

    /// The row and offset of a class without one of its shots; none if nothing is left of it.
    fn without(
        &self,
        class: usize,
        contribution: &[f32],
        keeps_target: bool,
        scorer: &Scorer,
    ) -> Option<(Vec<f32>, f32)> {
        let left = self.counts[class] - 1.0;
        if left < 0.5 {
            return None;
        }
        let mut sum = self.sums[class * self.length..][..self.length].to_vec();
        let mut contribution = contribution.to_vec();
        scorer.whiten(&mut contribution[scorer.outputs + scorer.inputs..]);
        let from = if keeps_target { scorer.outputs } else { 0 };
        add_scaled(&mut sum[from..], -1.0, &contribution[from..]);
        Some(scorer.row(&sum, left))
    }

    fn rows(&self, scorer: &Scorer) -> Rows {
        let rows = self.sums.chunks_exact(self.length).zip(&self.counts);
        Rows::new(rows.map(|(sum, &count)| scorer.row(sum, count.max(1.0))), self.length)
    }
}

/// Exemplars that are embedded at a time: few where there is no operating system and memory is short. No bit of a result
/// depends on it.
const TOGETHER: usize = if cfg!(target_os = "none") { 8 } else { 64 };

/// Whether a class's first part is its pseudo-target, whatever shots it has: a base class's always, a learned one's
/// where the head was aligned to it.
fn targets_are_kept(class: usize, base_model: &BaseModel, state: &State) -> bool {
    class < base_model.classes.len() || state.head.is_some()
}

/// What gives every class's score.
#[derive(Clone, Debug)]
struct Rows {
    /// `[length, classes]`, each line filled up.
    columns: Vec<f32>,
    offsets: Vec<f32>,
    length: usize,
}

impl Rows {
    fn new(rows: impl ExactSizeIterator<Item = (Vec<f32>, f32)>, length: usize) -> Self {
        // Rows at a time: what is written of a line lies together, and never are all rows there twice.
        const ROWS: usize = 8;
        let width = padded(rows.len());
        let (mut columns, mut offsets) = (vec![0.0; length * width], Vec::with_capacity(rows.len()));
        let mut some: Vec<Vec<f32>> = Vec::with_capacity(ROWS);
        let mut rows = rows.peekable();
        while let Some((row, offset)) = rows.next() {
            offsets.push(offset);
            some.push(row);
            if some.len() == ROWS || rows.peek().is_none() {
                let first = offsets.len() - some.len();
                for (index, line) in columns.chunks_exact_mut(width).enumerate() {
                    line[first..].iter_mut().zip(&some).for_each(|(to, row)| *to = row[index]);
                }
                some.clear();
            }
        }
        Self { columns, offsets, length }
    }

    fn push(&mut self, (row, offset): (Vec<f32>, f32)) {
        let (count, width) = (self.offsets.len(), padded(self.offsets.len()));
        if count == width {
            let mut wider = vec![0.0; self.length * padded(count + 1)];
            for (to, from) in wider.chunks_exact_mut(padded(count + 1)).zip(self.columns.chunks_exact(width.max(1))) {
                to[..count].copy_from_slice(from);
            }
            self.columns = wider;
        }
        let lines = self.columns.chunks_exact_mut(padded(count + 1));
        lines.zip(row).for_each(|(line, value)| line[count] = value);
        self.offsets.push(offset);
    }

    /// Scores `[n, classes]` of embeddings `[n, length]`.
    fn scores(&self, embedded: &[f32]) -> Vec<f32> {
        let count = self.offsets.len();
        let mut scores = vec![0.0; embedded.len() / self.length * count];
        let (left, right) = (Left::rows(embedded, self.length), Right::rows(&self.columns, padded(count)));
        product(embedded.len() / self.length, self.length, left, right, |row, column, sums| {
            let line = scores[row * count..][..count].iter_mut().zip(&self.offsets).skip(column);
            line.zip(sums).for_each(|((to, offset), sum)| *to = sum + offset);
        });
        scores
    }
}

/// How much a picture is like anything known, by its scores, the border among them: the largest.
pub(crate) fn familiarity(scores: &[f32]) -> f32 {
    highest(scores)
}

/// A state made ready for answering with all that is known.
#[derive(Clone, Debug)]
pub(crate) struct Answerer {
    embedder: Embedder,
    scorer: Scorer,
    rows: Rows,
    base: usize,
    calibration: Calibration,
}

impl Answerer {
    pub(crate) fn new(base_model: &BaseModel, state: &State, with: (Answer, &Statistics)) -> Self {
        let embedder = Embedder::new(base_model, state, with);
        let scorer = Scorer::new(&embedder, with);
        let rows = Classes::new((&embedder, &scorer), base_model, state, with.1).rows(&scorer);
        let calibration = state.calibration.unwrap_or(Calibration::start(with.1.start));
        Self { embedder, scorer, rows, base: base_model.classes.len(), calibration }
    }

    pub(crate) fn classes(&self) -> usize {
        self.rows.offsets.len()
    }

    /// Scores `[n, classes]` of features `[n, inputs]`, the border among them.
    pub(crate) fn scores(&self, features: &[f32]) -> Vec<f32> {
        let mut scores = self.rows.scores(&self.embedder.embed(features));
        for row in scores.chunks_exact_mut(self.classes().max(1)) {
            shift(row, self.base, self.calibration.border.shift);
        }
        scores
    }

    /// Turns a row of scores into probabilities.
    pub(crate) fn probabilities(&self, scores: &mut [f32]) {
        softmax(scores, self.calibration.temperature);
    }

    /// Knows one more class from its shots' features.
    pub(crate) fn imprint<'a>(&mut self, shots: impl Iterator<Item = &'a [f32]>) {
        let contributions: Vec<Vec<f32>> = shots.map(|shot| self.contribution(shot)).collect();
        let row = self.row_of(contributions.iter().map(Vec::as_slice));
        self.rows.push(row);
    }

    /// Scores `[subsets, n]` of one more class, known by some of these shots alone, for features `[n, inputs]`, the
    /// border among them.
    pub(crate) fn scores_of_some(&self, shots: &[Vec<f32>], subsets: &[Vec<usize>], features: &[f32]) -> Vec<Vec<f32>> {
        let contributions: Vec<Vec<f32>> = shots.iter().map(|shot| self.contribution(shot)).collect();
        let embedded = self.embedder.embed(features);
        let scores = |subset: &Vec<usize>| {
            let (row, offset) = self.row_of(subset.iter().map(|shot| contributions[*shot].as_slice()));
            let offset = offset + self.calibration.border.shift;
            embedded.chunks_exact(row.len()).map(|embedded| dot(&row, embedded) + offset).collect()
        };
        subsets.iter().map(scores).collect()
    }

    /// What a shot adds to its class.
    fn contribution(&self, shot: &[f32]) -> Vec<f32> {
        self.embedder.contributions(shot, shot.len() / self.embedder.inputs)
    }

    /// The row and the offset of a class, from what its shots add.
    fn row_of<'a>(&self, contributions: impl Iterator<Item = &'a [f32]>) -> (Vec<f32>, f32) {
        let mut sum = vec![0.0; self.embedder.length()];
        let mut count = 0.0;
        for contribution in contributions {
            add_scaled(&mut sum, 1.0, contribution);
            count += 1.0;
        }
        self.scorer.whiten(&mut sum[self.embedder.outputs + self.embedder.inputs..]);
        self.scorer.row(&sum, f32::max(count, 1.0))
    }
}

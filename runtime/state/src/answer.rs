//! Answers from all that is known of a class: its place under the head, its mean, and the linear discriminant, with a
//! border between base classes and new ones.
//!
//! A picture's features become one long vector, its *embedding*: their projection by the head; their direction from the
//! centre of all base features; and the whitened direction of their roots. A class is the mean of such vectors over its
//! shots, clean views and augmented ones counting half each. A score is then one inner product and one offset:
//!
//! - targets: the cosine to the class's pseudo-target, or to its mean projection where the head was not aligned to it;
//! - means: the cosine to its mean direction (nearest class mean);
//! - discriminant: z . m - |m|^2 / 2 of whitened vectors, which orders classes as their distances do.
//!
//! Each is divided by its deviation over base images, so that weights mean the same with every backbone.

use alloc::vec;
use alloc::vec::Vec;

use orco_core::border::{self, Border, Sample};
use orco_core::config::Answer;
use orco_core::discriminant::{Whitening, direction, root};
use orco_core::math::{add_scaled, dot, exp, ln, normalise};

use crate::bank::Bank;
use crate::head::Projector;
use crate::state::{BaseModel, Calibration, State};
use crate::statistics::Statistics;
use crate::target::{cosines, place_of_largest};

/// As many shots the mean of a base class counts where the device collects further ones: the place of use differs
/// from that of the training images, so few shots must be able to move it.
const BASE_COUNTS: f32 = 10.0;

/// Turns features into embeddings.
#[derive(Clone, Debug)]
pub(crate) struct Embedder {
    /// None where targets do not count.
    head: Option<Projector>,
    outputs: usize,
    inputs: usize,
    centre: Vec<f32>,
    root_centre: Vec<f32>,
    axes: Vec<f32>,
    damping: Vec<f32>,
    factor: f32,
    /// Weights of the three parts, divided by their deviations; of all together 1.
    weights: [f32; 3],
}

impl Embedder {
    pub(crate) fn new(base_model: &BaseModel, state: &State, answer: Answer, statistics: &Statistics) -> Self {
        let weights = [answer.targets, answer.means, answer.discriminant];
        let all: f32 = weights.iter().sum();
        let weight = |part: usize| weights[part] / all / statistics.deviations[part];
        let head = (answer.targets > 0.0).then(|| Projector::new(state.head(base_model)));
        let mut axes = statistics.axes.clean();
        orco_core::math::normalise_rows(&mut axes, base_model.head.inputs);
        Self {
            outputs: if head.is_some() { base_model.dimension } else { 0 },
            head,
            inputs: base_model.head.inputs,
            centre: statistics.centre.clone(),
            root_centre: statistics.root_centre.clone(),
            axes,
            damping: statistics.damping.clone(),
            factor: statistics.factor,
            weights: [weight(0), weight(1), weight(2)],
        }
    }

    fn length(&self) -> usize {
        self.outputs + 2 * self.inputs
    }

    /// Embeddings `[n, length]` of features `[n, inputs]`.
    pub(crate) fn embed(&self, features: &[f32]) -> Vec<f32> {
        let length = self.length();
        let mut embedded = vec![0.0; features.len() / self.inputs * length];
        let projected = self.head.as_ref().map(|head| head.project(features));
        let whitening = Whitening { axes: &self.axes, damping: &self.damping, factor: self.factor };
        for (index, (to, from)) in embedded.chunks_exact_mut(length).zip(features.chunks_exact(self.inputs)).enumerate()
        {
            let (z, rest) = to.split_at_mut(self.outputs);
            if let Some(projected) = &projected {
                z.copy_from_slice(&projected[index * self.outputs..][..self.outputs]);
            }
            let (directed, whitened) = rest.split_at_mut(self.inputs);
            directed.copy_from_slice(from);
            direction(directed, &self.centre);
            whitened.copy_from_slice(from);
            root(whitened);
            direction(whitened, &self.root_centre);
            whitening.apply(whitened);
        }
        embedded
    }

    /// What a shot adds to its class: the mean of its clean view's embedding and of the augmented ones' mean.
    ///
    /// # Shapes
    /// `views` `[1.., inputs]`, the clean one first.
    fn contribution(&self, views: &[f32]) -> Vec<f32> {
        let length = self.length();
        let mut embedded = self.embed(views);
        let augmented = embedded.len() / length - 1;
        let rest = embedded.split_off(length);
        if augmented > 0 {
            embedded.iter_mut().for_each(|value| *value *= 0.5);
            rest.chunks_exact(length).for_each(|row| add_scaled(&mut embedded, 0.5 / augmented as f32, row));
        }
        embedded
    }

    /// The row and the offset that give a class's score, from the sum of its contributions.
    fn row(&self, sum: &[f32], count: f32) -> (Vec<f32>, f32) {
        let mut row: Vec<f32> = sum.iter().map(|value| value / count).collect();
        let (z, rest) = row.split_at_mut(self.outputs);
        let (directed, whitened) = rest.split_at_mut(self.inputs);
        normalise(z);
        normalise(directed);
        let offset = -0.5 * self.weights[2] * dot(whitened, whitened);
        for (part, weight) in [z, directed, whitened].into_iter().zip(self.weights) {
            part.iter_mut().for_each(|value| *value *= weight);
        }
        (row, offset)
    }
}

/// All known classes, as sums of contributions.
#[derive(Clone, Debug)]
struct Classes {
    /// `[classes, length]`.
    sums: Vec<f32>,
    counts: Vec<f32>,
    /// Of the device's exemplars, `[exemplars, length]`.
    contributions: Vec<f32>,
}

impl Classes {
    fn new(embedder: &Embedder, base_model: &BaseModel, state: &State, statistics: &Statistics) -> Self {
        let length = embedder.length();
        let base = base_model.classes.len();
        let mut sums = Vec::with_capacity((base + state.classes.len()) * length);
        let (directions, whitened) = (statistics.directions.clean(), statistics.whitened.clean());
        let of = |rows: &[f32], class: usize| rows[class * embedder.inputs..][..embedder.inputs].to_vec();
        for (index, class) in base_model.classes.iter().enumerate() {
            if embedder.head.is_some() {
                sums.extend_from_slice(base_model.target(class.target));
            }
            sums.extend(of(&directions, index));
            sums.extend(of(&whitened, index));
        }
        sums.iter_mut().for_each(|value| *value *= BASE_COUNTS);
        let mut counts = vec![BASE_COUNTS; base];
        // Learned classes that the head was aligned to have their targets, the others what their shots add up to.
        let aligned = state.head.is_some() && embedder.head.is_some();
        sums.resize(sums.len() + state.classes.len() * length, 0.0);
        counts.resize(base + state.classes.len(), 0.0);
        let contributions = contributions(embedder, &state.exemplars);
        for (contribution, &class) in contributions.chunks_exact(length).zip(state.exemplars.classes()) {
            let class = class as usize;
            // A base class keeps its target.
            let from = if class < base || aligned { embedder.outputs } else { 0 };
            add_scaled(&mut sums[class * length + from..(class + 1) * length], 1.0, &contribution[from..]);
            counts[class] += 1.0;
        }
        if aligned {
            for (index, class) in state.classes.iter().enumerate() {
                sums[(base + index) * length..][..embedder.outputs].copy_from_slice(base_model.target(class.target));
            }
        }
        Self { sums, counts, contributions }
    }

    fn rows(&self, embedder: &Embedder) -> Rows {
        let length = embedder.length();
        let mut rows = Rows { rows: Vec::with_capacity(self.sums.len()), offsets: Vec::new(), length };
        for (sum, &count) in self.sums.chunks_exact(length).zip(&self.counts) {
            rows.push(embedder.row(sum, count.max(1.0)));
        }
        rows
    }
}

/// What each of a bank's exemplars adds to its class.
fn contributions(embedder: &Embedder, bank: &Bank) -> Vec<f32> {
    let inputs = embedder.inputs;
    let mut views = vec![0.0; bank.views() * inputs];
    let mut all = Vec::with_capacity(bank.len() * embedder.length());
    for exemplar in 0..bank.len() {
        for (view, row) in views.chunks_exact_mut(inputs).enumerate() {
            bank.view().read(exemplar, view, row);
        }
        all.extend(embedder.contribution(&views));
    }
    all
}

/// What gives every class's score.
#[derive(Clone, Debug)]
struct Rows {
    rows: Vec<f32>,
    offsets: Vec<f32>,
    length: usize,
}

impl Rows {
    fn push(&mut self, (row, offset): (Vec<f32>, f32)) {
        self.rows.extend(row);
        self.offsets.push(offset);
    }

    /// Scores `[n, classes]` of embeddings `[n, length]`.
    fn scores(&self, embedded: &[f32]) -> Vec<f32> {
        let mut scores = cosines(embedded, &self.rows, self.length);
        for row in scores.chunks_exact_mut(self.offsets.len().max(1)) {
            row.iter_mut().zip(&self.offsets).for_each(|(score, offset)| *score += offset);
        }
        scores
    }
}

/// A state made ready for answering with all that is known.
#[derive(Clone, Debug)]
pub(crate) struct Answerer {
    embedder: Embedder,
    rows: Rows,
    base: usize,
    calibration: Calibration,
}

impl Answerer {
    pub(crate) fn new(base_model: &BaseModel, state: &State, answer: Answer, statistics: &Statistics) -> Self {
        let embedder = Embedder::new(base_model, state, answer, statistics);
        let rows = Classes::new(&embedder, base_model, state, statistics).rows(&embedder);
        let calibration = state.calibration.unwrap_or(Calibration::start(statistics.start));
        Self { embedder, rows, base: base_model.classes.len(), calibration }
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
        let mut sum = vec![0.0; self.embedder.length()];
        let mut count = 0.0;
        for shot in shots {
            add_scaled(&mut sum, 1.0, &self.embedder.contribution(shot));
            count += 1.0;
        }
        self.rows.push(self.embedder.row(&sum, f32::max(count, 1.0)));
    }
}

fn shift(scores: &mut [f32], base: usize, border: f32) {
    scores.iter_mut().skip(base).for_each(|score| *score += border);
}

fn softmax(scores: &mut [f32], temperature: f32) {
    let highest = orco_core::math::highest(scores);
    scores.iter_mut().for_each(|score| *score = exp((*score - highest) / temperature));
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// Samples by which states are judged: the base samples that were set aside, then the device's exemplars, each left out
/// of its own class.
pub(crate) struct Judged {
    /// Class of each sample.
    pub(crate) classes: Vec<u32>,
    /// How many of them were set aside by the bundle.
    pub(crate) set_aside: usize,
    /// Clean features, `[samples, inputs]`.
    features: Vec<f32>,
    /// SHA-256 of each exemplar; none of a sample that was set aside.
    digests: Vec<Option<[u8; 32]>>,
}

impl Judged {
    /// The samples that judge this state and others.
    pub(crate) fn of(state: &State, statistics: &Statistics) -> Self {
        let (aside, exemplars) = (&statistics.set_aside, &state.exemplars);
        let mut features = aside.clean();
        features.extend(exemplars.clean());
        let digests = (0..aside.len()).map(|_| None);
        Self {
            classes: aside.classes().iter().chain(exemplars.classes()).copied().collect(),
            set_aside: aside.len(),
            features,
            digests: digests.chain((0..exemplars.len()).map(|exemplar| Some(exemplars.digest_of(exemplar)))).collect(),
        }
    }

    /// Scores of every sample, `[samples, classes of the state]`, without the border. `own` is each sample's class in
    /// that state, if it is known there; an exemplar that belongs to it there is left out of it.
    fn scores(
        &self,
        base_model: &BaseModel,
        state: &State,
        (answer, statistics): (Answer, &Statistics),
        own: &[Option<usize>],
    ) -> Vec<f32> {
        let embedder = Embedder::new(base_model, state, answer, statistics);
        let classes = Classes::new(&embedder, base_model, state, statistics);
        let length = embedder.length();
        let embedded = embedder.embed(&self.features);
        let mut scores = classes.rows(&embedder).scores(&embedded);
        let count = classes.counts.len();
        let bank = &state.exemplars;
        let known: Vec<[u8; 32]> = (0..bank.len()).map(|exemplar| bank.digest_of(exemplar)).collect();
        for (sample, row) in scores.chunks_exact_mut(count.max(1)).enumerate() {
            let (Some(class), Some(digest)) = (own[sample], self.digests[sample]) else { continue };
            let is_it = |&exemplar: &usize| known[exemplar] == digest && bank.classes()[exemplar] as usize == class;
            let Some(exemplar) = (0..bank.len()).find(is_it) else { continue };
            let left = classes.counts[class] - 1.0;
            let mut sum = classes.sums[class * length..][..length].to_vec();
            // A base class's target, and one that the head was aligned to, is no sum of shots.
            let aligned = class < base_model.classes.len() || state.head.is_some();
            let from = if aligned { embedder.outputs } else { 0 };
            let contribution = &classes.contributions[exemplar * length..][..length];
            add_scaled(&mut sum[from..], -1.0, &contribution[from..]);
            row[class] = if left > 0.5 {
                let (own, offset) = embedder.row(&sum, left);
                dot(&own, &embedded[sample * length..][..length]) + offset
            } else {
                // The only shot of its class: nothing is left that could recognise it.
                f32::MIN
            };
        }
        scores
    }

    /// Answers of a state for every sample, by the border that it has.
    pub(crate) fn answers(
        &self,
        base_model: &BaseModel,
        state: &State,
        with: (Answer, &Statistics),
        own: &[Option<usize>],
    ) -> Vec<usize> {
        let mut scores = self.scores(base_model, state, with, own);
        let count = state.known(base_model).count();
        let border = state.calibration.map_or(with.1.start, |calibration| calibration.border.shift);
        let base = base_model.classes.len();
        let answer = |row: &mut [f32]| {
            shift(row, base, border);
            place_of_largest(row)
        };
        scores.chunks_exact_mut(count.max(1)).map(answer).collect()
    }

    /// Chooses the border and the temperature of a state.
    pub(crate) fn calibrate(&self, base_model: &BaseModel, state: &State, with: (Answer, &Statistics)) -> Calibration {
        let own: Vec<Option<usize>> = self.classes.iter().map(|class| Some(*class as usize)).collect();
        let mut scores = self.scores(base_model, state, with, &own);
        let (base, count) = (base_model.classes.len(), state.known(base_model).count());
        calibrate(&mut scores, &self.classes, base, count, state.balance.weight(), with.1.start)
    }
}

/// Chooses border and temperature from scores without a border, `[samples, classes]`, of samples of these classes;
/// leaves the border in the scores. `start` is the border where there is nothing to choose it from.
pub fn calibrate(
    scores: &mut [f32],
    classes: &[u32],
    base: usize,
    count: usize,
    weight: f32,
    start: f32,
) -> Calibration {
    let shares = shares(classes, base, count);
    let (mut known, mut new) = (Vec::new(), Vec::new());
    for (row, (&class, &share)) in scores.chunks_exact(count.max(1)).zip(classes.iter().zip(&shares)) {
        let (old, learned) = row.split_at(base);
        if learned.is_empty() || row[class as usize] == f32::MIN {
            continue;
        }
        let best = |side: &[f32]| side[place_of_largest(side)];
        let is_known = (class as usize) < base;
        let own = if is_known { place_of_largest(old) } else { base + place_of_largest(learned) };
        let sample = Sample { lead: best(learned) - best(old), right: own == class as usize, share };
        if is_known { &mut known } else { &mut new }.push(sample);
    }
    let border = if known.is_empty() || new.is_empty() {
        Border { shift: start, ..Border::default() }
    } else {
        border::choose(&mut known, &mut new, weight)
    };
    scores.chunks_exact_mut(count.max(1)).for_each(|row| shift(row, base, border.shift));
    Calibration { border, temperature: temperature(scores, classes, &shares, count) }
}

/// Share of every sample in the accuracy of its side, classes counting alike.
fn shares(classes: &[u32], base: usize, count: usize) -> Vec<f32> {
    let mut samples = vec![0.0f32; count];
    classes.iter().for_each(|class| samples[*class as usize] += 1.0);
    let seen = |range: core::ops::Range<usize>| samples[range].iter().filter(|count| **count > 0.0).count() as f32;
    let sides = [seen(0..base), seen(base..count)];
    classes.iter().map(|&class| 1.0 / (samples[class as usize] * sides[usize::from(class as usize >= base)])).collect()
}

/// The temperature at which the softmax of scores gives the samples' classes the highest likelihood.
fn temperature(scores: &[f32], classes: &[u32], shares: &[f32], count: usize) -> f32 {
    const STEPS: i32 = 48;
    let loss = |temperature: f32| -> f32 {
        let mut row_of = vec![0.0; count];
        let each = scores.chunks_exact(count.max(1)).zip(classes.iter().zip(shares));
        each.filter(|(row, (class, _))| row[**class as usize] > f32::MIN / 2.0)
            .map(|(row, (&class, &share))| {
                row_of.copy_from_slice(row);
                softmax(&mut row_of, temperature);
                -share * ln(row_of[class as usize].max(1e-12))
            })
            .sum()
    };
    if classes.is_empty() || count < 2 {
        return Calibration::TEMPERATURE;
    }
    // From 0.01 to 2.5, in steps of 12 percent.
    let candidates = (0..STEPS).map(|step| 0.01 * exp(0.115 * step as f32));
    let best = candidates.map(|temperature| (loss(temperature), temperature)).min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(Calibration::TEMPERATURE, |(_, temperature)| temperature)
}

//! What a session takes of a device, told before it begins: memory, arithmetic, bytes written.
//!
//! Counted are vectors, which grow with the bundle and with what is known, not the few kilobytes around them. Program
//! and backbone come on top.

use orco_core::align::AlignmentExtent;
use orco_core::config::AnswerWeights;
use orco_core::linalg::padded;
use orco_core::projection::HeadShape;

use crate::answer::{
    EMBED_BATCH, MAX_FIRST_SAMPLES, MAX_OTHERS, MAX_SCATTERED, MAX_SHOT_SAMPLES, MAX_VIEWED, VIEW_BATCH,
};
use crate::bank::Bank;
use crate::slots::HEADER;
use crate::state::{BaseModel, Class, Scoring};
use crate::statistics::Statistics;

/// How much is known when a session begins, and how much it learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionExtent {
    /// Learned classes.
    pub known_classes: usize,
    /// Their shots.
    pub known_shots: usize,
    /// Classes that the session learns.
    pub new_classes: usize,
    /// Their shots.
    pub new_shots: usize,
    /// Threads that work.
    pub threads: usize,
}

/// What a session takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionCost {
    /// Bytes of memory that the bundle's base model takes, with its statistics, as long as the bundle is open.
    pub bundle: usize,
    /// Bytes of memory that the state before the session takes.
    pub state: usize,
    /// Bytes of memory that learning takes beside these at the most, the features of the shots among them, and the
    /// alignment.
    pub learning: usize,
    /// Bytes of memory that saving takes beside bundle and state at the most.
    pub saving: usize,
    /// Bytes written at the most: one slot. The first change of a device writes both.
    pub written: usize,
    /// Multiply-adds of matrix products, the backbone's not among them.
    pub multiply_adds: u64,
}

/// Bytes of a label, by and large.
const LABEL: usize = 10;

impl SessionCost {
    /// What a session takes with the bundle's settings, where the history holds the last two changes. `None` where
    /// answers do not use the bundle's statistics; every shipped bundle's do.
    pub fn of(base_model: &BaseModel, extent: SessionExtent) -> Option<Self> {
        let config = &base_model.config;
        let scoring = base_model.scoring(config)?;
        let shape = base_model.head.shape();
        let SessionExtent {
            known_classes: learned, known_shots: stored, new_classes: classes, new_shots: shots, ..
        } = extent;
        let (learned_then, stored_then) = (learned + classes, stored + shots);
        let one = Bank::new(shape.inputs, config.views, config.precision).bytes_per_exemplar();
        let aligns = config.epochs > 0;
        // Every state that was learned brings its aligned head.
        let head = if aligns { size_of::<f32>() * parameter_count(shape) } else { 0 };
        // The history repeats labels and numbers of shots, not the shots.
        let closed = |classes: usize, shots: usize| classes * (3 * size_of::<Class>() + 2 * LABEL) + shots * (one + 8);
        let state = |classes: usize, shots: usize| closed(classes, shots) + if classes > 0 { head } else { 0 };
        let written = HEADER + learned_then * (5 * LABEL + 8) + stored_then * (one + 8) + head;
        let alignment = AlignmentExtent {
            shape,
            targets: base_model.target_count(),
            classes: base_model.classes.len() + learned_then,
            exemplars: base_model.exemplars.len() + stored_then,
        };
        let working = alignment.workspace_size(config).bytes();
        let features = size_of::<f32>() * shots * config.views * shape.inputs;
        // While the head is aligned, the closed form is there, too.
        let before_alignment = if aligns { closed(learned_then, stored_then) } else { 0 };
        let meanwhile = features + working + before_alignment + state(learned_then, stored_then);
        let evaluation = EvaluationCost::new(base_model, scoring, extent);
        let free = alignment.targets - base_model.classes.len() - learned;
        let to_assign = shots as u64 * shape.forward_cost() + (classes * free * shape.outputs) as u64;
        let trained_on = base_model.exemplars.len().min(base_model.classes.len() * config.base_exemplars) + stored_then;
        let to_align = AlignmentExtent { exemplars: trained_on, ..alignment }.operations(config) / 2;
        Some(Self {
            bundle: bundle(base_model, scoring.statistics),
            state: state(learned, stored),
            learning: meanwhile + evaluation.memory(),
            // Both slots while they are judged, each with patches of half its size, then the newest one's body,
            // decoded.
            saving: meanwhile + 4 * written,
            written,
            multiply_adds: evaluation.multiply_adds() + to_assign + to_align,
        })
    }

    /// Bytes of memory at the most.
    pub fn memory(&self) -> usize {
        self.bundle + self.state + self.learning.max(self.saving)
    }
}

/// Numbers in the parameters of a head as it is stored.
const fn parameter_count(shape: HeadShape) -> usize {
    let HeadShape { inputs, hidden, outputs } = shape;
    hidden * (inputs + 1) + outputs * (hidden + 1)
}

/// Bytes of memory that a base model and its statistics take.
fn bundle(base_model: &BaseModel, statistics: &Statistics) -> usize {
    let shape = base_model.head.shape();
    let inputs = shape.inputs;
    let numbers = parameter_count(shape) + base_model.targets.len() + 2 * inputs + statistics.damping.len();
    let Statistics { axes, directions, whitened, set_aside, .. } = statistics;
    let banks = [&base_model.exemplars, axes, directions, whitened, set_aside];
    let classes = base_model.classes.len() * (size_of::<Class>() + LABEL);
    size_of::<f32>() * numbers + banks.map(Bank::bytes).iter().sum::<usize>() + classes
}

/// What evaluating the state after a session depends on.
struct EvaluationCost {
    shape: HeadShape,
    views: usize,
    axes: usize,
    /// Heads that answer: before the session, and after it.
    heads_before: usize,
    heads: usize,
    /// Whether the head is aligned after the closed form.
    aligns: bool,
    /// Classes that came with the bundle, those that were known, and all.
    base: usize,
    known_before: usize,
    known: usize,
    /// Samples that the bundle set aside, stored shots, and all of them.
    aside: usize,
    stored_before: usize,
    stored: usize,
    /// Of these, those that are samples.
    chosen: usize,
    threads: usize,
}

impl EvaluationCost {
    fn new(base_model: &BaseModel, scoring: Scoring<'_>, extent: SessionExtent) -> Self {
        let (shape, base) = (base_model.head.shape(), base_model.classes.len());
        let AnswerWeights { targets, aligned, .. } = scoring.weights;
        let aligns = base_model.config.epochs > 0;
        let alone = usize::from(targets + aligned > 0.0);
        let heads = if aligns { usize::from(targets > 0.0) + usize::from(aligned > 0.0) } else { alone };
        Self {
            shape,
            views: base_model.config.views,
            axes: scoring.statistics.damping.len(),
            heads_before: if extent.known_classes > 0 { heads } else { alone },
            heads,
            aligns,
            base,
            known_before: base + extent.known_classes,
            known: base + extent.known_classes + extent.new_classes,
            aside: scoring.statistics.set_aside.len(),
            stored_before: extent.known_shots,
            stored: extent.known_shots + extent.new_shots,
            chosen: (extent.known_shots + extent.new_shots)
                .min(MAX_SHOT_SAMPLES + extent.known_classes + extent.new_shots),
            threads: extent.threads.max(1),
        }
    }

    fn samples(&self) -> usize {
        self.aside + self.chosen
    }

    /// Length of an embedding by so many heads.
    fn length(&self, heads: usize) -> usize {
        heads * self.shape.outputs + 2 * self.shape.inputs
    }

    /// Bytes of memory at the most.
    fn memory(&self) -> usize {
        let Self { shape, views, axes, heads, base, known, aside, stored, threads, .. } = *self;
        let (inputs, length) = (shape.inputs, self.length(heads));
        let whitener = inputs * padded(axes) + axes * padded(inputs);
        // The means of the classes, of two shots at least, among it.
        let scattered = self.scattered();
        let scatter = inputs * padded(scattered) + scattered * padded(inputs) + scattered / 2 * inputs;
        let projections = views * self.needed_shots() * heads * shape.outputs;
        let sums = known * length;
        let columns = length * padded(known);
        // First the classes' rows are made of sums; then they score the samples, some at a time, and the scores of
        // some are kept.
        let making = 2 * base * inputs + sums + columns;
        let kept = self.samples() / self.samples().div_ceil(MAX_FIRST_SAMPLES).max(1) * known;
        let removed = EMBED_BATCH.min(scattered) * (2 * known + 2 * inputs);
        let some = EMBED_BATCH.min(stored) * (known + length + views * (inputs + length)) + removed;
        let some_aside = EMBED_BATCH.min(aside) * (known + 2 * length + inputs + shape.hidden);
        // The views of a shot, its class without it and each of some others, and what these add.
        let viewed = EMBED_BATCH.min(stored) * (known + 3 * length)
            + VIEW_BATCH.min(self.viewed()) * views * (known + length)
            + EMBED_BATCH.min(self.viewed()) * views * known
            + (1 + MAX_OTHERS) * (views * (inputs + length) + length)
            + removed;
        let together = threads * some.max(some_aside).max(viewed);
        let scoring = columns + kept + together;
        let adding = 2 * base * inputs + (known - base) * inputs + together;
        // An earlier state with another head answers for itself: its own projections, and those of the samples.
        let earlier = if self.aligns { columns + kept + together + projections } else { 0 };
        let most = making.max(scoring).max(adding).max(earlier);
        // What is kept for the next change: sums and projections of samples, under three heads at the most, and these.
        let kept_heads = if self.aligns { 3 } else { 1 };
        let kept_sums = (known - base) * (2 * inputs + kept_heads * shape.outputs) + kept_heads * shape.parameters();
        let of_head = shape.outputs * (aside + views * self.needed_shots());
        // Projections of samples that were set aside are held a second time while they score.
        let cache = kept_sums + kept_heads * of_head + heads * shape.outputs * aside;
        let numbers = heads * shape.parameters() + whitener + scatter + projections + sums + most + cache;
        /// A digest, where it is found among the others, and the two best classes.
        const OF_SAMPLE: usize = 32 + 64 + 64;
        /// What a view says of the border, while it is chosen.
        const OF_VIEW: usize = 32 + 12;
        size_of::<f32>() * numbers + OF_SAMPLE * (self.aside + stored) + OF_VIEW * views * self.viewed()
    }

    fn multiply_adds(&self) -> u64 {
        let Self { heads_before, heads, aligns, known_before, known, stored_before, stored, .. } = *self;
        // Class means alone answer for all samples first, and the bundle alone for those set aside.
        let around = self.by_means() + self.by_bundle();
        // An earlier state without an aligned head scores its classes as the closed form does.
        let earlier = self.of_state(heads_before, known_before, stored_before + self.needed_shots());
        let session = |heads: usize| self.of_state(heads, known, stored) + self.of_views(heads) + around + earlier;
        // The closed form is there before its head is aligned.
        session(heads) + if aligns { session(heads.min(1)) } else { 0 }
    }

    /// Of a state with so many classes, and so many shots that are projected, that answers for all samples.
    fn of_state(&self, heads: usize, known: usize, projected: usize) -> u64 {
        let Self { shape, views, axes, base, aside, chosen, .. } = *self;
        // Once for the sum of a class, and once for its row; twice for a class without one of its shots.
        let whitened = (known - base) + known + 2 * chosen;
        let scored = self.samples() * known + chosen;
        (heads * (projected * views + aside)) as u64 * shape.forward_cost()
            + (whitened * 2 * axes * shape.inputs) as u64
            + (scored * self.length(heads)) as u64
            + self.of_scatter(known)
    }

    /// Of the scatter of shots: what it takes away along, rows of as many classes, and shots that are taken out of it.
    fn of_scatter(&self, known: usize) -> u64 {
        let scattered = self.scattered();
        let rows = scattered + known + 2 * self.chosen + self.viewed() * MAX_OTHERS;
        let removed = scattered * (2 * 2 * self.axes + 2 * scattered + known);
        ((rows * 2 * scattered + removed) * self.shape.inputs) as u64
    }

    /// Shots whose scatter counts, at the most.
    fn scattered(&self) -> usize {
        self.stored.min(MAX_SCATTERED)
    }

    /// Of the views of shots that are left out, by which the border is chosen.
    fn of_views(&self, heads: usize) -> u64 {
        // What the shot and others add, and the rows of the class without them.
        let whitened = self.viewed() * (1 + 2 * MAX_OTHERS);
        (whitened * 2 * self.axes * self.shape.inputs) as u64 + self.scored_views() * self.length(heads) as u64
    }

    /// Shots whose views are scored, at the most: every class has one.
    fn viewed(&self) -> usize {
        self.stored.min(MAX_VIEWED + (self.known - self.base).min(MAX_VIEWED))
    }

    /// Stored shots that are needed: samples, and what is left out beside those whose views are scored.
    fn needed_shots(&self) -> usize {
        self.stored.min(self.chosen + self.viewed() * MAX_OTHERS)
    }

    /// Inner products for their views: with all classes, and with their own without some of its shots.
    fn scored_views(&self) -> u64 {
        (self.viewed() * self.views * (self.known + 1 + MAX_OTHERS)) as u64
    }

    /// Of class means alone.
    fn by_means(&self) -> u64 {
        ((self.samples() * self.known + self.chosen) as u64 + self.scored_views()) * self.shape.inputs as u64
    }

    /// Of the bundle alone, for the samples that it set aside.
    fn by_bundle(&self) -> u64 {
        let Self { shape, axes, base, aside, .. } = *self;
        let heads = self.heads.min(1);
        (heads * aside) as u64 * shape.forward_cost()
            + (base * 2 * axes * shape.inputs + aside * base * self.length(heads)) as u64
    }
}

//! Estimates what a session costs a device before it begins: memory, arithmetic, bytes written.
//!
//! Only vectors are counted, since these grow with the bundle and with what is known. Program, backbone, and a few
//! kilobytes of small structures come on top.

use orco_core::align::AlignmentExtent;
use orco_core::config::AnswerWeights;
use orco_core::linalg::padded;
use orco_core::projection::HeadShape;

use crate::answer::{
    EMBED_BATCH, MAX_FIRST_SAMPLES, MAX_OTHERS, MAX_SHOT_SAMPLES, MAX_VIEWED, ROW_BATCH, VIEW_BATCH, most_scattered,
    multiple_of_usual,
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

/// The estimated cost of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionCost {
    /// Memory of the bundle's base model and its statistics while the bundle is open, in bytes.
    pub bundle: usize,
    /// Memory of the state before the session, in bytes.
    pub state: usize,
    /// Peak memory of learning beyond `bundle` and `state`, in bytes: features of the shots, alignment, evaluation.
    pub learning: usize,
    /// Peak memory of saving beyond `bundle` and `state`, in bytes.
    pub saving: usize,
    /// Most bytes written: one slot. The first change of a device writes both.
    pub written: usize,
    /// Multiply-adds of matrix products, without the backbone's.
    pub multiply_adds: u64,
}

/// Typical length of a label, in bytes.
const LABEL: usize = 10;

impl SessionCost {
    /// The cost of a session with the bundle's settings, if the history holds the last two changes. `None` if answers
    /// do not use the bundle's statistics; those of every shipped bundle do.
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
            bundle: bundle_bytes(base_model, scoring.statistics),
            state: state(learned, stored),
            learning: meanwhile + evaluation.memory(),
            // Both slots while the newer one is found, each with patches of half its size; then the decoded body of the
            // newer one.
            saving: meanwhile + 4 * written,
            written,
            multiply_adds: evaluation.multiply_adds() + to_assign + to_align,
        })
    }

    /// Peak memory, in bytes.
    pub fn memory(&self) -> usize {
        self.bundle + self.state + self.learning.max(self.saving)
    }
}

/// Numbers in the parameters of a head as it is stored.
const fn parameter_count(shape: HeadShape) -> usize {
    let HeadShape { inputs, hidden, outputs } = shape;
    hidden * (inputs + 1) + outputs * (hidden + 1)
}

/// Memory of a base model and its statistics, in bytes.
fn bundle_bytes(base_model: &BaseModel, statistics: &Statistics) -> usize {
    let shape = base_model.head.shape();
    let inputs = shape.inputs;
    let numbers = parameter_count(shape) + base_model.targets.len() + 2 * inputs + statistics.damping.len();
    let Statistics { axes, directions, whitened, set_aside, .. } = statistics;
    let banks = [&base_model.exemplars, axes, directions, whitened, set_aside];
    let classes = base_model.classes.len() * (size_of::<Class>() + LABEL);
    size_of::<f32>() * numbers + banks.map(Bank::bytes).iter().sum::<usize>() + classes
}

/// The sizes on which the cost of evaluating the state after a session depends.
struct EvaluationCost {
    shape: HeadShape,
    views: usize,
    axes: usize,
    /// Heads that answer before the session.
    heads_before: usize,
    /// Heads that answer after it.
    heads: usize,
    /// Whether the head is aligned after the closed form.
    aligns: bool,
    /// Base classes.
    base: usize,
    /// Classes that are known before the session, base classes included.
    known_before: usize,
    /// Classes that are known after it.
    known: usize,
    /// Samples that the bundle set aside.
    set_aside: usize,
    /// Shots that are stored before the session.
    stored_before: usize,
    /// Shots that are stored after it.
    stored: usize,
    /// Stored shots that are samples.
    shot_samples: usize,
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
            set_aside: scoring.statistics.set_aside.len(),
            stored_before: extent.known_shots,
            stored: extent.known_shots + extent.new_shots,
            shot_samples: (extent.known_shots + extent.new_shots)
                .min(MAX_SHOT_SAMPLES + extent.known_classes + extent.new_shots),
            threads: extent.threads.max(1),
        }
    }

    /// All samples.
    fn samples(&self) -> usize {
        self.set_aside + self.shot_samples
    }

    /// Length of an embedding with this many heads.
    fn length(&self, heads: usize) -> usize {
        heads * self.shape.outputs + 2 * self.shape.inputs
    }

    /// Peak memory, in bytes.
    fn memory(&self) -> usize {
        let Self { shape, views, axes, heads, base, known, set_aside, stored, threads, .. } = *self;
        let (inputs, length) = (shape.inputs, self.length(heads));
        let whitener = inputs * padded(axes) + axes * padded(inputs);
        // Includes the means of classes, each of at least two shots.
        let scattered = self.scattered();
        let scatter = inputs * padded(scattered) + scattered * padded(inputs) + scattered / 2 * inputs;
        let projections = views * self.needed_shots() * heads * shape.outputs;
        let sums = known * length;
        let columns = length * padded(known);
        // First the classes' rows are made of sums, some at a time; then they score the samples, some at a time, and
        // the scores of some are kept.
        let of_row = 2 * length + padded(axes).max(padded(scattered));
        let making = 2 * base * inputs + columns + threads * ROW_BATCH.min(known) * of_row;
        let kept = self.samples() / self.samples().div_ceil(MAX_FIRST_SAMPLES).max(1) * known;
        let removed = EMBED_BATCH.min(scattered) * (2 * known + 2 * inputs);
        let some = EMBED_BATCH.min(stored) * (known + length + views * (inputs + length)) + removed;
        let some_set_aside = EMBED_BATCH.min(set_aside) * (known + 2 * length + inputs + shape.hidden);
        // The views of a shot, its class without it and each of some others, and what these add.
        let viewed = EMBED_BATCH.min(stored) * (known + 3 * length)
            + VIEW_BATCH.min(self.viewed()) * views * (known + length)
            + EMBED_BATCH.min(self.viewed()) * views * known
            + (1 + MAX_OTHERS) * (views * (inputs + length) + length)
            + removed;
        let together = threads * some.max(some_set_aside).max(viewed);
        let scoring = columns + kept + together;
        let adding = 2 * base * inputs + (known - base) * inputs + together;
        // An earlier state with another head answers for itself: its own projections, and those of the samples.
        let earlier = if self.aligns { columns + kept + together + projections } else { 0 };
        let most = making.max(scoring).max(adding).max(earlier);
        // What the cache keeps for the next change: sums and projections of samples for at most three heads, and these
        // heads. The scatter that it keeps of the state before is a few percent of all, and not counted.
        let kept_heads = if self.aligns { 3 } else { 1 };
        let kept_sums = (known - base) * (2 * inputs + kept_heads * shape.outputs) + kept_heads * shape.parameters();
        let of_head = shape.outputs * (set_aside + views * self.needed_shots());
        // Projections of samples that were set aside are held a second time while they score.
        let cache = kept_sums + kept_heads * of_head + heads * shape.outputs * set_aside;
        let numbers = heads * shape.parameters() + whitener + scatter + projections + sums + most + cache;
        /// Bytes of a sample's digest, its place in a map of digests, and its two best classes.
        const OF_SAMPLE: usize = 32 + 64 + 64;
        /// Bytes of a view's margin while the border is chosen.
        const OF_VIEW: usize = 32 + 12;
        size_of::<f32>() * numbers + OF_SAMPLE * (self.set_aside + stored) + OF_VIEW * views * self.viewed()
    }

    /// Multiply-adds of the whole evaluation.
    fn multiply_adds(&self) -> u64 {
        let Self { heads_before, heads, aligns, known_before, known, stored_before, stored, .. } = *self;
        // Class means alone answer for all samples first, and the bundle alone for those set aside.
        let around = self.nearest_mean_cost() + self.bundle_cost();
        // An earlier state without an aligned head scores its classes as the closed form does.
        let earlier = self.state_cost(heads_before, known_before, stored_before + self.needed_shots());
        let session = |heads: usize| self.state_cost(heads, known, stored) + self.view_cost(heads) + around + earlier;
        // The closed form is there before its head is aligned.
        session(heads) + if aligns { session(heads.min(1)) } else { 0 }
    }

    /// Multiply-adds of answers to all samples by a state with `known` classes, of which `projected` shots are
    /// projected.
    fn state_cost(&self, heads: usize, known: usize, projected: usize) -> u64 {
        let Self { shape, views, axes, base, set_aside, shot_samples, .. } = *self;
        // Once for the sum of a class, and once for its row; twice for a class without one of its shots.
        let whitened = (known - base) + known + 2 * shot_samples;
        let scored = self.samples() * known + shot_samples;
        (heads * (projected * views + set_aside)) as u64 * shape.forward_cost()
            + whitened as u64 * (2 * axes * shape.inputs) as u64
            + scored as u64 * self.length(heads) as u64
            + self.scatter_cost(known)
    }

    /// Multiply-adds of the scatter of shots: its axes, the rows of `known` classes, and shots taken out of it.
    fn scatter_cost(&self, known: usize) -> u64 {
        let scattered = self.scattered();
        let rows = (scattered + known + 2 * self.shot_samples + self.viewed() * MAX_OTHERS) as u64;
        let removed = scattered as u64 * (2 * 2 * self.axes + 2 * scattered + known) as u64;
        (rows * 2 * scattered as u64 + removed) * self.shape.inputs as u64
    }

    /// Upper bound of the shots in the scatter, before the session or after it.
    fn scattered(&self) -> usize {
        let before = multiple_of_usual(self.stored_before, self.known_before - self.base);
        let after = multiple_of_usual(self.stored, self.known - self.base);
        self.stored.min(most_scattered(before.max(after)))
    }

    /// Multiply-adds of the views of left-out shots, by which the border is chosen.
    fn view_cost(&self, heads: usize) -> u64 {
        // What the shot and others add, and the rows of the class without them.
        let whitened = self.viewed() * (1 + 2 * MAX_OTHERS);
        whitened as u64 * (2 * self.axes * self.shape.inputs) as u64 + self.scored_views() * self.length(heads) as u64
    }

    /// Upper bound of the shots whose views are scored.
    fn viewed(&self) -> usize {
        self.stored.min(MAX_VIEWED)
    }

    /// Stored shots whose projections are needed: samples, and the shots left out beside those whose views are scored.
    fn needed_shots(&self) -> usize {
        self.stored.min(self.shot_samples + self.viewed() * MAX_OTHERS)
    }

    /// Inner products of these views: with all classes, and with their own class without some of its shots.
    fn scored_views(&self) -> u64 {
        (self.viewed() * self.views * (self.known + 1 + MAX_OTHERS)) as u64
    }

    /// Multiply-adds of answers by class means alone.
    fn nearest_mean_cost(&self) -> u64 {
        ((self.samples() * self.known + self.shot_samples) as u64 + self.scored_views()) * self.shape.inputs as u64
    }

    /// Multiply-adds of answers by the bundle alone, to the samples that it set aside.
    fn bundle_cost(&self) -> u64 {
        let Self { shape, axes, base, set_aside, .. } = *self;
        let heads = self.heads.min(1);
        (heads * set_aside) as u64 * shape.forward_cost()
            + (base * 2 * axes * shape.inputs + set_aside * base * self.length(heads)) as u64
    }
}

//! What a session takes of a device, told before it begins: memory, arithmetic, bytes written.
//!
//! Counted are vectors, which grow with the bundle and with what is known, not the few kilobytes around them. Program
//! and backbone come on top.

use orco_core::align;
use orco_core::linalg::padded;
use orco_core::projection::HeadShape;

use crate::answer::{MAX_FIRST_SAMPLES, TOGETHER};
use crate::bank::Bank;
use crate::state::{BaseModel, Class};
use crate::statistics::Statistics;
use crate::store::HEADER;

/// How much is known when a session begins, and how much it learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionExtent {
    /// Learned classes.
    pub learned: usize,
    /// Their shots.
    pub stored: usize,
    /// Classes that the session learns.
    pub classes: usize,
    /// Their shots, together.
    pub shots: usize,
}

/// What a session takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionBudget {
    /// Bytes of memory that the bundle's base model takes, with its statistics, as long as the bundle is open.
    pub bundle: usize,
    /// Bytes of memory that the state before the session takes.
    pub state: usize,
    /// Bytes of memory that learning takes beside these at the most, the features of the shots among them, and the
    /// alignment.
    pub learning: usize,
    /// Bytes of memory that saving takes beside bundle and state at the most.
    pub saving: usize,
    /// Bytes written: one slot. The first change of a device writes both.
    pub written: usize,
    /// Multiply-adds of matrix products, the backbone's not among them.
    pub multiply_adds: u64,
}

/// Bytes of a label, by and large.
const LABEL: usize = 10;

impl SessionBudget {
    /// What a session takes with the bundle's settings, where the history holds the last two changes. `None` where
    /// answers do not use the bundle's statistics: not so in any bundle that is shipped.
    pub fn of(base_model: &BaseModel, extent: SessionExtent) -> Option<Self> {
        let config = &base_model.config;
        let statistics = base_model.scoring(config)?.statistics;
        let shape = base_model.head.shape();
        let SessionExtent { learned, stored, classes, shots } = extent;
        let (learned_then, stored_then) = (learned + classes, stored + shots);
        let one = Bank::new(shape.inputs, config.views, config.precision).bytes_of_one();
        let aligns = config.epochs > 0;
        // Every state that was learned brings its aligned head.
        let head = if aligns { size_of::<f32>() * numbers_of(shape) } else { 0 };
        // The history repeats labels and numbers of shots, not the shots.
        let state = |classes: usize, shots: usize| {
            let head = if classes > 0 { head } else { 0 };
            classes * (3 * size_of::<Class>() + 2 * LABEL) + shots * (one + 8) + head
        };
        let written = HEADER + learned_then * (5 * LABEL + 8) + stored_then * (one + 8) + head;
        let exemplars = base_model.exemplars.len() + stored_then;
        let known = base_model.classes.len() + learned_then;
        let working = align::needs(shape, base_model.target_count(), known, exemplars, config).bytes();
        let features = size_of::<f32>() * shots * config.views * shape.inputs;
        let meanwhile = features + working + state(learned_then, stored_then);
        let evaluation = Evaluation::new(base_model, statistics, extent);
        let free = base_model.target_count() - base_model.classes.len() - learned;
        let to_assign = shots as u64 * shape.forward_cost() + (classes * free * shape.outputs) as u64;
        let samples = base_model.exemplars.len().min(base_model.classes.len() * config.base_exemplars) + stored_then;
        let alignment = align::operations(shape, base_model.target_count(), known, samples, config) / 2;
        Some(Self {
            bundle: bundle(base_model, statistics),
            state: state(learned, stored),
            learning: meanwhile + evaluation.memory(),
            // What will be written, both slots as they are, and one of them decoded.
            saving: meanwhile + 4 * written,
            written,
            multiply_adds: evaluation.multiply_adds() + to_assign + alignment,
        })
    }

    /// Bytes of memory at the most.
    pub fn memory(&self) -> usize {
        self.bundle + self.state + self.learning.max(self.saving)
    }
}

/// Numbers in the parameters of a head as it is stored.
const fn numbers_of(shape: HeadShape) -> usize {
    let HeadShape { inputs, hidden, outputs } = shape;
    hidden * (inputs + 1) + outputs * (hidden + 1)
}

/// Bytes of memory that a base model and its statistics take.
fn bundle(base_model: &BaseModel, statistics: &Statistics) -> usize {
    let shape = base_model.head.shape();
    let inputs = shape.inputs;
    let numbers = numbers_of(shape) + base_model.targets.len() + 2 * inputs + statistics.damping.len();
    let Statistics { axes, directions, whitened, set_aside, .. } = statistics;
    let banks = [&base_model.exemplars, axes, directions, whitened, set_aside];
    let classes = base_model.classes.len() * (size_of::<Class>() + LABEL);
    size_of::<f32>() * numbers + banks.map(Bank::bytes).iter().sum::<usize>() + classes
}

/// What evaluation the state after a session depends on.
struct Evaluation {
    shape: HeadShape,
    views: usize,
    axes: usize,
    /// Length of an embedding.
    length: usize,
    /// Classes that came with the bundle, and all.
    base: usize,
    known: usize,
    /// Samples that the bundle set aside, and stored shots.
    aside: usize,
    stored: usize,
}

impl Evaluation {
    fn new(base_model: &BaseModel, statistics: &Statistics, extent: SessionExtent) -> Self {
        let (shape, base) = (base_model.head.shape(), base_model.classes.len());
        Self {
            shape,
            views: base_model.config.views,
            axes: statistics.damping.len(),
            length: shape.outputs + 2 * shape.inputs,
            base,
            known: base + extent.learned + extent.classes,
            aside: statistics.set_aside.len(),
            stored: extent.stored + extent.shots,
        }
    }

    fn samples(&self) -> usize {
        self.aside + self.stored
    }

    /// Bytes of memory at the most.
    fn memory(&self) -> usize {
        let Self { shape, views, axes, length, base, known, aside, stored } = *self;
        let inputs = shape.inputs;
        let whitener = inputs * padded(axes) + axes * padded(inputs);
        let projections = 2 * stored * shape.outputs;
        let sums = known * length;
        let columns = length * padded(known);
        // First the classes' rows are made of sums; then they score the samples, some at a time, and the scores of
        // some are kept.
        let making = 2 * base * inputs + sums + columns;
        let kept = self.samples() / self.samples().div_ceil(MAX_FIRST_SAMPLES).max(1) * known;
        let some = TOGETHER.min(stored) * (known + length + views * (inputs + length));
        let some_aside = TOGETHER.min(aside) * (known + 2 * length + inputs + shape.hidden);
        let together = some.max(some_aside);
        let scoring = columns + kept + together;
        let adding = 2 * base * inputs + (known - base) * inputs + together;
        let numbers = shape.parameters() + whitener + projections + sums + making.max(scoring).max(adding);
        /// A digest, where it is found among the others, and the two best classes.
        const OF_SAMPLE: usize = 32 + 64 + 64;
        size_of::<f32>() * numbers + OF_SAMPLE * self.samples()
    }

    fn multiply_adds(&self) -> u64 {
        let Self { shape, views, axes, length, base, known, aside, stored } = *self;
        // The bundle alone answers for the samples set aside, too.
        let projected = stored * views + 2 * aside;
        // Once for the sum of a class, and once for its row; twice for a class without one of its shots.
        let whitened = (known - base) + known + base + 2 * stored;
        let judged = self.samples() * known + stored;
        let scored = judged + aside * base;
        // Class means alone answer for all samples first.
        projected as u64 * shape.forward_cost()
            + (whitened * 2 * axes * shape.inputs) as u64
            + scored as u64 * length as u64
            + judged as u64 * shape.inputs as u64
    }
}

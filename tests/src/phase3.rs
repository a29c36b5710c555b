//! The recorded few-shot alignment: inputs of every step, losses, gradients of the first step, weights on the way.

use std::fmt;

use crate::compare::{LOSS, Mismatch, WEIGHTS, compare};
use crate::golden::{Array, Golden};

/// Temperature of PSCL.
pub const TEMPERATURE: f32 = 0.07;
/// Weight of cross entropy, which the recorded losses carry.
pub const CROSS_ENTROPY: f32 = 0.5;
/// Learning rate of every step.
pub const RATE: f32 = 0.1;
/// Momentum of every step.
pub const MOMENTUM: f32 = 0.9;
/// Dampening of every step.
pub const DAMPENING: f32 = 0.9;
/// Weight decay of every step.
pub const WEIGHT_DECAY: f32 = 1e-4;
/// The head's parameters, in the order in which everything here lists them.
pub const PARAMETERS: [&str; 4] = ["w1", "b1", "w2", "b2"];

/// The recorded alignment.
#[derive(Clone, Debug)]
pub struct Phase3 {
    /// Length of a feature vector.
    pub inputs: usize,
    /// Width of the hidden layer.
    pub hidden: usize,
    /// Dimension d of the sphere.
    pub dimension: usize,
    /// Steps of training.
    pub steps: usize,
    /// Number of base classes: the smallest label whose target is perturbed.
    pub base_classes: u32,
    /// The head before the first step.
    pub head: [Array<f32>; 4],
    /// Targets of all seen classes, `[classes, dimension]`.
    pub assigned: Array<f32>,
    /// Targets that no class has, `[free, dimension]`.
    pub free: Array<f32>,
    features: [Array<f32>; 2],
    classes: Array<u32>,
    perturbed: [Array<f32>; 2],
    perturbed_labels: Array<u32>,
    losses: [Array<f64>; 4],
    weights: Vec<(usize, [Array<f32>; 4])>,
}

/// The losses of one step; cross entropy with its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Losses {
    /// PSCL.
    pub contrast: f64,
    /// CE.
    pub cross_entropy: f64,
    /// ORTH.
    pub orthogonality: f64,
    /// Their sum.
    pub total: f64,
}

impl Losses {
    const NAMES: [&str; 4] = ["pscl", "ce", "orth", "total"];

    fn each(&self) -> [f64; 4] {
        [self.contrast, self.cross_entropy, self.orthogonality, self.total]
    }
}

/// The largest deviations of a training from the recorded one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Deviation {
    /// Of PSCL, CE, ORTH and their sum, relative.
    pub losses: [f64; 4],
    /// Of the weights, relative to each array's largest entry.
    pub weights: f64,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, deviation) in Losses::NAMES.iter().zip(self.losses) {
            write!(f, "{name} deviates by {deviation:.1e}, ")?;
        }
        write!(f, "weights by {:.1e}", self.weights)
    }
}

impl Phase3 {
    /// Takes the alignment out of the reference vectors.
    ///
    /// # Panics
    /// If a key is missing or has a shape that does not go with the others.
    pub fn new(golden: &Golden) -> Self {
        let (w1, w2) = (golden.f32("head.w1"), golden.f32("head.w2"));
        let (hidden, inputs, dimension) = (w1.length(0), w1.length(1), w2.length(0));
        let head_at = |index: &str| {
            let shapes: [&[usize]; 4] = [&[hidden, inputs], &[hidden], &[dimension, hidden], &[dimension]];
            let mut shapes = shapes.into_iter();
            PARAMETERS.map(|name| {
                let shape = shapes.next().expect("a shape for every parameter");
                golden.f32(&format!("{index}{name}")).shaped(shape)
            })
        };
        let classes = golden.labels("phase3.batch.labels");
        let (steps, batch) = (classes.length(0), classes.length(1));
        let perturbed_labels = golden.labels("phase3.batch.perturbed_labels");
        let perturbed = perturbed_labels.length(1);
        let views = |name: &str, rows: usize, width: usize| {
            ["1", "2"].map(|view| golden.f32(&format!("phase3.batch.{name}{view}")).shaped(&[steps, rows, width]))
        };
        let after = golden.numbers("phase3.after", ".w1");
        assert!(after.iter().all(|step| (1..=steps).contains(step)), "phase3.after{after:?} of {steps} steps");
        let rows = |key: &str| {
            let targets = golden.f32(key);
            let count = targets.length(0);
            targets.shaped(&[count, dimension])
        };
        let perturbable = golden.labels("phase3.perturbable_labels").values;
        Self {
            inputs,
            hidden,
            dimension,
            steps,
            base_classes: perturbable.into_iter().min().expect("phase3.perturbable_labels: there is a label"),
            head: head_at("head."),
            assigned: rows("phase3.assigned_targets"),
            free: rows("phase3.unassigned_targets"),
            features: views("x", batch, inputs),
            classes,
            perturbed: views("perturbed", perturbed, dimension),
            perturbed_labels: perturbed_labels.shaped(&[steps, perturbed]),
            losses: Losses::NAMES.map(|name| golden.f64(&format!("phase3.loss.{name}")).shaped(&[steps])),
            weights: after.into_iter().map(|step| (step, head_at(&format!("phase3.after{step}.")))).collect(),
        }
    }

    /// Features of a step: first view of every sample, then second, `[2 batch, inputs]`.
    pub fn features(&self, step: usize) -> Vec<f32> {
        self.features.each_ref().map(|view| view.part(step)).concat()
    }

    /// Class of every sample of a step, `[batch]`.
    pub fn classes(&self, step: usize) -> &[u32] {
        self.classes.part(step)
    }

    /// Perturbed targets of a step: those for the first view, then those for the second, `[2 p, dimension]`.
    pub fn perturbed(&self, step: usize) -> Vec<f32> {
        self.perturbed.each_ref().map(|view| view.part(step)).concat()
    }

    /// Labels of the perturbed targets of a step, `[p]`.
    pub fn perturbed_labels(&self, step: usize) -> &[u32] {
        self.perturbed_labels.part(step)
    }

    /// Whether a class is incremental.
    pub fn is_incremental(&self, class: u32) -> bool {
        class >= self.base_classes
    }

    /// The recorded losses of a step.
    pub fn losses(&self, step: usize) -> Losses {
        let [contrast, cross_entropy, orthogonality, total] = self.losses.each_ref().map(|array| array.values[step]);
        Losses { contrast, cross_entropy, orthogonality, total }
    }

    /// Compares a training with the recorded one: `train` takes the number of a step, makes it, and returns the losses
    /// before it and the weights after it.
    ///
    /// # Errors
    /// [`Mismatch`] at the first step with a loss or a weight that is too far off.
    pub fn follow(&self, mut train: impl FnMut(usize) -> (Losses, [Vec<f32>; 4])) -> Result<Deviation, Mismatch> {
        let mut worst = Deviation::default();
        for step in 0..self.steps {
            let (losses, weights) = train(step);
            let pairs = losses.each().into_iter().zip(self.losses(step).each());
            for ((name, worst), (actual, expected)) in Losses::NAMES.iter().zip(&mut worst.losses).zip(pairs) {
                let what = format!("phase3.loss.{name} of step {step}");
                *worst = worst.max(compare(&what, &[actual], &[expected], LOSS)?);
            }
            for (_, expected) in self.weights.iter().filter(|(after, _)| *after == step + 1) {
                for (actual, expected) in weights.iter().zip(expected) {
                    let deviation = compare(&expected.key, actual, &expected.values, WEIGHTS)?;
                    worst.weights = worst.weights.max(deviation);
                }
            }
        }
        Ok(worst)
    }
}

//! The session: two classes of four made-up shots are learned beside three base classes, in memory that the caller
//! lends, and all shots are asked for. A host runs it, and so does a microcontroller.

use core::ops::ControlFlow;

use orco_core::align::{self, AlignmentData, AlignmentExtent, AlignmentInput, Sampling, Workspace, WorkspaceSize};
use orco_core::config::MethodConfig;
use orco_core::exemplar::{ExemplarPrecision, Exemplars, quantise};
use orco_core::math::dot;
use orco_core::projection::{HeadBatch, HeadParameters, HeadShape};
use orco_core::random::Random;
use orco_core::workers::Serial;

use crate::tables::{CapacityError, ClassTable, ExemplarTable};

const SHAPE: HeadShape = HeadShape { inputs: 16, hidden: 40, outputs: 8 };
const TARGETS: usize = 8;
const BASE: usize = 3;
const CLASSES: usize = 5;
const SHOTS: usize = 4;
const CONFIG: MethodConfig = MethodConfig { batch: 8, epochs: 200, warmup_epochs: 4, ..MethodConfig::edge() };
/// Working memory, known when the program is compiled.
const NEEDS: WorkspaceSize =
    AlignmentExtent { shape: SHAPE, targets: TARGETS, classes: CLASSES, exemplars: CLASSES * SHOTS }
        .workspace_size(&CONFIG);

/// Labels of the classes, base classes first.
const LABELS: [&str; CLASSES] = ["cat", "dog", "cow", "mug", "duck"];
/// What the device has learned.
type Classes = ClassTable<CLASSES, 8>;
type Shots = ExemplarTable<
    { (CLASSES - BASE) * SHOTS },
    { (CLASSES - BASE) * SHOTS },
    { (CLASSES - BASE) * SHOTS * SHAPE.inputs },
>;

/// Before any is taken.
const NO_SHOTS: Shots = Shots::new(SHAPE.inputs, 1, ExemplarPrecision::Int8);

/// How many shots the learned classes have.
pub const LEARNED_SHOTS: usize = (CLASSES - BASE) * SHOTS;

/// The session's whole memory.
pub struct BareMemory {
    /// The head before the session.
    head: HeadMemory,
    targets: [f32; TARGETS * SHAPE.outputs],
    base_classes: [u32; BASE * SHOTS],
    base_scales: [f32; BASE * SHOTS],
    base_values: [u8; BASE * SHOTS * SHAPE.inputs],
    classes: Classes,
    shots: Shots,
    /// The head after the session.
    aligned: HeadMemory,
    numbers: [f32; NEEDS.numbers],
    indices: [u32; NEEDS.indices],
}

/// The parameters of a head.
struct HeadMemory {
    w1: [f32; SHAPE.hidden * SHAPE.inputs],
    b1: [f32; SHAPE.hidden],
    w2: [f32; SHAPE.outputs * SHAPE.hidden],
    b2: [f32; SHAPE.outputs],
}

impl HeadMemory {
    const ZEROS: Self = Self {
        w1: [0.0; SHAPE.hidden * SHAPE.inputs],
        b1: [0.0; SHAPE.hidden],
        w2: [0.0; SHAPE.outputs * SHAPE.hidden],
        b2: [0.0; SHAPE.outputs],
    };

    fn as_parameters(&self) -> HeadParameters<&[f32]> {
        let Self { w1, b1, w2, b2 } = self;
        HeadParameters { w1, b1, w2, b2 }
    }

    fn as_parameters_mut(&mut self) -> HeadParameters<&mut [f32]> {
        let Self { w1, b1, w2, b2 } = self;
        HeadParameters { w1, b1, w2, b2 }
    }
}

/// Why the session ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BareError {
    /// A table is too small.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    /// The classes cannot be assigned, or the head cannot be aligned; why.
    #[error(transparent)]
    Align(#[from] align::AlignError),
}

impl BareMemory {
    /// Empty; to be put into a static variable.
    pub const fn new() -> Self {
        Self {
            head: HeadMemory::ZEROS,
            targets: [0.0; TARGETS * SHAPE.outputs],
            base_classes: [0; BASE * SHOTS],
            base_scales: [0.0; BASE * SHOTS],
            base_values: [0; BASE * SHOTS * SHAPE.inputs],
            classes: Classes::new(),
            shots: NO_SHOTS,
            aligned: HeadMemory::ZEROS,
            numbers: [0.0; NEEDS.numbers],
            indices: [0; NEEDS.indices],
        }
    }

    /// Labels of the classes that were learned.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.classes.as_slice().iter().skip(BASE).map(|class| class.label.as_str())
    }
}

impl Default for BareMemory {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs the session; returns how many of the [`LEARNED_SHOTS`] are recognised.
///
/// # Errors
/// [`BareError`] if memory is too small, or training diverges.
pub fn run(memory: &mut BareMemory) -> Result<usize, BareError> {
    memory.classes = Classes::new();
    memory.shots = NO_SHOTS;
    fill(memory);
    collect(&mut memory.classes, &mut memory.shots)?;
    let BareMemory { head, targets, base_classes, base_scales, base_values, .. } = memory;
    let BareMemory { classes, shots, aligned, numbers, indices, .. } = memory;
    let base = Exemplars {
        inputs: SHAPE.inputs,
        views: 1,
        precision: ExemplarPrecision::Int8,
        classes: base_classes,
        scales: base_scales,
        values: base_values,
    };
    let data = AlignmentData {
        shape: SHAPE,
        head: head.as_parameters(),
        targets,
        base_classes: BASE,
        base,
        learned: shots.as_exemplars(),
    };
    let mut workspace = Workspace { numbers, indices, workers: &Serial };
    let mut assigned = [0; CLASSES];
    classes.assigned(&mut assigned);
    align::assign_new_classes(&data, &mut assigned, BASE, &CONFIG, &mut workspace)?;
    classes.assign(&assigned);
    let input = AlignmentInput { data: &data, assigned: &assigned, config: &CONFIG, sampling: Sampling::seeded(1) };
    let mut proceed = |_| ControlFlow::Continue(());
    align::align(&input, &mut workspace, aligned.as_parameters_mut(), &mut proceed)?;
    Ok(recognised(&data, classes, aligned.as_parameters(), workspace.numbers))
}

/// How many shots of the learned classes come nearest to their own target.
fn recognised(data: &AlignmentData<'_>, known: &Classes, head: HeadParameters<&[f32]>, numbers: &mut [f32]) -> usize {
    let (parameters, rest) = numbers.split_at_mut(SHAPE.parameters());
    let (hidden, rest) = rest.split_at_mut(SHAPE.activations(1));
    let (z, rest) = rest.split_at_mut(SHAPE.width());
    let (norms, features) = rest.split_at_mut(1);
    SHAPE.load(head, parameters);
    let mut right = 0;
    for (shot, &class) in data.learned.classes.iter().enumerate() {
        let features = &mut features[..SHAPE.inputs];
        data.learned.read(shot, 0, features);
        let mut batch = HeadBatch { features, hidden, z, norms };
        SHAPE.forward(parameters, &mut batch, &Serial);
        let cosine = |class: usize| {
            dot(
                &batch.z[..SHAPE.outputs],
                &data.targets[known.as_slice()[class].target as usize * SHAPE.outputs..][..SHAPE.outputs],
            )
        };
        let best = (0..CLASSES).fold(0, |best, class| if cosine(class) > cosine(best) { class } else { best });
        right += usize::from(known.as_slice()[best].label == LABELS[class as usize]);
    }
    right
}

/// Made-up classes: noise around one direction each; orthonormal targets; a random head.
fn fill(memory: &mut BareMemory) {
    let mut random = Random::new(1, "bare");
    for values in [&mut memory.head.w1[..], &mut memory.head.w2[..]] {
        values.iter_mut().for_each(|value| *value = 0.3 * random.normal());
    }
    for (target, row) in memory.targets.chunks_exact_mut(SHAPE.outputs).enumerate() {
        row[target] = 1.0;
    }
    for class in 0..BASE {
        for shot in class * SHOTS..(class + 1) * SHOTS {
            memory.base_classes[shot] = class as u32;
            let mut at = shot * SHAPE.inputs;
            let scale = quantise(&features(class, &mut random), ExemplarPrecision::Int8, |byte| {
                memory.base_values[at] = byte;
                at += 1;
            });
            memory.base_scales[shot] = scale.unwrap_or(0.0);
        }
    }
}

/// A made-up shot of a class.
fn features(class: usize, random: &mut Random) -> [f32; SHAPE.inputs] {
    let mut direction = Random::new(class as u64, "class");
    core::array::from_fn(|_| direction.normal().max(0.0) + 0.1 * random.normal())
}

/// Fills the tables: all classes by their labels, the shots of the new ones.
fn collect(classes: &mut Classes, shots: &mut Shots) -> Result<(), CapacityError> {
    let mut random = Random::new(2, "bare");
    for (class, label) in LABELS.into_iter().enumerate() {
        let new = class >= BASE;
        // New classes get their targets from the session.
        let target = if new { 0 } else { class as u32 };
        classes.push(label, target, u32::from(new))?;
        if new {
            (0..SHOTS).try_for_each(|_| shots.push(class as u32, &features(class, &mut random)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shot_of_the_learned_classes_is_recognised_again_and_again() {
        let mut memory = BareMemory::new();
        for _ in 0..2 {
            assert_eq!(run(&mut memory), Ok(LEARNED_SHOTS));
        }
        assert!(memory.labels().eq(["mug", "duck"]));
    }
}

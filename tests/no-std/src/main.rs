//! A whole session of the core on the host, as a microcontroller would run it: no std, no allocator, all memory static,
//! a panic handler of its own. If anything of std or an allocation crept into the core, this would not link.
#![no_std]
#![no_main]

use core::ffi::{c_int, c_void};
use core::ops::ControlFlow;
use core::panic::PanicInfo;
use core::ptr::addr_of_mut;

use orco_bare::tables::{ClassTable, ExemplarTable};
use orco_core::align::{self, AlignmentData, Sampling, Workspace, WorkspaceSize};
use orco_core::config::Config;
use orco_core::exemplar::{ExemplarPrecision, Exemplars, quantise};
use orco_core::math::dot;
use orco_core::projection::{HeadBatch, HeadParameters, HeadShape};
use orco_core::random::Random;
use orco_core::workers::Serial;

const SHAPE: HeadShape = HeadShape { inputs: 16, hidden: 40, outputs: 8 };
const TARGETS: usize = 8;
const BASE: usize = 3;
const CLASSES: usize = 5;
const SHOTS: usize = 4;
const CONFIG: Config = Config { batch: 8, epochs: 200, warmup_epochs: 4, ..Config::edge() };
/// Working memory, known when the program is compiled.
const NEEDS: WorkspaceSize = align::needs(SHAPE, TARGETS, CLASSES, CLASSES * SHOTS, &CONFIG);

/// Labels of the classes, base classes first.
const LABELS: [&str; CLASSES] = ["cat", "dog", "cow", "mug", "duck"];
/// What the device has learned.
type Classes = ClassTable<CLASSES, 8>;
type Shots = ExemplarTable<
    { (CLASSES - BASE) * SHOTS },
    { (CLASSES - BASE) * SHOTS },
    { (CLASSES - BASE) * SHOTS * SHAPE.inputs },
>;

/// The device's whole memory.
struct Memory {
    w1: [f32; SHAPE.hidden * SHAPE.inputs],
    b1: [f32; SHAPE.hidden],
    w2: [f32; SHAPE.outputs * SHAPE.hidden],
    b2: [f32; SHAPE.outputs],
    targets: [f32; TARGETS * SHAPE.outputs],
    base_classes: [u32; BASE * SHOTS],
    base_scales: [f32; BASE * SHOTS],
    base_values: [u8; BASE * SHOTS * SHAPE.inputs],
    classes: Classes,
    shots: Shots,
    learned: Learned,
    numbers: [f32; NEEDS.numbers],
    indices: [u32; NEEDS.indices],
}

/// The head after the session.
struct Learned {
    w1: [f32; SHAPE.hidden * SHAPE.inputs],
    b1: [f32; SHAPE.hidden],
    w2: [f32; SHAPE.outputs * SHAPE.hidden],
    b2: [f32; SHAPE.outputs],
}

static mut MEMORY: Memory = Memory {
    w1: [0.0; SHAPE.hidden * SHAPE.inputs],
    b1: [0.0; SHAPE.hidden],
    w2: [0.0; SHAPE.outputs * SHAPE.hidden],
    b2: [0.0; SHAPE.outputs],
    targets: [0.0; TARGETS * SHAPE.outputs],
    base_classes: [0; BASE * SHOTS],
    base_scales: [0.0; BASE * SHOTS],
    base_values: [0; BASE * SHOTS * SHAPE.inputs],
    classes: Classes::new(),
    shots: Shots::new(SHAPE.inputs, 1, ExemplarPrecision::Int8),
    learned: Learned {
        w1: [0.0; SHAPE.hidden * SHAPE.inputs],
        b1: [0.0; SHAPE.hidden],
        w2: [0.0; SHAPE.outputs * SHAPE.hidden],
        b2: [0.0; SHAPE.outputs],
    },
    numbers: [0.0; NEEDS.numbers],
    indices: [0; NEEDS.indices],
};

// The host starts programs through its C library.
#[link(name = "c")]
unsafe extern "C" {
    fn write(file: c_int, bytes: *const c_void, length: usize) -> isize;
    fn abort() -> !;
}

fn say(text: &str) {
    // SAFETY: the pointer and the length are those of a string.
    unsafe { write(1, text.as_ptr().cast(), text.len()) };
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    say("the session panicked\n");
    // SAFETY: it takes nothing and does not return.
    unsafe { abort() }
}

/// The compiled `core` names this symbol, though nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Learns two classes of four shots beside three base classes, and asks for all shots: 0 if the learned ones are
/// recognised.
#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    // SAFETY: `main` runs once, on one thread, so this is the only reference.
    let memory = unsafe { &mut *addr_of_mut!(MEMORY) };
    fill(memory);
    if !collect(&mut memory.classes, &mut memory.shots) {
        say("the tables are too small\n");
        return 1;
    }
    let Memory { w1, b1, w2, b2, targets, base_classes, base_scales, base_values, .. } = memory;
    let Memory { classes, shots, learned, numbers, indices, .. } = memory;
    let base = Exemplars {
        dimension: SHAPE.inputs,
        views: 1,
        precision: ExemplarPrecision::Int8,
        classes: base_classes,
        scales: base_scales,
        values: base_values,
    };
    let data = AlignmentData {
        shape: SHAPE,
        head: HeadParameters { w1, b1, w2, b2 },
        targets,
        base_classes: BASE,
        base,
        learned: shots.view(),
    };
    let mut workspace = Workspace { numbers, indices, workers: &Serial };
    let mut assigned = [0; CLASSES];
    classes.assigned(&mut assigned);
    if align::assign(&data, &mut assigned, BASE, &CONFIG, &mut workspace).is_err() {
        say("the memory is too small\n");
        return 1;
    }
    classes.assign(&assigned);
    let Learned { w1, b1, w2, b2 } = learned;
    let head = HeadParameters { w1: &mut w1[..], b1: &mut b1[..], w2: &mut w2[..], b2: &mut b2[..] };
    let mut proceed = |_| ControlFlow::Continue(());
    if align::align(&data, &assigned, &CONFIG, Sampling::seeded(1), &mut workspace, head, &mut proceed).is_err() {
        say("the session failed\n");
        return 1;
    }
    let trained = HeadParameters { w1: &w1[..], b1: &b1[..], w2: &w2[..], b2: &b2[..] };
    let right = recognised(&data, classes, trained, workspace.numbers);
    if right < (CLASSES - BASE) * SHOTS {
        say("the learned classes are not recognised\n");
        return 1;
    }
    say("a session without std and without an allocator: every shot of the learned classes is recognised\n");
    0
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
fn fill(memory: &mut Memory) {
    let mut random = Random::new(1, "bare");
    for values in [&mut memory.w1[..], &mut memory.w2[..]] {
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

/// Fills the device's tables: all classes by their labels, the shots of the new ones.
fn collect(classes: &mut Classes, shots: &mut Shots) -> bool {
    let mut random = Random::new(2, "bare");
    for (class, label) in LABELS.into_iter().enumerate() {
        let new = class >= BASE;
        // New classes get their targets from the session.
        let target = if new { 0 } else { class as u32 };
        if classes.push(label, target, u32::from(new)) != Ok(class) {
            return false;
        }
        if new && (0..SHOTS).any(|_| shots.push(class as u32, &features(class, &mut random)).is_err()) {
            return false;
        }
    }
    true
}

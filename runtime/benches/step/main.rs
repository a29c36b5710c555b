//! One training step of phase 3 on the shape of the last CIFAR-100 session with ResNet-12, beside the rate that matrix
//! kernels reach on the same products, and beside the same step in PyTorch, all on the same number of threads:
//!
//! ```sh
//! cargo bench --workspace --bench step                     # ours and the limit
//! ORCO_PYTHON=PYTHON cargo bench --workspace --bench step  # PyTorch too; PYTHON imports torch
//! cargo bench --workspace --bench step -- avx2             # without AVX-512, and without `matrixmultiply`
//! ```
//!
//! Everything takes turns, each a fraction of a second, so that a machine that grows busy or slow does so for all:
//! ratios are taken turn by turn, and their medians and ranges are given.

use std::env;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Instant;

use orco_core::align::{HeadTrainer, StepBatch, StepExtent, TargetRows};
use orco_core::config::{MethodConfig, UnperturbedTargets};
use orco_core::linalg::{LANES, LeftFactor, RightFactor, allow_avx512, product};
use orco_core::projection::HeadShape;
use orco_core::random::Random;
use orco_core::workers::Workers;
use orco_runtime::threads::Threads;
use orco_state::head::Head;
use orco_state::session::SessionMemory;
use orco_state::target::{TargetMethod, generate};
use orco_trials::benchmark::{Unit, record};
use orco_trials::median;

const SHAPE: HeadShape = HeadShape { inputs: 640, hidden: 2048, outputs: 128 };
const BATCH: usize = 64;
const ROWS: usize = 2 * BATCH;
const BASE: usize = 60;
const CLASSES: usize = 100;
const TURNS: usize = 15;
/// Calls in a turn, of which the first do not count.
const CALLS: usize = 20;
const WARM_UP: usize = 5;

/// Median seconds of a call in a turn.
fn median_seconds(mut call: impl FnMut()) -> f64 {
    (0..WARM_UP).for_each(|_| call());
    let seconds = (WARM_UP..CALLS).map(|_| {
        let start = Instant::now();
        call();
        start.elapsed().as_secs_f64()
    });
    median(seconds.collect())
}

/// Floating-point operations of a step's products, as `operations_of_step` in `runtime/core/src/align/extent.rs` counts
/// them: (those of the head, those of the losses).
fn operations() -> (f64, f64) {
    let head = ROWS as f64 * (SHAPE.forward_cost() + SHAPE.backward_cost()) as f64;
    let contrast = (2 * ROWS * 2 * ROWS + 2 * ROWS * ROWS) * SHAPE.outputs;
    let cross_entropy = 2 * ROWS * CLASSES * SHAPE.outputs;
    let means = BATCH.min(CLASSES);
    let orthogonality = (3 * CLASSES + 2 * means) * means * SHAPE.outputs;
    (2.0 * head, 2.0 * (contrast + cross_entropy + orthogonality) as f64)
}

/// Calls `turns` with a function that runs a turn of our step and gives its median seconds.
fn with_our_step(threads: usize, turns: impl FnOnce(&mut dyn FnMut() -> f64)) {
    let mut random = Random::new(1, "bench");
    let mut head = Head::zeros(SHAPE);
    for values in head.parameters_mut() {
        values.iter_mut().for_each(|value| *value = 0.03 * random.normal());
    }
    let targets = generate(TargetMethod::Random, CLASSES, SHAPE.outputs, 0, 1);
    let target_rows = TargetRows { base_classes: BASE, assigned: &targets, free: &[] };
    let features: Vec<f32> = (0..ROWS * SHAPE.inputs).map(|_| random.normal().max(0.0)).collect();
    let classes: Vec<u32> = (0..BATCH).map(|_| random.below(CLASSES) as u32).collect();
    let perturbed = generate(TargetMethod::Random, ROWS, SHAPE.outputs, 0, 2);
    let perturbed_labels: Vec<u32> = (0..BATCH).map(|index| (BASE + index % (CLASSES - BASE)) as u32).collect();
    let batch = StepBatch {
        features: &features,
        classes: &classes,
        perturbed: &perturbed,
        perturbed_labels: &perturbed_labels,
    };
    let config = MethodConfig::published();
    let extent = StepExtent {
        shape: SHAPE,
        samples: BATCH,
        views: 2,
        classes: CLASSES,
        targets: CLASSES,
        unperturbed_targets: UnperturbedTargets::NONE,
    };
    let mut memory = SessionMemory::new(extent.workspace_size());
    let threads = Threads::new(threads).expect("the system has threads");
    let mut trainer = HeadTrainer::new(&extent, head.as_parameters(), &target_rows, memory.workspace(&threads));
    turns(&mut || {
        let mut seconds = 0.0;
        threads.enter(&mut || {
            seconds = median_seconds(|| {
                black_box(trainer.step(&batch, &config, 0.01));
            });
        });
        seconds
    });
}

/// A product of two matrices: `[rows, length]` times `[length, columns]`.
#[derive(Clone, Copy)]
struct ProductShape {
    rows: usize,
    length: usize,
    columns: usize,
    /// Which factor is stored transposed.
    transposed: Transposed,
}

#[derive(Clone, Copy, PartialEq)]
enum Transposed {
    Left,
    Right,
    Neither,
}

impl ProductShape {
    const fn new([rows, length, columns]: [usize; 3], transposed: Transposed) -> Self {
        Self { rows, length, columns, transposed }
    }
}

/// The five products of the head's forward and backward pass.
const PRODUCTS: [ProductShape; 5] = [
    ProductShape::new([ROWS, SHAPE.inputs, SHAPE.hidden], Transposed::Right),
    ProductShape::new([ROWS, SHAPE.hidden, SHAPE.outputs], Transposed::Right),
    ProductShape::new([SHAPE.outputs, ROWS, SHAPE.hidden], Transposed::Left),
    ProductShape::new([ROWS, SHAPE.outputs, SHAPE.hidden], Transposed::Neither),
    ProductShape::new([SHAPE.hidden, ROWS, SHAPE.inputs], Transposed::Left),
];

/// Median seconds of the head's products alone, by the given kernel, each thread with a set of its own; per set.
fn products_alone(sets: &mut [Vec<Operands>], kernel: fn(&mut Operands)) -> f64 {
    let threads = sets.len() as f64;
    let slowest = thread::scope(|scope| {
        let run = |set: &mut Vec<Operands>| median_seconds(|| set.iter_mut().for_each(kernel));
        let handles: Vec<_> = sets.iter_mut().map(|set| scope.spawn(move || run(set))).collect();
        handles.into_iter().map(|handle| handle.join().expect("the thread ends")).fold(0.0, f64::max)
    });
    slowest / threads
}

/// Numbers that begin on a cache line, as those of a session do.
struct Aligned {
    /// The numbers, with room before or behind them.
    padded: Vec<f32>,
    /// Where the first of them lies.
    first: usize,
}

impl Aligned {
    fn new(length: usize, value: impl FnMut() -> f32) -> Self {
        let mut padded = vec![0.0; length + 16];
        let first = padded.as_ptr().align_offset(64);
        padded[first..first + length].fill_with(value);
        Self { padded, first }
    }

    fn values(&self) -> &[f32] {
        &self.padded[self.first..]
    }

    fn values_mut(&mut self) -> &mut [f32] {
        &mut self.padded[self.first..]
    }
}

struct Operands {
    shape: ProductShape,
    a: Aligned,
    b: Aligned,
    c: Aligned,
}

impl Operands {
    fn new(shape: ProductShape, random: &mut Random) -> Self {
        let ProductShape { rows: m, length: k, columns: n, .. } = shape;
        let [a, b] = [m * k, k * n].map(|length| Aligned::new(length, || random.normal()));
        Self { shape, a, b, c: Aligned::new(m * n, || 0.0) }
    }
}

/// By the crate `matrixmultiply`.
fn by_matrixmultiply(operands: &mut Operands) {
    let ProductShape { rows: m, length: k, columns: n, transposed } = operands.shape;
    let strides = |factor: Transposed, rows: usize, columns: usize| {
        if transposed == factor { (1, rows as isize) } else { (columns as isize, 1) }
    };
    let ((rsa, csa), (rsb, csb)) = (strides(Transposed::Left, m, k), strides(Transposed::Right, k, n));
    let (a, b, c) = (operands.a.values().as_ptr(), operands.b.values().as_ptr(), operands.c.values_mut().as_mut_ptr());
    // SAFETY: the operands have m k, k n and m n entries, which these strides stay inside of.
    unsafe { matrixmultiply::sgemm(m, k, n, 1.0, a, rsa, csa, b, rsb, csb, 0.0, c, n as isize, 1) };
}

/// By our own kernel, in the layouts in which it works: the left factor's rows one after the other, the right factor in
/// panels.
fn by_ours(operands: &mut Operands) {
    let ProductShape { rows: m, length: k, columns: n, .. } = operands.shape;
    let left = LeftFactor::rows(operands.a.values(), k);
    let panels = operands.b.values().chunks_exact(k * LANES).zip(operands.c.values_mut().chunks_exact_mut(m * LANES));
    for (panel, c) in panels.take(n / LANES) {
        product(m, k, left, RightFactor::rows(panel, LANES), |row, column, sums| {
            c[row * LANES + column..][..sums.len()].copy_from_slice(sums);
        });
    }
}

/// The training step in PyTorch, in a Python of its own that waits for its turns.
struct PyTorch {
    python: Child,
    turns: ChildStdin,
    seconds: BufReader<ChildStdout>,
}

impl PyTorch {
    /// None if no Python was named, or it cannot import torch.
    fn start(threads: usize, avx2: bool) -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/step/pytorch.py");
        let mut command = Command::new(env::var_os("ORCO_PYTHON")?);
        // Its own libtorch, not the trainer's.
        command
            .arg(script)
            .args([threads, CALLS, WARM_UP].map(|number| number.to_string()))
            .env_remove("LD_LIBRARY_PATH");
        if avx2 {
            let limits =
                [("ATEN_CPU_CAPABILITY", "avx2"), ("MKL_ENABLE_INSTRUCTIONS", "AVX2"), ("ONEDNN_MAX_CPU_ISA", "AVX2")];
            command.envs(limits);
        }
        let mut python = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let (turns, seconds) = (python.stdin.take()?, BufReader::new(python.stdout.take()?));
        let mut started = Self { python, turns, seconds };
        started.turn().is_some().then_some(started)
    }

    /// Median seconds of a step in a turn.
    fn turn(&mut self) -> Option<f64> {
        self.turns.write_all(b"\n").ok()?;
        let mut line = String::new();
        self.seconds.read_line(&mut line).ok()?;
        line.trim().parse().ok()
    }
}

impl Drop for PyTorch {
    fn drop(&mut self) {
        let _ = self.python.kill();
        let _ = self.python.wait();
    }
}

/// What one turn took, in seconds.
struct Turn {
    step: f64,
    ours: f64,
    matrixmultiply: Option<f64>,
    pytorch: Option<f64>,
}

fn turns(threads: usize, avx2: bool) -> Vec<Turn> {
    let mut random = Random::new(1, "bench");
    let mut set = || PRODUCTS.map(|shape| Operands::new(shape, &mut random)).into();
    let mut sets: Vec<Vec<Operands>> = (0..threads).map(|_| set()).collect();
    let mut pytorch = PyTorch::start(threads, avx2);
    let mut turns = Vec::new();
    with_our_step(threads, |step| {
        turns.extend((0..TURNS).map(|_| Turn {
            step: step(),
            ours: products_alone(&mut sets, by_ours),
            // It takes AVX-512 where there is one.
            matrixmultiply: (!avx2).then(|| products_alone(&mut sets, by_matrixmultiply)),
            pytorch: pytorch.as_mut().and_then(PyTorch::turn),
        }));
    });
    turns
}

/// Median and range of what is taken from every turn.
fn over(turns: &[Turn], of: impl Fn(&Turn) -> Option<f64>) -> Option<[f64; 3]> {
    let values: Vec<f64> = turns.iter().filter_map(of).collect();
    let limit = |join: fn(f64, f64) -> f64| values.iter().copied().reduce(join);
    let (least, most) = (limit(f64::min)?, limit(f64::max)?);
    Some([median(values.clone()), least, most]).filter(|_| values.len() == turns.len())
}

fn main() {
    let avx2 = env::args().any(|argument| argument == "avx2");
    allow_avx512(!avx2);
    let (head, losses) = operations();
    println!(
        "one step of phase 3: head {}-{}-{}, batch {BATCH} x 2 views, {CLASSES} classes, {:.0} Mflop",
        SHAPE.inputs,
        SHAPE.hidden,
        SHAPE.outputs,
        (head + losses) / 1e6
    );
    println!("{}{}", orco_trials::system::processor_with_model(), if avx2 { ", without AVX-512" } else { "" });
    println!("medians of {TURNS} turns taken side by side, and their ranges");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for threads in if cores > 1 { vec![1, cores] } else { vec![1] } {
        let turns = turns(threads, avx2);
        println!("\n{threads} threads");
        let line = |name: &str, operations: f64, of: &dyn Fn(&Turn) -> Option<f64>| {
            if let Some([middle, least, most]) = over(&turns, of) {
                let rate = operations / middle / 1e9;
                let [middle, least, most] = [middle, least, most].map(|seconds| 1e3 * seconds);
                println!("  {name:36} {middle:7.2} ms ({least:.2} to {most:.2}) {rate:7.1} GFLOP/s");
            }
        };
        line("our step", head + losses, &|turn| Some(turn.step));
        line("the head's products, our kernel", head, &|turn| Some(turn.ours));
        line("the head's products, matrixmultiply", head, &|turn| turn.matrixmultiply);
        line("PyTorch's step", head + losses, &|turn| turn.pytorch);
        for (name, of) in [("our step", (|turn| turn.step) as fn(&Turn) -> f64), ("our kernel", |turn| turn.ours)] {
            let seconds = median(turns.iter().map(of).collect());
            record(format!("{name}, {threads} threads"), 1e3 * seconds, Unit::Milliseconds);
        }
        let fastest = |turn: &Turn| turn.ours.min(turn.matrixmultiply.unwrap_or(f64::INFINITY));
        let share = |turn: &Turn| Some(100.0 * (head + losses) / turn.step / (head / fastest(turn)));
        if let Some([middle, least, most]) = over(&turns, share) {
            println!("  share of the faster kernel's rate: {middle:.0} % ({least:.0} to {most:.0})");
        }
        match over(&turns, |turn| Some(turn.pytorch? / turn.step)) {
            Some([middle, least, most]) => {
                println!("  PyTorch takes {middle:.1} times as long ({least:.1} to {most:.1})")
            }
            None => println!("  PyTorch was not run (ORCO_PYTHON does not name a Python with torch)"),
        }
    }
}

//! One training step of phase 3 on the shape of the last CIFAR-100 session with ResNet-12, beside the rate that matrix
//! kernels reach on the same products, and beside the same step in PyTorch, all on the same number of threads:
//!
//! ```sh
//! cargo bench --workspace --bench step                             # ours and the limit
//! ORCO_PYTHON=PYTHON cargo bench --workspace --bench step          # PyTorch too; PYTHON is one that imports torch
//! ```

use std::env;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use orco_runtime::align::{Alignment, Batch, Extent, Goals};
use orco_runtime::config::Config;
use orco_runtime::head::Head;
use orco_runtime::linalg::{LANES, Left, Right, product};
use orco_runtime::projection::Shape;
use orco_runtime::random::Random;
use orco_runtime::session::Memory;
use orco_runtime::target::{Method, generate};
use orco_runtime::threads::Threads;
use orco_runtime::workers::Workers;

const SHAPE: Shape = Shape { inputs: 640, hidden: 2048, outputs: 128 };
const BATCH: usize = 64;
const ROWS: usize = 2 * BATCH;
const BASE: usize = 60;
const CLASSES: usize = 100;
const WARM_UP: usize = 20;
const STEPS: usize = 100;

/// Median seconds of a call.
fn median_seconds(mut call: impl FnMut()) -> f64 {
    (0..WARM_UP).for_each(|_| call());
    let mut seconds: Vec<f64> = (0..STEPS)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[STEPS / 2]
}

/// Floating-point operations of a step's products: (those of the head, those of the losses).
fn operations() -> (f64, f64) {
    let head = ROWS as f64 * (SHAPE.forward_cost() + SHAPE.backward_cost()) as f64;
    let contrast = (2 * ROWS * 2 * ROWS + 2 * ROWS * ROWS) * SHAPE.outputs;
    let cross_entropy = 2 * ROWS * CLASSES * SHAPE.outputs;
    let orthogonality = 2 * CLASSES * CLASSES * SHAPE.outputs;
    (2.0 * head, 2.0 * (contrast + cross_entropy + orthogonality) as f64)
}

fn our_step(threads: usize) -> f64 {
    let mut random = Random::new(1, "bench");
    let mut head = Head::zeros(SHAPE);
    for values in head.parameters_mut() {
        values.iter_mut().for_each(|value| *value = 0.03 * random.normal());
    }
    let targets = generate(Method::Random, CLASSES, SHAPE.outputs, 0, 1);
    let goals = Goals { base_classes: BASE, assigned: &targets, free: &[] };
    let features: Vec<f32> = (0..ROWS * SHAPE.inputs).map(|_| random.normal().max(0.0)).collect();
    let classes: Vec<u32> = (0..BATCH).map(|_| random.below(CLASSES) as u32).collect();
    let perturbed = generate(Method::Random, ROWS, SHAPE.outputs, 0, 2);
    let perturbed_labels: Vec<u32> = (0..BATCH).map(|place| (BASE + place % (CLASSES - BASE)) as u32).collect();
    let batch =
        Batch { features: &features, classes: &classes, perturbed: &perturbed, perturbed_labels: &perturbed_labels };
    let config = Config::orco();
    let extent = Extent { shape: SHAPE, samples: BATCH, views: 2, classes: CLASSES, targets: CLASSES };
    let mut memory = Memory::new(extent.needs());
    let threads = Threads::new(threads).expect("the system has threads");
    let workspace = memory.workspace(&threads);
    let mut alignment =
        Alignment::new(&extent, head.view(), &goals, workspace.numbers, workspace.indices, workspace.workers);
    let mut seconds = 0.0;
    threads.enter(&mut || {
        seconds = median_seconds(|| {
            black_box(alignment.step(&batch, &config, 0.01));
        });
    });
    seconds
}

/// The five products of the head's forward and backward pass: rows, length, columns, and whether the left and the right
/// factor are stored transposed.
const PRODUCTS: [(usize, usize, usize, bool, bool); 5] = [
    (ROWS, SHAPE.inputs, SHAPE.hidden, false, true),
    (ROWS, SHAPE.hidden, SHAPE.outputs, false, true),
    (SHAPE.outputs, ROWS, SHAPE.hidden, true, false),
    (ROWS, SHAPE.outputs, SHAPE.hidden, false, false),
    (SHAPE.hidden, ROWS, SHAPE.inputs, true, false),
];

/// Seconds of the head's products alone, by the given kernel, each thread with a set of its own; per set.
fn products_alone(threads: usize, kernel: impl Fn(&Operands) + Sync) -> f64 {
    let seconds = thread::scope(|scope| {
        let work = || {
            let mut random = Random::new(1, "bench");
            let operands = PRODUCTS.map(|shape| Operands::new(shape, &mut random));
            median_seconds(|| operands.iter().for_each(&kernel))
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().map(|handle| handle.join().expect("the thread ends")).fold(0.0, f64::max)
    });
    seconds / threads as f64
}

struct Operands {
    shape: (usize, usize, usize, bool, bool),
    a: Vec<f32>,
    b: Vec<f32>,
    c: std::cell::RefCell<Vec<f32>>,
}

impl Operands {
    fn new(shape: (usize, usize, usize, bool, bool), random: &mut Random) -> Self {
        let mut filled = |length: usize| -> Vec<f32> { (0..length).map(|_| random.normal()).collect() };
        let (m, k, n, ..) = shape;
        Self { shape, a: filled(m * k), b: filled(k * n), c: vec![0.0; m * n].into() }
    }
}

/// By the crate `matrixmultiply`.
fn by_matrixmultiply(operands: &Operands) {
    let (m, k, n, a_flip, b_flip) = operands.shape;
    let strides =
        |flip: bool, rows: usize, columns: usize| if flip { (1, rows as isize) } else { (columns as isize, 1) };
    let ((rsa, csa), (rsb, csb)) = (strides(a_flip, m, k), strides(b_flip, k, n));
    let mut c = operands.c.borrow_mut();
    let (a, b, c) = (operands.a.as_ptr(), operands.b.as_ptr(), c.as_mut_ptr());
    // SAFETY: the operands have m k, k n and m n entries, which these strides stay inside of.
    unsafe { matrixmultiply::sgemm(m, k, n, 1.0, a, rsa, csa, b, rsb, csb, 0.0, c, n as isize, 1) };
}

/// By our own kernel, in the layout in which it works: the right factor in panels.
fn by_ours(operands: &Operands) {
    let (m, k, n, flip, _) = operands.shape;
    let left = if flip { Left::transposed(&operands.a, m) } else { Left::rows(&operands.a, k) };
    let mut c = operands.c.borrow_mut();
    for (panel, c) in operands.b.chunks_exact(k * LANES).zip(c.chunks_exact_mut(m * LANES)).take(n / LANES) {
        product(m, k, left, Right::rows(panel, LANES), |row, column, sums| {
            c[row * LANES + column..][..sums.len()].copy_from_slice(sums);
        });
    }
}

/// Median seconds of the same step in PyTorch, if a Python that has it was named.
fn pytorch_step(threads: usize) -> Option<f64> {
    let python = env::var_os("ORCO_PYTHON")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/step/pytorch.py");
    // Its own libtorch, not the trainer's.
    let output =
        Command::new(python).arg(script).arg(threads.to_string()).env_remove("LD_LIBRARY_PATH").output().ok()?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn main() {
    let (head, losses) = operations();
    println!(
        "one step of phase 3: head {}-{}-{}, batch {BATCH} x 2 views, {CLASSES} classes, {:.0} Mflop; medians of {STEPS}",
        SHAPE.inputs,
        SHAPE.hidden,
        SHAPE.outputs,
        (head + losses) / 1e6
    );
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for threads in if cores > 1 { vec![1, cores] } else { vec![1] } {
        let ours = our_step(threads);
        let limits = [products_alone(threads, by_matrixmultiply), products_alone(threads, by_ours)];
        let pytorch = pytorch_step(threads);
        println!("\n{threads} threads");
        let line = |name: &str, seconds: f64, operations: f64| {
            println!("  {name:40} {:7.2} ms {:7.1} GFLOP/s", 1e3 * seconds, operations / seconds / 1e9);
        };
        line("our step", ours, head + losses);
        line("the head's products, matrixmultiply", limits[0], head);
        line("the head's products, our kernel", limits[1], head);
        let fastest = limits[0].min(limits[1]);
        println!("  share of the faster kernel's rate: {:.0} %", 100.0 * (head + losses) / ours / (head / fastest));
        match pytorch {
            Some(seconds) => {
                line("PyTorch's step", seconds, head + losses);
                println!("  PyTorch takes {:.1} times as long", seconds / ours);
            }
            None => println!("  PyTorch was not run (ORCO_PYTHON does not name a Python with torch)"),
        }
    }
}

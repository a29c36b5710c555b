//! One training step of phase 3 on the shape of the last CIFAR-100 session with ResNet-12, beside the rate that the
//! matrix kernel reaches on the same products, and beside the same step in PyTorch:
//!
//! ```sh
//! cargo bench -p orco-runtime --bench step            # ours and the limit
//! ORCO_PYTHON=PYTHON cargo bench -p orco-runtime --bench step   # PyTorch too; PYTHON is one that imports torch
//! ```

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use orco_runtime::config::Config;
use orco_runtime::head::Head;
use orco_runtime::linalg::{multiply, multiply_transposed, transposed_multiply};
use orco_runtime::random::Random;
use orco_runtime::session::{Alignment, Batch, Goals};
use orco_runtime::target::{Method, generate};

const INPUTS: usize = 640;
const HIDDEN: usize = 2048;
const OUTPUTS: usize = 128;
const BATCH: usize = 64;
const BASE: usize = 60;
const CLASSES: usize = 100;
const WARM_UP: usize = 10;
const STEPS: usize = 60;

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

/// Floating-point operations of a step's products: (multiply-adds of the head, those of the losses), times two.
fn operations() -> (f64, f64) {
    let (rows, perturbed) = (2 * BATCH, 2 * BATCH);
    let head = rows * (2 * INPUTS * HIDDEN + 3 * HIDDEN * OUTPUTS);
    let contrast = 2 * (rows + perturbed) * (rows + perturbed) * OUTPUTS;
    let cross_entropy = 2 * rows * CLASSES * OUTPUTS;
    let orthogonality = 2 * CLASSES * CLASSES * OUTPUTS;
    (2.0 * head as f64, 2.0 * (contrast + cross_entropy + orthogonality) as f64)
}

fn our_step() -> f64 {
    let mut random = Random::new(1, "bench");
    let mut head = Head::zeros(INPUTS, HIDDEN, OUTPUTS);
    for values in head.parameters_mut() {
        values.iter_mut().for_each(|value| *value = 0.03 * random.normal());
    }
    let targets = generate(Method::Random, CLASSES, OUTPUTS, 0, 1);
    let goals = Goals { dimension: OUTPUTS, base_classes: BASE, assigned: &targets, free: &[] };
    let features: Vec<f32> = (0..2 * BATCH * INPUTS).map(|_| random.normal().max(0.0)).collect();
    let classes: Vec<u32> = (0..BATCH).map(|_| random.below(CLASSES) as u32).collect();
    let perturbed = generate(Method::Random, 2 * BATCH, OUTPUTS, 0, 2);
    let perturbed_labels: Vec<u32> = (0..BATCH).map(|place| (BASE + place % (CLASSES - BASE)) as u32).collect();
    let batch =
        Batch { features: &features, classes: &classes, perturbed: &perturbed, perturbed_labels: &perturbed_labels };
    let config = Config::orco();
    let mut alignment = Alignment::new(head);
    median_seconds(|| {
        alignment.gradient(&goals, &batch, &config);
        alignment.update(0.01, &config);
    })
}

/// The head's matrix products alone, through the same seam.
fn products_alone() -> f64 {
    let rows = 2 * BATCH;
    let filled = |length: usize| -> Vec<f32> {
        let mut random = Random::new(length as u64, "bench");
        (0..length).map(|_| random.normal()).collect()
    };
    let (x, hidden, z) = (filled(rows * INPUTS), filled(rows * HIDDEN), filled(rows * OUTPUTS));
    let (w1, w2) = (filled(HIDDEN * INPUTS), filled(OUTPUTS * HIDDEN));
    let (mut to_hidden, mut to_z) = (hidden.clone(), z.clone());
    let (mut to_w1, mut to_w2) = (w1.clone(), w2.clone());
    median_seconds(|| {
        multiply_transposed(rows, INPUTS, HIDDEN, &x, &w1, 0.0, &mut to_hidden);
        multiply_transposed(rows, HIDDEN, OUTPUTS, &hidden, &w2, 0.0, &mut to_z);
        transposed_multiply(OUTPUTS, rows, HIDDEN, &z, &hidden, 0.0, &mut to_w2);
        multiply(rows, OUTPUTS, HIDDEN, &z, &w2, 0.0, &mut to_hidden);
        transposed_multiply(HIDDEN, rows, INPUTS, &hidden, &x, 0.0, &mut to_w1);
    })
}

/// Median seconds of the same step in PyTorch on one thread, if a Python that has it was named.
fn pytorch_step() -> Option<f64> {
    let python = env::var_os("ORCO_PYTHON")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/step/pytorch.py");
    let output = Command::new(python).arg(script).output().ok()?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn main() {
    let (head, losses) = operations();
    let (ours, limit, pytorch) = (our_step(), products_alone(), pytorch_step());
    println!(
        "one step of phase 3: head {INPUTS}-{HIDDEN}-{OUTPUTS}, batch {BATCH} x 2 views, {CLASSES} classes; medians of {STEPS}"
    );
    let line = |name: &str, seconds: f64, operations: f64| {
        println!("{name:36} {:8.2} ms {:8.1} GFLOP/s", 1e3 * seconds, operations / seconds / 1e9);
    };
    line("ours, one thread", ours, head + losses);
    line("the head's matrix products alone", limit, head);
    match pytorch {
        Some(seconds) => line("PyTorch, one thread", seconds, head + losses),
        None => println!("PyTorch was not run (ORCO_PYTHON does not name a Python with torch)"),
    }
    println!("share of the matrix-product rate: {:.0} %", 100.0 * (head + losses) / ours / (head / limit));
    if let Some(seconds) = pytorch {
        println!("PyTorch takes {:.1} times as long", seconds / ours);
    }
}

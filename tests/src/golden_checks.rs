//! Checks losses and pseudo-targets against the reference vectors. The runtime and the trainer make the same checks.

use std::fmt::Debug;
use std::str::FromStr;

use crate::compare::{GRADIENT, LOSS};
use crate::golden::{Array, Golden};

/// Checks a contrastive loss of phase 1 at every temperature that is recorded under `name`, with the labels of that
/// key. `loss` takes unnormalised rows `[n, d]`, their labels `[n]` and the temperature; it returns the loss and its
/// gradient by the rows.
///
/// # Panics
/// If one of them is too far off.
pub fn check_phase_1<T: FromStr<Err: Debug>, L: Copy + Into<f64>>(
    golden: &Golden,
    name: &str,
    labels: &str,
    loss: impl Fn(&Array<f32>, &[u32], T) -> (L, Vec<f32>),
) {
    let z = golden.f32("phase1.z");
    let labels = golden.labels(labels).shaped(&[z.length(0)]);
    for temperature in golden.names(&format!("phase1.{name}.t"), ".loss") {
        let key = format!("phase1.{name}.t{temperature}");
        let temperature = temperature.parse().expect("a temperature stands in the key");
        let (loss, gradient) = loss(&z, &labels.values, temperature);
        golden.f32(&format!("{key}.loss")).assert_close(&[loss], LOSS);
        golden.f32(&format!("{key}.grad_z")).assert_close(&gradient, GRADIENT);
    }
}

/// Checks the generation of pseudo-targets. `step` makes its next step; it returns the loss before and the targets
/// after it, row-major.
///
/// # Panics
/// If one of them is too far off.
pub fn check_target_generation<L: Copy + Into<f64>>(golden: &Golden, mut step: impl FnMut() -> (L, Vec<f32>)) {
    let after = golden.numbers("targets.after", "");
    let with_loss = golden.numbers("targets.loss", "");
    for number in 1..=after.iter().chain(&with_loss).copied().max().unwrap_or(0) {
        let (loss, targets) = step();
        if with_loss.contains(&number) {
            golden.f32(&format!("targets.loss{number}")).assert_close(&[loss], LOSS);
        }
        if after.contains(&number) {
            golden.f32(&format!("targets.after{number}")).assert_close(&targets, GRADIENT);
        }
    }
}

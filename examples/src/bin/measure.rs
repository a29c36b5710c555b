//! Measures the nearest class mean and the learner side by side on a bundle's benchmark file, with the library alone:
//!
//! ```sh
//! cargo run --release -p orco-examples --bin measure -- models/cifar100-edge
//! ```

use std::env;
use std::ops::ControlFlow;

use anyhow::Context;
use orco_benchmark::benchmark::Benchmark;
use orco_lab::{Measurement, System};
use orco_runtime::bundle::Bundle;

fn main() -> anyhow::Result<()> {
    let folder = env::args().nth(1).context("usage: measure BUNDLE")?;
    let bundle = Bundle::open(&folder)?;
    let (base_model, benchmark) = (&bundle.base_model, Benchmark::of(&bundle)?);
    for system in [System::NCM, System::DEVICE] {
        let config = &base_model.config;
        let measurement = Measurement { base_model, benchmark: &benchmark, system, config, seed: 1 };
        let summary = measurement.run(3, &|| ControlFlow::Continue(()))?;
        println!("{}: aHM {:.2}, aACC {:.2}", summary.name, summary.ahm, summary.aacc);
    }
    Ok(())
}

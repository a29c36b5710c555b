//! Measures the nearest class mean and the learner side by side on a bundle's benchmark file, with the library alone:
//!
//!     cargo run --release -p orco-examples --bin measure -- models/cifar100-edge

use std::env;
use std::error::Error;
use std::path::Path;

use orco_runtime::bundle::Bundle;
use orco_runtime::protocol::{System, evaluate, summarise};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("usage: measure BUNDLE")?;
    let bundle = Bundle::open(Path::new(&folder))?;
    let (foundation, benchmark) = (&bundle.foundation, bundle.benchmark()?);
    for system in [System::Ncm, System::Orco] {
        let draw = 0;
        let seed = 1;
        let config = &foundation.config;
        let rows = evaluate(foundation, &benchmark, system, config, draw, seed, &mut |_, _| {}, &mut |_| {})?;
        let summary = summarise(system.name(), &[rows]);
        println!("{}: aHM {:.2}, aACC {:.2}", summary.system, summary.ahm, summary.aacc);
    }
    Ok(())
}

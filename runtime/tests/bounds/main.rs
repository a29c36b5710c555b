//! What a backbone may cost is told before an engine sees it: attacks are refused, real backbones pass, and what was
//! inferred is what the engines do.

mod attacks;
mod backbones;
mod engines;
mod model;
mod states;
mod wire;

use orco_runtime::image::{Look, Preprocessing};
use orco_trials::memory::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn input(side: u32) -> Preprocessing {
    Preprocessing { width: side, height: side, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE }
}

//! What a backbone costs is known before an engine opens it: attacks are refused, real backbones pass, and the engines
//! take what was inferred.

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

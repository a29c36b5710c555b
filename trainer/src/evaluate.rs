//! Measuring with the runtime's own learner: what is measured is what ships.

use std::thread;

use anyhow::{Result, anyhow};
use orco_runtime::protocol::{Benchmark, Summary, System, evaluate, summarise};
use orco_runtime::session::Config;
use orco_runtime::state::Foundation;

/// Measures a system over several draws of the shots, the draws side by side on all cores.
///
/// # Errors
/// If a session cannot be learned.
pub fn measure(
    foundation: &Foundation,
    benchmark: &Benchmark,
    system: System,
    config: &Config,
    draws: usize,
    seed: u64,
) -> Result<Summary> {
    let one = |draw: usize| evaluate(foundation, benchmark, system, config, draw, seed, &mut |_, _| {}, &mut |_| {});
    let workers = thread::available_parallelism().map_or(1, usize::from).min(draws);
    let mut rows = thread::scope(|scope| {
        let handles: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || (worker..draws).step_by(workers).map(|draw| (draw, one(draw))).collect::<Vec<_>>())
            })
            .collect();
        let joined =
            handles.into_iter().map(|handle| handle.join().map_err(|_| anyhow!("a measuring thread panicked")));
        joined.collect::<Result<Vec<_>>>()
    })?
    .concat();
    rows.sort_by_key(|(draw, _)| *draw);
    let rows = rows.into_iter().map(|(_, rows)| rows).collect::<Result<Vec<_>, _>>()?;
    Ok(summarise(system.name(), &rows))
}

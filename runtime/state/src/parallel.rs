//! Independent results, computed at the same time where there are threads.

use alloc::vec::Vec;

use orco_core::workers::{Workers, for_each_chunk};

/// Tasks whose results are in memory at a time, at the most.
pub(crate) const MAX_AT_ONCE: usize = if cfg!(target_os = "none") { 1 } else { 8 };

/// `task(0)` to `task(tasks - 1)`.
pub(crate) fn map<T: Send>(workers: &dyn Workers, tasks: usize, task: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut results: Vec<Option<T>> = (0..tasks).map(|_| None).collect();
    for_each_chunk(workers, [(&mut results, 1)], |number, [result]| result[0] = Some(task(number)));
    results.into_iter().flatten().collect()
}

//! Independent results, computed at the same time where there are threads.

use alloc::vec::Vec;

use orco_core::workers::{Workers, for_each_chunk};

/// Cuts items into chunks of `length` and hands the result of `task` for each to `note`, in order. Results of as many
/// chunks as there are workers are in memory together.
pub(crate) fn for_each_result<I: Sync, T: Send>(
    workers: &dyn Workers,
    items: &[I],
    length: usize,
    task: impl Fn(&[I]) -> T + Sync,
    mut note: impl FnMut(T),
) {
    for some in items.chunks(length * workers.count().max(1)) {
        let chunks: Vec<&[I]> = some.chunks(length).collect();
        let mut results: Vec<Option<T>> = chunks.iter().map(|_| None).collect();
        for_each_chunk(workers, [(&mut results, 1)], |number, [result]| result[0] = Some(task(chunks[number])));
        results.into_iter().flatten().for_each(&mut note);
    }
}

//! Independent results, computed at the same time where there are threads.

use alloc::vec::Vec;

use orco_core::workers::{Workers, for_each_chunk};

/// Runs `task` on chunks of `length` items and hands the results to `note`, in order. As many results are held at a
/// time as there are workers.
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

/// Threads for tests.
#[cfg(test)]
pub(crate) mod threads {
    use std::thread;

    use super::Workers;

    /// As many threads as asked for, begun for every piece of work; thread t takes every task t, t + n, t + 2n, ...
    pub(crate) struct Threads(pub(crate) usize);

    // SAFETY: every number is taken by one thread, and the scope waits for all.
    unsafe impl Workers for Threads {
        fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
            thread::scope(|scope| {
                for first in 0..self.0 {
                    scope.spawn(move || (first..tasks).step_by(self.0).for_each(task));
                }
            });
        }

        fn count(&self) -> usize {
            self.0
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::threads::Threads;
    use super::*;

    #[test]
    fn results_come_in_order_whichever_thread_is_done_first() {
        let items: Vec<usize> = (0..17).collect();
        let mut sums = Vec::new();
        let sum = |some: &[usize]| vec![some.iter().sum::<usize>(); some.len()];
        for_each_result(&Threads(3), &items, 2, sum, |some| sums.extend(some));
        assert_eq!(sums, [1, 1, 5, 5, 9, 9, 13, 13, 17, 17, 21, 21, 25, 25, 29, 29, 16]);
    }
}

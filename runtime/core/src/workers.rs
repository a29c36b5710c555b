//! Sharing work among threads that the caller brings; the core starts none.

use core::marker::PhantomData;

/// Runs independent tasks, at the same time if it can.
///
/// # Safety
/// `run` must call the task with each number below `tasks` once, and return only when all calls have ended: the tasks
/// write to parts of memory that their numbers stand for. `enter` must do the work once.
pub unsafe trait Workers: Sync {
    /// Runs `task(0)` to `task(tasks - 1)`.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));

    /// Tasks that run at the same time, at the most.
    fn count(&self) -> usize {
        1
    }

    /// Runs work that calls [`Workers::run`] many times where that costs least, such as on a thread of the pool.
    fn enter(&self, work: &mut (dyn FnMut() + Send)) {
        work();
    }
}

/// One task after the other, on the caller's thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

// SAFETY: every number once, one after the other.
unsafe impl Workers for Serial {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}

/// Cuts buffers into chunks and runs `task(number, chunks)` for the chunks of the same number. Each buffer comes with
/// the length of its chunks, of which the last may be shorter.
///
/// # Panics
/// If the buffers have different numbers of chunks.
pub fn for_each_chunk<T: Send, const N: usize>(
    workers: &dyn Workers,
    buffers: [(&mut [T], usize); N],
    task: impl Fn(usize, [&mut [T]; N]) + Sync,
) {
    let cut = buffers.map(|(buffer, chunk)| Chunks::new(buffer, chunk));
    let tasks = cut.first().map_or(0, Chunks::count);
    assert!(cut.iter().all(|chunks| chunks.count() == tasks), "buffers of different numbers of chunks");
    workers.run(tasks, &|number| {
        // SAFETY: a worker gets each number at most once, so no chunk is lent twice.
        task(number, core::array::from_fn(|index| unsafe { cut[index].lend(number) }));
    });
}

/// A buffer cut into chunks that may be lent to different threads.
struct Chunks<'a, T> {
    start: *mut T,
    length: usize,
    chunk: usize,
    buffer: PhantomData<&'a mut [T]>,
}

// SAFETY: a chunk is lent to one thread only (see `lend`), and T is Send.
unsafe impl<T: Send> Sync for Chunks<'_, T> {}

impl<'a, T> Chunks<'a, T> {
    fn new(buffer: &'a mut [T], chunk: usize) -> Self {
        assert!(chunk > 0, "chunks need a length");
        Self { start: buffer.as_mut_ptr(), length: buffer.len(), chunk, buffer: PhantomData }
    }

    fn count(&self) -> usize {
        self.length.div_ceil(self.chunk)
    }

    /// # Safety
    /// Each number may be lent once only.
    unsafe fn lend(&self, number: usize) -> &'a mut [T] {
        assert!(number < self.count(), "there is no chunk {number}");
        let first = number * self.chunk;
        let length = self.chunk.min(self.length - first);
        // SAFETY: first + length <= self.length, the chunks do not overlap, and the buffer stays borrowed for 'a.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(first), length) }
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, vec};

    use super::*;

    /// A thread for every task.
    struct Threads;

    // SAFETY: every number is taken by one thread, and the scope waits for all.
    unsafe impl Workers for Threads {
        fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
            thread::scope(|scope| (0..tasks).for_each(|number| drop(scope.spawn(move || task(number)))));
        }
    }

    #[test]
    fn every_chunk_is_lent_once_and_the_last_may_be_shorter() {
        let (mut long, mut short) = (vec![0; 11], vec![0; 4]);
        for_each_chunk(&Threads, [(&mut long, 3), (&mut short, 1)], |number, [long, short]| {
            long.iter_mut().for_each(|value| *value += number + 1);
            short[0] += long.len();
        });
        assert_eq!(long, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4]);
        assert_eq!(short, [3, 3, 3, 2]);
    }
}

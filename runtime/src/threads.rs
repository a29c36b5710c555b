//! Threads for the learner.

use std::fmt;
use std::thread;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use crate::workers::Workers;

/// Threads that the machine runs at a time.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A pool of threads.
pub struct Threads {
    pool: ThreadPool,
}

impl Threads {
    /// A pool of `count` threads.
    ///
    /// # Errors
    /// If the system has no threads left.
    pub fn new(count: usize) -> Result<Self, ThreadPoolBuildError> {
        Ok(Self { pool: ThreadPoolBuilder::new().num_threads(count).build()? })
    }

    /// As many threads as the machine runs at a time.
    ///
    /// # Errors
    /// As for [`Threads::new`].
    pub fn of_machine() -> Result<Self, ThreadPoolBuildError> {
        Self::new(cores())
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Threads({})", self.pool.current_num_threads())
    }
}

// SAFETY: rayon runs the task once for every number and waits for all.
unsafe impl Workers for Threads {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if tasks == 1 || self.pool.current_num_threads() == 1 {
            (0..tasks).for_each(task);
            return;
        }
        self.pool.install(|| (0..tasks).into_par_iter().for_each(task));
    }

    fn enter(&self, work: &mut (dyn FnMut() + Send)) {
        self.pool.install(work);
    }
}

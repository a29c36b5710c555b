//! Threads that a learner computes on: how many this process may use, and a pool of them. Also what keeps a panic or a
//! fork from leaving others waiting: [`catch_panic`], [`lock`], [`ProcessLock`].

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use std::{env, fmt, fs, process, thread};

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use orco_core::workers::Workers;

/// The variable by which rten is told how many threads to compute on.
pub const VARIABLE: &str = "RTEN_NUM_THREADS";

/// What [`set_limit`] was told; 0 stands for no limit.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// Has this process compute on at most `count` threads. To be called at the start of `main`: rten is told through the
/// environment, which other threads may be reading. Where [`VARIABLE`] says so already, it may be called at any time
/// before rten computes.
///
/// # Errors
/// [`LimitError`] if [`VARIABLE`] says otherwise, and the process may have other threads.
pub fn set_limit(count: usize) -> Result<(), LimitError> {
    let count = count.max(1);
    if env::var_os(VARIABLE).is_none_or(|value| value != *count.to_string()) {
        if !is_single_threaded() {
            return Err(LimitError);
        }
        // SAFETY: this is the process's only thread (on Windows, any number is allowed).
        unsafe { env::set_var(VARIABLE, count.to_string()) };
    }
    LIMIT.store(count, Ordering::Relaxed);
    Ok(())
}

/// The number of threads cannot be limited any more: [`set_limit`] belongs at the start of `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the number of threads cannot be limited while other threads run; set {VARIABLE} before the program starts")]
pub struct LimitError;

/// The most threads that this process may compute on, if [`set_limit`] was told.
pub fn limit() -> Option<usize> {
    Some(LIMIT.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
}

/// Threads that the machine runs at a time.
pub fn available_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Threads that this process may compute on: those of the machine, up to the [`limit`].
pub fn usable_threads() -> usize {
    limit().map_or(available_threads(), |limit| limit.min(available_threads()))
}

/// Whether no other thread can be reading the environment. Where the system does not tell, there may be one.
pub(crate) fn is_single_threaded() -> bool {
    if cfg!(windows) {
        return true;
    }
    // Linux lists the threads of a process there; without /proc nothing is known.
    let is_alone = || fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    // One that was waited for is listed a moment longer.
    is_alone() || {
        thread::sleep(Duration::from_millis(5));
        is_alone()
    }
}

/// The results of two functions, computed at the same time where this process [may](usable_threads) compute on two
/// threads and can start one.
pub(crate) fn join<A: Send, B>(beside: impl Fn() -> A + Sync, here: impl FnOnce() -> B) -> (A, B) {
    if usable_threads() < 2 {
        return (beside(), here());
    }
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, &beside);
        let here = here();
        let beside = match started {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => beside(),
        };
        (beside, here)
    })
}

/// What a function returns, or the message of the panic that it ended by. Use it only where what the function
/// worked on is discarded afterwards: it may be half done.
///
/// # Errors
/// The panic's message.
pub fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| panic_message(panic.as_ref()))
}

/// What a lock holds, even after a thread panicked while it held it: for contents that are valid at every moment.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The message of a panic, as [`catch_unwind`] returns it.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it did not say why").to_owned()
}

/// The process that something was made in. Its threads are there alone: a process that was forked since has none of
/// them, and would wait for their work without end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub u32);

impl Process {
    /// The one that asks.
    pub fn this() -> Self {
        Self(process::id())
    }

    /// Whether it is the one that asks, and not one that this was forked from.
    pub fn is_this(self) -> bool {
        self.0 == process::id()
    }
}

/// What threads use one after the other, in a process that may be forked meanwhile: the new process has none of its
/// parent's threads, and would wait without end for the one that held this. There the value is never dropped: that
/// thread may have left it half changed.
#[derive(Debug)]
pub struct ProcessLock<T> {
    value: ManuallyDrop<Mutex<T>>,
    /// The process that held it last.
    process: AtomicU32,
}

/// Nobody can use what a [`ProcessLock`] holds any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessLockError {
    /// A thread panicked while it held it.
    #[error("an earlier call met a fault")]
    Poisoned,
    /// A thread held it when the process was forked.
    #[error(
        "this process was forked while another thread was using the learner; start a new process instead (in Python, \
         by multiprocessing's \"spawn\" or \"forkserver\")"
    )]
    Forked,
}

impl<T> ProcessLock<T> {
    /// A lock that is free.
    pub fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(Mutex::new(value)), process: AtomicU32::new(process::id()) }
    }

    /// Waits until no other thread holds it.
    ///
    /// # Errors
    /// [`ProcessLockError`] if waiting would not end, or the value may be half changed.
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, ProcessLockError> {
        let held = match self.value.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(_)) => return Err(ProcessLockError::Poisoned),
            Err(TryLockError::WouldBlock) if self.is_lost() => return Err(ProcessLockError::Forked),
            Err(TryLockError::WouldBlock) => self.value.lock().map_err(|_| ProcessLockError::Poisoned)?,
        };
        self.process.store(process::id(), Ordering::Relaxed);
        Ok(held)
    }

    /// Whether the thread that holds it is another process's.
    fn is_lost(&self) -> bool {
        let is_other = || !Process(self.process.load(Ordering::Relaxed)).is_this();
        // The first thread of this process that takes it tells so at once, but after it took it.
        is_other() && {
            thread::sleep(Duration::from_millis(20));
            is_other()
        }
    }
}

impl<T> Drop for ProcessLock<T> {
    fn drop(&mut self) {
        // No thread of this process holds what is dropped.
        let is_lost = matches!(self.value.try_lock(), Err(TryLockError::WouldBlock));
        if !is_lost {
            // SAFETY: this is the end of the lock, and nobody holds its value.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// Threads could not be started: the system has none left.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StartThreadsError(ThreadPoolBuildError);

/// A pool of threads, or the caller's thread where none can be started, or the process was forked since.
pub struct Threads {
    pool: Option<ThreadPool>,
    process: Process,
}

impl Threads {
    /// A pool of `count` threads.
    ///
    /// # Errors
    /// [`StartThreadsError`] if the system has no threads left.
    pub fn new(count: usize) -> Result<Self, StartThreadsError> {
        let pool = ThreadPoolBuilder::new().num_threads(count).build();
        Ok(Self { pool: Some(pool.map_err(StartThreadsError)?), process: Process::this() })
    }

    /// A pool of [`usable_threads`]. Where the system does not start so many, it is half of them, and so on down to the
    /// caller's alone, with a warning through `log`: the result is the same, only later.
    pub fn usable() -> Self {
        let wanted = usable_threads();
        let counts = std::iter::successors(Some(wanted), |count| Some(count / 2)).take_while(|count| *count > 0);
        let mut failed = None;
        for count in counts {
            match Self::new(count) {
                Ok(threads) => {
                    if let Some(error) = failed {
                        log::warn!("working on {count} of {wanted} threads: {error}");
                    }
                    return threads;
                }
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            log::warn!("working on one thread: {error}");
        }
        Self { pool: None, process: Process::this() }
    }

    /// The pool, where its threads are there.
    fn pool(&self) -> Option<&ThreadPool> {
        self.pool.as_ref().filter(|_| self.process.is_this())
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Threads({})", self.count())
    }
}

// SAFETY: rayon runs the task once for every number and waits for all.
unsafe impl Workers for Threads {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        match self.pool() {
            Some(pool) if tasks > 1 && self.count() > 1 => {
                pool.install(|| (0..tasks).into_par_iter().for_each(task));
            }
            _ => (0..tasks).for_each(task),
        }
    }

    fn count(&self) -> usize {
        self.pool().map_or(1, ThreadPool::current_num_threads)
    }

    fn enter(&self, work: &mut (dyn FnMut() + Send)) {
        match self.pool() {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem;
    use std::process::Command;
    use std::sync::Arc;

    use orco_trials::alone::alone_with;

    use super::*;

    #[test]
    fn threads_of_a_process_that_this_was_forked_from_are_not_waited_for() {
        let ours = Threads::new(2).unwrap();
        assert_eq!(ours.count(), 2);
        let theirs = Threads { process: Process(process::id() + 1), ..ours };
        assert_eq!(theirs.count(), 1);
        let caller = thread::current().id();
        theirs.run(3, &|_| assert_eq!(thread::current().id(), caller));
        theirs.enter(&mut || assert_eq!(thread::current().id(), caller));
    }

    #[test]
    fn a_thread_of_a_process_that_this_was_forked_from_is_not_waited_for() {
        let shared = ProcessLock::new(0);
        shared.process.store(process::id() + 1, Ordering::Relaxed);
        let held = shared.value.lock().unwrap();
        assert_eq!(shared.lock().unwrap_err(), ProcessLockError::Forked);
        drop(held);
        let mut held = shared.lock().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| *shared.lock().unwrap());
            thread::sleep(Duration::from_millis(50));
            *held = 1;
            drop(held);
            assert_eq!(waiting.join().unwrap(), 1, "a thread of this process is waited for");
        });
        let panicked = catch_panic(|| {
            let held = shared.lock();
            assert!(held.is_err(), "a panic that is meant");
        });
        assert!(panicked.is_err());
        assert_eq!(shared.lock().unwrap_err(), ProcessLockError::Poisoned);
    }

    #[test]
    fn what_a_lost_thread_held_is_not_dropped() {
        let value = Arc::new(());
        drop(ProcessLock::new(Arc::clone(&value)));
        assert_eq!(Arc::strong_count(&value), 1);
        let lost = ProcessLock::new(Arc::clone(&value));
        mem::forget(lost.lock().unwrap());
        drop(lost);
        assert_eq!(Arc::strong_count(&value), 2);
    }

    /// Asks for it as a process with several threads, which a test is: nothing is set behind their backs.
    #[test]
    fn with_other_threads_the_environment_must_say_the_limit_already() {
        let name = "threads::tests::with_other_threads_the_environment_must_say_the_limit_already";
        for value in [None, Some("3"), Some("2")] {
            let prepare = |command: &mut Command| {
                command.env_remove(VARIABLE).envs(value.map(|value| (VARIABLE, value)));
            };
            // In a process of its own every round asks the same, so the environment says what to expect.
            alone_with(name, prepare, || {
                let before = env::var_os(VARIABLE);
                let is_limited = before.as_deref().is_some_and(|value| value == "2");
                assert_eq!(set_limit(2).is_ok(), is_limited);
                assert_eq!(limit(), Some(2).filter(|_| is_limited));
                assert_eq!(env::var_os(VARIABLE), before);
            });
        }
    }
}

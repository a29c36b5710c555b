//! Threads while Python exits. From then on Python ends every other thread that asks for its lock, such as a daemon
//! thread. If that happened within a function of this library, the whole process would die. So such a thread sleeps
//! until the process has ended, and Python's exit waits for threads that are already on their way back, and for code of
//! Python's that a function of this library runs, such as the caller's iterator.

use std::sync::{Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use orco_runtime::threads::lock;
use pyo3::prelude::*;

/// How long Python's exit waits, at most, for returning threads: each waits for Python's lock, or runs Python's code.
const MAX_EXIT_WAIT: Duration = Duration::from_secs(1);

/// Threads on their way back to Python.
struct ReturningThreads {
    count: usize,
    /// The thread on which Python exits, once it does: no other one may return.
    exiting: Option<ThreadId>,
}

static RETURNING: Mutex<ReturningThreads> = Mutex::new(ReturningThreads { count: 0, exiting: None });
static RETURNED: Condvar = Condvar::new();

/// Works without Python's lock.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let done = py.detach(|| {
        let done = work();
        begin_return();
        done
    });
    end_return();
    done
}

/// Asks Python something while this thread works without its lock.
pub fn attached<T>(ask: impl FnOnce(Python<'_>) -> T) -> T {
    begin_return();
    let answer = Python::attach(ask);
    end_return();
    answer
}

/// Runs Python's code, which may let other threads go on, within a function of this library.
pub fn in_python<T>(py: Python<'_>, run: impl FnOnce() -> T) -> T {
    if !may_return() {
        py.detach(sleep_forever);
    }
    let done = run();
    end_return();
    done
}

/// Counts this thread as returning to Python; sleeps forever if Python exits on another one.
fn begin_return() {
    if !may_return() {
        sleep_forever();
    }
}

/// Counts this thread as returning, unless Python exits on another one. Returns whether it was counted.
fn may_return() -> bool {
    let mut returning = lock(&RETURNING);
    let may = returning.exiting.is_none_or(|exiting| exiting == thread::current().id());
    returning.count += usize::from(may);
    may
}

/// Sleeps until the process has ended.
fn sleep_forever() {
    loop {
        thread::park();
    }
}

/// This thread has Python's lock again, or has run its code.
fn end_return() {
    lock(&RETURNING).count -= 1;
    RETURNED.notify_all();
}

/// Lets no other thread return from now on, and waits for those that are returning: Python calls this when it exits.
#[pyfunction]
fn end(py: Python<'_>) {
    py.detach(|| {
        let mut returning = lock(&RETURNING);
        returning.exiting = Some(thread::current().id());
        drop(RETURNED.wait_timeout_while(returning, MAX_EXIT_WAIT, |returning| returning.count > 0));
    });
}

/// Has Python call `end` when it exits.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let at_end = wrap_pyfunction!(end, module)?;
    module.py().import("atexit")?.call_method1("register", (at_end,))?;
    Ok(())
}

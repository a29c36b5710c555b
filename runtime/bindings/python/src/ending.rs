//! Python's end. It ends threads that come back to it from then on, such as a daemon's, wherever they are: within the
//! functions of this library that is a fault, of which the process dies. So they do not come back, and Python's code
//! that such a function runs, such as the caller's iterator, is waited for.

use std::sync::{Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use orco_runtime::threads::lock;
use pyo3::prelude::*;

/// How long Python's end waits, at most, for threads that are on their way back, which wait for Python's lock alone, or
/// run Python's code.
const PATIENCE: Duration = Duration::from_secs(1);

/// Threads on their way back to Python.
struct ReturningThreads {
    count: usize,
    /// The thread on which Python ends, once it does: no other one comes back.
    ender: Option<ThreadId>,
}

static RETURNING: Mutex<ReturningThreads> = Mutex::new(ReturningThreads { count: 0, ender: None });
static ARRIVED: Condvar = Condvar::new();

/// Works without Python's lock.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let done = py.detach(|| {
        let done = work();
        set_out();
        done
    });
    arrive();
    done
}

/// Asks Python something while this thread works without its lock.
pub fn attached<T>(ask: impl FnOnce(Python<'_>) -> T) -> T {
    set_out();
    let answer = Python::attach(ask);
    arrive();
    answer
}

/// Runs Python's code, which may let other threads go on, within a function of this library.
pub fn in_python<T>(py: Python<'_>, run: impl FnOnce() -> T) -> T {
    if !may_return() {
        py.detach(stay_away);
    }
    let done = run();
    arrive();
    done
}

/// Goes back to Python, or nowhere if that ends.
fn set_out() {
    if !may_return() {
        stay_away();
    }
}

/// Counts this thread among those on their way back, unless Python ends on another one.
fn may_return() -> bool {
    let mut returning = lock(&RETURNING);
    let may = returning.ender.is_none_or(|ender| ender == thread::current().id());
    returning.count += usize::from(may);
    may
}

/// Waits for the end of the process.
fn stay_away() {
    loop {
        thread::park();
    }
}

fn arrive() {
    lock(&RETURNING).count -= 1;
    ARRIVED.notify_all();
}

/// Lets no other thread come back to Python from now on.
#[pyfunction]
fn end(py: Python<'_>) {
    py.detach(|| {
        let mut returning = lock(&RETURNING);
        returning.ender = Some(thread::current().id());
        drop(ARRIVED.wait_timeout_while(returning, PATIENCE, |returning| returning.count > 0));
    });
}

/// Has Python say when it ends.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let at_end = wrap_pyfunction!(end, module)?;
    module.py().import("atexit")?.call_method1("register", (at_end,))?;
    Ok(())
}

//! What unit tests share: the warnings of the log.

use std::cell::RefCell;

use log::{LevelFilter, Log, Metadata, Record};

thread_local! {
    /// What was logged on this thread.
    static LOGGED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what each thread logs, for itself: tests may run beside each other.
struct ThreadLog;

impl Log for ThreadLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        LOGGED.with_borrow_mut(|logged| logged.push(record.args().to_string()));
    }

    fn flush(&self) {}
}

/// What the calling thread has logged since its last call, as the service's log has it: warnings and errors. The first
/// call begins.
pub(crate) fn warnings() -> Vec<String> {
    // Another test may have done so.
    let _ = log::set_logger(&ThreadLog);
    log::set_max_level(LevelFilter::Warn);
    LOGGED.take()
}

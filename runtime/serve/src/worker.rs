//! Threads that are started again when they break off.
//!
//! Every thread of the service is started here. One that panics is told of in [`Health`], and lives on with what it
//! keeps between two lives; what it was at is settled by [`Worker::broke_off`]. One that breaks off again and again is
//! given up, and the service ends with an error, so that whoever watches it (systemd, say) starts a new process.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{ServeError, sentence};
use crate::health::Health;

/// A life that lasted so long was a good one: what went before counts no more.
const GOOD: Duration = Duration::from_secs(60);
/// Lives in a row that were not good, after which a thread is given up.
const LIVES: u32 = 6;
/// Pause before the second life; twice as long before every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Pause before it is tried again to begin a life, where what it needs cannot be had.
const RETRY: Duration = Duration::from_secs(1);

/// What a thread does.
pub(crate) trait Worker: Send + 'static {
    /// The thread's name.
    const NAME: &'static str;

    /// One life: calls `up` once it works, and returns when it is told to stop.
    ///
    /// # Errors
    /// [`ServeError`] if what it needs cannot be had, before it called `up`.
    fn live(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError>;

    /// The last life ended by a panic: whoever waits for what it was at is told.
    fn broke_off(&mut self) {}

    /// Waits before the next life, and refuses what is asked meanwhile. Returns whether it is told to stop.
    fn rest(&mut self, pause: Duration) -> bool;
}

/// Starts a thread, and returns once it works.
///
/// # Errors
/// [`ServeError`] if the thread cannot be started, or its first life not begun.
pub(crate) fn start<W: Worker>(worker: W, health: &Health) -> Result<JoinHandle<()>, ServeError> {
    let (started, start) = mpsc::channel();
    let health = health.clone();
    let thread = thread::Builder::new().name(W::NAME.into());
    let thread = thread.spawn(move || keep_up(worker, &health, &started)).map_err(ServeError::Threads)?;
    start.recv().unwrap_or_else(|error| Err(ServeError::Threads(io::Error::other(error))))?;
    Ok(thread)
}

fn keep_up<W: Worker>(mut worker: W, health: &Health, started: &mpsc::Sender<Result<(), ServeError>>) {
    let (mut was_up, mut short) = (false, 0);
    loop {
        let begun = Instant::now();
        let mut up = || {
            was_up = true;
            health.up(W::NAME);
            // Only the first one is waited for.
            let _ = started.send(Ok(()));
        };
        let lived = catch_unwind(AssertUnwindSafe(|| worker.live(&mut up)));
        let pause = match lived {
            Ok(Ok(())) => return,
            Ok(Err(error)) if !was_up => return drop(started.send(Err(error))),
            Ok(Err(error)) => {
                health.down(W::NAME, sentence(&error));
                RETRY
            }
            Err(panic) => {
                let why = message(panic.as_ref());
                if !was_up {
                    return drop(started.send(Err(ServeError::BrokeOff { thread: W::NAME, why })));
                }
                short = if begun.elapsed() >= GOOD { 1 } else { short + 1 };
                health.down(W::NAME, format!("it broke off: {why}"));
                let settled = catch_unwind(AssertUnwindSafe(|| worker.broke_off()));
                if let Err(panic) = settled {
                    return health.give_up(W::NAME, message(panic.as_ref()));
                }
                if short >= LIVES {
                    return health.give_up(W::NAME, format!("it broke off {short} times in a row: {why}"));
                }
                FIRST_PAUSE * 2_u32.pow(short - 1)
            }
        };
        if worker.rest(pause) {
            return;
        }
    }
}

/// What a panic said.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it did not say why").to_owned()
}

/// Waits until `stop` says so, or for `pause`. Returns whether it is told to stop.
pub(crate) fn sleep(pause: Duration, stop: impl Fn() -> bool) -> bool {
    const TICK: Duration = Duration::from_millis(100);
    let end = Instant::now() + pause;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if stop() || left.is_zero() {
            return stop();
        }
        thread::sleep(TICK.min(left));
    }
}

#[cfg(test)]
mod tests;

//! Threads that go on after a panic.
//!
//! Every thread of the service is started here, except the one that reloads a certificate ([`crate::tls`]), which hubs
//! have, too. After a panic, [`Health`] says so, [`Worker::on_panic`] settles what the thread was doing, and the worker
//! runs again. One that panics again and again is given up, and the service ends with an error, so that whoever
//! supervises it (systemd, for example) starts a new process.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use orco_runtime::state::sentence::with_causes;
use orco_runtime::threads::catch_panic;

use crate::error::ServeError;
use crate::health::Health;

/// After a run that lasted so long, earlier panics count no more.
const STABLE_RUN: Duration = Duration::from_secs(60);
/// Short runs in a row after which a thread is given up.
const MAX_SHORT_RUNS: u32 = 6;
/// Pause before the second run; twice as long before every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Pause before the next run where the thread could not begin.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What a thread does.
pub(crate) trait Worker: Send + 'static {
    /// The thread's name.
    const NAME: &'static str;

    /// Calls `up` once it works, and returns when it is told to stop.
    ///
    /// # Errors
    /// [`ServeError`] if it cannot begin; it has not called `up` then.
    fn run(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError>;

    /// The last run ended by a panic: settles what it was doing.
    fn on_panic(&mut self) {}

    /// Whether it is told to stop.
    fn is_stopping(&self) -> bool;

    /// Waits before the next run, and refuses what is asked meanwhile. Returns whether it is told to stop.
    fn back_off(&mut self, pause: Duration) -> bool {
        sleep(pause, || self.is_stopping())
    }
}

/// Starts a thread, and returns once it works.
///
/// # Errors
/// [`ServeError`] if the thread cannot be started, or its first run cannot begin.
pub(crate) fn start<W: Worker>(worker: W, health: &Health) -> Result<JoinHandle<()>, ServeError> {
    let (started, start) = mpsc::channel();
    let health = health.clone();
    let thread = thread::Builder::new().name(W::NAME.into());
    let thread = thread.spawn(move || supervise(worker, &health, &started)).map_err(ServeError::Threads)?;
    start.recv().unwrap_or_else(|error| Err(ServeError::Threads(io::Error::other(error))))?;
    Ok(thread)
}

fn supervise<W: Worker>(mut worker: W, health: &Health, started: &mpsc::Sender<Result<(), ServeError>>) {
    let (mut was_up, mut short_runs) = (false, 0);
    loop {
        let begun = Instant::now();
        let mut up = || {
            was_up = true;
            health.up(W::NAME);
            // Only the first one is waited for.
            let _ = started.send(Ok(()));
        };
        let outcome = catch_panic(|| worker.run(&mut up));
        let pause = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) if !was_up => return drop(started.send(Err(error))),
            Ok(Err(error)) => {
                health.down(W::NAME, with_causes(&error));
                RETRY_PAUSE
            }
            Err(why) => {
                if !was_up {
                    return drop(started.send(Err(ServeError::Panicked { thread: W::NAME, why })));
                }
                short_runs = if begun.elapsed() >= STABLE_RUN { 1 } else { short_runs + 1 };
                health.down(W::NAME, format!("it stopped because of a fault in the program: {why}"));
                let settled = catch_panic(|| worker.on_panic());
                let hopeless = settled.err().or_else(|| {
                    (short_runs >= MAX_SHORT_RUNS).then(|| format!("it failed {short_runs} times in a row: {why}"))
                });
                if let Some(reason) = hopeless {
                    // What waits for it is refused before the service ends.
                    drop(worker);
                    return health.give_up(W::NAME, reason);
                }
                FIRST_PAUSE * 2_u32.pow(short_runs - 1)
            }
        };
        if worker.back_off(pause) {
            return;
        }
    }
}

/// Waits for a thread that was told to stop.
pub(crate) fn join(thread: JoinHandle<()>) {
    let name = thread.thread().name().unwrap_or_default().to_owned();
    if thread.join().is_err() {
        log::error!("the thread \"{name}\" failed at its end");
    }
}

/// Takes everything out of a queue for `pause`. Returns whether the queue has ended, which tells the thread to stop.
pub(crate) fn drain<T>(queue: &Receiver<T>, pause: Duration, mut each: impl FnMut(T)) -> bool {
    let end = Instant::now() + pause;
    loop {
        match queue.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(item) => each(item),
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
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

//! Changes that Ctrl-C stops. Python handles signals on its main thread alone, and the library tells of its progress on
//! whatever thread works: so a change is made on a thread of its own, while the caller's asks for signals.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use orco_runtime::learner::{ChangeOutcome, ChangeStep, Observer};
use orco_runtime::state::sentence::with_causes;
use pyo3::prelude::*;

use crate::ending::{attached, detached};
use crate::error::PendingError;
use crate::learner::warn;

/// How often signals are asked for.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);
/// How long to pause before a change is tried again while another process is changing the state.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Cancels a change once that was asked for.
struct StopObserver<'a>(&'a AtomicBool);

impl Observer for StopObserver<'_> {
    fn step(&mut self, _: ChangeStep) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Tries again while another process is changing the state, until `wait` has passed or that is no longer wanted.
fn retry_while_busy<T>(
    wait: Duration,
    stop: &AtomicBool,
    mut attempt: impl FnMut() -> Result<T, PendingError>,
) -> Result<T, PendingError> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(PendingError::Busy(_)) if started.elapsed() < wait && !stop.load(Ordering::Relaxed) => {
                thread::sleep(RETRY_INTERVAL);
            }
            made => return made,
        }
    }
}

/// Makes a change without Python's lock, and returns its report. A warning tells of a change that is made, but not as
/// it should be. While another process is changing the state, it is tried again for as long as `wait`: the library's
/// own waiting hears of no signal, so `make` must not wait.
///
/// # Errors
/// The change's own error, or the exception of a signal that came meanwhile. A signal stops the change, or the
/// alignment after it; a warning tells if the change is made all the same. An error of it is the exception's cause, and
/// so is a warning where warnings are errors.
pub fn change<T: Send>(
    py: Python<'_>,
    wait: Duration,
    mut make: impl FnMut(&mut dyn Observer) -> Result<ChangeOutcome<T>, PendingError> + Send,
) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    let (made, signal) = detached(py, || {
        thread::scope(|scope| {
            let (caller, stop) = (thread::current(), &stop);
            let worker = scope.spawn(move || {
                let made = retry_while_busy(wait, stop, || make(&mut StopObserver(stop)));
                caller.unpark();
                made
            });
            let mut signal = None;
            while !worker.is_finished() {
                thread::park_timeout(SIGNAL_INTERVAL);
                if signal.is_none() {
                    signal = attached(|py| py.check_signals()).err();
                    stop.store(signal.is_some(), Ordering::Relaxed);
                }
            }
            (worker.join().unwrap_or_else(|panic| resume_unwind(panic)), signal)
        })
    });
    let Some(signal) = signal else { return report_of(py, made?) };
    let told = match made {
        Ok(outcome) if outcome.uncertain.is_none() && outcome.unaligned.is_none() => warn(py, "the change is made"),
        Ok(outcome) => report_of(py, outcome).map(drop),
        Err(error) => Err(error.into()),
    };
    // Where warnings are errors, too, it is the signal that ends the call.
    if let Err(cause) = told {
        signal.set_cause(py, Some(cause));
    }
    Err(signal)
}

/// The report of a change, with warnings of what is doubtful about it: that a power cut could lose it, or that the head
/// was not aligned.
pub fn report_of<T>(py: Python<'_>, outcome: ChangeOutcome<T>) -> PyResult<T> {
    if let Some(doubt) = outcome.uncertain {
        warn(py, &format!("the change is made, but: {}", with_causes(&doubt)))?;
    }
    if let Some(error) = outcome.unaligned {
        let why = with_causes(&error);
        warn(
            py,
            &format!("the change is made, but the head was not aligned (answers follow the change already): {why}"),
        )?;
    }
    Ok(outcome.report)
}

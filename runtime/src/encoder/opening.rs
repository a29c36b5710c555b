//! A limit of time for opening a model in an engine.
//!
//! [`audit`](super::audit) bounds nodes, weights and the work on constants, so opening ends by itself, within seconds for
//! whatever passes. The limit stands behind that, against what an engine's own optimiser may do with a graph that nobody
//! has thought of. A thread cannot be killed: the engine opens the model on a thread of its own, and the caller stops to
//! wait. ONNX Runtime is asked to give up, which it does between two steps; rten cannot be asked. A thread that goes on
//! holds the model and one core until it is done or the process ends, and nothing that anybody waits for. There is at
//! most one: while it lasts, no further model is opened.
//!
//! The first inference needs no limit of its own: its work was summed up, and engines optimise nothing then.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::EncodeError;

/// The time that an engine has for opening a model. The largest backbones take some seconds, on a small device ten times
/// as much.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Stack of the thread: that of a main thread, wherever a model is opened.
const STACK: usize = 8 << 20;

/// How an engine is asked to give up.
#[derive(Default)]
pub struct Cancel(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Cancel {
    /// Tells how.
    pub fn by(&self, ask: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(ask));
    }

    fn ask(&self) {
        if let Some(ask) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            ask();
        }
    }
}

/// Opens a model within [`LIMIT`].
///
/// # Errors
/// [`EncodeError::Slow`] if it takes longer, or if an earlier one that took longer is still being opened.
pub fn within_limit<T: Send + 'static>(open: impl Fn(&Cancel) -> T + Send + Sync + 'static) -> Result<T, EncodeError> {
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    within(LIMIT, &GOES_ON, open)
}

/// The same within some time; `goes_on` says whether a thread is still opening a model that nobody waits for.
fn within<T: Send + 'static>(
    limit: Duration,
    goes_on: &'static AtomicBool,
    open: impl Fn(&Cancel) -> T + Send + Sync + 'static,
) -> Result<T, EncodeError> {
    let slow = || EncodeError::Slow { seconds: limit.as_secs() };
    if goes_on.load(Ordering::Acquire) {
        return Err(slow());
    }
    let open = Arc::new(open);
    let cancel = Arc::new(Cancel::default());
    let (done, opened) = channel();
    // Whoever comes second of the two, the caller who gives up and the thread that is done, sees the other.
    let over = Arc::new(AtomicBool::new(false));
    let run = {
        let (open, cancel, over) = (Arc::clone(&open), Arc::clone(&cancel), Arc::clone(&over));
        move || {
            let _done = OnEnd(|| {
                if over.swap(true, Ordering::AcqRel) {
                    goes_on.store(false, Ordering::Release);
                }
            });
            let _ = done.send(open(&cancel));
        }
    };
    let Ok(thread) = thread::Builder::new().name("opening".into()).stack_size(STACK).spawn(run) else {
        // The process may have no more threads. What the audit has bounded ends on this one, too.
        return Ok(open(&cancel));
    };
    match opened.recv_timeout(limit) {
        Ok(result) => {
            let _ = thread.join();
            Ok(result)
        }
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
        Err(RecvTimeoutError::Timeout) => {
            goes_on.store(true, Ordering::Release);
            if over.swap(true, Ordering::AcqRel) {
                goes_on.store(false, Ordering::Release);
            }
            cancel.ask();
            Err(slow())
        }
    }
}

/// Does something when it goes, whether by the end of a function or by a panic.
struct OnEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn what_takes_too_long_is_left_and_holds_up_the_next_only_while_it_lasts() {
        static GOES_ON: AtomicBool = AtomicBool::new(false);
        static MAY_END: Barrier = Barrier::new(2);
        static ASKED: AtomicBool = AtomicBool::new(false);
        let slow = within(Duration::from_millis(20), &GOES_ON, |cancel| {
            cancel.by(|| ASKED.store(true, Ordering::Release));
            MAY_END.wait();
        });
        assert_eq!(
            slow.unwrap_err().to_string(),
            "the ONNX engine was still opening a backbone after 0 seconds, which is all it may take"
        );
        assert!(ASKED.load(Ordering::Acquire), "it is asked to give up");
        assert!(within(LIMIT, &GOES_ON, |_| ()).is_err(), "one at a time is left");
        MAY_END.wait();
        while GOES_ON.load(Ordering::Acquire) {
            thread::yield_now();
        }
        assert_eq!(within(LIMIT, &GOES_ON, |_| 7).unwrap(), 7);
    }

    #[test]
    fn a_panic_is_the_callers() {
        static GOES_ON: AtomicBool = AtomicBool::new(false);
        let caught = std::panic::catch_unwind(|| within(LIMIT, &GOES_ON, |_| -> () { panic!("in the engine") }));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"in the engine"));
        assert_eq!(within(LIMIT, &GOES_ON, |_| 7).unwrap(), 7);
    }
}

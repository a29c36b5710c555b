//! A time limit for opening a model in an engine.
//!
//! [`audit`](super::audit) bounds nodes, weights and the work on constants, so every model that passes is open within
//! seconds. The limit stands behind the audit: an engine's optimiser may do with a graph what nobody has thought of.
//!
//! A thread cannot be killed. So the engine opens the model on a thread of its own, and after the limit the caller
//! stops waiting and abandons it. ONNX Runtime is asked to give up, which it does between two steps; rten cannot be
//! asked. An abandoned thread holds the model and one core until it is done or the process ends. While there is one, no
//! further model is opened: only those that were being opened at the same time can be abandoned together.
//!
//! The first inference needs no limit of its own: the audit has summed up its work, and engines optimise nothing then.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::EncodeError;
use crate::threads::lock;

/// The time that an engine has for opening a model. The largest backbones take some seconds, on a small device ten
/// times as much.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Stack of the thread: that of a main thread, wherever a model is opened.
const STACK: usize = 8 << 20;

/// How an engine is asked to give up.
#[derive(Default)]
pub struct Cancel(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Cancel {
    /// Sets the function that asks the engine.
    pub fn by(&self, ask: impl FnOnce() + Send + 'static) {
        *lock(&self.0) = Some(Box::new(ask));
    }

    fn ask(&self) {
        if let Some(ask) = lock(&self.0).take() {
            ask();
        }
    }
}

/// Opens a model within [`LIMIT`].
///
/// # Errors
/// [`EncodeError::Slow`] if it takes longer, [`EncodeError::Busy`] while an engine still opens a model that took
/// longer.
pub fn within_limit<T: Send + 'static>(open: impl FnOnce(&Cancel) -> T + Send + 'static) -> Result<T, EncodeError> {
    static ABANDONED: AtomicUsize = AtomicUsize::new(0);
    within(LIMIT, &ABANDONED, open)
}

/// Opens a model within `limit`; `abandoned` counts the threads that still open a model for which nobody waits.
fn within<T: Send + 'static>(
    limit: Duration,
    abandoned: &'static AtomicUsize,
    open: impl FnOnce(&Cancel) -> T + Send + 'static,
) -> Result<T, EncodeError> {
    if abandoned.load(Ordering::Acquire) > 0 { Err(EncodeError::Busy) } else { on_thread(limit, abandoned, open) }
}

/// Opens a model on a thread of its own, which is abandoned after `limit`.
fn on_thread<T: Send + 'static>(
    limit: Duration,
    abandoned: &'static AtomicUsize,
    open: impl FnOnce(&Cancel) -> T + Send + 'static,
) -> Result<T, EncodeError> {
    let cancel = Arc::new(Cancel::default());
    let (done, opened) = channel();
    // The caller abandons the thread, or the thread ends: whichever comes second sees that the other came first.
    let over = Arc::new(AtomicBool::new(false));
    // The thread takes the function out, or the caller does where no thread can be started.
    let open = Arc::new(Mutex::new(Some(open)));
    let run = {
        let (open, cancel, over) = (Arc::clone(&open), Arc::clone(&cancel), Arc::clone(&over));
        move || {
            let _end = OnEnd(|| {
                if over.swap(true, Ordering::AcqRel) {
                    abandoned.fetch_sub(1, Ordering::AcqRel);
                }
            });
            let _ = done.send(take(&open)(&cancel));
        }
    };
    let Ok(thread) = thread::Builder::new().name("opening".into()).stack_size(STACK).spawn(run) else {
        // The process may have no more threads. What the audit has bounded ends on this one, too.
        return Ok(take(&open)(&cancel));
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
            abandoned.fetch_add(1, Ordering::AcqRel);
            if over.swap(true, Ordering::AcqRel) {
                abandoned.fetch_sub(1, Ordering::AcqRel);
            }
            cancel.ask();
            Err(EncodeError::Slow { seconds: limit.as_secs() })
        }
    }
}

/// Takes the function that opens the model, which one of two threads calls.
fn take<F>(open: &Mutex<Option<F>>) -> F {
    lock(open).take().expect("it is called once")
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

    const SHORT: Duration = Duration::from_millis(20);

    /// Waits until so few abandoned openings are left.
    fn wait_until_left(left: usize, abandoned: &AtomicUsize) {
        while abandoned.load(Ordering::Acquire) > left {
            thread::yield_now();
        }
    }

    #[test]
    fn a_slow_opening_is_abandoned_and_no_other_starts_while_it_lasts() {
        static ABANDONED: AtomicUsize = AtomicUsize::new(0);
        static MAY_END: Barrier = Barrier::new(2);
        static ASKED: AtomicBool = AtomicBool::new(false);
        let slow = within(SHORT, &ABANDONED, |cancel| {
            cancel.by(|| ASKED.store(true, Ordering::Release));
            MAY_END.wait();
        });
        assert_eq!(
            slow.unwrap_err().to_string(),
            "the ONNX engine was still opening a backbone after 0 seconds, which is all it may take"
        );
        assert!(ASKED.load(Ordering::Acquire), "it is asked to give up");
        assert!(matches!(within(LIMIT, &ABANDONED, |_| ()), Err(EncodeError::Busy)), "none is opened beside it");
        MAY_END.wait();
        wait_until_left(0, &ABANDONED);
        assert_eq!(within(LIMIT, &ABANDONED, |_| 7).unwrap(), 7);
    }

    #[test]
    fn none_is_opened_until_the_last_of_several_abandoned_ones_ends() {
        static ABANDONED: AtomicUsize = AtomicUsize::new(0);
        static FIRST: Barrier = Barrier::new(2);
        static SECOND: Barrier = Barrier::new(2);
        // As if both had begun before either was abandoned.
        for may_end in [&FIRST, &SECOND] {
            let slow = on_thread(SHORT, &ABANDONED, move |_| may_end.wait());
            assert!(matches!(slow, Err(EncodeError::Slow { .. })));
        }
        assert_eq!(ABANDONED.load(Ordering::Acquire), 2);
        FIRST.wait();
        wait_until_left(1, &ABANDONED);
        assert!(matches!(within(LIMIT, &ABANDONED, |_| ()), Err(EncodeError::Busy)), "the second goes on");
        SECOND.wait();
        wait_until_left(0, &ABANDONED);
        assert_eq!(within(LIMIT, &ABANDONED, |_| 7).unwrap(), 7);
    }

    #[test]
    fn a_panic_is_the_callers() {
        static ABANDONED: AtomicUsize = AtomicUsize::new(0);
        let caught = std::panic::catch_unwind(|| within(LIMIT, &ABANDONED, |_| -> () { panic!("in the engine") }));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"in the engine"));
        assert_eq!(within(LIMIT, &ABANDONED, |_| 7).unwrap(), 7);
    }
}

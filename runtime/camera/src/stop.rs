//! Tells a thread to stop, wherever it waits.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// What interrupts a wait.
type Interrupt = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Inner {
    is_set: bool,
    interrupt: Option<Interrupt>,
}

/// Whether a thread is to stop.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<(Mutex<Inner>, Condvar)>);

impl Stop {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.0.lock().expect("nothing panics while it holds the flag")
    }

    /// Stops, for good.
    pub fn set(&self) {
        let mut inner = self.inner();
        inner.is_set = true;
        let interrupt = inner.interrupt.take();
        drop(inner);
        self.0.1.notify_all();
        if let Some(interrupt) = interrupt {
            interrupt();
        }
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.inner().is_set
    }

    /// Waits so long, or until it is set; returns whether it is.
    pub fn wait(&self, time: Duration) -> bool {
        let waited = self.0.1.wait_timeout_while(self.inner(), time, |inner| !inner.is_set);
        waited.expect("nothing panics while it holds the flag").0.is_set
    }

    /// What ends the wait that comes next, in place of what was said before; called at once if it is set already.
    pub fn interrupted_by(&self, interrupt: impl FnOnce() + Send + 'static) {
        let mut inner = self.inner();
        if inner.is_set {
            drop(inner);
            interrupt();
        } else {
            inner.interrupt = Some(Box::new(interrupt));
        }
    }
}

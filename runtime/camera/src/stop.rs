//! Tells a thread to stop, wherever it waits.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Cuts a wait short.
type Interrupt = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct StopFlag {
    is_set: bool,
    interrupt: Option<Interrupt>,
}

/// Whether a thread is to stop.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<(Mutex<StopFlag>, Condvar)>);

impl Stop {
    fn flag(&self) -> MutexGuard<'_, StopFlag> {
        self.0.0.lock().expect("nothing panics while it holds the flag")
    }

    /// Stops, for good.
    pub fn set(&self) {
        let mut flag = self.flag();
        flag.is_set = true;
        let interrupt = flag.interrupt.take();
        drop(flag);
        self.0.1.notify_all();
        if let Some(interrupt) = interrupt {
            interrupt();
        }
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.flag().is_set
    }

    /// Waits for `time`, or until it is set. Returns whether it is set.
    pub fn wait(&self, time: Duration) -> bool {
        let waited = self.0.1.wait_timeout_while(self.flag(), time, |flag| !flag.is_set);
        waited.expect("nothing panics while it holds the flag").0.is_set
    }

    /// Has [`Stop::set`] call `interrupt`, in place of the one given before: it ends waits other than [`Stop::wait`],
    /// such as one for a connection. It is called at once if the flag is set already.
    pub fn on_set(&self, interrupt: impl FnOnce() + Send + 'static) {
        let mut flag = self.flag();
        if flag.is_set {
            drop(flag);
            interrupt();
        } else {
            flag.interrupt = Some(Box::new(interrupt));
        }
    }
}

//! The signals that end a server.

use std::io;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(unix)]
use std::sync::{Arc, LazyLock};
use std::task::Poll;

#[cfg(unix)]
use tokio::signal::unix::Signal;
#[cfg(windows)]
use tokio::signal::windows::CtrlC as Signal;

/// Ends with the first of the signals that [`ShutdownSignal`] listens for.
pub async fn shutdown_signal() {
    ShutdownSignal::listen().received().await;
}

/// Ctrl-C and SIGTERM, a second one of which ends the process at once; and SIGHUP, as of a terminal that is closed,
/// unless that was ignored when the process started, as by `nohup`. On Windows, Ctrl-C alone. From
/// [`ShutdownSignal::listen`] on, the first signal ends [`ShutdownSignal::received`] instead of the process.
#[derive(Debug)]
pub struct ShutdownSignal {
    signals: Vec<Signal>,
}

impl ShutdownSignal {
    /// Listens from now on.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn listen() -> Self {
        let warn = |error: &io::Error| log::warn!("a signal will end the service at once: {error}");
        let signals: Vec<Signal> = registered().into_iter().filter_map(|one| one.inspect_err(warn).ok()).collect();
        #[cfg(unix)]
        if !signals.is_empty() {
            LazyLock::force(&IS_SIGNALLED);
        }
        Self { signals }
    }

    /// Ends with the first signal, which may have come since [`ShutdownSignal::listen`].
    pub async fn received(mut self) {
        std::future::poll_fn(|context| {
            let received = self.signals.iter_mut().map(|signal| signal.poll_recv(context));
            // All are asked, so that each wakes this.
            if received.fold(false, |any, one| any | one.is_ready()) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// The signals, each as it is listened for from now on, or why it is not.
#[cfg(unix)]
fn registered() -> Vec<io::Result<Signal>> {
    use tokio::signal::unix::{SignalKind, signal};
    // A process that listens for a signal no longer ignores it.
    let hangup = (!is_hangup_ignored()).then(SignalKind::hangup);
    [SignalKind::terminate(), SignalKind::interrupt()].into_iter().chain(hangup).map(signal).collect()
}

/// Ctrl-C.
#[cfg(windows)]
fn registered() -> Vec<io::Result<Signal>> {
    vec![tokio::signal::windows::ctrl_c()]
}

/// Whether this process was told to outlive its terminal. Linux tells; elsewhere nobody was.
#[cfg(unix)]
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    ignored.is_some_and(|ignored| (ignored >> (signal_hook::consts::SIGHUP - 1)) & 1 == 1)
}

/// Set by the first Ctrl-C or SIGTERM, once somebody listened for them.
#[cfg(unix)]
static IS_SIGNALLED: LazyLock<Arc<AtomicBool>> = LazyLock::new(exit_on_second_signal);

/// Whether Ctrl-C or SIGTERM came since [`ShutdownSignal::listen`]: ask before you start a server anew that ended for
/// another reason, since nobody sends the signal again.
#[cfg(unix)]
pub fn is_signalled() -> bool {
    IS_SIGNALLED.load(Ordering::Relaxed)
}

/// Other systems start no server anew in the same process.
#[cfg(not(unix))]
pub fn is_signalled() -> bool {
    false
}

/// A second signal does not wait for what hangs. Returns what the first one sets.
#[cfg(unix)]
fn exit_on_second_signal() -> Arc<AtomicBool> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;
    let is_signalled = Arc::<AtomicBool>::default();
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal only sets the flag.
        let ends = flag::register_conditional_shutdown(signal, 1, Arc::clone(&is_signalled));
        if let Err(error) = ends.and_then(|_| flag::register(signal, Arc::clone(&is_signalled))) {
            log::warn!("a second signal will not end the service at once: {error}");
        }
    }
    is_signalled
}

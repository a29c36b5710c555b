//! The signals that end a server.

#[cfg(unix)]
use std::sync::Arc;

/// Ends with Ctrl-C or SIGTERM; a second one ends the process at once. Ends with SIGHUP, too, as of a terminal that is
/// closed, unless that was ignored when the process started, as by `nohup`.
pub async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            exit_on_second_signal();
            // A process that listens for a signal no longer ignores it.
            let mut hangup = if is_hangup_ignored() { None } else { signal(SignalKind::hangup()).ok() };
            tokio::select! {
                _ = terminate.recv() => {}
                Some(()) = async { hangup.as_mut()?.recv().await } => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

/// Whether this process was told to outlive its terminal. Linux tells; elsewhere nobody was.
#[cfg(unix)]
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    ignored.is_some_and(|ignored| (ignored >> (signal_hook::consts::SIGHUP - 1)) & 1 == 1)
}

/// A second signal does not wait for what hangs.
#[cfg(unix)]
fn exit_on_second_signal() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;
    use std::sync::atomic::AtomicBool;
    let is_signalled = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal only sets the flag.
        let ends = flag::register_conditional_shutdown(signal, 1, Arc::clone(&is_signalled));
        if let Err(error) = ends.and_then(|_| flag::register(signal, Arc::clone(&is_signalled))) {
            log::warn!("a second signal will not end the service at once: {error}");
        }
    }
}

//! Limits of the process: threads and open files.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::error::ServeError;

/// Files that stay free for the state, thumbnails, the camera and the broker, however many connections there are.
const RESERVED_FILES: u64 = 24;
/// Least number of connections with which a page can be shown: events, a picture, a request.
const MIN_CONNECTIONS: u64 = 3;

/// Checks that the process may have `needed` more threads: starts them all at once, and ends them again. tokio would
/// hang without a thread to work on, after the service said that it listens.
///
/// # Errors
/// [`ServeError::TooFewThreads`] if one cannot be started.
pub fn check_threads(needed: usize) -> Result<(), ServeError> {
    let mut held = Vec::with_capacity(needed);
    let mut refused = None;
    for _ in 0..needed {
        let (hold, held_up) = mpsc::channel::<()>();
        let wait = move || {
            let _ = held_up.recv();
        };
        match thread::Builder::new().stack_size(64 << 10).spawn(wait) {
            Ok(thread) => held.push((hold, thread)),
            Err(reason) => {
                refused = Some(ServeError::TooFewThreads { needed, reason });
                break;
            }
        }
    }
    for (hold, thread) in held {
        drop(hold);
        let _ = thread.join();
    }
    // The system counts a thread a moment longer than it can be waited for.
    thread::sleep(Duration::from_millis(10));
    refused.map_or(Ok(()), Err)
}

/// Raises the limit of open files as far as it goes. Returns how many connections that allows, at most
/// `max_connections`.
///
/// # Errors
/// [`ServeError::TooFewFiles`] if hardly any is left.
#[cfg(unix)]
pub fn raise_file_limit(max_connections: usize) -> Result<usize, ServeError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = getrlimit(Resource::Nofile);
    // Where that is not allowed, what there is must do.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, maximum: limits.maximum });
    let Some(limit) = (if raised.is_ok() { limits.maximum } else { limits.current }) else {
        return Ok(max_connections);
    };
    match room(limit, open_files()) {
        Some(room) => Ok(max_connections.min(room as usize)),
        None => Err(ServeError::TooFewFiles { limit }),
    }
}

#[cfg(not(unix))]
pub fn raise_file_limit(max_connections: usize) -> Result<usize, ServeError> {
    Ok(max_connections)
}

/// Connections that a limit leaves room for: of few files, half are kept for everything else.
fn room(limit: u64, open: u64) -> Option<u64> {
    let left = limit.saturating_sub(open);
    Some(left - RESERVED_FILES.min(left.div_ceil(2))).filter(|room| *room >= MIN_CONNECTIONS)
}

/// How many files are open, with those that the network's runtime is about to open.
#[cfg(unix)]
fn open_files() -> u64 {
    const OF_RUNTIME: u64 = 6;
    /// Where nobody counts them.
    const USUAL: u64 = 16;
    std::fs::read_dir("/proc/self/fd").map_or(USUAL, |files| files.count() as u64) + OF_RUNTIME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_state() {
        assert_eq!(room(1024, 20), Some(1024 - 20 - RESERVED_FILES));
        assert_eq!(room(20, 12), Some(4));
        assert_eq!(room(20, 15), None, "two are no service");
        assert_eq!(room(20, 30), None);
    }

    #[test]
    fn threads_that_are_there_are_found() {
        check_threads(8).unwrap();
    }
}

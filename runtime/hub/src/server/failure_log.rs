//! Limits how often the log says that the store failed: while a disk is full, requests of every device fail alike.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use orco_runtime::state::sentence::counted;
use orco_runtime::threads::lock;

/// Most sentences that are logged in one [`WINDOW`].
const MAX_LOGGED: usize = 10;
/// How long failures are counted together.
const WINDOW: Duration = Duration::from_secs(60);

/// Failures that were logged and left out lately.
#[derive(Debug, Default)]
pub(super) struct FailureLog(Mutex<FailureWindow>);

#[derive(Debug, Default)]
struct FailureWindow {
    begun: Option<Instant>,
    /// What was logged, each sentence once.
    logged: BTreeSet<String>,
    left_out: usize,
}

impl FailureLog {
    /// What to log of a failure that is told as `said`; none if this minute has that sentence, or as many as it may.
    /// The entry that begins the next minute says how many were left out.
    pub fn entry(&self, said: String, now: Instant) -> Option<String> {
        let mut window = lock(&self.0);
        let is_over = window.begun.is_none_or(|begun| now.duration_since(begun) >= WINDOW);
        let left_out = if is_over { window.left_out } else { 0 };
        if is_over {
            *window = FailureWindow { begun: Some(now), ..FailureWindow::default() };
        }
        if window.logged.len() == MAX_LOGGED || !window.logged.insert(said.clone()) {
            window.left_out += 1;
            return None;
        }
        Some(if left_out == 0 {
            said
        } else {
            format!("{said}; {} before it not in the log", counted(left_out, "failure"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_that_fails_does_not_flood_the_log() {
        let (failures, start) = (FailureLog::default(), Instant::now());
        let entry = |said: &str, seconds| failures.entry(said.to_owned(), start + Duration::from_secs(seconds));
        assert_eq!(entry("full", 0).as_deref(), Some("full"));
        assert_eq!(entry("moved", 1).as_deref(), Some("moved"), "something else");
        assert!(entry("full", 1).is_none() && entry("moved", 59).is_none());
        assert_eq!(entry("full", 60).as_deref(), Some("full; 2 failures before it not in the log"));
        let damaged = |object| entry(&format!("object {object} is damaged"), 61);
        assert!((1..MAX_LOGGED).all(|object| damaged(object).is_some()));
        assert!(damaged(MAX_LOGGED).is_none(), "as many as a minute may have");
        assert_eq!(entry("full", 121).as_deref(), Some("full; 1 failure before it not in the log"));
    }
}

//! Limits how often the log says that the store failed: while a disk is full, every request of every device fails alike.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use orco_runtime::threads::lock;

/// Most failures that are logged in one [`WINDOW`].
const MAX_LOGGED: usize = 10;
/// How long failures are counted together.
const WINDOW: Duration = Duration::from_secs(60);

/// Failures that were logged and left out lately.
#[derive(Debug, Default)]
pub(super) struct FailureLog(Mutex<FailureWindow>);

#[derive(Debug, Default)]
struct FailureWindow {
    begun: Option<Instant>,
    logged: usize,
    left_out: u64,
    /// The sentence that was logged last. Another one says something new, however many were logged.
    last: String,
}

impl FailureLog {
    /// What to log of a failure that is told as `said`; none where enough was logged in this minute, and the last of it
    /// said the same. The entry that begins the next minute says how many were left out.
    pub fn entry(&self, said: String, now: Instant) -> Option<String> {
        let mut window = lock(&self.0);
        let is_over = window.begun.is_none_or(|begun| now.duration_since(begun) >= WINDOW);
        let left_out = if is_over { std::mem::take(&mut window.left_out) } else { 0 };
        if is_over {
            *window = FailureWindow { begun: Some(now), ..FailureWindow::default() };
        }
        if window.logged >= MAX_LOGGED && window.last == said {
            window.left_out += 1;
            return None;
        }
        window.logged += 1;
        window.last.clone_from(&said);
        Some(if left_out == 0 { said } else { format!("{said}; {left_out} failures before it are not in the log") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_that_fails_does_not_flood_the_log() {
        let (failures, start) = (FailureLog::default(), Instant::now());
        let entry = |seconds| failures.entry("full".to_owned(), start + Duration::from_secs(seconds));
        assert!((0..MAX_LOGGED).all(|_| entry(0).as_deref() == Some("full")));
        assert!(entry(1).is_none() && entry(59).is_none());
        let other = failures.entry("moved".to_owned(), start + Duration::from_secs(59));
        assert_eq!(other.as_deref(), Some("moved"), "something else");
        assert_eq!(entry(60).as_deref(), Some("full; 2 failures before it are not in the log"));
        assert_eq!(entry(61).as_deref(), Some("full"), "told once");
    }
}

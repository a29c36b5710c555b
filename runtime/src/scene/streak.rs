//! For how long, and how often in a row, the same was found.

use std::time::Duration;

/// Findings in a row that agree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streak {
    /// Time of the first one.
    since: Duration,
    /// How many there are.
    count: u32,
}

impl Streak {
    /// The streak with one more finding at that time; without an earlier one, it begins.
    pub fn continued(earlier: Option<Self>, at: Duration) -> Self {
        let Self { since, count } = earlier.unwrap_or(Self { since: at, count: 0 });
        Self { since, count: count + 1 }
    }

    /// Whether it began so long ago, and has so many findings at least.
    pub fn has_lasted(self, time: Duration, least: u32, at: Duration) -> bool {
        self.count >= least && at.saturating_sub(self.since) >= time
    }
}

//! When a rule acts: once its label was shown for long enough, and not again for a while.

use std::time::{Duration, Instant};

use super::file::Rule;

/// A label that is missing for no longer than this counts as shown all the time, since answers flicker.
const GAP: Duration = Duration::from_millis(500);

/// Decides when one rule acts.
#[derive(Clone, Debug)]
pub struct RuleClock {
    shown_for: Duration,
    pause: Duration,
    /// Since when it is shown.
    since: Option<Instant>,
    last_shown: Option<Instant>,
    acted: Option<Instant>,
}

impl RuleClock {
    /// The clock of a rule that has not acted yet.
    pub fn of(rule: &Rule) -> Self {
        Self { shown_for: rule.shown_for, pause: rule.pause, since: None, last_shown: None, acted: None }
    }

    /// Takes note of whether the rule's label is shown at `now`. Returns whether the rule acts.
    pub fn tick(&mut self, is_shown: bool, now: Instant) -> bool {
        if !is_shown {
            if self.last_shown.is_none_or(|last| now.duration_since(last) > GAP) {
                self.since = None;
            }
            return false;
        }
        self.last_shown = Some(now);
        let since = *self.since.get_or_insert(now);
        let rests = self.acted.is_some_and(|acted| now.duration_since(acted) < self.pause);
        let acts = now.duration_since(since) >= self.shown_for && !rests;
        if acts {
            self.acted = Some(now);
        }
        acts
    }
}

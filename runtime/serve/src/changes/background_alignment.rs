//! Aligns the head in the background: a change answers in closed form at once, and by the aligned head a little later.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use orco_runtime::learner::{AlignmentTime, ChangeError, ChangeStep, Learner};
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::StoreError;

use super::ChangeWorker;
use crate::event::Event;

/// How long the queue must be empty before the head is aligned.
pub(super) const INTERVAL: Duration = Duration::from_millis(250);

/// How long after a failed attempt the head is aligned again, where the state could not be read or written: the disk
/// may have room by then.
const RETRY_AFTER: Duration = Duration::from_secs(600);

/// An attempt to align the head that failed.
#[derive(Debug)]
pub(super) struct FailedAlignment {
    /// Generation of the state.
    generation: u64,
    /// When the next attempt is due; `None` where it would fail, too.
    retry_at: Option<Instant>,
}

impl FailedAlignment {
    /// Whether an attempt is due with a state of this generation.
    fn is_retried(&self, generation: u64, now: Instant) -> bool {
        self.generation != generation || self.retry_at.is_some_and(|due| due <= now)
    }
}

impl ChangeWorker {
    /// Aligns the head where that is still to be done, whoever made the change. A change or a backup that is requested
    /// meanwhile goes first: the alignment is given up, and made again after it.
    pub(super) fn align(&mut self, learner: &mut Learner) {
        let knowledge = self.answers.knowledge();
        let generation = knowledge.generation;
        let wanted = learner.settings().alignment == AlignmentTime::Later
            && knowledge.awaits_alignment
            && knowledge.problem.is_none()
            && self.failed_alignment.as_ref().is_none_or(|failed| failed.is_retried(generation, Instant::now()));
        if !wanted || self.shared.is_stopping() {
            return;
        }
        // A backup is being written.
        let Some(turn) = self.turns.take_within(Duration::ZERO) else { return };
        // Noted before the attempt: after a panic, it is not tried again.
        self.failed_alignment = Some(FailedAlignment { generation, retry_at: None });
        self.shared.telemetry.health.fault_point("changes: aligning");
        let shared = self.shared.clone();
        let mut observer = |_: ChangeStep| {
            let is_stopped = shared.is_stopping() || turn.is_awaited() || shared.jobs().unfinished().next().is_some();
            if is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match learner.align(&mut observer) {
            Ok(aligned) => {
                if let Some(error) = aligned.uncertain {
                    log::warn!("{}", with_causes(&error));
                }
                // Another program may have aligned it already.
                self.answers.refresh();
                self.shared.telemetry.events.send(Event::CHANGED);
            }
            Err(ChangeError::Cancelled | ChangeError::Store(StoreError::Busy { .. })) => self.failed_alignment = None,
            Err(ChangeError::Store(error)) => {
                log::warn!(
                    "the head is not aligned to the last change: {}; tried again in 10 minutes",
                    with_causes(&error)
                );
                let retry_at = Some(Instant::now() + RETRY_AFTER);
                self.failed_alignment = Some(FailedAlignment { generation, retry_at });
            }
            Err(error) => log::warn!("the head is not aligned to the last change: {}", with_causes(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_could_not_be_saved_is_aligned_again_later() {
        let now = Instant::now();
        let due = now + RETRY_AFTER;
        let unsaved = FailedAlignment { generation: 7, retry_at: Some(due) };
        assert!(!unsaved.is_retried(7, now) && unsaved.is_retried(7, due));
        assert!(unsaved.is_retried(8, now), "another change was made");
        let hopeless = FailedAlignment { generation: 7, retry_at: None };
        assert!(!hopeless.is_retried(7, due) && hopeless.is_retried(8, now));
    }
}

//! Aligning the head in the background: a change answers in closed form at once, and better a little later.

use std::ops::ControlFlow;
use std::time::Duration;

use orco_runtime::learner::{AlignmentTime, ChangeError, ChangeStep, Learner};
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::StoreError;

use super::ChangeWorker;
use crate::event::Event;

/// How long the queue must be empty before the head is aligned.
pub(super) const INTERVAL: Duration = Duration::from_millis(250);

impl ChangeWorker {
    /// Aligns the head where that is still to be done, whoever made the change. A change or a backup that is requested
    /// meanwhile goes first: the alignment is given up, and made again after it.
    pub(super) fn align(&mut self, learner: &mut Learner) {
        let knowledge = self.answers.knowledge();
        let wanted = learner.settings().alignment == AlignmentTime::Later
            && knowledge.awaits_alignment
            && knowledge.problem.is_none()
            && self.unalignable != Some(knowledge.generation);
        if !wanted || self.shared.is_stopping() {
            return;
        }
        // A backup is being written.
        let Some(turn) = self.turns.take_within(Duration::ZERO) else { return };
        // Noted before the attempt: after a panic, it is not tried again.
        self.unalignable = Some(knowledge.generation);
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
            Err(ChangeError::Cancelled | ChangeError::Store(StoreError::Busy { .. })) => self.unalignable = None,
            Err(error) => log::warn!("the head is not aligned to the last change: {}", with_causes(&error)),
        }
    }
}

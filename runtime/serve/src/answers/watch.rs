//! Follows the state: takes up what another program did to it, and says what cannot be used.

use std::time::Duration;

use orco_runtime::learner::OpenLearnerError;
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::StoreError;

use super::AnswerThread;
use crate::event::Event;

/// How often the thread checks whether another program has changed the state.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

impl AnswerThread {
    /// Checks whether another program has changed the state, and goes on from that.
    pub(super) fn watch(&mut self) {
        let (revision, had_problem) = (self.learner.store().revision(), self.problem().is_some());
        let has_changed = revision != self.revision;
        // An unreadable state may be readable now, although its files are the same.
        if has_changed || had_problem {
            let is_news = self.read();
            if is_news || has_changed && self.problem().is_none() {
                self.tell_changed();
            }
        } else if self.inbox.is_stale() {
            self.judge_inbox();
        }
    }

    /// Reads the state again. Returns whether its problem is another one than before, or gone.
    pub(super) fn read(&mut self) -> bool {
        self.revision = self.learner.store().revision();
        let before = self.problem();
        let error = self.learner.refresh().err();
        if matches!(error, Some(OpenLearnerError::Store(StoreError::OtherBundle { .. })))
            && self.shared.new_bundle.get().is_some_and(|can_restart| can_restart())
        {
            self.telemetry.health.end_for_new_bundle();
        }
        let problem = error.map(|error| problem(&error));
        let is_other = problem != before;
        match &problem {
            Some(problem) if is_other => log::error!("{problem}"),
            // At the level of the problem, so that whoever read that also reads this.
            None if is_other => log::warn!("the state can be used again"),
            Some(_) => return false,
            None => {}
        }
        self.publish(problem);
        self.judge_inbox();
        is_other
    }

    pub(super) fn problem(&self) -> Option<String> {
        self.shared.knowledge().problem.clone()
    }

    pub(super) fn tell_changed(&self) {
        self.telemetry.events.send(Event::CHANGED);
    }

    /// Judges the frames of the inbox by what is known now.
    pub(super) fn judge_inbox(&mut self) {
        let (ids, rows) = self.inbox.rows(self.learner.base_model().head.inputs);
        // The first answer after a change takes long: nobody needs it for an empty inbox.
        let answers = if ids.is_empty() { Vec::new() } else { self.learner.classify_features(rows.view()) };
        let recognitions = answers.iter().map(|answer| self.recognition(answer));
        self.inbox.judge(self.knowledge_version, ids.into_iter().zip(recognitions).collect());
    }
}

/// Why a state that could be used cannot be used any more, and what to do.
fn problem(error: &OpenLearnerError) -> String {
    let advice = match error {
        OpenLearnerError::Store(StoreError::Gone { .. }) => {
            "bring it back (orco restore), or start the service anew to begin with what the bundle knows"
        }
        OpenLearnerError::Store(StoreError::OtherBundle { .. }) => {
            "after orco upgrade, start the service anew with the bundle that it moved to"
        }
        _ => "see orco doctor",
    };
    format!(
        "{}; {advice}. Until then answers go on from what was known before, and nothing can be changed",
        with_causes(error)
    )
}

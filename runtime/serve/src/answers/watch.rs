//! Following the state: what another program did to it is taken up, what cannot be used is said.

use std::sync::PoisonError;
use std::time::Duration;

use orco_runtime::learner::OpenLearnerError;
use orco_runtime::store::StoreError;
use serde_json::json;

use super::Thread;
use crate::error::sentence;

/// How often the thread looks whether another program has changed the state.
pub(super) const EVERY: Duration = Duration::from_secs(1);

impl Thread {
    /// Looks whether another program has changed the state, and goes on from that.
    pub(super) fn watch(&mut self) {
        let (there, has_problem) = (self.learner.store().revision(), self.problem().is_some());
        let is_other = there != self.revision;
        // What could not be read may be readable by now, though no file is another one.
        if is_other || has_problem {
            let told = self.read();
            if told || is_other && self.problem().is_none() {
                self.tell();
            }
        } else if self.inbox.is_stale() {
            self.judge_inbox();
        }
    }

    /// Reads the state anew. Returns whether there is another problem with it than before, or none any more.
    pub(super) fn read(&mut self) -> bool {
        self.revision = self.learner.store().revision();
        let before = self.problem();
        let problem = self.learner.refresh().err().map(|error| problem(&error));
        let is_other = problem != before;
        match &problem {
            Some(problem) if is_other => log::error!("{problem}"),
            None if is_other => log::info!("the state can be used again"),
            Some(_) => return false,
            None => {}
        }
        self.publish(problem);
        self.judge_inbox();
        is_other
    }

    fn problem(&self) -> Option<String> {
        self.knowledge.read().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }

    pub(super) fn tell(&self) {
        self.events.tell("changed", &json!({ "job": null }));
    }

    /// Judges the frames that were not recognised by what is known now.
    fn judge_inbox(&mut self) {
        let (ids, rows) = self.inbox.rows(self.learner.base_model().head.inputs);
        // What is made from the state for the first answer takes its time.
        let answers = if ids.is_empty() { Vec::new() } else { self.learner.classify_features(rows.view()) };
        let judged = answers.iter().map(|answer| (self.named(answer).into_iter().next(), !answer.is_unknown()));
        self.inbox.judge(self.reads, ids.into_iter().zip(judged).collect());
    }
}

/// Why a state that could be used cannot be used any more, and what to do.
fn problem(error: &OpenLearnerError) -> String {
    let advice = match error {
        OpenLearnerError::Store(StoreError::Gone { .. }) => {
            "bring it back (orco restore), or start the service anew to begin with what the bundle knows"
        }
        OpenLearnerError::Store(StoreError::OtherBundle { .. }) => {
            "after orco upgrade, start the service anew with the bundle that it went over to"
        }
        _ => "see orco doctor",
    };
    format!(
        "{}; {advice}. Until then answers go on from what was known before, and nothing can be changed",
        sentence(error)
    )
}

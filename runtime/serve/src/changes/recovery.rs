//! What a change leaves in the history, by which it is found there after its thread panicked.

use std::collections::BTreeSet;

use orco_runtime::learner::Learner;
use orco_runtime::state::Balance;
use orco_runtime::state::history::{ChangeKind, HistoryEntry};
use orco_runtime::state::label;
use orco_runtime::state::sentence::with_causes;
use orco_runtime::threads::catch_panic;
use serde_json::Value;

use super::{ChangeRequest, ChangeWorker, LabelledShots, joined_warnings};
use crate::answers::Answers;
use crate::id::Id;
use crate::job::JobProgress;
use crate::refusal::{ErrorCode, Refusal};

/// What happened, as the beginning of a sentence for people.
const FAILED: &str = "the thread that makes changes failed";

/// A change that is being made.
#[derive(Clone, Debug)]
pub(super) struct RunningChange {
    id: Id,
    change: &'static str,
    /// What its entry would say.
    kinds: &'static [ChangeKind],
    labels: Vec<String>,
    to: Option<u32>,
    balance: Option<Balance>,
    /// The last entry before it.
    before: Option<u32>,
    /// Shots that are removed once they are learned.
    shots: Vec<Id>,
    /// All labels that a class has or had that is purged.
    purged: BTreeSet<String>,
}

impl RunningChange {
    pub fn new(id: Id, change: &ChangeRequest, learner: &Learner, answers: &Answers) -> Self {
        let before = last_entry(learner.history().entries()).max(last_entry(&answers.knowledge().history));
        let running = Self {
            id,
            change: change.name(),
            kinds: &[],
            labels: Vec::new(),
            to: None,
            balance: None,
            before,
            shots: Vec::new(),
            purged: BTreeSet::new(),
        };
        match change {
            ChangeRequest::Learn(LabelledShots { label, ids, .. }) => Self {
                kinds: &[ChangeKind::Learn, ChangeKind::Add],
                labels: vec![label.clone()],
                shots: ids.clone(),
                ..running
            },
            ChangeRequest::Import { label, .. } => {
                Self { kinds: &[ChangeKind::Import], labels: vec![label.clone()], ..running }
            }
            ChangeRequest::Move { from, to, .. } => {
                Self { kinds: &[ChangeKind::Move], labels: vec![from.clone(), to.clone()], ..running }
            }
            ChangeRequest::RemoveShot { label, .. } => {
                Self { kinds: &[ChangeKind::RemoveShot], labels: vec![label.clone()], ..running }
            }
            ChangeRequest::Rename { from, to } => {
                Self { kinds: &[ChangeKind::Rename], labels: vec![from.clone(), to.clone()], ..running }
            }
            ChangeRequest::Forget { label } => {
                Self { kinds: &[ChangeKind::Forget], labels: vec![label.clone()], ..running }
            }
            // Its entry has no label.
            ChangeRequest::Purge { .. } => Self { kinds: &[ChangeKind::Purge], ..running },
            ChangeRequest::Undo { .. } | ChangeRequest::Redo { .. } => Self { kinds: &[ChangeKind::Undo], ..running },
            ChangeRequest::UndoTo { entry } => Self { kinds: &[ChangeKind::Undo], to: Some(entry.number), ..running },
            ChangeRequest::Balance { balance } => {
                Self { kinds: &[ChangeKind::Balance], balance: Some(*balance), ..running }
            }
        }
    }

    /// Notes the labels of the class that is purged, found in the newest history.
    pub fn note_purged(&mut self, labels: &BTreeSet<String>, learner: &Learner) {
        self.purged.clone_from(labels);
        self.note_history(learner);
    }

    /// Notes the entries that another program has added meanwhile: they are not this change's.
    pub fn note_history(&mut self, learner: &Learner) {
        self.before = self.before.max(last_entry(learner.history().entries()));
    }

    /// Number of the entry that the change has left.
    fn found_in(&self, entries: &[HistoryEntry]) -> Option<u32> {
        let names =
            |entry: &HistoryEntry, label: &String| entry.names.iter().any(|name| label::same(&name.label, label));
        let is_its_entry = |entry: &&HistoryEntry| {
            Some(entry.number) > self.before
                && self.kinds.contains(&entry.kind)
                && (self.to.is_none() || entry.restored_entry == self.to)
                && self.balance.is_none_or(|balance| entry.balance == balance)
                && self.labels.iter().all(|label| names(entry, label))
        };
        entries.iter().find(is_its_entry).map(|entry| entry.number)
    }
}

fn last_entry(entries: &[HistoryEntry]) -> Option<u32> {
    entries.last().map(|entry| entry.number)
}

impl ChangeWorker {
    /// Ends the job of a change whose thread panicked, by what was saved.
    pub(super) fn settle(&mut self, running: RunningChange) {
        let unread = match catch_panic(|| (self.open)()) {
            Ok(Ok(learner)) => return self.settle_by(&learner, running),
            Ok(Err(error)) => with_causes(&error),
            Err(why) => why,
        };
        let lost = format!("{FAILED}, and whether the change was saved cannot be told: {unread}");
        let lost = Refusal::new(ErrorCode::OutcomeUnknown, lost).with("reason", unread);
        self.shared.end(running.id, running.change, JobProgress::Lost(lost));
    }

    /// Ends the job of a change whose thread panicked, by the history of a learner that was opened since.
    fn settle_by(&self, learner: &Learner, running: RunningChange) {
        let Some(entry) = running.found_in(learner.history().entries()) else {
            let why = format!("{FAILED} before the change was saved; ask for it again");
            let refusal = Refusal::new(ErrorCode::ChangeInterrupted, why);
            return self.shared.end(running.id, running.change, JobProgress::Failed(refusal));
        };
        if let Some(label) = running.labels.first() {
            self.remove_learned_shots(label, |shot| running.shots.contains(&shot));
        }
        let left = if running.purged.is_empty() { None } else { self.purge_records(learner, running.purged) };
        self.prune_thumbnails(learner);
        self.answers.refresh();
        let warning = format!("the change is saved, as entry {entry} of the history, but {FAILED} after that");
        let done = JobProgress::Done { report: Value::Null, warning: joined_warnings(Some(warning), left) };
        self.shared.end(running.id, running.change, done);
    }
}

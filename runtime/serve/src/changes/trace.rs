//! What a change leaves in the history, by which it is found there after its thread broke off.

use std::panic::{AssertUnwindSafe, catch_unwind};

use orco_runtime::history::{ChangeKind, HistoryEntry};
use orco_runtime::label;
use orco_runtime::learner::Learner;
use orco_runtime::state::Balance;
use serde_json::Value;

use super::{Change, Changing, Progress};
use crate::answers::Answers;
use crate::error::sentence;
use crate::id::Id;
use crate::worker;

/// A change that is being made.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    id: Id,
    verb: &'static str,
    /// What its entry would say.
    verbs: &'static [ChangeKind],
    labels: Vec<String>,
    to: Option<u32>,
    balance: Option<Balance>,
    /// The last entry before it.
    before: Option<u32>,
    /// Shots that are let go once they are learned.
    shots: Vec<Id>,
}

impl Trace {
    pub fn new(id: Id, change: &Change, learner: &Learner, answers: &Answers) -> Self {
        let last = |entries: &[HistoryEntry]| entries.last().map(|entry| entry.number);
        let before = last(learner.history().entries()).max(last(&answers.knowledge().history));
        let verbs: &[ChangeKind] = match change {
            Change::Learn { .. } => &[ChangeKind::Learn, ChangeKind::Add],
            Change::Move { .. } => &[ChangeKind::Move],
            Change::Rename { .. } => &[ChangeKind::Rename],
            Change::Forget { .. } => &[ChangeKind::Forget],
            Change::Purge { .. } => &[ChangeKind::Purge],
            Change::Undo { .. } | Change::UndoTo { .. } => &[ChangeKind::Undo],
            Change::Balance { .. } => &[ChangeKind::Balance],
        };
        let mut trace = Self {
            id,
            verb: change.verb(),
            verbs,
            labels: Vec::new(),
            to: None,
            balance: None,
            before,
            shots: Vec::new(),
        };
        match change {
            Change::Learn { label, ids, .. } => {
                (trace.labels, trace.shots) = (vec![label.clone()], ids.clone());
            }
            Change::Forget { label } => trace.labels = vec![label.clone()],
            Change::Move { from, to, .. } | Change::Rename { from, to } => {
                trace.labels = vec![from.clone(), to.clone()]
            }
            Change::UndoTo { entry } => trace.to = Some(entry.number),
            Change::Balance { balance } => trace.balance = Some(*balance),
            // A purge leaves no label.
            Change::Purge { .. } | Change::Undo { .. } => {}
        }
        trace
    }

    /// Number of the entry that the change has left.
    fn left(&self, entries: &[HistoryEntry]) -> Option<u32> {
        let names =
            |entry: &HistoryEntry, label: &String| entry.names.iter().any(|name| label::same(&name.label, label));
        let is_it = |entry: &&HistoryEntry| {
            Some(entry.number) > self.before
                && self.verbs.contains(&entry.verb)
                && (self.to.is_none() || entry.to == self.to)
                && self.balance.is_none_or(|balance| entry.balance == balance)
                && self.labels.iter().all(|label| names(entry, label))
        };
        entries.iter().find(is_it).map(|entry| entry.number)
    }
}

impl Changing {
    /// Says of a change whose thread broke off whether it was saved, by what is on the disk.
    pub(super) fn settle(&mut self, trace: Trace) {
        const BROKE_OFF: &str = "the thread that makes changes broke off";
        let read = catch_unwind(AssertUnwindSafe(|| (self.open)()));
        let progress = match read {
            Ok(Ok(learner)) => match trace.left(learner.history().entries()) {
                Some(entry) => {
                    if let Some(label) = trace.labels.first() {
                        self.shooting.remove(label, |shot| trace.shots.contains(&shot));
                    }
                    self.answers.refresh();
                    let warning =
                        format!("the change is saved, as entry {entry} of the history, but {BROKE_OFF} after that");
                    Progress::Done(Value::Null, Some(warning))
                }
                None => Progress::Failed(format!("{BROKE_OFF} before the change was saved; ask for it again")),
            },
            unread => {
                let why = unread.map_or_else(
                    |panic| worker::message(panic.as_ref()),
                    |error| error.err().map_or_else(String::new, |error| sentence(&error)),
                );
                Progress::Lost(format!("{BROKE_OFF}, and whether the change was saved cannot be told: {why}"))
            }
        };
        self.shared.end(trace.id, trace.verb, progress);
    }
}

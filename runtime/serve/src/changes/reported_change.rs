//! What a change did, with what people should know about it.

use orco_runtime::learner::{ChangeOutcome, UndoOutcome};
use orco_runtime::state::sentence::with_causes;
use serde_json::Value;

use crate::change_json;

/// What a change did, as its job says it.
pub(super) struct ReportedChange {
    pub report: Value,
    /// Why the change may not survive a power cut, the head was not aligned to it, no answer names the class, or
    /// something of a purged class is left.
    pub warning: Option<String>,
}

impl ReportedChange {
    /// A change of the class set.
    pub fn of(made: ChangeOutcome) -> Self {
        Self::with(made, |report| change_json::of_report(&report))
    }

    /// Going back to an earlier class set, or forth to a later one.
    pub fn of_undo(made: ChangeOutcome<UndoOutcome>) -> Self {
        Self::with(made, |outcome| change_json::of_report(&outcome.report))
    }

    /// A change whose report `json` says.
    pub fn with<T>(made: ChangeOutcome<T>, json: impl FnOnce(T) -> Value) -> Self {
        let uncertain = made.uncertain.map(|error| with_causes(&error));
        let unaligned = made.unaligned.map(|error| format!("the head was not aligned: {}", with_causes(&error)));
        Self { report: json(made.report), warning: joined_warnings(uncertain, unaligned) }
    }
}

/// One warning that says both, where there are two.
pub(super) fn joined_warnings(first: Option<String>, second: Option<String>) -> Option<String> {
    let all: Vec<String> = first.into_iter().chain(second).collect();
    if all.is_empty() { None } else { Some(all.join("; ")) }
}

//! What a change did, as JSON.

use orco_runtime::state::history::{ChangeKind, HistoryEntry};
use orco_runtime::state::session::ChangeReport;
use serde_json::{Value, json};

/// Most entries in a list of a report: it stays in memory with its job.
const LISTED: usize = 10;

/// What a change did to what is known.
///
/// # Panics
/// Never: serialising into memory cannot fail.
pub fn of(report: &ChangeReport) -> Value {
    serde_json::to_value(report.summary(LISTED)).expect("serialising into memory cannot fail")
}

/// An entry of the history.
pub fn entry(entry: &HistoryEntry) -> Value {
    let labels: Vec<&str> = entry.names.iter().map(|name| name.label.as_str()).collect();
    let known: Vec<&str> = entry.classes.iter().map(|known| known.class.label.as_str()).collect();
    json!({
        "entry": entry.number, "id": entry.id().to_string(), "verb": verb(entry.kind), "labels": labels, "to": entry.to,
        "balance": entry.balance.name(), "seconds_since_1970": entry.when,
        "classes": known, "exemplars": entry.exemplars(),
    })
}

/// A kind of change, as programs call it.
fn verb(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Start => "start",
        ChangeKind::Learn => "learn",
        ChangeKind::Add => "add",
        ChangeKind::Forget => "forget",
        ChangeKind::Rename => "rename",
        ChangeKind::Import => "import",
        ChangeKind::Undo => "undo",
        ChangeKind::Purge => "purge",
        ChangeKind::Balance => "balance",
        ChangeKind::Move => "move",
        ChangeKind::RemoveShot => "remove",
        ChangeKind::Upgrade => "upgrade",
        _ => "other",
    }
}

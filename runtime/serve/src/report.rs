//! What a change did, as JSON.

use orco_runtime::history::{ChangeKind, HistoryEntry};
use orco_runtime::session::{AccuracyChange, ClassAccuracy, SessionReport};
use serde_json::{Value, json};

/// The classes that lost most, in a report.
const LISTED: usize = 10;

/// What a change did to what is known. Shares are of stored exemplars, 0..1.
pub fn of(report: &SessionReport) -> Value {
    let class = |class: &&ClassAccuracy| json!({ "label": class.label, "before": class.before, "after": class.after });
    let lost: Vec<Value> = report.forgotten(0.0).iter().take(LISTED).map(class).collect();
    let new = report.classes.iter().filter(|class| class.before.is_none());
    let new: Vec<Value> = new.map(|class| json!({ "label": class.label, "after": class.after })).collect();
    let confusion = |confused: &orco_runtime::session::ConfusedPair| json!({ "label": confused.label, "taken_for": confused.taken_for, "share": confused.share });
    json!({
        "known": report.old_accuracy().map(|AccuracyChange { before, after }| json!({ "before": before, "after": after })),
        "new": new,
        "lost": lost,
        "confusions": report.confusions.iter().take(LISTED).map(confusion).collect::<Vec<_>>(),
        "expected": report.border.map(|border| json!({ "base": border.base, "new": border.new })),
        "free_targets": report.free_targets,
    })
}

/// An entry of the history.
pub fn entry(entry: &HistoryEntry) -> Value {
    let labels: Vec<&str> = entry.names.iter().map(|name| name.label.as_str()).collect();
    let known: Vec<&str> = entry.classes.iter().map(|known| known.class.label.as_str()).collect();
    json!({
        "entry": entry.number, "id": entry.id().to_string(), "verb": verb(entry.kind), "labels": labels, "to": entry.to,
        "seconds_since_1970": entry.when, "classes": known, "exemplars": entry.exemplars(),
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
        ChangeKind::Upgrade => "upgrade",
        _ => "other",
    }
}

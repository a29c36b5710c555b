//! A change as JSON: its report, and its entry in the history.

use orco_runtime::state::history::HistoryEntry;
use orco_runtime::state::session::ChangeReport;
use serde_json::{Value, json};

/// Most entries in a list of a report: it stays in memory with its job.
const MAX_LISTED: usize = 10;

/// What a change did to what is known.
///
/// # Panics
/// Never: serialising into memory cannot fail.
pub fn of_report(report: &ChangeReport) -> Value {
    serde_json::to_value(report.summary(MAX_LISTED)).expect("serialising into memory cannot fail")
}

/// An entry of the history.
pub fn of_entry(entry: &HistoryEntry) -> Value {
    let labels: Vec<&str> = entry.names.iter().map(|name| name.label.as_str()).collect();
    let known: Vec<&str> = entry.classes.iter().map(|known| known.class.label.as_str()).collect();
    json!({
        "entry": entry.number, "id": entry.id().to_string(), "change": entry.kind.name(), "labels": labels,
        "to": entry.restored_entry, "balance": entry.balance.name(), "seconds_since_1970": entry.when,
        "classes": known, "exemplars": entry.exemplars(),
    })
}

#[cfg(test)]
mod tests {
    use orco_runtime::state::history::ChangeKind;

    use super::*;

    #[test]
    fn every_kind_of_change_is_described_to_people_and_to_programs() {
        let languages: Vec<&str> =
            include_str!("../page/texts.js").lines().filter(|line| line.trim_start().starts_with("past: {")).collect();
        assert_eq!(languages.len(), 2);
        for kind in ChangeKind::ALL {
            let word = format!(" {}: \"", kind.name());
            assert!(languages.iter().all(|words| words.contains(&word)), "the page lacks{word}");
        }
        let interface: Value = serde_json::from_str(include_str!("../openapi.json")).unwrap();
        let verbs = &interface["components"]["schemas"]["Entry"]["properties"]["change"]["enum"];
        assert_eq!(verbs, &json!(ChangeKind::ALL.map(ChangeKind::name)));
    }
}

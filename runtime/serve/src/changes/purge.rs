//! Removes what the service holds of a class that was purged, beside the state.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use orco_runtime::learner::Learner;
use orco_runtime::state::history::HistoryEntry;
use orco_runtime::state::label;
use serde_json::Value;

use super::{ChangeWorker, joined_warnings};
use crate::event::Event;
use crate::id::Id;
use crate::job::JobProgress;
use crate::refusal::{ErrorCode, Refusal};

/// Removes labels of a purged class from what other crates keep, or says why some are left.
type RemoveLabels = dyn Fn(&BTreeSet<String>) -> Result<(), String> + Send + Sync;

/// Removes a purged class from records that this crate does not know, such as a device's part in a fleet.
#[derive(Clone, Default)]
pub struct PurgeHook(Arc<OnceLock<Box<RemoveLabels>>>);

impl PurgeHook {
    /// Calls this with the labels of each class that is purged from now on. A second one is not taken.
    pub(crate) fn set(&self, remove: Box<RemoveLabels>) {
        let _ = self.0.set(remove);
    }

    fn call(&self, labels: &BTreeSet<String>) -> Result<(), String> {
        self.0.get().map_or(Ok(()), |remove| remove(labels))
    }
}

/// All labels that a class has or had, `label` among them: to be asked before it is purged.
pub fn purged_labels(learner: &mut Learner, label: &str) -> BTreeSet<String> {
    // Another program may have renamed it. Where the state cannot be read, nothing is purged either.
    let _ = learner.refresh();
    let entries = learner.history().entries();
    let named = |entry: &HistoryEntry| -> Vec<(u32, String)> {
        let known = entry.classes.iter().map(|known| (known.id, known.class.label.clone()));
        known.chain(entry.names.iter().map(|name| (name.class, name.label.clone()))).collect()
    };
    let all: Vec<(u32, String)> = entries.iter().flat_map(named).filter(|(_, label)| !label.is_empty()).collect();
    let ids: BTreeSet<u32> = all.iter().filter(|(_, known)| label::same(known, label)).map(|(id, _)| *id).collect();
    let own = all.into_iter().filter(|(id, _)| ids.contains(id)).map(|(_, label)| label);
    own.chain([label.to_owned()]).collect()
}

/// Those labels of a class that was purged which no other class has or had.
pub fn labels_of_no_class(learner: &Learner, mut labels: BTreeSet<String>) -> BTreeSet<String> {
    for class in learner.classes() {
        labels.remove(&class.label);
    }
    for entry in learner.history().entries() {
        labels.retain(|label| {
            let known = entry.classes.iter().map(|known| &known.class.label);
            !known.chain(entry.names.iter().map(|name| &name.label)).any(|other| other == label)
        });
    }
    labels
}

impl ChangeWorker {
    /// Removes everything that names one of these labels, except for labels that another class has or had. Returns what
    /// is to be said if something of the class is left.
    pub(super) fn purge_records(&self, learner: &Learner, labels: BTreeSet<String>) -> Option<String> {
        let labels = labels_of_no_class(learner, labels);
        for label in &labels {
            self.records.pending_shots.remove(label, |_| true);
        }
        let left = self.records.sightings.remove(&labels).err().map(|error| {
            format!(
                "the class is purged, but its sightings are left: {error}; remove them once their folder can be written"
            )
        });
        let elsewhere = self.records.purge_hook.call(&labels).err();
        let elsewhere = elsewhere.map(|why| format!("the class is purged, but something else still names it: {why}"));
        let left = joined_warnings(left, elsewhere);
        if let Some(left) = &left {
            log::warn!("{left}");
        }
        let mut touched: Vec<Id> = Vec::new();
        for job in self.shared.jobs().iter_mut() {
            let mut is_about = false;
            for label in [&mut job.label, &mut job.to_label] {
                is_about |= label.take_if(|label| labels.contains(label.as_str())).is_some();
            }
            if remove_labels(&mut job.progress, &labels) || is_about {
                touched.push(job.id);
            }
        }
        // Listeners drop what they were told of them.
        self.shared.telemetry.events.send(Event::Purged { jobs: touched });
        left
    }
}

/// Removes labels from the report of a job. Returns whether one was named.
fn remove_labels(progress: &mut JobProgress, labels: &BTreeSet<String>) -> bool {
    let mentions = |text: &str| labels.iter().any(|label| label::is_mentioned(label, text));
    match progress {
        JobProgress::Queued | JobProgress::Running(_) => false,
        JobProgress::Done { report, warning } => {
            let mut is_named = false;
            for list in report.as_object_mut().into_iter().flat_map(|report| report.values_mut()) {
                let Some(list) = list.as_array_mut() else { continue };
                let before = list.len();
                list.retain(|entry| !names(entry, labels));
                is_named |= list.len() < before;
            }
            if warning.as_deref().is_some_and(mentions) {
                *warning = Some(label::PURGED.into());
                is_named = true;
            }
            is_named
        }
        JobProgress::Failed(refusal) | JobProgress::Lost(refusal) => {
            let is_named = mentions(&refusal.sentence) || refusal.values.values().any(|value| names(value, labels));
            if is_named {
                *refusal = Refusal::new(ErrorCode::Purged, label::PURGED);
            }
            is_named
        }
    }
}

/// Whether an entry of a report names one of the labels, in whatever place.
fn names(entry: &Value, labels: &BTreeSet<String>) -> bool {
    match entry {
        Value::String(text) => labels.contains(text),
        Value::Array(parts) => parts.iter().any(|part| names(part, labels)),
        Value::Object(parts) => parts.values().any(|part| names(part, labels)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_and_sentences_name_a_purged_class_no_more() {
        let labels = BTreeSet::from(["mug".to_owned()]);
        let report = json!({
            "old_accuracy": { "before": 1.0, "after": 1.0 },
            "new": [{ "label": "mug", "after": 1.0 }, { "label": "cup", "after": 1.0 }],
            "lost": [{ "label": "mug", "before": 1.0, "after": 0.5 }],
            "confusions": [{ "label": "cup", "taken_for": "mug", "share": 0.5 }],
            "sharing_shots": [["cup", "mug"], ["cup", "jug"]],
            "free_targets": 3,
        });
        let mut done = JobProgress::Done { report, warning: Some("mug: it may be lost".into()) };
        assert!(remove_labels(&mut done, &labels));
        let JobProgress::Done { report, warning } = &done else { unreachable!("it stays done") };
        assert!(!report.to_string().contains("mug") && !warning.as_ref().unwrap().contains("mug"), "{done:?}");
        assert_eq!((&report["new"][0]["label"], &report["free_targets"]), (&json!("cup"), &json!(3)));
        assert_eq!(report["sharing_shots"], json!([["cup", "jug"]]));
        assert!(!remove_labels(&mut done, &labels), "nothing is left");
        let mut failed = JobProgress::Failed(Refusal::unknown_class("mug"));
        assert!(remove_labels(&mut failed, &labels) && !format!("{failed:?}").contains("mug"));
        // A value may name what the sentence writes in another way.
        let unsaid = Refusal::new(ErrorCode::LabelTaken, "that label exists already").with("label", "mug");
        let mut failed = JobProgress::Failed(unsaid);
        assert!(remove_labels(&mut failed, &labels) && !format!("{failed:?}").contains("mug"));
        assert!(!remove_labels(&mut JobProgress::Failed(Refusal::unknown_class("mugs")), &labels));
    }
}

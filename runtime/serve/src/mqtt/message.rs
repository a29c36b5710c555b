//! The messages that brokers get: what the camera shows, how many classes there are, how a change ended.

use serde::{Serialize, Serializer};
use serde_json::json;

use crate::id::Id;
use crate::in_view::labels_in_view;
use crate::job::{Job, JobProgress};
use crate::knowledge::Knowledge;
use crate::live_snapshot::{LiveSnapshot, ShownRegion};

/// By how much a probability must move to be published again.
const MIN_PROBABILITY_CHANGE: f32 = 0.01;

/// What the camera shows, as brokers get it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveState {
    /// The agreed label; none where there is nothing to name.
    pub label: Option<String>,
    /// How probable it is, 0..1.
    #[serde(serialize_with = "with_three_decimals")]
    pub probability: Option<f32>,
    /// The prediction set: the aim is that one of these labels is right for 90 % of pictures.
    pub set: Vec<String>,
    /// Whether the picture is like anything known.
    pub known: bool,
    /// Whether the place is empty, where the empty place was shown.
    pub empty: bool,
    /// Whether the class answers by its shots while it is being learned.
    pub provisional: bool,
    /// Labels of all known things in view.
    pub in_view: Vec<String>,
    /// The camera's phase, as [`CameraPhase::name`](orco_camera::CameraPhase::name) has it.
    pub camera: &'static str,
    /// How the empty place is doing, as [`SceneStatus::state`](crate::camera_scene::SceneStatus::state) has it.
    pub scene: &'static str,
    /// What each of the camera's regions shows.
    pub regions: Vec<RegionState>,
}

/// What a region of the camera's frames shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionState {
    /// The region's name.
    pub name: String,
    /// The agreed label; none where there is nothing to name.
    pub label: Option<String>,
    /// How probable it is, 0..1.
    #[serde(serialize_with = "with_three_decimals")]
    pub probability: Option<f32>,
    /// Whether it is like anything known.
    pub known: bool,
    /// Whether the place is empty.
    pub empty: bool,
}

impl RegionState {
    fn of(region: &ShownRegion) -> Self {
        let shown = region.answer.shown();
        Self {
            name: region.name.clone(),
            label: shown.map(|shown| shown.label.clone()),
            probability: shown.map(|shown| shown.probability),
            known: region.answer.known,
            empty: region.empty,
        }
    }
}

/// Writes a probability with three decimals, more than a camera's frame is good for.
fn with_three_decimals<S: Serializer>(probability: &Option<f32>, serializer: S) -> Result<S::Ok, S::Error> {
    probability.map(|probability| (f64::from(probability) * 1000.0).round() / 1000.0).serialize(serializer)
}

impl LiveState {
    /// What a snapshot of the camera shows.
    pub fn of(live: &LiveSnapshot) -> Self {
        let first = live.first_region();
        let RegionState { label, probability, known, empty, .. } = RegionState::of(first);
        Self {
            label,
            probability,
            set: first.answer.set().map(str::to_owned).collect(),
            known,
            empty,
            provisional: first.answer.shown().is_some_and(|shown| shown.provisional),
            in_view: labels_in_view(live),
            camera: live.status.phase.name(),
            scene: live.scene.state(),
            regions: live.named_regions().map(RegionState::of).collect(),
        }
    }

    fn without_probabilities(&self) -> Self {
        let mut state = Self { probability: None, ..self.clone() };
        state.regions.iter_mut().for_each(|region| region.probability = None);
        state
    }

    /// Whether it says another thing than `published`, not only with another probability.
    pub fn differs_from(&self, published: &Self) -> bool {
        self.without_probabilities() != published.without_probabilities()
    }

    /// Whether a probability is another one than in `published`, by `MIN_PROBABILITY_CHANGE` or more.
    pub fn has_moved(&self, published: &Self) -> bool {
        let regions =
            self.regions.iter().zip(&published.regions).map(|(now, then)| (now.probability, then.probability));
        let mut all = regions.chain([(self.probability, published.probability)]);
        all.any(|both| match both {
            (Some(now), Some(then)) => (now - then).abs() >= MIN_PROBABILITY_CHANGE,
            (now, then) => now.is_some() != then.is_some(),
        })
    }
}

/// The message that says how many classes there are.
pub fn classes_message(knowledge: &Knowledge) -> String {
    let (all, base) = (knowledge.classes.len(), knowledge.base_classes);
    json!({ "classes": all, "base": base, "learned": all - base, "free_targets": knowledge.free_targets }).to_string()
}

/// The result of a change that ended, as an event of Home Assistant.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeResult {
    /// The job's identifier.
    pub job: Id,
    /// The message.
    pub message: String,
}

impl ChangeResult {
    /// The result of a job, once that has ended.
    pub fn of(job: &Job) -> Option<Self> {
        let mut message = json!({ "job": job.id, "change": job.change, "label": job.label });
        if let Some(to_label) = &job.to_label {
            message["to_label"] = to_label.as_str().into();
        }
        match &job.progress {
            JobProgress::Queued | JobProgress::Running(_) => return None,
            JobProgress::Done { report, warning } => {
                message["event_type"] = "done".into();
                let details = [("report", report.clone()), ("warning", json!(warning))];
                for (key, value) in details.into_iter().filter(|(_, value)| !value.is_null()) {
                    message[key] = value;
                }
            }
            JobProgress::Failed(refusal) | JobProgress::Lost(refusal) => {
                message["event_type"] = "failed".into();
                refusal.add_to(&mut message);
            }
        }
        Some(Self { job: job.id, message: message.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::id::IdSource;

    #[test]
    fn a_result_says_what_was_done_and_leaves_out_what_is_not_there() {
        let id = IdSource::default().next_id();
        let message = |progress| {
            let job = Job { id, change: "undo", label: None, to_label: None, progress };
            serde_json::from_str::<Value>(&ChangeResult::of(&job).unwrap().message).unwrap()
        };
        let bare = json!({ "event_type": "done", "job": id, "change": "undo", "label": null });
        assert_eq!(message(JobProgress::Done { report: Value::Null, warning: None }), bare);
        let whole = message(JobProgress::Done { report: json!({ "shots": 5 }), warning: Some("take care".into()) });
        assert_eq!((&whole["report"], &whole["warning"]), (&json!({ "shots": 5 }), &json!("take care")));
        let [label, to_label] = ["mug", "cup"].map(|label| Some(label.to_owned()));
        let progress = JobProgress::Done { report: Value::Null, warning: None };
        let renamed = ChangeResult::of(&Job { id, change: "rename", label, to_label, progress }).unwrap().message;
        let renamed: Value = serde_json::from_str(&renamed).unwrap();
        assert_eq!((&renamed["label"], &renamed["to_label"]), (&json!("mug"), &json!("cup")));
    }
}

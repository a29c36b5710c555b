//! What is not published yet: the newest state, and a bounded number of results of changes. Events are gathered whether
//! the broker is there or not.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::event::Event;
use crate::in_view::labels_in_view;
use crate::knowledge::Knowledge;
use crate::metric::MqttMetrics;

/// Results of changes that may wait for the broker; the oldest go first.
pub const WAITING: usize = 64;
/// By how much a probability must move to be published again.
const MOVED: f32 = 0.01;

/// What the camera shows, as the event `live` says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveState {
    /// The agreed label; none where there is nothing to name.
    pub label: Option<String>,
    /// How probable it is, 0..1.
    #[serde(serialize_with = "rounded")]
    pub probability: Option<f32>,
    /// Labels of which one is right with a probability of 90 %.
    #[serde(default)]
    pub set: Vec<String>,
    /// Whether the picture is like anything known.
    pub known: bool,
    /// Whether the place is empty, where the empty place was shown.
    #[serde(default)]
    pub empty: bool,
    /// Whether the class answers by its shots while it is being learned.
    pub provisional: bool,
    /// Labels of all known things in view.
    #[serde(default)]
    pub in_view: Vec<String>,
    /// How the camera is.
    #[serde(rename(deserialize = "state"))]
    pub camera: String,
    /// What each of the camera's regions shows.
    #[serde(default)]
    pub regions: Vec<RegionState>,
}

/// What a region of the camera's frames shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionState {
    /// The region's name.
    pub name: String,
    /// The agreed label; none where there is nothing to name.
    pub label: Option<String>,
    /// How probable it is, 0..1.
    #[serde(serialize_with = "rounded")]
    pub probability: Option<f32>,
    /// Whether it is like anything known.
    pub known: bool,
    /// Whether the place is empty.
    pub empty: bool,
}

impl RegionState {
    /// This state without its probability.
    fn without_probability(&self) -> Self {
        Self { probability: None, ..self.clone() }
    }
}

/// Three digits after the point are more than a camera's frame is good for.
fn rounded<S: Serializer>(probability: &Option<f32>, serializer: S) -> Result<S::Ok, S::Error> {
    probability.map(|probability| (f64::from(probability) * 1000.0).round() / 1000.0).serialize(serializer)
}

impl LiveState {
    /// Out of what [`crate::live::Live::json`] says.
    fn of(live: &Value) -> Result<Self, serde_json::Error> {
        Ok(Self { in_view: labels_in_view(live), ..Self::deserialize(live)? })
    }

    /// Whether it says another thing than `told`, not only with another probability.
    pub fn is_other(&self, told: &Self) -> bool {
        let of = |shown: &Self| {
            let regions: Vec<RegionState> = shown.regions.iter().map(RegionState::without_probability).collect();
            (
                shown.label.clone(),
                shown.known,
                shown.empty,
                shown.provisional,
                shown.camera.clone(),
                shown.in_view.clone(),
                regions,
            )
        };
        of(self) != of(told)
    }

    /// Whether a probability is another one than in `told`.
    pub fn has_moved(&self, told: &Self) -> bool {
        let regions = self.regions.iter().zip(&told.regions).map(|(now, then)| (now.probability, then.probability));
        let mut all = regions.chain([(self.probability, told.probability)]);
        all.any(|both| match both {
            (Some(now), Some(then)) => (now - then).abs() >= MOVED,
            (now, then) => now.is_some() != then.is_some(),
        })
    }
}

/// How many classes there are, as a message.
pub fn classes(knowledge: &Knowledge) -> String {
    let (all, base) = (knowledge.classes.len(), knowledge.base);
    json!({ "classes": all, "base": base, "learned": all - base, "free_targets": knowledge.free_targets }).to_string()
}

/// The result of a change that ended, as an event of Home Assistant.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeResult {
    /// The job's identifier.
    pub job: String,
    /// The message.
    pub message: String,
}

impl ChangeResult {
    /// Of the event `job`, once it has ended.
    fn of(job: &Value) -> Option<Self> {
        let outcome = job["state"].as_str().filter(|state| matches!(*state, "done" | "failed"))?;
        let mut message =
            json!({ "event_type": outcome, "job": job["id"], "verb": job["verb"], "label": job["label"] });
        for key in ["report", "warning", "error"] {
            if let Some(value) = job.get(key).filter(|value| !value.is_null()) {
                message[key] = value.clone();
            }
        }
        Some(Self { job: job["id"].as_str()?.to_owned(), message: message.to_string() })
    }
}

/// What is to be published.
pub struct MqttUpdates {
    shown: RefCell<Option<LiveState>>,
    ended: RefCell<VecDeque<ChangeResult>>,
    dropped: Cell<u64>,
    /// That there is something new.
    pub fresh: Notify,
}

impl MqttUpdates {
    /// Beginning with what the camera shows already.
    pub fn new(live: Option<Value>) -> Self {
        let shown = live.and_then(|live| LiveState::of(&live).ok());
        Self { shown: RefCell::new(shown), ended: RefCell::default(), dropped: Cell::new(0), fresh: Notify::new() }
    }

    /// What the camera shows.
    pub fn shown(&self) -> Option<LiveState> {
        self.shown.borrow().clone()
    }

    /// The oldest result that waits.
    pub fn first(&self) -> Option<ChangeResult> {
        self.ended.borrow().front().cloned()
    }

    /// Removes a result: the broker has it, or nobody may have it.
    pub fn remove(&self, job: &str) {
        self.ended.borrow_mut().retain(|ended| ended.job != job);
    }

    /// Takes all events as they come, until there can be no more.
    pub async fn gather(&self, mut events: Receiver<Event>, metrics: &MqttMetrics) {
        loop {
            match events.recv().await {
                Ok(event) => self.take(&event),
                // The newest are still to come; what is known is looked up.
                Err(RecvError::Lagged(_)) => self.fresh.notify_one(),
                Err(RecvError::Closed) => return,
            }
            metrics.dropped.inc_by(self.dropped.take());
        }
    }

    fn take(&self, event: &Event) {
        match event.kind {
            "live" => match serde_json::from_str(&event.data).and_then(|live| LiveState::of(&live)) {
                Ok(shown) => *self.shown.borrow_mut() = Some(shown),
                Err(error) => log::error!("MQTT: what the camera shows is not understood: {error}"),
            },
            "job" => {
                let job = serde_json::from_str(&event.data).unwrap_or_default();
                let Some(ended) = ChangeResult::of(&job) else { return };
                let mut waiting = self.ended.borrow_mut();
                if waiting.len() >= WAITING {
                    waiting.pop_front();
                    self.dropped.set(self.dropped.get() + 1);
                }
                waiting.push_back(ended);
            }
            // What names a purged class is not published any more.
            "purged" => {
                let purged: Value = serde_json::from_str(&event.data).unwrap_or_default();
                purged["jobs"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .for_each(|job| self.remove(job));
            }
            // How many classes there are is looked up.
            "changed" => {}
            _ => return,
        }
        self.fresh.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &'static str, data: &Value) -> Event {
        Event { kind, data: data.to_string() }
    }

    fn live(label: &str, probability: f32, known: bool) -> Value {
        json!({
            "source": "folder:x", "state": "running", "label": label, "probability": probability, "known": known,
            "provisional": false, "frames": 7,
        })
    }

    #[test]
    fn the_newest_state_counts_and_only_what_changed_is_news() {
        let updates = MqttUpdates::new(None);
        assert_eq!(updates.shown(), None);
        updates.take(&event("live", &live("mug", 0.9, true)));
        updates.take(&event("live", &live("mug", 0.912_34, true)));
        let shown = updates.shown().unwrap();
        let message = serde_json::to_value(&shown).unwrap();
        let expected = json!({
            "label": "mug", "probability": 0.912, "set": [], "known": true, "empty": false, "provisional": false,
            "in_view": ["mug"], "camera": "running", "regions": [],
        });
        assert_eq!(message, expected);
        let near = LiveState { probability: Some(0.915), ..shown.clone() };
        assert!(!near.is_other(&shown) && !near.has_moved(&shown));
        let far = LiveState { probability: Some(0.8), ..shown.clone() };
        assert!(!far.is_other(&shown) && far.has_moved(&shown));
        assert!(LiveState { known: false, ..shown.clone() }.is_other(&shown));
        assert!(LiveState { label: None, ..shown.clone() }.is_other(&shown));
        assert!(LiveState { empty: true, ..shown.clone() }.is_other(&shown));
        assert!(LiveState { in_view: vec!["duck".into(), "mug".into()], ..shown.clone() }.is_other(&shown));
        assert!(LiveState { provisional: true, ..shown.clone() }.is_other(&shown));
        assert!(LiveState { camera: "away".into(), ..shown.clone() }.is_other(&shown));
        let region = |label: Option<&str>, probability| RegionState {
            name: "shelf".into(),
            label: label.map(str::to_owned),
            probability,
            known: label.is_some(),
            empty: label.is_none(),
        };
        let with = |label, probability| LiveState { regions: vec![region(label, probability)], ..shown.clone() };
        assert!(with(Some("mug"), Some(0.9)).is_other(&shown) && with(None, None).is_other(&with(Some("mug"), None)));
        let (sure, surer) = (with(Some("mug"), Some(0.8)), with(Some("mug"), Some(0.9)));
        assert!(!surer.is_other(&sure) && surer.has_moved(&sure));
    }

    #[test]
    fn results_wait_in_order_and_not_without_bound() {
        let updates = MqttUpdates::new(None);
        updates.take(&event("job", &json!({ "id": "a-1", "verb": "undo", "label": null, "state": "running" })));
        assert_eq!(updates.first(), None, "it has not ended");
        for id in 1..=WAITING as u64 + 2 {
            let id = format!("a-{id}");
            let job = json!({ "id": id, "verb": "learn", "label": "mug", "state": "failed", "error": "no" });
            updates.take(&event("job", &job));
        }
        assert_eq!(updates.dropped.take(), 2);
        let first = updates.first().unwrap();
        assert_eq!(first.job, "a-3");
        let message: Value = serde_json::from_str(&first.message).unwrap();
        let expected = json!({ "event_type": "failed", "job": "a-3", "verb": "learn", "label": "mug", "error": "no" });
        assert_eq!(message, expected);
        updates.remove("a-3");
        // That one gave way meanwhile.
        updates.remove("a-3");
        assert_eq!(updates.first().unwrap().job, "a-4");
        updates.take(&event("purged", &json!({ "jobs": ["a-4", "a-5", "b-6"] })));
        assert_eq!(updates.first().unwrap().job, "a-6", "what names a purged class is not told");
    }
}

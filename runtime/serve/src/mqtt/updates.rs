//! What is to be published: the newest state, and a bounded number of results of changes. Events are gathered even
//! while the broker is unreachable.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use serde::{Serialize, Serializer};
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::event::Event;
use crate::id::Id;
use crate::in_view::labels_in_view;
use crate::job::{Job, JobProgress};
use crate::knowledge::Knowledge;
use crate::live_snapshot::{LiveSnapshot, ShownRegion};
use crate::metric::MqttMetrics;

/// Most results of changes that wait for the broker; the oldest go first.
pub const MAX_WAITING: usize = 64;
/// By how much a probability must move to be published again.
const MIN_PROBABILITY_CHANGE: f32 = 0.01;

/// What the camera shows, as brokers get it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveState {
    /// The agreed label; none where there is nothing to name.
    pub label: Option<String>,
    /// How probable it is, 0..1.
    #[serde(serialize_with = "rounded")]
    pub probability: Option<f32>,
    /// Labels of which one is right with a probability of 90 %.
    pub set: Vec<String>,
    /// Whether the picture is like anything known.
    pub known: bool,
    /// Whether the place is empty, where the empty place was shown.
    pub empty: bool,
    /// Whether the class answers by its shots while it is being learned.
    pub provisional: bool,
    /// Labels of all known things in view.
    pub in_view: Vec<String>,
    /// How the camera is.
    pub camera: &'static str,
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
    #[serde(serialize_with = "rounded")]
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

/// Three digits after the point are more than a camera's frame is good for.
fn rounded<S: Serializer>(probability: &Option<f32>, serializer: S) -> Result<S::Ok, S::Error> {
    probability.map(|probability| (f64::from(probability) * 1000.0).round() / 1000.0).serialize(serializer)
}

impl LiveState {
    fn of(live: &LiveSnapshot) -> Self {
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

    /// Whether a probability is another one than in `published`.
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

/// How many classes there are, as a message.
pub fn classes(knowledge: &Knowledge) -> String {
    let (all, base) = (knowledge.classes.len(), knowledge.base);
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
    /// Of a job, once it has ended.
    fn of(job: &Job) -> Option<Self> {
        let mut message = json!({ "job": job.id, "change": job.change, "label": job.label });
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
    pub fn new(live: Option<&LiveSnapshot>) -> Self {
        let shown = live.map(LiveState::of);
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
    pub fn remove(&self, job: Id) {
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
        match event {
            Event::Live(live) => *self.shown.borrow_mut() = Some(LiveState::of(live)),
            Event::Job(job) => {
                let Some(ended) = ChangeResult::of(job) else { return };
                let mut waiting = self.ended.borrow_mut();
                if waiting.len() >= MAX_WAITING {
                    waiting.pop_front();
                    self.dropped.set(self.dropped.get() + 1);
                }
                waiting.push_back(ended);
            }
            // What names a purged class is not published any more.
            Event::Purged { jobs } => jobs.iter().for_each(|job| self.remove(*job)),
            // How many classes there are is looked up.
            Event::Changed { .. } => {}
            _ => return,
        }
        self.fresh.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orco_camera::{CameraPhase, CameraStatus};
    use serde_json::Value;

    use super::*;
    use crate::agreement::AgreedAnswer;
    use crate::id::IdSource;
    use crate::prediction::ClassProbability;
    use crate::refusal::Refusal;

    fn live(label: &str, probability: f32) -> Event {
        let class = ClassProbability { label: label.into(), probability, provisional: false, in_set: true };
        let answer = AgreedAnswer { classes: vec![class], frames: 1, known: true };
        let mut status = CameraStatus::default();
        status.phase = CameraPhase::Running;
        let regions = Arc::new([ShownRegion { answer, ..ShownRegion::default() }]);
        Event::Live(Arc::new(LiveSnapshot { status, regions, ..LiveSnapshot::default() }))
    }

    #[test]
    fn the_newest_state_counts_and_only_what_changed_is_news() {
        let updates = MqttUpdates::new(None);
        assert_eq!(updates.shown(), None);
        updates.take(&live("mug", 0.9));
        updates.take(&live("mug", 0.912_34));
        let shown = updates.shown().unwrap();
        let message = serde_json::to_value(&shown).unwrap();
        let expected = json!({
            "label": "mug", "probability": 0.912, "set": ["mug"], "known": true, "empty": false, "provisional": false,
            "in_view": ["mug"], "camera": "running", "regions": [],
        });
        assert_eq!(message, expected);
        let near = LiveState { probability: Some(0.915), ..shown.clone() };
        assert!(!near.differs_from(&shown) && !near.has_moved(&shown));
        let far = LiveState { probability: Some(0.8), ..shown.clone() };
        assert!(!far.differs_from(&shown) && far.has_moved(&shown));
        assert!(LiveState { known: false, ..shown.clone() }.differs_from(&shown));
        assert!(LiveState { label: None, ..shown.clone() }.differs_from(&shown));
        assert!(LiveState { set: vec!["mug".into(), "jug".into()], ..shown.clone() }.differs_from(&shown));
        assert!(LiveState { empty: true, ..shown.clone() }.differs_from(&shown));
        assert!(LiveState { in_view: vec!["duck".into(), "mug".into()], ..shown.clone() }.differs_from(&shown));
        assert!(LiveState { provisional: true, ..shown.clone() }.differs_from(&shown));
        assert!(LiveState { camera: "away", ..shown.clone() }.differs_from(&shown));
        let region = |label: Option<&str>, probability| RegionState {
            name: "shelf".into(),
            label: label.map(str::to_owned),
            probability,
            known: label.is_some(),
            empty: label.is_none(),
        };
        let with = |label, probability| LiveState { regions: vec![region(label, probability)], ..shown.clone() };
        assert!(with(Some("mug"), Some(0.9)).differs_from(&shown));
        assert!(with(None, None).differs_from(&with(Some("mug"), None)));
        let (sure, surer) = (with(Some("mug"), Some(0.8)), with(Some("mug"), Some(0.9)));
        assert!(!surer.differs_from(&sure) && surer.has_moved(&sure));
    }

    #[test]
    fn results_wait_in_order_and_not_without_bound() {
        let (updates, mut ids) = (MqttUpdates::new(None), IdSource::default());
        let mut job = |progress| {
            let id = ids.next_id();
            updates.take(&Event::Job(Job { id, change: "learn", label: Some("mug".into()), progress }));
            id
        };
        job(JobProgress::Running(0.5));
        assert_eq!(updates.first(), None, "it has not ended");
        let ended: Vec<Id> =
            (0..MAX_WAITING + 2).map(|_| job(JobProgress::Failed(Refusal::unknown_class("mug")))).collect();
        assert_eq!(updates.dropped.take(), 2);
        let first = updates.first().unwrap();
        assert_eq!(first.job, ended[2]);
        let message: Value = serde_json::from_str(&first.message).unwrap();
        let expected = json!({
            "event_type": "failed", "job": ended[2], "change": "learn", "label": "mug",
            "error": "no class has the label \"mug\"", "code": "unknown_class", "values": { "label": "mug" },
        });
        assert_eq!(message, expected);
        updates.remove(ended[2]);
        // That one gave way meanwhile.
        updates.remove(ended[2]);
        assert_eq!(updates.first().unwrap().job, ended[3]);
        let other = IdSource::default().next_id();
        updates.take(&Event::Purged { jobs: vec![ended[3], ended[4], other] });
        assert_eq!(updates.first().unwrap().job, ended[5], "what names a purged class is not told");
    }

    #[test]
    fn a_result_says_what_was_done_and_leaves_out_what_is_not_there() {
        let id = IdSource::default().next_id();
        let message = |progress| {
            let job = Job { id, change: "undo", label: None, progress };
            serde_json::from_str::<Value>(&ChangeResult::of(&job).unwrap().message).unwrap()
        };
        let bare = json!({ "event_type": "done", "job": id, "change": "undo", "label": null });
        assert_eq!(message(JobProgress::Done { report: Value::Null, warning: None }), bare);
        let whole = message(JobProgress::Done { report: json!({ "shots": 5 }), warning: Some("take care".into()) });
        assert_eq!((&whole["report"], &whole["warning"]), (&json!({ "shots": 5 }), &json!("take care")));
    }
}

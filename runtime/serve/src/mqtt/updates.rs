//! What waits to be published: the newest state, and a bounded number of results of changes. Events are gathered even
//! while the broker is unreachable.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::message::{ChangeResult, LiveState};
use crate::event::Event;
use crate::id::Id;
use crate::live_snapshot::LiveSnapshot;
use crate::metric::MqttMetrics;

/// Most results of changes that wait for the broker; the oldest go first.
pub const MAX_WAITING: usize = 64;

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

    use serde_json::{Value, json};

    use super::*;
    use crate::id::IdSource;
    use crate::job::{Job, JobProgress};
    use crate::live_snapshot::ShownRegion;
    use crate::mqtt::message::RegionState;
    use crate::refusal::Refusal;
    use crate::tests::{answer, showing};

    fn live(label: &str, probability: f32) -> Event {
        let region = ShownRegion { answer: answer(label, probability, true), ..ShownRegion::default() };
        Event::Live(Arc::new(showing(vec![region])))
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
            "in_view": ["mug"], "camera": "running", "scene": "none", "regions": [],
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
        assert!(LiveState { scene: "moved", ..shown.clone() }.differs_from(&shown));
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
            let label = Some("mug".into());
            updates.take(&Event::Job(Job { id, change: "learn", label, to_label: None, progress }));
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
}

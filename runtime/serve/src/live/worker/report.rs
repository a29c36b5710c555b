//! Sends events about the camera: at once when a label or the state changes, otherwise now and then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::LiveWorker;
use crate::event::Event;
use crate::live_snapshot::ShownRegion;

/// Least time between two reports of the same label, the second with its new probability.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// What the last event said.
#[derive(Default)]
pub(super) struct LastReport {
    at: Option<Instant>,
    pub(super) content: ReportContent,
    frame: u64,
    unreadable: u64,
}

/// What listeners are told of at once when it changes.
#[derive(Default, PartialEq)]
pub(super) struct ReportContent {
    regions: Vec<RegionSummary>,
    state: Option<&'static str>,
    pub(super) problem: Option<String>,
}

/// What they are told of a region.
#[derive(PartialEq)]
struct RegionSummary {
    name: String,
    label: Option<String>,
    known: bool,
    problem: Option<String>,
    empty: bool,
    things: usize,
}

impl RegionSummary {
    fn of(region: &ShownRegion) -> Self {
        Self {
            name: region.name.clone(),
            label: region.answer.shown().map(|shown| shown.label.clone()),
            known: region.answer.known,
            problem: region.problem.clone(),
            empty: region.empty,
            things: region.things.len(),
        }
    }
}

impl LiveWorker {
    /// Reports another label or state at once, another probability now and then.
    pub(super) fn report(&mut self) {
        let status = &self.counted_status;
        let (content, frame) = {
            let latest = self.shared.latest();
            let content = ReportContent {
                regions: latest.regions.iter().map(RegionSummary::of).collect(),
                state: Some(status.phase.name()),
                problem: latest.problem.as_ref().map(|problem| problem.sentence.clone()),
            };
            (content, latest.frame.as_ref().map_or(0, |observed| observed.frame.number))
        };
        let is_newer = (self.reported.frame, self.reported.unreadable) != (frame, status.unreadable);
        let is_due = self.reported.at.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL);
        // Each picture of a folder is an answer of its own.
        if self.reported.content != content || is_newer && (is_due || self.is_folder) {
            self.telemetry.events.send(Event::Live(Arc::new(self.shared.snapshot())));
            let (at, unreadable) = (Some(Instant::now()), status.unreadable);
            self.reported = LastReport { at, content, frame, unreadable };
        }
    }
}

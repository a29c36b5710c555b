//! What unit tests share: the warnings of the log, answers, a camera, and where threads report.

use std::cell::RefCell;
use std::path::Path;

use log::{LevelFilter, Log, Metadata, Record};
use orco_camera::{CameraPhase, CameraStatus};

use crate::agreement::AgreedAnswer;
use crate::event::Events;
use crate::health::Health;
use crate::live_snapshot::{LiveSnapshot, ShownRegion};
use crate::metric::Metrics;
use crate::prediction::ClassProbability;
use crate::telemetry::Telemetry;

thread_local! {
    /// What was logged on this thread.
    static LOGGED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what each thread logs, for itself: tests may run beside each other.
struct ThreadLog;

impl Log for ThreadLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        LOGGED.with_borrow_mut(|logged| logged.push(record.args().to_string()));
    }

    fn flush(&self) {}
}

/// What the calling thread has logged since its last call, as the service's log has it: warnings and errors. The first
/// call begins.
pub(crate) fn warnings() -> Vec<String> {
    // Another test may have done so.
    let _ = log::set_logger(&ThreadLog);
    log::set_max_level(LevelFilter::Warn);
    LOGGED.take()
}

/// A learned class in an answer; in its set unless it is improbable.
pub(crate) fn class(label: &str, probability: f32) -> ClassProbability {
    ClassProbability { label: label.into(), probability, provisional: false, in_set: probability > 0.3 }
}

/// The answer to one frame, of one class.
pub(crate) fn answer(label: &str, probability: f32, known: bool) -> AgreedAnswer {
    AgreedAnswer { classes: vec![class(label, probability)], frames: 1, known }
}

/// A camera that gives pictures and shows this.
pub(crate) fn showing(regions: Vec<ShownRegion>) -> LiveSnapshot {
    let mut status = CameraStatus::default();
    status.phase = CameraPhase::Running;
    LiveSnapshot { status, regions: regions.into(), ..LiveSnapshot::default() }
}

/// Where the threads of a service with its state in `folder` report.
pub(crate) fn telemetry(folder: &Path) -> Telemetry {
    let health = Health::new(folder, Events::default());
    Telemetry { health, events: Events::default(), metrics: Metrics::default() }
}

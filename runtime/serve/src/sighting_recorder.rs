//! The thread that keeps [`crate::sightings`]: it follows what the service's own camera shows.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;

use crate::error::ServeError;
use crate::event::{Event, Events};
use crate::in_view::known_in_view;
use crate::live::LiveCameraReader;
use crate::service::Service;
use crate::sightings::Sightings;
use crate::worker::{self, Worker};

/// Time between two comparisons of what is shown with what was shown before.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Longest side of a picture, in pixels.
const MAX_PICTURE_SIDE: u32 = 320;

/// Keeps sightings until it is dropped.
#[derive(Debug)]
pub struct SightingRecorder {
    sightings: Sightings,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SightingRecorder {
    /// Keeps what the service's camera sees in a folder, which is made if it is not there. Without a camera nothing is
    /// ever seen.
    ///
    /// # Errors
    /// [`ServeError`] if the folder cannot be used, or the thread not started.
    pub fn start(service: &Service, folder: &Path) -> Result<Self, ServeError> {
        let sightings = service.sightings.clone();
        sightings.open(folder)?;
        let stop = Arc::new(AtomicBool::new(false));
        let Some(live) = service.live() else {
            log::warn!("there is a folder for sightings, but no camera: nothing will ever be seen");
            return Ok(Self { sightings, stop, thread: None });
        };
        let worker = SightingWorker {
            sightings: sightings.clone(),
            live: live.reader(),
            events: service.events.clone(),
            failing: service.metrics.sightings_failing.clone(),
            stop: Arc::clone(&stop),
        };
        let thread = Some(worker::start(worker, &service.health)?);
        Ok(Self { sightings, stop, thread })
    }
}

impl Drop for SightingRecorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(worker::join);
        // Also where there is no thread: the folder is free for another service.
        self.sightings.end();
    }
}

struct SightingWorker {
    sightings: Sightings,
    live: LiveCameraReader,
    events: Events,
    /// 1 while sightings cannot be written, for Prometheus.
    failing: Gauge,
    stop: Arc<AtomicBool>,
}

impl Worker for SightingWorker {
    const NAME: &'static str = "sightings";

    fn run(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError> {
        up();
        while !worker::sleep(POLL_INTERVAL, || self.is_stopping()) {
            let shown = known_in_view(&self.live.snapshot());
            if self.sightings.see(shown, || self.live.reduced_jpeg(MAX_PICTURE_SIDE)) {
                self.events.send(Event::Sightings);
            }
            // Here, so that nobody who asks for metrics waits for a disk that hangs.
            self.failing.set(i64::from(self.sightings.are_failing()));
        }
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use orco_runtime::bundle::Bundle;
    use orco_runtime::learner::LearnerSettings;
    use orco_runtime::store::Store;

    use super::*;

    #[test]
    fn without_a_camera_the_folder_is_free_once_the_recorder_is_let_go() {
        let [state, folder] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let bundle = Bundle::open("../../models/cifar100-edge").unwrap();
        let service = Service::open(bundle, Store::new(state.path()), LearnerSettings::default()).unwrap();
        drop(SightingRecorder::start(&service, folder.path()).unwrap());
        Sightings::default().open(folder.path()).unwrap();
    }
}

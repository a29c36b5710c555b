//! The thread that keeps [`crate::sightings`]: it follows what the service's own camera shows.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::ServeError;
use crate::event::{Event, Events};
use crate::in_view::known_in_view;
use crate::live::LiveCameraReader;
use crate::service::Service;
use crate::sightings::Sightings;
use crate::worker::{self, Worker};

/// How often what is shown is compared with what was shown before.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Longest side of a picture, in pixels.
const MAX_PICTURE_SIDE: u32 = 320;

/// Keeps sightings until it is dropped.
#[derive(Debug)]
pub struct SightingRecorder {
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
        service.sightings.open(folder)?;
        let stop = Arc::new(AtomicBool::new(false));
        let Some(live) = service.live() else {
            log::warn!("there is a folder for sightings, but no camera: nothing will ever be seen");
            return Ok(Self { stop, thread: None });
        };
        let worker = SightingWorker {
            sightings: service.sightings.clone(),
            live: live.reader(),
            events: service.events.clone(),
            stop: Arc::clone(&stop),
        };
        let thread = Some(worker::start(worker, &service.health)?);
        Ok(Self { stop, thread })
    }
}

impl Drop for SightingRecorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(worker::join);
    }
}

struct SightingWorker {
    sightings: Sightings,
    live: LiveCameraReader,
    events: Events,
    stop: Arc<AtomicBool>,
}

impl Worker for SightingWorker {
    const NAME: &'static str = "sightings";

    fn run(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError> {
        up();
        while !worker::sleep(LOOK_INTERVAL, || self.is_stopping()) {
            let shown = known_in_view(&self.live.snapshot());
            if self.sightings.see(shown, || self.live.reduced(MAX_PICTURE_SIDE)) {
                self.events.send(Event::Sightings);
            }
        }
        self.sightings.end();
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

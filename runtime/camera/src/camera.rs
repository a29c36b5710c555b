//! A thread that reads a camera, opens it again when it goes away, and keeps its newest frame.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use orco_runtime::image::ImageError;
use orco_runtime::image_rs::RgbImage;

use crate::error::CameraError;
use crate::folder::Folder;
use crate::frame::{Frame, Picture};
use crate::gstreamer::{self, Gstreamer};
use crate::http::Http;
use crate::source::{Source, without_passwords};
use crate::status::{Phase, Rate, Status};
use crate::stop::Stop;

/// How long after the first failure a camera is tried again; twice as long after every further one.
pub const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How long at most.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Pictures one after another that cannot be read, after which a camera is opened anew.
pub const GARBAGE: u32 = 20;

/// An open source.
pub(crate) trait Pictures {
    /// The next picture; `None` if there was none for a while, so that a thread can look whether it is to stop.
    fn next(&mut self) -> Result<Option<Picture>, CameraError>;

    /// Whether it may help to open it anew when its pictures cannot be read.
    fn is_broken_by_garbage(&self) -> bool {
        true
    }
}

fn open(source: &Source, stop: &Stop) -> Result<Box<dyn Pictures>, CameraError> {
    Ok(match source {
        Source::Http(url) => Box::new(Http::open(url, stop)?),
        Source::Rtsp(url) => Box::new(Gstreamer::open(gstreamer::of_address(url), stop)?),
        Source::Gstreamer(pipeline) => Box::new(Gstreamer::open(gstreamer::of_text(pipeline)?, stop)?),
        Source::Folder(path) => Box::new(Folder::open(path, stop)?),
        #[cfg(target_os = "linux")]
        Source::V4l2(path) => Box::new(crate::v4l2::V4l2::open(path, stop)?),
        #[cfg(not(target_os = "linux"))]
        Source::V4l2(_) => return Err(CameraError::Unsupported),
    })
}

struct Shared {
    slot: Mutex<Slot>,
    arrived: Condvar,
    stop: Stop,
}

struct Slot {
    newest: Option<Arc<Frame>>,
    status: Status,
    rate: Rate,
    /// Pictures one after another that could not be read, and what was wrong with the last.
    garbage: (u32, String),
}

impl Shared {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        // A thread that broke off leaves the slot as it was.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, picture: Picture) {
        let mut slot = self.slot();
        let now = Instant::now();
        slot.status.frames += 1;
        slot.status.phase = Phase::Running;
        slot.rate.count(now);
        slot.newest = Some(Arc::new(Frame { number: slot.status.frames, taken: now, picture }));
        drop(slot);
        self.arrived.notify_all();
    }

    fn enter(&self, phase: Phase) {
        let mut slot = self.slot();
        if let Phase::Away { .. } = phase {
            slot.newest = None;
            slot.rate = Rate::default();
        }
        slot.garbage.0 = 0;
        slot.status.phase = phase;
        drop(slot);
        self.arrived.notify_all();
    }
}

/// A camera: its newest frame, as long as it is held.
///
/// One frame is kept and replaced by the next, so memory is bounded however slowly frames are taken. A camera that
/// fails is opened again after half a second, then after twice as long each time, at most ten seconds; a single frame
/// makes it half a second again. One that sends [`GARBAGE`] pictures one after another that cannot be read is opened
/// anew, too, but for a folder.
pub struct Camera {
    source: Source,
    shared: Arc<Shared>,
}

impl Camera {
    /// Starts the thread that reads a camera; whether it is there, [`Camera::status`] tells.
    ///
    /// # Errors
    /// What the system says if the thread cannot be started.
    pub fn open(source: Source) -> std::io::Result<Self> {
        let garbage = (0, String::new());
        let slot = Slot { newest: None, status: Status::default(), rate: Rate::default(), garbage };
        let shared = Arc::new(Shared { slot: slot.into(), arrived: Condvar::new(), stop: Stop::default() });
        let (theirs, wanted) = (Arc::clone(&shared), source.clone());
        thread::Builder::new().name("camera".into()).spawn(move || keep_reading(&wanted, &theirs))?;
        Ok(Self { source, shared })
    }

    /// What is read.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Whether it is there, and what it gives.
    pub fn status(&self) -> Status {
        let slot = self.shared.slot();
        Status { frames_per_second: slot.rate.per_second(Instant::now()), ..slot.status.clone() }
    }

    /// The newest frame, if the camera is there and gave one.
    pub fn newest(&self) -> Option<Arc<Frame>> {
        self.shared.slot().newest.clone()
    }

    /// The newest frame after number `after` (0 for any), waited for at most so long.
    pub fn wait(&self, after: u64, most: Duration) -> Option<Arc<Frame>> {
        let is_old = |slot: &mut Slot| slot.newest.as_ref().is_none_or(|frame| frame.number <= after);
        let waited = self.shared.arrived.wait_timeout_while(self.shared.slot(), most, is_old);
        let (slot, _) = waited.unwrap_or_else(PoisonError::into_inner);
        slot.newest.clone().filter(|frame| frame.number > after)
    }

    /// Decodes a frame of this camera, and notes in its status whether that could be done. With a side, a JPEG picture
    /// is reduced as far as so many pixels are left in width and height.
    ///
    /// # Errors
    /// [`ImageError`] if the frame is no picture, is damaged or too large.
    pub fn decode(&self, frame: &Frame, side: Option<u32>) -> Result<RgbImage, ImageError> {
        let decoded = side.map_or_else(|| frame.decode(), |side| frame.decode_reduced(side));
        let mut slot = self.shared.slot();
        match &decoded {
            Ok(_) => slot.garbage.0 = 0,
            Err(error) => {
                slot.garbage = (slot.garbage.0 + 1, error.to_string());
                slot.status.unreadable += 1;
                slot.status.unreadable_reason = Some(error.to_string());
            }
        }
        decoded
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        self.shared.stop.set();
    }
}

impl fmt::Debug for Camera {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Camera").field("source", &self.source).field("status", &self.status()).finish()
    }
}

fn keep_reading(source: &Source, shared: &Shared) {
    let mut pause = FIRST_PAUSE;
    let mut tries = 0;
    while !shared.stop.is_set() {
        let frames = shared.slot().status.frames;
        let error = match catch_unwind(AssertUnwindSafe(|| read(source, shared))) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => CameraError::BrokeOff(message(panic.as_ref())),
        };
        // One that was there begins anew; one that sends only garbage does not.
        let was_there = shared.slot().status.frames > frames && !matches!(error, CameraError::Garbage { .. });
        if was_there {
            (pause, tries) = (FIRST_PAUSE, 0);
        }
        tries += 1;
        let reason = without_passwords(&error.to_string());
        log::warn!("camera: {source} is not there, trying again in {:.1} s: {reason}", pause.as_secs_f32());
        shared.enter(Phase::Away { reason, tries });
        shared.stop.wait(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it did not say why").to_owned()
}

/// Reads a camera until it fails; returns once it is told to stop.
fn read(source: &Source, shared: &Shared) -> Result<(), CameraError> {
    let mut pictures = open(source, &shared.stop)?;
    #[cfg(test)]
    tests::break_off(source);
    shared.slot().status.opened += 1;
    log::info!("camera: {source} is open");
    while !shared.stop.is_set() {
        if let Some(picture) = pictures.next()? {
            shared.put(picture);
        } else if matches!(shared.slot().status.phase, Phase::Away { .. }) {
            // It is there, and has nothing to show yet.
            shared.enter(Phase::Opening);
        }
        let (count, reason) = shared.slot().garbage.clone();
        if count >= GARBAGE && pictures.is_broken_by_garbage() {
            return Err(CameraError::Garbage { count, reason });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    static BROKE_OFF: AtomicBool = AtomicBool::new(false);

    /// Breaks the first reading of a folder of that name off.
    pub(super) fn break_off(source: &Source) {
        if source.to_string().contains("breaks-off") && !BROKE_OFF.swap(true, Ordering::Relaxed) {
            panic!("a test broke it off");
        }
    }

    #[test]
    fn a_camera_whose_reading_breaks_off_is_away_and_comes_back() {
        let folder = tempfile::Builder::new().prefix("breaks-off").tempdir().unwrap();
        let camera = Camera::open(Source::Folder(folder.path().into())).unwrap();
        let until = |what: &str, is: &dyn Fn(&Status) -> bool| {
            let end = Instant::now() + Duration::from_secs(60);
            while !is(&camera.status()) {
                assert!(Instant::now() < end, "never {what}: {camera:?}");
                thread::sleep(Duration::from_millis(5));
            }
        };
        let is_away = |status: &Status| matches!(&status.phase, Phase::Away { reason, .. } if reason == "reading it broke off: a test broke it off");
        until("away", &is_away);
        until("open again", &|status| status.opened == 1);
        std::fs::copy("../../examples/shots/learn/mug/1.jpg", folder.path().join("1.jpg")).unwrap();
        assert!(camera.wait(0, Duration::from_secs(60)).is_some());
    }
}

//! A thread that reads a camera, opens it again when it goes away, and keeps its newest frame.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use orco_runtime::image::ImageError;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::threads::{catch_panic, lock};

use crate::error::CameraError;
use crate::folder::KnownFiles;
use crate::frame::{CameraFrame, CameraPicture};
use crate::opening::{OpenFunction, open};
use crate::password::mask_text;
use crate::source::{CameraSource, MAX_UNREADABLE};
use crate::status::{CameraPhase, CameraStatus, FrameRate};
use crate::stop::Stop;

/// Pause before a camera that failed is opened again for the first time; each further pause is twice as long.
pub const MIN_RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause before a camera is opened again.
pub const MAX_RETRY_PAUSE: Duration = Duration::from_secs(10);

/// How long a picture that comes but once, as in a folder, is held for somebody to be done with it.
pub const MAX_HOLD: Duration = Duration::from_secs(5);

#[derive(Default)]
struct SharedReader {
    state: Mutex<ReaderState>,
    arrived: Condvar,
    stop: Stop,
}

/// Unreadable pictures one after another.
#[derive(Clone, Default)]
struct Unreadable {
    count: u32,
    /// What was wrong with the last.
    reason: String,
}

/// What came since the last opening.
#[derive(Default)]
struct OpeningRecord {
    /// Frames that had come before it.
    frames_before: u64,
    /// Whether a frame could be decoded.
    is_decoded: bool,
    /// Whether a frame could not.
    is_unreadable: bool,
}

#[derive(Default)]
struct ReaderState {
    newest: Option<Arc<CameraFrame>>,
    /// Number of the last frame that somebody is done with.
    done: u64,
    status: CameraStatus,
    rate: FrameRate,
    unreadable: Unreadable,
    opening: OpeningRecord,
}

impl ReaderState {
    /// Begins a record of another opening.
    fn begin_opening(&mut self) {
        self.opening = OpeningRecord { frames_before: self.status.frames, ..OpeningRecord::default() };
    }

    /// Notes whether a frame could be decoded; those of earlier openings do not count.
    fn note_decoding(&mut self, frame: u64, is_decoded: bool) {
        if frame > self.opening.frames_before {
            self.opening.is_decoded |= is_decoded;
            self.opening.is_unreadable |= !is_decoded;
        }
    }

    /// Whether the camera was there since the last opening: it gave frames, and one could be decoded if any was tried.
    fn was_there(&self) -> bool {
        let OpeningRecord { frames_before, is_decoded, is_unreadable } = self.opening;
        self.status.frames > frames_before && (is_decoded || !is_unreadable)
    }
}

impl SharedReader {
    fn state(&self) -> MutexGuard<'_, ReaderState> {
        // A thread that panicked leaves the state as it was.
        lock(&self.state)
    }

    fn put(&self, picture: CameraPicture) {
        let mut state = self.state();
        let now = Instant::now();
        state.status.frames += 1;
        state.status.phase = CameraPhase::Running;
        state.rate.count(now);
        state.newest = Some(Arc::new(CameraFrame { number: state.status.frames, taken: now, picture }));
        drop(state);
        self.arrived.notify_all();
    }

    /// Waits until somebody is done with the newest frame, for a few seconds at most: nobody may be there.
    fn wait_until_done(&self) {
        let is_wanted = |state: &mut ReaderState| state.done < state.status.frames && !self.stop.is_set();
        drop(self.arrived.wait_timeout_while(self.state(), MAX_HOLD, is_wanted));
    }

    fn enter(&self, phase: CameraPhase) {
        let mut state = self.state();
        if let CameraPhase::Away { .. } = phase {
            state.newest = None;
            state.rate = FrameRate::default();
        }
        state.unreadable.count = 0;
        state.status.phase = phase;
        drop(state);
        self.arrived.notify_all();
    }
}

/// A camera: its newest frame, as long as it is held.
///
/// One frame is kept and replaced by the next, so memory is bounded however slowly frames are taken. A folder gives its
/// next picture once somebody is done with the newest ([`Camera::done_with`]), or after [`MAX_HOLD`].
///
/// A camera that fails is opened again after [`MIN_RETRY_PAUSE`], then after twice as long each time, at most
/// [`MAX_RETRY_PAUSE`]. A frame that came makes the next pause the shortest one again; frames of which none could be
/// decoded do not. A camera other than a folder that sends [`MAX_UNREADABLE`] unreadable pictures one after another is
/// also opened again.
pub struct Camera {
    source: CameraSource,
    shared: Arc<SharedReader>,
}

impl Camera {
    /// Starts the thread that reads a camera; whether it is there, [`Camera::status`] tells.
    ///
    /// # Errors
    /// What the system says if the thread cannot be started.
    pub fn open(source: CameraSource) -> std::io::Result<Self> {
        Self::open_by(source, open)
    }

    fn open_by(source: CameraSource, open: OpenFunction) -> std::io::Result<Self> {
        let shared = Arc::new(SharedReader::default());
        let camera = Self { source: source.clone(), shared: Arc::clone(&shared) };
        let reader = CameraReader { source, open, shared, known: KnownFiles::default(), logged: String::new() };
        thread::Builder::new().name("camera".into()).spawn(move || reader.keep_reading())?;
        Ok(camera)
    }

    /// What is read.
    pub fn source(&self) -> &CameraSource {
        &self.source
    }

    /// Whether it is there, and what it gives.
    pub fn status(&self) -> CameraStatus {
        let state = self.shared.state();
        CameraStatus { frames_per_second: state.rate.per_second(Instant::now()), ..state.status.clone() }
    }

    /// The newest frame, if the camera is there and gave one.
    pub fn newest(&self) -> Option<Arc<CameraFrame>> {
        self.shared.state().newest.clone()
    }

    /// Says that nobody needs the frames up to that number any more: a folder then gives its next picture.
    pub fn done_with(&self, number: u64) {
        let mut state = self.shared.state();
        if number > state.done {
            state.done = number;
            self.shared.arrived.notify_all();
        }
    }

    /// The newest frame after number `after` (0 for any). Waits for it at most `timeout`, and not once the camera is
    /// stopped; `None` if none came.
    pub fn wait(&self, after: u64, timeout: Duration) -> Option<Arc<CameraFrame>> {
        let state = self.shared.state();
        let is_old = |state: &mut ReaderState| state.newest.as_ref().is_none_or(|frame| frame.number <= after);
        let is_awaited = |state: &mut ReaderState| is_old(state) && !self.shared.stop.is_set();
        let waited = self.shared.arrived.wait_timeout_while(state, timeout, is_awaited);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.newest.clone().filter(|frame| frame.number > after)
    }

    /// Decodes a frame of this camera as [`CameraFrame::decode`] does, and notes in the status whether that succeeded.
    ///
    /// # Errors
    /// As for [`CameraFrame::decode`].
    pub fn decode(&self, frame: &CameraFrame, side: Option<u32>) -> Result<RgbImage, ImageError> {
        let decoded = frame.decode(side);
        let mut state = self.shared.state();
        state.note_decoding(frame.number, decoded.is_ok());
        match &decoded {
            Ok(_) => state.unreadable.count = 0,
            Err(error) => {
                state.unreadable = Unreadable { count: state.unreadable.count + 1, reason: error.to_string() };
                state.status.unreadable += 1;
                state.status.unreadable_reason = Some(error.to_string());
            }
        }
        decoded
    }

    /// Stops reading for good. A pipeline of GStreamer's that runs has ended when this returns.
    pub fn stop(&self) {
        self.shared.stop.set();
        // A thread that has just checked whether it is to stop is waiting now.
        drop(self.shared.state());
        self.shared.arrived.notify_all();
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Camera {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Camera").field("source", &self.source).field("status", &self.status()).finish()
    }
}

/// Reads a camera on a thread of its own.
struct CameraReader {
    source: CameraSource,
    open: OpenFunction,
    shared: Arc<SharedReader>,
    known: KnownFiles,
    /// Why the camera is not there, as the log said last; empty once it is there again.
    logged: String,
}

impl CameraReader {
    /// Reads until it is told to stop: a camera that fails is opened again after a pause.
    fn keep_reading(mut self) {
        let mut pause = MIN_RETRY_PAUSE;
        let mut tries = 0;
        while !self.shared.stop.is_set() {
            self.shared.state().begin_opening();
            let error = match catch_panic(|| self.read()) {
                Ok(Ok(())) => return,
                // The stop cut its connection, or ended its pipeline: the camera is not away.
                _ if self.shared.stop.is_set() => return,
                Ok(Err(error)) => error,
                Err(why) => CameraError::Panicked(why),
            };
            if self.shared.state().was_there() {
                (pause, tries) = (MIN_RETRY_PAUSE, 0);
            }
            tries += 1;
            let reason = mask_text(&error.to_string());
            // Each reason is logged once: the camera may be away for months.
            if reason != self.logged {
                let source = &self.source;
                log::warn!("camera: {source} is not there, trying again in {:.1} s: {reason}", pause.as_secs_f32());
                self.logged.clone_from(&reason);
            }
            self.shared.enter(CameraPhase::Away { reason, tries });
            self.shared.stop.wait(pause);
            pause = (2 * pause).min(MAX_RETRY_PAUSE);
        }
    }

    /// Opens the camera and reads it until it fails or the reader is told to stop.
    fn read(&mut self) -> Result<(), CameraError> {
        let shared = &self.shared;
        let mut pictures = (self.open)(&self.source, &shared.stop, &mut self.known)?;
        let mut was_read = false;
        while !shared.stop.is_set() {
            let picture = pictures.next_picture()?;
            // Only once it was read: a pipeline of GStreamer's also starts without its camera.
            if !std::mem::replace(&mut was_read, true) {
                shared.state().status.opened += 1;
                // At the level of the warning that it was not there, so that whoever read that also reads this.
                let level = if self.logged.is_empty() { log::Level::Info } else { log::Level::Warn };
                log::log!(level, "camera: {} is open", self.source);
                self.logged.clear();
            }
            if let Some(picture) = picture {
                shared.put(picture);
                if pictures.gives_each_picture_once() {
                    shared.wait_until_done();
                }
            } else if matches!(shared.state().status.phase, CameraPhase::Away { .. }) {
                // It is there, and has nothing to show yet.
                shared.enter(CameraPhase::Opening);
            }
            let Unreadable { count, reason } = shared.state().unreadable.clone();
            if count >= MAX_UNREADABLE && !pictures.gives_each_picture_once() {
                return Err(CameraError::Unreadable { count, reason });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

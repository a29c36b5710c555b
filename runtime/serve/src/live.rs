//! Watches the service's own camera, and answers for what it shows.
//!
//! One thread takes the newest frame, decodes it no larger than the backbone needs, and asks [`Answers`] what it shows.
//! It asks again only when it has the answer, so a request waits for one frame at most; where many requests wait, it
//! skips frames.

mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::body::Bytes;
use orco_camera::{Camera, CameraFrame, CameraPhase};
use orco_runtime::image::{self, DecodingCost, ImageError, Preprocessing};
use orco_runtime::image_rs::RgbImage;
use orco_runtime::threads::lock;
use tokio::sync::watch;

use self::worker::LiveWorker;
use crate::admission::{Admission, MAX_KEPT_SIDE};
use crate::answers::Answers;
use crate::camera_regions::CameraRegions;
use crate::camera_scene::CameraScene;
use crate::error::ServeError;
use crate::inbox::Inbox;
use crate::live_snapshot::{LiveSnapshot, ShownRegion};
use crate::refusal::{ErrorCode, Refusal};
use crate::telemetry::Telemetry;

/// How often the camera's frames are processed, and over how many a label is agreed upon.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LiveSettings {
    /// Over how many frames a label is agreed upon ([`crate::agreement`]). Each picture of a folder decides alone.
    pub agreement_frames: usize,
    /// Frames that are processed in a second, at most.
    pub per_second: f32,
}

impl Default for LiveSettings {
    /// Five frames, ten a second.
    fn default() -> Self {
        Self { agreement_frames: 5, per_second: 10.0 }
    }
}

orco_runtime::setters! {
    LiveSettings:
    agreement_frames: usize,
    per_second: f32,
}

/// A frame that was processed.
pub struct ObservedFrame {
    /// As it came.
    pub frame: Arc<CameraFrame>,
    picture: RgbImage,
    jpeg: OnceLock<Bytes>,
}

impl ObservedFrame {
    /// A JPEG of it, at most [`MAX_KEPT_SIDE`] pixels wide and high; made once.
    ///
    /// # Panics
    /// Never: writing a picture into memory cannot fail.
    pub fn jpeg(&self) -> Bytes {
        self.jpeg.get_or_init(|| Bytes::from(image::reduced_jpeg(&self.picture, MAX_KEPT_SIDE))).clone()
    }
}

/// What was made of the newest frame.
#[derive(Default)]
struct LatestView {
    /// None while no frame was processed.
    frame: Option<Arc<ObservedFrame>>,
    /// What its regions show, or the frame as a whole, as programs are told it.
    regions: Arc<[ShownRegion]>,
    /// Why frames cannot be processed, whatever else is going on.
    problem: Option<Refusal>,
    /// The frame of the last shot that was not taken.
    refused_shot: Option<Arc<CameraFrame>>,
}

struct SharedCamera {
    camera: Camera,
    scene: CameraScene,
    regions: CameraRegions,
    latest: Mutex<LatestView>,
    /// Number of the newest frame that was processed; 0 while there is none.
    newest: watch::Sender<u64>,
    stop: AtomicBool,
}

/// What the camera's thread asks and tells.
pub(crate) struct LivePeers {
    pub inbox: Inbox,
    pub answers: Answers,
    pub scene: CameraScene,
    pub regions: CameraRegions,
    pub telemetry: Telemetry,
}

/// The service's own camera. Dropping it ends its thread.
pub struct LiveCamera {
    shared: Arc<SharedCamera>,
    thread: Option<JoinHandle<()>>,
}

/// Reads what the camera shows, for a thread that may outlive the [`LiveCamera`].
pub(crate) struct LiveCameraReader(Arc<SharedCamera>);

impl LiveCameraReader {
    /// What the camera shows, and its status.
    pub fn snapshot(&self) -> LiveSnapshot {
        self.0.snapshot()
    }

    /// A small JPEG of the newest frame.
    pub fn jpeg(&self) -> Option<Bytes> {
        self.0.shown_frame().map(|frame| frame.jpeg())
    }

    /// A JPEG of the newest frame, at most `side` pixels wide and high.
    pub fn reduced_jpeg(&self, side: u32) -> Option<Vec<u8>> {
        self.0.shown_frame().map(|frame| image::reduced_jpeg(&frame.picture, side))
    }
}

impl Drop for LiveCamera {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // The thread releases the camera only when it next checks `stop`. The process may end before that and leave the
        // camera's pipeline running.
        self.shared.camera.stop();
        // A frame must not be computed while the process ends: ONNX Runtime's tables are gone then.
        self.thread.take().into_iter().for_each(crate::worker::join);
    }
}

impl LiveCamera {
    /// Starts the thread, which decodes pictures to at least the size of the bundle's canvas, as far as `admission`
    /// lets it.
    ///
    /// # Errors
    /// [`ServeError`] if the thread cannot be started.
    pub(crate) fn start(
        camera: Camera,
        settings: LiveSettings,
        input: Preprocessing,
        admission: Admission,
        peers: LivePeers,
    ) -> Result<Self, ServeError> {
        let (scene, regions) = (peers.scene.clone(), peers.regions.clone());
        let (latest, newest) = (Mutex::default(), watch::Sender::new(0));
        let shared = Arc::new(SharedCamera { camera, scene, regions, latest, newest, stop: AtomicBool::new(false) });
        let thread = Some(LiveWorker::start(Arc::clone(&shared), settings, input, admission, peers)?);
        Ok(Self { shared, thread })
    }

    /// What it shows, and its status.
    pub fn snapshot(&self) -> LiveSnapshot {
        self.shared.snapshot()
    }

    /// A reader for a thread that may outlive this.
    pub(crate) fn reader(&self) -> LiveCameraReader {
        LiveCameraReader(Arc::clone(&self.shared))
    }

    /// The newest frame that was processed.
    ///
    /// # Errors
    /// [`Refusal`] if the camera is not there, or gave none yet.
    pub fn latest_frame(&self) -> Result<Arc<ObservedFrame>, Refusal> {
        self.shared.shown_frame().ok_or_else(|| self.no_frame())
    }

    /// As [`LiveCamera::latest_frame`], once there is a frame after number `after`, or `timeout` has passed.
    ///
    /// # Errors
    /// As for [`LiveCamera::latest_frame`].
    pub async fn frame_after(&self, after: u64, timeout: Duration) -> Result<Arc<ObservedFrame>, Refusal> {
        let mut newest = self.frame_numbers();
        let _ = tokio::time::timeout(timeout, newest.wait_for(|newest| *newest > after)).await;
        self.latest_frame()
    }

    /// Numbers of frames that are processed, from now on.
    pub fn frame_numbers(&self) -> watch::Receiver<u64> {
        self.shared.newest.subscribe()
    }

    /// The frame for a shot: the newest one, or that of a number. Three frames are held: the newest, the newest that
    /// was processed, whose number programs are told, and that of the last shot that was not taken.
    ///
    /// # Errors
    /// [`Refusal`] if the camera is not there, or the frame is gone.
    pub fn frame_for_shot(&self, number: Option<u64>) -> Result<Arc<CameraFrame>, Refusal> {
        let newest = self.shared.camera.newest();
        let Some(number) = number else { return newest.ok_or_else(|| self.no_frame()) };
        let latest = self.shared.latest();
        let shown = latest.frame.as_ref().map(|observed| Arc::clone(&observed.frame));
        let refused = latest.refused_shot.clone();
        drop(latest);
        let frame = [newest, shown, refused].into_iter().flatten().find(|frame| frame.number == number);
        frame.ok_or_else(|| {
            let sentence = format!("frame {number} is not held any more: take another shot");
            Refusal::new(ErrorCode::CameraFrameExpired, sentence).with("frame", number)
        })
    }

    /// What decoding a frame takes, at its full size, or at `side` pixels or more.
    ///
    /// # Errors
    /// [`Refusal`] if it is no picture.
    pub fn decoding_cost(&self, frame: &CameraFrame, side: Option<u32>) -> Result<DecodingCost, Refusal> {
        frame.decoding_cost(side).map_err(unreadable)
    }

    /// A frame at its full size, or at `side` pixels or more.
    ///
    /// # Errors
    /// [`Refusal`] if it cannot be decoded.
    pub fn decode(&self, frame: &CameraFrame, side: Option<u32>) -> Result<RgbImage, Refusal> {
        self.shared.camera.decode(frame, side).map_err(unreadable)
    }

    /// Keeps the frame of a shot that was not taken, in case it is wanted anyway; none after one that was taken.
    pub fn keep_refused_shot(&self, frame: Option<Arc<CameraFrame>>) {
        self.shared.latest().refused_shot = frame;
    }

    /// Why there is no frame.
    fn no_frame(&self) -> Refusal {
        if let Some(problem) = self.shared.latest().problem.clone() {
            return problem;
        }
        match self.shared.camera.status().phase {
            CameraPhase::Away { reason, .. } => {
                let sentence = format!("the camera is not there, trying again: {reason}");
                Refusal::new(ErrorCode::CameraUnavailable, sentence).with("reason", reason)
            }
            _ => Refusal::new(ErrorCode::CameraStarting, "the camera gave no picture yet; try again"),
        }
    }
}

fn unreadable(error: ImageError) -> Refusal {
    let why = error.to_string();
    Refusal::new(ErrorCode::CameraPictureUnreadable, format!("the camera's picture {why}")).with("reason", why)
}

fn is_away(phase: &CameraPhase) -> bool {
    matches!(phase, CameraPhase::Away { .. })
}

impl SharedCamera {
    fn latest(&self) -> MutexGuard<'_, LatestView> {
        lock(&self.latest)
    }

    /// The newest frame that was processed; none while the camera is away, even if the thread that clears what it
    /// showed is still waiting for a frame.
    fn shown_frame(&self) -> Option<Arc<ObservedFrame>> {
        let is_away = is_away(&self.camera.status().phase);
        self.latest().frame.clone().filter(|_| !is_away)
    }

    fn snapshot(&self) -> LiveSnapshot {
        let status = self.camera.status();
        let latest = self.latest();
        let is_away = is_away(&status.phase);
        let frame = latest.frame.as_ref().filter(|_| !is_away).map(|observed| &observed.frame);
        let regions = if is_away { Arc::default() } else { Arc::clone(&latest.regions) };
        LiveSnapshot {
            source: self.camera.source().to_string(),
            status,
            problem: latest.problem.as_ref().map(|problem| problem.sentence.clone()),
            regions,
            scene: self.scene.status(),
            frame: frame.map(|frame| frame.number),
            age: frame.map(|frame| frame.taken.elapsed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use orco_runtime::bundle::Bundle;
    use orco_runtime::learner::LearnerSettings;
    use orco_runtime::store::Store;

    use super::*;
    use crate::service::Service;

    #[test]
    fn the_cameras_thread_has_ended_once_the_service_is_let_go() {
        let (state, pictures) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let bundle = Bundle::open("../../models/cifar100-edge").unwrap();
        let service = Service::open(bundle, Store::new(state.path()), LearnerSettings::default()).unwrap();
        let source = format!("folder:{}", pictures.path().display()).parse().unwrap();
        service.watch_camera(source, LiveSettings::default()).unwrap();
        let held = Arc::downgrade(&service.live().unwrap().shared);
        drop(service);
        assert!(held.upgrade().is_none());
    }
}

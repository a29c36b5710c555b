//! What the service's own camera shows.
//!
//! One thread takes the newest frame, decodes it no larger than the backbone needs, and asks [`Answers`] what it shows.
//! It asks again only when it has the answer, so a request waits for one frame at most; where many requests wait, it
//! skips frames.

mod answered_frame;
mod reported;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use orco_camera::{Camera, CameraFrame, CameraPhase, CameraStatus};
use orco_runtime::image::{self, DecodingCost, ImageError, Preprocessing};
use orco_runtime::image_rs::RgbImage;
use orco_runtime::scene::NamedRegion;
use orco_runtime::threads::lock;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::admission::{Admission, picture_bytes};
use crate::agreement::AgreedAnswer;
use crate::answers::Answers;
use crate::camera_regions::CameraRegions;
use crate::camera_scene::{self, CameraScene, SeenRegion};
use crate::error::{Refusal, ServeError};
use crate::inbox::Inbox;
use crate::knowledge::Knowledge;
use crate::prediction::ClassProbability;
use crate::telemetry::Telemetry;
use crate::thing_tracks::{AnsweredThing, ThingIds};
use crate::worker::{self, Worker};
use answered_frame::{RegionTrack, ShownRegion};
use reported::Reported;

/// Width and height of the live picture at most, in pixels.
pub const VIEW: u32 = 640;
/// Most bytes of a picture that is held in case somebody looks.
const HELD: usize = 4 << 20;
/// How long the thread waits for a frame before it looks after other things.
const TICK: Duration = Duration::from_millis(250);

/// How often the camera's frames are processed, and over how many a label is agreed upon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveSettings {
    /// Over how many frames a label is agreed upon ([`crate::agreement`]).
    pub frames: usize,
    /// Frames that are processed in a second, at most.
    pub per_second: f32,
}

impl Default for LiveSettings {
    /// Five frames, ten a second.
    fn default() -> Self {
        Self { frames: 5, per_second: 10.0 }
    }
}

/// A frame that was processed.
pub struct ObservedFrame {
    /// As it came.
    pub frame: Arc<CameraFrame>,
    picture: RgbImage,
    view: OnceLock<Bytes>,
}

impl ObservedFrame {
    /// A JPEG of it, at most [`VIEW`] pixels wide and high; made once.
    ///
    /// # Panics
    /// Never: writing a picture into memory cannot fail.
    pub fn view(&self) -> Bytes {
        self.view.get_or_init(|| Bytes::from(image::reduced_jpeg(&self.picture, VIEW))).clone()
    }
}

/// What is shown now.
#[derive(Default)]
struct Now {
    seen: Option<Arc<ObservedFrame>>,
    /// What its regions show, or the frame as a whole.
    regions: Vec<ShownRegion>,
    /// Why frames cannot be processed, whatever else is going on.
    problem: Option<String>,
    /// The frame of the last shot that was not taken.
    refused: Option<Arc<CameraFrame>>,
}

struct SharedCamera {
    camera: Camera,
    scene: CameraScene,
    regions: CameraRegions,
    now: Mutex<Now>,
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

/// The service's own camera.
pub struct Live(Arc<SharedCamera>);

/// What the camera shows, for a thread that may live longer than it.
pub(crate) struct LiveReader(Arc<SharedCamera>);

impl LiveReader {
    /// As [`Live::json`].
    pub fn json(&self) -> Value {
        self.0.json()
    }

    /// A small JPEG of the newest frame.
    pub fn view(&self) -> Option<Bytes> {
        let seen = self.0.now().seen.clone();
        seen.map(|seen| seen.view())
    }

    /// A JPEG of the newest frame, at most `side` pixels wide and high.
    pub fn reduced(&self, side: u32) -> Option<Vec<u8>> {
        let seen = self.0.now().seen.clone();
        seen.map(|seen| image::reduced_jpeg(&seen.picture, side))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

impl Live {
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
        let LivePeers { inbox, answers, scene, regions, telemetry } = peers;
        let (now, newest) = (Mutex::default(), watch::Sender::new(0));
        let (looked_at, ids) = (regions.get(), ThingIds::default());
        let shared = Arc::new(SharedCamera { camera, scene, regions, now, newest, stop: AtomicBool::new(false) });
        let health = telemetry.health.clone();
        let worker = LiveWorker {
            shared: Arc::clone(&shared),
            tracks: RegionTrack::of_all(&looked_at, settings.frames, &ids),
            regions: looked_at,
            frames: settings.frames,
            ids,
            input,
            admission,
            pause: Duration::from_secs_f32(1.0 / settings.per_second.clamp(0.01, 1000.0)),
            knowledge: answers.knowledge(),
            inbox,
            answers,
            telemetry,
            last: 0,
            has_panicked: false,
            reported: Reported::default(),
            counted: CameraStatus::default(),
        };
        worker::start(worker, &health)?;
        Ok(Self(shared))
    }

    /// What it shows, and whether it is there.
    pub fn json(&self) -> Value {
        self.0.json()
    }

    /// Reads what the camera shows, for a thread that may live longer.
    pub(crate) fn reader(&self) -> LiveReader {
        LiveReader(Arc::clone(&self.0))
    }

    /// The newest frame that was processed.
    ///
    /// # Errors
    /// [`Refusal`] if the camera is not there, or gave none yet.
    pub fn seen(&self) -> Result<Arc<ObservedFrame>, Refusal> {
        let seen = self.0.now().seen.clone();
        seen.ok_or_else(|| self.nothing())
    }

    /// As [`Live::seen`], once there is a frame after number `after`, or `most` has passed.
    ///
    /// # Errors
    /// As for [`Live::seen`].
    pub async fn seen_after(&self, after: u64, most: Duration) -> Result<Arc<ObservedFrame>, Refusal> {
        let mut newest = self.watch();
        let _ = tokio::time::timeout(most, newest.wait_for(|newest| *newest > after)).await;
        self.seen()
    }

    /// Numbers of frames that are processed, from now on.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.newest.subscribe()
    }

    /// A frame for a shot: the newest one, or that number, which must be the newest or the last that was not taken.
    ///
    /// # Errors
    /// [`Refusal`] if the camera is not there, or the frame is gone.
    pub fn frame(&self, number: Option<u64>) -> Result<Arc<CameraFrame>, Refusal> {
        let newest = self.0.camera.newest();
        let Some(number) = number else { return newest.ok_or_else(|| self.nothing()) };
        let refused = self.0.now().refused.clone();
        let frame = [newest, refused].into_iter().flatten().find(|frame| frame.number == number);
        frame.ok_or_else(|| Refusal::missing(format!("frame {number} is not held any more: take another shot")))
    }

    /// What decoding a frame at its full size takes.
    ///
    /// # Errors
    /// [`Refusal`] if it is no picture.
    pub fn needs(&self, frame: &CameraFrame) -> Result<DecodingCost, Refusal> {
        frame.needs(None).map_err(unreadable)
    }

    /// A frame at its full size.
    ///
    /// # Errors
    /// [`Refusal`] if it cannot be decoded.
    pub fn decode(&self, frame: &CameraFrame) -> Result<RgbImage, Refusal> {
        self.0.camera.decode(frame, None).map_err(unreadable)
    }

    /// A frame at `side` pixels or more, for comparison with the empty place: enough for a thing that is a part of it.
    ///
    /// # Errors
    /// [`Refusal`] if it cannot be decoded.
    pub fn decode_view(&self, frame: &CameraFrame, side: u32) -> Result<RgbImage, Refusal> {
        self.0.camera.decode(frame, Some(side)).map_err(unreadable)
    }

    /// What [`Live::decode_view`] takes.
    ///
    /// # Errors
    /// [`Refusal`] if it is no picture.
    pub fn needs_view(&self, frame: &CameraFrame, side: u32) -> Result<DecodingCost, Refusal> {
        frame.needs(Some(side)).map_err(unreadable)
    }

    /// Holds a frame whose shot was not taken, in case it is wanted anyway.
    pub fn hold(&self, frame: Option<Arc<CameraFrame>>) {
        self.0.now().refused = frame;
    }

    fn nothing(&self) -> Refusal {
        if let Some(problem) = self.0.now().problem.clone() {
            return Refusal::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, problem);
        }
        let sentence = match self.0.camera.status().phase {
            CameraPhase::Away { reason, .. } => format!("the camera is not there, trying again: {reason}"),
            _ => "the camera gave no picture yet; try again".into(),
        };
        Refusal::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, sentence)
    }
}

fn unreadable(error: ImageError) -> Refusal {
    Refusal::new(axum::http::StatusCode::BAD_GATEWAY, format!("the camera's picture {error}"))
}

impl SharedCamera {
    fn now(&self) -> MutexGuard<'_, Now> {
        lock(&self.now)
    }

    fn json(&self) -> Value {
        let status = self.camera.status();
        let now = self.now();
        let reason = match &status.phase {
            CameraPhase::Away { reason, .. } => Some(reason.as_str()),
            _ => None,
        };
        let (frame, seen) = (now.regions.first().cloned().unwrap_or_default(), now.seen.as_ref());
        let things = now.regions.iter().flat_map(|region| &region.things).map(AnsweredThing::json);
        let named = now.regions.iter().filter(|region| region.bounds.is_some());
        frame.answer.json_with(json!({
            "source": self.camera.source().to_string(), "state": status.phase.name(),
            "reason": reason, "problem": now.problem,
            "provisional": frame.answer.shown().is_some_and(|shown| shown.provisional),
            "empty": frame.empty, "things": things.collect::<Vec<_>>(),
            "regions": named.map(ShownRegion::json).collect::<Vec<_>>(), "scene": self.scene.json(),
            "frame": seen.map(|seen| seen.frame.number),
            "age_seconds": seen.map(|seen| seen.frame.taken.elapsed().as_secs_f32()),
            "frames_per_second": status.frames_per_second, "frames": status.frames, "opened": status.opened,
            "unreadable": status.unreadable, "unreadable_reason": status.unreadable_reason,
        }))
    }
}

struct LiveWorker {
    shared: Arc<SharedCamera>,
    /// The regions that are looked at, what follows each, and over how many frames labels are agreed upon.
    regions: Arc<[NamedRegion]>,
    tracks: Vec<RegionTrack>,
    frames: usize,
    ids: ThingIds,
    input: Preprocessing,
    admission: Admission,
    pause: Duration,
    knowledge: Arc<Knowledge>,
    inbox: Inbox,
    answers: Answers,
    telemetry: Telemetry,
    /// Number of the last frame that was taken. It outlives a panic, so that a frame that causes one is not taken
    /// again.
    last: u64,
    has_panicked: bool,
    reported: Reported,
    counted: CameraStatus,
}

impl Worker for LiveWorker {
    const NAME: &'static str = "live";

    fn run(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError> {
        // After a panic it works again once a step was made without one.
        if self.has_panicked {
            self.step();
            self.has_panicked = false;
        }
        up();
        while !self.is_stopping() {
            let started = Instant::now();
            self.step();
            // In small pieces, so that a slow rate does not hold up the end.
            worker::sleep(self.pause.saturating_sub(started.elapsed()), || self.is_stopping());
        }
        Ok(())
    }

    fn on_panic(&mut self) {
        self.has_panicked = true;
        self.clear();
        self.report();
    }

    fn back_off(&mut self, pause: Duration) -> bool {
        worker::sleep(pause, || self.is_stopping())
    }
}

impl LiveWorker {
    fn is_stopping(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    fn step(&mut self) {
        self.telemetry.health.fault_point("live: looking");
        let frame = self.shared.camera.wait(self.last, TICK);
        self.take_up_changes();
        match frame {
            Some(frame) => {
                self.last = frame.number;
                self.telemetry.health.fault_point("live: frame");
                self.process(frame);
            }
            None if self.shared.camera.newest().is_none() => self.clear(),
            None => {}
        }
        self.count();
        self.report();
    }

    /// Takes up what is known now. Frames that were answered by older knowledge count no more, and a class that is gone
    /// is not shown any more, though no frame may come.
    fn take_up_changes(&mut self) {
        let knowledge = self.answers.knowledge();
        if !Arc::ptr_eq(&knowledge, &self.knowledge) {
            self.knowledge = knowledge;
            self.tracks.iter_mut().for_each(RegionTrack::clear);
            let is_gone = |class: &ClassProbability| !class.provisional && self.knowledge.class(&class.label).is_err();
            for region in &mut self.shared.now().regions {
                if region.answer.classes.iter().any(is_gone) {
                    region.answer = AgreedAnswer::default();
                }
                region.things.retain(|thing| !thing.answer.classes.iter().any(is_gone));
            }
        }
        let regions = self.shared.regions.get();
        if !Arc::ptr_eq(&regions, &self.regions) {
            self.tracks = RegionTrack::of_all(&regions, self.frames, &self.ids);
            self.regions = regions;
            self.shared.now().regions.clear();
        }
    }

    fn process(&mut self, frame: Arc<CameraFrame>) {
        let scene = &self.shared.scene;
        let [width, height] = self.input.canvas();
        let whole = width.max(height);
        // A part of the frame is cut out later, so that it needs as many pixels as the backbone sees.
        let is_part = scene.is_shown() || !self.regions.is_empty();
        let side = if is_part { camera_scene::decoded_side(&self.input) } else { whole };
        let needs = frame.needs(Some(side)).map(|needs| picture_bytes(&needs, &self.input) + scene.working_memory());
        // A frame that is no picture takes nothing here, and is refused below.
        let permit = match self.admission.try_work(needs.unwrap_or(0)) {
            Ok(Some(permit)) => permit,
            // Requests go first; the next frame comes soon.
            Ok(None) => return,
            Err(refusal) => return self.refuse(refusal),
        };
        let Ok(picture) = self.shared.camera.decode(&frame, Some(side)) else { return };
        let (number, taken) = (frame.number, frame.taken);
        // An empty place that was shown since `side` was chosen counts from the next frame on: this one may be too
        // small.
        let seen =
            if is_part { scene.see(&picture, &self.regions) } else { SeenRegion::all_of(&picture, &self.regions) };
        let shown = self.show(&picture, seen, &permit, taken);
        // What is held until the next frame is no larger than what is shown, or a few MiB.
        let picture = if picture.as_raw().len() > HELD { image::reduced(&picture, VIEW).into_owned() } else { picture };
        drop(permit);
        let mut now = self.shared.now();
        now.problem = None;
        now.seen = Some(Arc::new(ObservedFrame { frame, picture, view: OnceLock::new() }));
        // Where requests went first, the next frame comes soon.
        if let Some(regions) = shown {
            now.regions = regions;
        }
        drop(now);
        self.shared.newest.send_replace(number);
    }

    /// Says why a frame can never be processed.
    fn refuse(&mut self, refusal: Refusal) {
        self.clear();
        let mut now = self.shared.now();
        let problem = Some(refusal.sentence);
        if self.reported.shown.problem != problem {
            log::warn!("camera: {}", problem.as_deref().unwrap_or_default());
        }
        now.problem = problem;
    }

    /// Shows nothing any more: an old label would be taken for a new one.
    fn clear(&mut self) {
        self.tracks.iter_mut().for_each(RegionTrack::clear);
        let refused = self.shared.now().refused.take();
        *self.shared.now() = Now { refused, ..Now::default() };
    }

    fn count(&mut self) {
        let status = self.shared.camera.status();
        let metrics = &self.telemetry.metrics.camera;
        metrics.running.set(i64::from(status.phase == CameraPhase::Running));
        metrics.frames.inc_by(status.frames - self.counted.frames);
        metrics.unreadable.inc_by(status.unreadable - self.counted.unreadable);
        metrics.opened.inc_by(status.opened - self.counted.opened);
        self.counted = status;
    }
}

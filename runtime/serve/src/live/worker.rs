//! The camera's thread: frame by frame it has the newest one answered, and keeps what that shows.

mod answered_frame;
mod report;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use orco_camera::camera::MAX_HOLD;
use orco_camera::{CameraFrame, CameraPhase, CameraSource, CameraStatus};
use orco_runtime::image::{self, Preprocessing};
use orco_runtime::image_rs::RgbImage;
use orco_runtime::scene::NamedRegion;

use self::answered_frame::{AdmittedFrame, NoAnswer, RegionTrack};
use self::report::LastReport;
use super::{LatestView, LivePeers, LiveSettings, ObservedFrame, SharedCamera};
use crate::admission::{Admission, MAX_KEPT_SIDE, Permit, processing_bytes};
use crate::agreement::{AgreedAnswer, MAX_FRAME_AGE};
use crate::answers::Answers;
use crate::camera_scene::{self, SeenRegion};
use crate::error::ServeError;
use crate::inbox::Inbox;
use crate::knowledge::Knowledge;
use crate::live_snapshot::ShownRegion;
use crate::prediction::ClassProbability;
use crate::refusal::{ErrorCode, Refusal};
use crate::telemetry::Telemetry;
use crate::thing_tracks::ThingIds;
use crate::worker::{self, Worker};

/// Most bytes of a picture that is held in case somebody looks.
const MAX_HELD_BYTES: usize = 4 << 20;
/// How long a picture of a folder is taken again where requests went first: while the camera holds it, with a second to
/// spare for the last try.
const RETRY_FOR: Duration = MAX_HOLD.saturating_sub(Duration::from_secs(1));
/// How long the thread waits for a frame before it looks after other things.
const TICK: Duration = Duration::from_millis(250);

pub(super) struct LiveWorker {
    shared: Arc<SharedCamera>,
    /// The regions that are analysed.
    regions: Arc<[NamedRegion]>,
    /// What follows each.
    tracks: Vec<RegionTrack>,
    /// Over how many frames labels are agreed upon.
    agreement_frames: usize,
    /// Whether each picture comes but once, and shows something of its own.
    is_folder: bool,
    unreadable_frames: UnreadableFrames,
    thing_ids: ThingIds,
    input: Preprocessing,
    admission: Admission,
    pause: Duration,
    knowledge: Arc<Knowledge>,
    inbox: Inbox,
    answers: Answers,
    telemetry: Telemetry,
    /// Number of the last frame that was taken. It outlives a panic, so that a frame that causes one is not taken
    /// again.
    last_frame: u64,
    has_panicked: bool,
    reported: LastReport,
    /// The status that the metrics count already.
    counted_status: CameraStatus,
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
            let (started, last) = (Instant::now(), self.last_frame);
            self.step();
            // A picture of a folder is shown for the whole pause: rules must not overlook it.
            let spent = if self.is_folder && self.last_frame != last { Duration::ZERO } else { started.elapsed() };
            // In small pieces, so that a slow rate does not hold up the end.
            worker::sleep(self.pause.saturating_sub(spent), || self.is_stopping());
        }
        Ok(())
    }

    fn on_panic(&mut self) {
        self.has_panicked = true;
        self.clear();
        self.report();
    }

    fn is_stopping(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }
}

impl LiveWorker {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`ServeError`] if it cannot be started.
    pub(super) fn start(
        shared: Arc<SharedCamera>,
        settings: LiveSettings,
        input: Preprocessing,
        admission: Admission,
        peers: LivePeers,
    ) -> Result<JoinHandle<()>, ServeError> {
        let LivePeers { inbox, answers, regions, telemetry, .. } = peers;
        let (named_regions, thing_ids) = (regions.get(), ThingIds::default());
        let is_folder = matches!(shared.camera.source(), CameraSource::Folder(_));
        // Pictures of a folder may show anything, however soon one comes after another.
        let agreement_frames = if is_folder { 1 } else { settings.agreement_frames };
        let health = telemetry.health.clone();
        let worker = Self {
            shared,
            tracks: RegionTrack::of_all(&named_regions, agreement_frames, &thing_ids),
            regions: named_regions,
            agreement_frames,
            is_folder,
            unreadable_frames: UnreadableFrames::default(),
            thing_ids,
            input,
            admission,
            pause: Duration::from_secs_f32(1.0 / settings.per_second.clamp(0.01, 1000.0)),
            knowledge: answers.knowledge(),
            inbox,
            answers,
            telemetry,
            last_frame: 0,
            has_panicked: false,
            reported: LastReport::default(),
            counted_status: CameraStatus::default(),
        };
        worker::start(worker, &health)
    }

    fn step(&mut self) {
        self.telemetry.health.fault_point("live: looking");
        let camera = &self.shared.camera;
        camera.done_with(self.last_frame);
        let frame = camera.wait(self.last_frame, TICK);
        self.take_up_changes();
        match frame {
            Some(frame) => {
                self.last_frame = frame.number;
                self.telemetry.health.fault_point("live: frame");
                self.process(frame);
            }
            None if self.shared.camera.newest().is_none() => self.clear(),
            None => {}
        }
        self.update_metrics();
        self.report();
    }

    /// Takes up what is known now. Frames that were answered by older knowledge count no more, and a class that is gone
    /// is not shown any more, though no frame may come.
    fn take_up_changes(&mut self) {
        self.shared.scene.take_up_changes();
        let knowledge = self.answers.knowledge();
        if !Arc::ptr_eq(&knowledge, &self.knowledge) {
            self.knowledge = knowledge;
            self.tracks.iter_mut().for_each(RegionTrack::forget_answers);
            let is_gone = |class: &ClassProbability| !class.provisional && self.knowledge.class(&class.label).is_err();
            let mut latest = self.shared.latest();
            let mut regions = latest.regions.to_vec();
            for region in &mut regions {
                if region.answer.classes.iter().any(is_gone) {
                    region.answer = AgreedAnswer::default();
                }
                region.things.retain(|thing| !thing.answer.classes.iter().any(is_gone));
            }
            latest.regions = regions.into();
        }
        let regions = self.shared.regions.get();
        if !Arc::ptr_eq(&regions, &self.regions) {
            self.tracks = RegionTrack::of_all(&regions, self.agreement_frames, &self.thing_ids);
            self.regions = regions;
            self.shared.latest().regions = Arc::default();
        }
    }

    fn process(&mut self, frame: Arc<CameraFrame>) {
        let scene = &self.shared.scene;
        // A part that is cut out later needs as many pixels as the backbone sees.
        let has_parts = scene.has_background() || !self.regions.is_empty();
        let admitted = if has_parts { self.admit_for_parts(&frame) } else { self.admit(&frame, self.input_side()) };
        let (side, permit) = match admitted {
            Ok(Some(admitted)) => admitted,
            // Requests go first; the next frame comes soon.
            Ok(None) => return self.retake(&frame),
            Err(refusal) => return self.refuse(refusal),
        };
        let Ok(picture) = self.shared.camera.decode(&frame, Some(side)) else {
            let is_shown_too_long = self.unreadable_frames.add(frame.taken);
            // A camera's next frame shows the same, so what is shown stays. A folder has no such next frame, and a slow
            // camera may send unreadable frames for long before it is opened again.
            if self.is_folder || is_shown_too_long {
                self.clear();
            }
            return;
        };
        self.unreadable_frames.end();
        let (number, taken) = (frame.number, frame.taken);
        // A background that was learned since `side` was chosen counts from the next frame on: this one may be too
        // small.
        let seen = if has_parts {
            scene.see(&picture, &|| camera_size(&frame, &picture), &self.regions)
        } else {
            SeenRegion::all_of(&picture, &self.regions)
        };
        let shown = self.show(AdmittedFrame { picture: &picture, permit: &permit, taken }, seen);
        let picture = reduced_if_large(picture);
        drop(permit);
        if let Err(why) = shown
            && self.is_folder
        {
            // The label of another picture would be taken for this one's.
            self.clear();
            if why == NoAnswer::RequestsFirst {
                self.retake(&frame);
            }
            return;
        }
        let mut latest = self.shared.latest();
        latest.problem = None;
        latest.frame = Some(Arc::new(ObservedFrame { frame, picture, jpeg: OnceLock::new() }));
        // Where there is no answer, the next frame comes soon.
        if let Ok(regions) = shown {
            latest.regions = regions.iter().map(ShownRegion::summary).collect();
        }
        drop(latest);
        self.shared.newest.send_replace(number);
    }

    /// Has a picture of a folder taken again, since no other one shows the same.
    fn retake(&mut self, frame: &CameraFrame) {
        if !self.is_folder {
            return;
        }
        if frame.taken.elapsed() < RETRY_FOR {
            self.last_frame = frame.number - 1;
        } else {
            log::warn!("camera: a picture of the folder is passed over, since requests went first for too long");
        }
    }

    /// Side in pixels to which a frame is decoded if its regions are analysed or it is compared with the background.
    fn side_for_parts(&self, frame: &CameraFrame) -> u32 {
        // What is no picture is found out when it is decoded.
        let Ok(cost) = frame.decoding_cost(None) else { return 0 };
        camera_scene::decoded_side_for(&self.input, &self.regions, [cost.file_width, cost.file_height])
    }

    /// Side in pixels to which a frame is decoded if it is answered as a whole.
    fn input_side(&self) -> u32 {
        let [width, height] = self.input.canvas();
        width.max(height)
    }

    /// As [`LiveWorker::admit`], for as many pixels as the frame's parts need. If so much memory is never
    /// free, for as many as comparing it with the background needs: small regions then say that they are too small.
    fn admit_for_parts(&self, frame: &CameraFrame) -> Result<Option<(u32, Permit)>, Refusal> {
        let side = camera_scene::decoded_side(&self.input);
        self.admit(frame, self.side_for_parts(frame).max(side)).or_else(|_| self.admit(frame, side))
    }

    /// A permit to decode a frame to `side` pixels, with `side`; none if too little memory is free now.
    fn admit(&self, frame: &CameraFrame, side: u32) -> Result<Option<(u32, Permit)>, Refusal> {
        let working = self.shared.scene.working_memory();
        let bytes = frame.decoding_cost(Some(side)).map(|cost| processing_bytes(&cost, &self.input) + working);
        // A frame that is no picture takes nothing here, and is refused when it is decoded.
        Ok(self.admission.try_admit(bytes.unwrap_or(0))?.map(|permit| (side, permit)))
    }

    /// Says why a frame can never be processed.
    fn refuse(&mut self, refusal: Refusal) {
        self.clear();
        let mut latest = self.shared.latest();
        if self.reported.content.problem.as_ref() != Some(&refusal.sentence) {
            log::warn!("camera: {}", refusal.sentence);
        }
        latest.problem = Some(Refusal { code: ErrorCode::CameraFramesTooLarge, ..refusal });
    }

    /// Shows nothing any more: an old label would be taken for a new one.
    fn clear(&mut self) {
        self.tracks.iter_mut().for_each(RegionTrack::clear);
        let refused_shot = self.shared.latest().refused_shot.take();
        *self.shared.latest() = LatestView { refused_shot, ..LatestView::default() };
    }

    fn update_metrics(&mut self) {
        let status = self.shared.camera.status();
        let metrics = &self.telemetry.metrics.camera;
        metrics.running.set(i64::from(status.phase == CameraPhase::Running));
        metrics.frames.inc_by(status.frames - self.counted_status.frames);
        metrics.unreadable.inc_by(status.unreadable - self.counted_status.unreadable);
        metrics.opened.inc_by(status.opened - self.counted_status.opened);
        self.counted_status = status;
    }
}

/// Frames in a row that cannot be decoded.
#[derive(Debug, Default)]
struct UnreadableFrames {
    /// When the first of them came.
    first: Option<Instant>,
}

impl UnreadableFrames {
    /// Adds one that came at that time. Returns whether the first of them came so long before it that what is shown no
    /// longer says what the camera sees. For a single one that is never so, however slow the camera.
    fn add(&mut self, taken: Instant) -> bool {
        let first = *self.first.get_or_insert(taken);
        taken.saturating_duration_since(first) > MAX_FRAME_AGE
    }

    /// A frame was decoded.
    fn end(&mut self) {
        self.first = None;
    }
}

/// Width and height of a frame as the camera gave it, upright; `picture` is the same, decoded.
fn camera_size(frame: &CameraFrame, picture: &RgbImage) -> [u32; 2] {
    let [width, height] = [picture.width(), picture.height()];
    frame.decoding_cost(None).map_or([width, height], |cost| [cost.file_width, cost.file_height])
}

/// A picture as it is held until the next frame: no larger than what is shown, or a few MiB.
fn reduced_if_large(picture: RgbImage) -> RgbImage {
    if picture.as_raw().len() > MAX_HELD_BYTES { image::reduced(&picture, MAX_KEPT_SIDE).into_owned() } else { picture }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_unreadable_frame_takes_no_label_away_however_slow_the_camera() {
        let (mut frames, start) = (UnreadableFrames::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for seconds in [0, 10, 20] {
            assert!(!frames.add(at(seconds)), "the one before it was decoded");
            frames.end();
        }
        assert_eq!([30, 31, 33, 34].map(|seconds| frames.add(at(seconds))), [false, false, false, true]);
    }
}

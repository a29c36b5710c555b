//! What the service's own camera shows: looked at all the time, one frame after another.
//!
//! One thread takes the newest frame, decodes it no larger than the backbone needs, and asks [`Answers`] what it shows.
//! It asks again only when it has the answer, so a request waits for one frame at most; where many requests wait, it
//! leaves frames out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use orco_camera::{Camera, Frame, Phase, Status};
use orco_runtime::image::{DecodingMemory, ImageError, Preprocessing};
use orco_runtime::image_rs::RgbImage;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::admission::{Admission, Admitted, picture_bytes};
use crate::agreement::Agreement;
use crate::answers::{Answers, Knowledge, Named};
use crate::error::{Refusal, ServeError};
use crate::event::Events;
use crate::health::{self, Health};
use crate::inbox::Inbox;
use crate::metric::Metrics;
use crate::shooting::{small, small_jpeg};
use crate::worker::{self, Worker};

/// Width and height of the live picture at most, in pixels.
pub const VIEW: u32 = 640;
/// Most bytes of a picture that is held in case somebody looks.
const HELD: usize = 4 << 20;
/// How long the thread waits for a frame before it looks after other things.
const TICK: Duration = Duration::from_millis(250);
/// How often the same label is told again, with its new probability, at most.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// How the camera is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Over how many frames a label is agreed upon ([`crate::agreement`]).
    pub frames: usize,
    /// Frames that are looked at in a second, at most.
    pub per_second: f32,
}

impl Default for Settings {
    /// Five frames, ten a second.
    fn default() -> Self {
        Self { frames: 5, per_second: 10.0 }
    }
}

/// A frame that was looked at.
pub struct Seen {
    /// As it came.
    pub frame: Arc<Frame>,
    picture: RgbImage,
    view: OnceLock<Bytes>,
}

impl Seen {
    /// A JPEG of it, at most [`VIEW`] pixels wide and high; made once.
    ///
    /// # Panics
    /// Never: writing a picture into memory cannot fail.
    pub fn view(&self) -> Bytes {
        self.view.get_or_init(|| Bytes::from_owner(small_jpeg(&self.picture, VIEW))).clone()
    }
}

#[derive(Default)]
struct Now {
    seen: Option<Arc<Seen>>,
    /// The classes as several frames agree, the one that is shown first.
    matches: Vec<Named>,
    /// How many frames do.
    agreed: usize,
    /// Whether most of these are like anything known.
    known: bool,
    /// The frame of the last shot that was not taken.
    refused: Option<Arc<Frame>>,
}

struct Inner {
    camera: Camera,
    now: Mutex<Now>,
    /// Number of the newest frame that was looked at; 0 while there is none.
    newest: watch::Sender<u64>,
    stop: AtomicBool,
}

/// The service's own camera.
pub struct Live(Arc<Inner>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

impl Live {
    /// Starts the thread that looks, at pictures of at least the size of the backbone's input, as far as there is
    /// memory for them.
    ///
    /// # Errors
    /// [`ServeError`] if the thread cannot be started.
    pub(crate) fn start(
        camera: Camera,
        settings: Settings,
        (input, admission): (Preprocessing, Admission),
        inbox: Inbox,
        (health, answers, events, metrics): (Health, Answers, Events, Metrics),
    ) -> Result<Self, ServeError> {
        let inner =
            Inner { camera, now: Mutex::default(), newest: watch::Sender::new(0), stop: AtomicBool::new(false) };
        let inner = Arc::new(inner);
        let agreement = Agreement::of(settings.frames);
        let pause = Duration::from_secs_f32(1.0 / settings.per_second.clamp(0.01, 1000.0));
        let known = answers.knowledge();
        let (told, counted) = (Told::default(), Status::default());
        let (theirs, reported) = (Arc::clone(&inner), health.clone());
        let thread = Thread {
            inner: theirs,
            agreement,
            input,
            admission,
            pause,
            known,
            inbox,
            answers,
            health,
            events,
            metrics,
            told,
            counted,
        };
        worker::start(thread, &reported)?;
        Ok(Self(inner))
    }

    /// What it shows, and whether it is there.
    pub fn json(&self) -> Value {
        self.0.json()
    }

    /// The same, for a thread that may live longer.
    #[cfg(feature = "mqtt")]
    pub(crate) fn reader(&self) -> impl Fn() -> Value + Send + use<> {
        let inner = Arc::clone(&self.0);
        move || inner.json()
    }

    /// The newest frame that was looked at.
    ///
    /// # Errors
    /// [`Refusal`] if the camera is not there, or gave none yet.
    pub fn seen(&self) -> Result<Arc<Seen>, Refusal> {
        self.0.now().seen.clone().ok_or_else(|| self.nothing())
    }

    /// The same once there is one after number `after`, or after `most`.
    ///
    /// # Errors
    /// As for [`Live::seen`].
    pub async fn seen_after(&self, after: u64, most: Duration) -> Result<Arc<Seen>, Refusal> {
        let mut newest = self.watch();
        let _ = tokio::time::timeout(most, newest.wait_for(|newest| *newest > after)).await;
        self.seen()
    }

    /// Numbers of frames that were looked at, from now on.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.newest.subscribe()
    }

    /// A frame for a shot: the newest one, or that number, which must be the newest or the last that was not taken.
    ///
    /// # Errors
    /// [`Refusal`] if the camera is not there, or the frame is gone.
    pub fn frame(&self, number: Option<u64>) -> Result<Arc<Frame>, Refusal> {
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
    pub fn needs(&self, frame: &Frame) -> Result<DecodingMemory, Refusal> {
        frame.needs(None).map_err(unreadable)
    }

    /// A frame at its full size.
    ///
    /// # Errors
    /// [`Refusal`] if it cannot be decoded.
    pub fn decode(&self, frame: &Frame) -> Result<RgbImage, Refusal> {
        self.0.camera.decode(frame, None).map_err(unreadable)
    }

    /// Holds a frame whose shot was not taken, in case it is wanted anyway.
    pub fn hold(&self, frame: Option<Arc<Frame>>) {
        self.0.now().refused = frame;
    }

    fn nothing(&self) -> Refusal {
        let sentence = match self.0.camera.status().phase {
            Phase::Away { reason, .. } => format!("the camera is not there, trying again: {reason}"),
            _ => "the camera gave no picture yet; try again".into(),
        };
        Refusal::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, sentence)
    }
}

fn unreadable(error: ImageError) -> Refusal {
    Refusal::new(axum::http::StatusCode::BAD_GATEWAY, format!("the camera's picture {error}"))
}

impl Inner {
    fn now(&self) -> MutexGuard<'_, Now> {
        health::lock(&self.now)
    }

    fn json(&self) -> Value {
        let status = self.camera.status();
        let now = self.now();
        let reason = match &status.phase {
            Phase::Away { reason, .. } => Some(reason.as_str()),
            _ => None,
        };
        let (shown, seen) = (now.matches.first(), now.seen.as_ref());
        json!({
            "source": self.camera.source().to_string(), "state": status.phase.name(), "reason": reason,
            "label": shown.map(|shown| &shown.label), "probability": shown.map(|shown| shown.probability),
            "provisional": shown.is_some_and(|shown| shown.provisional),
            "matches": crate::api::matches(&now.matches, 3), "known": now.known, "agreed": now.agreed,
            "frame": seen.map(|seen| seen.frame.number),
            "age_seconds": seen.map(|seen| seen.frame.taken.elapsed().as_secs_f32()),
            "frames_per_second": status.frames_per_second, "frames": status.frames, "opened": status.opened,
            "unreadable": status.unreadable, "unreadable_reason": status.unreadable_reason,
        })
    }
}

/// What was told last.
#[derive(Default)]
struct Told {
    at: Option<Instant>,
    label: Option<String>,
    known: bool,
    state: Option<&'static str>,
    frame: u64,
    unreadable: u64,
}

struct Thread {
    inner: Arc<Inner>,
    agreement: Agreement,
    input: Preprocessing,
    admission: Admission,
    pause: Duration,
    known: Arc<Knowledge>,
    inbox: Inbox,
    answers: Answers,
    health: Health,
    events: Events,
    metrics: Metrics,
    told: Told,
    counted: Status,
}

impl Worker for Thread {
    const NAME: &'static str = "live";

    fn live(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError> {
        up();
        self.run();
        Ok(())
    }

    fn broke_off(&mut self) {
        self.clear();
        self.tell();
    }

    fn rest(&mut self, pause: Duration) -> bool {
        worker::sleep(pause, || self.inner.stop.load(Ordering::Relaxed))
    }
}

impl Thread {
    fn run(&mut self) {
        let mut last = 0;
        while !self.inner.stop.load(Ordering::Relaxed) {
            let started = Instant::now();
            self.health.pass("live: looking");
            let frame = self.inner.camera.wait(last, TICK);
            self.follow();
            match frame {
                Some(frame) => {
                    last = frame.number;
                    self.look(frame);
                }
                None if self.inner.camera.newest().is_none() => self.clear(),
                None => {}
            }
            self.count();
            self.tell();
            // At most ten ticks at once, so that a slow rate does not hold up the end.
            let rest = self.pause.saturating_sub(started.elapsed());
            let end = Instant::now() + rest;
            while Instant::now() < end && !self.inner.stop.load(Ordering::Relaxed) {
                thread::sleep(TICK.min(end.saturating_duration_since(Instant::now())));
            }
        }
    }

    /// Lets the frames that were seen by what is no longer known go. A class that is not known any more is shown no
    /// more, though no frame may come.
    fn follow(&mut self) {
        let known = self.answers.knowledge();
        if !Arc::ptr_eq(&known, &self.known) {
            self.known = known;
            self.agreement.clear();
            let mut now = self.inner.now();
            let is_gone = |named: &Named| !named.provisional && self.known.class(&named.label).is_err();
            if now.matches.iter().any(is_gone) {
                (now.matches, now.agreed, now.known) = (Vec::new(), 0, false);
            }
        }
    }

    fn look(&mut self, frame: Arc<Frame>) {
        let side = self.input.width.max(self.input.height);
        let needs = frame.needs(Some(side)).map(|needs| picture_bytes(&needs, &self.input));
        // What is no picture is decoded to be told so. Others are served first; the next frame is not far.
        let Some(permit) = self.admission.try_work(needs.unwrap_or(0)) else { return };
        let Ok(picture) = self.inner.camera.decode(&frame, Some(side)) else { return };
        let answer = self.answers.look_between(Admitted::new(self.input.fit(&picture), permit.clone()));
        let (number, taken) = (frame.number, frame.taken);
        if let Some(Ok(looked)) = &answer {
            self.inbox.offer(&picture, looked);
        }
        // What is held until the next frame is no larger than what is shown, or a few MiB.
        let picture = if picture.as_raw().len() > HELD { small(&picture, VIEW).into_owned() } else { picture };
        drop(permit);
        let mut now = self.inner.now();
        now.seen = Some(Arc::new(Seen { frame, picture, view: OnceLock::new() }));
        match answer {
            Some(Ok(looked)) => {
                now.matches = self.agreement.add(taken, looked.named, looked.known);
                (now.agreed, now.known) = (self.agreement.frames(), self.agreement.is_known());
            }
            Some(Err(refusal)) => log::warn!("camera: {}", refusal.sentence),
            // Others are served first; the next frame is not far.
            None => {}
        }
        drop(now);
        self.inner.newest.send_replace(number);
    }

    /// Shows nothing any more: an old label would be taken for a new one.
    fn clear(&mut self) {
        self.agreement.clear();
        let mut now = self.inner.now();
        (now.seen, now.matches, now.agreed, now.known) = (None, Vec::new(), 0, false);
    }

    fn count(&mut self) {
        let status = self.inner.camera.status();
        let metrics = &self.metrics.camera;
        metrics.running.set(i64::from(status.phase == Phase::Running));
        metrics.frames.inc_by(status.frames - self.counted.frames);
        metrics.unreadable.inc_by(status.unreadable - self.counted.unreadable);
        metrics.opened.inc_by(status.opened - self.counted.opened);
        self.counted = status;
    }

    /// Tells of another label or state at once, of another probability now and then.
    fn tell(&mut self) {
        let status = &self.counted;
        let (label, known, frame) = {
            let now = self.inner.now();
            let label = now.matches.first().map(|shown| shown.label.clone());
            (label, now.known, now.seen.as_ref().map_or(0, |seen| seen.frame.number))
        };
        let told = (&self.told.label, self.told.known, self.told.state);
        let is_other = told != (&label, known, Some(status.phase.name()));
        let has_moved = (self.told.frame, self.told.unreadable) != (frame, status.unreadable);
        if is_other || has_moved && self.told.at.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            self.events.tell("live", &self.inner.json());
            let (at, state) = (Some(Instant::now()), Some(status.phase.name()));
            self.told = Told { at, label, known, state, frame, unreadable: status.unreadable };
        }
    }
}

//! The empty place in front of the service's own camera.
//!
//! Once it was shown, every frame is compared with it: things get answers of their own, and an empty place is answered
//! `empty`. It is kept beside the state, so that it outlives the service. Where it does not fit any more - the camera
//! was moved, another resolution was set - that is said, and frames are looked at as a whole until it is shown again.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use orco_runtime::image::Preprocessing;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::scene::{
    Background, Foreground, FrameContent, KeptBackground, NamedRegion, PixelRect, SceneWatch, ViewError, Viewfinder,
};
use orco_runtime::store::Store;
use orco_runtime::threads::lock;
use serde_json::{Value, json};

use crate::error::{ErrorCode, Refusal};

/// Least width and height to which frames are decoded that are compared with the place, whatever the backbone sees.
const MIN_SIDE: u32 = 256;
/// Views that the empty place is learned from.
pub const VIEWS: usize = 3;
/// Most bytes that comparing a frame takes, beside the frame.
pub const WORKING_MEMORY: u64 = 12 << 20;
/// How often the place, which follows the light, is kept anew at the most: flash is spared.
const KEEP_EVERY: Duration = Duration::from_secs(6 * 3600);

/// The empty place, shared by the camera's thread and those that serve.
#[derive(Clone)]
pub struct CameraScene(Arc<SharedScene>);

struct SharedScene {
    kept: KeptBackground,
    started: Instant,
    /// Held while a frame is compared.
    watched: Mutex<WatchedPlace>,
    /// Held for moments only: whoever reads it does not wait for a frame. Locked after `watched`.
    status: Mutex<SceneStatus>,
}

/// The place that frames are compared with.
#[derive(Default)]
struct WatchedPlace {
    watch: Option<SceneWatch>,
    saved: Duration,
}

/// What is told of the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SceneStatus {
    /// Width and height of the frames that it was shown with, if it was.
    pub frame: Option<[u32; 2]>,
    /// Whether the camera seems to have been moved since.
    pub is_moved: bool,
    /// Why it cannot be used now.
    pub problem: Option<String>,
}

impl SceneStatus {
    /// As programs get it: `state` is `none`, `shown`, `moved` or `unusable`.
    pub fn json(&self) -> Value {
        let state = match self.frame {
            None if self.problem.is_none() => "none",
            Some(_) if self.is_moved => "moved",
            Some(_) if self.problem.is_none() => "shown",
            _ => "unusable",
        };
        json!({ "state": state, "problem": self.problem, "frame": self.frame })
    }
}

/// What a frame or a region of it shows, by its empty place.
pub enum SceneView {
    /// No empty place is known, or it does not fit: it counts as a whole.
    Whole,
    /// Things in front of the empty place; none if it is empty.
    Things(Foreground),
}

/// What a region of a frame shows.
pub struct SeenRegion {
    /// The region's name; empty if the frame has none.
    pub name: String,
    /// The region in pixels of the frame, where it has regions.
    pub bounds: Option<PixelRect>,
    /// What it shows.
    pub view: SceneView,
}

impl SeenRegion {
    /// The regions of a frame, each as a whole, or the frame where there are none. A region that is too small in it is
    /// passed over.
    pub fn all_of(frame: &RgbImage, regions: &[NamedRegion]) -> Vec<Self> {
        let in_frame = |named: &NamedRegion| {
            let bounds = named.region.in_frame(frame.width(), frame.height()).ok()?;
            Some(Self { name: named.name.clone(), bounds: Some(bounds), view: SceneView::Whole })
        };
        let mut all: Vec<Self> = regions.iter().filter_map(in_frame).collect();
        if all.is_empty() {
            all.push(Self { name: String::new(), bounds: None, view: SceneView::Whole });
        }
        all
    }
}

impl CameraScene {
    /// The one that is kept beside a state. One that cannot be read is told, and does without.
    pub fn of(store: &Store) -> Self {
        let kept = KeptBackground::of(store.folder());
        let (mut watched, mut status) = (WatchedPlace::default(), SceneStatus::default());
        match kept.read() {
            Ok(background) => {
                status.frame = background.as_ref().map(Background::frame_size);
                watched.watch = background.map(SceneWatch::new);
            }
            Err(error) => {
                log::warn!("{error}");
                status.problem = Some(error.to_string());
            }
        }
        let (watched, status) = (Mutex::new(watched), Mutex::new(status));
        Self(Arc::new(SharedScene { kept, started: Instant::now(), watched, status }))
    }

    fn watched(&self) -> MutexGuard<'_, WatchedPlace> {
        lock(&self.0.watched)
    }

    fn lock_status(&self) -> MutexGuard<'_, SceneStatus> {
        lock(&self.0.status)
    }

    /// What is told of it now.
    pub fn status(&self) -> SceneStatus {
        self.lock_status().clone()
    }

    /// Whether frames are compared with an empty place.
    pub fn is_shown(&self) -> bool {
        self.lock_status().frame.is_some()
    }

    /// Most bytes that comparing a frame takes, beside the frame.
    pub fn working_memory(&self) -> u64 {
        if self.is_shown() { WORKING_MEMORY } else { 0 }
    }

    /// Learns the place from views of it, and keeps it.
    ///
    /// # Errors
    /// [`Refusal`] if the views do not show it, or it cannot be kept; an earlier place is kept then.
    pub fn learn(&self, views: &[RgbImage]) -> Result<(), Refusal> {
        let background = Background::learn(views).map_err(|error| Refusal::from(&error))?;
        // The file changes under the lock, so that none brings back what another has just replaced.
        let mut watched = self.watched();
        self.0.kept.keep(&background).map_err(|error| Refusal::storage(&error))?;
        *self.lock_status() = SceneStatus { frame: Some(background.frame_size()), ..SceneStatus::default() };
        *watched = WatchedPlace { watch: Some(SceneWatch::new(background)), saved: self.0.started.elapsed() };
        Ok(())
    }

    /// Forgets the place; says whether there was one.
    ///
    /// # Errors
    /// [`Refusal`] if its file cannot be removed.
    pub fn forget(&self) -> Result<bool, Refusal> {
        let mut watched = self.watched();
        let forgotten = self.0.kept.forget().map_err(|error| Refusal::storage(&error))?;
        *self.lock_status() = SceneStatus::default();
        *watched = WatchedPlace::default();
        Ok(forgotten)
    }

    /// What each region of a frame of the camera shows, or the frame as a whole where there are none.
    pub fn see(&self, frame: &RgbImage, regions: &[NamedRegion]) -> Vec<SeenRegion> {
        let mut seen = SeenRegion::all_of(frame, regions);
        let bounds: Vec<PixelRect> = seen.iter().filter_map(|region| region.bounds).collect();
        if let Some(foregrounds) = self.compare(frame, &bounds) {
            let views = foregrounds.into_iter().map(SceneView::Things);
            seen.iter_mut().zip(views).for_each(|(region, view)| region.view = view);
        }
        seen
    }

    /// What is in front of the empty place in each region, or in the frame; none if there is no such place, or it does
    /// not fit.
    fn compare(&self, frame: &RgbImage, regions: &[PixelRect]) -> Option<Vec<Foreground>> {
        let now = self.0.started.elapsed();
        let mut watched = self.watched();
        let watch = watched.watch.as_mut()?;
        let (foregrounds, problem) = match watch.see(frame, regions, now) {
            Ok(FrameContent::Moved) => (None, Some(MOVED.to_owned())),
            Ok(FrameContent::Empty) => {
                (Some(vec![Foreground::empty([frame.width(), frame.height()]); regions.len().max(1)]), None)
            }
            Ok(FrameContent::Things(foregrounds)) => (Some(foregrounds), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let is_usable = problem.is_none();
        let is_moved = watch.is_moved();
        {
            let mut status = self.lock_status();
            (status.is_moved, status.problem) = (is_moved, problem);
        }
        if is_usable && watched.mark_saved_if_due(now) {
            self.keep(&watched);
        }
        foregrounds
    }

    /// Keeps the place as it is by now.
    fn keep(&self, watched: &WatchedPlace) {
        if let Some(watch) = &watched.watch
            && let Err(error) = self.0.kept.keep(watch.background())
        {
            log::warn!("{error}");
        }
    }

    /// The place as it is by now, unless the camera was moved.
    fn background(&self) -> Option<Arc<Background>> {
        let watched = self.watched();
        watched.watch.as_ref().filter(|watch| !watch.is_moved()).map(|watch| Arc::clone(watch.background()))
    }

    /// What a frame is a shot of: the thing at a place of it, in shares of its sides, or else in the middle of its
    /// first region; the region or frame as a whole where no empty place is known or it does not fit.
    ///
    /// # Errors
    /// [`Refusal`] if the place is empty.
    pub fn shot(
        &self,
        frame: RgbImage,
        regions: Vec<NamedRegion>,
        at: Option<[f32; 2]>,
        fill: [u8; 3],
    ) -> Result<RgbImage, Refusal> {
        let viewfinder = Viewfinder { background: self.background(), regions, fill };
        if viewfinder.is_plain() {
            return Ok(frame);
        }
        let shot = at.map_or_else(|| viewfinder.shot(&frame), |place| viewfinder.shot_at(&frame, place));
        match shot {
            Ok(shot) => Ok(shot),
            Err(ViewError::Empty) => {
                Err(Refusal::new(ErrorCode::PlaceEmpty, "the place is empty: put the thing in view"))
            }
            Err(ViewError::Size(_)) => {
                let viewfinder = Viewfinder { background: None, ..viewfinder };
                viewfinder.shot(&frame).or(Ok(frame))
            }
            Err(_) => Ok(frame),
        }
    }
}

const MOVED: &str = "the camera seems to have been moved, or the light is quite another: show it the empty place again";

impl WatchedPlace {
    /// Notes that the place is saved now if it is time for that, and says whether it is.
    fn mark_saved_if_due(&mut self, now: Duration) -> bool {
        let is_due = now.saturating_sub(self.saved) >= KEEP_EVERY;
        if is_due {
            self.saved = now;
        }
        is_due
    }
}

/// Width and height to which frames are decoded at least when they are compared with the place: a thing is a part of a
/// frame, and is to have as many pixels as the backbone sees.
pub fn decoded_side(input: &Preprocessing) -> u32 {
    let [width, height] = input.canvas();
    (2 * width.max(height)).max(MIN_SIDE)
}

/// A rectangle as shares of a frame's sides: left edge, upper edge, width, height.
pub fn shares(bounds: PixelRect, frame: [u32; 2]) -> [f32; 4] {
    let share = |length: u32, axis: usize| length as f32 / frame[axis].max(1) as f32;
    [share(bounds.x, 0), share(bounds.y, 1), share(bounds.width, 0), share(bounds.height, 1)]
}

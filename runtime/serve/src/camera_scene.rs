//! The background of the service's own camera.
//!
//! Once the empty place was shown, every frame is compared with its background: each thing gets its own answer, and an
//! empty place is answered `empty`. The background is kept beside the state, so that it outlives the service. If it no
//! longer fits, because the camera was moved or its resolution changed, the service says so and classifies whole frames
//! until the empty place is shown again. If a thing is gone that was there when the empty place was shown, the service
//! says so, too, and goes on.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use orco_runtime::files::FileStamp;
use orco_runtime::image::Preprocessing;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::scene::{
    Background, BackgroundFile, Foreground, FrameContent, FrameSizeError, NamedRegion, PixelRect, Region, SIDE,
    SceneWatch, ViewError, Viewfinder,
};
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::Store;
use orco_runtime::threads::lock;
use serde_json::{Value, json};

use crate::refusal::{ErrorCode, Refusal};

/// Least width and height of a decoded frame that is compared with the background, whatever the backbone sees.
const MIN_SIDE: u32 = 256;
/// Empty views that the background is learned from.
pub const VIEWS: usize = 3;
/// Most bytes that comparing a frame takes, beside the frame.
pub const WORKING_MEMORY: u64 = 12 << 20;
/// Least time between two saves of the background as it follows the light, to spare flash.
const SAVE_INTERVAL: Duration = Duration::from_hours(6);
/// Least time between two checks of the file: another program may have kept or forgotten the background.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// What people are told while the background does not fit.
const MOVED: &str = "the camera seems to have been moved, or the light is quite another: show it the empty place again";
/// What they are told while a thing seems to be gone that was there when the empty place was shown.
const HOLE: &str = "the empty place probably showed a thing that is gone now, so that where it was is taken for a \
                    thing: show the empty place again";

/// The camera's background, shared by its thread and those that serve.
#[derive(Clone)]
pub struct CameraScene(Arc<SharedScene>);

struct SharedScene {
    kept: BackgroundFile,
    started: Instant,
    /// Held while a frame is compared.
    watched: Mutex<WatchedBackground>,
    /// Held for moments only, so that readers do not wait for a frame. Locked after `watched`.
    status: Mutex<SceneStatus>,
}

/// The background that frames are compared with.
#[derive(Default)]
struct WatchedBackground {
    watch: Option<SceneWatch>,
    saved: Duration,
    /// The file that it was read from or kept in.
    version: Option<FileStamp>,
    /// When that file was last checked, as the time since the start: another program may have changed it.
    checked: Duration,
}

/// How the background, the empty place as it was shown, is doing: for people and programs.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SceneStatus {
    /// Width and height of the frames that it was shown with, if it was.
    pub frame: Option<[u32; 2]>,
    /// Whether the camera seems to have been moved since.
    pub is_moved: bool,
    /// Why it cannot be used now.
    pub problem: Option<String>,
    /// Where it probably showed a thing that is gone now, as shares of the frame's sides.
    pub hole: Option<[f32; 4]>,
}

impl SceneStatus {
    /// One word for it: `none`, `shown`, `moved` or `unusable`.
    pub fn state(&self) -> &'static str {
        match self.frame {
            None if self.problem.is_none() => "none",
            Some(_) if self.is_moved => "moved",
            Some(_) if self.problem.is_none() => "shown",
            _ => "unusable",
        }
    }

    /// As programs get it.
    pub fn json(&self) -> Value {
        let advice = self.hole.map(|_| HOLE);
        json!({
            "state": self.state(),
            "problem": self.problem,
            "advice": advice,
            "hole": self.hole,
            "frame": self.frame,
        })
    }
}

/// What a frame or a region of it shows, compared with the background.
pub enum SceneView {
    /// No background is known, or it does not fit: the frame or region counts as a whole.
    Whole,
    /// Things in front of the background; none if the place is empty.
    Things(Foreground),
    /// The region has too few pixels in this frame; a sentence says so.
    TooSmall(String),
}

/// What a region of a frame shows.
#[non_exhaustive]
pub struct SeenRegion {
    /// The region's name; empty if the frame has none.
    pub name: String,
    /// The region as shares of the frame's sides, where it has regions.
    pub shares: Option<[f32; 4]>,
    /// The same in pixels of the frame, where it has enough of them.
    pub bounds: Option<PixelRect>,
    /// What it shows.
    pub view: SceneView,
}

impl SeenRegion {
    /// The regions of a frame, each as a whole, or the frame where there are none.
    pub fn all_of(frame: &RgbImage, regions: &[NamedRegion]) -> Vec<Self> {
        let (width, height) = frame.dimensions();
        let in_frame = |named: &NamedRegion| {
            let (bounds, view) = match named.region.in_frame(width, height) {
                Ok(bounds) => (Some(bounds), SceneView::Whole),
                Err(error) => (None, SceneView::TooSmall(error.to_string())),
            };
            let shares = named.region.shares(width, height).map(|share| share as f32);
            Self { name: named.name.clone(), shares: Some(shares), bounds, view }
        };
        if regions.is_empty() {
            return vec![Self { name: String::new(), shares: None, bounds: None, view: SceneView::Whole }];
        }
        regions.iter().map(in_frame).collect()
    }
}

impl CameraScene {
    /// Reads the background that is kept beside a state. If it cannot be read, there is none; log and status say why.
    pub fn of(store: &Store) -> Self {
        let kept = BackgroundFile::of(store.folder());
        let (watched, status) = read_background(&kept);
        let (watched, status) = (Mutex::new(watched), Mutex::new(status));
        Self(Arc::new(SharedScene { kept, started: Instant::now(), watched, status }))
    }

    fn watched(&self) -> MutexGuard<'_, WatchedBackground> {
        lock(&self.0.watched)
    }

    fn lock_status(&self) -> MutexGuard<'_, SceneStatus> {
        lock(&self.0.status)
    }

    /// How the background is doing now.
    pub fn status(&self) -> SceneStatus {
        self.lock_status().clone()
    }

    /// Whether frames are compared with a background.
    pub fn has_background(&self) -> bool {
        self.lock_status().frame.is_some()
    }

    /// Most bytes that comparing a frame takes, beside the frame.
    pub fn working_memory(&self) -> u64 {
        if self.has_background() { WORKING_MEMORY } else { 0 }
    }

    /// Takes up what another program, such as `orco scene`, has made of the background that is kept.
    pub fn take_up_changes(&self) {
        self.take_up_changes_at(self.0.started.elapsed());
    }

    /// As [`CameraScene::take_up_changes`]; `now` is the time since the start.
    fn take_up_changes_at(&self, now: Duration) {
        let mut watched = self.watched();
        if now.saturating_sub(watched.checked) < CHECK_INTERVAL {
            return;
        }
        watched.checked = now;
        // What is in a folder that is away may come back.
        if self.0.kept.version().is_ok_and(|version| version != watched.version) {
            let (read, status) = read_background(&self.0.kept);
            *watched = WatchedBackground { saved: now, checked: now, ..read };
            *self.lock_status() = status;
        }
    }

    /// Learns the background from empty views, and keeps it. Views may differ outside regions, if there are some.
    ///
    /// # Errors
    /// [`Refusal`] if the views show no empty place, or it cannot be kept; an earlier background is kept then.
    pub fn learn(&self, views: &[RgbImage], regions: &[NamedRegion]) -> Result<(), Refusal> {
        let background = Background::learn_in(views, regions).map_err(|error| Refusal::from(&error))?;
        // The file changes under the lock, so that none brings back what another has just replaced.
        let mut watched = self.watched();
        self.0.kept.keep(&background).map_err(|error| Refusal::storage(&error))?;
        *self.lock_status() = SceneStatus { frame: Some(background.frame_size()), ..SceneStatus::default() };
        let (now, version) = (self.0.started.elapsed(), self.0.kept.version().ok().flatten());
        *watched = WatchedBackground { watch: Some(SceneWatch::new(background)), saved: now, version, checked: now };
        Ok(())
    }

    /// Forgets the background; says whether there was one.
    ///
    /// # Errors
    /// [`Refusal`] if its file cannot be removed.
    pub fn forget(&self) -> Result<bool, Refusal> {
        let mut watched = self.watched();
        let forgotten = self.0.kept.forget().map_err(|error| Refusal::storage(&error))?;
        *self.lock_status() = SceneStatus::default();
        *watched = WatchedBackground::default();
        Ok(forgotten)
    }

    /// What each region of a frame of the camera shows, or the frame as a whole where there are none. `camera_size`
    /// tells the frame's width and height before it was reduced; it is asked only where they do not fit.
    pub fn see(
        &self,
        frame: &RgbImage,
        camera_size: &dyn Fn() -> [u32; 2],
        regions: &[NamedRegion],
    ) -> Vec<SeenRegion> {
        let mut seen = SeenRegion::all_of(frame, regions);
        let bounds: Vec<PixelRect> = seen.iter().filter_map(|region| region.bounds).collect();
        if let Some(foregrounds) = self.compare(frame, camera_size, &bounds, self.0.started.elapsed()) {
            let (background, size) = (self.background(), [frame.width(), frame.height()]);
            let problem = |bounds: Option<PixelRect>| background.as_ref()?.check_region(size, bounds?).err();
            let analysed = seen.iter_mut().filter(|region| matches!(region.view, SceneView::Whole));
            for (region, foreground) in analysed.zip(foregrounds) {
                region.view = match problem(region.bounds) {
                    Some(error) => SceneView::TooSmall(error.to_string()),
                    None => SceneView::Things(foreground),
                };
            }
        }
        seen
    }

    /// What is in front of the background in each region, or in the frame; none if there is no background, or it does
    /// not fit. `now` is the time since the start.
    fn compare(
        &self,
        frame: &RgbImage,
        camera_size: &dyn Fn() -> [u32; 2],
        regions: &[PixelRect],
        now: Duration,
    ) -> Option<Vec<Foreground>> {
        let mut watched = self.watched();
        let watch = watched.watch.as_mut()?;
        let (foregrounds, problem) = match watch.see(frame, regions, now) {
            Ok(FrameContent::Moved) => (None, Some(MOVED.to_owned())),
            Ok(FrameContent::Empty) => {
                (Some(vec![Foreground::empty([frame.width(), frame.height()]); regions.len().max(1)]), None)
            }
            Ok(FrameContent::Things(foregrounds)) => (Some(foregrounds), None),
            // Its numbers are those of frames that were decoded at a smaller size.
            Err(FrameSizeError { .. }) => (None, Some(other_size_sentence(camera_size()))),
        };
        let is_usable = problem.is_none();
        let (is_moved, hole) = (watch.is_moved(), watch.hole().filter(|_| is_usable));
        let (was_usable, is_new_hole) = {
            let mut status = self.lock_status();
            status.is_moved = is_moved;
            let is_new_hole = hole.is_some() && status.hole.is_none();
            status.hole = hole;
            (std::mem::replace(&mut status.problem, problem.clone()).is_none(), is_new_hole)
        };
        match problem {
            Some(problem) if was_usable => log::warn!("camera: {problem}"),
            None if !was_usable => log::warn!("camera: the empty place can be used again"),
            _ => {}
        }
        if is_new_hole {
            log::warn!("camera: {HOLE}");
        }
        if is_usable && watched.take_due_save(now) {
            self.save(&mut watched);
        }
        foregrounds
    }

    /// Saves the background as it is now, unless it looks like the saved one, to spare flash.
    fn save(&self, watched: &mut WatchedBackground) {
        let Some(watch) = &watched.watch else { return };
        // What cannot be read is replaced.
        let is_kept = self.0.kept.read().ok().flatten().is_some_and(|kept| kept.looks_like(watch.background()));
        if is_kept {
            return;
        }
        match self.0.kept.keep(watch.background()) {
            Ok(()) => watched.version = self.0.kept.version().ok().flatten(),
            Err(error) => log::warn!("{}", with_causes(&error)),
        }
    }

    /// The background as it is now, unless the camera was moved.
    fn background(&self) -> Option<Arc<Background>> {
        let watched = self.watched();
        watched.watch.as_ref().filter(|watch| !watch.is_moved()).map(|watch| Arc::clone(watch.background()))
    }

    /// What a frame is a shot of: the thing at a place of it, in shares of its sides, or else in the middle of its
    /// first region; the region or frame as a whole where no background is known or it does not fit.
    ///
    /// # Errors
    /// [`Refusal`] if the place is empty, or the region too small.
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
        let shot = |viewfinder: &Viewfinder| match at {
            Some(place) => viewfinder.shot_at(&frame, place),
            None => viewfinder.shot(&frame),
        };
        let taken = match shot(&viewfinder) {
            Err(ViewError::Size(_)) => shot(&Viewfinder { background: None, ..viewfinder }),
            taken => taken,
        };
        taken.map_err(|error| match error {
            ViewError::Empty => Refusal::new(ErrorCode::NothingInView, "the place is empty: put the thing in view"),
            other => Refusal::new(ErrorCode::RegionTooSmall, format!("no shot can be taken: {other}")),
        })
    }
}

/// Says that the empty place was shown in frames of another size. Those of the camera have this width and height.
fn other_size_sentence([width, height]: [u32; 2]) -> String {
    format!(
        "the empty place was shown with another size than the camera's frames have now, {width} x {height}: show the \
         empty place again"
    )
}

/// The background that is kept, and its status. If it cannot be read, the status says so, and there is none.
fn read_background(kept: &BackgroundFile) -> (WatchedBackground, SceneStatus) {
    // The version comes first: what another program keeps meanwhile is then read again.
    let version = kept.version().ok().flatten();
    let (mut watched, mut status) =
        (WatchedBackground { version, ..WatchedBackground::default() }, SceneStatus::default());
    match kept.read() {
        Ok(background) => {
            status.frame = background.as_ref().map(Background::frame_size);
            watched.watch = background.map(SceneWatch::new);
        }
        Err(error) => {
            let problem = with_causes(&error);
            log::warn!("{problem}");
            status.problem = Some(problem);
        }
    }
    (watched, status)
}

impl WatchedBackground {
    /// Whether it is time to save the background; if so, the next time is [`SAVE_INTERVAL`] later, whether or not it is
    /// saved.
    fn take_due_save(&mut self, now: Duration) -> bool {
        let is_due = now.saturating_sub(self.saved) >= SAVE_INTERVAL;
        if is_due {
            self.saved = now;
        }
        is_due
    }
}

/// Least width and height of a decoded frame that is compared with the background: a thing is a part of a frame, and is
/// to have as many pixels as the backbone sees.
pub fn decoded_side(input: &Preprocessing) -> u32 {
    let [width, height] = input.canvas();
    (2 * width.max(height)).max(MIN_SIDE)
}

/// As [`decoded_side`], and so that the smallest region of a frame of that size has as many pixels as the backbone
/// sees, if the frame has as many, and the frame as many as it is compared at: the background may have been learned in
/// full size.
pub fn decoded_side_for(input: &Preprocessing, regions: &[NamedRegion], frame: [u32; 2]) -> u32 {
    let [width, height] = frame.map(f64::from);
    let canvas = f64::from(*input.canvas().iter().max().expect("two sides"));
    // Its edges are rounded.
    let least = f64::from(Region::MIN_SIDE + 1);
    let side = |named: &NamedRegion| {
        let [_, _, across, down] = named.region.shares(frame[0], frame[1]);
        let sides = [across * width, down * height];
        let scale = (canvas / sides[0].max(sides[1])).max(least / sides[0].min(sides[1])).min(1.0);
        (scale * width.min(height)).ceil() as u32
    };
    let compared = (f64::from(SIDE) * width.min(height) / width.max(height)).ceil() as u32;
    regions.iter().map(side).max().unwrap_or(0).max(decoded_side(input)).max(compared)
}

/// A rectangle as shares of a frame's sides: left edge, upper edge, width, height.
pub fn shares(bounds: PixelRect, [width, height]: [u32; 2]) -> [f32; 4] {
    Region::Pixels(bounds).shares(width, height).map(|share| share as f32)
}

#[cfg(test)]
mod tests;

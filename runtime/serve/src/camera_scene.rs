//! The empty place in front of the service's own camera.
//!
//! Once it was shown, every frame is compared with it: things get answers of their own, and an empty place is answered
//! `empty`. It is kept beside the state, so that it outlives the service. Where it does not fit any more - the camera was
//! moved, another resolution was set - that is said, and frames are looked at as a whole until it is shown again.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use orco_runtime::image::Preprocessing;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::scene::{Background, Foreground, KeptBackground, PixelRect, SceneWatch, Sighting};
use orco_runtime::store::Store;
use serde_json::{Value, json};

use crate::error::Refusal;
use crate::health;

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
pub struct CameraScene(Arc<Shared>);

struct Shared {
    kept: KeptBackground,
    started: Instant,
    scene: Mutex<Scene>,
}

/// What is known of the place.
#[derive(Default)]
struct Scene {
    watch: Option<SceneWatch>,
    /// Why it cannot be used now.
    problem: Option<String>,
    saved: Duration,
}

/// What a frame shows, by its empty place.
pub enum SceneView {
    /// No empty place is known, or it does not fit: the frame counts as a whole.
    Whole,
    /// The empty place.
    Empty,
    /// Things in front of it.
    Things(Foreground),
}

impl CameraScene {
    /// The one that is kept beside a state. One that cannot be read is told, and does without.
    pub fn of(store: &Store) -> Self {
        let kept = KeptBackground::of(store.folder());
        let mut scene = Scene::default();
        match kept.read() {
            Ok(background) => scene.watch = background.map(SceneWatch::new),
            Err(error) => {
                log::warn!("{error}");
                scene.problem = Some(error.to_string());
            }
        }
        Self(Arc::new(Shared { kept, started: Instant::now(), scene: Mutex::new(scene) }))
    }

    fn scene(&self) -> MutexGuard<'_, Scene> {
        health::lock(&self.0.scene)
    }

    /// Whether frames are compared with an empty place.
    pub fn is_shown(&self) -> bool {
        self.scene().watch.is_some()
    }

    /// Most bytes that comparing a frame takes, beside the frame.
    pub fn working_memory(&self) -> u64 {
        if self.is_shown() { WORKING_MEMORY } else { 0 }
    }

    /// What it is: `state` is `none`, `shown`, `moved` or `unusable`.
    pub fn json(&self) -> Value {
        let scene = self.scene();
        let state = match &scene.watch {
            None if scene.problem.is_none() => "none",
            Some(watch) if watch.is_moved() => "moved",
            Some(_) if scene.problem.is_none() => "shown",
            _ => "unusable",
        };
        json!({
            "state": state, "problem": scene.problem,
            "frame": scene.watch.as_ref().map(|watch| watch.background().frame_size()),
        })
    }

    /// Learns the place from views of it, and keeps it.
    ///
    /// # Errors
    /// [`Refusal`] if the views do not show it, or it cannot be kept; an earlier place is kept then.
    pub fn learn(&self, views: &[RgbImage]) -> Result<(), Refusal> {
        let background = Background::learn(views).map_err(|error| Refusal::conflict(error.to_string()))?;
        // The file changes under the lock, so that none brings back what another has just replaced.
        let mut scene = self.scene();
        self.0.kept.keep(&background).map_err(|error| Refusal::internal(error.to_string()))?;
        let saved = self.0.started.elapsed();
        *scene = Scene { watch: Some(SceneWatch::new(background)), problem: None, saved };
        Ok(())
    }

    /// Forgets the place; says whether there was one.
    ///
    /// # Errors
    /// [`Refusal`] if its file cannot be removed.
    pub fn forget(&self) -> Result<bool, Refusal> {
        let mut scene = self.scene();
        let forgotten = self.0.kept.forget().map_err(|error| Refusal::internal(error.to_string()))?;
        *scene = Scene::default();
        Ok(forgotten)
    }

    /// What a frame of the camera shows.
    pub fn see(&self, frame: &RgbImage) -> SceneView {
        let now = self.0.started.elapsed();
        let mut scene = self.scene();
        let Some(watch) = &mut scene.watch else { return SceneView::Whole };
        let (sighting, problem) = match watch.see(frame, now) {
            Ok(Sighting::Moved) => (SceneView::Whole, Some(MOVED.to_owned())),
            Ok(Sighting::Empty) => (SceneView::Empty, None),
            Ok(Sighting::Things(foreground)) => (SceneView::Things(foreground), None),
            Err(error) => (SceneView::Whole, Some(error.to_string())),
        };
        scene.problem = problem;
        if scene.is_due(now)
            && let Some(watch) = &scene.watch
            && let Err(error) = self.0.kept.keep(watch.background())
        {
            log::warn!("{error}");
        }
        sighting
    }

    /// What a frame is a shot of: the thing at a place of it, in shares of its sides, or else in its middle; the frame
    /// as a whole where no empty place is known or it does not fit.
    ///
    /// # Errors
    /// [`Refusal`] if the place is empty.
    pub fn shot(&self, frame: RgbImage, at: Option<[f32; 2]>, fill: [u8; 3]) -> Result<RgbImage, Refusal> {
        let background = match &self.scene().watch {
            Some(watch) if !watch.is_moved() => watch.background().clone(),
            _ => return Ok(frame),
        };
        let Ok(foreground) = background.compare(&frame, None) else { return Ok(frame) };
        let [x, y] = at.unwrap_or([0.5; 2]).map(|share| share.clamp(0.0, 1.0));
        let place = |share: f32, length: u32| ((share * length as f32) as u32).min(length - 1);
        let piece = foreground.at(place(x, frame.width()), place(y, frame.height()));
        let piece = piece.ok_or_else(|| Refusal::conflict("the place is empty: put the thing in view"))?;
        Ok(foreground.cut_out(&frame, piece, fill))
    }
}

const MOVED: &str = "the camera seems to have been moved, or the light is quite another: show it the empty place again";

impl Scene {
    /// Whether the place is to be kept anew.
    fn is_due(&mut self, now: Duration) -> bool {
        let is_due = now.saturating_sub(self.saved) >= KEEP_EVERY && self.problem.is_none();
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

//! The empty place in front of the service's own camera.
//!
//! Once the place was shown, every frame is compared with it: each thing gets its own answer, and an empty place is
//! answered `empty`. It is kept beside the state, so that it outlives the service. If it no longer fits, because the
//! camera was moved or its resolution changed, the service says so and classifies whole frames until it is shown again.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use orco_runtime::files::FileStamp;
use orco_runtime::image::Preprocessing;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::scene::{
    Background, Foreground, FrameContent, KeptBackground, NamedRegion, PixelRect, Region, SIDE, SceneWatch, ViewError,
    Viewfinder,
};
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::Store;
use orco_runtime::threads::lock;
use serde_json::{Value, json};

use crate::refusal::{ErrorCode, Refusal};

/// Least width and height to which frames are decoded that are compared with the place, whatever the backbone sees.
const MIN_SIDE: u32 = 256;
/// Views that the empty place is learned from.
pub const VIEWS: usize = 3;
/// Most bytes that comparing a frame takes, beside the frame.
pub const WORKING_MEMORY: u64 = 12 << 20;
/// How often the place, which follows the light, is kept anew at the most: flash is spared.
const KEEP_EVERY: Duration = Duration::from_secs(6 * 3600);
/// How often, at the most, the file is checked: another program may have kept or forgotten the place.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// What people are told while the place does not fit.
const MOVED: &str = "the camera seems to have been moved, or the light is quite another: show it the empty place again";

/// The empty place, shared by the camera's thread and those that serve.
#[derive(Clone)]
pub struct CameraScene(Arc<SharedScene>);

struct SharedScene {
    kept: KeptBackground,
    started: Instant,
    /// Held while a frame is compared.
    watched: Mutex<WatchedPlace>,
    /// Held for moments only, so that readers do not wait for a frame. Locked after `watched`.
    status: Mutex<SceneStatus>,
}

/// The place that frames are compared with.
#[derive(Default)]
struct WatchedPlace {
    watch: Option<SceneWatch>,
    saved: Duration,
    /// The file that it was read from or kept in.
    version: Option<FileStamp>,
    /// When that file was last checked, as the time since the start: another program may have changed it.
    looked: Duration,
}

/// What is told of the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
    /// The one that is kept beside a state. One that cannot be read is told, and does without.
    pub fn of(store: &Store) -> Self {
        let kept = KeptBackground::of(store.folder());
        let (watched, status) = read_place(&kept);
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

    /// Takes up what another program, such as `orco scene`, has made of the place that is kept.
    pub fn take_up_changes(&self) {
        self.take_up_changes_at(self.0.started.elapsed());
    }

    /// As [`CameraScene::take_up_changes`], so long after the start.
    fn take_up_changes_at(&self, now: Duration) {
        let mut watched = self.watched();
        if now.saturating_sub(watched.looked) < LOOK_EVERY {
            return;
        }
        watched.looked = now;
        // What is in a folder that is away may come back.
        if self.0.kept.version().is_ok_and(|version| version != watched.version) {
            let (place, status) = read_place(&self.0.kept);
            *watched = WatchedPlace { saved: now, looked: now, ..place };
            *self.lock_status() = status;
        }
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
        let (now, version) = (self.0.started.elapsed(), self.0.kept.version().ok().flatten());
        *watched = WatchedPlace { watch: Some(SceneWatch::new(background)), saved: now, version, looked: now };
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

    /// What is in front of the empty place in each region, or in the frame; none if there is no such place, or it does
    /// not fit.
    fn compare(&self, frame: &RgbImage, regions: &[PixelRect]) -> Option<Vec<Foreground>> {
        self.compare_at(frame, regions, self.0.started.elapsed())
    }

    /// As [`CameraScene::compare`], so long after the start.
    fn compare_at(&self, frame: &RgbImage, regions: &[PixelRect], now: Duration) -> Option<Vec<Foreground>> {
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
        if is_usable && watched.take_due_save(now) {
            self.keep(&mut watched);
        }
        foregrounds
    }

    /// Saves the place as it is now, unless it looks like the saved one, to spare flash.
    fn keep(&self, watched: &mut WatchedPlace) {
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

    /// The place as it is now, unless the camera was moved.
    fn background(&self) -> Option<Arc<Background>> {
        let watched = self.watched();
        watched.watch.as_ref().filter(|watch| !watch.is_moved()).map(|watch| Arc::clone(watch.background()))
    }

    /// What a frame is a shot of: the thing at a place of it, in shares of its sides, or else in the middle of its
    /// first region; the region or frame as a whole where no empty place is known or it does not fit.
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

/// The place that is kept, and what is told of it. One that cannot be read is told, and does without.
fn read_place(kept: &KeptBackground) -> (WatchedPlace, SceneStatus) {
    // The version comes first: what another program keeps meanwhile is then read again.
    let version = kept.version().ok().flatten();
    let (mut watched, mut status) = (WatchedPlace { version, ..WatchedPlace::default() }, SceneStatus::default());
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

impl WatchedPlace {
    /// Whether it is time to save the place; if so, the next time is [`KEEP_EVERY`] later, whether or not it is saved.
    fn take_due_save(&mut self, now: Duration) -> bool {
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

/// As [`decoded_side`], and so that the smallest region of a frame of that size has as many pixels as the backbone sees,
/// if the frame has as many, and the frame as many as it is compared at: the place may have been shown in full size.
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
pub fn shares(bounds: PixelRect, frame: [u32; 2]) -> [f32; 4] {
    let share = |length: u32, axis: usize| length as f32 / frame[axis].max(1) as f32;
    [share(bounds.x, 0), share(bounds.y, 1), share(bounds.width, 0), share(bounds.height, 1)]
}

#[cfg(test)]
mod tests {
    use orco_runtime::image::Look;
    use orco_runtime::image_rs::Rgb;

    use super::*;

    const GREY: [u8; 3] = [127; 3];

    fn regions(texts: &[&str]) -> Vec<NamedRegion> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Red above, blue below, with stripes.
    fn frame(width: u32, height: u32) -> RgbImage {
        RgbImage::from_fn(width, height, |x, y| {
            let stripe = (x / 8 % 2 * 90 + y / 16 % 2 * 40) as u8;
            Rgb(if 2 * y < height { [200, stripe, 0] } else { [0, stripe, 200] })
        })
    }

    #[test]
    fn a_shot_is_of_its_region_whatever_the_others_are() {
        let folder = tempfile::tempdir().unwrap();
        let scene = CameraScene::of(&Store::new(folder.path()));
        let all = regions(&["shelf=0,0,1,0.5", "dot=0.5,0.5,0.01,0.01"]);
        let shelf = Viewfinder { regions: all[..1].to_vec(), fill: GREY, ..Viewfinder::default() };
        let shelf = shelf.shot(&frame(640, 360)).unwrap();
        let shot = |regions: &[NamedRegion], at| scene.shot(frame(640, 360), regions.to_vec(), at, GREY);
        assert!(shot(&all, Some([0.5, 0.2])).ok().as_ref() == Some(&shelf));
        assert!(shot(&all, None).ok().as_ref() == Some(&shelf));
        // Never the frame in the place of a region.
        for refused in [shot(&all[1..], None), shot(&all, Some([0.505, 0.505]))] {
            let refused = refused.err().unwrap();
            assert_eq!(refused.status(), 409);
            assert!(
                refused.sentence.contains("is too small: at least 16 x 16 pixels are needed"),
                "{}",
                refused.sentence
            );
        }
    }

    #[test]
    fn the_region_that_was_tapped_counts_also_where_the_empty_place_does_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let scene = CameraScene::of(&Store::new(folder.path()));
        scene.learn(&[frame(320, 240)]).unwrap();
        let all = regions(&["upper=0,0,1,0.5", "lower=0,0.5,1,0.5"]);
        let shot = scene.shot(frame(640, 360), all, Some([0.5, 0.8]), GREY).ok().unwrap();
        assert_eq!(shot.get_pixel(shot.width() / 2, shot.height() / 2)[0], 0, "the upper region is red");
    }

    #[test]
    fn a_place_that_looks_as_it_did_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let scene = CameraScene::of(&store);
        scene.learn(&[frame(320, 240)]).unwrap();
        let kept = || std::fs::read(KeptBackground::of(store.folder()).path()).unwrap();
        let (learned, later) = (kept(), |times: u32| times * KEEP_EVERY + Duration::from_secs(1));
        assert!(scene.compare_at(&frame(320, 240), &[], later(1)).is_some());
        assert!(kept() == learned, "nothing has changed");
        let mut brighter = frame(320, 240);
        brighter.iter_mut().for_each(|value| *value = *value / 5 * 6);
        assert!(scene.compare_at(&brighter, &[], later(1)).is_some());
        assert!(kept() == learned, "it is not time");
        assert!(scene.compare_at(&brighter, &[], later(2)).is_some());
        assert!(kept() != learned, "the light has changed");
    }

    #[test]
    fn a_place_that_another_program_keeps_or_forgets_is_taken_up() {
        let folder = tempfile::tempdir().unwrap();
        let [state, away] = ["state", "away"].map(|name| folder.path().join(name));
        let (scene, kept) = (CameraScene::of(&Store::new(&state)), KeptBackground::of(&state));
        let keep = || kept.keep(&Background::learn(&[frame(320, 240)]).unwrap()).unwrap();
        let look = |times: u32| {
            scene.take_up_changes_at(times * LOOK_EVERY);
            scene.status().frame
        };
        assert_eq!(look(1), None);
        keep();
        assert_eq!(look(2), Some([320, 240]));
        scene.learn(&[frame(640, 360)]).unwrap();
        assert_eq!(look(3), Some([640, 360]), "it is the service's own");
        keep();
        assert_eq!(look(4), Some([320, 240]));
        std::fs::rename(&state, &away).unwrap();
        assert_eq!(look(5), Some([320, 240]), "the folder may come back");
        std::fs::rename(&away, &state).unwrap();
        assert!(kept.forget().unwrap());
        assert_eq!(look(6), None);
    }

    fn is_things(seen: &SeenRegion) -> bool {
        matches!(seen.view, SceneView::Things(_))
    }

    #[test]
    fn a_region_that_is_too_small_keeps_its_name_and_says_so() {
        let all = regions(&["dot=0.5,0.5,0.01,0.01", "shelf=0,0,1,0.5"]);
        let [dot, shelf] = &SeenRegion::all_of(&frame(640, 360), &all)[..] else { panic!("there are two") };
        assert_eq!((&*dot.name, dot.shares), ("dot", Some([0.5, 0.5, 0.01, 0.01])));
        assert!(matches!(&dot.view, SceneView::TooSmall(problem) if problem.contains("is too small")));
        assert_eq!((shelf.bounds.unwrap().height, matches!(shelf.view, SceneView::Whole)), (180, true));
        // What the place shows goes to the region that is analysed.
        let folder = tempfile::tempdir().unwrap();
        let scene = CameraScene::of(&Store::new(folder.path()));
        scene.learn(&[frame(640, 360)]).unwrap();
        let are_things = |seen: &[SeenRegion]| -> Vec<bool> { seen.iter().map(is_things).collect() };
        assert_eq!(are_things(&scene.see(&frame(640, 360), &all)), [false, true]);
        assert_eq!(are_things(&scene.see(&frame(640, 360), &[])), [true]);
        // Larger, yet no thing could ever be found in it in a frame of that size.
        scene.learn(&[frame(1280, 720)]).unwrap();
        let all = regions(&["dot=0.5,0.5,0.0135,0.025", "shelf=0,0,1,0.5"]);
        let [dot, shelf] = &scene.see(&frame(1280, 720), &all)[..] else { panic!("there are two") };
        assert!(matches!(&dot.view, SceneView::TooSmall(problem) if problem.contains("each side needs 2 %")));
        assert!(is_things(shelf));
        let refused = scene.shot(frame(1280, 720), all, Some([0.505, 0.505]), GREY).err().unwrap();
        assert!(refused.sentence.contains("is too small for things"), "{}", refused.sentence);
    }

    #[test]
    fn frames_are_decoded_so_that_the_smallest_region_has_what_the_backbone_sees() {
        let input = Preprocessing { width: 32, height: 32, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE };
        let side = |texts: &[&str]| decoded_side_for(&input, &regions(texts), [1920, 1080]);
        assert_eq!((side(&[]), side(&["shelf=0,0,1,0.5"])), (256, 256));
        // 77 x 54 pixels, of which 32 x 23 are enough.
        let lamp = side(&["shelf=0,0,1,0.5", "lamp=0.5,0.5,0.04,0.05"]);
        assert!((450..=452).contains(&lamp), "{lamp}");
        // 19 x 108 pixels: no side may have fewer than 16.
        let slit = side(&["slit=0.5,0.5,0.01,0.1"]);
        assert!((950..=960).contains(&slit), "{slit}");
        assert_eq!(side(&["dot=0.5,0.5,0.001,0.001"]), 1080, "no more than there is");
    }

    #[test]
    fn frames_are_decoded_so_that_a_place_that_was_shown_in_full_size_fits() {
        let input = Preprocessing { width: 32, height: 32, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE };
        for size in [[600, 600], [520, 620], [640, 512], [1224, 1024], [1280, 720]] {
            let side = decoded_side_for(&input, &[], size);
            let reduced = |scale: u32| size.map(|length| length.div_ceil(scale));
            let has_enough = |scale: &u32| reduced(*scale).iter().all(|length| *length >= side);
            let [width, height] = reduced([8, 4, 2, 1].into_iter().find(has_enough).unwrap());
            let place = Background::learn(&[frame(size[0], size[1])]).unwrap();
            assert!(place.compare(&frame(width, height), None).is_ok(), "{size:?} by {width} x {height}");
        }
    }
}

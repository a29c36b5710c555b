//! The frames of a running camera, beside its background.

use std::sync::Arc;
use std::time::Duration;

use ::image::RgbImage;

use super::background::{Background, FrameSizeError, mean_brightness};
use super::camera_pose::CameraPose;
use super::difference::{Change, Difference};
use super::foreground::Foreground;
use super::hole::HoleSearch;
use super::place_fit::PlaceFit;
use super::region::{PixelRect, Region, in_regions};
use super::small_frame::{CLIPPED, SmallFrame, brightness};
use super::still_pieces::StillPieces;
use super::streak::Streak;

/// Share of the place that may be lost where a moved camera has found it again, and where the light is followed beside
/// things.
const MAX_LOST: f32 = 0.4;
/// How long a camera must seem to be moved, or back, before it counts as such: a hand before the lens is gone by then.
const MOVED_AFTER: Duration = Duration::from_secs(4);
/// Least frames that must agree.
const MIN_FRAMES: u32 = 3;
/// Time constant of the moving average by which the background follows the light.
const FOLLOWING: Duration = Duration::from_secs(60);
/// Least time between two steps of that.
const STEP: Duration = Duration::from_secs(1);
/// Most that one step follows: after a pause one frame must not become the place.
const MAX_RATE: f32 = 0.2;
/// How many times darker or brighter than at first a place may be and still be followed. Beyond, an exposure could not
/// bring it back: a place that was followed into the night would be lost when somebody turns on the light.
const FOLLOWED_LIGHT: f32 = 3.0;

/// What one frame shows.
#[derive(Clone, Debug)]
pub enum FrameContent {
    /// The empty place, in each of the regions, or in the frame as a whole where there are none.
    Empty,
    /// Something is in front of it: what each of the regions shows, or the frame as a whole where there are none.
    Things(Vec<Foreground>),
    /// Another place: the camera was moved, or the light is quite another. The empty place must be shown again; until
    /// then frames are to be classified without it.
    Moved,
}

/// Compares the frames of a running camera with its background. It follows slow changes of light where it sees the
/// place, and notices when the camera was moved, or when a thing is gone that was there when the empty place was shown.
/// What lies outside of all regions hinders none of that.
#[derive(Clone, Debug)]
pub struct SceneWatch {
    background: Arc<Background>,
    is_moved: bool,
    /// The latest frames, if they contradict `is_moved`.
    contradiction: Option<Streak>,
    /// When the background last followed the light.
    followed: Option<Duration>,
    still: StillPieces,
}

impl SceneWatch {
    /// Watches by a background.
    pub fn new(background: Background) -> Self {
        let still = StillPieces::default();
        Self { background: Arc::new(background), is_moved: false, contradiction: None, followed: None, still }
    }

    /// The background as it is now. A caller that keeps it is not disturbed when it follows the light.
    pub fn background(&self) -> &Arc<Background> {
        &self.background
    }

    /// Whether the camera was moved since the empty place was shown.
    pub fn is_moved(&self) -> bool {
        self.is_moved
    }

    /// Where the empty views probably showed a thing that is gone now: left edge, upper edge, width and height, as
    /// shares of the frame's sides. That part of the place is taken for a thing until the empty place is shown again,
    /// or the thing is back.
    pub fn hole(&self) -> Option<[f32; 4]> {
        let [width, height] = self.background.small_size().map(|side| side as u32);
        let in_shares = |hole: PixelRect| Region::Pixels(hole).shares(width, height).map(|share| share as f32);
        self.still.hole().map(in_shares)
    }

    /// Looks at a frame, or at regions of it, in its pixels. `at` is the time of a clock that never goes back.
    ///
    /// # Errors
    /// [`FrameSizeError`] if the frame has another size than the empty views.
    pub fn see(
        &mut self,
        frame: &RgbImage,
        regions: &[PixelRect],
        at: Duration,
    ) -> Result<FrameContent, FrameSizeError> {
        let small = self.background.small(frame)?;
        let difference = self.background.difference(&small);
        let size = [frame.width(), frame.height()];
        let whole = [PixelRect::whole(size)];
        let regions = if regions.is_empty() { &whole[..] } else { regions };
        let in_region = in_regions(regions, size, &small);
        let fit = difference.fit(|index| in_region[index]);
        self.update_moved(fit, at);
        if self.is_moved {
            self.still.clear();
            return Ok(FrameContent::Moved);
        }
        let of = |region: &PixelRect| Foreground::of(self.background.width, &difference, size, *region);
        let foregrounds: Vec<Foreground> = regions.iter().map(of).collect();
        if !fit.is_moved() {
            let small_size = self.background.small_size().map(|side| side as u32);
            let searched = regions.iter().map(|region| region.in_small_frame(size, small_size));
            let search = || HoleSearch::new(&self.background, &small, &difference);
            self.still.see(foregrounds.iter().zip(searched), small_size, search, at);
        }
        if foregrounds.iter().all(|foreground| foreground.things().is_empty()) {
            // A place that is seen shifted must not be learned as the one that was shown.
            if !fit.is_moved() {
                let shows_place = |index: usize| in_region[index] || !difference.changes[index].may_be_thing();
                self.follow(&small, &difference, shows_place, at);
            }
            return Ok(FrameContent::Empty);
        }
        if fit.lost < MAX_LOST && !fit.is_moved() {
            // What looks like a shadow may be a part of a thing here.
            let is_plain = |index: usize| difference.changes[index] == Change::None;
            let is_covered = |index: usize| foregrounds.iter().any(|foreground| foreground.covers(index));
            self.follow(&small, &difference, |index| is_plain(index) && !is_covered(index), at);
        }
        Ok(FrameContent::Things(foregrounds))
    }

    /// Notes whether the camera was moved, or is back, once enough frames say so.
    fn update_moved(&mut self, fit: PlaceFit, at: Duration) {
        let is_back = || fit.lost <= MAX_LOST && matches!(fit.pose, CameraPose::Kept | CameraPose::Plain);
        let agrees = if self.is_moved { !is_back() } else { !fit.is_moved() };
        if agrees {
            self.contradiction = None;
            return;
        }
        let contradiction = Streak::continued(self.contradiction, at);
        self.contradiction = Some(contradiction);
        if contradiction.has_lasted(MOVED_AFTER, MIN_FRAMES, at) {
            self.is_moved = !self.is_moved;
            self.contradiction = None;
        }
    }

    fn follow(
        &mut self,
        small: &SmallFrame,
        difference: &Difference,
        shows_place: impl Fn(usize) -> bool,
        at: Duration,
    ) {
        let passed = self.followed.map_or(STEP, |last| at.saturating_sub(last));
        // A place that was followed into a night without colours would be lost by day, and one that was followed until
        // nothing but white is left would be lost once it is less bright.
        if passed < STEP || difference.is_grey || is_clipped(small, &self.background.colours) {
            return;
        }
        let ratio = mean_brightness(&small.pixels) / self.background.brightness.max(1.0);
        if (1.0 / FOLLOWED_LIGHT..=FOLLOWED_LIGHT).contains(&ratio) {
            let share = 1.0 - libm::expf(-passed.as_secs_f32() / FOLLOWING.as_secs_f32());
            Arc::make_mut(&mut self.background).follow(small, difference, shows_place, share.min(MAX_RATE));
            self.followed = Some(at);
        }
    }
}

/// Whether most of a frame is clipped, and its place is not.
fn is_clipped(small: &SmallFrame, place: &[[f32; 3]]) -> bool {
    let pairs = small.pixels.iter().zip(place);
    let clipped = pairs.filter(|(seen, place)| brightness(seen) >= CLIPPED && brightness(place) < CLIPPED).count();
    2 * clipped > small.pixels.len()
}

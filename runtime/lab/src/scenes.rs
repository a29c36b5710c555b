//! Things before places: does a device know a thing that it learned in one place in another one?
//!
//! Things whose masks are known are pasted onto photographs of places, as a camera that stands still would see them: at
//! 0.6 of the frame's height, with another exposure in every frame, noise and JPEG's losses. Each is learned from five
//! shots in one place, then shown there and in a place of another thing, through each [`SceneInput`]. Counted, too, is
//! how often an answer is right and not *unknown*, an empty place is called empty, a thing is missed, and two things in
//! one frame are both right. What the device promises after it was taught is compared with what comes true.
//!
//! Where a thing is and when its place is empty is known here; the device is told neither.

mod measure;
mod objects;
mod results;
mod stage;

pub use measure::{SceneError, SceneInput, ScenePlan, measure};
pub use objects::{MaskedPicture, ObjectError, PhotographedObject, objects_in};
pub use results::{InputShares, KnownShares, ScenePromise, SceneReport, SceneResults};
pub use stage::{FRAME, Stage};

use orco_benchmark::spread::decimal;

/// A share, or the difference of two, in percent as tables show it; what rounds to 0 has no sign.
pub fn percent(share: f64) -> String {
    decimal(100.0 * share, 1)
}

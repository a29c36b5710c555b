//! How much of the empty place a frame shows, and where.

use super::camera_pose::CameraPose;
use crate::quality::Objection;

/// Share of the place lost from which a frame's camera counts as moved. Views of the empty place may lose less.
const MIN_LOST: f32 = 0.6;

/// How well the empty place is found in a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlaceFit {
    /// The share of the place that is not found where it was, 0..1; 0 where no empty place is known.
    pub lost: f32,
    /// Whether it is found shifted or turned instead.
    pub pose: CameraPose,
}

impl PlaceFit {
    /// The fit of a picture which is not compared with an empty place, or shows nothing else.
    pub(crate) const WHOLE: Self = Self { lost: 0.0, pose: CameraPose::Kept };

    /// Whether the camera seems to have been moved since the empty place was shown, or the light is quite another.
    pub fn is_moved(&self) -> bool {
        self.objection::<()>().is_some()
    }

    /// What speaks against a picture in which the place is found so.
    pub fn objection<S>(&self) -> Option<Objection<S>> {
        match self {
            Self { pose: CameraPose::Changed, .. } => Some(Objection::Shifted),
            Self { lost, .. } if *lost >= MIN_LOST => Some(Objection::Moved { lost: *lost }),
            Self { .. } => None,
        }
    }
}

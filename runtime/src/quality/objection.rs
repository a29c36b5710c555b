//! Reasons against a picture as a shot, for the page, the command line and the library.

use std::fmt;

use orco_state::escape::EscapedText;
use orco_state::label;

use super::{Flaw, Quality, Thresholds};

/// Probability of another class from which a shot looks like it.
pub const LOOKS_LIKE_PROBABILITY: f32 = 0.5;

/// A reason against a picture as a shot. `S` names a shot: a number, a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Objection<S> {
    /// Something is wrong with the picture.
    Flaw(Flaw),
    /// It is nearly the same picture as an earlier shot.
    Repeated {
        /// That shot.
        shot: S,
        /// Its label.
        label: String,
    },
    /// Hardly anything of the empty place is found in it.
    Moved {
        /// The share of that place that is not, 0..1.
        lost: f32,
    },
    /// The empty place is found elsewhere in it than it was.
    Shifted,
    /// It looks like a class that is known under another label.
    LooksLike {
        /// That label.
        label: String,
        /// How probable it is, 0..1.
        probability: f32,
    },
}

impl<S> Objection<S> {
    /// Whether the shot is refused for it; otherwise it is a warning.
    pub fn refuses(&self) -> bool {
        !matches!(self, Self::LooksLike { .. })
    }
}

/// The rest of a sentence that begins with the shot.
impl<S: fmt::Display> fmt::Display for Objection<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flaw(flaw) => write!(f, "is {flaw}"),
            Self::Repeated { shot, .. } => write!(f, "is nearly the same picture as {shot}"),
            Self::Shifted => f.write_str(
                "shows the empty place shifted, turned or nearer: the camera seems to have been moved; show the empty place again",
            ),
            Self::Moved { lost } => write!(
                f,
                "does not show {:.0} % of the empty place: the camera seems to have been moved, the light is quite another \
                 (then show the empty place again), or the thing hides nearly all of it",
                100.0 * lost
            ),
            Self::LooksLike { label, probability } => {
                write!(f, "looks like {} ({:.0} %)", EscapedText(label), 100.0 * probability)
            }
        }
    }
}

/// A picture that is to be a shot.
#[derive(Clone, Copy, Debug)]
pub struct ShotCandidate<'a> {
    /// The class that it is to be a shot of.
    pub label: &'a str,
    /// What was measured on it.
    pub quality: &'a Quality,
    /// The class that it is answered with, if it is like anything known.
    pub best: Option<BestClass<'a>>,
}

/// The class that a picture is answered with.
#[derive(Clone, Copy, Debug)]
pub struct BestClass<'a> {
    /// Its label.
    pub label: &'a str,
    /// How probable it is, 0..1.
    pub probability: f32,
}

/// A shot that was taken before. `S` names it: a number, a file.
#[derive(Clone, Copy, Debug)]
pub struct EarlierShot<'a, S> {
    /// Which one.
    pub shot: S,
    /// Its label.
    pub label: &'a str,
    /// What was measured on it.
    pub quality: &'a Quality,
}

impl Thresholds {
    /// All reasons against a picture as a shot; `earlier` are the shots that were taken before it.
    pub fn objections<'a, S>(
        &self,
        candidate: ShotCandidate<'_>,
        earlier: impl IntoIterator<Item = EarlierShot<'a, S>>,
    ) -> Vec<Objection<S>> {
        let mut objections: Vec<_> = self.flaws(candidate.quality).into_iter().map(Objection::Flaw).collect();
        let is_same = |shot: &EarlierShot<'_, S>| {
            if label::same(shot.label, candidate.label) {
                self.repeats(shot.quality, candidate.quality)
            } else {
                self.repeats_across_classes(shot.quality, candidate.quality)
            }
        };
        let same = earlier.into_iter().find(is_same);
        objections.extend(same.map(|same| Objection::Repeated { shot: same.shot, label: same.label.into() }));
        let other = candidate.best.filter(|best| best.probability >= LOOKS_LIKE_PROBABILITY);
        let other = other.filter(|best| !label::same(best.label, candidate.label));
        objections
            .extend(other.map(|best| Objection::LooksLike { label: best.label.into(), probability: best.probability }));
        objections
    }
}

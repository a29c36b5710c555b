//! Looking at the pictures of shots before anything is learned from them.

use std::fmt;

use ::image::RgbImage;

use super::settings::ShotChecks;
use crate::quality::{Objection, Quality, ShotCandidate, Thresholds};

/// A shot with what speaks against it.
#[derive(Clone, Debug, PartialEq)]
pub struct DoubtfulShot {
    /// Its file, or its number and its class.
    pub shot: String,
    /// What speaks against it.
    pub objections: Vec<Objection<String>>,
}

impl fmt::Display for DoubtfulShot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objections: Vec<String> = self.objections.iter().map(Objection::to_string).collect();
        write!(f, "{} {}", self.shot, objections.join(" and "))
    }
}

/// The shots of one change, as they are looked at.
pub(super) struct Check {
    checks: ShotChecks,
    thresholds: Thresholds,
    taken: Vec<(String, String, Quality)>,
    /// Shots for which the change is refused.
    pub(super) refused: Vec<DoubtfulShot>,
    /// Shots that are taken all the same.
    pub(super) doubtful: Vec<DoubtfulShot>,
}

impl Check {
    pub(super) fn new(checks: ShotChecks) -> Self {
        let (taken, refused, doubtful) = Default::default();
        Self { checks, thresholds: Thresholds::default(), taken, refused, doubtful }
    }

    /// Whether anything is looked at.
    pub(super) fn looks(&self) -> bool {
        self.checks != ShotChecks::Off
    }

    /// Looks at a shot of a class, which is answered with `best` where that is known.
    pub(super) fn look(&mut self, shot: String, label: &str, picture: &RgbImage, best: Option<(&str, f32)>) {
        let quality = Quality::of(picture);
        let earlier = self.taken.iter().map(|(shot, label, quality)| (shot.clone(), label.as_str(), quality));
        let objections = self.thresholds.objections(ShotCandidate { label, quality: &quality, best }, earlier);
        let refused = self.checks == ShotChecks::Refuse && objections.iter().any(Objection::refuses);
        if !objections.is_empty() {
            let list = if refused { &mut self.refused } else { &mut self.doubtful };
            list.push(DoubtfulShot { shot: shot.clone(), objections });
        }
        self.taken.push((shot, label.to_owned(), quality));
    }
}

//! Examining the pictures of shots before anything is learned from them.

use std::fmt;

use orco_state::escape::EscapedText;

use super::settings::ShotChecks;
use super::shots::OpenedShot;
use crate::quality::{BestClass, EarlierShot, Objection, Quality, ShotCandidate, Thresholds};

/// A shot, with the reasons against it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DoubtfulShot {
    /// Its file, or its number and its class.
    pub shot: String,
    /// The reasons against it.
    pub objections: Vec<Objection<String>>,
}

impl DoubtfulShot {
    /// The rest of a sentence that begins with the shot and states an objection.
    fn sentence(&self, objection: &Objection<String>) -> String {
        match objection {
            // One file may have been given to two classes.
            Objection::Repeated { shot, label } if *shot == self.shot => {
                format!("is the same picture as the one for {}", EscapedText(label))
            }
            objection => objection.to_string(),
        }
    }
}

impl fmt::Display for DoubtfulShot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objections: Vec<String> = self.objections.iter().map(|objection| self.sentence(objection)).collect();
        write!(f, "{} {}", self.shot, objections.join(" and "))
    }
}

/// A shot that was examined.
struct ExaminedShot {
    /// Its file, or its number and its class.
    name: String,
    label: String,
    quality: Quality,
}

/// Examines the shots of one change, one after the other.
pub(super) struct ShotExaminer {
    checks: ShotChecks,
    thresholds: Thresholds,
    examined: Vec<ExaminedShot>,
    /// Shots for which the change is refused.
    pub(super) refused: Vec<DoubtfulShot>,
    /// Shots that are taken all the same.
    pub(super) doubtful: Vec<DoubtfulShot>,
}

impl ShotExaminer {
    pub(super) fn new(checks: ShotChecks) -> Self {
        let (examined, refused, doubtful) = Default::default();
        Self { checks, thresholds: Thresholds::default(), examined, refused, doubtful }
    }

    /// Whether shots are examined at all.
    pub(super) fn is_on(&self) -> bool {
        self.checks != ShotChecks::Off
    }

    /// Examines a shot of a class, which is answered with `best`, where that is known.
    pub(super) fn examine(&mut self, name: String, label: &str, opened: &OpenedShot<'_>, best: Option<BestClass<'_>>) {
        let quality = Quality::of(&opened.picture);
        let earlier = self.examined.iter().map(|shot| EarlierShot {
            shot: shot.name.clone(),
            label: &shot.label,
            quality: &shot.quality,
        });
        let mut objections = self.thresholds.objections(ShotCandidate { label, quality: &quality, best }, earlier);
        objections.extend(opened.fit.objection());
        let refused = self.checks == ShotChecks::Refuse && objections.iter().any(Objection::refuses);
        if !objections.is_empty() {
            let list = if refused { &mut self.refused } else { &mut self.doubtful };
            list.push(DoubtfulShot { shot: name.clone(), objections });
        }
        self.examined.push(ExaminedShot { name, label: label.to_owned(), quality });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_given_to_two_classes_is_named_by_the_other_class() {
        let repeated = |shot: &str| Objection::Repeated { shot: shot.into(), label: "mug".into() };
        let said =
            |earlier: &str| DoubtfulShot { shot: "1.jpg".into(), objections: vec![repeated(earlier)] }.to_string();
        assert_eq!(said("1.jpg"), "1.jpg is the same picture as the one for mug");
        assert_eq!(said("2.jpg"), "1.jpg is nearly the same picture as 2.jpg");
    }
}

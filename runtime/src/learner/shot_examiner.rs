//! Examining the pictures of shots before anything is learned from them.

use std::collections::BTreeMap;
use std::fmt;

use orco_state::escape::EscapedText;
use orco_state::sentence::join_first;

use super::settings::ShotChecks;
use super::shots::OpenedShot;
use crate::quality::{BestClass, EarlierShot, Objection, Quality, ShotCandidate, Thresholds, show_different_places};

/// Most shots that are warned of one by one because they look like the same class.
const MAX_ALIKE: usize = 5;
/// Most shots that one warning names.
const MAX_NAMED: usize = 3;

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
    /// The class that it looks like, if nothing else speaks against it.
    fn only_looks_like(&self) -> Option<&str> {
        match &self.objections[..] {
            [Objection::LooksLike { label, .. }] => Some(label),
            _ => None,
        }
    }

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

/// Warnings of shots that were taken all the same: one for each, but a single one for many shots that merely look like
/// the same class. Ten signs or faces are all like the one that came with the bundle; a warning for each would bury the
/// others.
pub fn shot_warnings(shots: &[DoubtfulShot]) -> Vec<String> {
    let mut alike: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for shot in shots {
        if let Some(label) = shot.only_looks_like() {
            alike.entry(label).or_default().push(&shot.shot);
        }
    }
    alike.retain(|_, shots| shots.len() > MAX_ALIKE);
    let is_alone = |shot: &&DoubtfulShot| shot.only_looks_like().is_none_or(|label| !alike.contains_key(label));
    let mut warnings: Vec<String> = shots.iter().filter(is_alone).map(ToString::to_string).collect();
    warnings.extend(alike.iter().map(|(label, shots)| {
        let named = join_first(shots.iter(), MAX_NAMED, ", ");
        format!("{} shots look like {}: {named}", shots.len(), EscapedText(label))
    }));
    warnings
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

    /// Classes whose shots show different places, by their labels as they were given.
    pub(super) fn classes_in_different_places(&self) -> Vec<String> {
        let mut classes: BTreeMap<&str, Vec<Quality>> = BTreeMap::new();
        for shot in &self.examined {
            classes.entry(&shot.label).or_default().push(shot.quality);
        }
        classes.retain(|_, shots| show_different_places(shots));
        classes.into_keys().map(String::from).collect()
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
    use std::borrow::Cow;

    use ::image::{Rgb, RgbImage};

    use super::*;
    use crate::scene::PlaceFit;

    #[test]
    fn a_class_whose_shots_have_different_edges_is_in_different_places() {
        let lit_from =
            |is_left: bool| RgbImage::from_fn(64, 64, |x, _| Rgb([if (x < 32) == is_left { 200 } else { 60 }; 3]));
        let mut examiner = ShotExaminer::new(ShotChecks::Warn);
        for (label, is_left) in [("cup", true), ("mug", true), ("cup", true), ("mug", false)] {
            let opened = OpenedShot { picture: Cow::Owned(lit_from(is_left)), fit: PlaceFit::WHOLE };
            examiner.examine(String::new(), label, &opened, None);
        }
        assert_eq!(examiner.classes_in_different_places(), ["mug"]);
    }

    #[test]
    fn a_file_that_was_given_to_two_classes_is_named_by_the_other_class() {
        let repeated = |shot: &str| Objection::Repeated { shot: shot.into(), label: "mug".into() };
        let said =
            |earlier: &str| DoubtfulShot { shot: "1.jpg".into(), objections: vec![repeated(earlier)] }.to_string();
        assert_eq!(said("1.jpg"), "1.jpg is the same picture as the one for mug");
        assert_eq!(said("2.jpg"), "1.jpg is nearly the same picture as 2.jpg");
    }

    #[test]
    fn many_shots_that_look_like_one_class_get_one_warning() {
        let looks_like = |label: &str| Objection::LooksLike { label: label.into(), probability: 0.9 };
        let shot = |number: usize, objections| DoubtfulShot { shot: format!("{number}.jpg"), objections };
        let mut shots: Vec<_> = (1..=MAX_ALIKE).map(|number| shot(number, vec![looks_like("stop_sign")])).collect();
        let each = shot_warnings(&shots);
        assert_eq!((each.len(), each[0].as_str()), (MAX_ALIKE, "1.jpg looks like stop_sign (90 %)"));
        let repeated = Objection::Repeated { shot: "1.jpg".into(), label: "mug".into() };
        shots.insert(2, shot(8, vec![repeated, looks_like("stop_sign")]));
        shots.push(shot(6, vec![looks_like("stop_sign")]));
        shots.push(shot(7, vec![looks_like("pyramid")]));
        assert_eq!(
            shot_warnings(&shots),
            [
                "8.jpg is nearly the same picture as 1.jpg and looks like stop_sign (90 %)",
                "7.jpg looks like pyramid (90 %)",
                "6 shots look like stop_sign: 1.jpg, 2.jpg, 3.jpg, and 3 more"
            ]
        );
    }
}

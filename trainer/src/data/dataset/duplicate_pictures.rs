//! Finds a user's pictures that are there twice: in two classes, of which one is wrong, or among the images that are
//! learned from and those that are measured on, so that accuracy says nothing about new pictures. Pictures are equal
//! where the hashes of their pixels are.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};

use orco_state::escape::EscapedText;
use orco_state::sentence::join_first;

use super::Split;
use crate::config::MeasureOn;

/// Most pairs that a sentence names.
const MAX_NAMED: usize = 3;

/// Training or test images, by index.
#[derive(Clone, Copy)]
pub(super) struct PicturePart<'a> {
    /// `train/` or `test/` where both folders may hold the same name, else empty.
    pub folder: &'static str,
    /// `class/file` of each.
    pub names: &'a [String],
    /// Class of each.
    pub labels: &'a [u16],
    /// Hash of each one's pixels.
    pub hashes: &'a [u64],
}

impl<'a> PicturePart<'a> {
    fn picture(self, index: usize) -> Picture<'a> {
        let Self { folder, names, labels, hashes } = self;
        Picture { folder, name: &names[index], label: labels[index], hash: hashes[index] }
    }

    fn pictures(self) -> impl Iterator<Item = Picture<'a>> {
        (0..self.names.len()).map(move |index| self.picture(index))
    }
}

/// One picture of a part.
#[derive(Clone, Copy)]
struct Picture<'a> {
    folder: &'static str,
    name: &'a str,
    label: u16,
    hash: u64,
}

impl Display for Picture<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.folder, EscapedText(self.name))
    }
}

/// The first of some pairs of equal pictures, and how many more there are; nothing without any.
fn named(pairs: &[[Picture<'_>; 2]]) -> Option<String> {
    let pairs = (!pairs.is_empty()).then(|| pairs.iter().map(|[first, second]| format!("{first} and {second}")))?;
    Some(join_first(pairs, MAX_NAMED, ", "))
}

/// Says which of the training and test images are equal though they must not be, a sentence each.
///
/// Images beyond the split are compared for the sentence on two classes alone.
pub(super) fn duplicate_warnings(
    [train, test]: [PicturePart<'_>; 2],
    split: &Split,
    measure_on: MeasureOn,
) -> Vec<String> {
    let (mut in_two_classes, mut learned_and_measured) = (Vec::new(), Vec::new());
    let mut first_of = HashMap::new();
    for picture in train.pictures().chain(test.pictures()) {
        let first: Picture<'_> = *first_of.entry(picture.hash).or_insert(picture);
        if first.label != picture.label {
            in_two_classes.push([first, picture]);
        }
    }
    // Equal pictures of two classes were told above.
    let key = |picture: Picture<'_>| (picture.hash, picture.label);
    let learned = split.base.iter().chain(&split.set_aside).chain(split.candidates.iter().flatten());
    let mut learned_of = HashMap::new();
    for picture in learned.map(|&index| train.picture(index)) {
        learned_of.entry(key(picture)).or_insert(picture);
    }
    let (measured, second) = match measure_on {
        MeasureOn::Test => (test, "a test image"),
        MeasureOn::Holdout => (train, "a held-out one"),
    };
    for picture in split.measured.iter().map(|&index| measured.picture(index)) {
        if let Some(&learned) = learned_of.get(&key(picture)) {
            learned_and_measured.push([learned, picture]);
        }
    }
    let in_two_classes = named(&in_two_classes)
        .map(|pairs| format!("the same picture lies in two classes: {pairs}; remove it where it is wrong"));
    let learned_and_measured = named(&learned_and_measured).map(|pairs| {
        format!(
            "the same picture is a training image and {second}: {pairs}; measured accuracies will be too high; remove one \
             of each pair"
        )
    });
    in_two_classes.into_iter().chain(learned_and_measured).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pictures of a part: name, class and hash of each.
    struct Listed {
        names: Vec<String>,
        labels: Vec<u16>,
        hashes: Vec<u64>,
    }

    impl Listed {
        fn of(pictures: &[(&str, u16, u64)]) -> Self {
            Self {
                names: pictures.iter().map(|(name, ..)| (*name).to_owned()).collect(),
                labels: pictures.iter().map(|&(_, label, _)| label).collect(),
                hashes: pictures.iter().map(|&(.., hash)| hash).collect(),
            }
        }

        fn part(&self, folder: &'static str) -> PicturePart<'_> {
            PicturePart { folder, names: &self.names, labels: &self.labels, hashes: &self.hashes }
        }
    }

    /// A split with these images to train on, as shots, and to measure on.
    fn split(base: &[usize], shots: &[usize], measured: &[usize]) -> Split {
        Split {
            base_classes: 2,
            base: base.to_vec(),
            set_aside: Vec::new(),
            held_out: Vec::new(),
            sessions: Vec::new(),
            candidates: vec![shots.to_vec()],
            fixed_draw: false,
            measured: measured.to_vec(),
        }
    }

    #[test]
    fn a_picture_in_two_classes_or_in_both_parts_is_told() {
        let train = Listed::of(&[("a/1.png", 0, 10), ("a/2.png", 0, 10), ("b/1.png", 1, 90)]);
        let with = |test: &[(&str, u16, u64)]| {
            let (test, measured) = (Listed::of(test), (0..test.len()).collect::<Vec<_>>());
            duplicate_warnings([train.part(""), test.part("")], &split(&[0, 1, 2], &[], &measured), MeasureOn::Test)
        };
        assert!(with(&[("a/6.png", 0, 20)]).is_empty(), "twice in one class is no contradiction");
        let two_classes = "the same picture lies in two classes: a/1.png and b/2.png; remove it where it is wrong";
        assert_eq!(with(&[("a/3.png", 0, 50), ("b/2.png", 1, 10)]), [two_classes]);
        let both_parts = "the same picture is a training image and a test image: b/1.png and b/3.png; measured \
                          accuracies will be too high; remove one of each pair";
        assert_eq!(with(&[("a/4.png", 0, 50), ("a/5.png", 0, 50), ("b/3.png", 1, 90)]), [both_parts]);
    }

    #[test]
    fn what_is_not_measured_or_not_learned_from_makes_no_accuracy_too_high() {
        let train = Listed::of(&[("a/1.png", 0, 10), ("a/2.png", 0, 10), ("a/3.png", 0, 30), ("c/1.png", 2, 50)]);
        let test = Listed::of(&[("a/3.png", 0, 30), ("c/1.png", 2, 50)]);
        let parts = [train.part("train/"), test.part("test/")];
        let said = |base: &[usize], shots: &[usize], measured: &[usize], measure_on| {
            duplicate_warnings(parts, &split(base, shots, measured), measure_on).join("\n")
        };
        assert_eq!(said(&[0, 1, 2], &[3], &[], MeasureOn::Test), "");
        assert_eq!(said(&[0, 1], &[], &[0, 1], MeasureOn::Test), "");
        let shots = said(&[0, 1], &[3], &[0, 1], MeasureOn::Test);
        assert!(shots.contains("a training image and a test image: train/c/1.png and test/c/1.png; "), "{shots}");
        // Test images have no part in what is measured on held-out ones.
        assert_eq!(said(&[0, 1], &[3], &[2], MeasureOn::Holdout), "");
        let held_out = said(&[1, 2], &[3], &[0], MeasureOn::Holdout);
        assert_eq!(
            held_out,
            "the same picture is a training image and a held-out one: train/a/2.png and train/a/1.png; measured \
             accuracies will be too high; remove one of each pair"
        );
    }

    #[test]
    fn of_many_pairs_the_first_are_named() {
        let all = |class: &str, label| -> Vec<(String, u16, u64)> {
            (0..100).map(|number| (format!("{class}/{number}.png"), label, number)).collect()
        };
        let listed = |pictures: &[(String, u16, u64)]| {
            Listed::of(&pictures.iter().map(|(name, label, hash)| (name.as_str(), *label, *hash)).collect::<Vec<_>>())
        };
        let (one, other) = (listed(&all("a", 0)), listed(&all("b", 1)));
        let said = duplicate_warnings([one.part(""), other.part("")], &split(&[], &[], &[]), MeasureOn::Test);
        let first = "a/0.png and b/0.png, a/1.png and b/1.png, a/2.png and b/2.png, and 97 more";
        assert_eq!(said, [format!("the same picture lies in two classes: {first}; remove it where it is wrong")]);
    }
}

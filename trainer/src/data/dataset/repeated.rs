//! Own pictures that are there twice, pixel for pixel, though they must not be: in two classes, of which one is wrong,
//! or among the images that are learned from and those that are measured on, so that accuracy says nothing about new
//! pictures.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};

use orco_state::escape::EscapedText;
use orco_state::sentence::join_first;

use super::Split;
use crate::config::MeasureOn;

/// Pairs that a sentence names.
const NAMED: usize = 3;

/// Training or test images, by index.
#[derive(Clone, Copy)]
pub(super) struct PicturePart<'a> {
    /// The folder that sets them apart, with a slash after it; empty where none does.
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

/// One of them.
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

/// Pairs of equal pictures, of which few are put into words: every picture of a large folder may be in one.
#[derive(Default)]
struct EqualPairs {
    named: Vec<String>,
    count: usize,
}

impl EqualPairs {
    fn add(&mut self, first: Picture<'_>, second: Picture<'_>) {
        if self.named.len() < NAMED {
            self.named.push(format!("{first} and {second}"));
        }
        self.count += 1;
    }

    /// The first pairs, and how many more there are; nothing without any.
    fn shown(&self) -> Option<String> {
        // Only what is shown is looked up.
        let pairs = (0..self.count).map(|index| &self.named[index]);
        (self.count > 0).then(|| join_first(pairs, NAMED, ", "))
    }
}

/// Says which of the training and test images are equal though they must not be, a sentence each.
///
/// Images that nothing is learned from or measured on, as those of classes beyond the split, count for the first
/// sentence alone.
pub(super) fn repeated([train, test]: [PicturePart<'_>; 2], split: &Split, measure_on: MeasureOn) -> Vec<String> {
    let (mut in_two_classes, mut learned_and_measured) = (EqualPairs::default(), EqualPairs::default());
    let mut first_of = HashMap::new();
    for picture in train.pictures().chain(test.pictures()) {
        let first: Picture<'_> = *first_of.entry(picture.hash).or_insert(picture);
        if first.label != picture.label {
            in_two_classes.add(first, picture);
        }
    }
    // Equal pictures of two classes are told already.
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
            learned_and_measured.add(learned, picture);
        }
    }
    let in_two_classes = in_two_classes
        .shown()
        .map(|pairs| format!("the same picture lies in two classes: {pairs}; remove it where it is wrong"));
    let learned_and_measured = learned_and_measured.shown().map(|pairs| {
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
            repeated([train.part(""), test.part("")], &split(&[0, 1, 2], &[], &measured), MeasureOn::Test)
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
            repeated(parts, &split(base, shots, measured), measure_on).join("\n")
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
        let said = repeated([one.part(""), other.part("")], &split(&[], &[], &[]), MeasureOn::Test);
        let first = "a/0.png and b/0.png, a/1.png and b/1.png, a/2.png and b/2.png, and 97 more";
        assert_eq!(said, [format!("the same picture lies in two classes: {first}; remove it where it is wrong")]);
    }
}

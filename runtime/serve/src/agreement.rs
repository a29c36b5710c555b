//! One label for several frames, so that it does not flicker.
//!
//! A class counts by the mean of its probabilities over the last frames, without those older than [`MAX_FRAME_AGE`].
//! The class that is shown stays until another one's mean is greater by more than [`MARGIN`]. Where no earlier frame
//! counts any more, the new one decides alone. How many frames count at most is
//! `LiveSettings::agreement_frames`, on the command line `--camera-frames`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::prediction::ClassProbability;

/// Most classes that programs are told with a label.
const MAX_MATCHES: usize = 3;
/// How old a frame may be that still counts. A thing is followed that long, too, while it is not seen
/// (`thing_tracks`).
pub const MAX_FRAME_AGE: Duration = Duration::from_secs(3);
/// By how much another class must be more probable than the one that is shown.
pub const MARGIN: f32 = 0.1;

/// What the last frames agree on.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AgreedAnswer {
    /// Classes with the means of their probabilities: first the one that is shown, then the others, most probable
    /// first. All of them, or those that [`AgreedAnswer::summary`] leaves.
    pub classes: Vec<ClassProbability>,
    /// How many frames count.
    pub frames: usize,
    /// Whether at least half of them are like anything known.
    pub known: bool,
}

impl AgreedAnswer {
    /// The class that is shown.
    pub fn shown(&self) -> Option<&ClassProbability> {
        self.classes.first()
    }

    /// Labels of the set, which aims to hold the right one for 90 % of pictures.
    pub fn set(&self) -> impl Iterator<Item = &str> {
        ClassProbability::set(&self.classes)
    }

    /// The answer with the classes that programs are told: the first three, and those of the set.
    pub fn summary(&self) -> Self {
        let told = self.classes.iter().enumerate().filter(|(place, class)| *place < MAX_MATCHES || class.in_set);
        Self { classes: told.map(|(_, class)| class.clone()).collect(), ..*self }
    }

    /// The JSON object `about`, which says what this is the answer to, with the answer.
    pub fn json_with(&self, mut about: Value) -> Value {
        let shown = self.shown();
        about["label"] = json!(shown.map(|shown| &shown.label));
        about["probability"] = json!(shown.map(|shown| shown.probability));
        about["matches"] = ClassProbability::list_json(&self.classes, MAX_MATCHES);
        about["set"] = ClassProbability::set_json(&self.classes);
        about["known"] = self.known.into();
        about["agreed"] = self.frames.into();
        about
    }
}

/// The answer to a frame.
#[derive(Clone, Debug)]
struct FrameAnswer {
    when: Instant,
    classes: Vec<ClassProbability>,
    known: bool,
}

/// Answers to the last frames.
#[derive(Clone, Debug)]
pub struct Agreement {
    max_frames: usize,
    frames: VecDeque<FrameAnswer>,
    shown: Option<String>,
}

impl Agreement {
    /// Over the last `max_frames` frames; over one, every frame decides alone.
    pub fn new(max_frames: usize) -> Self {
        Self { max_frames: max_frames.max(1), frames: VecDeque::new(), shown: None }
    }

    /// Forgets all frames: the camera went away, or what is known changed.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.shown = None;
    }

    /// Whether an answer, most probable class first, fits what is shown: no other class leads by more than [`MARGIN`].
    pub fn fits(&self, answer: &[ClassProbability]) -> bool {
        let shown = answer.iter().find(|named| self.shown.as_ref() == Some(&named.label));
        let probability = shown.map_or(0.0, |named| named.probability);
        answer.first().is_none_or(|best| best.probability - probability <= MARGIN)
    }

    /// Adds the answer to a frame, and whether the frame is like anything known. Returns what the frames now agree on.
    pub fn add(&mut self, now: Instant, answer: Vec<ClassProbability>, known: bool) -> AgreedAnswer {
        self.frames.retain(|frame| now.saturating_duration_since(frame.when) <= MAX_FRAME_AGE);
        while self.frames.len() >= self.max_frames {
            self.frames.pop_front();
        }
        if self.frames.is_empty() {
            self.shown = None;
        }
        self.frames.push_back(FrameAnswer { when: now, classes: answer, known });
        let mut means = self.means();
        means.sort_by(|one, other| other.probability.total_cmp(&one.probability));
        let best = means.first().map_or(0.0, |best| best.probability);
        let stays =
            |named: &ClassProbability| self.shown.as_ref() == Some(&named.label) && best - named.probability <= MARGIN;
        if let Some(shown) = means.iter().position(stays) {
            means[..=shown].rotate_right(1);
        }
        self.shown = means.first().map(|shown| shown.label.clone());
        let known = 2 * self.frames.iter().filter(|frame| frame.known).count() >= self.frames.len();
        AgreedAnswer { classes: means, frames: self.frames.len(), known }
    }

    /// The classes of the newest answer; one that an earlier answer did not name had no probability there. A class is
    /// in the set if it is in those of at least half of the frames.
    fn means(&self) -> Vec<ClassProbability> {
        let Some(newest) = self.frames.back() else { return Vec::new() };
        let mut means = newest.classes.clone();
        let mut in_sets: Vec<usize> = means.iter().map(|mean| usize::from(mean.in_set)).collect();
        for FrameAnswer { classes: earlier, .. } in self.frames.iter().rev().skip(1) {
            for (place, mean) in means.iter_mut().enumerate() {
                // Answers name the same classes, sorted differently.
                let same = earlier.get(place).filter(|named| named.label == mean.label);
                let named = same.or_else(|| earlier.iter().find(|named| named.label == mean.label));
                mean.probability += named.map_or(0.0, |named| named.probability);
                in_sets[place] += usize::from(named.is_some_and(|named| named.in_set));
            }
        }
        let is_in_most = |count: usize| 2 * count >= self.frames.len();
        means.iter_mut().zip(in_sets).for_each(|(mean, count)| mean.in_set = is_in_most(count));
        means.iter_mut().for_each(|mean| mean.probability /= self.frames.len() as f32);
        means
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::class;

    fn answer(probabilities: &[(&str, f32)]) -> Vec<ClassProbability> {
        let mut answer: Vec<_> = probabilities.iter().map(|(label, probability)| class(label, *probability)).collect();
        answer.sort_by(|one, other| other.probability.total_cmp(&one.probability));
        answer
    }

    /// The labels that are shown while a mug is seen with these probabilities, a jug with the rest.
    fn shown(frames: usize, mug: &[f32]) -> Vec<String> {
        let (mut agreement, start) = (Agreement::new(frames), Instant::now());
        let step = |(at, mug): (u64, &f32)| {
            let answer = answer(&[("mug", *mug), ("jug", 1.0 - mug)]);
            agreement.add(start + Duration::from_millis(100 * at), answer, true).classes.swap_remove(0).label
        };
        (0..).zip(mug).map(step).collect()
    }

    #[test]
    fn a_label_does_not_flicker_and_follows_what_is_seen() {
        let alternating = [0.7, 0.4, 0.6, 0.4, 0.6, 0.4, 0.6, 0.4];
        assert_eq!(shown(5, &alternating), ["mug"; 8]);
        assert_eq!(shown(1, &alternating[..3]), ["mug", "jug", "mug"], "each alone");
        // Means of "mug": 0.9, 0.9, 0.9, then 0.7, 0.58, 0.42 and 0.26.
        let changed = shown(5, &[0.9, 0.9, 0.9, 0.1, 0.1, 0.1, 0.1]);
        assert_eq!(changed, ["mug", "mug", "mug", "mug", "mug", "jug", "jug"]);
        // Within the margin nothing changes, however long.
        assert_eq!(shown(5, &[0.6, 0.47, 0.47, 0.47, 0.47, 0.47, 0.47, 0.47]), ["mug"; 8]);
    }

    #[test]
    fn means_are_taken_over_the_frames_that_count() {
        let (mut agreement, start) = (Agreement::new(3), Instant::now());
        let add = |agreement: &mut Agreement, seconds: u64, mug: f32| {
            agreement.add(start + Duration::from_secs(seconds), answer(&[("mug", mug), ("jug", 1.0 - mug)]), mug > 0.5)
        };
        assert_eq!(add(&mut agreement, 0, 0.9).classes[0].probability, 0.9);
        assert!((add(&mut agreement, 1, 0.6).classes[0].probability - 0.75).abs() < 1e-6);
        assert!((add(&mut agreement, 2, 0.6).classes[0].probability - 0.7).abs() < 1e-6);
        assert!((add(&mut agreement, 2, 0.6).classes[0].probability - 0.6).abs() < 1e-6, "the first is one too many");
        assert_eq!(add(&mut agreement, 2, 0.6).frames, 3);
        let alone = add(&mut agreement, 60, 0.48);
        assert_eq!((alone.classes[0].label.as_str(), alone.frames), ("jug", 1), "nothing earlier counts");
        assert!(!alone.known);
        assert!(add(&mut agreement, 60, 0.9).known, "one of two");
        agreement.clear();
        assert_eq!(add(&mut agreement, 61, 0.48).classes[0].label, "jug");
    }

    #[test]
    fn classes_may_come_and_go() {
        let (mut agreement, now) = (Agreement::new(4), Instant::now());
        agreement.add(now, answer(&[("mug", 0.8), ("jug", 0.2)]), true);
        let means = agreement.add(now, answer(&[("jug", 0.1), ("cup", 0.9)]), true).classes;
        let labels: Vec<(&str, f32)> = means.iter().map(|mean| (mean.label.as_str(), mean.probability)).collect();
        assert_eq!(labels[0], ("cup", 0.45));
        assert!(labels[1].0 == "jug" && (labels[1].1 - 0.15).abs() < 1e-6 && labels.len() == 2);
        assert_eq!(means.iter().map(|mean| mean.in_set).collect::<Vec<_>>(), [true, false]);
    }
}

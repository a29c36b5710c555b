//! Things in the camera's frames, each with its answers over several frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use orco_runtime::scene::{PixelRect, intersection_over_union};
use serde_json::{Value, json};

use crate::agreement::{AgreedAnswer, Agreement, MAX_FRAME_AGE};
use crate::camera_scene::shares;
use crate::prediction::ClassProbability;

/// Most things of a frame that are answered: the smallest get no answer.
pub const MAX_ANSWERED_THINGS: usize = 4;
/// Intersection over union from which two rectangles are the same thing.
const MIN_OVERLAP: f32 = 0.3;
/// After this many frames in a row without any thing, all tracks end; a single one may be a flicker. A thing that is
/// missing from as many frames keeps its track only if its label fits.
const MAX_MISSED_FRAMES: u32 = 2;

/// A thing that was answered in the newest frame.
#[derive(Clone, Debug, PartialEq)]
pub struct AnsweredThing {
    /// Counts things from the start of the service.
    pub id: u64,
    /// Where it is, as shares of the frame's sides: left edge, upper edge, width, height.
    pub shares: [f32; 4],
    /// What it is.
    pub answer: AgreedAnswer,
}

impl AnsweredThing {
    /// As programs get it.
    pub fn json(&self) -> Value {
        self.answer.json_with(json!({ "id": self.id, "box": self.shares }))
    }
}

/// A thing that is followed from frame to frame.
struct Track {
    id: u64,
    /// As shares of the frame's sides: the next frame may be decoded at another scale, or the camera's size change.
    shares: [f32; 4],
    seen: Instant,
    /// In how many frames with things, in a row, it was not seen, the newest one last.
    unseen: u32,
    agreement: Agreement,
}

impl Track {
    /// Whether what is seen there now may be the same thing: what was out of sight for a moment, or looks as it did.
    fn may_be(&self, classes: &[ClassProbability]) -> bool {
        self.unseen < MAX_MISSED_FRAMES || self.agreement.fits(classes)
    }
}

/// Numbers things, those of all regions of a camera.
#[derive(Clone, Default)]
pub struct ThingIds(Arc<AtomicU64>);

impl ThingIds {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Follows the things of a region of a camera.
pub struct ThingTracks {
    /// Over how many frames a label is agreed upon, at most.
    max_frames: usize,
    ids: ThingIds,
    tracks: Vec<Track>,
    /// How many frames in a row had no things, the newest one last.
    empty_frames: u32,
}

/// The answer to one thing in a frame.
pub struct ThingAnswer {
    /// Where it is, in pixels of the frame.
    pub bounds: PixelRect,
    /// The classes, most probable first.
    pub classes: Vec<ClassProbability>,
    /// Whether it is like anything known.
    pub known: bool,
}

impl ThingTracks {
    /// Labels are agreed upon over `max_frames` frames at most ([`Agreement::new`]).
    pub fn new(max_frames: usize, ids: ThingIds) -> Self {
        Self { max_frames, ids, tracks: Vec::new(), empty_frames: 0 }
    }

    /// Forgets all: the camera went away.
    pub fn clear(&mut self) {
        self.tracks.clear();
        self.empty_frames = 0;
    }

    /// Forgets the answers: what is known changed. Things keep their numbers, since somebody may have chosen one.
    pub fn forget_answers(&mut self) {
        self.tracks.iter_mut().for_each(|track| track.agreement.clear());
    }

    /// Takes up that a frame has no things: what was taken away must not lend its number and its label to what is put
    /// in its place.
    pub fn add_frame_without_things(&mut self) {
        self.empty_frames += 1;
        if self.empty_frames >= MAX_MISSED_FRAMES {
            self.clear();
        }
    }

    /// Adds the answers to the things of a frame of that size; returns the things, in the order of the answers. A thing
    /// that is where one was in an earlier frame is the same one.
    pub fn add(&mut self, now: Instant, frame: [u32; 2], answers: Vec<ThingAnswer>) -> Vec<AnsweredThing> {
        self.empty_frames = 0;
        self.tracks.retain(|track| now.saturating_duration_since(track.seen) <= MAX_FRAME_AGE);
        let tracks_of = self.tracks_of(frame, &answers);
        self.tracks.iter_mut().for_each(|track| track.unseen += 1);
        let each = answers.into_iter().zip(tracks_of);
        each.map(|(answer, track)| self.follow(now, frame, answer, track)).collect()
    }

    /// For each of the answers to a frame of that size, the index of the track that its thing is on; `None` for a new
    /// thing. What was seen in the frame before goes first: what moves must not become what was there before it.
    fn tracks_of(&self, frame: [u32; 2], answers: &[ThingAnswer]) -> Vec<Option<usize>> {
        let mut pairs = Vec::new();
        for (answer_index, answer) in answers.iter().enumerate() {
            let shares = shares(answer.bounds, frame).map(f64::from);
            for (track_index, track) in self.tracks.iter().enumerate() {
                let overlap = intersection_over_union(track.shares.map(f64::from), shares);
                if overlap >= MIN_OVERLAP && track.may_be(&answer.classes) {
                    pairs.push((track.unseen > 0, overlap, answer_index, track_index));
                }
            }
        }
        pairs.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.total_cmp(&one.1)));
        let mut tracks_of = vec![None; answers.len()];
        for (_, _, answer_index, track_index) in pairs {
            if tracks_of[answer_index].is_none() && !tracks_of.contains(&Some(track_index)) {
                tracks_of[answer_index] = Some(track_index);
            }
        }
        tracks_of
    }

    /// Follows a thing on a track, or on a new one.
    fn follow(&mut self, now: Instant, frame: [u32; 2], answer: ThingAnswer, track: Option<usize>) -> AnsweredThing {
        let ThingAnswer { bounds, classes, known } = answer;
        let shares = shares(bounds, frame);
        let index = track.unwrap_or_else(|| {
            let agreement = Agreement::new(self.max_frames);
            self.tracks.push(Track { id: self.ids.next(), shares, seen: now, unseen: 0, agreement });
            self.tracks.len() - 1
        });
        let track = &mut self.tracks[index];
        (track.shares, track.seen, track.unseen) = (shares, now, 0);
        let answer = track.agreement.add(now, classes, known);
        AnsweredThing { id: track.id, shares, answer }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tests::class;

    fn answer(x: u32, label: &str, probability: f32) -> ThingAnswer {
        let mut classes =
            vec![class(label, probability), class(if label == "mug" { "jug" } else { "mug" }, 1.0 - probability)];
        classes.sort_by(|one, other| other.probability.total_cmp(&one.probability));
        ThingAnswer { bounds: PixelRect { x, y: 100, width: 100, height: 100 }, classes, known: true }
    }

    fn labels(things: &[AnsweredThing]) -> Vec<(u64, &str)> {
        things.iter().map(|thing| (thing.id, &*thing.answer.classes[0].label)).collect()
    }

    #[test]
    fn each_thing_keeps_its_own_label_while_others_come_and_go() {
        let (start, frame) = (Instant::now(), [640, 480]);
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut things = ThingTracks::new(5, ThingIds::default());
        let first = things.add(after(0), frame, vec![answer(0, "mug", 0.9), answer(400, "jug", 0.9)]);
        assert_eq!(labels(&first), [(1, "mug"), (2, "jug")]);
        assert_eq!(first[1].shares, [0.625, 100.0 / 480.0, 100.0 / 640.0, 100.0 / 480.0]);
        // The other way round, a little moved; one frame errs about the mug.
        let second = things.add(after(100), frame, vec![answer(390, "jug", 0.8), answer(10, "jug", 0.6)]);
        assert_eq!(labels(&second), [(2, "jug"), (1, "mug")]);
        assert_eq!((second[1].answer.frames, second[1].answer.classes[0].probability), (2, 0.65));
        // One is gone for a moment, a third comes; long after, whatever stands there is another thing.
        let third = things.add(after(200), frame, vec![answer(200, "mug", 0.9), answer(20, "mug", 0.9)]);
        assert_eq!(labels(&third), [(3, "mug"), (1, "mug")]);
        assert_eq!(labels(&things.add(after(300), frame, vec![answer(390, "jug", 0.8)])), [(2, "jug")]);
        assert_eq!(labels(&things.add(after(9000), frame, vec![answer(390, "jug", 0.8)])), [(4, "jug")]);
        things.clear();
        assert_eq!(labels(&things.add(after(9100), frame, vec![answer(390, "mug", 0.8)])), [(5, "mug")]);
    }

    #[test]
    fn a_thing_stays_the_same_one_when_frames_change_their_size() {
        let start = Instant::now();
        let mut things = ThingTracks::new(5, ThingIds::default());
        let first = things.add(start, [640, 480], vec![answer(200, "mug", 0.9)]);
        let halved = PixelRect { x: 100, y: 50, width: 50, height: 50 };
        let smaller = ThingAnswer { bounds: halved, ..answer(100, "mug", 0.9) };
        let second = things.add(start + Duration::from_millis(100), [320, 240], vec![smaller]);
        assert_eq!((second[0].id, second[0].shares, second[0].answer.frames), (first[0].id, first[0].shares, 2));
    }

    #[test]
    fn a_thing_stays_the_same_one_when_what_is_known_changes() {
        let (start, frame) = (Instant::now(), [640, 480]);
        let mut things = ThingTracks::new(5, ThingIds::default());
        things.add(start, frame, vec![answer(100, "mug", 0.9)]);
        things.forget_answers();
        let after = things.add(start + Duration::from_millis(100), frame, vec![answer(100, "jug", 0.6)]);
        assert_eq!(labels(&after), [(1, "jug")]);
        assert_eq!(after[0].answer.frames, 1, "answers by older knowledge count no more");
    }

    /// A conveyor belt.
    #[test]
    fn what_passes_the_place_of_a_thing_that_is_gone_does_not_become_it() {
        let (start, frame) = (Instant::now(), [640, 480]);
        let mut things = ThingTracks::new(5, ThingIds::default());
        let mut add = |time, answers| things.add(start + Duration::from_millis(time), frame, answers);
        let both = add(0, vec![answer(390, "mug", 0.9), answer(100, "jug", 0.9)]);
        assert_eq!(labels(&both), [(1, "mug"), (2, "jug")]);
        for (time, x) in [(100, 150), (200, 200), (300, 250), (400, 300), (500, 350), (600, 400)] {
            assert_eq!(labels(&add(time, vec![answer(x, "jug", 0.9)])), [(2, "jug")], "at {x}");
        }
        // The jug is out of sight while another mug comes.
        assert_eq!(labels(&add(700, vec![answer(0, "mug", 0.9)])), [(3, "mug")]);
        assert_eq!(labels(&add(800, vec![answer(50, "mug", 0.9)])), [(3, "mug")]);
        let two = add(900, vec![answer(410, "jug", 0.9), answer(100, "mug", 0.9)]);
        assert_eq!(labels(&two), [(2, "jug"), (3, "mug")], "it is back, and looks as it did");
        for time in [1000, 1100] {
            assert_eq!(labels(&add(time, vec![answer(100, "mug", 0.9)])), [(3, "mug")]);
        }
        let other = add(1200, vec![answer(430, "cup", 0.9), answer(100, "mug", 0.9)]);
        assert_eq!(labels(&other), [(4, "cup"), (3, "mug")], "another thing in the jug's place");
    }

    #[test]
    fn a_thing_that_flickers_beside_another_does_not_take_that_ones_place() {
        let (start, frame) = (Instant::now(), [640, 480]);
        let mut things = ThingTracks::new(5, ThingIds::default());
        let mut add = |time, answers| things.add(start + Duration::from_millis(time), frame, answers);
        let both = || vec![answer(100, "mug", 0.9), answer(150, "jug", 0.9)];
        assert_eq!(labels(&add(0, both())), [(1, "mug"), (2, "jug")]);
        assert_eq!(labels(&add(100, vec![answer(150, "jug", 0.9)])), [(2, "jug")]);
        assert_eq!(labels(&add(200, both())), [(1, "mug"), (2, "jug")]);
    }

    #[test]
    fn what_comes_after_two_empty_frames_is_another_thing() {
        let (start, frame) = (Instant::now(), [640, 480]);
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut things = ThingTracks::new(5, ThingIds::default());
        let add = |things: &mut ThingTracks, time, label| {
            let added = things.add(after(time), frame, vec![answer(100, label, 0.8)]);
            (added[0].id, added[0].answer.frames, added[0].answer.classes[0].label.clone())
        };
        assert_eq!(add(&mut things, 0, "mug"), (1, 1, "mug".into()));
        things.add_frame_without_things();
        assert_eq!(add(&mut things, 200, "mug"), (1, 2, "mug".into()), "a flicker");
        things.add_frame_without_things();
        assert_eq!(add(&mut things, 400, "mug"), (1, 3, "mug".into()), "they were not in a row");
        things.add_frame_without_things();
        things.add_frame_without_things();
        assert_eq!(add(&mut things, 700, "jug"), (2, 1, "jug".into()), "the mug was taken away");
    }
}

//! Frames that were not recognised, or not surely, for somebody to say what they show: in memory alone, a bounded
//! number of them. A frame that is like one that is there already is counted there. After every change of what is known
//! all are judged again, and those that are surely recognised leave.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use orco_runtime::grouping::Grouping;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::ndarray::Array2;
use orco_runtime::state::BaseModel;
use serde_json::{Value, json};

use crate::answers::{Looked, Named};
use crate::event::Events;
use crate::health;
use crate::id::{Id, Ids};
use crate::shooting::{small, small_jpeg};

/// Most frames that are kept unless a setting says otherwise.
pub const FRAMES: usize = 200;
/// Longest side at which a frame is kept, in pixels: more than any backbone sees.
const SIDE: u32 = 640;
/// Answers that are less probable are uncertain.
const SURE: f32 = 0.5;
/// Cosine of two frames' features from which on they count as the same scene.
const SAME: f32 = 0.98;

/// A frame that is kept.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Identifies it.
    pub id: Id,
    /// The picture as a JPEG.
    pub jpeg: Arc<[u8]>,
    /// What was answered.
    pub guess: Option<Named>,
    /// Whether it was like anything known.
    pub known: bool,
    /// How often it was seen.
    pub seen: u32,
    /// When it was seen last, in seconds since 1970.
    pub when: u64,
    /// Its features, to be judged again by.
    features: Vec<f32>,
    /// The direction of these, by which likeness is measured.
    direction: Vec<f32>,
    /// What was known when it was judged ([`crate::answers::Knowledge::number`]).
    by: u64,
}

impl Frame {
    /// As JSON.
    pub fn json(&self) -> Value {
        let guess = self.guess.as_ref();
        json!({
            "id": self.id, "known": self.known, "seen": self.seen, "seconds_since_1970": self.when,
            "label": guess.map(|guess| &guess.label), "probability": guess.map(|guess| guess.probability),
        })
    }
}

/// A picture as small as a frame is kept.
pub(crate) fn reduced(picture: &RgbImage) -> RgbImage {
    small(picture, SIDE).into_owned()
}

#[derive(Default)]
struct Kept {
    ids: Ids,
    /// What is known now, by which the frames were judged.
    by: u64,
    /// Oldest first.
    frames: VecDeque<Frame>,
}

/// The frames that wait for a label.
#[derive(Clone)]
pub struct Inbox {
    kept: Arc<Mutex<Kept>>,
    most: usize,
    grouping: Arc<Grouping>,
    events: Events,
}

impl Inbox {
    /// Keeps at most so many frames, grouped as the bundle sees them.
    pub fn new(base_model: &BaseModel, most: usize, events: Events) -> Self {
        Self { kept: Arc::default(), most, grouping: Arc::new(Grouping::new(base_model)), events }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        health::lock(&self.kept)
    }

    /// Most frames that are kept; with 0 none is.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Keeps a picture if the answer to it is unknown or uncertain, and lets the oldest go where there are too many.
    /// Returns its identifier, that of the frame that shows the same scene where there is one.
    pub fn offer(&self, picture: &RgbImage, looked: &Looked) -> Option<Id> {
        let best = looked.named.first();
        if self.most == 0 || is_sure(best, looked.known) {
            return None;
        }
        let mut direction = looked.features.clone();
        self.grouping.see(&mut direction);
        let when = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let again = |kept: &mut Kept| {
            let cosine = |frame: &Frame| frame.direction.iter().zip(&direction).map(|(a, b)| a * b).sum::<f32>();
            let frame = kept.frames.iter_mut().find(|frame| cosine(frame) >= SAME)?;
            (frame.seen, frame.when) = (frame.seen.saturating_add(1), when);
            Some(frame.id)
        };
        if let Some(id) = again(&mut self.kept()) {
            return Some(id);
        }
        // Nobody waits for the lock while the picture is made small.
        let jpeg = small_jpeg(picture, SIDE);
        let mut kept = self.kept();
        if let Some(id) = again(&mut kept) {
            return Some(id);
        }
        let id = kept.ids.give();
        let (guess, features) = (best.cloned(), looked.features.clone());
        while kept.frames.len() >= self.most {
            kept.frames.pop_front();
        }
        kept.frames.push_back(Frame {
            id,
            jpeg,
            guess,
            known: looked.known,
            seen: 1,
            when,
            features,
            direction,
            by: looked.by,
        });
        self.tell(&kept);
        Some(id)
    }

    /// Whether a frame was judged by what is no longer all that is known: it came in while that changed.
    pub(crate) fn is_stale(&self) -> bool {
        let kept = self.kept();
        kept.frames.iter().any(|frame| frame.by < kept.by)
    }

    /// The identifiers of all frames, and their features, `[frames, features]`.
    pub(crate) fn rows(&self, features: usize) -> (Vec<Id>, Array2<f32>) {
        let kept = self.kept();
        let ids: Vec<Id> = kept.frames.iter().map(|frame| frame.id).collect();
        let rows = kept.frames.iter().flat_map(|frame| &frame.features).copied().collect();
        let rows = Array2::from_shape_vec((ids.len(), features), rows);
        (ids, rows.expect("every frame has as many features as the bundle"))
    }

    /// Takes up what frames show by what is known now, `by` its number: those that are surely recognised leave.
    pub(crate) fn judge(&self, by: u64, judged: Vec<(Id, (Option<Named>, bool))>) {
        let mut judged: BTreeMap<Id, (Option<Named>, bool)> = judged.into_iter().collect();
        let mut kept = self.kept();
        kept.by = by;
        let mut is_other = false;
        kept.frames.retain_mut(|frame| {
            let Some((guess, known)) = judged.remove(&frame.id) else { return true };
            let stays = !is_sure(guess.as_ref(), known);
            is_other |= !stays || (&guess, known) != (&frame.guess, frame.known);
            (frame.guess, frame.known, frame.by) = (guess, known, by);
            stays
        });
        if is_other {
            self.tell(&kept);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept().frames.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A frame.
    pub fn frame(&self, id: Id) -> Option<Frame> {
        self.kept().frames.iter().find(|frame| frame.id == id).cloned()
    }

    /// All frames, those together that are alike, largest groups first.
    pub fn groups(&self) -> Vec<Vec<Frame>> {
        let frames: Vec<Frame> = self.kept().frames.iter().cloned().collect();
        let Some(dimension) = frames.first().map(|frame| frame.direction.len()) else { return Vec::new() };
        let rows: Vec<f32> = frames.iter().flat_map(|frame| &frame.direction).copied().collect();
        let groups = self.grouping.groups(&rows, dimension);
        let frames = |group: &Vec<usize>| group.iter().map(|index| frames[*index].clone()).collect();
        let mut groups: Vec<Vec<Frame>> = groups.iter().map(frames).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
        groups
    }

    /// Takes a frame out, for whoever is first; it comes back to its place unless it is [used](Taken::used).
    pub fn take(&self, id: Id) -> Option<Taken> {
        let mut kept = self.kept();
        let place = kept.frames.iter().position(|frame| frame.id == id)?;
        let frame = kept.frames.remove(place);
        Some(Taken { inbox: self.clone(), frame })
    }

    /// Lets frames go; returns how many there were.
    pub fn remove(&self, ids: impl Fn(Id) -> bool) -> usize {
        let mut kept = self.kept();
        let before = kept.frames.len();
        kept.frames.retain(|frame| !ids(frame.id));
        let removed = before - kept.frames.len();
        if removed > 0 {
            self.tell(&kept);
        }
        removed
    }

    fn tell(&self, kept: &Kept) {
        self.events.tell("inbox", &json!({ "frames": kept.frames.len() }));
    }
}

/// A frame that was taken out.
pub struct Taken {
    inbox: Inbox,
    frame: Option<Frame>,
}

impl Taken {
    /// Its picture as a JPEG.
    pub fn jpeg(&self) -> &[u8] {
        self.frame.as_ref().map_or(&[], |frame| &frame.jpeg)
    }

    /// It does not come back.
    pub fn used(mut self) {
        self.frame = None;
        self.inbox.tell(&self.inbox.kept());
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(frame) = self.frame.take() else { return };
        let mut kept = self.inbox.kept();
        let place = kept.frames.partition_point(|other| other.id < frame.id);
        kept.frames.insert(place, frame);
        self.inbox.tell(&kept);
    }
}

/// Whether a frame is recognised. A class that answers while it is being learned counts: somebody has just named it.
fn is_sure(best: Option<&Named>, known: bool) -> bool {
    known && best.is_some_and(|best| best.probability >= SURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox(most: usize) -> Inbox {
        Inbox { kept: Arc::default(), most, grouping: Arc::new(Grouping::with(None, 0.7)), events: Events::default() }
    }

    fn looked(known: bool, probability: f32, features: [f32; 2]) -> Looked {
        let named = Named { label: "mug".into(), probability, provisional: false };
        Looked { named: vec![named], known, features: features.to_vec(), by: 1, like: Vec::new() }
    }

    #[test]
    fn what_is_sure_is_not_kept_and_the_oldest_goes_first() {
        let inbox = inbox(2);
        let picture = RgbImage::new(8, 8);
        assert_eq!(inbox.offer(&picture, &looked(true, 0.9, [1.0, 0.0])), None);
        let first = inbox.offer(&picture, &looked(false, 0.9, [1.0, 0.0])).unwrap();
        assert_eq!(inbox.offer(&picture, &looked(false, 0.9, [2.0, 0.01])), Some(first), "the same scene");
        assert_eq!(inbox.frame(first).unwrap().seen, 2);
        let second = inbox.offer(&picture, &looked(true, 0.4, [0.0, 1.0])).unwrap();
        let third = inbox.offer(&picture, &looked(false, 0.9, [-1.0, 0.0])).unwrap();
        assert!(inbox.frame(first).is_none() && inbox.len() == 2);
        assert_eq!(inbox.remove(|id| id == second || id == first), 1);
        assert!(inbox.frame(third).is_some());
        let fourth = inbox.offer(&picture, &looked(false, 0.9, [0.0, -1.0])).unwrap();
        let taken = inbox.take(third).unwrap();
        assert!(inbox.take(third).is_none() && inbox.len() == 1, "nobody else gets it");
        drop(taken);
        assert_eq!(inbox.rows(2).0, [third, fourth], "it is back in its place");
        inbox.take(third).unwrap().used();
        assert_eq!(inbox.rows(2).0, [fourth]);
        assert_eq!(self::inbox(0).offer(&picture, &looked(false, 0.0, [1.0, 0.0])), None);
    }

    #[test]
    fn what_is_recognised_by_what_is_known_now_leaves() {
        let inbox = inbox(9);
        let picture = RgbImage::new(8, 8);
        let mut while_learned = looked(true, 0.9, [1.0, 1.0]);
        while_learned.named[0].provisional = true;
        assert_eq!(inbox.offer(&picture, &while_learned), None, "it was just named");
        let first = inbox.offer(&picture, &looked(true, 0.4, [1.0, 0.0])).unwrap();
        let second = inbox.offer(&picture, &looked(false, 0.9, [0.0, 1.0])).unwrap();
        let (ids, rows) = inbox.rows(2);
        assert_eq!((ids, rows.row(1).to_vec()), (vec![first, second], vec![0.0, 1.0]));
        let now = |known: bool, probability: f32| {
            (Some(Named { label: "cup".into(), probability, provisional: false }), known)
        };
        inbox.judge(2, vec![(first, now(true, 0.8)), (second, now(false, 0.8))]);
        assert!(inbox.frame(first).is_none());
        assert_eq!(inbox.frame(second).unwrap().guess.unwrap().label, "cup");
        assert!(!inbox.is_stale());
        let late = inbox.offer(&picture, &looked(false, 0.2, [1.0, 0.0])).unwrap();
        assert!(inbox.is_stale(), "it was judged before");
        inbox.judge(2, vec![(late, now(true, 0.8))]);
        assert_eq!((inbox.is_stale(), inbox.len()), (false, 1));
    }

    #[test]
    fn frames_that_are_alike_stand_together() {
        let inbox = inbox(9);
        let picture = RgbImage::new(8, 8);
        let offer = |features| inbox.offer(&picture, &looked(false, 0.2, features)).unwrap();
        let ids: Vec<Id> = [[1.0, 0.0], [0.0, 1.0], [0.9, 0.4], [0.3, 0.9], [0.7, 0.6]].map(offer).to_vec();
        let expected = [vec![ids[0], ids[2], ids[4]], vec![ids[1], ids[3]]];
        let ids = |group: &Vec<Frame>| group.iter().map(|frame| frame.id).collect::<Vec<_>>();
        assert_eq!(inbox.groups().iter().map(ids).collect::<Vec<_>>(), expected);
    }
}

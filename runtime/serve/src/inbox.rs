//! Frames that were not recognised, or not surely. They wait for somebody to say what they show: a bounded number, in
//! memory only. A near-duplicate of one that is there is counted, not kept. After every change of what is known, all
//! are judged again, and those that are surely recognised leave. Of a camera, nothing is kept while somebody teaches,
//! and no frame that would be refused as a shot.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use orco_runtime::clock::seconds_since_1970;
use orco_runtime::image;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::ndarray::Array2;
use orco_runtime::quality::{Quality, Thresholds};
use orco_runtime::state::BaseModel;
use orco_runtime::state::grouping::Grouping;
use orco_runtime::threads::lock;
use serde_json::{Value, json};

use crate::admission::MAX_KEPT_SIDE;
use crate::event::{Event, Events};
use crate::id::{Id, IdSource};
use crate::prediction::{PictureAnswer, Recognition};

/// Most frames that are kept unless a setting says otherwise.
pub const DEFAULT_CAPACITY: usize = 200;
/// Least probability of an answer that is not uncertain.
const MIN_SURE_PROBABILITY: f32 = 0.5;
/// Least cosine between the features of two frames that are near-duplicates.
const MIN_DUPLICATE_COSINE: f32 = 0.98;
/// How long after a shot somebody is still teaching: the camera sees the thing that is taught, and the hand that holds
/// it.
const TEACHING_TIME: Duration = Duration::from_secs(60);

/// A frame that is kept.
#[derive(Clone, Debug)]
pub struct InboxFrame {
    /// Identifies it.
    pub id: Id,
    /// The picture as a JPEG.
    pub jpeg: Arc<[u8]>,
    /// What was answered last.
    pub recognition: Recognition,
    /// How often it was seen.
    pub seen: u32,
    /// When it was seen last, in seconds since 1970.
    pub when: u64,
    /// Its features, from which it is judged again.
    features: Vec<f32>,
    /// Their direction, by which similarity is measured.
    direction: Vec<f32>,
    /// Version of the knowledge that it was answered by ([`crate::knowledge::Knowledge::version`]).
    knowledge_version: u64,
}

impl InboxFrame {
    /// As JSON.
    pub fn json(&self) -> Value {
        let best = self.recognition.best.as_ref();
        json!({
            "id": self.id, "known": self.recognition.known, "seen": self.seen, "seconds_since_1970": self.when,
            "label": best.map(|best| &best.label), "probability": best.map(|best| best.probability),
        })
    }
}

/// A frame of a group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupedFrame {
    /// The frame.
    pub frame: InboxFrame,
    /// Whether it is like the rest of its group ([`Grouping::typical`]).
    pub is_typical: bool,
}

impl GroupedFrame {
    /// As JSON.
    pub fn json(&self) -> Value {
        let mut json = self.frame.json();
        json["typical"] = json!(self.is_typical);
        json
    }
}

/// A picture as small as a frame is kept.
pub(crate) fn reduced(picture: &RgbImage) -> RgbImage {
    image::reduced(picture, MAX_KEPT_SIDE).into_owned()
}

#[derive(Default)]
struct Frames {
    ids: IdSource,
    /// Version of the newest knowledge that frames were judged by.
    knowledge_version: u64,
    /// Oldest first.
    frames: VecDeque<InboxFrame>,
    /// When somebody took a shot last.
    taught: Option<Instant>,
}

/// The frames that wait for a label.
#[derive(Clone)]
pub struct Inbox {
    kept: Arc<Mutex<Frames>>,
    capacity: usize,
    grouping: Arc<Grouping>,
    events: Events,
}

impl Inbox {
    /// Keeps at most `capacity` frames, grouped as the bundle sees them.
    pub fn new(base_model: &BaseModel, capacity: usize, events: Events) -> Self {
        Self { kept: Arc::default(), capacity, grouping: Arc::new(Grouping::new(base_model)), events }
    }

    fn kept(&self) -> MutexGuard<'_, Frames> {
        lock(&self.kept)
    }

    /// Most frames that are kept; with 0 none is.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Keeps a picture if the answer to it is unknown or uncertain, and removes the oldest where there are too many.
    /// Returns its identifier, that of its near-duplicate where there is one.
    pub fn offer(&self, picture: &RgbImage, answer: &PictureAnswer) -> Option<Id> {
        self.offer_if(picture, answer, || true)
    }

    /// As [`Inbox::offer`], for a camera's frame, which nobody asked to keep: keeps none while somebody teaches, and
    /// none that is dark, white, blurred or blank.
    pub(crate) fn offer_frame(&self, picture: &RgbImage, answer: &PictureAnswer) -> Option<Id> {
        if self.kept().taught.is_some_and(|taught| taught.elapsed() < TEACHING_TIME) {
            return None;
        }
        self.offer_if(picture, answer, || Thresholds::default().flaws(&Quality::of(picture)).is_empty())
    }

    /// Says that somebody takes a shot.
    pub(crate) fn note_shot(&self) {
        self.kept().taught = Some(Instant::now());
    }

    /// Keeps a picture that is fit; that is asked of one which shows something new.
    fn offer_if(&self, picture: &RgbImage, answer: &PictureAnswer, is_fit: impl FnOnce() -> bool) -> Option<Id> {
        let recognition = Recognition { best: answer.classes.first().cloned(), known: answer.known };
        if self.capacity == 0 || is_sure(&recognition) {
            return None;
        }
        let mut direction = answer.features.clone();
        self.grouping.direction(&mut direction);
        let when = seconds_since_1970();
        if let Some(id) = count_duplicate(&mut self.kept(), &direction, when) {
            return Some(id);
        }
        // Nobody waits for the lock while the picture is checked and made small.
        if !is_fit() {
            return None;
        }
        let jpeg = image::reduced_jpeg(picture, MAX_KEPT_SIDE).into();
        let mut kept = self.kept();
        if let Some(id) = count_duplicate(&mut kept, &direction, when) {
            return Some(id);
        }
        let id = kept.ids.next_id();
        let (features, knowledge_version) = (answer.features.clone(), answer.knowledge_version);
        while kept.frames.len() >= self.capacity {
            kept.frames.pop_front();
        }
        kept.frames.push_back(InboxFrame {
            id,
            jpeg,
            recognition,
            seen: 1,
            when,
            features,
            direction,
            knowledge_version,
        });
        self.tell_count(&kept);
        Some(id)
    }

    /// Whether a frame was judged by older knowledge than others: it came in while that changed.
    pub(crate) fn is_stale(&self) -> bool {
        let kept = self.kept();
        kept.frames.iter().any(|frame| frame.knowledge_version < kept.knowledge_version)
    }

    /// The identifiers of all frames, and their features, `[frames, features]`.
    pub(crate) fn rows(&self, features: usize) -> (Vec<Id>, Array2<f32>) {
        let kept = self.kept();
        let ids: Vec<Id> = kept.frames.iter().map(|frame| frame.id).collect();
        let rows = kept.frames.iter().flat_map(|frame| &frame.features).copied().collect();
        let rows = Array2::from_shape_vec((ids.len(), features), rows);
        (ids, rows.expect("every frame has as many features as the bundle"))
    }

    /// Stores answers by newer knowledge, given by its version; frames that are surely recognised now leave.
    pub(crate) fn judge(&self, knowledge_version: u64, recognitions: Vec<(Id, Recognition)>) {
        let mut recognitions: BTreeMap<Id, Recognition> = recognitions.into_iter().collect();
        let mut kept = self.kept();
        kept.knowledge_version = knowledge_version;
        let mut has_changed = false;
        kept.frames.retain_mut(|frame| {
            let Some(recognition) = recognitions.remove(&frame.id) else { return true };
            let stays = !is_sure(&recognition);
            has_changed |= !stays || recognition != frame.recognition;
            (frame.recognition, frame.knowledge_version) = (recognition, knowledge_version);
            stays
        });
        if has_changed {
            self.tell_count(&kept);
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
    pub fn frame(&self, id: Id) -> Option<InboxFrame> {
        self.kept().frames.iter().find(|frame| frame.id == id).cloned()
    }

    /// All frames, those together that are alike, largest groups first.
    pub fn groups(&self) -> Vec<Vec<GroupedFrame>> {
        let frames: Vec<InboxFrame> = self.kept().frames.iter().cloned().collect();
        let Some(dimension) = frames.first().map(|frame| frame.direction.len()) else { return Vec::new() };
        let rows: Vec<f32> = frames.iter().flat_map(|frame| &frame.direction).copied().collect();
        let groups = self.grouping.groups(&rows, dimension);
        let typical = self.grouping.typical(&rows, dimension, &groups);
        let frame = |index: &usize| GroupedFrame { frame: frames[*index].clone(), is_typical: typical[*index] };
        let mut groups: Vec<Vec<GroupedFrame>> = groups.iter().map(|group| group.iter().map(frame).collect()).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
        groups
    }

    /// Takes a frame out, for whoever is first; it comes back to its place unless it is [used](ClaimedFrame::used).
    pub fn take(&self, id: Id) -> Option<ClaimedFrame> {
        let mut kept = self.kept();
        let place = kept.frames.iter().position(|frame| frame.id == id)?;
        let frame = kept.frames.remove(place);
        Some(ClaimedFrame { inbox: self.clone(), frame })
    }

    /// Removes the frames that `is_gone` picks; returns how many there were.
    pub fn remove(&self, is_gone: impl Fn(Id) -> bool) -> usize {
        let mut kept = self.kept();
        let before = kept.frames.len();
        kept.frames.retain(|frame| !is_gone(frame.id));
        let removed = before - kept.frames.len();
        if removed > 0 {
            self.tell_count(&kept);
        }
        removed
    }

    fn tell_count(&self, kept: &Frames) {
        self.events.send(Event::Inbox { frames: kept.frames.len() });
    }
}

/// A frame that was taken out.
pub struct ClaimedFrame {
    inbox: Inbox,
    frame: Option<InboxFrame>,
}

impl ClaimedFrame {
    /// Its picture as a JPEG.
    pub fn jpeg(&self) -> &[u8] {
        self.frame.as_ref().map_or(&[], |frame| &frame.jpeg)
    }

    /// It does not come back.
    pub fn used(mut self) {
        self.frame = None;
        self.inbox.tell_count(&self.inbox.kept());
    }
}

impl Drop for ClaimedFrame {
    fn drop(&mut self) {
        let Some(frame) = self.frame.take() else { return };
        let mut kept = self.inbox.kept();
        let place = kept.frames.partition_point(|other| other.id < frame.id);
        kept.frames.insert(place, frame);
        // Others may have taken its place meanwhile.
        while kept.frames.len() > self.inbox.capacity {
            kept.frames.pop_front();
        }
        self.inbox.tell_count(&kept);
    }
}

/// Counts a near-duplicate again, if there is one; returns its identifier.
fn count_duplicate(kept: &mut Frames, direction: &[f32], when: u64) -> Option<Id> {
    let cosine = |frame: &InboxFrame| frame.direction.iter().zip(direction).map(|(a, b)| a * b).sum::<f32>();
    let frame = kept.frames.iter_mut().find(|frame| cosine(frame) >= MIN_DUPLICATE_COSINE)?;
    (frame.seen, frame.when) = (frame.seen.saturating_add(1), when);
    Some(frame.id)
}

/// Whether a frame is surely recognised. A class that answers while it is being learned counts: somebody has just named
/// it.
fn is_sure(recognition: &Recognition) -> bool {
    recognition.known && recognition.best.as_ref().is_some_and(|best| best.probability >= MIN_SURE_PROBABILITY)
}

#[cfg(test)]
mod tests {
    use orco_runtime::image_rs::Rgb;

    use super::*;
    use crate::tests::class;

    fn inbox(capacity: usize) -> Inbox {
        Inbox {
            kept: Arc::default(),
            capacity,
            grouping: Arc::new(Grouping::with(None, 0.7)),
            events: Events::default(),
        }
    }

    fn answer(known: bool, probability: f32, features: [f32; 2]) -> PictureAnswer {
        PictureAnswer {
            classes: vec![class("mug", probability)],
            known,
            features: features.to_vec(),
            knowledge_version: 1,
            similar: Vec::new(),
        }
    }

    #[test]
    fn what_is_sure_is_not_kept_and_the_oldest_goes_first() {
        let inbox = inbox(2);
        let picture = RgbImage::new(8, 8);
        assert_eq!(inbox.offer(&picture, &answer(true, 0.9, [1.0, 0.0])), None);
        let first = inbox.offer(&picture, &answer(false, 0.9, [1.0, 0.0])).unwrap();
        assert_eq!(inbox.offer(&picture, &answer(false, 0.9, [2.0, 0.01])), Some(first), "a near-duplicate");
        assert_eq!(inbox.frame(first).unwrap().seen, 2);
        let second = inbox.offer(&picture, &answer(true, 0.4, [0.0, 1.0])).unwrap();
        let third = inbox.offer(&picture, &answer(false, 0.9, [-1.0, 0.0])).unwrap();
        assert!(inbox.frame(first).is_none() && inbox.len() == 2);
        assert_eq!(inbox.remove(|id| id == second || id == first), 1);
        assert!(inbox.frame(third).is_some());
        let fourth = inbox.offer(&picture, &answer(false, 0.9, [0.0, -1.0])).unwrap();
        let taken = inbox.take(third).unwrap();
        assert!(inbox.take(third).is_none() && inbox.len() == 1, "nobody else gets it");
        drop(taken);
        assert_eq!(inbox.rows(2).0, [third, fourth], "it is back in its place");
        let taken = inbox.take(third).unwrap();
        let fifth = inbox.offer(&picture, &answer(false, 0.9, [0.7, 0.7])).unwrap();
        drop(taken);
        assert_eq!(inbox.rows(2).0, [fourth, fifth], "there is no room for it any more");
        inbox.remove(|id| id == fifth);
        let sixth = inbox.offer(&picture, &answer(false, 0.9, [-0.7, 0.7])).unwrap();
        inbox.take(sixth).unwrap().used();
        assert_eq!(inbox.rows(2).0, [fourth]);
        assert_eq!(self::inbox(0).offer(&picture, &answer(false, 0.0, [1.0, 0.0])), None);
    }

    #[test]
    fn a_cameras_frames_are_kept_that_could_be_shots_and_not_while_somebody_teaches() {
        let inbox = inbox(9);
        let unknown = |features| answer(false, 0.2, features);
        // Stripes and a gradient: neither dark, nor white, nor blurred, nor noise.
        let sharp = RgbImage::from_fn(256, 256, |x, y| Rgb([(x / 8 % 2 * 100 + y / 4 + 60) as u8; 3]));
        assert_eq!(inbox.offer_frame(&RgbImage::new(256, 256), &unknown([1.0, 0.0])), None, "it is black");
        let grey = RgbImage::from_pixel(256, 256, Rgb([128; 3]));
        assert_eq!(inbox.offer_frame(&grey, &unknown([1.0, 0.0])), None, "it is blank");
        let first = inbox.offer_frame(&sharp, &unknown([1.0, 0.0])).unwrap();

        inbox.note_shot();
        assert_eq!(inbox.offer_frame(&sharp, &unknown([0.0, 1.0])), None, "the thing that is being taught");
        let asked = inbox.offer(&grey, &unknown([0.0, 1.0])).unwrap();
        assert_eq!(inbox.rows(2).0, [first, asked], "what somebody asks to keep is kept");

        inbox.kept().taught = Instant::now().checked_sub(TEACHING_TIME);
        assert!(inbox.offer_frame(&sharp, &unknown([-1.0, 0.0])).is_some(), "nobody teaches any more");
    }

    #[test]
    fn what_is_recognised_by_what_is_known_now_leaves() {
        let inbox = inbox(9);
        let picture = RgbImage::new(8, 8);
        let mut while_learned = answer(true, 0.9, [1.0, 1.0]);
        while_learned.classes[0].provisional = true;
        assert_eq!(inbox.offer(&picture, &while_learned), None, "it was just named");
        let first = inbox.offer(&picture, &answer(true, 0.4, [1.0, 0.0])).unwrap();
        let second = inbox.offer(&picture, &answer(false, 0.9, [0.0, 1.0])).unwrap();
        let (ids, rows) = inbox.rows(2);
        assert_eq!((ids, rows.row(1).to_vec()), (vec![first, second], vec![0.0, 1.0]));
        let now = |known: bool, probability: f32| Recognition { best: Some(class("cup", probability)), known };
        inbox.judge(2, vec![(first, now(true, 0.8)), (second, now(false, 0.8))]);
        assert!(inbox.frame(first).is_none());
        assert_eq!(inbox.frame(second).unwrap().recognition.best.unwrap().label, "cup");
        assert!(!inbox.is_stale());
        let late = inbox.offer(&picture, &answer(false, 0.2, [1.0, 0.0])).unwrap();
        assert!(inbox.is_stale(), "it was judged before");
        inbox.judge(2, vec![(late, now(true, 0.8))]);
        assert_eq!((inbox.is_stale(), inbox.len()), (false, 1));
    }

    #[test]
    fn frames_that_are_alike_stand_together() {
        let inbox = inbox(9);
        let picture = RgbImage::new(8, 8);
        let offer = |features| inbox.offer(&picture, &answer(false, 0.2, features)).unwrap();
        let ids: Vec<Id> = [[1.0, 0.0], [0.0, 1.0], [0.9, 0.4], [0.3, 0.9], [0.7, 0.6]].map(offer).to_vec();
        let expected = [vec![ids[0], ids[2], ids[4]], vec![ids[1], ids[3]]];
        let ids = |group: &Vec<GroupedFrame>| group.iter().map(|grouped| grouped.frame.id).collect::<Vec<_>>();
        assert_eq!(inbox.groups().iter().map(ids).collect::<Vec<_>>(), expected);
    }
}

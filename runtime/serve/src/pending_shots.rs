//! Shots that were taken and are not learned yet: their features and thumbnails, in memory only.
//!
//! What happens to a shot: [`api::shots`](crate::api::shots) receives the picture and has its features computed, this
//! module keeps them, and [`changes`](crate::changes) gives all shots of a label to
//! [`Learner::learn_many`](orco_runtime::learner::Learner::learn_many), which makes exemplars of them and saves the
//! state, and removes them from here. Shots of a known class go to
//! [`Learner::add`](orco_runtime::learner::Learner::add).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use orco_runtime::image::{self, Preprocessing};
use orco_runtime::image_rs::RgbImage;
use orco_runtime::ndarray::{Array2, Array3, Axis};
use orco_runtime::quality::{self, BestClass, EarlierShot, Objection, Quality, ShotCandidate, Thresholds};
use orco_runtime::threads::lock;
use serde_json::{Value, json};

use crate::event::{Event, Events};
use crate::id::{Id, IdSource};
use crate::metric::Metrics;
use crate::prediction::ShotFeatures;
use crate::refusal::{ErrorCode, Refusal};

/// Most shots that are held, of all labels together.
const MAX_PENDING_SHOTS: usize = 256;
/// Width and height of a thumbnail at most, in pixels.
pub(crate) const THUMBNAIL_SIDE: u32 = 160;

/// A shot that is held.
#[derive(Clone, Debug)]
pub struct PendingShot {
    /// Identifies it.
    pub id: Id,
    /// What was measured on it.
    pub quality: Quality,
    /// Features, `[views, features]`.
    pub features: Array2<f32>,
    /// A small JPEG of it.
    pub thumbnail: Arc<[u8]>,
    /// The picture as the backbone sees it, where shots are kept.
    pub picture: Option<Arc<RgbImage>>,
}

/// An objection to a shot as JSON.
pub fn objection_json(objection: &Objection<Id>) -> Value {
    match objection {
        Objection::Flaw(flaw) => json!({ "kind": flaw.name() }),
        Objection::Repeated { shot, label } => json!({ "kind": "repeated", "shot": shot, "label": label }),
        Objection::LooksLike { label, probability } => {
            json!({ "kind": "looks-like", "label": label, "probability": probability })
        }
        _ => json!({ "kind": "other" }),
    }
}

/// Whether a shot is taken that something speaks against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It is not taken.
    IfSound,
    /// It is taken: somebody has looked.
    Anyway,
}

impl Acceptance {
    /// That of a request, which says `anyway` or not.
    pub fn of(anyway: bool) -> Self {
        if anyway { Self::Anyway } else { Self::IfSound }
    }
}

/// A picture that is to be a shot, with what was measured on it.
#[derive(Clone, Debug)]
pub struct Candidate {
    quality: Quality,
    thumbnail: Arc<[u8]>,
    picture: Option<Arc<RgbImage>>,
}

impl Candidate {
    /// Measures a picture and makes it small; holds it as the backbone sees it where `keep` says how that is.
    pub fn of(picture: &RgbImage, keep: Option<&Preprocessing>) -> Self {
        let kept = keep.map(|input| Arc::new(input.fit(picture)));
        Self {
            quality: Quality::of(picture),
            thumbnail: image::reduced_jpeg(picture, THUMBNAIL_SIDE).into(),
            picture: kept,
        }
    }
}

#[derive(Default)]
struct HeldShots {
    ids: IdSource,
    labels: BTreeMap<String, Vec<PendingShot>>,
}

/// All shots that are held, by label.
#[derive(Clone)]
pub struct PendingShots {
    held: Arc<Mutex<HeldShots>>,
    thresholds: Thresholds,
    metrics: Metrics,
}

impl PendingShots {
    /// Holds none.
    pub fn new(metrics: Metrics) -> Self {
        Self { held: Arc::default(), thresholds: Thresholds::default(), metrics }
    }

    fn held(&self) -> MutexGuard<'_, HeldShots> {
        lock(&self.held)
    }

    /// Sends how many shots a label has, before that can change: the last event says what holds.
    pub fn tell_count(&self, label: &str, events: &Events) {
        let held = self.held();
        let shots = held.labels.get(label).map_or(0, Vec::len);
        events.send(Event::Shots { label: label.to_owned(), shots });
    }

    /// Takes a shot, unless something speaks against it and `acceptance` does not overrule that. Returns its
    /// identifier, if it was taken, and what speaks against it.
    ///
    /// # Errors
    /// [`Refusal`] if too many shots are held.
    pub fn take(
        &self,
        label: &str,
        candidate: Candidate,
        ShotFeatures { features, classes }: ShotFeatures,
        acceptance: Acceptance,
    ) -> Result<(Option<Id>, Vec<Objection<Id>>), Refusal> {
        let Candidate { quality, thumbnail, picture } = candidate;
        let mut held = self.held();
        let all = held.labels.iter().flat_map(|(label, shots)| shots.iter().map(move |shot| (label, shot)));
        let earlier = all.map(|(label, shot)| EarlierShot { shot: shot.id, label, quality: &shot.quality });
        let best = classes.first().map(|best| BestClass { label: &best.label, probability: best.probability });
        let objections = self.thresholds.objections(ShotCandidate { label, quality: &quality, best }, earlier);
        if acceptance == Acceptance::IfSound && objections.iter().any(Objection::refuses) {
            return Ok((None, objections));
        }
        if held.labels.values().map(Vec::len).sum::<usize>() >= MAX_PENDING_SHOTS {
            let sentence = format!("{MAX_PENDING_SHOTS} shots are held already: learn or remove some first");
            return Err(Refusal::new(ErrorCode::ShotsFull, sentence).with("limit", MAX_PENDING_SHOTS));
        }
        let id = held.ids.next_id();
        held.labels.entry(label.to_owned()).or_default().push(PendingShot {
            id,
            quality,
            features,
            thumbnail,
            picture,
        });
        self.update_metric(&held);
        Ok((Some(id), objections))
    }

    /// The shots of a label, oldest first.
    pub fn of(&self, label: &str) -> Vec<PendingShot> {
        self.held().labels.get(label).cloned().unwrap_or_default()
    }

    /// Bytes of the features of a label's shots.
    pub fn bytes_of(&self, label: &str) -> u64 {
        let held = self.held();
        let shots = held.labels.get(label).into_iter().flatten();
        shots.map(|shot| size_of_val(shot.features.as_slice().unwrap_or_default()) as u64).sum()
    }

    /// Whether these shots of a label show different places.
    pub fn show_different_places(&self, label: &str, ids: &[Id]) -> bool {
        let held = self.held();
        let shots = held.labels.get(label).into_iter().flatten().filter(|shot| ids.contains(&shot.id));
        let pictures: Vec<Quality> = shots.map(|shot| shot.quality).collect();
        drop(held);
        quality::show_different_places(&pictures)
    }

    /// Labels with how many shots they have.
    pub fn labels(&self) -> Vec<(String, usize)> {
        self.held().labels.iter().map(|(label, shots)| (label.clone(), shots.len())).collect()
    }

    /// Removes the shots of a label that `is_gone` picks; returns how many there were.
    pub fn remove(&self, label: &str, is_gone: impl Fn(Id) -> bool) -> usize {
        let mut held = self.held();
        let Some(shots) = held.labels.get_mut(label) else { return 0 };
        let before = shots.len();
        shots.retain(|shot| !is_gone(shot.id));
        let removed = before - shots.len();
        if shots.is_empty() {
            held.labels.remove(label);
        }
        self.update_metric(&held);
        removed
    }

    /// Moves all shots of a label to another one, behind the shots that are there; returns how many.
    pub fn relabel(&self, from: &str, to: &str) -> usize {
        let mut held = self.held();
        let moved = held.labels.remove(from).unwrap_or_default();
        let count = moved.len();
        if count > 0 {
            held.labels.entry(to.to_owned()).or_default().extend(moved);
        }
        count
    }

    fn update_metric(&self, held: &HeldShots) {
        self.metrics.shots.set(held.labels.values().map(Vec::len).sum::<usize>() as i64);
    }
}

/// Features of shots, `[shots, views, features]`; `None` if there are none.
pub fn features(shots: &[PendingShot]) -> Option<Array3<f32>> {
    let views: Vec<_> = shots.iter().map(|shot| shot.features.view()).collect();
    orco_runtime::ndarray::stack(Axis(0), &views).ok()
}

/// The shots' pictures, where all of them are held.
pub fn pictures(shots: &[PendingShot]) -> Option<Vec<RgbImage>> {
    shots.iter().map(|shot| shot.picture.as_deref().cloned()).collect()
}

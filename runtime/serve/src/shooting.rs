//! Shots that were taken and not learned yet: their features and a thumbnail, in memory alone.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Arc, Mutex, MutexGuard};

use orco_runtime::image::Preprocessing;
use orco_runtime::image_rs::imageops::{self, FilterType};
use orco_runtime::image_rs::{ImageFormat, RgbImage};
use orco_runtime::ndarray::{Array2, Array3, Axis};
use orco_runtime::quality::{self, Objection, Quality, Thresholds};
use serde_json::{Value, json};

use crate::answers::Named;
use crate::error::Refusal;
use crate::health;
use crate::id::{Id, Ids};
use crate::metric::Metrics;

/// Most shots that are held, of all labels together.
const MOST: usize = 256;
/// Width and height of a thumbnail at most, in pixels.
const THUMBNAIL: u32 = 160;

/// A shot that is held.
#[derive(Clone, Debug)]
pub struct Shot {
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

/// What is to be said about a shot.
pub type Warning = Objection<Id>;

/// A warning as JSON.
pub fn warning_json(warning: &Warning) -> Value {
    match warning {
        Warning::Flaw(flaw) => json!({ "kind": flaw.name() }),
        Warning::Repeated { shot, label } => json!({ "kind": "repeated", "shot": shot, "label": label }),
        Warning::LooksLike { label, probability } => {
            json!({ "kind": "looks-like", "label": label, "probability": probability })
        }
        _ => json!({ "kind": "other" }),
    }
}

/// A picture that is to be a shot, looked at.
#[derive(Clone, Debug)]
pub struct Candidate {
    quality: Quality,
    thumbnail: Arc<[u8]>,
    picture: Option<Arc<RgbImage>>,
}

impl Candidate {
    /// Measures a picture and makes it small; holds it as the backbone sees it where `keep` says how that is.
    ///
    /// # Panics
    /// Never: writing a picture into memory cannot fail.
    pub fn of(picture: &RgbImage, keep: Option<&Preprocessing>) -> Self {
        let kept = keep.map(|input| Arc::new(input.fit(picture)));
        Self { quality: Quality::of(picture), thumbnail: small_jpeg(picture, THUMBNAIL), picture: kept }
    }
}

/// A JPEG of a picture whose sides are at most so long, in pixels.
///
/// # Panics
/// Never: writing a picture into memory cannot fail.
pub(crate) fn small_jpeg(picture: &RgbImage, side: u32) -> Arc<[u8]> {
    let mut bytes = Cursor::new(Vec::new());
    let written = small(picture, side).write_to(&mut bytes, ImageFormat::Jpeg);
    written.expect("writing a picture into memory cannot fail");
    bytes.into_inner().into()
}

/// A picture whose sides are at most so long, in pixels: itself if they are.
///
/// Takes at most 45 bytes for each pixel of the result, however large the picture is.
pub(crate) fn small(picture: &RgbImage, side: u32) -> Cow<'_, RgbImage> {
    let (width, height) = picture.dimensions();
    let longest = width.max(height);
    if longest <= side {
        return Cow::Borrowed(picture);
    }
    let to = |most: u32| [width, height].map(|length| scaled(length, most, longest));
    // The filter holds four f32 for each column of what it is given: a large picture is brought near the size first.
    let [near_width, near_height] = to(2 * side);
    let near = (longest > 2 * side).then(|| imageops::thumbnail(picture, near_width, near_height));
    let [width, height] = to(side);
    Cow::Owned(imageops::resize(near.as_ref().unwrap_or(picture), width, height, FilterType::Triangle))
}

/// A length where the longest becomes `most`.
fn scaled(length: u32, most: u32, longest: u32) -> u32 {
    ((f64::from(length) * f64::from(most) / f64::from(longest)).round() as u32).max(1)
}

#[derive(Default)]
struct Held {
    ids: Ids,
    labels: BTreeMap<String, Vec<Shot>>,
}

/// All shots that are held, by label.
#[derive(Clone)]
pub struct Shooting {
    held: Arc<Mutex<Held>>,
    thresholds: Thresholds,
    metrics: Metrics,
}

impl Shooting {
    /// Holds none.
    pub fn new(metrics: Metrics) -> Self {
        Self { held: Arc::default(), thresholds: Thresholds::default(), metrics }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        health::lock(&self.held)
    }

    /// Takes a shot, unless something speaks against it that `anyway` does not overrule. Returns its identifier, if it was
    /// taken, and what is to be said about it.
    ///
    /// # Errors
    /// [`Refusal`] if too many shots are held.
    pub fn take(
        &self,
        label: &str,
        candidate: Candidate,
        (features, matches): (Array2<f32>, &[Named]),
        anyway: bool,
    ) -> Result<(Option<Id>, Vec<Warning>), Refusal> {
        let Candidate { quality, thumbnail, picture } = candidate;
        let mut held = self.held();
        let all = held.labels.iter().flat_map(|(label, shots)| shots.iter().map(move |shot| (label, shot)));
        let earlier = all.map(|(label, shot)| (shot.id, label.as_str(), &shot.quality));
        let best = matches.first().map(|best| (best.label.as_str(), best.probability));
        let warnings = self.thresholds.objections(quality::ShotCandidate { label, quality: &quality, best }, earlier);
        if !anyway && warnings.iter().any(Warning::refuses) {
            return Ok((None, warnings));
        }
        if held.labels.values().map(Vec::len).sum::<usize>() >= MOST {
            return Err(Refusal::conflict(format!("{MOST} shots are held already: learn or delete some first")));
        }
        let id = held.ids.give();
        held.labels.entry(label.to_owned()).or_default().push(Shot { id, quality, features, thumbnail, picture });
        self.count(&held);
        Ok((Some(id), warnings))
    }

    /// The shots of a label, oldest first.
    pub fn of(&self, label: &str) -> Vec<Shot> {
        self.held().labels.get(label).cloned().unwrap_or_default()
    }

    /// Bytes of the features of a label's shots.
    pub fn bytes_of(&self, label: &str) -> u64 {
        let held = self.held();
        let shots = held.labels.get(label).into_iter().flatten();
        shots.map(|shot| size_of_val(shot.features.as_slice().unwrap_or_default()) as u64).sum()
    }

    /// Labels with how many shots they have.
    pub fn labels(&self) -> Vec<(String, usize)> {
        self.held().labels.iter().map(|(label, shots)| (label.clone(), shots.len())).collect()
    }

    /// Lets shots of a label go; returns how many there were.
    pub fn remove(&self, label: &str, ids: impl Fn(Id) -> bool) -> usize {
        let mut held = self.held();
        let Some(shots) = held.labels.get_mut(label) else { return 0 };
        let before = shots.len();
        shots.retain(|shot| !ids(shot.id));
        let removed = before - shots.len();
        if shots.is_empty() {
            held.labels.remove(label);
        }
        self.count(&held);
        removed
    }

    fn count(&self, held: &Held) {
        self.metrics.shots.set(held.labels.values().map(Vec::len).sum::<usize>() as i64);
    }
}

/// Features of shots, `[shots, views, features]`; `None` if there are none.
pub fn features(shots: &[Shot]) -> Option<Array3<f32>> {
    let views: Vec<_> = shots.iter().map(|shot| shot.features.view()).collect();
    orco_runtime::ndarray::stack(Axis(0), &views).ok()
}

/// The shots' pictures, where all of them are held.
pub fn pictures(shots: &[Shot]) -> Option<Vec<RgbImage>> {
    shots.iter().map(|shot| shot.picture.as_deref().cloned()).collect()
}

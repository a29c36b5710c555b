//! Learning things in one place and answering in others.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use orco_core::random::Random;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::EncodeError;
use orco_runtime::image::{self, PictureFileError};
use orco_runtime::image_rs::RgbImage;
use orco_runtime::learner::{AnswerScope, ChangeError, Learner, LearnerSettings, OpenLearnerError, Shots};
use orco_runtime::quality::{EarlierShot, Quality, ShotCandidate, Thresholds};
use orco_runtime::scene::{Background, NamedRegion, PixelRect, Region, Thing, Viewfinder};
use orco_runtime::store::{Store, StoreError};
use orco_state::session::LearnedOnlyAccuracy;

use super::objects::{MaskedPicture, ObjectError, PhotographedObject};
use super::results::{InputShares, KnownShares, ScenePromise, SceneResults};
use super::stage::{FRAME, Stage};

/// Shots of each thing.
const SHOTS: usize = 5;
/// Views of each empty place.
const VIEWS: usize = 3;
/// Side of a thing that is alone, as a share of the frame's height.
const ALONE: f32 = 0.6;
/// Side of a thing beside another one.
const BESIDE: f32 = 0.5;
/// How far a thing is from the frame's middle at the most, as a share of the frame's height.
const ASIDE: f32 = 0.08;
/// Empty frames of each place.
const EMPTY: usize = 10;
/// Least intersection over union of a thing's box and the one that is found.
const FOUND: f32 = 0.4;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct ScenePlan<'a> {
    /// The bundle that learns.
    pub bundle: &'a Bundle,
    /// Inputs through which it learns and answers, each for itself.
    pub inputs: &'a [SceneInput],
    /// Things, of which each draw takes some.
    pub objects: &'a [PhotographedObject],
    /// Photographs of places, of which each draw takes as many.
    pub places: &'a [PathBuf],
    /// Things of a draw, and places.
    pub things_per_draw: usize,
    /// Pictures of each thing, beside its shots, that are asked in both places.
    pub queries_per_thing: usize,
    /// Seed of the draw.
    pub seed: u64,
}

/// What the backbone sees of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SceneInput {
    /// The largest square in the middle, as without anything else.
    CentreSquare,
    /// A region that fits the thing closely, as a user would draw it.
    Region,
    /// What differs from the empty place.
    EmptyView,
    /// What the thing's own mask leaves: the bound of what a comparison with the empty place can give.
    Mask,
}

impl SceneInput {
    /// All of them, in the order in which they stand in tables.
    pub const ALL: [Self; 4] = [Self::CentreSquare, Self::Region, Self::EmptyView, Self::Mask];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::CentreSquare => "centre square",
            Self::Region => "region",
            Self::EmptyView => "empty view",
            Self::Mask => "its own mask",
        }
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SceneError {
    /// Too few things or places.
    #[error("{wanted} {what} are wanted, of which {needed}; {have} can be used")]
    Few {
        /// Things or places.
        what: &'static str,
        /// How many are wanted.
        wanted: usize,
        /// What each must have.
        needed: &'static str,
        /// How many there are.
        have: usize,
    },
    /// A thing cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A photograph of a place cannot be read.
    #[error(transparent)]
    Place(#[from] PictureFileError),
    /// The folder for states cannot be made.
    #[error("a folder for the state cannot be made")]
    Folder(#[from] io::Error),
    /// The learner cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenLearnerError),
    /// The things cannot be learned.
    #[error(transparent)]
    Learn(#[from] ChangeError),
    /// What was learned cannot be kept.
    #[error(transparent)]
    Keep(#[from] StoreError),
    /// The backbone failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// A place with its camera's empty view.
struct Place {
    empty: Stage,
    background: Arc<Background>,
}

/// A frame with one thing in it.
struct StagedFrame {
    frame: RgbImage,
    stage: Stage,
    /// The place, by its number.
    place: usize,
}

/// A thing of the draw: shots in its own place, and what is asked in both.
struct ObjectSample {
    shots: Vec<StagedFrame>,
    own_place: Vec<StagedFrame>,
    other_place: Vec<StagedFrame>,
    /// Two of the pictures that are asked, to stand beside other things.
    beside: Vec<MaskedPicture>,
}

/// Measures one draw.
///
/// # Errors
/// [`SceneError`] if there are too few things or places, or something cannot be read or learned.
pub fn measure(plan: &ScenePlan<'_>) -> Result<SceneResults, SceneError> {
    let mut random = Random::new(plan.seed, "scenes");
    let places = draw_places(plan, &mut random)?;
    let objects = draw_objects(plan, &places, &mut random)?;
    let mut results = SceneResults { empty: empty_share(&places, &mut random), ..SceneResults::default() };
    for &input in plan.inputs {
        let mut device = SceneDevice::taught(plan.bundle, input, &places, &objects)?;
        results.inputs.push(device.shares(&places, &objects)?);
        if input == SceneInput::EmptyView {
            (results.missed, results.spurious) = found_shares(&places, &objects);
            results.two_things = device.two_things(&places, &objects, &mut random)?;
        }
    }
    Ok(results)
}

/// The indices below `count`, in random order.
fn shuffled_indices(count: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    random.shuffle(&mut order);
    order
}

/// As many places as things. A photograph of which no empty view can be made is passed over, as a user would.
fn draw_places(plan: &ScenePlan<'_>, random: &mut Random) -> Result<Vec<Place>, SceneError> {
    let mut places = Vec::new();
    for index in shuffled_indices(plan.places.len(), random) {
        if places.len() == plan.things_per_draw {
            break;
        }
        let path = &plan.places[index];
        let photograph = image::open(path)?;
        let empty = Stage::empty(&photograph);
        let views: Vec<RgbImage> = (0..VIEWS).map(|_| empty.frame(random)).collect();
        places
            .extend(Background::learn(&views).ok().map(|background| Place { empty, background: Arc::new(background) }));
    }
    let needed = "each can be learned as an empty place";
    let too_few = SceneError::Few { what: "places", wanted: plan.things_per_draw, needed, have: places.len() };
    if places.len() == plan.things_per_draw { Ok(places) } else { Err(too_few) }
}

fn draw_objects(plan: &ScenePlan<'_>, places: &[Place], random: &mut Random) -> Result<Vec<ObjectSample>, SceneError> {
    let enough = SHOTS + plan.queries_per_thing;
    let usable: Vec<&PhotographedObject> =
        plan.objects.iter().filter(|object| object.pictures.len() >= enough).collect();
    if usable.len() < plan.things_per_draw || plan.things_per_draw < 2 {
        let needed = "each has pictures for its shots and to ask";
        return Err(SceneError::Few {
            what: "things",
            wanted: plan.things_per_draw.max(2),
            needed,
            have: usable.len(),
        });
    }
    let mut samples = Vec::new();
    for (own, index) in shuffled_indices(usable.len(), random).into_iter().take(plan.things_per_draw).enumerate() {
        let pictures = &usable[index].pictures;
        let order = shuffled_indices(pictures.len(), random);
        let opened = order[..enough]
            .iter()
            .map(|&picture| MaskedPicture::open(&pictures[picture]))
            .collect::<Result<Vec<_>, _>>()?;
        let (shots, asked) = opened.split_at(SHOTS);
        let other = (own + 1 + random.below(plan.things_per_draw - 1)) % plan.things_per_draw;
        let mut show = |things: &[MaskedPicture], place: usize| -> Vec<StagedFrame> {
            things.iter().map(|thing| staged(thing, &places[place].empty, place, random)).collect()
        };
        samples.push(ObjectSample {
            shots: show(shots, own),
            own_place: show(asked, own),
            other_place: show(asked, other),
            beside: asked[..asked.len().min(2)].to_vec(),
        });
    }
    Ok(samples)
}

/// A frame with a thing near its middle.
fn staged(thing: &MaskedPicture, empty: &Stage, place: usize, random: &mut Random) -> StagedFrame {
    let height = FRAME[1] as f32;
    let middle = FRAME.map(|side| {
        let aside = random.uniform(-ASIDE, ASIDE) * height;
        (side as f32 / 2.0 + aside) as u32
    });
    let stage = empty.clone().with(thing, (ALONE * height) as u32, middle);
    StagedFrame { frame: stage.frame(random), stage, place }
}

/// The share of empty frames that are called empty.
fn empty_share(places: &[Place], random: &mut Random) -> f64 {
    let mut called = 0;
    for place in places {
        for _ in 0..EMPTY {
            let frame = place.empty.frame(random);
            called += usize::from(place.things(&frame).is_empty());
        }
    }
    share(called, EMPTY * places.len())
}

/// Shares of frames in which the thing was missed, and in which more than it was found.
fn found_shares(places: &[Place], objects: &[ObjectSample]) -> (f64, f64) {
    let (mut frames, mut missed, mut spurious) = (0, 0, 0);
    for shown in
        objects.iter().flat_map(|object| object.shots.iter().chain(&object.own_place).chain(&object.other_place))
    {
        let things = places[shown.place].things(&shown.frame);
        let best = things.iter().map(|found| found.intersection_over_union(shown.stage.things[0])).fold(0.0, f32::max);
        frames += 1;
        missed += usize::from(best < FOUND);
        spurious += usize::from(things.len() > 1);
    }
    (share(missed, frames), share(spurious, frames))
}

impl Place {
    fn things(&self, frame: &RgbImage) -> Vec<PixelRect> {
        let foreground = self.background.compare(frame, None).expect("all frames have one size");
        foreground.things().iter().map(|thing| thing.bounds).collect()
    }
}

/// A thing's bounds with the space that a cut-out leaves around it, as far as the frame has it.
fn with_margin(thing: PixelRect) -> PixelRect {
    let space = thing.width.max(thing.height) / 8;
    let (x, y) = (thing.x.saturating_sub(space), thing.y.saturating_sub(space));
    let [width, height] = FRAME;
    PixelRect { x, y, width: width.min(thing.right() + space) - x, height: height.min(thing.bottom() + space) - y }
}

/// The share of each thing's shots that a device would refuse.
fn refused_share(shots: &[Vec<RgbImage>]) -> f64 {
    let (mut refused, mut count) = (0, 0);
    let thresholds = Thresholds::default();
    for shots in shots {
        let qualities: Vec<Quality> = shots.iter().map(Quality::of).collect();
        for (shot, quality) in qualities.iter().enumerate() {
            let earlier = qualities[..shot].iter().map(|quality| EarlierShot { shot: 0, label: "thing", quality });
            let candidate = ShotCandidate { label: "thing", quality, best: None };
            count += 1;
            refused += usize::from(!thresholds.objections(candidate, earlier).is_empty());
        }
    }
    share(refused, count)
}

fn share(count: usize, of: usize) -> f64 {
    count as f64 / of.max(1) as f64
}

/// A device that was taught all things of a draw through one input.
struct SceneDevice {
    input: SceneInput,
    learner: Learner,
    /// The class of the first thing.
    first: usize,
    fill: [u8; 3],
    /// The share of shots that a device would refuse.
    refused_shots: f64,
    /// What it promises, where it names learned classes alone.
    promise: Option<LearnedOnlyAccuracy>,
    /// Holds the state.
    _folder: tempfile::TempDir,
}

/// What a device answers about a picture.
struct ObjectAnswer {
    /// The best of the learned things; none where none is answered.
    thing: Option<usize>,
    /// Whether a base class comes before all of them.
    base_first: bool,
    /// Whether it counts as unknown, where learned classes alone are answered.
    is_unknown: bool,
}

impl ObjectAnswer {
    fn is_right(&self, thing: usize) -> bool {
        self.thing == Some(thing)
    }

    /// Whether a device says so, where it answers learned classes alone.
    fn is_right_and_known(&self, thing: usize) -> bool {
        self.is_right(thing) && !self.is_unknown
    }
}

impl SceneDevice {
    fn taught(
        bundle: &Bundle,
        input: SceneInput,
        places: &[Place],
        objects: &[ObjectSample],
    ) -> Result<Self, SceneError> {
        let folder = tempfile::tempdir()?;
        // Shots and pictures go through the same engine.
        let settings = LearnerSettings::default().pictures_ahead(1);
        let learner = Learner::new(bundle.clone(), Store::new(folder.path()), settings)?;
        let first = learner.classes().count();
        let fill = bundle.manifest.preprocessing.mean_colour();
        let mut device = Self { input, learner, first, fill, refused_shots: 0.0, promise: None, _folder: folder };
        let shots: Vec<Vec<RgbImage>> = objects.iter().map(|object| device.shots(places, object)).collect();
        device.refused_shots = refused_share(&shots);
        let labels: Vec<String> = (0..shots.len()).map(|number| format!("thing {}", number + 1)).collect();
        let classes: Vec<(&str, Shots<'_>)> =
            labels.iter().zip(&shots).map(|(label, shots)| (&**label, Shots::Pictures(shots))).collect();
        device.promise = device.learner.learn_many(&classes, &mut ())?.durable()?.expected_learned_only;
        Ok(device)
    }

    fn shots(&self, places: &[Place], object: &ObjectSample) -> Vec<RgbImage> {
        // A frame in which nothing is found cannot be a shot: the user takes another one, here the whole frame.
        object.shots.iter().map(|shot| self.view(places, shot).unwrap_or_else(|| shot.frame.clone())).collect()
    }

    /// What the backbone sees of a frame; nothing if it is called empty.
    fn view(&self, places: &[Place], shown: &StagedFrame) -> Option<RgbImage> {
        let thing = shown.stage.things[0];
        let region = |bounds| vec![NamedRegion { name: String::new(), region: Region::Pixels(bounds) }];
        let plain = Viewfinder { background: None, regions: Vec::new(), fill: self.fill };
        match self.input {
            SceneInput::CentreSquare => plain.shot(&shown.frame).ok(),
            SceneInput::Region => Viewfinder { regions: region(thing), ..plain }.shot(&shown.frame).ok(),
            SceneInput::EmptyView => {
                let background = Some(Arc::clone(&places[shown.place].background));
                Viewfinder { background, ..plain }.shot(&shown.frame).ok()
            }
            SceneInput::Mask => {
                let cut_out = shown.stage.cut_out(&shown.frame, self.fill);
                Viewfinder { regions: region(with_margin(thing)), ..plain }.shot(&cut_out).ok()
            }
        }
    }

    fn ask(&mut self, picture: &RgbImage) -> Result<ObjectAnswer, EncodeError> {
        let features = self.learner.features(picture)?;
        let mut answer = |scope| {
            self.learner.settings_mut().scope = scope;
            self.learner.classify_features(features.view()).swap_remove(0)
        };
        let (all, alone) = (answer(AnswerScope::All), answer(AnswerScope::Learned));
        let learned = all.matches.iter().map(|found| found.class).find(|class| *class >= self.first);
        let base_first = all.matches.first().is_some_and(|found| found.class < self.first);
        let thing = learned.map(|class| class - self.first);
        Ok(ObjectAnswer { thing, base_first, is_unknown: alone.is_unknown() })
    }

    fn shares(&mut self, places: &[Place], objects: &[ObjectSample]) -> Result<InputShares, SceneError> {
        let (mut own, mut other, mut all, mut count) = (0, 0, 0, 0);
        let (mut known_own, mut known_other) = (0, 0);
        for (thing, object) in objects.iter().enumerate() {
            for (own_place, other_place) in object.own_place.iter().zip(&object.other_place) {
                count += 1;
                if let Some(picture) = self.view(places, own_place) {
                    let answer = self.ask(&picture)?;
                    own += usize::from(answer.is_right(thing));
                    known_own += usize::from(answer.is_right_and_known(thing));
                }
                if let Some(picture) = self.view(places, other_place) {
                    let answer = self.ask(&picture)?;
                    other += usize::from(answer.is_right(thing));
                    all += usize::from(answer.is_right(thing) && !answer.base_first);
                    known_other += usize::from(answer.is_right_and_known(thing));
                }
            }
        }
        let [own_place, other_place] = [own, other].map(|right| share(right, count));
        let promise = self.promise.map(|LearnedOnlyAccuracy { learned, learned_range, .. }| {
            let range = learned_range.map(|range| range.map(f64::from));
            ScenePromise::new(f64::from(learned), range, [own_place, other_place])
        });
        Ok(InputShares {
            own_place,
            other_place,
            other_place_all_classes: share(all, count),
            refused_shots: self.refused_shots,
            known: Some(KnownShares { own_place: share(known_own, count), other_place: share(known_other, count) }),
            promise,
        })
    }

    /// The share of frames with two things of which both are answered right, each by what was found where it is.
    fn two_things(
        &mut self,
        places: &[Place],
        objects: &[ObjectSample],
        random: &mut Random,
    ) -> Result<f64, SceneError> {
        let (mut right, mut count) = (0, 0);
        let side = (BESIDE * FRAME[1] as f32) as u32;
        for (one, object) in objects.iter().enumerate() {
            for turn in 0..object.beside.len() {
                let other = (one + 1 + random.below(objects.len() - 1)) % objects.len();
                let place = &places[random.below(places.len())];
                let pair = [&object.beside[turn], &objects[other].beside[turn % objects[other].beside.len()]];
                let stage = place.empty.clone().with(pair[0], side, [FRAME[0] / 4, FRAME[1] / 2]);
                let stage = stage.with(pair[1], side, [FRAME[0] * 3 / 4, FRAME[1] / 2]);
                let both = self.both_right(place, &stage, [one, other], random)?;
                count += 1;
                right += usize::from(both);
            }
        }
        Ok(share(right, count))
    }

    fn both_right(
        &mut self,
        place: &Place,
        stage: &Stage,
        things: [usize; 2],
        random: &mut Random,
    ) -> Result<bool, SceneError> {
        let frame = stage.frame(random);
        let foreground = place.background.compare(&frame, None).expect("all frames have one size");
        let mut right = 0;
        for (bounds, thing) in stage.things.iter().zip(things) {
            let is_here = |found: &&Thing| found.bounds.intersection_over_union(*bounds) >= FOUND;
            if let Some(found) = foreground.things().iter().find(is_here) {
                let picture = foreground.cut_out(&frame, found, self.fill);
                right += usize::from(self.ask(&picture)?.is_right(thing));
            }
        }
        Ok(right == 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_answer_that_counts_as_unknown_is_right_and_not_known() {
        let answer = |thing, is_unknown| ObjectAnswer { thing, base_first: true, is_unknown };
        let judged = |answer: ObjectAnswer| (answer.is_right(1), answer.is_right_and_known(1));
        assert_eq!(judged(answer(Some(1), false)), (true, true));
        assert_eq!(judged(answer(Some(1), true)), (true, false));
        assert_eq!(judged(answer(Some(0), false)), (false, false));
    }
}

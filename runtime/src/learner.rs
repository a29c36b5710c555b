//! The learner: a bundle, what was learned on it, and all that changes it.
//!
//! A change is a pure step ([`orco_state::session`]) and one act of committing at its end: it is made as a whole, and
//! kept in the store, or nothing happened. While one is made, the store is locked and its newest state read, so that
//! any number of learners, in this process or in others, may share a folder.

mod change;
mod check;
mod error;
mod keeping;
pub mod losses;
mod observer;
mod settings;
mod shots;
#[cfg(test)]
mod tests;
pub mod upgrade;

use std::path::Path;

use ::image::RgbImage;
use ndarray::{Array2, ArrayView1, ArrayView2, ArrayView3};
use orco_state::classify::{Classifier, Match};
use orco_state::enough::{self, LearningCurve, ShotSufficiency};
use orco_state::history::{History, SavedState};
use orco_state::label;
use orco_state::nearest::{self, Neighbour};
use orco_state::pack::{Pack, PackOrigin};
use orco_state::session::budget::{SessionBudget, SessionExtent};
use orco_state::session::{self, LearnError, NewClass, SessionMemory};
use orco_state::state::{BaseModel, Class, State};
use orco_state::unknown::KnownScores;

use crate::bundle::Bundle;
use crate::encoder::choice::{ChoiceReason, Workload};
use crate::encoder::{EncodeError, Encoder};
use crate::release;
use crate::store::{Store, StoreError, StoreSnapshot};
use crate::threads::Threads;

pub use change::{ChangeOutcome, PackClass, UndoOutcome};
pub use check::DoubtfulShot;
pub use error::{BrokenPicture, ChangeError, ExportError, OpenLearnerError, ShotsError};
pub use keeping::KeptShots;
pub use observer::{ChangeStep, Observer};
pub use settings::{LearnerSettings, ShotChecks};
pub use shots::{Shots, pictures_in};

/// A device that classifies pictures and learns new classes.
///
/// # Example
/// Learns a class from five shots and recognises another picture of it:
/// ```
/// use orco_runtime::image;
/// use orco_runtime::learner::{Learner, Shots};
///
/// let state = tempfile::tempdir()?;
/// let mut learner = Learner::open("../models/cifar100-edge", state.path())?;
/// let shots = Shots::folder("../examples/shots/learn/rubber-duck")?;
/// let made = learner.learn(&[("duck", shots)], &mut ())?;
/// assert!(made.report.new_accuracy().is_some_and(|share| share > 0.7));
///
/// let picture = image::open("../examples/shots/try/rubber-duck/1.jpg".as_ref())?;
/// assert_eq!(learner.classify(&picture)?.label, "duck");
/// learner.undo(1, &mut ())?;
/// assert_ne!(learner.classify(&picture)?.label, "duck");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Learner {
    bundle: Bundle,
    store: Store,
    settings: LearnerSettings,
    saved: SavedState,
    /// Counts saves of the state.
    generation: u64,
    warnings: Vec<String>,
    doubtful_shots: Vec<DoubtfulShot>,
    /// Made when it is first needed, and anew after every change.
    classifier: Option<Classifier>,
    /// What known pictures score, by which unknown ones are told, where that can be; made with the classifier.
    known_scores: Option<KnownScores>,
    /// Labels of classes that the classifier alone knows.
    provisional: Vec<String>,
    /// For pictures, and for shots.
    encoders: [Option<Box<dyn Encoder>>; 2],
    memory: SessionMemory,
    threads: Option<Threads>,
}

/// What a picture shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Label of the class with the highest score.
    pub label: String,
    /// Its score: how probable it is, 0..1, where answers use the bundle's statistics, else how near, -1..1.
    pub score: f32,
    /// Whether the picture is like anything known: whether its scores reach the threshold that all but
    /// [`LearnerSettings::false_alarms`] of known pictures pass ([`orco_state::unknown`]). Where answers do not use the
    /// bundle's statistics, nothing is unknown.
    pub known: bool,
    /// All known classes with their scores, highest first; [`Learner::label`] names them.
    pub matches: Vec<Match>,
}

impl Learner {
    /// Opens a bundle's folder and the folder of the state that was learned on it, which need not be there yet, with
    /// the usual settings.
    ///
    /// # Errors
    /// [`OpenLearnerError`] if the bundle or the state cannot be used.
    pub fn open(bundle: impl AsRef<Path>, state: impl AsRef<Path>) -> Result<Self, OpenLearnerError> {
        Self::new(Bundle::open(bundle.as_ref())?, Store::new(state.as_ref()), LearnerSettings::default())
    }

    /// A learner on an opened bundle.
    ///
    /// # Errors
    /// [`OpenLearnerError`] if the state cannot be used, or the bundle is an older release than was used before.
    pub fn new(bundle: Bundle, store: Store, settings: LearnerSettings) -> Result<Self, OpenLearnerError> {
        if settings.compare_releases {
            release::check(store.folder(), &bundle.manifest.name, bundle.manifest.release)?;
        }
        let StoreSnapshot { saved, warnings, generation, .. } = store.load(&bundle)?;
        let (encoders, memory) = ([None, None], SessionMemory::default());
        Ok(Self {
            bundle,
            store,
            settings,
            saved,
            generation,
            warnings,
            doubtful_shots: Vec::new(),
            classifier: None,
            known_scores: None,
            provisional: Vec::new(),
            encoders,
            memory,
            threads: None,
        })
    }

    /// The bundle.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// What the bundle brought.
    pub fn base_model(&self) -> &BaseModel {
        &self.bundle.base_model
    }

    /// What was learned since, with how it came to be.
    pub fn saved(&self) -> &SavedState {
        &self.saved
    }

    /// What was learned since.
    pub fn state(&self) -> &State {
        &self.saved.state
    }

    /// How that came to be.
    pub fn history(&self) -> &History {
        &self.saved.history
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What was wrong with the store when it was last read, in sentences, for somebody to be told.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Shots of the last change with shots that were taken although something speaks against them, where
    /// [`LearnerSettings::shot_checks`] has them looked at.
    pub fn doubtful_shots(&self) -> &[DoubtfulShot] {
        &self.doubtful_shots
    }

    /// The settings.
    pub fn settings(&self) -> &LearnerSettings {
        &self.settings
    }

    /// The settings, which may be changed between two calls.
    pub fn settings_mut(&mut self) -> &mut LearnerSettings {
        &mut self.settings
    }

    /// All known classes, base classes first; a class's index is that in a [`Match`].
    pub fn classes(&self) -> impl Iterator<Item = &Class> + Clone {
        self.saved.state.known(&self.bundle.base_model)
    }

    /// Label of the class of that index, one that was [imprinted](Self::imprint) among them; empty if there is none.
    pub fn label(&self, class: usize) -> &str {
        if let Some(class) = self.saved.state.class(&self.bundle.base_model, class) {
            return &class.label;
        }
        self.provisional.get(class - self.classes().count()).map_or("", String::as_str)
    }

    /// Knows a class at once, without training, until the state is read or changed next: answers while another learner
    /// on the same folder learns it ([`Classifier::imprint`]).
    ///
    /// # Shapes
    /// `shots` `[shots, views, features]`, as [`Learner::shot_features`] gives them.
    /// # Errors
    /// [`LearnError`] if the label or the shots cannot be used.
    /// # Panics
    /// If rows have another length than the bundle's features.
    pub fn imprint(&mut self, label: &str, shots: ArrayView3<'_, f32>) -> Result<(), LearnError> {
        let (base_model, state) = (&self.bundle.base_model, &self.saved.state);
        session::check_labels(base_model, state, &[label])?;
        session::check_count(base_model, state, label, shots.dim().0)?;
        if self.provisional.iter().any(|known| label::same(known, label)) {
            return Err(LearnError::LabelExists { label: label.into() });
        }
        assert_eq!(shots.dim().2, base_model.head.inputs, "shots have other features than the bundle");
        let shots = shots.outer_iter().map(|shot| shot.iter().copied().collect()).collect();
        let class = NewClass { label: label::normal(label), shots };
        self.ready().0.imprint(&class);
        self.provisional.push(class.label);
        Ok(())
    }

    /// Reads the state anew, which another learner on the same folder may have changed.
    ///
    /// # Errors
    /// [`OpenLearnerError`] if it cannot be used, or is gone; what was known before holds then.
    pub fn refresh(&mut self) -> Result<(), OpenLearnerError> {
        let reading = self.store.load(&self.bundle)?;
        Ok(self.take(reading)?)
    }

    /// How often the state was saved when it was read last; 0 if nothing was saved yet.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Another learner on the same folder has found a state there: that there is none any more is an error from now on.
    pub fn expect_state(&mut self) {
        self.generation = self.generation.max(1);
    }

    /// Refuses to go on where there was a state and is none any more: that would forget everything without a word.
    fn check_there(&self, generation: u64) -> Result<(), StoreError> {
        let is_gone = self.generation > 0 && generation == 0;
        if is_gone { Err(StoreError::Gone { folder: self.store.folder().into() }) } else { Ok(()) }
    }

    /// Goes on from what the store holds.
    fn take(&mut self, reading: StoreSnapshot) -> Result<(), StoreError> {
        self.check_there(reading.generation)?;
        self.generation = reading.generation;
        self.warnings = reading.warnings;
        if self.saved != reading.saved || !self.provisional.is_empty() {
            self.start_anew();
        }
        self.saved = reading.saved;
        Ok(())
    }

    /// Lets go of what was made from the state.
    fn start_anew(&mut self) {
        self.classifier = None;
        self.known_scores = None;
        self.provisional.clear();
    }

    /// Says what a picture shows.
    ///
    /// # Errors
    /// [`EncodeError`] if the backbone cannot be started or fails.
    pub fn classify(&mut self, picture: &RgbImage) -> Result<Answer, EncodeError> {
        let features = self.features(picture, 1)?;
        Ok(self.classify_features(features.view()).swap_remove(0))
    }

    /// Says what pictures show whose features are known already.
    ///
    /// # Shapes
    /// `features` `[pictures, features]`, of the clean view of each.
    /// # Panics
    /// If rows have another length than the bundle's features.
    pub fn classify_features(&mut self, features: ArrayView2<'_, f32>) -> Vec<Answer> {
        let false_alarms = self.settings.false_alarms;
        let threshold = self.ready().1.map(|scores| scores.threshold(false_alarms));
        let (classifier, _) = self.ready();
        let rows = features.as_standard_layout();
        let looked = |row: ArrayView1<'_, f32>| {
            let row = row.to_slice().expect("rows of the standard layout");
            let mut scores = classifier.scores(row);
            let familiarity = classifier.familiarity(&scores);
            (familiarity.zip(threshold).is_none_or(|(own, least)| own >= least), classifier.ranked(&mut scores))
        };
        let looked: Vec<(bool, Vec<Match>)> = rows.rows().into_iter().map(looked).collect();
        let answer = |(known, matches): (bool, Vec<Match>)| {
            let best = matches.first().copied();
            let label = best.map_or(String::new(), |best| self.label(best.class).to_owned());
            Answer { label, score: best.map_or(0.0, |best| best.score), known, matches }
        };
        looked.into_iter().map(answer).collect()
    }

    /// What classifies, and tells unknown pictures.
    fn ready(&mut self) -> (&mut Classifier, Option<&KnownScores>) {
        if self.classifier.is_none() {
            let (base_model, state) = (&self.bundle.base_model, &self.saved.state);
            let (classifier, scores) = Classifier::with_known_scores(base_model, state, &base_model.config);
            (self.classifier, self.known_scores) = (Some(classifier), scores);
        }
        (self.classifier.as_mut().expect("made where there was none"), self.known_scores.as_ref())
    }

    /// The `count` stored exemplars that a picture is most like, by its features: why an answer was given.
    ///
    /// # Panics
    /// If `features` have another length than the bundle's.
    pub fn nearest(&self, features: ArrayView1<'_, f32>, count: usize) -> Vec<Neighbour> {
        let features = features.to_vec();
        nearest::nearest(&self.bundle.base_model, &self.saved.state, &features, count)
    }

    /// Whether the shots of a class, which need not be known, are enough: each is left out in turn, and what more
    /// would bring is told from the bundle's curve ([`LearningCurve::of`]), if it is given.
    ///
    /// # Shapes
    /// `shots` `[shots, views, features]`, as [`Learner::shot_features`] gives them.
    /// # Panics
    /// If rows have another length than the bundle's features.
    pub fn enough(
        &mut self,
        label: &str,
        shots: ArrayView3<'_, f32>,
        curve: Option<&LearningCurve>,
    ) -> ShotSufficiency {
        assert!(
            shots.is_empty() || shots.dim().2 == self.base_model().head.inputs,
            "shots have other features than the bundle"
        );
        self.ready();
        let (base_model, state) = (&self.bundle.base_model, &self.saved.state);
        let provisional = self.provisional.iter().map(String::as_str);
        let labels = state.known(base_model).map(|class| class.label.as_str()).chain(provisional);
        let known = labels.into_iter().position(|known| label::same(known, label));
        let shots: Vec<Vec<f32>> = shots.outer_iter().map(|shot| shot.iter().copied().collect()).collect();
        let classifier = self.classifier.as_ref().expect("made ready above");
        enough::enough(base_model, classifier, curve, known, &shots)
    }

    /// Features of `views` views of a picture that is to be classified, the clean one first, `[views, features]`.
    ///
    /// # Errors
    /// [`EncodeError`] if the backbone cannot be started or fails.
    pub fn features(&mut self, picture: &RgbImage, views: usize) -> Result<Array2<f32>, EncodeError> {
        let work = Workload::Pictures(self.settings.pictures_ahead);
        self.encode(work, picture, views)
    }

    /// Features of all views of a picture that is to be a shot, `[views, features]`: those that learning it computes.
    ///
    /// # Errors
    /// [`EncodeError`] if the backbone cannot be started or fails.
    pub fn shot_features(&mut self, picture: &RgbImage) -> Result<Array2<f32>, EncodeError> {
        self.encode(Workload::Shots, picture, self.bundle.base_model.config.views)
    }

    /// The engine that the backbone runs on for some work, and why; starts it.
    ///
    /// # Errors
    /// [`EncodeError`] if it cannot be started.
    pub fn engine(&mut self, work: Workload) -> Result<(String, ChoiceReason), EncodeError> {
        let (encoder, reason) = self.bundle.encoder(self.settings.engine, work)?;
        let name = encoder.engine();
        self.encoders[usize::from(work == Workload::Shots)] = Some(encoder);
        Ok((name, reason))
    }

    fn encode(&mut self, work: Workload, picture: &RgbImage, views: usize) -> Result<Array2<f32>, EncodeError> {
        let encoder = &mut self.encoders[usize::from(work == Workload::Shots)];
        let encoder = match encoder {
            Some(encoder) => encoder,
            None => encoder.insert(self.bundle.encoder(self.settings.engine, work)?.0),
        };
        self.bundle.features(encoder.as_mut(), picture, views)
    }

    /// Takes a learned class out, for another device with the same bundle. What leaves the device comes from the
    /// newest state or not at all: in an older one may be a class that was forgotten since.
    ///
    /// # Errors
    /// [`ExportError`] if the newest state cannot be read, or the class cannot be exported.
    pub fn export(&mut self, label: &str, provenance: PackOrigin) -> Result<Pack, ExportError> {
        let reading = self.store.load_newest(&self.bundle)?;
        self.take(reading)?;
        Ok(Pack::of(&self.bundle.base_model, &self.saved.state, label, provenance)?)
    }

    /// Bytes of memory that one session of so many classes and shots takes at the most, beside bundle, state and
    /// backbone; where it trains a head, those of training alone.
    pub fn session_bytes(&self, classes: usize, shots: usize) -> usize {
        let (base_model, state) = (&self.bundle.base_model, &self.saved.state);
        let extent = SessionExtent { learned: state.classes.len(), stored: state.exemplars.len(), classes, shots };
        match SessionBudget::of(base_model, extent) {
            Some(budget) => budget.learning.max(budget.saving),
            None => session::needs(base_model, state, classes, shots, &base_model.config).bytes(),
        }
    }
}

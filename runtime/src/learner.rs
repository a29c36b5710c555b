//! The learner: a bundle, what was learned on it, and all that changes it.
//!
//! A change is a pure step ([`orco_state::session`]) and one act of committing at its end: it is made as a whole, and
//! kept in the store, or nothing happened. Where the bundle's settings align a head, that follows as a second act,
//! which may change answers and is part of the same entry of the history. While a change is made, the store is locked
//! and its newest state read, so that any number of learners, in this process or in others, may share a folder.

mod alignment;
mod answer;
mod change;
mod error;
pub mod forgetting_sentences;
mod observer;
mod scope_file;
mod service;
mod settings;
mod shot_examiner;
mod shot_keeper;
mod shot_reading;
mod shots;
mod started_encoder;
#[cfg(test)]
mod tests;
mod undo;
pub mod upgrade;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use ::image::RgbImage;
use ndarray::Array2;
use orco_state::answer::AnsweredClasses;
use orco_state::history::{History, SavedState};
use orco_state::label;
use orco_state::pack::{Pack, PackOrigin};
use orco_state::session::cost::{SessionCost, SessionExtent};
use orco_state::session::{self, SessionMemory};
use orco_state::state::{BaseModel, Class, State};

use crate::bundle::Bundle;
use crate::encoder::EncodeError;
use crate::encoder::engine_choice::{ChoiceReason, Workload};
use crate::store::{NewestState, Store, StoreError, StoreSnapshot};
use crate::threads::{self, Threads};

pub use answer::Answer;
use answer::StateClassifier;
pub use change::{ChangeOutcome, PackClass};
pub use error::{BrokenPicture, ChangeError, ExportError, OpenLearnerError, PictureProblem, ShotsError};
pub use observer::{ChangeStep, Observer};
#[doc(no_inline)]
pub use orco_state::classify::{Match, Score};
pub use scope_file::{ScopeFile, ScopeFileError};
pub use service::BalanceOutlook;
pub use settings::{AlignmentTime, AnswerScope, LearnerSettings, SettingsError, ShotChecks};
pub use shot_examiner::{DoubtfulShot, shot_warnings};
pub use shot_keeper::KeptPicturesReport;
pub use shots::{PictureFolder, Shots, is_made_by_systems, pictures_in};
use started_encoder::StartedEncoders;
pub use undo::UndoOutcome;

/// The engine that a learner's backbone runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineInUse {
    /// Its name and version.
    pub name: String,
    /// Why it was chosen.
    pub reason: ChoiceReason,
}

/// A device that classifies pictures and learns new classes.
///
/// It joins a [bundle](Bundle), which came from a workstation, with a folder that holds what was learned since. Open
/// one learner, keep it, and use it for everything: its backbone is started once, when it is first needed.
///
/// # Opening
///
/// [`Learner::open`] takes both folders; that of the state need not be there yet. [`Learner::new`] also takes
/// [settings](LearnerSettings), and a bundle whose signature was [checked](Bundle::open_trusted).
/// ```
/// use orco_runtime::prelude::*;
///
/// let state = tempfile::tempdir()?;
/// let settings = LearnerSettings::default().shot_checks(ShotChecks::Refuse);
/// let bundle = Bundle::open("../models/cifar100-edge")?;
/// let learner = Learner::new(bundle, Store::new(state.path()), settings)?;
/// assert_eq!(learner.classes().count(), 60);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Teaching
///
/// [`Learner::learn`] takes a label and a few shots: [files](Shots::Files), [pictures](Shots::Pictures) in memory, or
/// [features](Shots::Features). When it returns, the class is saved. [`Learner::add`] gives a class further shots. A
/// change that fails or is cancelled changes nothing.
/// ```
/// use orco_runtime::prelude::*;
///
/// # let state = tempfile::tempdir()?;
/// # let mut learner = Learner::open("../models/cifar100-edge", state.path())?;
/// let shots = Shots::folder("../examples/shots/learn/rubber-duck")?;
/// let report = learner.learn("duck", shots)?.durable()?;
/// assert!(report.new_accuracy().is_some_and(|share| share > 0.7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// Several classes are learned faster in one session, with [`Learner::learn_many`]. An [`Observer`] watches it and may
/// cancel it:
/// ```
/// use std::ops::ControlFlow;
///
/// use orco_runtime::prelude::*;
///
/// # let state = tempfile::tempdir()?;
/// # let mut learner = Learner::open("../models/cifar100-edge", state.path())?;
/// let classes = [
///     ("duck", Shots::folder("../examples/shots/learn/rubber-duck")?),
///     ("mug", Shots::folder("../examples/shots/learn/mug")?),
/// ];
/// let mut steps = 0;
/// let mut count = |_: ChangeStep| {
///     steps += 1;
///     ControlFlow::Continue(())
/// };
/// learner.learn_many(&classes, &mut count)?.durable()?;
/// assert!(steps > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Asking
///
/// [`Learner::classify`] says what a picture shows, how sure that is, and whether the picture is like anything known.
/// [`Learner::nearest`] says which shots made the answer.
/// ```
/// use orco_runtime::image;
/// use orco_runtime::prelude::*;
///
/// # let state = tempfile::tempdir()?;
/// # let mut learner = Learner::open("../models/cifar100-edge", state.path())?;
/// # learner.learn("duck", Shots::folder("../examples/shots/learn/rubber-duck")?)?.durable()?;
/// let answer = learner.classify(&image::open("../examples/shots/try/rubber-duck/1.jpg")?)?;
/// assert_eq!(answer.label, "duck");
/// match answer.score {
///     Score::Probability(share) => println!("{:.0} % sure", 100.0 * share),
///     Score::Cosine(cosine) => println!("the nearest class, at {cosine:.2}"),
/// }
/// if answer.is_unknown() {
///     println!("but like nothing that is known");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Undoing
///
/// [`Learner::forget`] takes a class away, [`Learner::undo`] takes changes back, exactly, [`Learner::redo`] makes them
/// once more, and [`history`](Learner::history) lists them. For good, and with all its traces, a class goes by
/// [`Learner::purge`].
/// ```
/// use orco_runtime::prelude::*;
///
/// # let state = tempfile::tempdir()?;
/// # let mut learner = Learner::open("../models/cifar100-edge", state.path())?;
/// learner.learn("duck", Shots::folder("../examples/shots/learn/rubber-duck")?)?.durable()?;
/// learner.forget("duck", &mut ())?.durable()?;
/// assert_eq!(learner.classes().count(), 60);
/// learner.undo(1, &mut ())?.durable()?;
/// assert_eq!(learner.classes().count(), 61);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Learner {
    bundle: Bundle,
    store: Store,
    settings: LearnerSettings,
    saved: SavedState,
    /// Counts saves of the state.
    generation: u64,
    /// Where the state that is here lies on disk, if that is known: it need not be read again then.
    newest: Option<NewestState>,
    warnings: Vec<String>,
    doubtful_shots: Vec<DoubtfulShot>,
    /// Classes of the last change whose shots were examined and show different places.
    in_different_places: Vec<String>,
    /// Made when first needed, and made again after every change.
    classifier: Option<StateClassifier>,
    /// Labels of classes that the classifier alone knows.
    provisional: Vec<String>,
    encoders: StartedEncoders,
    memory: SessionMemory,
    threads: Option<Threads>,
}

impl fmt::Debug for Learner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut learner = f.debug_struct("Learner");
        learner.field("bundle", &self.bundle.manifest.name).field("state", &self.store.folder());
        learner.field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl Learner {
    /// Opens a bundle's folder and the folder of the state that was learned on it, which need not be there yet, with
    /// the usual settings.
    ///
    /// # Errors
    /// [`OpenLearnerError`] if the bundle or the state cannot be used.
    pub fn open(bundle: impl AsRef<Path>, state: impl AsRef<Path>) -> Result<Self, OpenLearnerError> {
        Self::new(Bundle::open(bundle)?, Store::new(state), LearnerSettings::default())
    }

    /// A learner on an opened bundle.
    ///
    /// # Errors
    /// [`OpenLearnerError`] if the settings make no sense, the state cannot be used, or the bundle is an older release
    /// than was used before.
    pub fn new(bundle: Bundle, store: Store, settings: LearnerSettings) -> Result<Self, OpenLearnerError> {
        settings.check()?;
        settings.check_release(&bundle, &store)?;
        let StoreSnapshot { mut saved, warnings, newest } = store.load(&bundle)?;
        saved.keep_digests();
        let (encoders, memory) = (StartedEncoders::default(), SessionMemory::with_cache());
        Ok(Self {
            bundle,
            store,
            settings,
            saved,
            generation: newest.generation,
            newest: Some(newest),
            warnings,
            doubtful_shots: Vec::new(),
            in_different_places: Vec::new(),
            classifier: None,
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

    /// What was learned since, with its history.
    pub fn saved(&self) -> &SavedState {
        &self.saved
    }

    /// What was learned since.
    pub fn state(&self) -> &State {
        &self.saved.state
    }

    /// The history of what was learned.
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

    /// Shots that the last change with shots took in spite of reasons against them; none where
    /// [`LearnerSettings::shot_checks`] is off.
    pub fn doubtful_shots(&self) -> &[DoubtfulShot] {
        &self.doubtful_shots
    }

    /// The settings.
    pub fn settings(&self) -> &LearnerSettings {
        &self.settings
    }

    /// The settings, which may be changed between two calls. The next change is refused where they make no sense
    /// ([`LearnerSettings::check`]).
    pub fn settings_mut(&mut self) -> &mut LearnerSettings {
        &mut self.settings
    }

    /// All known classes, base classes first; a class's index is that in a [`Match`].
    pub fn classes(&self) -> impl Iterator<Item = &Class> + Clone {
        self.saved.state.known_classes(&self.bundle.base_model)
    }

    /// The classes that answers name now ([`LearnerSettings::scope`]).
    pub fn answered_classes(&self) -> AnsweredClasses {
        self.settings.scope.answered_classes(self.saved.state.classes.len())
    }

    /// Whether base classes are kept out of the answers now ([`LearnerSettings::scope`]).
    pub fn is_learned_only(&self) -> bool {
        self.answered_classes() == AnsweredClasses::Learned
    }

    /// Labels of base classes that were given shots here, and that no answer names, since answers name only learned
    /// classes ([`Learner::is_learned_only`]). [`Learner::replace_base`] has their shots answered.
    pub fn unanswered_classes(&self) -> Vec<&str> {
        if !self.is_learned_only() {
            return Vec::new();
        }
        let base_model = &self.bundle.base_model;
        let replaced = self.saved.state.replaced(base_model);
        let given: BTreeSet<u32> = self.saved.state.exemplars.classes().iter().copied().collect();
        let base = base_model.classes.iter().enumerate();
        let unanswered = base.filter(|(class, _)| given.contains(&(*class as u32)) && !replaced[*class]);
        unanswered.map(|(_, class)| class.label.as_str()).collect()
    }

    /// Label of the class of that index, one that was [imprinted](Self::imprint) among them; empty if there is none.
    pub fn label(&self, class: usize) -> &str {
        if let Some(class) = self.saved.state.class(&self.bundle.base_model, class) {
            return &class.label;
        }
        self.provisional.get(class - self.classes().count()).map_or("", String::as_str)
    }

    /// Reads the state anew, which another learner on the same folder may have changed.
    ///
    /// # Errors
    /// [`OpenLearnerError`] if it cannot be used, or is gone; what was known before holds then.
    pub fn refresh(&mut self) -> Result<(), OpenLearnerError> {
        let snapshot = self.store.load(&self.bundle)?;
        Ok(self.adopt(snapshot)?)
    }

    /// As [`Learner::refresh`], but reads nothing if the state's files are those that were read or saved last.
    ///
    /// # Errors
    /// As for [`Learner::refresh`].
    pub fn refresh_if_changed(&mut self) -> Result<(), OpenLearnerError> {
        let is_newest = self.newest.as_ref().is_some_and(|newest| newest.revision == self.store.revision());
        // After warnings, what is in memory may differ from the files.
        if is_newest && self.warnings.is_empty() { Ok(()) } else { self.refresh() }
    }

    /// Refuses to go on where there was a state and is none any more: that would forget everything without a word.
    fn check_not_gone(&self, is_there: bool) -> Result<(), StoreError> {
        let is_gone = self.generation > 0 && !is_there;
        if is_gone { Err(StoreError::Gone { folder: self.store.folder().into() }) } else { Ok(()) }
    }

    /// Goes on from what was read from the store.
    fn adopt(&mut self, snapshot: StoreSnapshot) -> Result<(), StoreError> {
        self.check_not_gone(snapshot.generation() > 0)?;
        self.generation = snapshot.generation();
        self.newest = Some(snapshot.newest);
        self.warnings = snapshot.warnings;
        let is_same = self.saved == snapshot.saved;
        if !is_same || !self.provisional.is_empty() {
            self.reset_classifier();
        }
        if !is_same {
            self.saved = snapshot.saved;
            self.saved.keep_digests();
        }
        Ok(())
    }

    /// Drops what was made from the state, which changes.
    fn reset_classifier(&mut self) {
        self.classifier = None;
        self.provisional.clear();
    }

    /// Features of a picture that is to be classified, `[1, features]`.
    ///
    /// # Errors
    /// [`EncodeError`] if the picture has no pixels, or the backbone cannot be started or fails.
    pub fn features(&mut self, picture: &RgbImage) -> Result<Array2<f32>, EncodeError> {
        let work = Workload::Pictures(self.settings.pictures_ahead);
        self.encode(work, picture, 1)
    }

    /// Features of all views of a picture that is to be a shot, `[views, features]`: those that learning it computes.
    ///
    /// # Errors
    /// [`EncodeError`] if the picture has no pixels, or the backbone cannot be started or fails.
    pub fn shot_features(&mut self, picture: &RgbImage) -> Result<Array2<f32>, EncodeError> {
        self.encode(Workload::Shots, picture, self.bundle.base_model.config.views)
    }

    /// The engine that the backbone runs on for some work, and why; starts it. Pictures are classified on it if `work`
    /// is [`Workload::Pictures`] of as many as the settings' [`pictures_ahead`](field@LearnerSettings::pictures_ahead);
    /// otherwise the next one starts the backbone again, for that many.
    ///
    /// # Errors
    /// [`EncodeError`] if it cannot be started.
    pub fn engine(&mut self, work: Workload) -> Result<EngineInUse, EncodeError> {
        let (encoder, reason) = self.encoders.start(&self.bundle, &self.settings, work)?;
        Ok(EngineInUse { name: encoder.engine(), reason })
    }

    fn encode(&mut self, work: Workload, picture: &RgbImage, views: usize) -> Result<Array2<f32>, EncodeError> {
        let encoder = self.encoders.get(&self.bundle, &self.settings, work)?;
        self.bundle.features(encoder, picture, views)
    }

    /// Takes a learned class out, for another device with the same bundle. What leaves the device comes from the
    /// newest state or not at all: in an older one may be a class that was forgotten since. Of `origin` the device and
    /// the time count; the learner fills in bundle, program and session.
    ///
    /// # Errors
    /// [`ExportError`] if the newest state cannot be read, or the class cannot be exported.
    pub fn export(&mut self, label: &str, origin: PackOrigin) -> Result<Pack, ExportError> {
        let snapshot = self.store.load_newest(&self.bundle)?;
        self.adopt(snapshot)?;
        let origin = PackOrigin {
            bundle: label::plain(&self.bundle.manifest.name),
            program: concat!("orco ", env!("CARGO_PKG_VERSION")).into(),
            ..origin
        };
        Ok(Pack::of(&self.bundle.base_model, &self.saved.state, &label::normal(label), origin)?)
    }

    /// Peak memory, in bytes, of one session with this many new classes and shots, beyond bundle, state and backbone.
    /// Where answers do not use the bundle's statistics, only the alignment is counted.
    pub fn session_bytes(&self, classes: usize, shots: usize) -> usize {
        let (base_model, state) = (&self.bundle.base_model, &self.saved.state);
        let extent = SessionExtent {
            known_classes: state.classes.len(),
            known_shots: state.exemplars.len(),
            new_classes: classes,
            new_shots: shots,
            threads: threads::usable_threads(),
        };
        match SessionCost::of(base_model, extent) {
            Some(cost) => cost.learning.max(cost.saving),
            None => session::workspace_size(base_model, state, classes, shots, &base_model.config).bytes(),
        }
    }
}

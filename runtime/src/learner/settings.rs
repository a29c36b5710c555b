//! What a program chooses for its learner.

use std::time::Duration;

use orco_state::answer::AnsweredClasses;
use orco_state::history::HistoryLimits;
use orco_state::unknown::FALSE_ALARMS;

use crate::bundle::Bundle;
use crate::encoder::engine_choice::EngineChoice;
use crate::release::{self, ReleaseError, Releases};
use crate::store::{LockedStore, Store};

/// What is done about pictures that are hardly fit to be shots ([`crate::quality`]): too dark or bright, blurred,
/// noise, or the same as another shot of the change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShotChecks {
    /// No checks: every picture is taken.
    #[default]
    Off,
    /// They are taken, and [`super::Learner::doubtful_shots`] lists them with the reasons against them.
    Warn,
    /// The change is refused with [`super::ShotsError::Unfit`].
    Refuse,
}

/// When the head is aligned to what a change brought, where the bundle's settings align one. Until then answers follow
/// in closed form, from the moment that the change is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlignmentTime {
    /// Before the change returns, after it is kept.
    #[default]
    Now,
    /// When the program calls [`super::Learner::align`]; a service does so when it has nothing else to do.
    Later,
    /// Only on request: a service does not align on its own.
    Never,
}

/// Which classes are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerScope {
    /// All that are known.
    #[default]
    All,
    /// All, until [`AnswerScope::ENOUGH`] classes are learned; then those alone.
    Auto,
    /// Learned classes alone. What is none of them is unknown.
    Learned,
}

impl AnswerScope {
    /// Number of learned classes from which [`AnswerScope::Auto`] names these alone.
    pub const ENOUGH: usize = 3;
    /// All choices.
    pub const CHOICES: [Self; 3] = [Self::Auto, Self::Learned, Self::All];

    /// Its name in settings and interfaces.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Auto => "auto",
            Self::Learned => "learned",
        }
    }

    /// The scope of that [name](Self::name): `auto`, `learned` or `all`. `None` for any other text.
    pub fn named(name: &str) -> Option<Self> {
        Self::CHOICES.into_iter().find(|scope| scope.name() == name)
    }

    /// The classes that answers name once `learned` classes are learned.
    pub fn answered_classes(self, learned: usize) -> AnsweredClasses {
        match self {
            Self::Auto if learned < Self::ENOUGH => AnsweredClasses::All,
            Self::All => AnsweredClasses::All,
            Self::Auto | Self::Learned => AnsweredClasses::Learned,
        }
    }
}

/// A setting that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The budget is no share.
    #[error("forgetting_budget is a share from 0 to 1, not {0}")]
    ForgettingBudget(f32),
    /// The false alarms are no share.
    #[error("false_alarms is a share from 0 to 1, not {0}")]
    FalseAlarms(f32),
}

/// What a program chooses for its [`Learner`](super::Learner): engine, budget, which classes are answered, when the
/// head is aligned.
///
/// How the method itself runs is not among them: that is the [`MethodConfig`](orco_core::config::MethodConfig) of the
/// bundle.
///
/// ```
/// use orco_runtime::learner::{LearnerSettings, ShotChecks};
///
/// let settings = LearnerSettings::default().shot_checks(ShotChecks::Refuse).forgetting_budget(Some(0.05));
/// assert_eq!(settings.seed, 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LearnerSettings {
    /// Seed of shuffling and perturbation. The same bundle, shots and seed give the same state, byte for byte, but
    /// for the times in its history.
    pub seed: u64,
    /// Share of their samples, 0..1, that classes may lose over all sessions since the bundle. A change that would cost
    /// more is refused. Base classes are judged together, learned ones together, and each class by itself where it lost
    /// too many samples for chance ([`orco_state::session::ChangeReport::excess`]).
    pub forgetting_budget: Option<f32>,
    /// Share of known pictures, 0..1, that may be taken for unknown ones: how strict [`super::Answer::known`] is.
    pub false_alarms: f32,
    /// Which classes are answered.
    pub scope: AnswerScope,
    /// How much of the past is kept.
    pub limits: HistoryLimits,
    /// How long a change waits, at most, for another process that is changing the same state.
    pub wait: Duration,
    /// The engine that the backbone runs on.
    pub engine: EngineChoice,
    /// Pictures that are likely to be classified, by which [`EngineChoice::Auto`] chooses the engine.
    pub pictures_ahead: usize,
    /// Whether a bundle of an older release than was used before is refused. For bundles whose signature was checked.
    pub compare_releases: bool,
    /// Whether the pictures of shots are kept beside the exemplars, at the size that the backbone sees, so that another
    /// bundle can [learn all classes again](super::upgrade).
    pub keep_shots: bool,
    /// When the head is aligned. Where the bundle's answers use no statistics, nothing answers before it is: then it is
    /// part of every change.
    pub alignment: AlignmentTime,
    /// What is done about pictures that are hardly fit to be shots. Features are not checked, nor pictures that come
    /// with their features: the caller has checked those.
    pub shot_checks: ShotChecks,
}

crate::setters! {
    LearnerSettings:
    seed: u64,
    forgetting_budget: Option<f32>,
    false_alarms: f32,
    scope: AnswerScope,
    limits: HistoryLimits,
    wait: Duration,
    engine: EngineChoice,
    pictures_ahead: usize,
    compare_releases: bool,
    keep_shots: bool,
    alignment: AlignmentTime,
    shot_checks: ShotChecks,
}

impl LearnerSettings {
    /// Refuses settings that make no sense, such as 5 for a share of 5 %. Opening a learner and every change ask it.
    ///
    /// # Errors
    /// [`SettingsError`] names the first one.
    pub fn check(&self) -> Result<(), SettingsError> {
        let is_share = |share: &f32| (0.0..=1.0).contains(share);
        match self.forgetting_budget.filter(|budget| !is_share(budget)) {
            Some(budget) => Err(SettingsError::ForgettingBudget(budget)),
            None if !is_share(&self.false_alarms) => Err(SettingsError::FalseAlarms(self.false_alarms)),
            None => Ok(()),
        }
    }

    /// Refuses a bundle of an older release than was used before, where `compare_releases` says so. Writes nothing.
    ///
    /// # Errors
    /// As for [`release::check`].
    pub fn check_release(&self, bundle: &Bundle, store: &Store) -> Result<(), ReleaseError> {
        if !self.compare_releases {
            return Ok(());
        }
        release::check(store.folder(), &bundle.manifest.name, bundle.manifest.release)
    }

    /// Whether a bundle's release counts as used; always true where `compare_releases` is off.
    ///
    /// # Errors
    /// [`ReleaseError::Remembered`] if what is remembered cannot be read.
    pub fn is_release_used(&self, bundle: &Bundle, store: &Store) -> Result<bool, ReleaseError> {
        if !self.compare_releases {
            return Ok(true);
        }
        let is_higher = Releases::read(store.folder())?.raise(&bundle.manifest.name, bundle.manifest.release);
        Ok(!is_higher)
    }

    /// Refuses a bundle of an older release than was used before, and remembers a newer one, where
    /// `compare_releases` says so: to be called when a bundle is used on a locked store.
    ///
    /// # Errors
    /// As for [`release::accept`].
    pub fn accept_release(&self, bundle: &Bundle, locked: &LockedStore) -> Result<(), ReleaseError> {
        if !self.compare_releases {
            return Ok(());
        }
        release::accept(locked.store().folder(), &bundle.manifest.name, bundle.manifest.release)
    }
}

impl Default for LearnerSettings {
    /// Seed 1, no budget, 5 % false alarms, all classes answered, no waiting, any engine for one picture, the head is
    /// aligned in every change, shots are not checked.
    fn default() -> Self {
        Self {
            seed: 1,
            forgetting_budget: None,
            false_alarms: FALSE_ALARMS,
            scope: AnswerScope::default(),
            limits: HistoryLimits::default(),
            wait: Duration::ZERO,
            engine: EngineChoice::Auto,
            pictures_ahead: 1,
            compare_releases: false,
            keep_shots: false,
            alignment: AlignmentTime::default(),
            shot_checks: ShotChecks::Off,
        }
    }
}

//! Moving to another bundle: all classes are learned again from the kept pictures of their shots.
//!
//! The state of the old bundle is not touched until the new one is made and checked. Then the new one takes its place
//! at once or not at all, and the old one is kept aside, from where [`undo_upgrade`] brings it back to the bit.

mod check;
mod error;
mod plan;

use orco_core::align::AlignProgress;
use orco_state::history::{ChangeKind, HistoryChange, SavedState};
use orco_state::session::{ChangeReport, NewClass, Session, SessionMemory};
use orco_state::slots;
use orco_state::state::State;

use super::change::{ChangeOutcome, sweep_pictures};
use super::shot_keeper::ShotKeeper;
use super::{ChangeStep, LearnerSettings, Observer, ShotsError};
use crate::bundle::Bundle;
use crate::clock::seconds_if_set;
use crate::encoder::engine_choice::Workload;
use crate::files::if_there;
use crate::store::{BundleRecord, FormerState, LockedStore, Store, StoreError, uncertainty};
use crate::threads::Threads;
use crate::thumbnails::Thumbnails;
pub use check::ClassComparison;
pub use error::UpgradeError;
use plan::{ClassRole, PlannedClass, UpgradePlan};

/// What moving to another bundle did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UpgradeOutcome {
    /// How the new state answers.
    pub report: ChangeReport,
    /// The bundle that the old state belonged to.
    pub from: BundleRecord,
    /// How many learned classes the old state had.
    pub learned_before: usize,
    /// The classes, in the order of learning.
    pub classes: Vec<ClassComparison>,
    /// Learned classes that were given up: no picture of them is left, and the new bundle does not bring them.
    pub dropped: Vec<String>,
    /// What was wrong with kept pictures, in sentences.
    pub warnings: Vec<String>,
}

/// How to move to another bundle: by default only where nothing is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpgradeOptions {
    force: bool,
    give_up_unkept: bool,
}

impl UpgradeOptions {
    /// Upgrades even if a class has no picture left, which is given up then, or is recognised clearly worse.
    #[must_use]
    pub fn force(self, force: bool) -> Self {
        Self { force, ..self }
    }

    /// Upgrades even if a class has no picture left, which is given up then; still not if one is recognised clearly
    /// worse. Use it where classes came in packs, which have no pictures of their shots.
    #[must_use]
    pub fn give_up_unkept(self, give_up_unkept: bool) -> Self {
        Self { give_up_unkept, ..self }
    }

    fn gives_up(self) -> bool {
        self.force || self.give_up_unkept
    }
}

/// Learns all that the device knows again on `bundle`, from the kept pictures of its shots, and keeps that in the place
/// of the old state. That is refused if a class has no picture left, or is recognised clearly worse than when it was
/// learned, unless the [options](UpgradeOptions) accept it. A picture that is missing or damaged is a warning;
/// one that cannot be read is an error.
///
/// A class that the new bundle brings itself gets the shots as further ones, and needs no pictures.
///
/// The bundle's release counts as used once its state is the present one: a bundle that is refused leaves the old one
/// usable.
///
/// Of the settings, `seed`, `wait`, `engine` and `compare_releases` count. The pictures are kept again, and the head is
/// aligned before this returns, whatever `keep_shots` and `alignment` say.
///
/// # Errors
/// [`UpgradeError`]; the old state stays current then.
pub fn upgrade(
    bundle: &Bundle,
    store: &Store,
    settings: &LearnerSettings,
    options: &UpgradeOptions,
    observer: &mut dyn Observer,
) -> Result<ChangeOutcome<UpgradeOutcome>, UpgradeError> {
    let locked = lock(bundle, store, settings)?;
    let old = present_state(&locked, store)?;
    if old.state.bundle_digest == bundle.digest {
        return Err(UpgradeError::Same { name: bundle.manifest.name.clone() });
    }
    let plan = UpgradePlan::of(&old, &store.pictures(&old.state.bundle_digest), bundle, *options, observer)?;
    let dropped = plan.without_pictures();
    if !dropped.is_empty() && !options.gives_up() {
        return Err(UpgradeError::Missing { labels: dropped });
    }
    let mut keeper = ShotKeeper::begin(&locked, bundle)?;
    keeper.check_room(plan.pictures())?;
    let fresh = State { balance: old.state.balance, ..bundle.fresh_state() };
    let shots = read_shots(bundle, settings, &plan, &fresh, &mut keeper, observer)?;
    let (next, report) = relearn(bundle, settings, &fresh, &shots, observer)?;
    let classes = check::compare(&plan, &old.state, &report);
    let worse = check::clearly_worse(&classes);
    if !worse.is_empty() && !options.force {
        return Err(UpgradeError::Worse { classes: worse });
    }
    let labels = classes.iter().map(|class| class.label.clone());
    let change = HistoryChange::new(ChangeKind::Upgrade, settings.seed).labels(labels).at(seconds_if_set());
    keeper.check()?;
    let next = SavedState::initial(next, &change);
    if !next.is_sound(&bundle.base_model) {
        return Err(locked.unsound().into());
    }
    let uncertain = switch_bundle(&locked, &old, &next)?;
    keeper.done();
    use_release(bundle, &locked, settings);
    let UpgradePlan { from, warnings, .. } = plan;
    let learned_before = old.state.classes.len();
    Ok(ChangeOutcome {
        report: UpgradeOutcome { report, from, learned_before, classes, dropped, warnings },
        uncertain,
        unaligned: None,
    })
}

/// Brings back the state of `bundle` that was kept aside when another bundle took its place, to the bit. The present
/// one is kept aside in turn, so that undoing this is the same with its bundle.
///
/// Of the settings, `wait` and `compare_releases` count.
///
/// # Errors
/// [`UpgradeError`] if there is none, or it cannot be used; the present state stays current then.
pub fn undo_upgrade(
    bundle: &Bundle,
    store: &Store,
    settings: &LearnerSettings,
) -> Result<ChangeOutcome<SavedState>, UpgradeError> {
    let locked = lock(bundle, store, settings)?;
    let present = present_state(&locked, store)?;
    if present.state.bundle_digest == bundle.digest {
        return Err(UpgradeError::Same { name: bundle.manifest.name.clone() });
    }
    let none = || {
        let former = store.former_bundle(&present.state.bundle_digest).map(Box::new);
        UpgradeError::NoEarlier { name: bundle.manifest.name.clone(), former }
    };
    let earlier = former_state(bundle, store)?.ok_or_else(none)?;
    let uncertain = switch_bundle(&locked, &present, &earlier)?;
    use_release(bundle, &locked, settings);
    Ok(ChangeOutcome { report: earlier, uncertain, unaligned: None })
}

/// The state of a bundle that was kept aside when the device left it; `None` if there is none, or it is damaged.
///
/// # Errors
/// [`UpgradeError::FormerState`] if it cannot be read.
pub fn former_state(bundle: &Bundle, store: &Store) -> Result<Option<SavedState>, UpgradeError> {
    let pictures = store.pictures(&bundle.digest);
    let unreadable = |source| UpgradeError::FormerState { folder: pictures.folder().into(), source };
    let Some(bytes) = if_there(pictures.former_state()).map_err(unreadable)? else { return Ok(None) };
    let former = slots::read(&bytes).filter(|saved| saved.is_sound(&bundle.base_model));
    Ok(former.filter(|saved| saved.state.bundle_digest == bundle.digest))
}

/// Lets the state go that was kept aside, with its pictures, the small ones too: nothing brings it back. Says whether
/// there was one.
///
/// # Errors
/// [`UpgradeError`] if the state cannot be read or locked, or something of it cannot be removed.
pub fn discard_former_state(store: &Store, settings: &LearnerSettings) -> Result<bool, UpgradeError> {
    let locked = store.lock(settings.wait)?;
    let present = present_state(&locked, store)?;
    let discarded = locked.discard_others(&present.state.bundle_digest)?;
    Thumbnails::of(store).prune(&present)?;
    Ok(discarded)
}

/// The state in the store, whatever bundle it belongs to.
///
/// # Errors
/// [`UpgradeError::Nothing`] if there is none, [`UpgradeError::Store`] if it cannot be read.
fn present_state(locked: &LockedStore, store: &Store) -> Result<SavedState, UpgradeError> {
    locked.load_any()?.ok_or_else(|| UpgradeError::Nothing { folder: store.folder().into() })
}

fn lock(bundle: &Bundle, store: &Store, settings: &LearnerSettings) -> Result<LockedStore, UpgradeError> {
    let locked = store.lock(settings.wait)?;
    settings.check_release(bundle, store)?;
    Ok(locked)
}

/// Has a bundle's release count as used, now that the state is one of it. After a power cut in between, the next change
/// does.
fn use_release(bundle: &Bundle, locked: &LockedStore, settings: &LearnerSettings) {
    if let Err(error) = settings.accept_release(bundle, locked) {
        log::warn!("the state moved to {}, whose release does not count as used yet: {error}", bundle.manifest.name);
    }
}

/// Puts one state into the place of the other, which is kept aside.
fn switch_bundle(locked: &LockedStore, old: &SavedState, new: &SavedState) -> Result<Option<StoreError>, UpgradeError> {
    let uncertain = uncertainty(locked.switch(Some(old), new, FormerState::KeptAside))?;
    // A power cut may still bring the old state back: what was kept aside is then the only copy of the new one.
    if uncertain.is_none() {
        sweep_pictures(locked, new);
    }
    Ok(uncertain)
}

/// Shots with their features, to be learned again.
struct ShotsToRelearn {
    /// Those of learned classes, session by session.
    sessions: Vec<Vec<NewClass>>,
    /// Further shots of base classes.
    further: Vec<NewClass>,
}

/// Computes features of all kept pictures, and keeps the pictures for the new state.
fn read_shots(
    bundle: &Bundle,
    settings: &LearnerSettings,
    plan: &UpgradePlan,
    fresh: &State,
    keeper: &mut ShotKeeper<'_>,
    observer: &mut dyn Observer,
) -> Result<ShotsToRelearn, UpgradeError> {
    let failed = |error| UpgradeError::Shots(ShotsError::Encode(error));
    let mut encoder = bundle.encoder(settings.engine, Workload::Shots).map_err(failed)?.encoder;
    let views = bundle.base_model.config.views;
    let (mut done, total) = (0, plan.pictures());
    let (mut sessions, mut further) = (Vec::<(u32, Vec<NewClass>)>::new(), Vec::new());
    for PlannedClass { label, role, files, .. } in plan.classes.iter().filter(|class| !class.files.is_empty()) {
        let mut shots = Vec::with_capacity(files.len());
        for file in files {
            let (bytes, picture) = plan.open(label, file)?;
            let features = bundle.features(encoder.as_mut(), &picture, views).map_err(failed)?;
            let features = features.into_raw_vec_and_offset().0;
            keeper.keep_file(&fresh.exemplars, &features, &bytes)?;
            shots.push(features);
            done += 1;
            if observer.step(ChangeStep::Shots { done, total }).is_break() {
                return Err(UpgradeError::Cancelled);
            }
        }
        let class = NewClass { label: label.clone(), shots };
        match role {
            ClassRole::Base => further.push(class),
            ClassRole::Learned { session } => match sessions.last_mut() {
                Some((last, classes)) if last == session => classes.push(class),
                _ => sessions.push((*session, vec![class])),
            },
        }
    }
    Ok(ShotsToRelearn { sessions: sessions.into_iter().map(|(_, classes)| classes).collect(), further })
}

/// Learns all classes on `bundle`, session by session, then gives base classes their further shots.
fn relearn(
    bundle: &Bundle,
    settings: &LearnerSettings,
    fresh: &State,
    shots: &ShotsToRelearn,
    observer: &mut dyn Observer,
) -> Result<(State, ChangeReport), UpgradeError> {
    let threads = Threads::usable();
    let mut on_progress = |progress: AlignProgress| observer.step(ChangeStep::Epoch(progress));
    let base_model = &bundle.base_model;
    let mut session = Session {
        base_model,
        config: &base_model.config,
        seed: settings.seed,
        memory: &mut SessionMemory::default(),
        workers: &threads,
        on_progress: &mut on_progress,
    };
    Ok(session.relearn(fresh, &shots.sessions, &shots.further)?)
}

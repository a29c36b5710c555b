//! The changes: learning, adding shots, importing, forgetting, purging, renaming, moving and removing shots, balance.

use std::ops::ControlFlow;

use orco_core::align::AlignProgress;
use orco_core::config::MethodConfig;
use orco_state::history::{ChangeKind, HistoryChange, PurgeError, SavedState};
use orco_state::label;
use orco_state::pack::Pack;
use orco_state::sentence::with_causes;
use orco_state::session::{self, BaseLabels, ChangeReport, LearnError, MistakenShot, NewClass, Session, StoredClass};
use orco_state::state::{Balance, State};

use super::Learner;
use super::error::ChangeError;
use super::observer::{ChangeStep, Observer};
use super::shot_keeper::ShotKeeper;
use super::shots::Shots;
use crate::clock::seconds_if_set;
use crate::store::{LockedStore, StoreError, uncertainty};
use crate::threads::Threads;
use crate::thumbnails::Thumbnails;

/// A change that was made and saved.
///
/// In rare cases, such as on a failing disk, it is saved but may not survive a power cut, or its head was not aligned.
/// A program that has somebody to tell looks at [`uncertain`](Self::uncertain) and [`unaligned`](Self::unaligned); any
/// other takes the report by [`durable`](Self::durable).
#[derive(Debug)]
#[must_use = "the change may not survive a power cut, which `durable` tells, or its head may not be aligned"]
#[non_exhaustive]
pub struct ChangeOutcome<T = ChangeReport> {
    /// What it did.
    pub report: T,
    /// Why it may not be kept as safely as it should: a power cut could lose it, or something of the old is left.
    pub uncertain: Option<StoreError>,
    /// Why the head was not aligned to the change, where that was wanted: answers follow the change already, and
    /// [`Learner::align`] tries again.
    pub unaligned: Option<ChangeError>,
}

/// A change that is computed and not yet saved.
pub(super) struct UnsavedChange<T = ChangeReport> {
    /// The state that it leads to.
    pub next: State,
    /// Its entry in the history.
    pub change: HistoryChange,
    /// What it does.
    pub report: T,
}

/// A stored shot of a class.
pub(super) struct NumberedShot<'a> {
    /// Label of the class.
    pub label: &'a str,
    /// Its number, from 1 as the class's shots are stored.
    pub number: usize,
}

impl<T> ChangeOutcome<T> {
    /// What the change did, if it is certain to survive a power cut. That the head was not aligned is no error, and
    /// goes to `log` alone: read [`unaligned`](Self::unaligned) first if it matters.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`] if it is not. The change was made all the same.
    pub fn durable(self) -> Result<T, StoreError> {
        if let Some(error) = &self.unaligned {
            log::warn!("the change is made, but the head was not aligned to it: {}", with_causes(error));
        }
        self.uncertain.map_or(Ok(self.report), Err)
    }
}

/// A class out of a pack, to be learned.
#[derive(Clone, Copy, Debug)]
pub struct PackClass<'a> {
    /// The pack.
    pub pack: &'a Pack,
    /// Another label than the pack's.
    pub label: Option<&'a str>,
}

impl Learner {
    /// Learns one new class; [`Learner::learn_many`] learns several at once, and can be watched and cancelled.
    ///
    /// # Errors
    /// As for [`Learner::learn_many`].
    pub fn learn(&mut self, label: &str, shots: Shots<'_>) -> Result<ChangeOutcome, ChangeError> {
        self.learn_many(&[(label, shots)], &mut ())
    }

    /// Learns new classes in one session. That is faster than one session for each, and they are learned against each
    /// other from the start.
    ///
    /// # Errors
    /// [`ChangeError`] if a label or shot cannot be used, the classes do not fit, one of the old classes would lose
    /// more than the budget, the observer cancels, or the state cannot be saved. Nothing was changed then.
    pub fn learn_many(
        &mut self,
        classes: &[(&str, Shots<'_>)],
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        self.learn_with(classes, BaseLabels::Refuse, observer)
    }

    /// Learns classes in one session as [`learn_many`](Self::learn_many) does, also under labels of classes that came
    /// with the bundle. Such a class replaces the base class on this device: that one is not answered as long as the
    /// new one is known.
    ///
    /// # Errors
    /// As for [`Learner::learn_many`].
    pub fn replace_base(
        &mut self,
        classes: &[(&str, Shots<'_>)],
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        self.learn_with(classes, BaseLabels::Replace, observer)
    }

    fn learn_with(
        &mut self,
        classes: &[(&str, Shots<'_>)],
        base_labels: BaseLabels,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        let locked = self.lock()?;
        let labels: Vec<&str> = classes.iter().map(|(label, _)| *label).collect();
        session::check_labels(self.base_model(), self.state(), &labels, base_labels)?;
        let mut keeper = self.keeper(&locked)?;
        let new = self.read_shots(classes, None, keeper.as_mut(), observer)?;
        let (next, report) = self.run_session(observer, |session, state| match base_labels {
            BaseLabels::Refuse => session.learn(state, &new),
            BaseLabels::Replace => session.replace_base(state, &new),
        })?;
        let change =
            HistoryChange::new(ChangeKind::Learn, self.settings.seed).labels(labels.into_iter().map(label::normal));
        let mut outcome =
            self.commit_within_budget(&locked, UnsavedChange { next, change, report }, keeper, observer)?;
        // Features of faces, signs or surfaces are alike wherever they were taken.
        let is_elsewhere = |label: &String| self.in_different_places.iter().any(|other| label::same(label, other));
        outcome.report.one_scene.retain(|label| !is_elsewhere(label));
        self.name_mistaken_shots(&mut outcome.report, classes, &new);
        Ok(outcome)
    }

    /// Names the shots of a change that are taken for another class.
    fn name_mistaken_shots(&self, report: &mut ChangeReport, classes: &[(&str, Shots<'_>)], new: &[NewClass]) {
        if report.mistaken_shots.is_empty() {
            return;
        }
        for ((label, shots), class) in classes.iter().zip(new) {
            for (shot, features) in class.shots.iter().enumerate() {
                let digest = self.state().exemplars.digest_of_shot(features);
                let is_shot = |known: &&mut MistakenShot| known.exemplar == digest && label::same(&known.label, label);
                let name = |known: &mut MistakenShot| known.picture = Some(shots.name(shot, label));
                report.mistaken_shots.iter_mut().filter(is_shot).for_each(name);
            }
        }
    }

    /// Gives a known class, base or learned, further shots.
    ///
    /// # Errors
    /// As for [`Learner::learn_many`], and if there is no such class.
    pub fn add(
        &mut self,
        label: &str,
        shots: Shots<'_>,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        let locked = self.lock()?;
        let known = session::known_class(self.base_model(), self.state(), label)?;
        let mut keeper = self.keeper(&locked)?;
        let class = self.read_shots(&[(label, shots)], Some(known), keeper.as_mut(), observer)?;
        let (next, report) = self.run_session(observer, |session, state| session.add_shots(state, &class[0]))?;
        let change = HistoryChange::new(ChangeKind::Add, self.settings.seed).labels([label::normal(label)]);
        self.commit_within_budget(&locked, UnsavedChange { next, change, report }, keeper, observer)
    }

    /// Learns classes out of packs in one session, without the backbone.
    ///
    /// # Errors
    /// As for [`Learner::learn_many`], and if a pack was made with another bundle.
    pub fn import(
        &mut self,
        packs: &[PackClass<'_>],
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        let locked = self.lock()?;
        let class = |imported: &PackClass<'_>| -> Result<StoredClass, ChangeError> {
            let class = imported.pack.to_class(&self.bundle.digest)?;
            Ok(StoredClass { label: label::normal(imported.label.unwrap_or(&class.label)), ..class })
        };
        let new = packs.iter().map(class).collect::<Result<Vec<_>, _>>()?;
        let (next, report) = self.run_session(observer, |session, state| session.learn_stored(state, &new))?;
        let change =
            HistoryChange::new(ChangeKind::Import, self.settings.seed).labels(new.into_iter().map(|class| class.label));
        self.commit_within_budget(&locked, UnsavedChange { next, change, report }, None, observer)
    }

    /// Forgets a learned class; [`Learner::undo`] brings it back.
    ///
    /// # Errors
    /// [`ChangeError`] if there is no such class, it came with the bundle, the observer cancels, or the state cannot
    /// be saved. Nothing was changed then.
    pub fn forget(&mut self, label: &str, observer: &mut dyn Observer) -> Result<ChangeOutcome, ChangeError> {
        let locked = self.lock()?;
        self.forget_locked(&locked, label, observer)
    }

    pub(super) fn forget_locked(
        &mut self,
        locked: &LockedStore,
        label: &str,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        let (next, report) = self.run_session(observer, |session, state| session.forget(state, label))?;
        let change = HistoryChange::new(ChangeKind::Forget, self.settings.seed).labels([label::normal(label)]);
        let (outcome, before) = self.save_next(locked, UnsavedChange { next, change, report })?;
        Ok(self.align_after(locked, &before.state, outcome, observer))
    }

    /// Forgets a class together with its past: its exemplars and every label it ever had disappear from every file of
    /// the store, the pictures of its shots go, and so does what was kept aside of another bundle. A class that was
    /// forgotten before is purged, too; there is no report then.
    ///
    /// # Errors
    /// As for [`Learner::forget`], and if neither the state nor its history knows the label.
    pub fn purge(
        &mut self,
        label: &str,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome<Option<ChangeReport>>, ChangeError> {
        let locked = self.lock()?;
        let label = &label::normal(label);
        let base = self.base_model().classes.len();
        let class = self.state().find_class(self.base_model(), label);
        let (next, report) = if class.is_some_and(|class| class >= base) {
            let (next, report) = self.run_session(observer, |session, state| session.forget(state, label))?;
            (next, Some(report))
        } else {
            (self.saved.state.clone(), None)
        };
        let change = HistoryChange::new(ChangeKind::Purge, self.settings.seed).at(seconds_if_set());
        let saved = match self.saved.purge(self.base_model(), next, label, &change, self.settings.limits) {
            // Only an older copy has it still, after a purge that was cut off, say.
            Err(PurgeError::Unknown { .. }) if self.store.mentions(label)? => self.saved.clone(),
            Err(PurgeError::Unknown { .. } | PurgeError::BaseClass { .. }) if class.is_some() => {
                return Err(LearnError::BaseClass { label: label.clone() }.into());
            }
            purged => purged?,
        };
        let uncertain = uncertainty(locked.purge(&self.bundle, &saved))?;
        let before = self.adopt_saved(&locked, saved).state;
        // What was kept aside of another bundle may have the class, too.
        let swept = locked.sweep(&self.saved).and_then(|()| locked.discard_others(&self.bundle.digest));
        let uncertain = uncertain.or(swept.err()).or(Thumbnails::of(&self.store).prune(&self.saved).err());
        self.memory.clear_cache();
        let Some(report) = report else { return Ok(ChangeOutcome { report: None, uncertain, unaligned: None }) };
        let outcome = ChangeOutcome { report, uncertain, unaligned: None };
        let ChangeOutcome { report, uncertain, unaligned } = self.align_after(&locked, &before, outcome, observer);
        // The state with the class was scored once more, to say what the alignment changed.
        self.memory.clear_cache();
        Ok(ChangeOutcome { report: Some(report), uncertain, unaligned })
    }

    /// Gives a learned class another label; nothing is trained.
    ///
    /// # Errors
    /// [`ChangeError`] if there is no such class, it came with the bundle, the new label cannot be used, or the state
    /// cannot be saved. Nothing was changed then.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<ChangeOutcome<()>, ChangeError> {
        let locked = self.lock()?;
        let [from, to] = [from, to].map(label::normal);
        let next = session::rename(self.base_model(), self.state(), &from, &to)?;
        let change = HistoryChange::new(ChangeKind::Rename, 0).labels([from, to]);
        Ok(self.save_next(&locked, UnsavedChange { next, change, report: () })?.0)
    }

    /// Moves a stored shot of a class, numbered from 1 as the class's are stored, to another known class.
    ///
    /// # Errors
    /// [`ChangeError`] if there is no such class or shot, it is the last one of a learned class, one of the old
    /// classes would lose more than the budget, the observer cancels, or the state cannot be saved. Nothing was
    /// changed then.
    pub fn move_shot(
        &mut self,
        from: &str,
        number: usize,
        to: &str,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        let locked = self.lock()?;
        self.move_locked(&locked, NumberedShot { label: from, number }, to, observer)
    }

    pub(super) fn move_locked(
        &mut self,
        locked: &LockedStore,
        shot: NumberedShot<'_>,
        to: &str,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        let [from, to] = [shot.label, to].map(label::normal);
        let (next, report) =
            self.run_session(observer, |session, state| session.move_shot(state, &from, shot.number, &to))?;
        let change = HistoryChange::new(ChangeKind::Move, self.settings.seed).labels([from, to]);
        self.commit_within_budget(locked, UnsavedChange { next, change, report }, None, observer)
    }

    /// Removes a stored shot of a class, numbered from 1 as the class's are stored; [`Learner::undo`] brings it back.
    ///
    /// # Errors
    /// As for [`Learner::move_shot`].
    pub fn remove_shot(
        &mut self,
        label: &str,
        number: usize,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        let locked = self.lock()?;
        self.remove_locked(&locked, NumberedShot { label, number }, observer)
    }

    pub(super) fn remove_locked(
        &mut self,
        locked: &LockedStore,
        shot: NumberedShot<'_>,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        let label = label::normal(shot.label);
        let (next, report) =
            self.run_session(observer, |session, state| session.remove_shot(state, &label, shot.number))?;
        let change = HistoryChange::new(ChangeKind::RemoveShot, self.settings.seed).labels([label]);
        self.commit_within_budget(locked, UnsavedChange { next, change, report }, None, observer)
    }

    /// Changes the weight of base classes by which the border is chosen, and chooses it anew. Nothing is trained. Where
    /// that leaves the state as it is, nothing is saved: the history keeps what can be undone and redone.
    ///
    /// # Errors
    /// [`ChangeError`] if the bundle's answers have no border, one of the old classes would lose more than the budget,
    /// or the state cannot be saved. Nothing was changed then.
    pub fn set_balance(&mut self, balance: Balance, observer: &mut dyn Observer) -> Result<ChangeOutcome, ChangeError> {
        let locked = self.lock()?;
        let (next, report) = self.run_session(observer, |session, state| session.set_balance(state, balance))?;
        if next == self.saved.state {
            return Ok(ChangeOutcome { report, uncertain: None, unaligned: None });
        }
        self.check_budget(&report)?;
        let change = HistoryChange::new(ChangeKind::Balance, self.settings.seed);
        Ok(self.save_next(&locked, UnsavedChange { next, change, report })?.0)
    }

    /// Locks the store and goes on from its newest state.
    pub(super) fn lock(&mut self) -> Result<LockedStore, ChangeError> {
        self.settings.check()?;
        // Before locking, which would create a missing folder.
        self.check_not_gone(!self.store.revision().is_empty())?;
        let locked = self.store.lock(self.settings.wait)?;
        // Read again after warnings, or after an uncertain save: its files may then differ from what is in memory.
        let known = self.newest.take().filter(|_| self.warnings.is_empty());
        if !known.is_some_and(|known| locked.resume(known)) {
            let snapshot = locked.load(&self.bundle)?;
            self.adopt(snapshot)?;
        } else if !self.provisional.is_empty() {
            self.reset_classifier();
        }
        self.settings.accept_release(&self.bundle, &locked)?;
        sweep_pictures(&locked, &self.saved);
        Ok(locked)
    }

    /// Runs a session that makes a change, from the present state, on all cores.
    pub(super) fn run_session(
        &mut self,
        observer: &mut dyn Observer,
        step: impl FnOnce(&mut Session<'_>, &State) -> Result<(State, ChangeReport), LearnError>,
    ) -> Result<(State, ChangeReport), ChangeError> {
        self.run_session_with(&self.config_of_change(), observer, step)
    }

    /// Runs a session that makes a change, from the present state, on all cores; `config` says how the method runs.
    pub(super) fn run_session_with(
        &mut self,
        config: &MethodConfig,
        observer: &mut dyn Observer,
        step: impl FnOnce(&mut Session<'_>, &State) -> Result<(State, ChangeReport), LearnError>,
    ) -> Result<(State, ChangeReport), ChangeError> {
        let threads: &Threads = self.threads.get_or_insert_with(Threads::usable);
        let mut on_progress =
            |progress: AlignProgress| -> ControlFlow<()> { observer.step(ChangeStep::Epoch(progress)) };
        let mut session = Session {
            base_model: &self.bundle.base_model,
            config,
            seed: self.settings.seed,
            memory: &mut self.memory,
            workers: threads,
            on_progress: &mut on_progress,
        };
        Ok(step(&mut session, &self.saved.state)?)
    }

    /// Refuses what costs old classes more than the forgetting budget ([`ChangeReport::excess`]).
    pub(super) fn check_budget(&self, report: &ChangeReport) -> Result<(), ChangeError> {
        let Some(budget) = self.settings.forgetting_budget else { return Ok(()) };
        let excess = report.excess(budget);
        if excess.is_empty() { Ok(()) } else { Err(ChangeError::Forgetting { budget, excess }) }
    }

    /// Saves a change, unless it costs old classes more than the forgetting budget, and aligns the head to it.
    /// Pictures that are kept for the change must still be there.
    fn commit_within_budget(
        &mut self,
        locked: &LockedStore,
        unsaved: UnsavedChange,
        keeper: Option<ShotKeeper<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        keeper.as_ref().map_or(Ok(()), ShotKeeper::check)?;
        self.check_budget(&unsaved.report)?;
        let (outcome, before) = self.save_next(locked, unsaved)?;
        keeper.into_iter().for_each(ShotKeeper::done);
        Ok(self.align_after(locked, &before.state, outcome, observer))
    }

    /// Saves a change with its entry in the history; also returns what was saved before.
    pub(super) fn save_next<T>(
        &mut self,
        locked: &LockedStore,
        unsaved: UnsavedChange<T>,
    ) -> Result<(ChangeOutcome<T>, SavedState), ChangeError> {
        let UnsavedChange { next, change, report } = unsaved;
        let saved = self.saved.successor(next, &change.at(seconds_if_set()), self.settings.limits);
        let uncertain = uncertainty(locked.save(&self.bundle, &saved))?;
        let before = self.adopt_saved(locked, saved);
        // A power cut may still bring the state before back, with its pictures.
        if uncertain.is_none() {
            sweep_pictures(locked, &self.saved);
            if let Err(error) = Thumbnails::of(&self.store).sweep(&self.saved) {
                log::warn!("thumbnails that belong to nothing are left: {}", with_causes(&error));
            }
        }
        Ok((ChangeOutcome { report, uncertain, unaligned: None }, before))
    }

    /// Goes on from what was just saved in `locked`; returns what was known before.
    pub(super) fn adopt_saved(&mut self, locked: &LockedStore, mut saved: SavedState) -> SavedState {
        self.generation = locked.generation();
        self.newest = Some(locked.newest());
        self.reset_classifier();
        saved.keep_digests();
        core::mem::replace(&mut self.saved, saved)
    }
}

/// Removes kept pictures that belong to nothing of what is saved any more.
pub(super) fn sweep_pictures(locked: &LockedStore, saved: &SavedState) {
    if let Err(error) = locked.sweep(saved) {
        log::warn!("kept pictures that belong to nothing are left: {}", with_causes(&error));
    }
}

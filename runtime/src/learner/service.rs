//! Methods for services: several learners on one folder, changes that arrive late, and advice while shots are taken.

use ndarray::ArrayView3;
use orco_state::answer::{self, BalanceEstimate};
use orco_state::history::EntryId;
use orco_state::label;
use orco_state::session::{self, BaseLabels, ExpectedByScope, LearnError};
use orco_state::sufficiency::{LearningCurve, ShotSufficiency};

use super::change::NumberedShot;
use super::{ChangeError, ChangeOutcome, Learner, Observer, UndoOutcome};
use crate::threads::Threads;

/// What answers would recognise with every balance, and what is expected of the present one.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BalanceOutlook {
    /// One for every balance; none before anything is learned, or where answers have no border.
    pub choices: Vec<BalanceEstimate>,
    /// What is to be expected on new pictures with the present one.
    pub expected: ExpectedByScope,
}

/// # For services
///
/// A service answers with one learner while another one on the same folder learns, and its users see what may have
/// changed by the time they ask for more. What they mean is named by digests and [`EntryId`]s, not by numbers.
impl Learner {
    /// Knows a class at once, without training, until the state is read or changed next: answers while another learner
    /// on the same folder learns it ([`Classifier::imprint`](orco_state::classify::Classifier::imprint)).
    ///
    /// # Shapes
    /// `shots` `[shots, views, features]`, as [`Learner::shot_features`] gives them.
    /// # Errors
    /// [`LearnError`] if the label or the shots cannot be used.
    /// # Panics
    /// If rows have another length than the bundle's features.
    pub fn imprint(&mut self, label: &str, shots: ArrayView3<'_, f32>) -> Result<(), LearnError> {
        let (base_model, state) = (&self.bundle.base_model, &self.saved.state);
        session::check_labels(base_model, state, &[label], BaseLabels::Refuse)?;
        session::check_shot_count(state, label, None, shots.dim().0)?;
        if self.provisional.iter().any(|known| label::same(known, label)) {
            return Err(LearnError::LabelExists { label: label.into() });
        }
        assert_eq!(shots.dim().2, base_model.head.inputs, "shots have other features than the bundle");
        let shots = rows_of(shots);
        self.classifier().classifier.imprint(&shots);
        self.provisional.push(label::normal(label));
        Ok(())
    }

    /// What answers would recognise with every balance, and what is expected of the present one. Borders are chosen
    /// anew in each call, which takes about as long as choosing those of a change.
    pub fn balance_outlook(&mut self) -> BalanceOutlook {
        let (base_model, state) = (&self.bundle.base_model, &self.saved.state);
        let threads: &Threads = self.threads.get_or_insert_with(Threads::usable);
        let estimates = answer::balance_estimates(base_model, state, &base_model.config, self.memory.cache(), threads);
        let expected = ExpectedByScope::of(base_model, state, estimates.left_out);
        BalanceOutlook { choices: estimates.choices, expected }
    }

    /// How often the state was saved when it was read last; 0 if nothing was saved yet.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Tells that another learner on the same folder has found a state there: from now on, a missing one is an error.
    pub fn expect_state(&mut self) {
        self.generation = self.generation.max(1);
    }

    /// Whether the shots of a class, which need not be known, are enough: each is left out in turn, and what more
    /// would bring is told from the bundle's curve ([`LearningCurve::of`]), if it is given. Rivals are the classes that
    /// answers name ([`Learner::is_learned_only`]).
    ///
    /// # Shapes
    /// `shots` `[shots, views, features]`, as [`Learner::shot_features`] gives them.
    /// # Panics
    /// If rows have another length than the bundle's features.
    pub fn sufficiency(
        &mut self,
        label: &str,
        shots: ArrayView3<'_, f32>,
        curve: Option<&LearningCurve>,
    ) -> ShotSufficiency {
        assert!(
            shots.is_empty() || shots.dim().2 == self.base_model().head.inputs,
            "shots have other features than the bundle"
        );
        self.classifier();
        let answered = self.answered_classes();
        let (base_model, state) = (&self.bundle.base_model, &self.saved.state);
        let provisional = self.provisional.iter().map(String::as_str);
        let labels = state.known_classes(base_model).map(|class| class.label.as_str()).chain(provisional);
        let labels: Vec<&str> = labels.collect();
        // A learned class that replaces a base class comes after it.
        let known = labels.iter().rposition(|known| label::same(known, label));
        let shots = rows_of(shots);
        let classifier = self.classifier.as_ref().expect("made ready above");
        ShotSufficiency::of(base_model, &classifier.classifier, curve, known, &shots, answered)
    }

    /// Moves a stored shot of a class to another known class, by the SHA-256 of its exemplar
    /// ([`digest_of`](orco_state::bank::Bank::digest_of)): for who saw it, while its number may have become another
    /// shot's.
    ///
    /// # Errors
    /// As for [`Learner::move_shot`], and [`ChangeError::OtherShot`] if the class has no such shot any more.
    pub fn move_shot_by_digest(
        &mut self,
        from: &str,
        exemplar: &[u8; 32],
        to: &str,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        let locked = self.lock()?;
        let number = self.number_of(from, exemplar)?;
        self.move_locked(&locked, NumberedShot { label: from, number }, to, observer)
    }

    /// Removes a stored shot of a class, by the SHA-256 of its exemplar, as [`Learner::move_shot_by_digest`] names it.
    ///
    /// # Errors
    /// As for [`Learner::remove_shot`], and [`ChangeError::OtherShot`] if the class has no such shot any more.
    pub fn remove_shot_by_digest(
        &mut self,
        label: &str,
        exemplar: &[u8; 32],
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome, ChangeError> {
        let locked = self.lock()?;
        let number = self.number_of(label, exemplar)?;
        self.remove_locked(&locked, NumberedShot { label, number }, observer)
    }

    /// Number of the shot of a class that has this digest.
    fn number_of(&self, label: &str, exemplar: &[u8; 32]) -> Result<usize, ChangeError> {
        let label = label::normal(label);
        let class = session::known_class(self.base_model(), self.state(), &label)?;
        let bank = &self.state().exemplars;
        let place = bank.members(class as u32).position(|shot| bank.digest_of(shot) == *exemplar);
        place.map(|place| place + 1).ok_or(ChangeError::OtherShot { label })
    }

    /// Forgets a learned class if it is still the one that is meant: somebody may have given it further shots since it
    /// was read. `is_meant` sees the newest state under the store's lock. Where it says no, nothing is changed and
    /// there is no outcome.
    ///
    /// # Errors
    /// As for [`Learner::forget`].
    pub fn forget_if(
        &mut self,
        label: &str,
        is_meant: impl FnOnce(&Self) -> bool,
        observer: &mut dyn Observer,
    ) -> Result<Option<ChangeOutcome>, ChangeError> {
        let locked = self.lock()?;
        if is_meant(self) { self.forget_locked(&locked, label, observer).map(Some) } else { Ok(None) }
    }

    /// Undoes the last change if the last entry of the history is that one: of two who both saw it, the second takes
    /// back nothing.
    ///
    /// # Errors
    /// As for [`Learner::undo`], [`ChangeError::NotLast`] if the last change is another one, and
    /// [`ChangeError::OtherEntry`] if it has the entry's number alone.
    pub fn undo_if_last(
        &mut self,
        entry: EntryId,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome<UndoOutcome>, ChangeError> {
        let locked = self.lock()?;
        self.check_last(entry)?;
        self.restore_entry(&locked, self.entry_back(1)?, observer)
    }

    /// Redoes the change that was undone last, if the last entry of the history is that one.
    ///
    /// # Errors
    /// As for [`Learner::redo`] and [`Learner::undo_if_last`].
    pub fn redo_if_last(
        &mut self,
        entry: EntryId,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome<UndoOutcome>, ChangeError> {
        let locked = self.lock()?;
        self.check_last(entry)?;
        self.restore_entry(&locked, self.entry_forth(1)?, observer)
    }

    fn check_last(&self, entry: EntryId) -> Result<(), ChangeError> {
        let number = entry.number;
        match self.history().entries().last() {
            Some(last) if last.number != number => Err(ChangeError::NotLast { number, last: last.number }),
            Some(last) if last.id() != entry => Err(ChangeError::OtherEntry { number }),
            _ => Ok(()),
        }
    }

    /// Goes back to the class set after an entry of the history that somebody saw.
    ///
    /// # Errors
    /// As for [`Learner::undo_to`], and [`ChangeError::OtherEntry`] if another entry has its number now.
    pub fn undo_to_entry(
        &mut self,
        entry: EntryId,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome<UndoOutcome>, ChangeError> {
        let locked = self.lock()?;
        let number = entry.number;
        match self.history().entry(number) {
            Some(known) if known.id() != entry => Err(ChangeError::OtherEntry { number }),
            _ => self.restore_entry(&locked, number, observer),
        }
    }
}

/// The features of each shot's views, row after row.
fn rows_of(shots: ArrayView3<'_, f32>) -> Vec<Vec<f32>> {
    shots.outer_iter().map(|shot| shot.iter().copied().collect()).collect()
}

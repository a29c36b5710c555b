//! Going back to earlier class sets, and forth again.

use orco_state::history::{ChangeKind, HeadFingerprint, HistoryChange};
use orco_state::session::ChangeReport;

use super::Learner;
use super::change::{ChangeOutcome, UnsavedChange};
use super::error::ChangeError;
use super::observer::Observer;
use crate::store::LockedStore;

/// What going back did, or forth.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UndoOutcome {
    /// What changed.
    pub report: ChangeReport,
    /// The entry of the history that came back.
    pub entry: u32,
    /// Whether the state is that of then to the bit, which it is not before its head is [aligned](Learner::align);
    /// `None` where that is not known, since something of it was purged.
    pub exact: Option<bool>,
}

impl Learner {
    /// Undoes the last changes. Undoing again goes further back; [`Learner::redo`] redoes what was undone, until
    /// another change is made.
    ///
    /// # Errors
    /// [`ChangeError`] if fewer are remembered, the observer cancels, or the state cannot be saved. Nothing was
    /// changed then.
    pub fn undo(
        &mut self,
        changes: usize,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome<UndoOutcome>, ChangeError> {
        let locked = self.lock()?;
        self.restore_entry(&locked, self.entry_back(changes)?, observer)
    }

    /// Number of the entry that undoing `changes` changes goes back to.
    pub(super) fn entry_back(&self, changes: usize) -> Result<u32, ChangeError> {
        let timeline = self.history().timeline();
        let remembered = timeline.earlier().len();
        timeline.back(changes).ok_or(ChangeError::NotEnoughToUndo { asked: changes, remembered })
    }

    /// Redoes the last changes that were undone, exactly.
    ///
    /// # Errors
    /// As for [`Learner::undo`], if fewer were undone.
    pub fn redo(
        &mut self,
        changes: usize,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome<UndoOutcome>, ChangeError> {
        let locked = self.lock()?;
        self.restore_entry(&locked, self.entry_forth(changes)?, observer)
    }

    /// Number of the entry that redoing `changes` changes goes to.
    pub(super) fn entry_forth(&self, changes: usize) -> Result<u32, ChangeError> {
        let timeline = self.history().timeline();
        let undone = timeline.later().len();
        timeline.forth(changes).ok_or(ChangeError::NotEnoughToRedo { asked: changes, undone })
    }

    /// Goes back to the class set after an entry of the history.
    ///
    /// # Errors
    /// As for [`Learner::undo`], and if there is no such entry.
    pub fn undo_to(
        &mut self,
        entry: u32,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome<UndoOutcome>, ChangeError> {
        let locked = self.lock()?;
        self.restore_entry(&locked, entry, observer)
    }

    pub(super) fn restore_entry(
        &mut self,
        locked: &LockedStore,
        number: u32,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome<UndoOutcome>, ChangeError> {
        let last = self.history().entries().last().map(|last| last.number);
        if self.history().timeline().present() == number || last == Some(number) {
            return Err(ChangeError::Present { number });
        }
        let earlier = self.saved.earlier_state(number).ok_or(ChangeError::NoEntry { number })?;
        let (next, report) = self.run_session(observer, |session, state| session.restore(state, &earlier))?;
        let change = HistoryChange::new(ChangeKind::Undo, earlier.seed).restored_entry(number);
        let (outcome, before) = self.save_next(locked, UnsavedChange { next, change, report })?;
        // A class set that was left without an aligned head comes back without one.
        let ChangeOutcome { report, uncertain, unaligned } = match earlier.head {
            HeadFingerprint::Bundle => outcome,
            _ => self.align_after(locked, &before.state, outcome, observer),
        };
        let exact = earlier.is_exact(self.saved.state.head.as_ref());
        Ok(ChangeOutcome { report: UndoOutcome { report, entry: number, exact }, uncertain, unaligned })
    }
}

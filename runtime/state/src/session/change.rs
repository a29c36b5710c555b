//! Changes of what was learned: more shots, forgetting, renaming, the balance, going back. Single shots are moved and
//! removed in `move_shot.rs`; classes out of packs are learned in `stored.rs`.

use alloc::vec::Vec;

use super::check::{check_free_label, check_shots, known_class};
use super::{ChangeReport, LearnError, NewClass, Session, in_fixed_order};
use crate::history::{EarlierState, HeadFingerprint};
use crate::label;
use crate::state::{Balance, BaseModel, State};
use orco_core::align::Sampling;

impl Session<'_> {
    /// Gives a known class, base or learned, more shots and aligns the head anew; its target stays.
    ///
    /// # Errors
    /// [`LearnError`] if the class is unknown, the shots are unusable, or the callback stopped it.
    pub fn add_shots(&mut self, state: &State, class: &NewClass) -> Result<(State, ChangeReport), LearnError> {
        let mut next = state.clone();
        self.push_shots(&mut next, class)?;
        self.learn_admitted(state, next)
    }

    /// Stores more shots of a known class; nothing is aligned.
    ///
    /// # Errors
    /// [`LearnError`] if the class is unknown, or the shots are unusable.
    pub(super) fn push_shots(&self, state: &mut State, class: &NewClass) -> Result<(), LearnError> {
        let index = known_class(self.base_model, state, &class.label)?;
        check_shots(self.base_model, state, class, Some(index))?;
        in_fixed_order(class).shots.iter().for_each(|shot| state.exemplars.push(index as u32, shot));
        Ok(())
    }

    /// Forgets a learned class: its target is free again, its exemplars are gone, the head is aligned anew to the rest.
    ///
    /// # Errors
    /// [`LearnError`] if the class is unknown or a base class, or the callback stopped it.
    pub fn forget(&mut self, state: &State, label: &str) -> Result<(State, ChangeReport), LearnError> {
        let index = learned_class(self.base_model, state, label)?;
        let mut next = state.clone();
        next.classes.remove(index);
        next.first_recognitions.remove(index);
        next.exemplars.remove_class((self.base_model.classes.len() + index) as u32);
        self.align(state, next, Sampling::seeded(self.seed))
    }

    /// Changes the weight of base classes by which the border is chosen, and chooses it anew. Nothing is trained.
    ///
    /// # Errors
    /// [`LearnError::NoBorder`] if answers have none, which the bundle's settings say.
    pub fn set_balance(&mut self, state: &State, balance: Balance) -> Result<(State, ChangeReport), LearnError> {
        if self.base_model.scoring(self.config).is_none() {
            return Err(LearnError::NoBorder);
        }
        Ok(self.choose_border_and_report(state, State { balance, ..state.clone() }, Vec::new()))
    }

    /// Restores an earlier class set with the seed that its head was aligned with, or the head that it brings, so that
    /// undoing is exact whatever seed this session has. A class set whose head was not aligned gets none.
    ///
    /// # Errors
    /// [`LearnError`] if the callback stopped it.
    pub fn restore(&mut self, state: &State, earlier: &EarlierState) -> Result<(State, ChangeReport), LearnError> {
        let next = earlier.state.clone();
        if next.head.is_some() || earlier.head == HeadFingerprint::Bundle {
            return Ok(self.choose_border_and_report(state, next, Vec::new()));
        }
        self.align(state, next, Sampling::seeded(earlier.seed))
    }
}

/// Gives a learned class another label; nothing is trained.
///
/// # Errors
/// [`LearnError`] if the class is unknown or a base class, or the new label is unusable or taken.
pub fn rename(base_model: &BaseModel, state: &State, from: &str, to: &str) -> Result<State, LearnError> {
    let index = learned_class(base_model, state, from)?;
    check_free_label(base_model, state, to)?;
    let mut next = state.clone();
    next.classes[index].label = label::normal(to);
    Ok(next)
}

/// Index of a class among the learned ones.
fn learned_class(base_model: &BaseModel, state: &State, label: &str) -> Result<usize, LearnError> {
    let index = known_class(base_model, state, label)?;
    base_model.learned_index(index).ok_or_else(|| LearnError::BaseClass { label: label.into() })
}

//! Moving a shot to the class that it belongs to, and removing one that belongs to none.

use alloc::vec::Vec;

use super::check::{check_shot_count, known_class};
use super::{ChangeReport, LearnError, Session};
use crate::state::State;
use orco_core::align::Sampling;

impl Session<'_> {
    /// Moves a stored shot from the class `from` to the class `to` and aligns the head anew; both classes' targets
    /// stay. `number` counts the shots of the class that the device stores, from 1.
    ///
    /// # Errors
    /// [`LearnError`] if a class is unknown, there is no such shot, it is all that a learned class has, the other
    /// class has too many, or the callback stopped it.
    pub fn move_shot(
        &mut self,
        state: &State,
        from: &str,
        number: usize,
        to: &str,
    ) -> Result<(State, ChangeReport), LearnError> {
        let [source, target] = [from, to].map(|label| known_class(self.base_model, state, label));
        let (source, target) = (source?, target?);
        let moved = self.stored_shot(state, from, source, number)?;
        if source == target {
            return Err(LearnError::SameClass { label: to.into() });
        }
        self.check_not_last(state, from, source)?;
        check_shot_count(state, to, Some(target), 1)?;
        let mut next = self.without_shot(state, source, moved);
        next.exemplars.push_from(&state.exemplars, moved, target as u32);
        self.align(state, next, Sampling::seeded(self.seed))
    }

    /// Removes a stored shot of the class `label`, numbered as for [`Session::move_shot`], and aligns the head anew.
    ///
    /// # Errors
    /// [`LearnError`] if the class is unknown, there is no such shot, it is all that a learned class has, or the
    /// callback stopped it.
    pub fn remove_shot(
        &mut self,
        state: &State,
        label: &str,
        number: usize,
    ) -> Result<(State, ChangeReport), LearnError> {
        let class = known_class(self.base_model, state, label)?;
        let removed = self.stored_shot(state, label, class, number)?;
        self.check_not_last(state, label, class)?;
        let next = self.without_shot(state, class, removed);
        self.align(state, next, Sampling::seeded(self.seed))
    }

    /// Index of a class's stored shot among all exemplars.
    fn stored_shot(&self, state: &State, label: &str, class: usize, number: usize) -> Result<usize, LearnError> {
        let shot = number.checked_sub(1).and_then(|before| state.exemplars.members(class as u32).nth(before));
        let shots = || state.exemplars.members(class as u32).count();
        shot.ok_or_else(|| LearnError::NoShot { label: label.into(), number, shots: shots() })
    }

    fn check_not_last(&self, state: &State, label: &str, class: usize) -> Result<(), LearnError> {
        let is_learned = class >= self.base_model.classes.len();
        if is_learned && state.exemplars.members(class as u32).count() == 1 {
            return Err(LearnError::LastShot { label: label.into() });
        }
        Ok(())
    }

    fn without_shot(&self, state: &State, class: usize, shot: usize) -> State {
        let mut next = state.clone();
        let others: Vec<usize> = (0..state.exemplars.len()).filter(|&exemplar| exemplar != shot).collect();
        next.exemplars = state.exemplars.only(&others);
        // First recognitions must be those of the shots that the class has now.
        if let Some(learned) = self.base_model.learned_index(class) {
            next.first_recognitions.clear(learned);
        }
        next
    }
}

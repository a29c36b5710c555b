//! Moving a shot to the class that it belongs to.

use alloc::vec::Vec;

use super::check::{check_count, check_known};
use super::{LearnError, Session, SessionReport};
use crate::state::{FirstRecognition, State};

impl Session<'_> {
    /// Moves a stored shot from the class `from` to the class `to` and aligns the head anew; both classes' targets stay. `number`
    /// counts the shots of the class that the device stores, from 1.
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
    ) -> Result<(State, SessionReport), LearnError> {
        let [source, target] = [from, to].map(|label| check_known(self.base_model, state, label));
        let (source, target) = (source?, target?);
        let bank = &state.exemplars;
        let own = |class: usize| (0..bank.len()).filter(move |&exemplar| bank.classes()[exemplar] as usize == class);
        let moved = number.checked_sub(1).and_then(|before| own(source).nth(before));
        let moved =
            moved.ok_or_else(|| LearnError::NoShot { label: from.into(), number, shots: own(source).count() })?;
        if source == target {
            return Err(LearnError::SameClass { label: to.into() });
        }
        let base = self.base_model.classes.len();
        if source >= base && own(source).count() == 1 {
            return Err(LearnError::LastShot { label: from.into() });
        }
        check_count(self.base_model, state, to, 1)?;
        let mut next = state.clone();
        let others: Vec<usize> = (0..bank.len()).filter(|&exemplar| exemplar != moved).collect();
        next.exemplars = bank.only(&others);
        next.exemplars.push_from(bank, moved, target as u32);
        // How the class's first shots were recognised is told of those that it has now.
        if let Some(origin) = source.checked_sub(base).and_then(|index| next.first_recognitions.get_mut(index)) {
            *origin = FirstRecognition::UNKNOWN;
        }
        self.realign(state, next)
    }
}

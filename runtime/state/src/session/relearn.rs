//! Learning everything again, on another bundle.

use alloc::vec::Vec;

use super::check::{BaseLabels, check_classes};
use super::{ChangeReport, LearnError, NewClass, Session};
use crate::state::State;

impl Session<'_> {
    /// Learns classes session by session, and gives base classes their `further` shots, but aligns the head once, at
    /// the end: gives the very state that learning them one after the other and then adding the shots gives, where no
    /// exemplar is dropped for want of room. Those of `sessions` may have the labels of base classes, which they
    /// replace.
    ///
    /// # Errors
    /// [`LearnError`] as for [`Session::learn`] and [`Session::add_shots`].
    pub fn relearn(
        &mut self,
        state: &State,
        sessions: &[Vec<NewClass>],
        further: &[NewClass],
    ) -> Result<(State, ChangeReport), LearnError> {
        let all: Vec<NewClass> = sessions.iter().flatten().cloned().collect();
        if !all.is_empty() {
            check_classes(self.base_model, state, &all, BaseLabels::Replace)?;
        }
        let mut next = state.clone();
        for session in sessions.iter().filter(|session| !session.is_empty()) {
            next = self.admit_with(&next, session, BaseLabels::Replace)?;
        }
        further.iter().try_for_each(|class| self.push_shots(&mut next, class))?;
        self.learn_admitted(state, next)
    }
}

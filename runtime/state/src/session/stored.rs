//! Learning classes whose shots are stored exemplars already, as another device keeps them.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::check::{BaseLabels, MAX_FEATURE, check_labels, check_shot_count};
use super::{ChangeReport, LearnError, Session};
use crate::bank::Bank;
use crate::state::State;

/// A class to learn, with its exemplars as a state stores them.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredClass {
    /// Name for people.
    pub label: String,
    /// The exemplars, all of class 0.
    pub exemplars: Bank,
}

impl Session<'_> {
    /// Learns classes from stored exemplars in one session. Exemplars that another state on the same base model stored
    /// for some shots give the very bytes of state that [`Session::learn`] gives for these shots.
    ///
    /// # Errors
    /// [`LearnError`] as for [`Session::learn`], and if exemplars are stored in another layout than the state's.
    pub fn learn_stored(&mut self, state: &State, new: &[StoredClass]) -> Result<(State, ChangeReport), LearnError> {
        let labels: Vec<&str> = new.iter().map(|class| class.label.as_str()).collect();
        check_labels(self.base_model, state, &labels, BaseLabels::Refuse)?;
        new.iter().try_for_each(|class| check_exemplars(state, class))?;
        let next = self.admit_checked(state, new)?;
        self.learn_admitted(state, next)
    }
}

/// Whether a class has exemplars, all usable.
fn check_exemplars(state: &State, class: &StoredClass) -> Result<(), LearnError> {
    let StoredClass { label, exemplars } = class;
    check_shot_count(state, label, None, exemplars.len())?;
    if !exemplars.has_layout_of(&state.exemplars) || !exemplars.is_sound() {
        return Err(LearnError::OtherLayout { label: label.clone() });
    }
    let mut features = vec![0.0; exemplars.inputs()];
    let mut usable = |shot: usize| {
        (0..exemplars.views()).all(|view| {
            exemplars.as_exemplars().read(shot, view, &mut features);
            features.iter().all(|value| value.abs() <= MAX_FEATURE)
        })
    };
    match (0..exemplars.len()).find(|&shot| !usable(shot)) {
        Some(shot) => Err(LearnError::BadFeatures { label: label.clone(), shot }),
        None => Ok(()),
    }
}

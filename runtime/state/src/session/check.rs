//! What is checked before a change begins: labels, targets, counts of shots, features.

use alloc::vec::Vec;

use super::{LearnError, NewClass};
use crate::label;
use crate::state::{BaseModel, MAX_SHOTS, State};

/// Index of the class that has this label, base or learned.
///
/// # Errors
/// [`LearnError::UnknownLabel`] if there is none.
pub fn known_class(base_model: &BaseModel, state: &State, label: &str) -> Result<usize, LearnError> {
    state.find_class(base_model, label).ok_or_else(|| LearnError::UnknownLabel { label: label.into() })
}

/// What is done about a new class that has the label of a base class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BaseLabels {
    /// It is refused.
    #[default]
    Refuse,
    /// It replaces the base class, which is answered no more as long as the device has the new one.
    Replace,
}

/// Refuses labels of which no classes could be learned: the checks that need no features.
///
/// # Errors
/// [`LearnError`] if there are none, a label is unusable or taken, or there are too few free targets. Labels are
/// compared in their [normal form](label::normal).
pub fn check_labels(
    base_model: &BaseModel,
    state: &State,
    labels: &[&str],
    base_labels: BaseLabels,
) -> Result<(), LearnError> {
    if labels.is_empty() {
        return Err(LearnError::NoClasses);
    }
    let check = |label: &&str| match check_free_label(base_model, state, label) {
        Err(LearnError::BaseLabelExists { .. }) if base_labels == BaseLabels::Replace => Ok(()),
        checked => checked,
    };
    labels.iter().try_for_each(check)?;
    if let Some(index) = label::first_repeated(labels) {
        return Err(LearnError::LabelTwice { label: labels[index].into() });
    }
    let free = state.free_targets(base_model).len();
    if labels.len() > free {
        return Err(LearnError::NoFreeTargets { wanted: labels.len(), free });
    }
    Ok(())
}

/// Refuses a label that is unusable in its normal form, or that a class has already.
pub(super) fn check_free_label(base_model: &BaseModel, state: &State, label: &str) -> Result<(), LearnError> {
    let trimmed = label.trim() == label;
    if !trimmed || !label::is_usable(&label::normal(label)) {
        return Err(LearnError::BadLabel { label: label.into() });
    }
    match state.find_class(base_model, label) {
        Some(class) if class < base_model.classes.len() => Err(LearnError::BaseLabelExists { label: label.into() }),
        Some(_) => Err(LearnError::LabelExists { label: label.into() }),
        None => Ok(()),
    }
}

/// Refuses new classes that cannot be learned.
pub(super) fn check_classes(
    base_model: &BaseModel,
    state: &State,
    new: &[NewClass],
    base_labels: BaseLabels,
) -> Result<(), LearnError> {
    let labels: Vec<&str> = new.iter().map(|class| class.label.as_str()).collect();
    check_labels(base_model, state, &labels, base_labels)?;
    new.iter().try_for_each(|class| check_shots(base_model, state, class, None))
}

/// Largest magnitude of a feature. Backbones stay far below it, and sums of squares of as many features as a head may
/// have stay within the range of f32.
pub(super) const MAX_FEATURE: f32 = 1e15;

/// Refuses a count of shots that a class cannot get: the check that needs no features. A known class, of index `known`,
/// has some already.
///
/// # Errors
/// [`LearnError`] if there are none, or the class would have more than [`MAX_SHOTS`].
pub fn check_shot_count(state: &State, label: &str, known: Option<usize>, shots: usize) -> Result<(), LearnError> {
    if shots == 0 {
        return Err(LearnError::NoShots { label: label.into() });
    }
    let shots = shots + known.map_or(0, |class| state.exemplars.members(class as u32).count());
    if shots > MAX_SHOTS { Err(LearnError::TooManyShots { label: label.into(), shots }) } else { Ok(()) }
}

/// Refuses a class without shots, with too many beside those that a known one, of index `known`, has already, or with
/// unusable features.
pub(super) fn check_shots(
    base_model: &BaseModel,
    state: &State,
    class: &NewClass,
    known: Option<usize>,
) -> Result<(), LearnError> {
    check_shot_count(state, &class.label, known, class.shots.len())?;
    let usable = |shot: &Vec<f32>| {
        !shot.is_empty()
            && shot.len().is_multiple_of(base_model.head.inputs)
            && shot.iter().all(|value| value.abs() <= MAX_FEATURE)
    };
    match class.shots.iter().position(|shot| !usable(shot)) {
        Some(shot) => Err(LearnError::BadFeatures { label: class.label.clone(), shot }),
        None => Ok(()),
    }
}

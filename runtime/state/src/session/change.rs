//! Changes of what was learned: more shots, forgetting, renaming, going back.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::{
    LearnError, NewClass, Report, check_free_label, check_shots, in_fixed_order, keep_within_budget, realign, report,
};
use crate::label;
use crate::state::{Foundation, State};
use orco_core::align::{Progress, Workspace};
use orco_core::config::Config;

/// Asks whether there is a class of this label, base or learned; returns its index.
///
/// # Errors
/// [`LearnError::UnknownLabel`] if there is none.
pub fn check_known(foundation: &Foundation, state: &State, label: &str) -> Result<usize, LearnError> {
    let index = state.known(foundation).position(|known| label::same(&known.label, label));
    index.ok_or_else(|| LearnError::UnknownLabel { label: label.into() })
}

/// Gives a known class, base or learned, more shots and aligns the head anew; its target stays.
///
/// # Errors
/// [`LearnError`] if the class is unknown, the shots are unusable, or the callback stopped it.
pub fn add_shots(
    foundation: &Foundation,
    state: &State,
    class: &NewClass,
    config: &Config,
    seed: u64,
    workspace: &mut Workspace<'_>,
    on_progress: &mut (dyn FnMut(Progress) -> ControlFlow<()> + Send),
) -> Result<(State, Report), LearnError> {
    let index = check_known(foundation, state, &class.label)?;
    check_shots(foundation, state, class)?;
    let mut next = state.clone();
    in_fixed_order(class).shots.iter().for_each(|shot| next.exemplars.push(index as u32, shot));
    keep_within_budget(&mut next, config, seed);
    realign(foundation, state, next, config, seed, workspace, on_progress)
}

/// Forgets a learned class: its target is free again, its exemplars are gone, the head is aligned anew to the rest.
///
/// # Errors
/// [`LearnError`] if the class is unknown or a base class, or the callback stopped it.
pub fn forget(
    foundation: &Foundation,
    state: &State,
    label: &str,
    config: &Config,
    seed: u64,
    workspace: &mut Workspace<'_>,
    on_progress: &mut (dyn FnMut(Progress) -> ControlFlow<()> + Send),
) -> Result<(State, Report), LearnError> {
    let place = learned(foundation, state, label)?;
    let mut next = state.clone();
    next.classes.remove(place);
    if place < next.origins.len() {
        next.origins.remove(place);
    }
    next.exemplars.remove_class((foundation.classes.len() + place) as u32);
    realign(foundation, state, next, config, seed, workspace, on_progress)
}

/// Gives a learned class another label; nothing is trained.
///
/// # Errors
/// [`LearnError`] if the class is unknown or a base class, or the new label is unusable or taken.
pub fn rename(foundation: &Foundation, state: &State, from: &str, to: &str) -> Result<State, LearnError> {
    let place = learned(foundation, state, from)?;
    check_free_label(foundation, state, to)?;
    let mut next = state.clone();
    next.classes[place].label = label::normal(to);
    Ok(next)
}

/// Restores an earlier class set ([`crate::history`]): aligns the head to it, or keeps the one that it brings.
///
/// # Errors
/// [`LearnError`] if the callback stopped it.
pub fn restore(
    foundation: &Foundation,
    state: &State,
    earlier: &State,
    config: &Config,
    seed: u64,
    workspace: &mut Workspace<'_>,
    on_progress: &mut (dyn FnMut(Progress) -> ControlFlow<()> + Send),
) -> Result<(State, Report), LearnError> {
    if earlier.head.is_some() {
        let mut next = earlier.clone();
        let report = report(foundation, state, &mut next, config, Vec::new());
        return Ok((next, report));
    }
    realign(foundation, state, earlier.clone(), config, seed, workspace, on_progress)
}

/// Place of a class among the learned ones.
fn learned(foundation: &Foundation, state: &State, label: &str) -> Result<usize, LearnError> {
    let place = state.classes.iter().position(|class| label::same(&class.label, label));
    place.ok_or_else(|| {
        let base = foundation.classes.iter().any(|class| label::same(&class.label, label));
        let label = label.into();
        if base { LearnError::BaseClass { label } } else { LearnError::UnknownLabel { label } }
    })
}

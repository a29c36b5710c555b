//! Phase 3, few-shot alignment: a pure step (foundation, state, shots) -> (new state, report).
//!
//! 1. The head is reset to that of phase 2.
//! 2. The new classes' means are assigned to free pseudo-targets; earlier assignments stay.
//! 3. The head is trained on the exemplars of all base classes and all shots of all learned classes.
//!
//! Committing the new state is the caller's business, so any failure leaves the old one.

mod alignment;
mod change;
mod error;
mod report;
mod sampler;
#[cfg(test)]
mod tests;

pub use alignment::{Alignment, Batch, Goals, Losses};
pub use change::{add_shots, forget, rename};
pub use error::LearnError;
pub use report::{ClassAccuracy, Confusion, Report};

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use crate::classify::Classifier;
use crate::config::{Assignment, Config};
use crate::exemplar::Bank;
use crate::math::{add_scaled, normalise};
use crate::random::Random;
use crate::schedule::Schedule;
use crate::state::{Class, Foundation, State};
use crate::target::assign;
use sampler::Sampler;

/// A class to learn, with its shots.
#[derive(Clone, Debug)]
pub struct NewClass {
    /// Name for people.
    pub label: String,
    /// For each shot the features of its views, `[1.., inputs]` row-major, the clean view first.
    pub shots: Vec<Vec<f32>>,
}

/// How far a session has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Epochs done.
    pub epoch: usize,
    /// Epochs in all.
    pub epochs: usize,
    /// Mean losses of the last epoch.
    pub losses: Losses,
}

/// Learns new classes in one session (protocol, phase 3). Same foundation, state, classes, configuration and seed: same
/// bytes of state.
///
/// `on_progress` is called after every epoch and may stop the session.
///
/// # Errors
/// [`LearnError`] if the input makes no sense, the new classes do not fit, or the callback stopped it.
pub fn learn(
    foundation: &Foundation,
    state: &State,
    new: &[NewClass],
    config: &Config,
    seed: u64,
    on_progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(State, Report), LearnError> {
    check(foundation, state, new)?;
    let base = foundation.classes.len();
    let mut next = state.clone();
    next.sessions = next.sessions.checked_add(1).ok_or(LearnError::TooManySessions)?;
    let new: Vec<NewClass> = new.iter().map(in_fixed_order).collect();
    for class in &new {
        let index = (base + next.classes.len()) as u32;
        const UNSET: u32 = u32::MAX;
        next.classes.push(Class { label: class.label.clone(), target: UNSET, session: next.sessions });
        class.shots.iter().for_each(|shot| next.exemplars.push(index, shot));
    }
    assign_targets(foundation, &mut next, state.classes.len(), config, seed);
    realign(foundation, state, next, config, seed, on_progress)
}

/// Aligns the head of phase 2 anew to what `next` knows, and reports what changed since `state`.
fn realign(
    foundation: &Foundation,
    state: &State,
    mut next: State,
    config: &Config,
    seed: u64,
    on_progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(State, Report), LearnError> {
    let trained_on = joint_set(foundation, &next, config);
    let clean = trained_on.clean();
    let before = Classifier::new(foundation, state).nearest(&clean);
    let history = if next.classes.is_empty() {
        next.head = None;
        Vec::new()
    } else {
        align(foundation, &mut next, &trained_on, config, seed, on_progress)?
    };
    let after = Classifier::new(foundation, &next).nearest(&clean);
    let report = Report::new(foundation, (state, &before), (&next, &after), &trained_on, history);
    Ok((next, report))
}

/// The class with its shots sorted, so that the order in which they were given does not matter.
fn in_fixed_order(class: &NewClass) -> NewClass {
    let mut shots = class.shots.clone();
    shots.sort_by(|a, b| a.iter().map(|x| x.to_bits()).cmp(b.iter().map(|x| x.to_bits())));
    NewClass { label: class.label.clone(), shots }
}

/// Asks whether classes of these labels could be learned: the checks that need no features.
///
/// # Errors
/// [`LearnError`] if there are none, a label is unusable or taken, or there are too few free targets.
pub fn check_labels(foundation: &Foundation, state: &State, labels: &[&str]) -> Result<(), LearnError> {
    if labels.is_empty() {
        return Err(LearnError::NoClasses);
    }
    for (position, &label) in labels.iter().enumerate() {
        check_free_label(foundation, state, label)?;
        if labels[..position].contains(&label) {
            return Err(LearnError::LabelExists { label: label.into() });
        }
    }
    let free = state.free_targets(foundation).len();
    if labels.len() > free {
        return Err(LearnError::NoFreeTargets { wanted: labels.len(), free });
    }
    Ok(())
}

/// Whether a label is usable and no class has it.
fn check_free_label(foundation: &Foundation, state: &State, label: &str) -> Result<(), LearnError> {
    if label.trim().is_empty() || label.chars().any(char::is_control) {
        return Err(LearnError::BadLabel { label: label.into() });
    }
    if state.known(foundation).any(|known| known.label == label) {
        return Err(LearnError::LabelExists { label: label.into() });
    }
    Ok(())
}

fn check(foundation: &Foundation, state: &State, new: &[NewClass]) -> Result<(), LearnError> {
    let labels: Vec<&str> = new.iter().map(|class| class.label.as_str()).collect();
    check_labels(foundation, state, &labels)?;
    new.iter().try_for_each(|class| check_shots(foundation, class))
}

/// Whether a class has shots, all of usable features.
fn check_shots(foundation: &Foundation, class: &NewClass) -> Result<(), LearnError> {
    if class.shots.is_empty() {
        return Err(LearnError::NoShots { label: class.label.clone() });
    }
    let usable = |shot: &Vec<f32>| {
        !shot.is_empty()
            && shot.len().is_multiple_of(foundation.head.inputs)
            && shot.iter().all(|value| value.is_finite())
    };
    match class.shots.iter().position(|shot| !usable(shot)) {
        Some(shot) => Err(LearnError::BadFeatures { label: class.label.clone(), shot }),
        None => Ok(()),
    }
}

/// Gives every learned class its target, as the configuration says; `next` already holds the new classes and their
/// exemplars, with targets yet to be set from `known` on.
fn assign_targets(foundation: &Foundation, next: &mut State, known: usize, config: &Config, seed: u64) {
    let first = if config.assignment == Assignment::Reassigned { 0 } else { known };
    let mut taken = alloc::vec![false; foundation.target_count()];
    let keep = foundation.classes.iter().chain(&next.classes[..first]);
    keep.for_each(|class| taken[class.target as usize] = true);
    let mut free: Vec<u32> = (0..taken.len() as u32).filter(|&target| !taken[target as usize]).collect();
    if config.assignment == Assignment::Random {
        Random::new(seed, "assignment").shuffle(&mut free);
        next.classes[first..].iter_mut().zip(free).for_each(|(class, target)| class.target = target);
        return;
    }
    let prototypes = prototypes(foundation, next, first);
    let rows: Vec<f32> = free.iter().flat_map(|&target| foundation.target(target)).copied().collect();
    let places = assign(&prototypes, &rows, foundation.dimension);
    next.classes[first..].iter_mut().zip(places).for_each(|(class, place)| class.target = free[place]);
}

/// Mean directions of the learned classes from `first` on: clean views under the head of phase 2, `[classes, d]`.
fn prototypes(foundation: &Foundation, state: &State, first: usize) -> Vec<f32> {
    let base = foundation.classes.len();
    let projected = foundation.head.project(&state.exemplars.clean());
    let mut means = Vec::new();
    for class in base + first..base + state.classes.len() {
        let members = state.exemplars.classes().iter().zip(projected.chunks_exact(foundation.dimension));
        let own = members.filter(|(member, _)| **member as usize == class).flat_map(|(_, row)| row);
        means.extend(mean_direction(&own.copied().collect::<Vec<f32>>(), foundation.dimension));
    }
    means
}

/// Normalised mean of unit rows.
pub(crate) fn mean_direction(rows: &[f32], dimension: usize) -> Vec<f32> {
    let mut mean = alloc::vec![0.0; dimension];
    rows.chunks_exact(dimension).for_each(|row| add_scaled(&mut mean, 1.0, row));
    normalise(&mut mean);
    mean
}

/// Exemplars of the base classes, at most as many of each as the configuration says, and all shots.
fn joint_set(foundation: &Foundation, state: &State, config: &Config) -> Bank {
    let mut bank = Bank::new(foundation.head.inputs, config.views);
    let mut taken = alloc::vec![0; foundation.classes.len()];
    for (exemplar, &class) in foundation.exemplars.classes().iter().enumerate() {
        taken[class as usize] += 1;
        if taken[class as usize] <= config.base_exemplars {
            bank.copy_from(&foundation.exemplars, exemplar, class);
        }
    }
    for (exemplar, &class) in state.exemplars.classes().iter().enumerate() {
        bank.copy_from(&state.exemplars, exemplar, class);
    }
    bank
}

/// Trains the head of phase 2 on the joint set and puts it into `state`; returns the mean losses of every epoch.
fn align(
    foundation: &Foundation,
    state: &mut State,
    trained_on: &Bank,
    config: &Config,
    seed: u64,
    on_progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Vec<Losses>, LearnError> {
    let assigned = state.assigned_targets(foundation);
    let free: Vec<f32> =
        state.free_targets(foundation).iter().flat_map(|&target| foundation.target(target)).copied().collect();
    let goals = Goals {
        dimension: foundation.dimension,
        base_classes: foundation.classes.len(),
        assigned: &assigned,
        free: &free,
    };
    let schedule = Schedule {
        steps: config.epochs,
        warmup: config.warmup_epochs,
        start: config.warmup_rate,
        peak: config.learning_rate,
        end: 0.0,
    };
    let mut alignment = Alignment::new(foundation.head.clone());
    let mut sampler = Sampler::new(trained_on, &goals, config, Random::new(seed, "alignment"));
    let mut history = Vec::with_capacity(config.epochs);
    for epoch in 0..config.epochs {
        let rate = schedule.rate(epoch) as f32;
        let mut mean = Losses::default();
        let steps = sampler.start_epoch();
        for step in 0..steps {
            let batch = sampler.batch(step);
            let losses = alignment.gradient(&goals, &batch, config);
            alignment.update(rate, config);
            mean.add(&losses, 1.0 / steps as f32);
        }
        history.push(mean);
        let progress = Progress { epoch: epoch + 1, epochs: config.epochs, losses: mean };
        if on_progress(progress).is_break() {
            return Err(LearnError::Cancelled);
        }
    }
    if !alignment.head().is_sound() {
        return Err(LearnError::Diverged { epochs: config.epochs });
    }
    state.head = Some(alignment.into_head());
    Ok(history)
}

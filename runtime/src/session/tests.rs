//! Sessions on made-up features: clusters around one direction per class.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::ControlFlow;

use proptest::prelude::*;

use super::*;
use crate::config::{Assignment, CrossEntropyOn, Perturbed};
use crate::head::Head;
use crate::loss::contrast::Form;
use crate::random::Random;
use crate::target::{Method, generate};

const INPUTS: usize = 24;
const DIMENSION: usize = 12;

/// A feature vector of a class.
fn feature(class: usize, random: &mut Random) -> Vec<f32> {
    let mut direction = Random::new(class as u64, "class");
    (0..INPUTS).map(|_| direction.normal().max(0.0) * 2.0 + 0.2 * random.normal()).collect()
}

/// A foundation whose head was aligned to the base classes by phase 3 itself, from a random head.
fn foundation(base: usize) -> Foundation {
    let mut random = Random::new(1, "foundation");
    let mut head = Head::zeros(INPUTS, 64, DIMENSION);
    for values in head.parameters_mut() {
        values.iter_mut().for_each(|value| *value = 0.3 * random.normal());
    }
    let mut exemplars = Bank::new(INPUTS, 2);
    for class in 0..base {
        for _ in 0..5 {
            let views = [feature(class, &mut random), feature(class, &mut random)].concat();
            exemplars.push(class as u32, &views);
        }
    }
    let classes = (0..base).map(|class| Class { label: label(class), target: class as u32, session: 0 }).collect();
    let targets = generate(Method::Optimised, DIMENSION, DIMENSION, 200, 1);
    let config = Config { epochs: 40, warmup_epochs: 4, batch: 16, views: 2, ..Config::default() };
    let foundation = Foundation { dimension: DIMENSION, targets, head, classes, exemplars, config };
    let all =
        Config { epochs: 200, cross_entropy_on: CrossEntropyOn::All, cross_entropy: 1.0, ..foundation.config.clone() };
    let mut state = State::fresh(&foundation, [0; 32]);
    let bank = joint_set(&foundation, &state, &all);
    align(&foundation, &mut state, &bank, &all, 1, &mut proceed).unwrap();
    Foundation { head: state.head.unwrap(), ..foundation }
}

fn label(class: usize) -> String {
    ["class", &class.to_string()].join(" ")
}

fn new_class(class: usize, shots: usize) -> NewClass {
    let mut random = Random::new(class as u64, "shots");
    NewClass { label: label(class), shots: (0..shots).map(|_| feature(class, &mut random)).collect() }
}

fn proceed(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn learn_with(foundation: &Foundation, new: &[NewClass], seed: u64) -> Result<(State, Report), LearnError> {
    learn(foundation, &State::fresh(foundation, [0; 32]), new, &foundation.config, seed, &mut proceed)
}

/// Share of fresh samples of the classes that are recognised.
fn accuracy(foundation: &Foundation, state: &State, classes: core::ops::Range<usize>) -> f32 {
    let mut random = Random::new(9, "fresh samples");
    let classifier = Classifier::new(foundation, state);
    let answers = |class: usize, random: &mut Random| {
        (0..10).filter(|_| classifier.nearest(&feature(class, random))[0] == class).count()
    };
    let total = 10 * classes.len();
    classes.map(|class| answers(class, &mut random)).sum::<usize>() as f32 / total as f32
}

#[test]
fn new_classes_are_learned_and_old_ones_kept() {
    let foundation = foundation(5);
    let fresh = State::fresh(&foundation, [0; 32]);
    assert!(accuracy(&foundation, &fresh, 0..5) > 0.9, "base before {}", accuracy(&foundation, &fresh, 0..5));
    let (state, report) = learn_with(&foundation, &[new_class(5, 5), new_class(6, 5)], 1).unwrap();
    assert!(state.is_sound(&foundation));
    assert!(accuracy(&foundation, &state, 0..5) > 0.7, "base {}", accuracy(&foundation, &state, 0..5));
    assert!(accuracy(&foundation, &state, 5..7) > 0.9, "new {}", accuracy(&foundation, &state, 5..7));
    assert_eq!((report.losses.len(), report.free_targets), (40, 5));
    let (next, _) = learn(&foundation, &state, &[new_class(7, 1)], &foundation.config, 1, &mut proceed).unwrap();
    assert_eq!(next.classes[..2], state.classes[..], "earlier assignments stay");
    assert_eq!((next.sessions, next.classes[2].session), (2, 2));
    assert!(accuracy(&foundation, &next, 0..8) > 0.7);
}

#[test]
fn the_same_input_gives_the_same_state_and_shots_may_come_in_any_order() {
    let foundation = foundation(3);
    let new = new_class(3, 4);
    let mut reversed = new.clone();
    reversed.shots.reverse();
    let (one, _) = learn_with(&foundation, &[new], 1).unwrap();
    assert_eq!(one, learn_with(&foundation, &[reversed.clone()], 1).unwrap().0);
    assert_ne!(one.head, learn_with(&foundation, &[reversed], 2).unwrap().0.head);
}

#[test]
fn what_cannot_be_learned_is_refused() {
    let foundation = foundation(3);
    let refused = |new: &[NewClass]| learn_with(&foundation, new, 1).unwrap_err();
    assert_eq!(refused(&[]), LearnError::NoClasses);
    assert_eq!(refused(&[new_class(2, 1)]), LearnError::LabelExists { label: label(2) });
    assert_eq!(refused(&[new_class(4, 1), new_class(4, 1)]), LearnError::LabelExists { label: label(4) });
    assert_eq!(refused(&[new_class(4, 0)]), LearnError::NoShots { label: label(4) });
    let many: Vec<NewClass> = (3..13).map(|class| new_class(class, 1)).collect();
    assert_eq!(refused(&many), LearnError::NoFreeTargets { wanted: 10, free: 9 });
    let mut odd = new_class(4, 2);
    odd.shots[1].pop();
    assert_eq!(refused(&[odd.clone()]), LearnError::BadFeatures { label: label(4), shot: 1 });
    odd.shots[1].push(f32::NAN);
    assert_eq!(refused(&[odd]), LearnError::BadFeatures { label: label(4), shot: 1 });
    let nameless = NewClass { label: String::from(" "), ..new_class(4, 1) };
    assert_eq!(refused(&[nameless]), LearnError::BadLabel { label: String::from(" ") });
}

#[test]
fn forgetting_frees_the_target_and_leaves_nothing_behind() {
    let foundation = foundation(4);
    let config = &foundation.config;
    let (one, _) = learn_with(&foundation, &[new_class(4, 3)], 1).unwrap();
    let (two, _) = learn(&foundation, &one, &[new_class(5, 3)], config, 1, &mut proceed).unwrap();
    let (left, report) = forget(&foundation, &two, &label(4), config, 1, &mut proceed).unwrap();
    assert!(left.is_sound(&foundation));
    assert_eq!(left.classes, two.classes[1..]);
    assert_eq!(left.exemplars.classes(), [4, 4, 4]);
    assert_eq!(report.free_targets, DIMENSION - 5);
    assert!(report.classes.iter().all(|class| class.before.is_some()));
    let (none, report) = forget(&foundation, &left, &label(5), config, 1, &mut proceed).unwrap();
    assert_eq!((none.head, none.classes.len(), none.exemplars.len()), (None, 0, 0));
    assert!(report.losses.is_empty());
    let refused = |label: &str| forget(&foundation, &two, label, config, 1, &mut proceed).unwrap_err();
    assert_eq!(refused(&label(0)), LearnError::BaseClass { label: label(0) });
    assert_eq!(refused("nobody"), LearnError::UnknownLabel { label: String::from("nobody") });
}

#[test]
fn more_shots_keep_the_target() {
    let foundation = foundation(4);
    let config = &foundation.config;
    let (state, _) = learn_with(&foundation, &[new_class(4, 1)], 1).unwrap();
    let more = NewClass { label: label(4), ..new_class(4, 4) };
    let (next, _) = add_shots(&foundation, &state, &more, config, 1, &mut proceed).unwrap();
    assert_eq!((&next.classes, next.exemplars.len()), (&state.classes, 5));
    let base = NewClass { label: label(0), ..new_class(0, 2) };
    let (next, _) = add_shots(&foundation, &next, &base, config, 1, &mut proceed).unwrap();
    assert!(next.is_sound(&foundation));
    assert_eq!(next.exemplars.classes()[5..], [0, 0]);
    let unknown = add_shots(&foundation, &next, &new_class(9, 1), config, 1, &mut proceed).unwrap_err();
    assert_eq!(unknown, LearnError::UnknownLabel { label: label(9) });
}

#[test]
fn renaming_changes_the_label_alone() {
    let foundation = foundation(3);
    let (state, _) = learn_with(&foundation, &[new_class(3, 1)], 1).unwrap();
    let renamed = rename(&foundation, &state, &label(3), "mug").unwrap();
    assert_eq!(renamed.classes[0].label, "mug");
    assert_eq!(State { classes: state.classes.clone(), ..renamed }, state);
    let refused = |from: &str, to: &str| rename(&foundation, &state, from, to).unwrap_err();
    assert_eq!(refused(&label(3), &label(0)), LearnError::LabelExists { label: label(0) });
    assert_eq!(refused(&label(0), "x"), LearnError::BaseClass { label: label(0) });
    assert_eq!(refused(&label(3), ""), LearnError::BadLabel { label: String::new() });
}

#[test]
fn every_assignment_gives_each_class_a_target_of_its_own() {
    let base = foundation(3);
    for assignment in [Assignment::Greedy, Assignment::Reassigned, Assignment::Random] {
        let foundation = Foundation { config: Config { assignment, ..base.config.clone() }, ..base.clone() };
        let (first, _) = learn_with(&foundation, &[new_class(3, 2), new_class(4, 2)], 1).unwrap();
        let (second, _) = learn(&foundation, &first, &[new_class(5, 2)], &foundation.config, 1, &mut proceed).unwrap();
        assert!(second.is_sound(&foundation), "{assignment:?}");
        if assignment != Assignment::Reassigned {
            assert_eq!(first.classes[..], second.classes[..2], "{assignment:?}");
        }
    }
}

#[test]
fn perturbed_targets_are_those_of_the_setting() {
    let foundation = foundation(3);
    let state = State::fresh(&foundation, [0; 32]);
    let assigned = state.assigned_targets(&foundation);
    let free: Vec<f32> =
        state.free_targets(&foundation).iter().flat_map(|&target| foundation.target(target)).copied().collect();
    let goals = Goals { dimension: DIMENSION, base_classes: 2, assigned: &assigned, free: &free };
    for (base, incremental, free) in
        [(true, false, false), (false, true, false), (false, true, true), (true, true, true)]
    {
        let config = Config { perturbed: Perturbed { base, incremental, free }, ..foundation.config.clone() };
        let bank = joint_set(&foundation, &state, &config);
        let mut sampler = Sampler::new(&bank, &goals, &config, Random::new(1, "test"));
        sampler.start_epoch();
        let batch = sampler.batch(0);
        let mut labels = batch.perturbed_labels.to_vec();
        labels.sort_unstable();
        labels.dedup();
        let wanted = |label: &u32| match *label {
            0..2 => base,
            2 => incremental,
            _ => free,
        };
        assert_eq!(labels, (0..DIMENSION as u32).filter(wanted).collect::<Vec<_>>());
        assert_eq!(batch.perturbed.len(), 2 * batch.classes.len() * DIMENSION);
    }
}

#[test]
fn cancelling_leaves_no_state() {
    let foundation = foundation(3);
    let mut epochs = 0;
    let mut stop = |progress: Progress| {
        epochs = progress.epoch;
        if progress.epoch == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let state = State::fresh(&foundation, [0; 32]);
    let cancelled = learn(&foundation, &state, &[new_class(3, 2)], &foundation.config, 1, &mut stop);
    assert_eq!(cancelled.unwrap_err(), LearnError::Cancelled);
    assert_eq!(epochs, 3);
}

#[test]
fn all_targets_can_be_taken() {
    let foundation = foundation(3);
    let all: Vec<NewClass> = (3..DIMENSION).map(|class| new_class(class, 2)).collect();
    let (state, report) = learn_with(&foundation, &all, 1).unwrap();
    assert_eq!(report.free_targets, 0);
    assert!(state.head(&foundation).is_sound());
}

/// Which hidden units are active for which sample.
fn active(head: &Head, features: &[f32]) -> Vec<bool> {
    let mut activations = crate::head::Activations::default();
    head.forward(features, &mut activations);
    activations.hidden.iter().map(|value| *value > 0.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_gradient_is_that_of_finite_differences(seed in 0u64..1000, form in 0usize..3) {
        let mut random = Random::new(seed, "gradient");
        let (inputs, hidden, dimension, base) = (5, 7, 4, 2);
        let mut head = Head::zeros(inputs, hidden, dimension);
        for values in head.parameters_mut() {
            values.iter_mut().for_each(|value| *value = random.normal());
        }
        let targets = generate(Method::Random, 6, dimension, 0, seed);
        let (assigned, free) = targets.split_at(4 * dimension);
        let goals = Goals { dimension, base_classes: base, assigned, free };
        let features: Vec<f32> = (0..2 * 5 * inputs).map(|_| random.normal()).collect();
        let perturbed = generate(Method::Random, 6, dimension, 0, seed + 1);
        let batch = Batch {
            features: &features,
            classes: &[0, 2, 3, 2, 1],
            perturbed: &perturbed,
            perturbed_labels: &[2, 4, 5],
        };
        let contrast_form = [Form::Outside, Form::Inside, Form::Negatives][form];
        let config = Config { temperature: 0.5, contrast_form, ..Config::default() };
        let mut alignment = Alignment::new(head.clone());
        alignment.gradient(&goals, &batch, &config);
        let gradient = alignment.last_gradient().clone();
        let at = |head: Head| f64::from(Alignment::new(head).gradient(&goals, &batch, &config).total());
        let largest = gradient.parameters().iter().flat_map(|values| values.iter()).fold(0.0f32, |m, v| m.max(v.abs()));
        const STEP: f32 = 4e-3;
        for part in 0..4 {
            let entries = gradient.parameters()[part].len();
            let mut checked = 0;
            for index in 0..entries {
                let moved = |by: f32| {
                    let mut moved = head.clone();
                    moved.parameters_mut()[part][index] += by;
                    moved
                };
                // Where a step carries a hidden unit across its kink, the difference is no derivative.
                if active(&moved(STEP), &features) != active(&moved(-STEP), &features) {
                    continue;
                }
                checked += 1;
                let difference = (at(moved(STEP)) - at(moved(-STEP))) / f64::from(2.0 * STEP);
                let error = (difference - f64::from(gradient.parameters()[part][index])).abs();
                let limit = 0.02 * f64::from(largest) + 2e-3;
                prop_assert!(error <= limit, "parameter {part}, entry {index}: off by {error}, more than {limit}");
            }
            prop_assert!(2 * checked >= entries, "only {checked} of {entries} entries of parameter {part} were checked");
        }
    }
}

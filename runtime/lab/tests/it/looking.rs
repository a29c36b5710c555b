//! Checks on shots and answers of a shipped bundle: whether pictures of unknown classes are recognised as unknown,
//! whether shots are enough, and what moving a shot to another class does.

use std::ops::ControlFlow;

use orco_benchmark::benchmark::Benchmark;
use orco_core::config::MethodConfig;
use orco_core::workers::Serial;
use orco_lab::estimates::{EstimateRow, LearnedOnlyEstimates};
use orco_lab::unknown::UnknownRow;
use orco_lab::{Measurement, System};
use orco_runtime::bundle::Bundle;
use orco_state::answer::AnsweredClasses;
use orco_state::classify::Classifier;
use orco_state::grouping::Grouping;
use orco_state::nearest::{ExemplarId, nearest};
use orco_state::session::{LearnError, NewClass, Session, SessionMemory};
use orco_state::state::{BaseModel, State};
use orco_state::sufficiency::{LearningCurve, ShotSufficiency};

use crate::shipped::models;

fn edge() -> (Bundle, Benchmark) {
    let bundle = Bundle::open(models().join("cifar100-edge")).unwrap();
    let benchmark = Benchmark::of(&bundle).unwrap();
    (bundle, benchmark)
}

/// With a tenth of the pictures, which says enough.
fn edge_with_a_tenth() -> (Bundle, Benchmark) {
    let (bundle, mut benchmark) = edge();
    let some: Vec<usize> = (0..benchmark.measured.len()).step_by(10).collect();
    benchmark.measured = benchmark.measured.only(&some);
    (bundle, benchmark)
}

fn with<T>(base_model: &BaseModel, step: impl FnOnce(&mut Session<'_>) -> T) -> T {
    let (memory, on_progress) = (&mut SessionMemory::default(), &mut |_| ControlFlow::Continue(()));
    let config = &base_model.config;
    step(&mut Session { base_model, config, seed: 1, memory, workers: &Serial, on_progress })
}

#[test]
fn classes_to_come_are_told_from_known_ones_better_than_by_chance() {
    let (bundle, benchmark) = edge_with_a_tenth();
    let base_model = &bundle.base_model;
    let config = &base_model.config;
    let measurement = Measurement { base_model, benchmark: &benchmark, system: System::DEVICE, config, seed: 1 };
    let rows = measurement.unknown_rows(0, 0.05).unwrap().unwrap();
    assert_eq!(rows.len(), 9);
    // Few pictures are unknown in the last sessions, so over all of them.
    let mean = |of: fn(&UnknownRow) -> Option<f64>| {
        let values: Vec<f64> = rows.iter().filter_map(of).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    assert!(mean(|row| row.auroc) > 60.0, "{rows:?}");
    assert!(mean(|row| row.passed) < 100.0 - mean(|row| Some(row.false_alarms)), "{rows:?}");
    assert!(mean(|row| row.ece) < 15.0, "{rows:?}");
    assert!(rows[8].auroc.is_none() && rows[8].passed.is_none(), "nothing is unknown at the end");
    let by_targets = config.by_targets_alone();
    assert_eq!(Measurement { config: &by_targets, ..measurement }.unknown_rows(0, 0.05).unwrap(), None);
}

#[test]
fn sets_hold_the_right_label_as_often_as_they_say_and_ranges_hold_more_than_their_middle() {
    let (bundle, benchmark) = edge_with_a_tenth();
    let base_model = &bundle.base_model;
    let config = &MethodConfig { epochs: 0, ..base_model.config.clone() };
    let measurement = Measurement { base_model, benchmark: &benchmark, system: System::DEVICE, config, seed: 1 };
    let rows = measurement.estimate_rows(0, 0.05).unwrap().unwrap();
    assert_eq!(rows.len(), 8);
    let mean = |of: fn(&EstimateRow) -> f64| rows.iter().map(of).sum::<f64>() / rows.len() as f64;
    assert!(mean(|row| row.base_covered) > 80.0 && mean(|row| row.learned_covered) > 80.0, "{rows:?}");
    assert!((1.0..30.0).contains(&mean(|row| row.size)), "{rows:?}");
    assert!(mean(|row| row.learned_gap.unwrap()).abs() < 15.0, "{rows:?}");
    // The same where learned classes alone are answered.
    let alone = |of: fn(LearnedOnlyEstimates) -> Option<f64>| {
        let values: Vec<f64> = rows.iter().map(|row| of(row.learned_only.unwrap()).unwrap()).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    assert!(alone(|of| of.covered) > 80.0 && (1.0..30.0).contains(&alone(|of| of.size)), "{rows:?}");
    assert!((alone(|of| of.estimated) - alone(|of| of.measured) - alone(|of| of.gap)).abs() < 1e-3, "{rows:?}");
    assert!(alone(|of| of.gap).abs() < 15.0 && (0.0..=100.0).contains(&alone(|of| of.in_range)), "{rows:?}");
    // Where learned classes alone are answered, other things pass less often than theirs.
    assert!(mean(|row| row.learned_passed) + 20.0 < 100.0 - mean(|row| row.learned_false_alarms), "{rows:?}");
}

#[test]
fn errors_fall_with_shots_and_a_stranger_among_shots_is_found() {
    let (bundle, benchmark) = edge();
    let base_model = &bundle.base_model;
    let curve = LearningCurve::of(base_model).unwrap();
    assert_eq!(curve.errors().len(), base_model.config.base_exemplars);
    assert!(curve.errors().windows(2).filter(|pair| pair[1] <= pair[0]).count() >= 3, "{curve:?}");
    let classifier = Classifier::new(base_model, &State::fresh(base_model, [0; 32]));
    let new = benchmark.session(base_model, 1, 0, 1);
    let of_new = |shots: &[Vec<f32>]| {
        ShotSufficiency::of(base_model, &classifier, Some(&curve), None, shots, AnsweredClasses::All)
    };
    let told: Vec<_> = new.iter().map(|class| of_new(&class.shots)).collect();
    assert!(told.iter().map(|told| told.recognised()).sum::<usize>() >= 5, "{told:?}");
    // A shot of a base class is taken for that class.
    let mut mixed = new[0].shots.clone();
    mixed.push(base_model.exemplars.views_of(&[0]));
    let told = of_new(&mixed);
    assert_eq!(told.taken_for[5], Some(base_model.exemplars.classes()[0] as usize));
    let alone = of_new(&new[0].shots[..1]);
    assert_eq!((alone.taken_for.len(), alone.expected.map(|now| now[0])), (0, Some(1.0 - curve.error(1))));
    let one_shot: NewClass = NewClass { label: "one".into(), shots: new[0].shots[..1].to_vec() };
    let mut imprinted = classifier.clone();
    imprinted.imprint(&one_shot.shots);
    let clean = &new[0].shots[1][..base_model.head.inputs];
    let scores = imprinted.scores(clean);
    let apart = scores.last().unwrap() - classifier.scores_of_subsets(&one_shot.shots, &[vec![0]], clean)[0][0];
    assert!(apart.abs() < 1e-4, "a class that is not kept scores as an imprinted one does");
}

#[test]
fn a_moved_shot_belongs_to_the_other_class_and_to_no_other() {
    let (bundle, benchmark) = edge();
    let base_model = &bundle.base_model;
    let new = benchmark.session(base_model, 1, 0, 1);
    let (state, _) = with(base_model, |session| session.learn(&State::fresh(base_model, [0; 32]), &new[..2])).unwrap();
    let [from, to] = [0, 1].map(|class: usize| state.classes[class].label.clone());
    let base = base_model.classes.len() as u32;
    let digest = state.exemplars.digest_of(2);
    let (next, _) = with(base_model, |session| session.move_shot(&state, &from, 3, &to)).unwrap();
    assert!(next.is_sound(base_model));
    let count = |state: &State, class| state.exemplars.classes().iter().filter(|of| **of == base + class).count();
    assert_eq!((count(&next, 0), count(&next, 1)), (4, 6));
    let last = next.exemplars.len() - 1;
    assert_eq!((next.exemplars.digest_of(last), next.exemplars.classes()[last]), (digest, base + 1));
    // Its nearest exemplar is itself, under its new class and number.
    let mut clean = vec![0.0; base_model.head.inputs];
    next.exemplars.as_exemplars().read(last, 0, &mut clean);
    let best = nearest(base_model, &next, &clean, 1)[0];
    assert_eq!((best.class, best.exemplar, best.number), (base as usize + 1, ExemplarId::Device(last), 6));
    assert!(best.similarity > 0.999);

    let refused = |shot, label: &str| {
        with(base_model, |session| session.move_shot(&state, &from, shot, label)).map(|_| ()).unwrap_err()
    };
    assert_eq!(refused(6, &to), LearnError::NoShot { label: from.clone(), number: 6, shots: 5 });
    assert_eq!(refused(0, &to), LearnError::NoShot { label: from.clone(), number: 0, shots: 5 });
    assert_eq!(refused(1, &from), LearnError::SameClass { label: from.clone() });
    assert_eq!(refused(1, "nobody"), LearnError::UnknownLabel { label: "nobody".into() });
    let single = NewClass { label: "single".into(), shots: new[2].shots[..1].to_vec() };
    let (state, _) = with(base_model, |session| session.learn(&state, &[single])).unwrap();
    let last = with(base_model, |session| session.move_shot(&state, "single", 1, &to)).map(|_| ()).unwrap_err();
    assert_eq!(last, LearnError::LastShot { label: "single".into() });
}

#[test]
fn pictures_of_several_classes_are_grouped_by_class() {
    let (bundle, _) = edge();
    let base_model = &bundle.base_model;
    let grouping = Grouping::new(base_model);
    // Not the samples by which it was chosen what is alike enough.
    let (bank, inputs) = (&base_model.exemplars, base_model.head.inputs);
    let shown: Vec<usize> = (0..bank.len()).filter(|&sample| bank.classes()[sample] % 10 == 0).collect();
    let mut rows = bank.clean_of(&shown);
    rows.chunks_exact_mut(inputs).for_each(|row| grouping.direction(row));
    let groups = grouping.groups(&rows, inputs);
    assert!((6..=10).contains(&groups.len()), "30 pictures of 6 classes: {groups:?}");
    let class = |index: &usize| bank.classes()[shown[*index]];
    let odd: usize = groups
        .iter()
        .map(|group| {
            let like = |one: &usize| group.iter().filter(|other| class(other) == class(one)).count();
            group.len() - group.iter().map(like).max().unwrap()
        })
        .sum();
    assert!(odd <= 3, "{odd} in a group of another class: {groups:?}");
}

//! Ablated sessions: the default one gives the states of a device, and each other one changes what it names.

use std::ops::ControlFlow;

use orco_core::config::MethodConfig;
use orco_core::exemplar::ExemplarPrecision;
use orco_core::projection::HeadShape;
use orco_core::workers::Serial;
use orco_state::head::Head;
use orco_state::session::SessionMemory;
use orco_state::state::Class;
use orco_state::target::{TargetMethod, generate};

use super::*;

const INPUTS: usize = 8;
const TARGETS: usize = 12;

fn label(class: usize) -> String {
    format!("class {class}")
}

/// Three base classes with two exemplars each, of random features, and a random head.
fn base_model(config: MethodConfig) -> BaseModel {
    let mut random = Random::new(1, "base model");
    let mut head = Head::zeros(HeadShape { inputs: INPUTS, hidden: 8, outputs: TARGETS });
    for values in head.parameters_mut() {
        values.iter_mut().for_each(|value| *value = random.normal());
    }
    let mut exemplars = Bank::new(INPUTS, 1, ExemplarPrecision::Int8);
    (0..6).for_each(|exemplar| exemplars.push(exemplar / 2, &shot(&mut random)));
    BaseModel {
        dimension: TARGETS,
        targets: generate(TargetMethod::Orthonormal, TARGETS, TARGETS, 0, 1),
        head,
        classes: (0..3).map(|class| Class { label: label(class), target: class as u32, session: 0 }).collect(),
        exemplars,
        config: MethodConfig { epochs: 4, warmup_epochs: 1, batch: 8, views: 1, ..config },
        statistics: None,
    }
}

fn shot(random: &mut Random) -> Vec<f32> {
    (0..INPUTS).map(|_| random.normal().max(0.0) + 0.1).collect()
}

fn new_class(class: usize) -> NewClass {
    let mut random = Random::new(class as u64, "shots");
    NewClass { label: label(class), shots: (0..4).map(|_| shot(&mut random)).collect() }
}

/// Two sessions of two classes each.
fn states(base_model: &BaseModel, learn: impl Fn(&mut Session<'_>, &State, &[NewClass]) -> State) -> [State; 2] {
    let (memory, on_progress) = (&mut SessionMemory::default(), &mut |_| ControlFlow::Continue(()));
    let config = &base_model.config;
    let mut session = Session { base_model, config, seed: 7, memory, workers: &Serial, on_progress };
    let first = learn(&mut session, &State::fresh(base_model, [0; 32]), &[new_class(3), new_class(4)]);
    let second = learn(&mut session, &first, &[new_class(5), new_class(6)]);
    [first, second]
}

fn ablated(base_model: &BaseModel, ablation: Ablation) -> [State; 2] {
    states(base_model, |session, state, new| ablation.learn(session, state, new).unwrap())
}

#[test]
fn the_default_ablation_gives_the_states_of_a_device() {
    for config in
        [MethodConfig::published(), MethodConfig::edge(), MethodConfig { exemplar_bytes: 150, ..MethodConfig::edge() }]
    {
        let base_model = base_model(config);
        let learned = states(&base_model, |session, state, new| session.learn(state, new).unwrap().0);
        assert_eq!(ablated(&base_model, Ablation::default()), learned);
    }
}

#[test]
fn every_assignment_gives_each_class_a_target_of_its_own() {
    let base_model = base_model(MethodConfig::edge());
    let targets = |state: &State| -> Vec<u32> { state.classes.iter().map(|class| class.target).collect() };
    let mut found = Vec::new();
    for assignment in [Assignment::Greedy, Assignment::Reassigned, Assignment::Random] {
        let [first, second] = ablated(&base_model, Ablation { assignment, ..Ablation::default() });
        assert!(second.is_sound(&base_model), "{assignment:?}");
        if assignment != Assignment::Reassigned {
            assert_eq!(targets(&first), targets(&second)[..2], "{assignment:?}");
        }
        found.push(targets(&second));
    }
    assert_ne!(found[0], found[2], "random targets are not the best match");
}

#[test]
fn only_a_reassignment_moves_earlier_classes() {
    let base_model = base_model(MethodConfig::edge());
    // Where all free targets are given away, some new class wants that of an earlier one.
    let is_moved = |assignment, first: usize| {
        let (memory, on_progress) = (&mut SessionMemory::default(), &mut |_| ControlFlow::Continue(()));
        let config = &base_model.config;
        let mut session = Session { base_model: &base_model, config, seed: 7, memory, workers: &Serial, on_progress };
        let ablation = Ablation { assignment, ..Ablation::default() };
        let classes =
            |numbers: std::ops::Range<usize>| numbers.map(|number| new_class(first + number)).collect::<Vec<_>>();
        let fresh = State::fresh(&base_model, [0; 32]);
        let before = ablation.learn(&mut session, &fresh, &classes(0..2)).unwrap();
        let after = ablation.learn(&mut session, &before, &classes(2..9)).unwrap();
        before.classes.iter().zip(&after.classes).any(|(before, after)| before.target != after.target)
    };
    for (assignment, moves) in
        [(Assignment::Greedy, false), (Assignment::Random, false), (Assignment::Reassigned, true)]
    {
        assert_eq!((10..20).any(|first| is_moved(assignment, 10 * first)), moves, "{assignment:?}");
    }
}

#[test]
fn perturbation_changes_the_head() {
    let base_model = base_model(MethodConfig { perturbation_width: 0.1, ..MethodConfig::published() });
    let head = |ablation| ablated(&base_model, ablation)[0].head.clone().unwrap();
    let none = PerturbedTargets { base: false, incremental: false, free: false };
    let heads = [
        head(Ablation::default()),
        head(Ablation { perturbation: Perturbation::Gaussian, ..Ablation::default() }),
        head(Ablation { perturbation: Perturbation::None, ..Ablation::default() }),
        head(Ablation { perturbed: none, ..Ablation::default() }),
    ];
    for (index, one) in heads.iter().enumerate() {
        assert!(heads[..index].iter().all(|other| other != one), "{index}");
    }
}

#[test]
fn exemplars_stay_within_their_bytes() {
    let one = Bank::new(INPUTS, 1, ExemplarPrecision::Int8).bytes_per_exemplar();
    let base_model = base_model(MethodConfig { exemplar_bytes: 4 * one, ..MethodConfig::published() });
    let mut found = Vec::new();
    for keep in [ExemplarSelection::First, ExemplarSelection::Random, ExemplarSelection::Herding] {
        let [first, second] = ablated(&base_model, Ablation { keep, ..Ablation::default() });
        assert_eq!(first.exemplars.classes(), [3, 3, 4, 4], "{keep:?}");
        assert_eq!(second.exemplars.classes(), [3, 4, 5, 6], "{keep:?}");
        found.push(first.exemplars);
    }
    assert!(found[0] != found[1] && found[0] != found[2]);
}

#[test]
fn earlier_classes_keep_as_many_exemplars_as_they_may() {
    let base_model = base_model(MethodConfig::published());
    for (most, kept) in [(0, &[5, 5, 5, 5, 6, 6, 6, 6][..]), (1, &[3, 4, 5, 5, 5, 5, 6, 6, 6, 6])] {
        let ablation = Ablation { earlier_exemplars: Some(most), ..Ablation::default() };
        let [first, second] = ablated(&base_model, ablation);
        assert_eq!(first.exemplars.classes(), [3, 3, 3, 3, 4, 4, 4, 4], "a session keeps all of its own shots");
        assert_eq!(second.exemplars.classes(), kept);
    }
    let ablation = Ablation { earlier_exemplars: Some(4), ..Ablation::default() };
    assert_eq!(ablated(&base_model, ablation), ablated(&base_model, Ablation::default()));
}

#[test]
fn herding_keeps_what_is_nearest_to_the_mean() {
    let mut bank = Bank::new(2, 1, ExemplarPrecision::Int8);
    for (class, row) in [(0, [1.0, 0.0]), (1, [0.0, 1.0]), (0, [0.0, 1.0]), (0, [1.0, 1.0]), (1, [1.0, 3.0])] {
        bank.push(class, &row);
    }
    let kept = bank.only(&[1, 3]);
    ExemplarSelection::Herding.within(&mut bank, kept.bytes(), 1);
    assert_eq!(bank, kept);
}

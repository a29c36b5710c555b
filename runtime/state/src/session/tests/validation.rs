//! What samples of known classes say of states: their answers, and how probable these are.

use super::*;
use crate::answer::{Predictor, ScoringWork};
use crate::history::{ChangeKind, HistoryChange, HistoryEntry, HistoryLimits, SavedState};
use crate::state::Calibration;
use crate::statistics::Statistics;

/// Three base classes with statistics of samples of theirs.
fn with_statistics() -> BaseModel {
    let mut base_model = base_model(3);
    let mut random = Random::new(5, "statistics");
    let one_view = |rows: &[Vec<f32>]| {
        let mut bank = Bank::new(INPUTS, 1, ExemplarPrecision::F16);
        rows.iter().enumerate().for_each(|(class, row)| bank.push(class as u32, row));
        bank
    };
    let means: Vec<Vec<f32>> = (0..3).map(|class| feature(class, &mut random)).collect();
    let mut axis: Vec<f32> = (0..INPUTS).map(|_| random.normal()).collect();
    normalise(&mut axis);
    let mut set_aside = Bank::new(INPUTS, 1, ExemplarPrecision::Int8);
    (0..12).for_each(|sample| set_aside.push(sample % 3, &feature(sample as usize % 3, &mut random)));
    base_model.statistics = Some(Statistics {
        centre: means[0].clone(),
        root_centre: means[1].clone(),
        axes: one_view(&[axis]),
        damping: [0.4].into(),
        factor: 1.1,
        directions: one_view(&means),
        whitened: one_view(&means),
        deviations: [1.0; 3],
        initial_shift: 0.1,
        set_aside,
        base_accuracy_ratio: None,
    });
    base_model.config.answer = MethodConfig::combined().answer;
    base_model
}

/// Such as one that was learned before the bundle had statistics.
#[test]
fn a_state_without_a_border_gets_the_one_that_a_change_would_choose() {
    let base_model = with_statistics();
    let fresh = State::fresh(&base_model, [0; 32]);
    let learned = learn_on(&base_model, &fresh, &[new_class(3, 5), new_class(4, 3)], 1, &mut proceed).unwrap().0;
    let without = State { calibration: None, ..learned.clone() };
    let scoring = base_model.scoring(&base_model.config).unwrap();
    let features: Vec<f32> = feature(3, &mut Random::new(9, "picture"));
    let scores =
        |state: &State| Predictor::new(&base_model, state, scoring, &mut ScoringWork::alone()).scores(&features);
    assert_eq!(scores(&without), scores(&learned));
}

#[test]
fn probabilities_fit_before_anything_is_learned() {
    let base_model = with_statistics();
    let scoring = base_model.scoring(&base_model.config).unwrap();
    let fresh = State::fresh(&base_model, [0; 32]);
    let (answerer, samples) = Predictor::with_samples(&base_model, &fresh, scoring, &mut ScoringWork::alone());
    let rows = samples.all;
    assert!(samples.learned.is_empty());
    assert_eq!(rows.len(), 12);
    let likelihood = |probabilities: &dyn Fn(&mut [f32])| -> f32 {
        let each = rows.iter().map(|sample| {
            let mut row = sample.scores.clone();
            probabilities(&mut row);
            row[sample.class as usize].max(1e-6).ln()
        });
        each.sum()
    };
    let at_usual_temperature = |row: &mut [f32]| {
        row.iter_mut().for_each(|score| *score = (*score / Calibration::TEMPERATURE).exp());
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|score| *score /= sum);
    };
    let (chosen, usual) =
        (likelihood(&|row: &mut [f32]| answerer.probabilities(row)), likelihood(&at_usual_temperature));
    assert!(chosen > usual, "{chosen} {usual}");
}

/// Three base classes with statistics, and settings of the combined answer with few epochs.
fn combined() -> BaseModel {
    let mut base_model = with_statistics();
    base_model.config = MethodConfig { epochs: 4, warmup_epochs: 2, views: 2, batch: 16, ..MethodConfig::combined() };
    base_model
}

/// Learns in closed form alone.
fn learn_in_closed_form(base_model: &BaseModel, state: &State, new: &[NewClass]) -> State {
    let config = &base_model.config.without_alignment();
    let (memory, on_progress) = (&mut SessionMemory::default(), &mut proceed);
    Session { base_model, config, seed: 1, memory, workers: &Serial, on_progress }.learn(state, new).unwrap().0
}

fn bytes(state: &State) -> Vec<u8> {
    postcard::to_allocvec(state).unwrap()
}

#[test]
fn the_closed_form_and_its_alignment_give_the_bytes_of_learning_at_once() {
    let base_model = combined();
    let fresh = State::fresh(&base_model, [0; 32]);
    let (at_once, _) = learn_on(&base_model, &fresh, &[new_class(3, 5)], 7, &mut proceed).unwrap();
    let closed = learn_in_closed_form(&base_model, &fresh, &[new_class(3, 5)]);
    assert!(closed.head.is_none() && closed.calibration.is_some() && closed.awaits_alignment(&base_model.config));
    assert!(!closed.awaits_alignment(&base_model.config.without_alignment()));
    let align = |state: &State| {
        within(&base_model, 1, |session| session.align(&fresh, state.clone(), Sampling::seeded(7))).unwrap().0
    };
    let aligned = align(&closed);
    assert!(!aligned.awaits_alignment(&base_model.config));
    assert_eq!(bytes(&aligned), bytes(&at_once));
    // The same from the closed form that follows an aligned state: nothing of its head is left.
    let second = learn_in_closed_form(&base_model, &aligned, &[new_class(4, 3)]);
    assert!(second.head.is_none());
    let (both, _) = learn_on(&base_model, &at_once, &[new_class(4, 3)], 7, &mut proceed).unwrap();
    assert_eq!(bytes(&align(&second)), bytes(&both));
}

#[test]
fn alignment_is_part_of_the_change_and_is_undone_with_it() {
    let base_model = combined();
    let (config, limits) = (&base_model.config, HistoryLimits::default());
    let fresh = SavedState::fresh(&base_model, [0; 32]);
    let learn = |saved: &SavedState, class: usize, seed: u64| {
        let next = learn_in_closed_form(&base_model, &saved.state, &[new_class(class, 3)]);
        saved.successor(next, &HistoryChange::new(ChangeKind::Learn, seed).labels([label(class)]), limits)
    };
    let align = |saved: &SavedState| {
        let sampling = Sampling::seeded(saved.seed());
        let aligned = within(&base_model, 1, |session| session.align(&saved.state, saved.state.clone(), sampling));
        saved.with_alignment(aligned.unwrap().0)
    };
    let closed = learn(&fresh, 3, 7);
    assert_eq!(closed.seed(), 7, "it is known with which seed it will be aligned");
    let one = align(&closed);
    assert!(one.is_sound(&base_model) && one.is_consistent());
    assert_eq!((one.history.entries().len(), one.seed()), (2, 7));
    let ids = |saved: &SavedState| saved.history.entries().iter().map(HistoryEntry::id).collect::<Vec<_>>();
    assert_eq!(ids(&one), ids(&closed), "the entry stays what it is");
    let renamed = rename(&base_model, &closed.state, &label(3), "mug").unwrap();
    let renamed =
        closed.successor(renamed, &HistoryChange::new(ChangeKind::Rename, 0).labels([&label(3), "mug"]), limits);
    assert_eq!(renamed.seed(), 7, "a new label trains nothing");
    assert_eq!(align(&renamed).state.head, one.state.head);

    // Back from a second class, with another seed, to the first one: to the bit.
    let two = align(&learn(&one, 4, 9));
    let restore = |from: &SavedState, number: u32| {
        let earlier = from.earlier_state(number).unwrap();
        let (state, _) = within(&base_model, 9, |session| session.restore(&from.state, &earlier)).unwrap();
        assert_eq!(earlier.is_exact(state.head.as_ref()), Some(true));
        state
    };
    assert_eq!(bytes(&restore(&two, 1)), bytes(&State { sessions: one.state.sessions, ..one.state.clone() }));
    assert_eq!(restore(&two, 0).head, None);
    // What was never aligned comes back without a head, and so without training.
    let after = learn(&closed, 4, 9);
    let back = restore(&after, 1);
    assert!(back.head.is_none() && back.awaits_alignment(config));
    assert_eq!(bytes(&back), bytes(&closed.state));
}

#[test]
fn a_class_replaces_a_base_class_of_its_label_until_it_is_forgotten() {
    let base_model = with_statistics();
    let fresh = State::fresh(&base_model, [0; 32]);
    let aside = base_model.statistics.as_ref().unwrap().set_aside.clean();
    let (features, answer) = (&aside[..INPUTS], |state: &State| Classifier::new(&base_model, state).nearest(&aside)[0]);
    let base = answer(&fresh);
    // Looks like something else, but has that class's name.
    let own = NewClass { label: label(base), ..new_class(5, 4) };
    let (memory, on_progress) = (&mut SessionMemory::default(), &mut proceed);
    let config = &base_model.config;
    let mut session = Session { base_model: &base_model, config, seed: 1, memory, workers: &Serial, on_progress };
    let refused = session.learn(&fresh, core::slice::from_ref(&own)).unwrap_err();
    assert_eq!(refused, LearnError::BaseLabelExists { label: label(base) });
    let (state, report) = session.replace_base(&fresh, &[own]).unwrap();
    assert!(state.is_sound(&base_model));
    assert_eq!(state.find_class(&base_model, &label(base)), Some(3));
    assert_eq!(state.replaced(&base_model), [0, 1, 2].map(|class| class == base));
    let samples: Vec<u32> = report.classes.iter().map(|class| class.samples).collect();
    assert_eq!(samples, [0, 1, 2, 3].map(|class| if class == base { 0 } else { 4 }));
    let score = |state: &State, config: &MethodConfig| {
        let matches = Classifier::with_config(&base_model, state, config).matches(features, 4);
        matches.into_iter().find(|found| found.class == base).unwrap().score.value()
    };
    assert_ne!(answer(&state), base);
    assert_eq!(score(&state, config), 0.0);
    assert_eq!(score(&state, &config.by_targets_alone()), -1.0, "the paper's rule");
    let forgotten = session.forget(&state, &label(base)).unwrap().0;
    assert_eq!((answer(&forgotten), forgotten.find_class(&base_model, &label(base))), (base, Some(base)));
    assert_eq!(session.forget(&forgotten, &label(base)), Err(LearnError::BaseClass { label: label(base) }));
}

#[test]
fn a_state_whose_base_classes_are_all_replaced_can_be_read_again() {
    let base_model = with_statistics();
    for shots in 1..7 {
        let own: Vec<NewClass> =
            (0..3).map(|class| NewClass { label: label(class), ..new_class(5 + class, shots) }).collect();
        let fresh = State::fresh(&base_model, [0; 32]);
        let (together, _) = within(&base_model, 1, |session| session.replace_base(&fresh, &own)).unwrap();
        assert!(together.is_sound(&base_model), "{shots}: {:?}", together.calibration);
        let mut state = fresh;
        for class in own {
            state = within(&base_model, 1, |session| session.replace_base(&state, &[class])).unwrap().0;
            assert!(state.is_sound(&base_model), "{shots}: {:?}", state.calibration);
        }
    }
}

#[test]
fn shots_that_a_replaced_class_was_given_before_speak_for_the_new_one() {
    let base_model = with_statistics();
    let own = NewClass { label: label(0), ..new_class(5, 4) };
    let fresh = State::fresh(&base_model, [0; 32]);
    let (given, _) = within(&base_model, 1, |session| session.add_shots(&fresh, &own)).unwrap();
    let (state, report) = within(&base_model, 1, |session| session.replace_base(&given, &[own])).unwrap();
    assert!(state.is_sound(&base_model));
    assert_eq!((report.classes[3].samples, report.sharing_shots.len()), (4, 0), "{report:?}");
}

#[test]
fn a_class_that_replaces_another_has_a_limit_of_its_own() {
    let mut base_model = with_statistics();
    base_model.config.epochs = 0;
    let own = NewClass { label: label(0), ..new_class(5, MAX_SHOTS / 2 + 1) };
    let fresh = State::fresh(&base_model, [0; 32]);
    let (given, _) = within(&base_model, 1, |session| session.add_shots(&fresh, &own)).unwrap();
    let refused = within(&base_model, 1, |session| session.add_shots(&given, &own)).unwrap_err();
    assert_eq!(refused, LearnError::TooManyShots { label: label(0), shots: MAX_SHOTS + 2 });
    within(&base_model, 1, |session| session.replace_base(&given, &[own])).unwrap();
}

#[test]
fn a_class_of_one_shot_is_recognised_at_first_once_it_has_more() {
    let base_model = with_statistics();
    let all = new_class(3, 5);
    let one = NewClass { shots: all.shots[..1].to_vec(), ..all.clone() };
    let others = NewClass { shots: all.shots[1..].to_vec(), ..all };
    let (state, report) = learn_with(&base_model, &[one], 1).unwrap();
    assert_eq!((report.classes[3].samples, report.classes[3].since), (0, None));
    let (_, report) = within(&base_model, 1, |session| session.add_shots(&state, &others)).unwrap();
    let class = &report.classes[3];
    assert_eq!(class.samples, 5);
    assert_eq!(class.since, Some(CumulativeLoss { first: class.after, now: class.after, samples: 5 }));
    assert_eq!(class.before, Some(1.0), "of the shots that came; nothing was left to answer the other one");
}

/// A step of a session.
type Step<'a> = &'a dyn Fn(&mut Session<'_>, &State) -> Result<(State, ChangeReport), LearnError>;

#[test]
fn what_is_kept_and_further_threads_change_no_bit() {
    let base_model = combined();
    let fresh = State::fresh(&base_model, [0; 32]);
    let further = NewClass { label: label(3), ..new_class(9, 2) };
    let of_base = NewClass { label: label(0), ..new_class(8, 2) };
    let run = |memory: &mut SessionMemory, workers: &dyn Workers| {
        let (base_model, config, on_progress) = (&base_model, &base_model.config, &mut proceed);
        let mut session = Session { base_model, config, seed: 1, memory, workers, on_progress };
        let mut states = Vec::from([session.learn(&fresh, &[new_class(3, 5), new_class(4, 1)]).unwrap()]);
        let steps: [Step<'_>; 4] = [
            &|session, state| session.add_shots(state, &further),
            &|session, state| session.add_shots(state, &of_base),
            &|session, state| session.learn(state, &[new_class(5, 3)]),
            &|session, state| session.forget(state, &label(3)),
        ];
        for step in steps {
            let next = step(&mut session, &states.last().unwrap().0).unwrap();
            states.push(next);
        }
        let scores = states.iter().map(|(state, _)| {
            let known = Classifier::with_known_scores(base_model, state, config, session.memory.cache(), workers);
            known.0.scores(&feature(3, &mut Random::new(9, "picture")))
        });
        let scores: Vec<Vec<f32>> = scores.collect();
        (states, scores)
    };
    let alone = run(&mut SessionMemory::default(), &Serial);
    let mut memory = SessionMemory::with_cache();
    assert_eq!(run(&mut memory, &Threads(2)), alone);
    assert_eq!(run(&mut memory, &Threads(2)), alone, "all is kept already");
}

/// More shots than every change scores.
#[test]
fn of_very_many_shots_some_are_samples_and_all_of_what_changes() {
    let mut base_model = with_statistics();
    base_model.config.epochs = 0;
    let fresh = State::fresh(&base_model, [0; 32]);
    let many = [new_class(3, 700), new_class(4, 500)];
    let (before, report) = learn_on(&base_model, &fresh, &many, 1, &mut proceed).unwrap();
    assert_eq!(report.classes[3..].iter().map(|class| class.samples).collect::<Vec<_>>(), [700, 500]);
    let (after, report) = learn_on(&base_model, &before, &[new_class(5, 5)], 1, &mut proceed).unwrap();
    assert_eq!(report.classes[3..].iter().map(|class| class.samples).collect::<Vec<_>>(), [247, 247, 5]);
    let since: Vec<bool> = report.classes[3..].iter().map(|class| class.since.is_some()).collect();
    assert_eq!(since, [false; 3], "some of the shots say nothing of all");
    // What is chosen follows from the state alone, so that undoing is exact.
    let calibrated = report_of(&base_model, &fresh, &mut after.clone(), &base_model.config).border;
    assert_eq!(calibrated, after.calibration.map(|calibration| calibration.border));
}

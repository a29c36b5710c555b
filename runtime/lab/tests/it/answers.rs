//! Answers by statistics of the base classes, on made-up features: class means in all directions, scatter along a few
//! that all classes share.

use std::ops::ControlFlow;

use orco_core::config::{AnswerWeights, MethodConfig};
use orco_core::exemplar::ExemplarPrecision;
use orco_core::projection::HeadShape;
use orco_core::random::Random;
use orco_core::workers::Serial;
use orco_lab::statistics::{Features, UnseenPictures, ValidationPictures, fit};
use orco_state::answer::balance_estimates;
use orco_state::bank::Bank;
use orco_state::classify::Classifier;
use orco_state::effective_sample_size::{self, ShotIndependence};
use orco_state::head::Head;
use orco_state::history::{ChangeKind, HistoryChange, HistoryLimits, SavedState};
use orco_state::session::{
    ChangeReport, ExpectedAccuracy, ExpectedByScope, LearnError, NewClass, RepeatedShots, Session, SessionMemory,
};
use orco_state::state::{Balance, BaseModel, Class, State};
use orco_state::statistics::Statistics;
use orco_state::target::{TargetMethod, generate};

const INPUTS: usize = 32;
const BASE: usize = 12;
const TARGETS: usize = 24;

/// A feature vector of a class, as a rectified layer would give it.
fn feature(class: usize, random: &mut Random) -> Vec<f32> {
    let mut own = Random::new(class as u64, "mean");
    let mut values: Vec<f32> = (0..INPUTS).map(|_| 1.0 + 0.5 * own.normal()).collect();
    for axis in 0..4 {
        let mut direction = Random::new(axis, "shared axis");
        let length = 0.6 * random.normal();
        values.iter_mut().for_each(|value| *value += length * direction.normal());
    }
    values.iter_mut().for_each(|value| *value = (*value + 0.1 * random.normal()).max(0.0));
    values
}

fn features(classes: std::ops::Range<usize>, each: usize, name: &str) -> (Vec<f32>, Vec<u32>) {
    let mut random = Random::new(5, name);
    let of = classes.flat_map(|class| std::iter::repeat_n(class, each));
    of.map(|class| (feature(class, &mut random), class as u32)).fold(
        (Vec::new(), Vec::new()),
        |(mut all, mut of), one| {
            all.extend(one.0);
            of.push(one.1);
            (all, of)
        },
    )
}

fn label(class: usize) -> String {
    format!("class {class}")
}

fn base_model() -> BaseModel {
    let mut random = Random::new(1, "head");
    let mut head = Head::zeros(HeadShape { inputs: INPUTS, hidden: 16, outputs: TARGETS });
    for values in head.parameters_mut() {
        values.iter_mut().for_each(|value| *value = 0.3 * random.normal());
    }
    let mut exemplars = Bank::new(INPUTS, 2, ExemplarPrecision::Int8);
    (0..BASE).for_each(|class| exemplars.push(class as u32, &feature(class, &mut random)));
    let classes = (0..BASE).map(|class| Class { label: label(class), target: class as u32, session: 0 });
    let config = MethodConfig { views: 2, ..MethodConfig::closed_form() };
    let base_model = BaseModel {
        dimension: TARGETS,
        targets: generate(TargetMethod::Orthonormal, TARGETS, TARGETS, 0, 1),
        head,
        classes: classes.collect(),
        exemplars,
        config,
        statistics: None,
    };
    let (values, classes) = features(0..BASE, 40, "base");
    let (aside, of) = features(0..BASE, 5, "set aside");
    let mut set_aside = Bank::new(INPUTS, 1, ExemplarPrecision::Int8);
    aside.chunks_exact(INPUTS).zip(of).for_each(|(row, class)| set_aside.push(class, row));
    let validation = ValidationPictures { set_aside, unseen: UnseenPictures::SetAside };
    let statistics = fit(&base_model, Features { values: &values, classes: &classes }, validation, 1);
    BaseModel { statistics: Some(statistics), ..base_model }
}

fn new_class(class: usize, shots: usize) -> NewClass {
    let mut random = Random::new(class as u64, "shots");
    let views = |random: &mut Random| [feature(class, random), feature(class, random)].concat();
    NewClass { label: label(class), shots: (0..shots).map(|_| views(&mut random)).collect() }
}

fn with<T>(base_model: &BaseModel, step: impl FnOnce(&mut Session<'_>) -> Result<T, LearnError>) -> T {
    let (memory, on_progress) = (&mut SessionMemory::default(), &mut |_| ControlFlow::Continue(()));
    let config = &base_model.config;
    let mut session = Session { base_model, config, seed: 1, memory, workers: &Serial, on_progress };
    step(&mut session).unwrap()
}

fn learn(base_model: &BaseModel, state: &State, classes: std::ops::Range<usize>) -> (State, ChangeReport) {
    let new: Vec<NewClass> = classes.map(|class| new_class(class, 5)).collect();
    with(base_model, |session| session.learn(state, &new))
}

/// Accuracy on fresh features of base classes, and of learned ones.
fn accuracy(base_model: &BaseModel, state: &State, config: &MethodConfig) -> [f64; 2] {
    let learned = BASE + state.classes.len();
    [0..BASE, BASE..learned].map(|classes| {
        let (values, of) = features(classes, 30, "measured");
        let answers = Classifier::with_config(base_model, state, config).nearest(&values);
        let right = answers.iter().zip(&of).filter(|(answer, class)| **answer == **class as usize).count();
        right as f64 / of.len() as f64
    })
}

#[test]
fn all_that_is_known_answers_better_than_means_alone() {
    let base_model = base_model();
    let (state, report) = learn(&base_model, &State::fresh(&base_model, [0; 32]), BASE..BASE + 6);
    assert!(state.is_sound(&base_model) && state.head.is_none());
    let all = accuracy(&base_model, &state, &base_model.config);
    let means = Some(AnswerWeights::NEAREST_MEAN);
    let alone = accuracy(&base_model, &state, &MethodConfig { answer: means, ..base_model.config.clone() });
    assert!(all[0] > 0.75 && all[1] > 0.75, "{all:?}");
    assert!(all[0] + all[1] > alone[0] + alone[1] + 0.1, "the shared scatter is known: {all:?} against {alone:?}");
    let border = report.border.unwrap();
    assert!((f64::from(border.base) - all[0]).abs() < 0.15, "estimated {border:?}, measured {all:?}");
    assert!((f64::from(border.learned) - all[1]).abs() < 0.25, "estimated {border:?}, measured {all:?}");
}

/// Samples that the training has seen are told at once; of unseen pictures one in five is of another class.
#[test]
fn the_ratio_is_that_of_unseen_pictures() {
    let base_model = base_model();
    let known = base_model.statistics.as_ref().unwrap();
    let (values, classes) = features(0..BASE, 40, "base");
    let (seen, of_seen) = features(0..BASE, 5, "set aside");
    let ratio = |unseen: UnseenPictures<'_>| {
        let images = Features { values: &values, classes: &classes };
        let validation = ValidationPictures { set_aside: known.set_aside.clone(), unseen };
        fit(&base_model, images, validation, 1).base_accuracy_ratio
    };
    assert_eq!((ratio(UnseenPictures::None), ratio(UnseenPictures::SetAside)), (None, Some(1.0)));
    let same = ratio(UnseenPictures::Others(Features { values: &seen, classes: &of_seen })).unwrap();
    assert!((same - 1.0).abs() < 0.02, "the same pictures, not rounded to bytes: {same}");
    let harder: Vec<u32> = of_seen
        .iter()
        .enumerate()
        .map(|(at, class)| if at % 5 == 0 { (class + 1) % BASE as u32 } else { *class })
        .collect();
    let ratio = ratio(UnseenPictures::Others(Features { values: &seen, classes: &harder })).unwrap();
    assert!((ratio - 0.8).abs() < 0.05, "{ratio}");
}

/// A device that knows that its samples are easier estimates as much less of base classes, whatever border it chooses.
#[test]
fn what_is_estimated_follows_the_ratio() {
    let estimated = |base_accuracy_ratio: Option<f32>| {
        let mut base_model = base_model();
        base_model.statistics.as_mut().unwrap().base_accuracy_ratio = base_accuracy_ratio;
        let (_, report) = learn(&base_model, &State::fresh(&base_model, [0; 32]), BASE..BASE + 6);
        report.expected.unwrap().base.unwrap()
    };
    let [full, half, unknown] = [Some(1.0), Some(0.5), None].map(estimated);
    assert!(half < 0.6 * full && half > 0.4 * full, "{half} of {full}");
    assert!(unknown < 0.95 * full && unknown > 0.75 * full, "{unknown} of {full}");
}

#[test]
fn the_same_shots_give_the_same_state_in_one_session_or_in_two() {
    let base_model = base_model();
    let fresh = State::fresh(&base_model, [0; 32]);
    let (once, _) = learn(&base_model, &fresh, BASE..BASE + 4);
    let (first, _) = learn(&base_model, &fresh, BASE..BASE + 2);
    let (twice, _) = learn(&base_model, &first, BASE + 2..BASE + 4);
    assert_eq!((&once.exemplars, once.calibration), (&twice.exemplars, twice.calibration));
    assert_eq!(learn(&base_model, &first, BASE + 2..BASE + 4).0, twice);
}

#[test]
fn shots_are_judged_left_out_of_their_class() {
    let base_model = base_model();
    // Shots of five different things under one label: none is like the mean of the others.
    let shots: Vec<Vec<f32>> = (20..25).map(|class| new_class(class, 1).shots.swap_remove(0)).collect();
    let odd = NewClass { label: "odds and ends".into(), shots };
    let fresh = State::fresh(&base_model, [0; 32]);
    let (state, report) = with(&base_model, |session| session.learn(&fresh, &[odd]));
    let (_, real) = learn(&base_model, &fresh, BASE..BASE + 1);
    let accuracy = |report: &ChangeReport| report.new_accuracy().unwrap();
    assert!(accuracy(&real) > 0.75 && accuracy(&report) < accuracy(&real), "{} {}", accuracy(&real), accuracy(&report));
    // The report says which.
    let class = report.classes.last().unwrap();
    let wrong = ((1.0 - class.after) * class.samples as f32).round() as usize;
    assert_eq!(report.mistaken_shots.len(), wrong, "{:?}", report.mistaken_shots);
    let stored: Vec<[u8; 32]> = (0..state.exemplars.len()).map(|shot| state.exemplars.digest_of(shot)).collect();
    for shot in &report.mistaken_shots {
        assert!(shot.label == class.label && shot.taken_for != class.label && stored.contains(&shot.exemplar));
    }
}

#[test]
fn of_a_class_with_one_shot_nothing_is_estimated() {
    let base_model = base_model();
    let fresh = State::fresh(&base_model, [0; 32]);
    let one = NewClass { label: label(BASE), shots: new_class(BASE, 1).shots };
    let (state, report) = with(&base_model, |session| session.learn(&fresh, &[one]));
    assert_eq!((report.new_accuracy(), report.expected.unwrap().learned), (None, None));
    assert!(report.expected.unwrap().base.unwrap() > 0.75, "{report:?}");
    assert!(report.confusions.iter().all(|confusion| confusion.label != label(BASE)), "{:?}", report.confusions);
    let [known, learned] = accuracy(&base_model, &state, &base_model.config);
    assert!(known > 0.75 && learned > 0.5, "{known} {learned}");
}

#[test]
fn the_same_shots_under_two_labels_cost_base_classes_nothing() {
    let base_model = base_model();
    let fresh = State::fresh(&base_model, [0; 32]);
    let (state, _) = learn(&base_model, &fresh, BASE..BASE + 2);
    let again = NewClass { label: "again".into(), ..new_class(BASE, 5) };
    let (twice, report) = with(&base_model, |session| session.learn(&state, &[again]));
    let before = accuracy(&base_model, &state, &base_model.config)[0];
    let after = accuracy(&base_model, &twice, &base_model.config)[0];
    assert!(after > before - 0.05, "{before} before, {after} after");
    let expected = report.expected.unwrap().learned.expect("the other class still says what is to be expected");
    assert!(expected > 0.5, "and it alone: {expected}");
}

#[test]
fn the_same_shots_again_teach_nothing_and_cost_nothing() {
    let base_model = base_model();
    let (state, _) = learn(&base_model, &State::fresh(&base_model, [0; 32]), BASE..BASE + 2);
    let again = new_class(BASE, 5);
    let (repeated, report) = with(&base_model, |session| session.add_shots(&state, &again));
    assert_eq!(report.repeated, [RepeatedShots { label: label(BASE), shots: 5 }]);
    let shift = |state: &State| state.calibration.unwrap().border.shift;
    assert!((shift(&repeated) - shift(&state)).abs() < 0.05, "{} and {}", shift(&state), shift(&repeated));
    let [before, after] = [&state, &repeated].map(|state| accuracy(&base_model, state, &base_model.config));
    assert!((before[0] - after[0]).abs() < 0.02 && (before[1] - after[1]).abs() < 0.05, "{before:?} {after:?}");
}

/// What is told of a balance is what it gives once it is set, whatever the balance is while it is asked.
#[test]
fn what_a_balance_would_recognise_is_told_as_it_comes_out() {
    let base_model = base_model();
    let (state, _) = learn(&base_model, &State::fresh(&base_model, [0; 32]), BASE..BASE + 6);
    let told = |state: &State| balance_estimates(&base_model, state, &base_model.config, None, &Serial).choices;
    let at_first = told(&state);
    assert_eq!(at_first.iter().map(|one| one.shots).collect::<Vec<_>>(), [30; 3]);
    for balance in Balance::ALL {
        let (set, _) = with(&base_model, |session| session.set_balance(&state, balance));
        assert_eq!(told(&set), at_first, "{balance:?}");
    }
}

/// Of single shots, nothing is known; they make no promise surer.
#[test]
fn shots_that_cannot_be_judged_count_for_no_range() {
    let mut base_model = base_model();
    let mut random = Random::new(2, "more exemplars");
    (0..BASE).for_each(|class| base_model.exemplars.push(class as u32, &feature(class, &mut random)));
    let (state, _) = learn(&base_model, &State::fresh(&base_model, [0; 32]), BASE..BASE + 1);
    let singles: Vec<NewClass> = (BASE + 1..BASE + 5).map(|class| new_class(class, 1)).collect();
    let (more, report) = with(&base_model, |session| session.learn(&state, &singles));
    let count = |state: &State| {
        let learned = effective_sample_size::of_learned(&base_model, state).unwrap();
        learned.iter().map(ShotIndependence::effective).sum::<f32>()
    };
    assert_eq!(count(&more), count(&state));
    let expected = report.expected.unwrap();
    let five = effective_sample_size::of_learned(&base_model, &state).unwrap();
    assert_eq!(expected.learned_range, Some(effective_sample_size::range(expected.learned.unwrap(), &five)));
    let (single, _) = with(&base_model, |session| session.learn(&State::fresh(&base_model, [0; 32]), &singles));
    let nothing = ExpectedAccuracy::of(&base_model, &single).unwrap();
    assert_eq!((nothing.learned, nothing.learned_range), (None, None));
    assert!(nothing.base.is_some());
}

#[test]
fn among_learned_classes_alone_more_is_expected_and_that_comes_true() {
    let base_model = base_model();
    let (state, report) = learn(&base_model, &State::fresh(&base_model, [0; 32]), BASE..BASE + 6);
    let (all, alone) = (report.expected.unwrap().learned.unwrap(), report.expected_learned_only.unwrap().learned);
    let classifier = Classifier::new(&base_model, &state);
    let (values, of) = features(BASE..BASE + 6, 30, "measured");
    let answer = |row: &[f32]| classifier.ranked_from(&mut classifier.scores(row), BASE)[0].class;
    let right = values.chunks_exact(INPUTS).zip(&of).filter(|&(row, &class)| answer(row) == class as usize).count();
    let measured = right as f32 / of.len() as f32;
    assert!(alone > all, "{alone} among learned classes, {all} among all");
    assert!((alone - measured).abs() < 0.25, "estimated {alone}, measured {measured}");
    // Who asks later is told the same.
    let left_out = balance_estimates(&base_model, &state, &base_model.config, None, &Serial).left_out;
    let asked = ExpectedByScope::of(&base_model, &state, left_out);
    assert_eq!((asked.all, asked.learned_only), (report.expected, report.expected_learned_only));
    assert_eq!(report.expected, ExpectedAccuracy::of(&base_model, &state));
}

/// Of two shots, one alone is left to recognise the other by; nothing says how much the second one adds.
#[test]
fn of_a_class_with_two_shots_nothing_is_estimated() {
    let base_model = base_model();
    let two = NewClass { label: label(BASE), shots: new_class(BASE, 2).shots };
    let fresh = State::fresh(&base_model, [0; 32]);
    let (pair, report) = with(&base_model, |session| session.learn(&fresh, &[two]));
    assert_eq!((report.expected.unwrap().learned, report.expected_learned_only), (None, None));
    assert!(report.new_accuracy().is_some() && report.expected.unwrap().base.is_some());
    assert_eq!(report.too_few_shots, [label(BASE)]);
    assert_eq!(ExpectedAccuracy::of(&base_model, &pair), report.expected);
    // Beside others it is left out of what is told of these.
    let (both, report) = learn(&base_model, &pair, BASE + 1..BASE + 3);
    assert!(report.too_few_shots.is_empty(), "they have five shots each");
    assert!(report.expected.unwrap().learned.is_some() && report.expected_learned_only.is_some());
    // A state holds one number for all learned classes.
    assert_eq!(ExpectedAccuracy::of(&base_model, &both).unwrap().learned, None);
    let third = NewClass { label: label(BASE), shots: new_class(BASE, 3).shots.split_off(2) };
    let (_, report) = with(&base_model, |session| session.add_shots(&pair, &third));
    assert!(report.expected.unwrap().learned.is_some(), "three are enough");
    assert_eq!(report.expected_learned_only, None, "a single class has no rival");
}

#[test]
fn classes_of_one_image_each_have_statistics() {
    let base_model = base_model();
    let (values, classes) = features(0..BASE, 1, "single");
    let set_aside = Bank::new(INPUTS, 1, ExemplarPrecision::Int8);
    let none = ValidationPictures { set_aside, unseen: UnseenPictures::None };
    let statistics = fit(&base_model, Features { values: &values, classes: &classes }, none, 1);
    assert!(statistics.is_sound(INPUTS, BASE), "factor {}", statistics.factor);
}

#[test]
fn the_balance_moves_the_border_and_is_undone() {
    let base_model = base_model();
    let fresh = State::fresh(&base_model, [0; 32]);
    let (state, _) = learn(&base_model, &fresh, BASE..BASE + 6);
    let moved = |balance| with(&base_model, |session| session.set_balance(&state, balance)).0;
    let shift = |state: &State| state.calibration.unwrap().border.shift;
    let [keep, favour] = [Balance::KeepBase, Balance::FavourNew].map(moved);
    assert!(shift(&keep) <= shift(&state) && shift(&state) <= shift(&favour));
    let saved = SavedState::fresh(&base_model, [0; 32]).successor(
        state.clone(),
        &HistoryChange::new(ChangeKind::Learn, 1).labels((BASE..BASE + 6).map(label)),
        HistoryLimits::default(),
    );
    let before = saved.history.timeline().back(0).unwrap();
    let saved = saved.successor(favour, &HistoryChange::new(ChangeKind::Balance, 1), HistoryLimits::default());
    assert!(saved.is_sound(&base_model));
    let earlier = saved.earlier_state(before).unwrap();
    let (restored, _) = with(&base_model, |session| session.restore(&saved.state, &earlier));
    assert_eq!(restored, state);
    let paper = BaseModel { statistics: None, ..base_model.clone() };
    let (memory, on_progress) = (&mut SessionMemory::default(), &mut |_| ControlFlow::Continue(()));
    let mut session =
        Session { base_model: &paper, config: &paper.config, seed: 1, memory, workers: &Serial, on_progress };
    assert_eq!(session.set_balance(&state, Balance::FavourNew).unwrap_err(), LearnError::NoBorder);
}

#[test]
fn a_class_is_known_provisionally_before_it_is_learned() {
    let base_model = base_model();
    let (state, _) = learn(&base_model, &State::fresh(&base_model, [0; 32]), BASE..BASE + 3);
    let mut provisional = Classifier::new(&base_model, &state);
    provisional.imprint(&new_class(BASE + 3, 5).shots);
    let (learned, _) = learn(&base_model, &state, BASE + 3..BASE + 4);
    let (values, _) = features(BASE + 3..BASE + 4, 30, "measured");
    let right =
        |classifier: &Classifier| classifier.nearest(&values).iter().filter(|class| **class == BASE + 3).count();
    let (soon, later) = (right(&provisional), right(&Classifier::new(&base_model, &learned)));
    assert!(soon >= 25 && later >= 25, "{soon} and {later} of 30");
}

#[test]
fn probabilities_add_up_and_are_as_often_right_as_they_say() {
    let base_model = base_model();
    let (state, _) = learn(&base_model, &State::fresh(&base_model, [0; 32]), BASE..BASE + 6);
    let classifier = Classifier::new(&base_model, &state);
    let (values, of) = features(0..BASE + 6, 30, "measured");
    let (mut sure, mut right) = (0.0, 0.0);
    for (row, class) in values.chunks_exact(INPUTS).zip(&of) {
        let matches = classifier.matches(row, usize::MAX);
        assert!((matches.iter().map(|one| one.score.value()).sum::<f32>() - 1.0).abs() < 1e-4);
        sure += f64::from(matches[0].score.value()) / of.len() as f64;
        right += f64::from(u8::from(matches[0].class == *class as usize)) / of.len() as f64;
    }
    assert!((sure - right).abs() < 0.1, "{sure} sure, {right} right");
}

#[test]
fn further_shots_move_a_base_class_and_forgetting_ends_the_border() {
    let base_model = base_model();
    let fresh = State::fresh(&base_model, [0; 32]);
    // What the place of use shows of class 0 looks like another thing.
    let moved = NewClass { label: label(0), shots: new_class(40, 10).shots };
    let (state, _) = with(&base_model, |session| session.add_shots(&fresh, &moved));
    let (values, _) = features(40..41, 30, "measured");
    let answers = Classifier::new(&base_model, &state).nearest(&values);
    let right = answers.iter().filter(|class| **class == 0).count();
    assert!(right >= 20, "{right} of 30");
    let (learned, _) = learn(&base_model, &fresh, BASE..BASE + 1);
    let (forgotten, _) = with(&base_model, |session| session.forget(&learned, &label(BASE)));
    assert_eq!(forgotten, State { sessions: 1, ..fresh });
}

#[test]
fn statistics_are_read_as_they_were_written_and_refused_where_they_do_not_fit() {
    let base_model = base_model();
    let statistics = base_model.statistics.clone().unwrap();
    let bytes = statistics.encode();
    assert_eq!(base_model.decode_statistics(&bytes).as_ref(), Ok(&statistics));
    let fewer = BaseModel { classes: base_model.classes[1..].to_vec(), ..base_model.clone() };
    assert!(fewer.decode_statistics(&bytes).is_err());
    for spoilt in [
        Statistics { factor: 0.0, ..statistics.clone() },
        Statistics { initial_shift: f32::NAN, ..statistics.clone() },
        Statistics { centre: vec![0.0; INPUTS - 1], ..statistics.clone() },
        Statistics { base_accuracy_ratio: Some(0.0), ..statistics.clone() },
        Statistics { damping: vec![2.0; statistics.damping.len()], ..statistics.clone() },
    ] {
        assert!(base_model.decode_statistics(&spoilt.encode()).is_err());
    }
}

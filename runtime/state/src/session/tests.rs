//! Sessions on made-up features: clusters around one direction per class.

mod validation;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::*;
use crate::bank::Bank;
use crate::classify::Classifier;
use crate::parallel::threads::Threads;
use crate::state::{FirstRecognitions, MAX_SHOTS};
use crate::target::{TargetMethod, generate};
use orco_core::align::AlignError;
use orco_core::config::SampleViews;
use orco_core::exemplar::ExemplarPrecision;
use orco_core::math::{add_scaled, dot, normalise};
use orco_core::projection::HeadShape;
use orco_core::random::Random;
use orco_core::workers::{Serial, Workers};

const INPUTS: usize = 24;
const DIMENSION: usize = 12;

/// A feature vector of a class.
fn feature(class: usize, random: &mut Random) -> Vec<f32> {
    let mut direction = Random::new(class as u64, "class");
    (0..INPUTS).map(|_| direction.normal().max(0.0) * 2.0 + 0.2 * random.normal()).collect()
}

/// A base model whose head was aligned to the base classes by phase 3 itself, from a random head.
fn base_model(base: usize) -> BaseModel {
    let mut random = Random::new(1, "base_model");
    let mut head = Head::zeros(HeadShape { inputs: INPUTS, hidden: 64, outputs: DIMENSION });
    for values in head.parameters_mut() {
        values.iter_mut().for_each(|value| *value = 0.3 * random.normal());
    }
    let mut exemplars = Bank::new(INPUTS, 2, ExemplarPrecision::Int8);
    for class in 0..base {
        for _ in 0..5 {
            let views = [feature(class, &mut random), feature(class, &mut random)].concat();
            exemplars.push(class as u32, &views);
        }
    }
    let classes = (0..base).map(|class| Class { label: label(class), target: class as u32, session: 0 }).collect();
    let targets = generate(TargetMethod::Optimised, DIMENSION, DIMENSION, 200, 1);
    let config = MethodConfig { epochs: 40, warmup_epochs: 4, batch: 16, views: 2, ..MethodConfig::default() };
    let base_model = BaseModel { dimension: DIMENSION, targets, head, classes, exemplars, config, statistics: None };
    let all = MethodConfig { epochs: 200, base_cross_entropy: 1.0, ..base_model.config.clone() };
    let state = State::fresh(&base_model, [0; 32]);
    let assigned: Vec<u32> = (0..base as u32).collect();
    let data = alignment_data(&base_model, &state);
    let mut memory = SessionMemory::new(data.workspace_size(base, 0, &all));
    let mut head = Head::zeros(base_model.head.shape());
    let workspace = &mut memory.workspace(&Serial);
    let input = AlignmentInput { data: &data, assigned: &assigned, config: &all, sampling: Sampling::seeded(1) };
    align::align(&input, workspace, head.as_parameters_mut(), &mut proceed).unwrap();
    BaseModel { head, ..base_model }
}

/// Learns with enough memory, one thread.
fn learn_on(
    base_model: &BaseModel,
    state: &State,
    new: &[NewClass],
    seed: u64,
    on_progress: &mut (dyn FnMut(AlignProgress) -> ControlFlow<()> + Send),
) -> Result<(State, ChangeReport), LearnError> {
    let memory = &mut SessionMemory::default();
    Session { base_model, config: &base_model.config, seed, memory, workers: &Serial, on_progress }.learn(state, new)
}

/// Takes a step with the bundle's settings, on one thread.
fn within<T>(base_model: &BaseModel, seed: u64, work: impl FnOnce(&mut Session<'_>) -> T) -> T {
    let (memory, on_progress) = (&mut SessionMemory::default(), &mut proceed);
    work(&mut Session { base_model, config: &base_model.config, seed, memory, workers: &Serial, on_progress })
}

fn label(class: usize) -> String {
    ["class", &class.to_string()].join(" ")
}

fn new_class(class: usize, shots: usize) -> NewClass {
    let mut random = Random::new(class as u64, "shots");
    NewClass { label: label(class), shots: (0..shots).map(|_| feature(class, &mut random)).collect() }
}

fn proceed(_: AlignProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn learn_with(base_model: &BaseModel, new: &[NewClass], seed: u64) -> Result<(State, ChangeReport), LearnError> {
    learn_on(base_model, &State::fresh(base_model, [0; 32]), new, seed, &mut proceed)
}

/// Share of fresh samples of the classes that are recognised.
fn accuracy(base_model: &BaseModel, state: &State, classes: core::ops::Range<usize>) -> f32 {
    let mut random = Random::new(9, "fresh samples");
    let classifier = Classifier::new(base_model, state);
    let answers = |class: usize, random: &mut Random| {
        (0..10).filter(|_| classifier.nearest(&feature(class, random))[0] == class).count()
    };
    let total = 10 * classes.len();
    classes.map(|class| answers(class, &mut random)).sum::<usize>() as f32 / total as f32
}

#[test]
fn new_classes_are_learned_and_old_ones_kept() {
    let base_model = base_model(5);
    let fresh = State::fresh(&base_model, [0; 32]);
    assert!(accuracy(&base_model, &fresh, 0..5) > 0.9, "base before {}", accuracy(&base_model, &fresh, 0..5));
    let (state, report) = learn_with(&base_model, &[new_class(5, 5), new_class(6, 5)], 1).unwrap();
    assert!(state.is_sound(&base_model));
    assert!(accuracy(&base_model, &state, 0..5) > 0.7, "base {}", accuracy(&base_model, &state, 0..5));
    assert!(accuracy(&base_model, &state, 5..7) > 0.9, "new {}", accuracy(&base_model, &state, 5..7));
    assert_eq!((report.losses.len(), report.free_targets), (40, 5));
    let (next, _) = learn_on(&base_model, &state, &[new_class(7, 1)], 1, &mut proceed).unwrap();
    assert_eq!(next.classes[..2], state.classes[..], "earlier assignments stay");
    assert_eq!((next.sessions, next.classes[2].session), (2, 2));
    assert!(accuracy(&base_model, &next, 0..8) > 0.7);
}

#[test]
fn the_same_input_gives_the_same_state_and_shots_may_come_in_any_order() {
    let base_model = base_model(3);
    let new = new_class(3, 4);
    let mut reversed = new.clone();
    reversed.shots.reverse();
    let (one, _) = learn_with(&base_model, &[new], 1).unwrap();
    assert_eq!(one, learn_with(&base_model, &[reversed.clone()], 1).unwrap().0);
    assert_ne!(one.head, learn_with(&base_model, &[reversed], 2).unwrap().0.head);
}

/// Exemplars travel: a device with the same base model learns the classes of others.
fn travelled(state: &State, base: usize, index: usize) -> StoredClass {
    let exemplars = state.exemplars.of_class((base + index) as u32);
    StoredClass { label: state.classes[index].label.clone(), exemplars }
}

#[test]
fn classes_that_travelled_give_the_state_of_learning_them_in_one_session() {
    for precision in [ExemplarPrecision::Int8, ExemplarPrecision::F16] {
        let mut base_model = base_model(2);
        base_model.config.precision = precision;
        let fresh = State::fresh(&base_model, [0; 32]);
        let new: Vec<NewClass> = (2..12).map(|class| new_class(class, 1 + class % 4)).collect();
        let (together, _) = learn_on(&base_model, &fresh, &new, 7, &mut proceed).unwrap();
        let packs: Vec<StoredClass> = new
            .iter()
            .map(|class| {
                let alone = core::slice::from_ref(class);
                travelled(&learn_on(&base_model, &fresh, alone, 3, &mut proceed).unwrap().0, 2, 0)
            })
            .collect();
        let (imported, report) = within(&base_model, 7, |session| session.learn_stored(&fresh, &packs)).unwrap();
        assert_eq!(report.free_targets, 0);
        let bytes = |state: &State| postcard::to_allocvec(state).unwrap();
        assert_eq!(bytes(&imported), bytes(&together));
        // Out of a state of many classes the same exemplars come as out of ten states of one.
        let again: Vec<StoredClass> = (0..10).map(|index| travelled(&together, 2, index)).collect();
        assert_eq!(again, packs);
    }
}

#[test]
fn exemplars_that_cannot_be_learned_are_refused() {
    let base_model = base_model(2);
    let fresh = State::fresh(&base_model, [0; 32]);
    let refused = |exemplars: Bank| {
        let new = [StoredClass { label: label(5), exemplars }];
        within(&base_model, 1, |session| session.learn_stored(&fresh, &new)).unwrap_err()
    };
    assert_eq!(refused(fresh.exemplars.empty_like()), LearnError::NoShots { label: label(5) });
    let other = |dimension, views, precision| {
        let mut bank = Bank::new(dimension, views, precision);
        bank.push(0, &[1.0].repeat(dimension));
        bank
    };
    for bank in [
        other(INPUTS + 1, 2, ExemplarPrecision::Int8),
        other(INPUTS, 3, ExemplarPrecision::Int8),
        other(INPUTS, 2, ExemplarPrecision::F16),
    ] {
        assert_eq!(refused(bank), LearnError::OtherLayout { label: label(5) });
    }
    let mut huge = fresh.exemplars.empty_like();
    huge.push(0, &[1.0; INPUTS]);
    huge.push(0, &[1e16; INPUTS]);
    assert_eq!(refused(huge), LearnError::BadFeatures { label: label(5), shot: 1 });
}

#[test]
fn what_cannot_be_learned_is_refused() {
    let base_model = base_model(3);
    let refused = |new: &[NewClass]| learn_with(&base_model, new, 1).unwrap_err();
    assert_eq!(refused(&[]), LearnError::NoClasses);
    assert_eq!(refused(&[new_class(2, 1)]), LearnError::BaseLabelExists { label: label(2) });
    assert_eq!(refused(&[new_class(4, 1), new_class(4, 1)]), LearnError::LabelTwice { label: label(4) });
    assert_eq!(refused(&[new_class(4, 0)]), LearnError::NoShots { label: label(4) });
    let many: Vec<NewClass> = (3..13).map(|class| new_class(class, 1)).collect();
    assert_eq!(refused(&many), LearnError::NoFreeTargets { wanted: 10, free: 9 });
    let mut odd = new_class(4, 2);
    odd.shots[1].pop();
    assert_eq!(refused(&[odd.clone()]), LearnError::BadFeatures { label: label(4), shot: 1 });
    odd.shots[1].push(f32::NAN);
    assert_eq!(refused(&[odd]), LearnError::BadFeatures { label: label(4), shot: 1 });
    for label in [" ", "a\u{200b}b", "a\u{202e}b", "a\tb", " a"] {
        let unseen = NewClass { label: String::from(label), ..new_class(4, 1) };
        assert_eq!(refused(&[unseen]), LearnError::BadLabel { label: String::from(label) });
    }
}

#[test]
fn labels_are_the_same_however_their_accents_are_written() {
    let base_model = base_model(3);
    let [composed, decomposed] = ["caf\u{e9}", "cafe\u{301}"].map(String::from);
    let class = |class: usize, label: &String| NewClass { label: label.clone(), ..new_class(class, 2) };
    let twice = learn_with(&base_model, &[class(3, &composed), class(4, &decomposed)], 1).unwrap_err();
    assert_eq!(twice, LearnError::LabelTwice { label: decomposed.clone() });
    let (state, _) = learn_with(&base_model, &[class(3, &decomposed), new_class(4, 1)], 1).unwrap();
    assert_eq!(state.classes[0].label, composed, "kept in the normal form");
    let again = learn_on(&base_model, &state, &[class(5, &decomposed)], 1, &mut proceed).unwrap_err();
    assert_eq!(again, LearnError::LabelExists { label: decomposed.clone() });
    assert!(matches!(rename(&base_model, &state, &label(4), &decomposed), Err(LearnError::LabelExists { .. })));
    let renamed = rename(&base_model, &state, &decomposed, "A\u{30a}").unwrap();
    assert_eq!(renamed.classes[0].label, "\u{c5}");
    let more = class(3, &decomposed);
    let (next, _) = within(&base_model, 1, |session| session.add_shots(&state, &more)).unwrap();
    assert_eq!(next.exemplars.len(), 5);
    let (left, _) = within(&base_model, 1, |session| session.forget(&next, &decomposed)).unwrap();
    assert_eq!(left.classes.len(), 1);
}

#[test]
fn a_class_has_at_most_so_many_shots() {
    let base_model = base_model(3);
    let most =
        |shots: usize| NewClass { shots: alloc::vec![new_class(4, 1).shots[0].clone(); shots], ..new_class(4, 1) };
    let too_many = LearnError::TooManyShots { label: label(4), shots: MAX_SHOTS + 1 };
    assert_eq!(learn_with(&base_model, &[most(MAX_SHOTS + 1)], 1).unwrap_err(), too_many);
    let mut short = base_model.clone();
    short.config.epochs = 1;
    let (state, _) = learn_with(&short, &[most(MAX_SHOTS)], 1).unwrap();
    assert!(state.is_sound(&short));
    let one = new_class(4, 1);
    assert_eq!(within(&short, 1, |session| session.add_shots(&state, &one)).unwrap_err(), too_many);
    let mut stored = travelled(&state, 3, 0);
    stored.label = label(5);
    stored.exemplars.push(0, &new_class(5, 1).shots[0]);
    let more = LearnError::TooManyShots { label: label(5), shots: MAX_SHOTS + 1 };
    assert_eq!(within(&short, 1, |session| session.learn_stored(&state, &[stored])).unwrap_err(), more);
    let mut swollen = state.clone();
    swollen.exemplars.push(3, &new_class(4, 1).shots[0]);
    assert!(!swollen.is_sound(&short), "also where a state is read");
}

/// Each session costs one exemplar of the class, and none of them alone more than a budget of one.
#[test]
fn losses_are_counted_from_the_bundle_on() {
    let base_model = base_model(3);
    let (one, report) = learn_with(&base_model, &[new_class(3, 4)], 1).unwrap();
    assert!(report.classes[3].since.is_none() && report.classes[3].before.is_none(), "a new class has lost nothing");
    let first = report.classes[3].after;
    assert_eq!((one.first_recognitions.of(0).shots, one.first_recognitions.of(0).recognised as f32 / 4.0), (4, first));
    for class in &report.classes[..3] {
        let since = class.since.unwrap();
        assert_eq!((Some(since.first), since.now), (class.before, class.after), "the first session is all there was");
    }
    // A head that forgets: from session to session it turns away from what it knew.
    let mut states = alloc::vec![one.clone()];
    for step in 1..=3usize {
        let mut next = states[step - 1].clone();
        let head = next.head.as_mut().unwrap();
        for values in head.parameters_mut() {
            let mut random = Random::new(step as u64, "forgetting");
            values.iter_mut().for_each(|value| *value += 0.25 * random.normal());
        }
        states.push(next);
    }
    let config = &base_model.config;
    let mut reports = Vec::new();
    for pair in states.windows(2) {
        let mut after = pair[1].clone();
        reports.push(report_of(&base_model, &pair[0], &mut after, config));
        assert_eq!(after.first_recognitions, one.first_recognitions, "what was noted stays");
    }
    for class in 0..4 {
        let steps: f32 =
            reports.iter().map(|report| report.classes[class].before.unwrap() - report.classes[class].after).sum();
        let since = reports[2].classes[class].since.unwrap();
        let at_first = if class < 3 { report.classes[class].before.unwrap() } else { first };
        let before = reports[0].classes[class].before.unwrap();
        assert!((since.first - at_first).abs() < 1e-6);
        assert!(
            (since.first - since.now - (at_first - before) - steps).abs() < 1e-5,
            "class {class}: {since:?}, {steps}"
        );
    }
    // Some class lost more over all of them than in the dearest of them.
    let dearest = |class: usize| {
        reports
            .iter()
            .map(|report| report.classes[class].before.unwrap() - report.classes[class].after)
            .fold(0.0, f32::max)
    };
    let total = |class: usize| reports[2].classes[class].since.map_or(0.0, |since| since.first - since.now);
    let class = (0..4).max_by(|a, b| (total(*a) - dearest(*a)).total_cmp(&(total(*b) - dearest(*b)))).unwrap();
    assert!(total(class) > dearest(class) + 0.1, "{} and {}", total(class), dearest(class));
    let budget = (total(class) + dearest(class)) / 2.0;
    let named =
        |forgotten: Vec<&ClassAccuracy>| forgotten.iter().any(|found| found.label == reports[2].classes[class].label);
    assert!(
        reports.iter().all(|report| !named(report.lost_in_session(budget))),
        "no session alone is beyond the budget"
    );
    assert!(named(reports[2].lost_since_first(budget)), "together they are");
}

fn report_of(base_model: &BaseModel, before: &State, after: &mut State, config: &MethodConfig) -> ChangeReport {
    super::evaluation::calibrate_and_report(base_model, config, before, after, Vec::new(), &mut ScoringWork::alone())
}

#[test]
fn first_recognition_goes_with_its_class() {
    let base_model = base_model(3);
    let (one, _) = learn_with(&base_model, &[new_class(3, 3)], 1).unwrap();
    let (two, _) = learn_on(&base_model, &one, &[new_class(4, 2), new_class(5, 5)], 1, &mut proceed).unwrap();
    let shots = |state: &State| state.first_recognitions.iter().map(|origin| origin.shots).collect::<Vec<_>>();
    assert_eq!((shots(&two), two.first_recognitions.of(0)), (alloc::vec![3, 2, 5], one.first_recognitions.of(0)));
    let more = new_class(3, 4);
    let (more, _) = within(&base_model, 1, |session| session.add_shots(&two, &more)).unwrap();
    assert_eq!(more.first_recognitions, two.first_recognitions, "further shots are no new start");
    let (left, _) = within(&base_model, 1, |session| session.forget(&more, &label(4))).unwrap();
    assert_eq!(shots(&left), [3, 5]);
    // A state of an older release knows nothing of its classes; the next session starts from where they are.
    let old = State { first_recognitions: FirstRecognitions::default(), ..two.clone() };
    let (next, report) = learn_on(&base_model, &old, &[new_class(6, 2)], 1, &mut proceed).unwrap();
    assert_eq!(shots(&next), [3, 2, 5, 2]);
    let class = &report.classes[3];
    assert_eq!(class.since, Some(CumulativeLoss { first: class.before.unwrap(), now: class.after, samples: 3 }));
}

#[test]
fn a_base_class_that_is_replaced_is_not_forgotten_by_that() {
    let mut base_model = base_model(4);
    base_model.classes[0].label = "cafe\u{301}".into();
    let own = NewClass { label: "caf\u{e9}".into(), ..new_class(5, 5) };
    let fresh = State::fresh(&base_model, [0; 32]);
    let (state, report) = within(&base_model, 1, |session| session.replace_base(&fresh, &[own])).unwrap();
    assert_eq!(state.replaced(&base_model), [true, false, false, false], "whatever form a bundle's labels have");
    assert_eq!(report.classes[0].samples, 0, "nothing is asked of it any more");
    assert!(report.classes[1..].iter().all(|class| class.samples > 0));
}

#[test]
fn forgetting_frees_the_target_and_leaves_nothing_behind() {
    let base_model = base_model(4);
    let (one, _) = learn_with(&base_model, &[new_class(4, 3)], 1).unwrap();
    let (two, _) = learn_on(&base_model, &one, &[new_class(5, 3)], 1, &mut proceed).unwrap();
    let (left, report) = within(&base_model, 1, |session| session.forget(&two, &label(4))).unwrap();
    assert!(left.is_sound(&base_model));
    assert_eq!(left.classes, two.classes[1..]);
    assert_eq!(left.exemplars.classes(), [4, 4, 4]);
    assert_eq!(report.free_targets, DIMENSION - 5);
    assert!(report.classes.iter().all(|class| class.before.is_some()));
    let (none, report) = within(&base_model, 1, |session| session.forget(&left, &label(5))).unwrap();
    assert_eq!((none.head, none.classes.len(), none.exemplars.len()), (None, 0, 0));
    assert!(report.losses.is_empty());
    let refused = |label: &str| within(&base_model, 1, |session| session.forget(&two, label)).unwrap_err();
    assert_eq!(refused(&label(0)), LearnError::BaseClass { label: label(0) });
    assert_eq!(refused("nobody"), LearnError::UnknownLabel { label: String::from("nobody") });
}

#[test]
fn more_shots_keep_the_target() {
    let base_model = base_model(4);
    let (state, _) = learn_with(&base_model, &[new_class(4, 1)], 1).unwrap();
    let more = NewClass { label: label(4), ..new_class(4, 4) };
    let add = |state: &State, class: &NewClass| within(&base_model, 1, |session| session.add_shots(state, class));
    let (next, _) = add(&state, &more).unwrap();
    assert_eq!((&next.classes, next.exemplars.len()), (&state.classes, 5));
    let base = NewClass { label: label(0), ..new_class(0, 2) };
    let (next, _) = add(&next, &base).unwrap();
    assert!(next.is_sound(&base_model));
    assert_eq!(next.exemplars.classes()[5..], [0, 0]);
    let unknown = add(&next, &new_class(9, 1)).unwrap_err();
    assert_eq!(unknown, LearnError::UnknownLabel { label: label(9) });
}

#[test]
fn more_shots_of_a_base_class_are_learned_before_any_class_is() {
    let base_model = base_model(4);
    let state = State::fresh(&base_model, [0; 32]);
    let base = NewClass { label: label(0), ..new_class(0, 3) };
    let (next, report) = within(&base_model, 1, |session| session.add_shots(&state, &base)).unwrap();
    assert!(next.head.is_some() && !report.losses.is_empty() && next.is_sound(&base_model));
}

#[test]
fn renaming_changes_the_label_alone() {
    let base_model = base_model(3);
    let (state, _) = learn_with(&base_model, &[new_class(3, 1)], 1).unwrap();
    let renamed = rename(&base_model, &state, &label(3), "mug").unwrap();
    assert_eq!(renamed.classes[0].label, "mug");
    assert_eq!(State { classes: state.classes.clone(), ..renamed }, state);
    let refused = |from: &str, to: &str| rename(&base_model, &state, from, to).unwrap_err();
    assert_eq!(refused(&label(3), &label(0)), LearnError::BaseLabelExists { label: label(0) });
    assert_eq!(refused(&label(0), "x"), LearnError::BaseClass { label: label(0) });
    assert_eq!(refused(&label(3), ""), LearnError::BadLabel { label: String::new() });
}

#[test]
fn a_class_is_the_same_under_another_label_and_another_one_under_its_label_is_not() {
    let base_model = base_model(3);
    let (state, _) = learn_with(&base_model, &[new_class(3, 3), new_class(4, 3)], 1).unwrap();
    let called = |labels: [&str; 2]| {
        let mut renamed = state.clone();
        renamed.classes.iter_mut().zip(labels).for_each(|(class, label)| class.label = label.into());
        renamed
    };
    let indices = |before: &State, after: &State| [3, 4, 5].map(|class| before.index_of(&base_model, after, class));
    let renamed = called(["mug", &label(4)]);
    let another = NewClass { label: label(3), ..new_class(5, 3) };
    let (more, _) = learn_on(&base_model, &renamed, &[another], 1, &mut proceed).unwrap();
    assert_eq!(indices(&state, &more), [Some(3), Some(4), None], "the third one is new, though its label was known");
    let swapped = called([&label(4), &label(3)]);
    for before in [renamed, swapped] {
        let known = [3, 4].map(|class| before.index_of(&base_model, &state, class));
        assert_eq!(known, [Some(3), Some(4)]);
        let back = within(&base_model, 1, |session| session.align(&before, state.clone(), Sampling::seeded(1)));
        let report = back.unwrap().1;
        assert_eq!(report.new_accuracy(), None, "a label that comes back makes no class new");
        assert!(report.classes.iter().all(|class| class.before == Some(class.after)), "{:?}", report.classes);
    }
    // Learned in the same session of another past, with the same target.
    let (mut other, _) = learn_with(&base_model, &[new_class(5, 3)], 1).unwrap();
    other.classes[0].target = state.classes[0].target;
    assert_eq!(other.index_of(&base_model, &state, 3), None);
}

#[test]
fn cancelling_leaves_no_state() {
    let base_model = base_model(3);
    let mut epochs = 0;
    let mut stop = |progress: AlignProgress| {
        epochs = progress.epoch;
        if progress.epoch == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let state = State::fresh(&base_model, [0; 32]);
    let cancelled = learn_on(&base_model, &state, &[new_class(3, 2)], 1, &mut stop);
    assert_eq!(cancelled.unwrap_err(), LearnError::Align(AlignError::Cancelled));
    assert_eq!(epochs, 3);
}

#[test]
fn all_targets_can_be_taken() {
    let base_model = base_model(3);
    let all: Vec<NewClass> = (3..DIMENSION).map(|class| new_class(class, 2)).collect();
    let (state, report) = learn_with(&base_model, &all, 1).unwrap();
    assert_eq!(report.free_targets, 0);
    assert!(state.head(&base_model).is_sound());
}

#[test]
fn settings_out_of_range_are_refused() {
    let mut base_model = base_model(3);
    base_model.config.batch = 0;
    let refused = learn_with(&base_model, &[new_class(3, 2)], 1).unwrap_err();
    assert_eq!(refused, LearnError::Align(AlignError::Settings { problem: "batch must be from 1 to 1024" }));
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let base_model = base_model(4);
    let (state, new) = (State::fresh(&base_model, [0; 32]), [new_class(4, 5), new_class(5, 5)]);
    let with = |threads: usize| {
        let threads = Threads(threads);
        let (memory, on_progress) = (&mut SessionMemory::default(), &mut proceed);
        let (base_model, config) = (&base_model, &base_model.config);
        Session { base_model, config, seed: 1, memory, workers: &threads, on_progress }.learn(&state, &new).unwrap().0
    };
    let one = with(1);
    for threads in [2, 3, 8] {
        assert_eq!(with(threads), one, "{threads} threads");
    }
}

#[test]
fn a_bundle_without_base_classes_learns_too() {
    let base_model = base_model(3);
    let empty =
        BaseModel { classes: Vec::new(), exemplars: Bank::new(INPUTS, 2, ExemplarPrecision::Int8), ..base_model };
    assert!(empty.is_sound());
    let (one, report) = learn_with(&empty, &[new_class(0, 1)], 1).unwrap();
    assert_eq!((report.old_accuracy(), report.new_accuracy()), (None, Some(1.0)));
    let (more, _) = learn_on(&empty, &one, &[new_class(1, 5), new_class(2, 3)], 1, &mut proceed).unwrap();
    assert!(more.is_sound(&empty));
    assert!(accuracy(&empty, &more, 0..3) > 0.8, "{}", accuracy(&empty, &more, 0..3));
}

#[test]
fn a_new_class_is_known_provisionally_at_once() {
    let base_model = base_model(4);
    let state = State::fresh(&base_model, [0; 32]);
    let mut classifier = Classifier::new(&base_model, &state);
    classifier.imprint(&new_class(4, 5).shots);
    let mut random = Random::new(9, "fresh samples");
    let right = |class: usize, random: &mut Random| {
        (0..10).filter(|_| classifier.nearest(&feature(class, random))[0] == class).count()
    };
    assert!(right(4, &mut random) > 7);
    assert!((0..4).map(|class| right(class, &mut random)).sum::<usize>() > 30);
}

#[test]
fn class_means_have_their_weight_in_a_score() {
    let base_model = base_model(3);
    let (mut state, _) = learn_with(&base_model, &[new_class(3, 5)], 1).unwrap();
    let picture = feature(3, &mut Random::new(9, "fresh samples"));
    let settings =
        |class_means, base_exemplars| MethodConfig { class_means, base_exemplars, ..base_model.config.clone() };
    let scores = |state: &State, weight, base| {
        Classifier::with_config(&base_model, state, &settings(weight, base)).scores(&picture)
    };
    let (targets, both) = (scores(&state, 0.0, 5), scores(&state, 0.5, 5));
    let mut direction = picture.clone();
    normalise(&mut direction);
    for class in 0..4 {
        let bank = if class < 3 { &base_model.exemplars } else { &state.exemplars };
        let mut mean = bank.means(4)[class * INPUTS..][..INPUTS].to_vec();
        normalise(&mut mean);
        let expected = (targets[class] + 0.5 * dot(&direction, &mean)) / 1.5;
        assert!((both[class] - expected).abs() < 1e-5, "class {class}: {} and {expected}", both[class]);
    }
    assert_ne!(scores(&state, 0.5, 1), both, "one exemplar of a base class instead of five");
    // Where a class has no exemplar, the means of the others would be an advantage or a handicap.
    assert_eq!(scores(&state, 0.5, 0), targets);
    state.exemplars = state.exemplars.empty_like();
    assert_eq!(scores(&state, 0.5, 5), targets);
    let fresh = State::fresh(&base_model, [0; 32]);
    let mut classifier = Classifier::with_config(&base_model, &fresh, &settings(0.5, 5));
    classifier.imprint(&new_class(3, 5).shots);
    let shots: Vec<f32> = new_class(3, 5).shots.concat();
    let mut mean = vec![0.0; INPUTS];
    shots.chunks_exact(INPUTS).for_each(|shot| add_scaled(&mut mean, 1.0, shot));
    normalise(&mut mean);
    let mut by_targets = Classifier::with_config(&base_model, &fresh, &settings(0.0, 5));
    by_targets.imprint(&new_class(3, 5).shots);
    let expected = (by_targets.scores(&picture)[3] + 0.5 * dot(&direction, &mean)) / 1.5;
    // Of two pictures the second: rows must not shift.
    let second = classifier.scores(&[feature(0, &mut Random::new(8, "fresh samples")), picture].concat())[7];
    assert!((second - expected).abs() < 1e-5, "{second} and {expected}");
}

#[test]
fn exemplars_stay_within_their_bytes() {
    let base = base_model(3);
    let one = Bank::new(INPUTS, 2, ExemplarPrecision::F16);
    let exemplar_bytes = 4 * one.bytes_per_exemplar();
    let config = MethodConfig { exemplar_bytes, precision: ExemplarPrecision::F16, ..base.config.clone() };
    let base_model = BaseModel { config, ..base };
    let (state, _) = learn_with(&base_model, &[new_class(3, 5), new_class(4, 5)], 1).unwrap();
    assert_eq!(state.exemplars.classes(), [3, 3, 4, 4]);
    assert!(state.is_sound(&base_model) && state.exemplars.bytes() <= exemplar_bytes);
}

#[test]
fn every_number_of_exemplars_and_every_sample_learns() {
    let base = base_model(4);
    for base_exemplars in [0, 1, 5, 9] {
        for sample in [SampleViews::Pair, SampleViews::One] {
            let config = MethodConfig { base_exemplars, sample, ..base.config.clone() };
            let base_model = BaseModel { config, ..base.clone() };
            let (state, report) = learn_with(&base_model, &[new_class(4, 3)], 1).unwrap();
            assert_eq!(report.samples, 4 * base_exemplars.min(5) + 3);
            assert!(accuracy(&base_model, &state, 4..5) > 0.8, "{base_exemplars}, {sample:?}");
        }
    }
}

#[test]
fn a_session_that_diverges_is_refused() {
    let base = base_model(3);
    // The pull towards zero overshoots, further in every step.
    let (learning_rate, weight_decay, layer_rates) = (100.0, 1.0, [1e3; 2]);
    let config = MethodConfig { learning_rate, weight_decay, layer_rates, warmup_epochs: 0, ..base.config.clone() };
    let base_model = BaseModel { config, ..base };
    let refused = learn_with(&base_model, &[new_class(3, 3)], 1).unwrap_err();
    assert!(matches!(refused, LearnError::Align(AlignError::Diverged { .. })), "{refused}");
}

#[test]
fn extreme_features_leave_finite_numbers() {
    let base = base_model(3);
    let extremes = [
        NewClass { label: label(3), shots: alloc::vec![alloc::vec![0.0; INPUTS]; 2] },
        NewClass { label: label(4), shots: alloc::vec![alloc::vec![1e14; INPUTS]] },
        NewClass { label: label(5), shots: alloc::vec![alloc::vec![1e-30; INPUTS]; 3] },
    ];
    for temperature in [1e-3, 0.07, 100.0] {
        for batch in [1, 64] {
            let config = MethodConfig { temperature, batch, ..base.config.clone() };
            let base_model = BaseModel { config, ..base.clone() };
            match learn_with(&base_model, &extremes, 1) {
                Ok((state, _)) => assert!(state.is_sound(&base_model)),
                Err(error) => assert!(matches!(error, LearnError::Align(AlignError::Diverged { .. })), "{error}"),
            }
            let ordinary = [new_class(3, 2), NewClass { label: label(4), shots: new_class(3, 2).shots }];
            let (state, _) = learn_with(&base_model, &ordinary, 1).unwrap();
            assert!(state.is_sound(&base_model), "two classes of the same pictures, {temperature}, {batch}");
        }
    }
}

#[test]
fn relearning_gives_the_state_of_learning_session_by_session() {
    let base_model = base_model(4);
    let fresh = State::fresh(&base_model, [0; 32]);
    let sessions = [alloc::vec![new_class(4, 5), new_class(5, 5)], Vec::new(), alloc::vec![new_class(6, 5)]];
    let more = NewClass { label: label(1), ..new_class(1, 2) };
    let (relearned, report) =
        within(&base_model, 1, |session| session.relearn(&fresh, &sessions, core::slice::from_ref(&more))).unwrap();
    let mut expected = fresh.clone();
    for session in sessions.iter().filter(|session| !session.is_empty()) {
        expected = within(&base_model, 1, |step| step.learn(&expected, session)).unwrap().0;
    }
    let (mut expected, _) = within(&base_model, 1, |session| session.add_shots(&expected, &more)).unwrap();
    // When each class was first counted differs: here all at once.
    expected.first_recognitions.clone_from(&relearned.first_recognitions);
    assert_eq!(relearned, expected);
    assert_eq!(report.new_accuracy(), Some(1.0));
    let again = within(&base_model, 1, |session| session.relearn(&fresh, &[], &[])).unwrap().0;
    assert_eq!(again, fresh, "nothing was learned, and nothing is");
    let twice = [alloc::vec![new_class(4, 5)], alloc::vec![new_class(4, 5)]];
    let refused = within(&base_model, 1, |session| session.relearn(&fresh, &twice, &[])).unwrap_err();
    assert!(matches!(refused, LearnError::LabelTwice { .. }));
}

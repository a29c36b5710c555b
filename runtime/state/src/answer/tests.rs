//! The combined answer held to an independent implementation, and what must hold for any state.

use std::vec;
use std::vec::Vec;

use orco_core::border::Border;
use orco_core::config::{AnswerWeights, MethodConfig};
use orco_core::exemplar::ExemplarPrecision;
use orco_core::projection::HeadShape;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::bank::Bank;
use crate::classify::Classifier;
use crate::head::Head;
use crate::state::{Balance, Class};
use crate::statistics::Statistics;

/// `combined-answer.py` beside it writes it.
const GOLDEN: &str = include_str!("combined-answer.json");

/// A base model, and a state with two learned classes whose head was aligned.
struct Golden {
    value: Value,
    base_model: BaseModel,
    state: State,
}

impl Golden {
    fn read() -> Self {
        let value: Value = serde_json::from_str(GOLDEN).unwrap();
        let golden = Reader(&value);
        let (inputs, base) = (golden.count(&["shape", "inputs"]), golden.count(&["base"]));
        let (views, precision) = (golden.count(&["views"]), ExemplarPrecision::F16);
        let one_of_each = |name: &str| {
            let mut bank = Bank::new(inputs, 1, precision);
            let rows = golden.numbers(&[name]);
            rows.chunks_exact(inputs).enumerate().for_each(|(class, row)| bank.push(class as u32, row));
            bank
        };
        let deviations = golden.numbers(&["deviations"]);
        let statistics = Statistics {
            centre: golden.numbers(&["centre"]),
            root_centre: golden.numbers(&["root_centre"]),
            axes: one_of_each("axes"),
            damping: golden.numbers(&["damping"]),
            factor: golden.number(&["factor"]),
            directions: one_of_each("directions"),
            whitened: one_of_each("whitened"),
            deviations: [deviations[0], deviations[1], deviations[2]],
            initial_shift: 0.0,
            set_aside: Bank::new(inputs, 1, precision),
            base_accuracy_ratio: None,
        };
        let weight = |name: &str| golden.number(&["weights", name]);
        let answer = AnswerWeights {
            targets: weight("targets"),
            aligned: weight("aligned"),
            means: weight("means"),
            discriminant: weight("discriminant"),
            class_offset: 0.0,
            scatter_prior: golden.number(&["scatter_prior"]),
        };
        let config = MethodConfig { views, precision, answer: Some(answer), ..MethodConfig::combined() };
        let class = |target: usize| Class {
            label: std::format!("class {target}"),
            target: target as u32,
            session: u32::from(target >= base),
        };
        let base_model = BaseModel {
            dimension: golden.count(&["shape", "outputs"]),
            targets: golden.numbers(&["targets"]),
            head: golden.head("phase_2"),
            classes: (0..base).map(class).collect(),
            exemplars: Bank::new(inputs, views, precision),
            config,
            statistics: Some(statistics),
        };
        let mut state = State::fresh(&base_model, [0; 32]);
        let classes = golden.numbers(&["classes"]);
        let learned = classes.iter().fold(0, |most, class| (*class as usize + 1).max(most)) - base;
        state.classes = (base..base + learned).map(class).collect();
        state.sessions = 1;
        for (class, shot) in classes.iter().zip(golden.numbers(&["shots"]).chunks_exact(views * inputs)) {
            state.exemplars.push(*class as u32, shot);
        }
        state.head = Some(golden.head("aligned"));
        let border = Border { shift: 0.0, base: 1.0, learned: 1.0 };
        state.calibration = Some(Calibration { border, temperature: 1.0 });
        Self { value, base_model, state }
    }

    fn unaligned(&self) -> State {
        State { head: None, ..self.state.clone() }
    }

    fn numbers(&self, name: &str) -> Vec<f32> {
        Reader(&self.value).numbers(&[name])
    }

    fn with_one_shot_of_the_last_class(mut self) -> Self {
        let classes = self.state.exemplars.classes();
        let last = classes.iter().position(|class| Some(class) == classes.iter().max()).unwrap();
        self.state.exemplars = self.state.exemplars.only(&(0..=last).collect::<Vec<_>>());
        self
    }

    /// The scene of a border: the same heads and targets, other base classes, shots and samples set aside.
    fn border_scene(&self) -> Self {
        let golden = Reader(&self.value["border"]);
        let (mut base_model, mut state) = (self.base_model.clone(), self.state.clone());
        let (inputs, views) = (base_model.head.inputs, base_model.config.views);
        let bank = |views: usize, classes: &[f32], name: &str| {
            let mut bank = Bank::new(inputs, views, ExemplarPrecision::F16);
            let rows = golden.numbers(&[name]);
            let each = classes.iter().zip(rows.chunks_exact(views * inputs));
            each.for_each(|(class, row)| bank.push(*class as u32, row));
            bank
        };
        let every: Vec<f32> = (0..base_model.classes.len()).map(|class| class as f32).collect();
        let statistics = base_model.statistics.as_mut().unwrap();
        statistics.centre = golden.numbers(&["centre"]);
        statistics.directions = bank(1, &every, "directions");
        statistics.whitened = bank(1, &every, "whitened");
        statistics.set_aside = bank(1, &golden.numbers(&["set_aside_classes"]), "set_aside");
        statistics.base_accuracy_ratio = Some(golden.number(&["accuracy_ratio"]));
        state.exemplars = bank(views, &golden.numbers(&["classes"]), "shots");
        state.calibration = None;
        Self { value: self.value.clone(), base_model, state }
    }

    /// The scene of a border with twelve shots of each learned class.
    fn many_shots(&self) -> Self {
        let golden = Reader(&self.value["many"]);
        let Self { base_model, mut state, .. } = self.border_scene();
        let (inputs, views) = (base_model.head.inputs, base_model.config.views);
        let mut shots = Bank::new(inputs, views, ExemplarPrecision::F16);
        let rows = golden.numbers(&["shots"]);
        let each = golden.numbers(&["classes"]).into_iter().zip(rows.chunks_exact(views * inputs));
        each.for_each(|(class, row)| shots.push(class as u32, row));
        state.exemplars = shots;
        state.calibration = self.state.calibration;
        Self { value: self.value["many"].clone(), base_model, state }
    }

    /// Scores of every shot, left out of its class.
    fn left_out(&self, state: &State) -> Vec<f32> {
        let scoring = self.base_model.scoring(&self.base_model.config).unwrap();
        let samples = ValidationSamples::of(&self.base_model, state, scoring);
        let (every, work) = (samples.even_samples(MAX_FIRST_SAMPLES), &mut ScoringWork::alone());
        let model = ScoringModel::new(&self.base_model, state, scoring, &samples.exemplars_to_score(&every, &[]), work);
        let scored = samples.scored_samples(&model, &every, work);
        scored.into_values().flat_map(|sample| sample.scores).collect()
    }
}

/// Numbers of the golden file by the names of its fields.
struct Reader<'a>(&'a Value);

impl Reader<'_> {
    fn at(&self, path: &[&str]) -> &Value {
        path.iter().fold(self.0, |value, name| &value[*name])
    }

    fn number(&self, path: &[&str]) -> f32 {
        self.at(path).as_f64().unwrap() as f32
    }

    fn count(&self, path: &[&str]) -> usize {
        self.at(path).as_u64().unwrap() as usize
    }

    fn numbers(&self, path: &[&str]) -> Vec<f32> {
        self.at(path).as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
    }

    fn head(&self, name: &str) -> Head {
        let part = |part: &str| self.numbers(&[name, part]);
        let size = |size: &str| self.count(&["shape", size]);
        let shape = HeadShape { inputs: size("inputs"), hidden: size("hidden"), outputs: size("outputs") };
        Head { w1: part("w1"), b1: part("b1"), w2: part("w2"), b2: part("b2"), ..Head::zeros(shape) }
    }
}

fn assert_near(ours: &[f32], expected: &[f32]) {
    assert_eq!(ours.len(), expected.len());
    for (index, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        assert!((ours - expected).abs() < 2e-5, "number {index}: {ours} instead of {expected}");
    }
}

#[test]
fn scores_are_those_of_an_independent_implementation() {
    let golden = Golden::read();
    let pictures = golden.numbers("pictures");
    let scores = |state: &State| Classifier::new(&golden.base_model, state).scores(&pictures);
    assert_near(&scores(&golden.state), &golden.numbers("scores"));
    assert_near(&scores(&golden.unaligned()), &golden.numbers("scores_before_alignment"));
    assert_near(&golden.left_out(&golden.state), &golden.numbers("left_out"));
    assert_near(&golden.left_out(&golden.unaligned()), &golden.numbers("left_out_before_alignment"));
}

#[test]
fn more_than_five_shots_count_as_an_independent_implementation_counts_them() {
    let golden = Golden::read().many_shots();
    let pictures = Golden::read().numbers("pictures");
    let scores = Classifier::new(&golden.base_model, &golden.state).scores(&pictures);
    assert_near(&scores, &golden.numbers("scores"));
    // Samples that were set aside come first.
    let left_out = golden.left_out(&golden.state);
    let expected = golden.numbers("left_out");
    assert_near(&left_out[left_out.len() - expected.len()..], &expected);
}

#[test]
fn borders_are_those_of_an_independent_implementation() {
    let scene = Golden::read().border_scene();
    let scoring = scene.base_model.scoring(&scene.base_model.config).unwrap();
    let base = scene.base_model.classes.len();
    let fresh = State::fresh(&scene.base_model, [0; 32]);
    let indices: Vec<Option<usize>> =
        (0..base + scene.state.classes.len()).map(|class| (class < base).then_some(class)).collect();
    for balance in Balance::ALL {
        let state = State { balance, ..scene.state.clone() };
        let samples = ValidationSamples::of(&scene.base_model, &state, scoring);
        let validation = samples.validate(&fresh, &indices, &mut ScoringWork::alone());
        let Border { shift, base, learned } = validation.calibration.border;
        assert_near(&[shift, base, learned], &Reader(&scene.value["border"]).numbers(&[balance.name()]));
    }
}

#[test]
fn views_of_left_out_shots_score_as_in_an_independent_implementation() {
    let Golden { value, base_model, state } = Golden::read().border_scene();
    let (bank, base) = (&state.exemplars, base_model.classes.len());
    let (scoring, every) = (base_model.scoring(&base_model.config).unwrap(), (0..bank.len()).collect::<Vec<_>>());
    let model = ScoringModel::new(&base_model, &state, scoring, &every, &mut ScoringWork::alone());
    let left_out = |exemplar: usize| {
        let class = bank.classes()[exemplar] as usize;
        model::LeftOutShot { exemplar, class, copies: 1 }
    };
    let of_shot = |exemplar: usize| {
        let shot = left_out(exemplar);
        let own = |other: &usize| *other != exemplar && bank.classes()[*other] as usize == shot.class;
        let others: Vec<_> = (0..bank.len()).filter(own).map(left_out).collect();
        let contributions = model.embedder.contributions_of(bank, &[exemplar], &model.projections);
        let row = model.without(&[shot], contributions).remove(0).unwrap();
        let (digest, embedded) =
            (bank.digest_of(exemplar), model.embedder.embed_clean(bank, &[exemplar], &model.projections));
        let roots = &embedded[model.row_builder.roots_start()..];
        let scattered = scatter::ScatteredShot { class: shot.class as u32, digest: &digest, roots };
        let change = model.scatter_changes([scattered].into_iter()).remove(0).unwrap();
        let viewed = left_out::ViewedShot { shot, row: row.changed(Some(&change)), others, change: Some(change) };
        left_out::view_scores(&model, bank, &model.projections, &[viewed], true).remove(0)
    };
    let shots = (0..bank.len()).filter(|exemplar| bank.classes()[*exemplar] as usize >= base);
    let scores: Vec<f32> = shots.flat_map(of_shot).collect();
    assert_near(&scores, &Reader(&value["border"]).numbers(&["left_out_views"]));
}

#[test]
fn thresholds_have_the_scores_of_views_under_the_whole_aligned_head() {
    let Golden { value, base_model, state } = Golden::read().border_scene();
    let scoring = base_model.scoring(&base_model.config).unwrap();
    let samples = ValidationSamples::of(&base_model, &state, scoring);
    let (viewed, work) = (samples.viewed_samples(MAX_FIRST_VIEWED), &mut ScoringWork::alone());
    let model = ScoringModel::new(&base_model, &state, scoring, &samples.exemplars_to_score(&[], &viewed), work);
    let views = samples.scored_views(&model, &viewed, work);
    let scores: Vec<f32> = views.into_iter().flat_map(|view| view.scores).collect();
    assert_near(&scores, &Reader(&value["border"]).numbers(&["threshold_views"]));
}

/// Of one shot, which does not scatter: further ones change the scores of all classes once they are stored.
#[test]
fn a_class_known_provisionally_scores_as_it_will_when_it_is_stored() {
    let golden = Golden::read().with_one_shot_of_the_last_class();
    let pictures = golden.numbers("pictures");
    let scores = Classifier::new(&golden.base_model, &golden.state).scores(&pictures);
    let (mut fewer, known) = (golden.state.clone(), golden.base_model.classes.len() + golden.state.classes.len());
    let last = fewer.classes.pop().unwrap();
    let shots: Vec<Vec<f32>> = {
        let own = fewer.exemplars.of_class(known as u32 - 1);
        let mut view = vec![0.0; own.inputs()];
        let views = |shot: usize, view_of: &mut Vec<f32>| {
            (0..own.views())
                .flat_map(|number| {
                    own.as_exemplars().read(shot, number, view_of);
                    view_of.clone()
                })
                .collect::<Vec<f32>>()
        };
        (0..own.len()).map(|shot| views(shot, &mut view)).collect()
    };
    fewer.exemplars.remove_class(known as u32 - 1);
    let mut classifier = Classifier::new(&golden.base_model, &fewer);
    classifier.imprint(&shots);
    assert_near(&classifier.scores(&pictures), &scores);
    assert_eq!(last.target as usize, known - 1);
}

#[test]
fn the_targets_of_learned_classes_do_not_matter() {
    let golden = Golden::read();
    let pictures = golden.numbers("pictures");
    let scores = |state: &State| Classifier::new(&golden.base_model, state).scores(&pictures);
    let mut swapped = golden.state.clone();
    let [one, other] = [0, 1].map(|class: usize| swapped.classes[class].target);
    (swapped.classes[0].target, swapped.classes[1].target) = (other, one);
    assert_eq!(scores(&swapped), scores(&golden.state));
}

#[test]
fn one_head_twice_answers_as_that_head_with_both_weights() {
    let mut golden = Golden::read();
    golden.state.head = Some(golden.base_model.head.clone());
    let pictures = golden.numbers("pictures");
    let scores = |state: &State| Classifier::new(&golden.base_model, state).scores(&pictures);
    assert_near(&scores(&golden.state), &scores(&golden.unaligned()));
}

/// Of two learned classes, one of which lies nearer to the base classes' samples, that one gets the lower offset, the
/// other one as much a higher one; what shots say of it when they are left out is offset alike.
#[test]
fn a_class_that_lies_nearer_to_everything_is_offset() {
    let mut golden = Golden::read();
    let pictures = golden.numbers("pictures");
    let inputs = golden.base_model.head.inputs;
    let statistics = golden.base_model.statistics.as_mut().unwrap();
    for picture in pictures.chunks_exact(inputs) {
        statistics.set_aside.push(0, picture);
    }
    let base = golden.base_model.classes.len();
    let scores = |golden: &Golden| Classifier::new(&golden.base_model, &golden.state).scores(&pictures);
    let (plain, plain_left_out) = (scores(&golden), golden.left_out(&golden.state));
    let lead = |class: usize| {
        let rows = plain.chunks_exact(base + 2);
        rows.map(|row| row[class] - highest(&row[..base])).fold(f32::MIN, f32::max)
    };
    let excess = [lead(base), lead(base + 1)];
    assert!((excess[0] - excess[1]).abs() > 1e-3, "{excess:?}");
    golden.base_model.config.answer.as_mut().unwrap().class_offset = 0.5;
    // Half the distance to their mean: of five samples, the nearest one counts.
    let offset = 0.25 * (excess[1] - excess[0]);
    let expected = |plain: &[f32]| {
        let mut expected = plain.to_vec();
        for row in expected.chunks_exact_mut(base + 2) {
            row[base] += offset;
            row[base + 1] -= offset;
        }
        expected
    };
    assert_near(&scores(&golden), &expected(&plain));
    let aside = pictures.len() / inputs * (base + 2);
    assert_near(&golden.left_out(&golden.state)[aside..], &expected(&plain_left_out)[aside..]);
}

proptest! {
    /// Weights say what counts: a head without weight changes nothing, and shares are all that matters.
    #[test]
    fn weights_are_shares(targets in 0.0f32..1.0, aligned in 0.0f32..1.0, factor in 0.1f32..10.0) {
        let mut golden = Golden::read();
        let pictures = golden.numbers("pictures");
        let weights = AnswerWeights { targets, aligned, discriminant: 2.0, ..AnswerWeights::NEAREST_MEAN };
        let mut scores = |state: &State, weights: AnswerWeights| {
            golden.base_model.config.answer = Some(weights);
            Classifier::new(&golden.base_model, state).scores(&pictures)
        };
        let (state, unaligned) = (golden.state.clone(), State { head: None, ..golden.state.clone() });
        let scaled = AnswerWeights {
            targets: factor * targets,
            aligned: factor * aligned,
            means: factor,
            discriminant: 2.0 * factor,
            ..weights
        };
        assert_near(&scores(&state, weights), &scores(&state, scaled));
        let alone = AnswerWeights { aligned: 0.0, ..weights };
        prop_assert_eq!(scores(&state, alone), scores(&unaligned, alone));
        let moved = AnswerWeights { targets: targets + aligned, aligned: 0.0, ..weights };
        assert_near(&scores(&unaligned, weights), &scores(&unaligned, moved));
    }
}

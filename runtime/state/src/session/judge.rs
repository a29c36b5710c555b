//! How a state answers for what is stored, before a change and after it.
//!
//! No sample speaks for itself. Answers that follow the paper are judged by targets alone, on the exemplars that were
//! trained on: an exemplar is part of its class's mean, which would speak for it whatever became of the head. Answers
//! that use the bundle's statistics are judged on samples that the bundle set aside, and on shots left out of their
//! class's mean in turn; the border is chosen by the same samples.

use alloc::vec::Vec;
use core::ops::Range;

use orco_core::align::Losses;
use orco_core::config::Config;

use super::report::AnsweredState;
use super::{Report, Since, data};
use crate::answer::{Judged, Judgement};
use crate::classify::Classifier;
use crate::state::{BaseModel, Class, Origin, Scoring, State};

/// Samples with the answers of several states.
struct Answers {
    /// Class of every sample.
    classes: Vec<u32>,
    /// How many of them, at the beginning, the bundle brought.
    base: usize,
    /// Of those, by the bundle alone, when nothing else was known.
    first: Vec<usize>,
    /// Before the change.
    earlier: Vec<usize>,
    /// After it.
    later: Vec<usize>,
    /// Pairs of classes that have a shot in common.
    pairs: Vec<[u32; 2]>,
    /// Classes that have a shot more than once, with how many too many.
    repeated: Vec<(u32, usize)>,
}

/// Chooses the border of the later state, where it has one, compares the answers of both, and notes in the later one
/// how new classes are recognised at first.
pub(super) fn report(
    base_model: &BaseModel,
    before: &State,
    after: &mut State,
    config: &Config,
    losses: Vec<Losses>,
) -> Report {
    let answers = match base_model.scoring(config) {
        Some(scoring) => by_all(base_model, before, after, scoring),
        None => by_targets(base_model, before, after, config),
    };
    let Answers { classes, base, first, earlier, later, pairs, repeated } = &answers;
    // Classes whose first shots nobody counted: new ones are counted now, those of older releases as they were before
    // this.
    let indices: Vec<Option<usize>> = after.classes.iter().map(|class| index_of(class, base_model, before)).collect();
    after.origins.resize(after.classes.len(), Origin::UNKNOWN);
    for (index, origin) in after.origins.iter_mut().enumerate().filter(|(_, origin)| origin.shots == 0) {
        let class = base_model.classes.len() + index;
        for sample in (*base..classes.len()).filter(|&sample| classes[sample] as usize == class) {
            let right = indices[index].map_or(later[sample] == class, |was| earlier.get(sample) == Some(&was));
            origin.shots += 1;
            origin.recognised += u32::from(right);
        }
    }
    let since = |class: usize| {
        let origin = class.checked_sub(base_model.classes.len()).map(|index| after.origins[index]);
        let own = |range: Range<usize>| range.filter(|&sample| classes[sample] as usize == class);
        let share = |right: usize, of: usize| right as f32 / of.max(1) as f32;
        let (first, samples): (f32, Vec<usize>) = match origin {
            None => {
                let samples: Vec<usize> = own(0..*base).collect();
                let right = samples.iter().filter(|&&sample| first[sample] == class).count();
                (share(right, samples.len()), samples)
            }
            Some(Origin { shots, recognised }) => {
                let samples = own(*base..classes.len()).take(shots as usize).collect();
                (share(recognised as usize, shots as usize), samples)
            }
        };
        let right = samples.iter().filter(|&&sample| later[sample] == class).count();
        (!samples.is_empty()).then(|| Since { first, now: share(right, samples.len()), samples: samples.len() as u32 })
    };
    let since: Vec<Option<Since>> = (0..base_model.classes.len() + after.classes.len()).map(since).collect();
    let labels: Vec<_> = after.known(base_model).map(|class| &class.label).collect();
    let in_two_classes = pairs.iter().map(|pair| pair.map(|class| labels[class as usize].clone())).collect();
    let repeated = repeated.iter().map(|&(class, shots)| (labels[class as usize].clone(), shots)).collect();
    let report = Report::new(
        base_model,
        AnsweredState { state: before, answers: earlier },
        AnsweredState { state: after, answers: later },
        classes,
        &since,
        losses,
    );
    Report { in_two_classes, repeated, ..report }
}

/// Index of the same class in another state, base classes first.
fn index_of(class: &Class, base_model: &BaseModel, state: &State) -> Option<usize> {
    state.known(base_model).position(|known| known.label == class.label)
}

/// On the exemplars that `after` was trained on, by targets alone.
fn by_targets(base_model: &BaseModel, before: &State, after: &State, config: &Config) -> Answers {
    let data = data(base_model, after);
    let (mut features, mut classes) = (Vec::new(), Vec::new());
    let mut base = 0;
    for exemplar in data.exemplars(config) {
        base += usize::from((exemplar as usize) < data.base.len());
        let (bank, exemplar) = data.find(exemplar);
        let first = features.len();
        features.resize(first + bank.dimension, 0.0);
        bank.read(exemplar, 0, &mut features[first..]);
        classes.push(bank.classes[exemplar]);
    }
    let by_targets = config.by_targets_alone();
    let answers =
        |state: &State, features: &[f32]| Classifier::with_config(base_model, state, &by_targets).nearest(features);
    let bundle = State::fresh(base_model, after.base_model);
    Answers {
        first: answers(&bundle, &features[..base * base_model.head.inputs]),
        earlier: answers(before, &features),
        later: answers(after, &features),
        classes,
        base,
        pairs: Vec::new(),
        repeated: Vec::new(),
    }
}

/// On samples set aside and shots left out in turn, by all that is known; chooses the border first.
fn by_all(base_model: &BaseModel, before: &State, after: &mut State, scoring: Scoring<'_>) -> Answers {
    let judged = Judged::of(base_model, after, scoring);
    let indices: Vec<Option<usize>> =
        after.known(base_model).map(|class| index_of(class, base_model, before)).collect();
    let Judgement { calibration, answers: later, earlier, excluded } = judged.judge(before, &indices);
    let (classes, base) = (judged.classes(), judged.set_aside());
    let bundle = State::fresh(base_model, after.base_model);
    let first = judged.answers(&bundle, &|_| None, 0..base);
    let pairs = judged.pairs().into_iter().collect();
    let repeated = judged.repeated().into_iter().collect();
    after.calibration = (!after.classes.is_empty()).then_some(calibration);
    // None of the samples set aside is excluded, so the first ones stay what they are.
    Answers {
        base,
        classes: included(classes, &excluded),
        first,
        earlier: included(earlier, &excluded),
        later: included(later, &excluded),
        pairs,
        repeated,
    }
}

/// What belongs to the samples that are not excluded.
fn included<T>(of_samples: Vec<T>, excluded: &[bool]) -> Vec<T> {
    of_samples.into_iter().zip(excluded).filter(|(_, excluded)| !**excluded).map(|(one, _)| one).collect()
}

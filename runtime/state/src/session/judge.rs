//! How a state answers for what is stored, before a change and after it.
//!
//! No sample speaks for itself. Answers that follow the paper are judged by targets alone, on the exemplars that were
//! trained on: an exemplar is part of its class's mean, which would speak for it whatever became of the head. Answers
//! that use the bundle's statistics are judged on samples that the bundle set aside, and on shots left out of their
//! class's mean in turn; the border is chosen by the same samples.

use alloc::vec::Vec;
use core::ops::Range;

use orco_core::align::LossTerms;
use orco_core::config::{AnswerWeights, Config};

use super::{CumulativeLoss, SessionReport, data};
use crate::answer::{Validation, ValidationSamples};
use crate::classify::Classifier;
use crate::state::{BaseModel, Class, Origin, State};
use crate::statistics::Statistics;

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
    losses: Vec<LossTerms>,
) -> SessionReport {
    let answers = match base_model.answers(config) {
        Some(with) => by_all(base_model, before, after, with),
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
        (!samples.is_empty()).then(|| CumulativeLoss {
            first,
            now: share(right, samples.len()),
            samples: samples.len() as u32,
        })
    };
    let since: Vec<Option<CumulativeLoss>> = (0..base_model.classes.len() + after.classes.len()).map(since).collect();
    let labels: Vec<_> = after.known(base_model).map(|class| &class.label).collect();
    let in_two_classes = pairs.iter().map(|pair| pair.map(|class| labels[class as usize].clone())).collect();
    let repeated = repeated.iter().map(|&(class, shots)| (labels[class as usize].clone(), shots)).collect();
    let report = SessionReport::new(base_model, (before, earlier), (after, later), classes, &since, losses);
    SessionReport { in_two_classes, repeated, ..report }
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
    let bundle = State::fresh(base_model, after.bundle_digest);
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
fn by_all(base_model: &BaseModel, before: &State, after: &mut State, with: (AnswerWeights, &Statistics)) -> Answers {
    let judged = ValidationSamples::of(base_model, after, with);
    let indices: Vec<Option<usize>> =
        after.known(base_model).map(|class| index_of(class, base_model, before)).collect();
    let Validation { calibration, answers: later, earlier, mute } = judged.judge(before, &indices);
    let (classes, base) = (judged.classes(), judged.set_aside());
    let bundle = State::fresh(base_model, after.bundle_digest);
    let first = judged.answers(&bundle, &|_| None, 0..base);
    let pairs = judged.pairs().into_iter().collect();
    let repeated = judged.repeated().into_iter().collect();
    after.calibration = (!after.classes.is_empty()).then_some(calibration);
    // None of the samples set aside is mute, so the first ones stay what they are.
    let speaking =
        |all: Vec<usize>| all.into_iter().zip(&mute).filter(|(_, mute)| !**mute).map(|(one, _)| one).collect();
    let classes = classes.into_iter().zip(&mute).filter(|(_, mute)| !**mute).map(|(class, _)| class).collect();
    Answers { base, classes, first, earlier: speaking(earlier), later: speaking(later), pairs, repeated }
}

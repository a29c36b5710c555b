//! Evaluates the states before and after a change on stored samples.
//!
//! No sample may help to recognise itself. Answers that follow the paper are evaluated by targets alone, on the
//! exemplars that were trained on: class means contain these exemplars, and would hide what the head has forgotten.
//! Answers that use the bundle's statistics are evaluated on samples that the bundle set aside, and on shots left out
//! of their class's mean in turn; the border is chosen by the same samples.

use alloc::vec::Vec;
use core::ops::Range;

use orco_core::align::LossTerms;
use orco_core::config::MethodConfig;

use super::report::{EvaluatedSamples, share};
use super::{ChangeReport, CumulativeLoss, alignment_data};
use crate::answer::{ScoringWork, Validation, ValidationSamples};
use crate::classify::Classifier;
use crate::state::{BaseModel, FirstRecognition, Scoring, State};

/// Chooses the border of the later state, where it has one, compares the answers of both, and notes in the later one
/// how new classes are recognised at first.
pub(super) fn calibrate_and_report(
    base_model: &BaseModel,
    config: &MethodConfig,
    before: &State,
    after: &mut State,
    losses: Vec<LossTerms>,
    work: &mut ScoringWork<'_>,
) -> ChangeReport {
    let count = base_model.classes.len() + after.classes.len();
    let index_before: Vec<Option<usize>> = (0..count).map(|class| before.index_of(base_model, after, class)).collect();
    let samples = match base_model.scoring(config) {
        Some(scoring) => calibrate_and_answer(base_model, scoring, before, after, &index_before, work),
        None => answer_by_targets(base_model, before, after, config),
    };
    note_first_recognitions(base_model.classes.len(), &index_before, after, &samples);
    let since: Vec<Option<CumulativeLoss>> =
        (0..count).map(|class| samples.cumulative_loss(base_model, after, class)).collect();
    ChangeReport::new(base_model, after, index_before, &samples, &since, losses)
}

/// Counts the shots of a class, and those recognised at first, where that is not known yet: by the answers after the
/// change for new classes and for those that had a single shot, by the answers before it for classes that an older
/// release learned.
fn note_first_recognitions(base: usize, index_before: &[Option<usize>], after: &mut State, samples: &EvaluatedSamples) {
    after.first_recognitions.extend_to(after.classes.len());
    for (index, recognition) in after.first_recognitions.unknown_mut() {
        let class = base + index;
        let shots = samples.base_samples..samples.classes.len();
        // The class's index before the change, if all of its shots had an answer then.
        let index_before = index_before[class].filter(|_| {
            let mut shots = samples.of_class(class, shots.clone());
            shots.all(|sample| samples.before.get(sample).is_some_and(Option::is_some))
        });
        for sample in samples.of_class(class, shots) {
            let right = match index_before {
                Some(before) => samples.before[sample] == Some(before),
                None => samples.after[sample] == class,
            };
            recognition.shots += 1;
            recognition.recognised += u32::from(right);
        }
    }
}

impl EvaluatedSamples {
    /// The samples of a class in a range.
    fn of_class(&self, class: usize, samples: Range<usize>) -> impl Iterator<Item = usize> {
        samples.filter(move |&sample| self.classes[sample] as usize == class)
    }

    /// What all sessions have cost a class; `None` without samples.
    fn cumulative_loss(&self, base_model: &BaseModel, after: &State, class: usize) -> Option<CumulativeLoss> {
        let (first, samples): (f32, Vec<usize>) = match base_model.learned_index(class) {
            None => {
                let samples: Vec<usize> = self.of_class(class, 0..self.base_samples).collect();
                let right = samples.iter().filter(|&&sample| self.by_bundle[sample] == class).count();
                (share(right as u32, samples.len() as u32), samples)
            }
            // How the shots that are samples were recognised at first is not known.
            Some(_) if self.partly_sampled.get(class) == Some(&true) => return None,
            Some(learned) => {
                let FirstRecognition { shots, recognised } = after.first_recognitions.of(learned);
                let samples =
                    self.of_class(class, self.base_samples..self.classes.len()).take(shots as usize).collect();
                (share(recognised, shots), samples)
            }
        };
        let right = samples.iter().filter(|&&sample| self.after[sample] == class).count();
        let count = samples.len() as u32;
        (count > 0).then(|| CumulativeLoss { first, now: share(right as u32, count), samples: count })
    }
}

/// Answers of both states by targets alone, for the exemplars that `after` was trained on.
fn answer_by_targets(base_model: &BaseModel, before: &State, after: &State, config: &MethodConfig) -> EvaluatedSamples {
    let data = alignment_data(base_model, after);
    let (mut features, mut classes) = (Vec::new(), Vec::new());
    let mut base_samples = 0;
    let replaced = after.replaced(base_model);
    let is_answered = |exemplar: &u32| {
        let (bank, exemplar) = data.find(*exemplar);
        !replaced.get(bank.classes[exemplar] as usize).is_some_and(|replaced| *replaced)
    };
    for exemplar in data.exemplars(config).filter(is_answered) {
        base_samples += usize::from((exemplar as usize) < data.base.len());
        let (bank, exemplar) = data.find(exemplar);
        let first = features.len();
        features.resize(first + bank.inputs, 0.0);
        bank.read(exemplar, 0, &mut features[first..]);
        classes.push(bank.classes[exemplar]);
    }
    let by_targets = config.by_targets_alone();
    let answers =
        |state: &State, features: &[f32]| Classifier::with_config(base_model, state, &by_targets).nearest(features);
    let bundle = State::fresh(base_model, after.bundle_digest);
    EvaluatedSamples {
        by_bundle: answers(&bundle, &features[..base_samples * base_model.head.inputs]),
        before: answers(before, &features).into_iter().map(Some).collect(),
        after: answers(after, &features),
        classes,
        base_samples,
        exemplars: Vec::new(),
        partly_sampled: Vec::new(),
        sharing_shots: Vec::new(),
        repeated: Vec::new(),
        left_out: None,
    }
}

/// Chooses the border and the temperature of `after`, then answers with both states for samples set aside and for shots
/// left out in turn, by all four scores.
fn calibrate_and_answer(
    base_model: &BaseModel,
    scoring: Scoring<'_>,
    before: &State,
    after: &mut State,
    index_before: &[Option<usize>],
    work: &mut ScoringWork<'_>,
) -> EvaluatedSamples {
    let samples = ValidationSamples::of(base_model, after, scoring);
    let Validation { calibration, left_out, classes, exemplars, answers, earlier, partly_sampled, excluded } =
        samples.validate(before, index_before, work);
    // Samples that were set aside come first.
    let by_bundle = included(samples.answers_of_bundle(work), &excluded);
    let sharing_shots = samples.classes_sharing_shots().into_iter().collect();
    let repeated = samples.repeated().into_iter().collect();
    after.calibration = (!after.classes.is_empty()).then_some(calibration);
    EvaluatedSamples {
        base_samples: by_bundle.len(),
        classes: included(classes, &excluded),
        exemplars: included(exemplars, &excluded),
        by_bundle,
        before: included(earlier, &excluded),
        after: included(answers, &excluded),
        partly_sampled,
        sharing_shots,
        repeated,
        left_out,
    }
}

/// What belongs to the samples that are not excluded.
fn included<T>(of_samples: Vec<T>, excluded: &[bool]) -> Vec<T> {
    of_samples.into_iter().zip(excluded).filter(|(_, excluded)| !**excluded).map(|(one, _)| one).collect()
}

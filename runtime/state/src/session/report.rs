//! What a change did. It is measured on samples that the bundle set aside and on shots that are left out of their
//! class in turn; where answers follow the paper, on the exemplars.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::Serialize;

use super::expected_accuracy::{AccuracyEvidence, ExpectedAccuracy, LearnedOnlyAccuracy};
use crate::answer::LeftOutAccuracy;
use crate::effective_sample_size::ShotIndependence;
use crate::state::{BaseModel, State};
use orco_core::align::LossTerms;
use orco_core::border::Border;

/// Shares are ratios of small numbers; their difference errs in the last bit.
const ROUNDING: f32 = 1e-6;

/// How the samples of a class are recognised.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClassAccuracy {
    /// The class.
    pub label: String,
    /// Share recognised before the change, 0..1; `None` for a class that is new.
    pub before: Option<f32>,
    /// Share recognised after it, 0..1.
    pub after: f32,
    /// What all sessions since the class was new have cost it; `None` for a class that is new.
    pub since: Option<CumulativeLoss>,
    /// How many samples these shares rest on; 0 if the class cannot be judged, for example because its only shot cannot
    /// be left out.
    pub samples: u32,
}

/// What all sessions since a class was new have cost it. A base class is judged by samples that the bundle set aside,
/// or by its exemplars where answers follow the paper; a learned class by the shots of the session that learned it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CumulativeLoss {
    /// Share of them recognised at first, 0..1: by the bundle alone, or right after the session that learned the class.
    pub first: f32,
    /// Share of them recognised now, 0..1.
    pub now: f32,
    /// How many there are.
    pub samples: u32,
}

/// Samples of one class that are now taken for another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConfusedPair {
    /// Their class.
    pub label: String,
    /// What they are taken for.
    pub taken_for: String,
    /// Share of the class's samples, 0..1.
    pub share: f32,
}

/// A mean accuracy before a change and after it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AccuracyChange {
    /// Before it, 0..1.
    pub before: f32,
    /// After it, 0..1.
    pub after: f32,
}

/// A stored shot that is taken for another class when it is left out of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MistakenShot {
    /// Its class.
    pub label: String,
    /// What it is taken for.
    pub taken_for: String,
    /// SHA-256 of its exemplar.
    pub exemplar: [u8; 32],
    /// What the picture is called, where a class was learned from it in this change; a learner fills it in, since a
    /// session knows no pictures.
    pub picture: Option<String>,
}

/// A class that stores a shot more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepeatedShots {
    /// The class.
    pub label: String,
    /// How many of its shots are the same as others.
    pub shots: usize,
}

/// What a change did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChangeReport {
    /// Mean losses of every epoch.
    pub losses: Vec<LossTerms>,
    /// Samples that accuracies are measured on.
    pub samples: usize,
    /// How many of the classes came with the bundle.
    pub base_classes: usize,
    /// Every known class, base classes first.
    pub classes: Vec<ClassAccuracy>,
    /// Pairs of which a tenth or more of the samples are confused, and at least one involves a new class; worst
    /// first.
    pub confusions: Vec<ConfusedPair>,
    /// The stored shots that are taken for another class, of those that are samples; none where answers follow the
    /// paper.
    pub mistaken_shots: Vec<MistakenShot>,
    /// Free pseudo-targets that are left.
    pub free_targets: usize,
    /// The border between base classes and learned ones that was chosen, where answers have one.
    pub border: Option<Border>,
    /// The accuracies to be expected on new pictures if answers name all classes; `None` where answers have no border.
    pub expected: Option<ExpectedAccuracy>,
    /// The accuracy to be expected on new pictures of learned classes if answers name these alone; `None` where answers
    /// have no border, there are fewer than two learned classes, or too few shots to tell.
    pub expected_learned_only: Option<LearnedOnlyAccuracy>,
    /// New classes that both estimates leave out: an estimate needs three different shots, one of which no other class
    /// has.
    pub too_few_shots: Vec<String>,
    /// Pairs of labels under which the very same shot is stored; such shots are excluded when answers are judged.
    pub sharing_shots: Vec<[String; 2]>,
    /// New classes whose shots seem to come from one scene. Two more from elsewhere would help, or an empty view of the
    /// place. A session sees features alone; who examines the pictures drops classes whose backgrounds differ.
    pub one_scene: Vec<String>,
    /// Classes that store a shot more than once. When answers are judged, such a shot counts once.
    pub repeated: Vec<RepeatedShots>,
}

/// Samples, with their answers by several states.
pub(super) struct EvaluatedSamples {
    /// Class of every sample.
    pub(super) classes: Vec<u32>,
    /// Number of samples that the bundle brought; they come first.
    pub(super) base_samples: usize,
    /// What the bundle alone, without anything learned, answers for these, `[base_samples]`.
    pub(super) by_bundle: Vec<usize>,
    /// Index of each sample's exemplar in the new state; `None` for samples that the bundle brought. Empty where
    /// answers follow the paper.
    pub(super) exemplars: Vec<Option<usize>>,
    /// Answers before the change; `None` for a shot that was the only one of its class then.
    pub(super) before: Vec<Option<usize>>,
    /// Answers after the change.
    pub(super) after: Vec<usize>,
    /// For every class, whether some of its shots are no samples; empty where all are.
    pub(super) partly_sampled: Vec<bool>,
    /// Pairs of classes that have a shot in common.
    pub(super) sharing_shots: Vec<[u32; 2]>,
    /// Classes that store a shot more than once, with the number of surplus copies.
    pub(super) repeated: Vec<(u32, usize)>,
    /// What left-out shots say of learned classes.
    pub(super) left_out: Option<LeftOutAccuracy>,
}

/// Answers for every sample, counted by its class in the new state.
struct AnswerCounts {
    /// Index of each class in the old state; `None` for a new one.
    index_before: Vec<Option<usize>>,
    total: Vec<u32>,
    /// Of these, those that the old state answered.
    answered_before: Vec<u32>,
    right_before: Vec<u32>,
    right_after: Vec<u32>,
    /// For every sample that is taken for another class now, its class and that one; sorted.
    mistaken: Vec<(usize, usize)>,
}

impl AnswerCounts {
    fn new(index_before: Vec<Option<usize>>, samples: &EvaluatedSamples) -> Self {
        let count = index_before.len();
        let mut counts = Self {
            index_before,
            total: vec![0; count],
            answered_before: vec![0; count],
            right_before: vec![0; count],
            right_after: vec![0; count],
            mistaken: Vec::new(),
        };
        // There are no answers from before if no class was known.
        let before = samples.before.iter().copied().chain(core::iter::repeat(None));
        for ((&class, before), &after) in samples.classes.iter().zip(before).zip(&samples.after) {
            counts.count(class as usize, before, after);
        }
        counts.mistaken.sort_unstable();
        counts
    }

    fn count(&mut self, class: usize, before: Option<usize>, after: usize) {
        self.total[class] += 1;
        self.answered_before[class] += u32::from(before.is_some());
        self.right_before[class] += u32::from(before.is_some() && self.index_before[class] == before);
        if after == class {
            self.right_after[class] += 1;
        } else {
            self.mistaken.push((class, after));
        }
    }

    fn is_new(&self, class: usize) -> bool {
        self.index_before[class].is_none()
    }

    fn accuracy(&self, class: usize, label: &str, since: Option<CumulativeLoss>) -> ClassAccuracy {
        ClassAccuracy {
            label: label.into(),
            before: (!self.is_new(class)).then(|| share(self.right_before[class], self.answered_before[class])),
            after: share(self.right_after[class], self.total[class]),
            since: since.filter(|_| !self.is_new(class)),
            samples: self.total[class],
        }
    }

    /// See [`ChangeReport::confusions`].
    fn confusions(&self, labels: &[&str]) -> Vec<ConfusedPair> {
        let pairs = self.mistaken.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32));
        let of_new = pairs.filter(|&((class, other), _)| self.is_new(class) || self.is_new(other));
        let mut confusions: Vec<ConfusedPair> = of_new
            .map(|((class, other), count)| ConfusedPair {
                label: labels[class].into(),
                taken_for: labels[other].into(),
                share: share(count, self.total[class]),
            })
            .filter(|pair| pair.share >= 0.1)
            .collect();
        confusions.sort_by(|a, b| b.share.total_cmp(&a.share));
        confusions
    }

    /// See [`ChangeReport::too_few_shots`]; `judged` is how many samples of each class can be judged.
    fn new_with_too_few_shots(&self, labels: &[&str], judged: &[usize]) -> Vec<String> {
        let unjudged = judged.iter().enumerate().filter(|(_, samples)| **samples == 0);
        unjudged.filter(|(class, _)| self.is_new(*class)).map(|(class, _)| labels[class].into()).collect()
    }

    /// See [`ChangeReport::one_scene`]; `independence` is that of every learned class.
    fn new_of_one_scene(
        &self,
        base_model: &BaseModel,
        labels: &[&str],
        independence: &[ShotIndependence],
    ) -> Vec<String> {
        let learned = (base_model.classes.len()..).zip(independence);
        let new = learned.filter(|(class, shots)| self.is_new(*class) && shots.is_one_scene());
        new.map(|(class, _)| labels[class].into()).collect()
    }
}

/// `hits` as a share of `of` samples; 0 of none.
pub(super) fn share(hits: u32, of: u32) -> f32 {
    hits as f32 / of.max(1) as f32
}

impl ChangeReport {
    /// Reports from the answers for every sample under the old state and under the new one. `index_before` says which
    /// index each class had in the old state, `since` what all sessions have cost it.
    pub(super) fn new(
        base_model: &BaseModel,
        new: &State,
        index_before: Vec<Option<usize>>,
        samples: &EvaluatedSamples,
        since: &[Option<CumulativeLoss>],
        losses: Vec<LossTerms>,
    ) -> Self {
        let counts = AnswerCounts::new(index_before, samples);
        let labels: Vec<&str> = new.known_classes(base_model).map(|class| class.label.as_str()).collect();
        let classes = labels.iter().enumerate().map(|(class, label)| counts.accuracy(class, label, since[class]));
        let border = new.calibration.map(|calibration| calibration.border);
        let label = |class: u32| String::from(labels[class as usize]);
        let mistaken = |((class, after), exemplar): ((&u32, &usize), &Option<usize>)| {
            let exemplar = exemplar.filter(|_| *after != *class as usize)?;
            let (label, taken_for) = (label(*class), String::from(labels[*after]));
            Some(MistakenShot { label, taken_for, exemplar: new.exemplars.digest_of(exemplar), picture: None })
        };
        let answered = samples.classes.iter().zip(&samples.after).zip(&samples.exemplars);
        let sharing_shots = samples.sharing_shots.iter().map(|pair| pair.map(label));
        let repeated = samples.repeated.iter().map(|&(class, shots)| RepeatedShots { label: label(class), shots });
        let evidence = AccuracyEvidence::of(base_model, new);
        // Answers that follow the paper have no border, and nothing is expected of them.
        let expectable = border.zip(evidence.as_ref());
        let expected =
            expectable.map(|(border, evidence)| evidence.by_scope(border, samples.left_out)).unwrap_or_default();
        let judged = expectable.map_or(&[][..], |(_, evidence)| evidence.judged_counts());
        let independence = evidence.as_ref().and_then(AccuracyEvidence::independence).unwrap_or_default();
        Self {
            expected: expected.all,
            expected_learned_only: expected.learned_only,
            too_few_shots: counts.new_with_too_few_shots(&labels, judged),
            losses,
            samples: samples.classes.len(),
            base_classes: base_model.classes.len(),
            classes: classes.collect(),
            confusions: counts.confusions(&labels),
            mistaken_shots: answered.filter_map(mistaken).collect(),
            free_targets: base_model.target_count() - labels.len(),
            border,
            sharing_shots: sharing_shots.collect(),
            one_scene: counts.new_of_one_scene(base_model, &labels, independence),
            repeated: repeated.collect(),
        }
    }

    #[cfg(test)]
    pub(super) fn empty() -> Self {
        Self {
            losses: Vec::new(),
            samples: 0,
            base_classes: 0,
            classes: Vec::new(),
            confusions: Vec::new(),
            mistaken_shots: Vec::new(),
            free_targets: 0,
            border: None,
            expected: None,
            expected_learned_only: None,
            too_few_shots: Vec::new(),
            sharing_shots: Vec::new(),
            one_scene: Vec::new(),
            repeated: Vec::new(),
        }
    }

    /// Mean over the classes known before the change of the accuracy before it and after it, 0..1; `None` if no sample
    /// says.
    pub fn old_accuracy(&self) -> Option<AccuracyChange> {
        let mut count = 0.0;
        let mut sum = AccuracyChange { before: 0.0, after: 0.0 };
        for class in self.classes.iter().filter(|class| class.samples > 0) {
            let Some(before) = class.before else { continue };
            count += 1.0;
            sum.before += before;
            sum.after += class.after;
        }
        (count > 0.0).then(|| AccuracyChange { before: sum.before / count, after: sum.after / count })
    }

    /// Old classes of which this session cost more than `budget` of the samples recognised before it, worst first: 0.2
    /// allows a class of five samples to lose one.
    pub fn lost_in_session(&self, budget: f32) -> Vec<&ClassAccuracy> {
        self.lost(budget, |class| class.before.map_or(0.0, |before| before - class.after))
    }

    /// Old classes of which all sessions since the bundle, this one among them, cost more than `budget` of the samples
    /// recognised at first, worst first, whether chance could explain it or not: [`ChangeReport::excess`] tells.
    pub fn lost_since_first(&self, budget: f32) -> Vec<&ClassAccuracy> {
        self.lost(budget, |class| class.since.map_or(0.0, |since| since.first - since.now))
    }

    /// Classes whose loss is more than `budget`, worst first.
    fn lost(&self, budget: f32, loss: impl Fn(&ClassAccuracy) -> f32) -> Vec<&ClassAccuracy> {
        let mut lost: Vec<_> = self.classes.iter().filter(|class| loss(class) > budget + ROUNDING).collect();
        lost.sort_by(|a, b| loss(b).total_cmp(&loss(a)));
        lost
    }

    /// Mean accuracy of the new classes after the change, 0..1; `None` if no sample says.
    pub fn new_accuracy(&self) -> Option<f32> {
        let new = self.classes.iter().filter(|class| class.before.is_none() && class.samples > 0);
        let new: Vec<f32> = new.map(|class| class.after).collect();
        (!new.is_empty()).then(|| new.iter().sum::<f32>() / new.len() as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_finds_what_was_lost_beyond_it_worst_first() {
        let class =
            |label: &str, before, after| ClassAccuracy { label: label.into(), before, after, since: None, samples: 5 };
        let classes = alloc::vec![
            class("kept", Some(0.8), 0.8),
            class("one of five lost", Some(1.0), 0.8),
            class("three of five lost", Some(0.8), 0.2),
            class("gained", Some(0.2), 0.6),
            class("new", None, 0.0),
        ];
        let report = ChangeReport { classes, ..ChangeReport::empty() };
        let labels = |budget| report.lost_in_session(budget).iter().map(|class| &class.label[..]).collect::<Vec<_>>();
        assert_eq!(labels(0.0), ["three of five lost", "one of five lost"]);
        assert_eq!(labels(0.2), ["three of five lost"], "a loss equal to the budget is within it");
        assert!(labels(0.6).is_empty());
    }
}

//! Samples by which states are validated: those that the bundle set aside, then the device's exemplars, each left out
//! of its own class.

mod sample_scores;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use orco_core::config::AnswerWeights;

use self::sample_scores::{SampleSource, ScoringPurpose};
use super::calibrate::{BestPerSide, Calibrator, LeftOutAccuracy};
use super::left_out::{MAX_OTHERS, MAX_VIEWED};
use super::model::ScoringModel;
use super::sampling::{sampled, thinned};
use super::{ScoredSample, ScoringWork};
use crate::state::{BaseModel, Calibration, Scoring, State};

/// Exemplars that are samples; of more, a choice that is stratified by class. More cost time and change nothing that
/// matters.
pub(crate) const MAX_SHOT_SAMPLES: usize = 500;

/// Different shots that a learned class needs for an estimate of its accuracy. With two, each is recognised by the
/// other alone, and nothing says how much better both together are.
const MIN_ESTIMATED: usize = 3;

/// How many samples of every class can be judged.
pub(crate) struct JudgeableSamples {
    /// For every class: samples that were set aside, and shots that are no duplicates. 0 for a learned class with
    /// fewer than [`MIN_ESTIMATED`] different shots, and for a class that is replaced.
    pub(crate) counts: Vec<usize>,
    /// Whether a learned class has just two different shots. The border's own estimate includes it, and is too low.
    pub(crate) has_two_shot_class: bool,
}

/// The samples by which a state and others are validated.
pub(crate) struct ValidationSamples<'a> {
    base_model: &'a BaseModel,
    scoring: Scoring<'a>,
    /// Whose exemplars are samples.
    state: &'a State,
    /// SHA-256 of each exemplar.
    digests: Vec<[u8; 32]>,
    /// For every exemplar, whether another class has the same one, or its own class has the same one before it.
    duplicate: Vec<bool>,
    /// The exemplars of every class that are not duplicates, in ascending order.
    different: BTreeMap<u32, Vec<usize>>,
    /// The exemplars that are samples, in ascending order.
    chosen: Vec<usize>,
    /// Exemplars of learned classes whose views are samples, too, in ascending order.
    viewed: Vec<usize>,
    /// For every base class, whether a learned one replaces it.
    replaced: Vec<bool>,
}

/// The result of validating a state.
pub(crate) struct Validation {
    pub(crate) calibration: Calibration,
    /// What left-out shots say of the learned classes that have enough of them.
    pub(crate) left_out: Option<LeftOutAccuracy>,
    /// Class of every sample.
    pub(crate) classes: Vec<u32>,
    /// Index of every sample's exemplar in the state; `None` for one that the bundle set aside.
    pub(crate) exemplars: Vec<Option<usize>>,
    /// The state's answer for every sample.
    pub(crate) answers: Vec<usize>,
    /// The answers of an earlier state; `None` for a sample that was the only one of its class there.
    pub(crate) earlier: Vec<Option<usize>>,
    /// For every class of the state, whether some of its exemplars are no samples.
    pub(crate) partly_sampled: Vec<bool>,
    /// For every sample, whether it is excluded: it is the only shot of its class, or a duplicate, or a learned class
    /// replaces its class.
    pub(crate) excluded: Vec<bool>,
}

impl<'a> ValidationSamples<'a> {
    /// The samples set aside, and the exemplars of a state.
    pub(crate) fn of(base_model: &'a BaseModel, state: &'a State, scoring: Scoring<'a>) -> Self {
        let digests = (0..state.exemplars.len()).map(|exemplar| state.exemplars.digest_of(exemplar)).collect();
        let replaced = state.replaced(base_model);
        let (duplicate, chosen, viewed) = (Vec::new(), Vec::new(), Vec::new());
        let different = state.exemplars.by_class();
        let mut validation =
            Self { base_model, scoring, state, digests, duplicate, different, chosen, viewed, replaced };
        let shared = validation.shared_exemplars();
        validation.duplicate = validation
            .repeats()
            .zip(&validation.digests)
            .map(|(repeat, digest)| repeat || shared.contains_key(digest))
            .collect();
        let Self { duplicate, different, .. } = &mut validation;
        different.values_mut().for_each(|members| members.retain(|&exemplar| !duplicate[exemplar]));
        validation.chosen = sampled(state.exemplars.by_class(), MAX_SHOT_SAMPLES, &validation.digests);
        validation.viewed = sampled(validation.viewable(), MAX_VIEWED, &validation.digests);
        validation
    }

    /// How many the bundle set aside; these come first.
    pub(crate) fn set_aside(&self) -> usize {
        self.scoring.statistics.set_aside.len()
    }

    /// Indices of the samples, in ascending order: all that were set aside, and the exemplars that were chosen.
    pub(crate) fn samples(&self) -> Vec<usize> {
        let aside = self.set_aside();
        (0..aside).chain(self.chosen.iter().map(|exemplar| aside + exemplar)).collect()
    }

    /// Class of a sample, in the state whose exemplars they are.
    pub(crate) fn class_of(&self, sample: usize) -> u32 {
        match sample.checked_sub(self.set_aside()) {
            None => self.scoring.statistics.set_aside.classes()[sample],
            Some(exemplar) => self.state.exemplars.classes()[exemplar],
        }
    }

    /// Class of each of these samples.
    fn classes_of(&self, samples: &[usize]) -> Vec<u32> {
        samples.iter().map(|&sample| self.class_of(sample)).collect()
    }

    /// The chosen exemplars of learned classes that are no duplicates, by class. Classes with a single different shot
    /// are missing: without it, nothing would be left of them.
    fn viewable(&self) -> BTreeMap<u32, Vec<usize>> {
        let base = self.base_model.classes.len();
        let mut viewable = self.different.clone();
        viewable.retain(|class, different| *class as usize >= base && different.len() > 1);
        only_of(viewable, &self.chosen)
    }

    /// The exemplars whose projections scoring these samples needs, in ascending order: those among the samples and,
    /// for a border, the shots that are left out in turn beside one whose views are scored.
    fn needed_exemplars(&self, samples: &[usize], purpose: ScoringPurpose) -> Vec<usize> {
        let mut exemplars: BTreeSet<usize> =
            samples.iter().filter_map(|sample| sample.checked_sub(self.set_aside())).collect();
        if purpose.has_views() {
            let viewed: Vec<usize> = self.viewed.iter().copied().filter(|shot| exemplars.contains(shot)).collect();
            exemplars.extend(viewed.into_iter().flat_map(|shot| self.others(shot)));
        }
        exemplars.into_iter().collect()
    }

    /// Up to [`MAX_OTHERS`] further shots of the class of `shot`, each of which is left out together with it in turn.
    fn others(&self, shot: usize) -> Vec<usize> {
        let members = &self.different[&self.state.exemplars.classes()[shot]];
        let own = members.partition_point(|&member| member < shot);
        (1..members.len()).take(MAX_OTHERS).map(|step| members[(own + step) % members.len()]).collect()
    }

    /// Chooses the border and the temperature by the samples that are not excluded, then answers every sample with the
    /// state and with an earlier one, in which class `c` had the index `indices[c]`. All shots of classes that have
    /// changed since are answered, too.
    pub(crate) fn validate(
        &self,
        earlier: &State,
        indices: &[Option<usize>],
        work: &mut ScoringWork<'_>,
    ) -> Validation {
        let min_accuracy = self.min_accuracy(work);
        let border_samples = self.samples();
        let border_classes = self.classes_of(&border_samples);
        let samples = self.with_changed(&border_samples, earlier, indices);
        let needed = self.needed_exemplars(&samples, ScoringPurpose::Border);
        let model = ScoringModel::new(self.base_model, self.state, self.scoring, &needed, work);
        let base = model.base();
        let mut calibrator = self.calibrator(&border_classes, &model);
        let (mut best, mut excluded) = (Vec::with_capacity(samples.len()), Vec::with_capacity(samples.len()));
        self.own_scores(&model, &samples, ScoringPurpose::Border, work, &mut |sample| {
            excluded.push(sample.is_excluded);
            best.push(BestPerSide::of(&sample.scores, base));
            if border_samples.binary_search(&sample.number).is_ok() {
                sample.add_to(&mut calibrator);
            }
        });
        // The earlier state needs the memory.
        drop(model);
        let calibration = calibrator.choose(self.state.balance, min_accuracy, self.scoring.statistics.initial_shift);
        let left_out = self.left_out_accuracy(&calibrator, calibration.border.shift);
        let answers = best.iter().map(|best| best.answer(calibration.border.shift)).collect();
        let earlier = self.answers(earlier, &|sample| indices[self.class_of(sample) as usize], &samples, work);
        let classes = self.classes_of(&samples);
        let partly_sampled = self.partly_sampled(&samples);
        let exemplars = samples.iter().map(|sample| sample.checked_sub(self.set_aside())).collect();
        Validation { calibration, left_out, classes, exemplars, answers, earlier, partly_sampled, excluded }
    }

    /// For every class of the state, whether some of its exemplars are not among these samples.
    fn partly_sampled(&self, samples: &[usize]) -> Vec<bool> {
        let mut left = vec![0usize; self.base_model.classes.len() + self.state.classes.len()];
        self.state.exemplars.classes().iter().for_each(|class| left[*class as usize] += 1);
        let exemplars = samples.iter().filter_map(|sample| sample.checked_sub(self.set_aside()));
        exemplars.for_each(|exemplar| left[self.state.exemplars.classes()[exemplar] as usize] -= 1);
        left.into_iter().map(|left| left > 0).collect()
    }

    /// Samples, and all shots of the classes that have changed since an earlier state, in ascending order.
    fn with_changed(&self, samples: &[usize], earlier: &State, indices: &[Option<usize>]) -> Vec<usize> {
        if self.chosen.len() == self.digests.len() {
            return samples.to_vec();
        }
        let (now, before) = (self.state.exemplars.by_class(), earlier.exemplars.by_class());
        let mut samples: BTreeSet<usize> = samples.iter().copied().collect();
        for (class, shots) in now {
            let before = indices[class as usize].and_then(|index| before.get(&(index as u32)));
            if !before.is_some_and(|before| self.are_same(&shots, earlier, before)) {
                samples.extend(shots.into_iter().map(|exemplar| self.set_aside() + exemplar));
            }
        }
        samples.into_iter().collect()
    }

    /// Chooses the border and the temperature of the state whose exemplars are samples. The model must hold the
    /// projections of the [exemplars that this needs](Self::exemplars_to_calibrate).
    pub(crate) fn calibrate(&self, model: &ScoringModel<'_>, work: &mut ScoringWork<'_>) -> Calibration {
        let min_accuracy = self.min_accuracy(work);
        let classes = self.sample_classes();
        let calibrator = &mut self.calibrator(&classes, model);
        self.collect(model, calibrator, work);
        calibrator.choose(self.state.balance, min_accuracy, self.scoring.statistics.initial_shift)
    }

    /// Hands all samples, and the views of shots, to a calibrator.
    fn collect(&self, model: &ScoringModel<'_>, calibrator: &mut Calibrator<'_>, work: &mut ScoringWork<'_>) {
        self.own_scores(model, &self.samples(), ScoringPurpose::Border, work, &mut |sample| sample.add_to(calibrator));
    }

    /// An empty calibrator for samples of these classes.
    fn calibrator<'c>(&self, classes: &'c [u32], model: &ScoringModel<'_>) -> Calibrator<'c> {
        let ratio = self.scoring.statistics.accuracy_ratio();
        let replaced = self.replaced.iter().filter(|replaced| **replaced).count();
        let calibrator = Calibrator::new(classes, model.base(), model.len());
        calibrator.with_replaced(replaced).with_accuracy_ratio(self.set_aside(), ratio)
    }

    /// Class of every sample.
    pub(crate) fn sample_classes(&self) -> Vec<u32> {
        self.classes_of(&self.samples())
    }

    /// A calibrator with all samples, whose classes are these, and the views of shots.
    pub(crate) fn calibrator_with_all<'c>(&self, classes: &'c [u32], work: &mut ScoringWork<'_>) -> Calibrator<'c> {
        let wanted = self.exemplars_to_calibrate();
        let model = ScoringModel::new(self.base_model, self.state, self.scoring, &wanted, work);
        let mut calibrator = self.calibrator(classes, &model);
        self.collect(&model, &mut calibrator, work);
        calibrator
    }

    /// Accuracy over all classes that answers should not fall below: that of the nearest class mean where the balance
    /// has such a floor, else 0.
    fn min_accuracy(&self, work: &mut ScoringWork<'_>) -> f32 {
        let has_floor = !self.state.classes.is_empty() && self.state.balance.has_accuracy_floor();
        if has_floor { self.nearest_mean_accuracy(work) } else { 0.0 }
    }

    /// Expected accuracy over all classes of the nearest class mean without a border, by the same samples.
    pub(crate) fn nearest_mean_accuracy(&self, work: &mut ScoringWork<'_>) -> f32 {
        let scoring = Scoring { weights: AnswerWeights::NEAREST_MEAN, ..self.scoring };
        let model = ScoringModel::new(self.base_model, self.state, scoring, &[], work);
        let classes = self.sample_classes();
        let mut calibrator = self.calibrator(&classes, &model);
        self.collect(&model, &mut calibrator, work);
        calibrator.accuracy()
    }

    /// Whether these exemplars are stored as those of an earlier state are.
    fn are_same(&self, now: &[usize], earlier: &State, before: &[usize]) -> bool {
        let is_same = |(now, before): (&usize, &usize)| self.digests[*now] == earlier.exemplars.digest_of(*before);
        now.len() == before.len() && now.iter().zip(before).all(is_same)
    }

    /// Samples of all classes, `most` at most, at even distances.
    pub(crate) fn even_samples(&self, most: usize) -> Vec<usize> {
        thinned(self.samples(), most)
    }

    /// Samples that are shots of learned classes, `most` at most, at even distances.
    pub(crate) fn learned_samples(&self, most: usize) -> Vec<usize> {
        let base = self.base_model.classes.len();
        let shots = self.samples().split_off(self.set_aside());
        thinned(shots.into_iter().filter(|&sample| self.class_of(sample) as usize >= base).collect(), most)
    }

    /// Samples whose views are scored, `most` at most, of every class alike.
    pub(crate) fn viewed_samples(&self, most: usize) -> Vec<usize> {
        let chosen = sampled(only_of(self.viewable(), &self.viewed), most, &self.digests).into_iter();
        chosen.map(|exemplar| self.set_aside() + exemplar).collect()
    }

    /// The exemplars that [`scored_samples`](Self::scored_samples) needs for some samples, and
    /// [`scored_views`](Self::scored_views) for others, in ascending order.
    pub(crate) fn exemplars_to_score(&self, samples: &[usize], viewed: &[usize]) -> Vec<usize> {
        let mut exemplars = self.needed_exemplars(samples, ScoringPurpose::Thresholds);
        exemplars.extend(self.needed_exemplars(viewed, ScoringPurpose::ViewThresholds));
        exemplars.sort_unstable();
        exemplars.dedup();
        exemplars
    }

    /// The exemplars that [calibrate](Self::calibrate) needs, in ascending order.
    pub(crate) fn exemplars_to_calibrate(&self) -> Vec<usize> {
        self.needed_exemplars(&self.samples(), ScoringPurpose::Border)
    }

    /// Scores of samples, by their indices, in the state whose exemplars they are, without the border; excluded ones
    /// are left out.
    pub(crate) fn scored_samples(
        &self,
        model: &ScoringModel<'_>,
        samples: &[usize],
        work: &mut ScoringWork<'_>,
    ) -> BTreeMap<usize, ScoredSample> {
        let mut scored = BTreeMap::new();
        self.own_scores(model, samples, ScoringPurpose::Thresholds, work, &mut |sample| {
            if !sample.is_excluded {
                let is_set_aside = sample.number < self.set_aside();
                let class = self.class_of(sample.number);
                scored.insert(sample.number, ScoredSample { class, is_set_aside, scores: sample.scores });
            }
        });
        scored
    }

    /// Scores of all views of shots that are samples, without the border; excluded shots are left out.
    pub(crate) fn scored_views(
        &self,
        model: &ScoringModel<'_>,
        samples: &[usize],
        work: &mut ScoringWork<'_>,
    ) -> Vec<ScoredSample> {
        let mut views = Vec::new();
        self.own_scores(model, samples, ScoringPurpose::ViewThresholds, work, &mut |sample| {
            let class = self.class_of(sample.number);
            let rows = sample.views.chunks_exact(model.len());
            views.extend(rows.map(|scores| ScoredSample { class, is_set_aside: false, scores: scores.to_vec() }));
        });
        views
    }

    fn border_shift_of(&self, state: &State) -> f32 {
        state.calibration.map_or(self.scoring.statistics.initial_shift, |calibration| calibration.border.shift)
    }

    /// Whether a sample says nothing of its class: it is a duplicate, or a learned class replaces its class.
    fn is_uninformative(&self, sample: usize, class: Option<usize>) -> bool {
        class.is_some_and(|class| self.is_replaced(class)) || self.is_duplicate(sample)
    }

    /// Whether a learned class replaces this one of the bundle.
    fn is_replaced(&self, class: usize) -> bool {
        self.replaced.get(class) == Some(&true)
    }

    fn is_duplicate(&self, sample: usize) -> bool {
        sample.checked_sub(self.set_aside()).is_some_and(|exemplar| self.duplicate[exemplar])
    }

    /// Pairs of classes that have an exemplar in common; the class that had it first comes first.
    pub(crate) fn classes_sharing_shots(&self) -> BTreeSet<[u32; 2]> {
        self.shared_exemplars().into_values().flatten().collect()
    }

    /// For each class that stores an exemplar more than once, how many are the same as one before them.
    pub(crate) fn repeated(&self) -> BTreeMap<u32, usize> {
        let mut repeated = BTreeMap::new();
        for (_, &class) in self.repeats().zip(self.state.exemplars.classes()).filter(|(repeat, _)| *repeat) {
            *repeated.entry(class).or_default() += 1;
        }
        repeated
    }

    /// For every exemplar, whether its class has the same one before.
    fn repeats(&self) -> impl Iterator<Item = bool> {
        let mut seen = BTreeSet::new();
        self.digests.iter().zip(self.state.exemplars.classes()).map(move |sample| !seen.insert(sample))
    }

    /// What left-out shots say of the learned classes that can be judged, where the border has this shift.
    pub(crate) fn left_out_accuracy(&self, calibrator: &Calibrator<'_>, shift: f32) -> Option<LeftOutAccuracy> {
        let judgeable = self.judgeable().counts;
        calibrator.left_out_accuracy(&|class| judgeable[class] > 0, shift)
    }

    /// How many samples of every class can be judged.
    fn judgeable(&self) -> JudgeableSamples {
        let base = self.base_model.classes.len();
        let mut digests = vec![BTreeSet::new(); base + self.state.classes.len()];
        for (class, digest) in self.state.exemplars.classes().iter().zip(&self.digests) {
            digests[*class as usize].insert(digest);
        }
        let mut counts = vec![0; digests.len()];
        self.scoring.statistics.set_aside.classes().iter().for_each(|class| counts[*class as usize] += 1);
        let mut has_two_shot_class = false;
        for (&class, shots) in &self.different {
            let class = class as usize;
            if class < base || digests[class].len() >= MIN_ESTIMATED {
                counts[class] += shots.len();
            } else {
                has_two_shot_class |= digests[class].len() > 1 && !shots.is_empty();
            }
        }
        for (count, is_replaced) in counts.iter_mut().zip(&self.replaced) {
            if *is_replaced {
                *count = 0;
            }
        }
        JudgeableSamples { counts, has_two_shot_class }
    }

    /// Exemplars that several classes have, with the pairs of those classes. A class that is replaced does not count:
    /// it is never answered.
    fn shared_exemplars(&self) -> BTreeMap<[u8; 32], BTreeSet<[u32; 2]>> {
        let mut first = BTreeMap::new();
        let mut shared = BTreeMap::<_, BTreeSet<_>>::new();
        let each = self.digests.iter().zip(self.state.exemplars.classes());
        for (&digest, &class) in each.filter(|(_, class)| !self.is_replaced(**class as usize)) {
            let earlier = *first.entry(digest).or_insert(class);
            if earlier != class {
                shared.entry(digest).or_default().insert([earlier, class]);
            }
        }
        shared
    }

    /// What the bundle alone answers for the samples that it set aside.
    pub(crate) fn answers_of_bundle(&self, work: &mut ScoringWork<'_>) -> Vec<usize> {
        let weights = self.scoring.weights;
        let kept = work.cache.as_deref().and_then(|cache| cache.bundle_answers.as_ref());
        if let Some((_, answers)) = kept.filter(|(of, _)| *of == weights) {
            return answers.clone();
        }
        let bundle = State::fresh(self.base_model, self.state.bundle_digest);
        let set_aside: Vec<usize> = (0..self.set_aside()).collect();
        let answers: Vec<usize> = self.answers(&bundle, &|_| None, &set_aside, work).into_iter().flatten().collect();
        if let Some(cache) = work.cache.as_deref_mut() {
            cache.bundle_answers = Some((weights, answers.clone()));
        }
        answers
    }

    /// Answers of a state for some of the samples, with the border of that state. `class_in_state` gives the class of a
    /// sample there, `None` where the state does not know it. An exemplar is left out of its class; if nothing else is
    /// left of the class, there is no answer.
    pub(crate) fn answers(
        &self,
        state: &State,
        class_in_state: &(dyn Fn(usize) -> Option<usize> + Sync),
        samples: &[usize],
        work: &mut ScoringWork<'_>,
    ) -> Vec<Option<usize>> {
        let model = ScoringModel::new(self.base_model, state, self.scoring, &[], work);
        let (shift, base) = (self.border_shift_of(state), model.base());
        let needed = self.needed_exemplars(samples, ScoringPurpose::Answers);
        let projections = &model.embedder.projections(&self.state.exemplars, &needed, work);
        let mut answers = Vec::with_capacity(samples.len());
        let source = SampleSource { projections, class_in_state, samples };
        self.scores(&model, source, ScoringPurpose::Answers, work, &mut |sample| {
            answers.push(sample.has_class.then(|| BestPerSide::of(&sample.scores, base).answer(shift)));
        });
        answers
    }
}

/// Of the exemplars of every class those that are among `some`, in ascending order; classes without any are left out.
fn only_of(mut by_class: BTreeMap<u32, Vec<usize>>, some: &[usize]) -> BTreeMap<u32, Vec<usize>> {
    by_class.values_mut().for_each(|exemplars| exemplars.retain(|exemplar| some.binary_search(exemplar).is_ok()));
    by_class.retain(|_, exemplars| !exemplars.is_empty());
    by_class
}

/// How many samples of every class can be judged where answers have a border; `None` without statistics.
pub(crate) fn judgeable_samples(base_model: &BaseModel, state: &State) -> Option<JudgeableSamples> {
    let statistics = base_model.statistics.as_ref()?;
    let scoring = Scoring { weights: AnswerWeights::NEAREST_MEAN, statistics };
    Some(ValidationSamples::of(base_model, state, scoring).judgeable())
}

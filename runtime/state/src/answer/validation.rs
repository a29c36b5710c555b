//! Samples by which states are validated: those that the bundle set aside, then the device's exemplars, each left out
//! of its own class.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use orco_core::config::AnswerWeights;

use super::ScoredSample;
use super::calibrate::{BestScores, Calibrator};
use super::embed::{Projections, TOGETHER};
use super::left_out::{MAX_OTHERS, MAX_VIEWED, view_scores};
use super::model::{LeftOutShot, ScoringModel};
use crate::state::{BaseModel, Calibration, Scoring, State};

/// The samples by which a state and others are validated.
pub(crate) struct ValidationSamples<'a> {
    base_model: &'a BaseModel,
    scoring: Scoring<'a>,
    /// Whose exemplars are samples.
    state: &'a State,
    /// SHA-256 of each exemplar.
    digests: Vec<[u8; 32]>,
    /// For every exemplar, whether another class has the same one, or its own class has it before.
    duplicate: Vec<bool>,
    /// For every base class, whether a learned one replaces it.
    replaced: Vec<bool>,
}

/// What the validation of a state gave.
pub(crate) struct Validation {
    pub(crate) calibration: Calibration,
    /// The state's answer for every sample.
    pub(crate) answers: Vec<usize>,
    /// The answers of an earlier state.
    pub(crate) earlier: Vec<usize>,
    /// Whether a sample is excluded: it is all that its class has, or stands in two classes, one of which it cannot be,
    /// or its class has the same one before, or a learned class replaces its class.
    pub(crate) excluded: Vec<bool>,
}

/// What a sample scores in a state, without the border.
struct SampleScores<'a> {
    /// The sample's number.
    number: usize,
    /// Scores of every class that the state knows.
    scores: &'a [f32],
    /// Whether it says nothing: it has a duplicate, its class is replaced, or without it nothing is left of its class.
    is_excluded: bool,
    /// Scores of its views, `[views, classes]`, where it is a shot of a learned class and views were asked for.
    views: Vec<f32>,
}

/// Which scores of samples are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Those of the clean views.
    Answers,
    /// Those of all views of shots, too, by which a border is chosen.
    Border,
}

impl<'a> ValidationSamples<'a> {
    /// The samples set aside, and the exemplars of a state.
    pub(crate) fn of(base_model: &'a BaseModel, state: &'a State, scoring: Scoring<'a>) -> Self {
        let digests = (0..state.exemplars.len()).map(|exemplar| state.exemplars.digest_of(exemplar)).collect();
        let replaced = state.replaced(base_model);
        let mut validation = Self { base_model, scoring, state, digests, duplicate: Vec::new(), replaced };
        let shared = validation.sharing_shots();
        validation.duplicate = validation
            .repeats()
            .zip(&validation.digests)
            .map(|(repeat, digest)| repeat || shared.contains_key(digest))
            .collect();
        validation
    }

    /// How many the bundle set aside; these come first.
    pub(crate) fn set_aside(&self) -> usize {
        self.scoring.statistics.set_aside.len()
    }

    fn len(&self) -> usize {
        self.set_aside() + self.digests.len()
    }

    /// Class of each sample in the state whose exemplars they are.
    pub(crate) fn classes(&self) -> Vec<u32> {
        self.scoring.statistics.set_aside.classes().iter().chain(self.state.exemplars.classes()).copied().collect()
    }

    /// Chooses the border and the temperature of that state, by the samples that are not excluded, and answers for an
    /// earlier state, in which its classes were `indices`.
    pub(crate) fn evaluate(&self, earlier: &State, indices: &[Option<usize>]) -> Validation {
        let classes = self.classes();
        let own = |sample: usize| Some(classes[sample] as usize);
        let least = self.nearest_mean_accuracy();
        let known = ScoringModel::new(self.base_model, self.state, self.scoring);
        let base = known.base();
        let mut fitting = self.calibrator(&classes, &known);
        let mut excluded = Vec::with_capacity(self.len());
        let columns = self.unchanged(earlier, indices);
        let border = self.border_of(earlier);
        let mut answers_before = Vec::new();
        let mut gathered = Vec::new();
        let every: Vec<usize> = (0..self.len()).collect();
        self.scores(&known, &known.projections, (&own, &every), Wanted::Border, &mut |sample| {
            excluded.push(sample.is_excluded);
            fitting.add(sample.scores, sample.is_excluded);
            fitting.add_views(&sample.views);
            if let Some(columns) = &columns {
                gathered.clear();
                gathered.extend(columns.iter().map(|&class| sample.scores[class]));
                answers_before.push(BestScores::of(&gathered, base).answer(border));
            }
        });
        // Its memory is wanted for the earlier state.
        drop(known);
        let calibration = fitting.choose(self.state.balance, least, self.scoring.statistics.start);
        let answers = fitting.leaders.iter().map(|leaders| leaders.answer(calibration.border.shift)).collect();
        let earlier = if columns.is_some() {
            answers_before
        } else {
            self.answers(earlier, &|sample| indices[classes[sample] as usize], 0..self.len())
        };
        Validation { calibration, answers, earlier, excluded }
    }

    /// Chooses the border and the temperature of that state alone.
    pub(crate) fn calibrate(&self, known: &ScoringModel<'_>) -> Calibration {
        let classes = self.classes();
        let fitting = &mut self.calibrator(&classes, known);
        self.collect(known, &classes, fitting);
        fitting.choose(self.state.balance, self.nearest_mean_accuracy(), self.scoring.statistics.start)
    }

    /// Hands all samples of these classes, and the views of shots, to a calibrator.
    fn collect(&self, known: &ScoringModel<'_>, classes: &[u32], fitting: &mut Calibrator<'_>) {
        let own = |sample: usize| Some(classes[sample] as usize);
        let every: Vec<usize> = (0..self.len()).collect();
        self.scores(known, &known.projections, (&own, &every), Wanted::Border, &mut |sample| {
            fitting.add(sample.scores, sample.is_excluded);
            fitting.add_views(&sample.views);
        });
    }

    /// To choose a border by these samples, of these classes.
    fn calibrator<'c>(&self, classes: &'c [u32], known: &ScoringModel<'_>) -> Calibrator<'c> {
        let ratio = self.scoring.statistics.accuracy_ratio();
        Calibrator::new(classes, known.base(), known.len()).with_accuracy_ratio(self.set_aside(), ratio)
    }

    /// Accuracy over all classes to be expected, by the same samples, of the nearest class mean without a border, which
    /// answers should not fall below; 0 where the balance leaves nothing to be chosen by it.
    pub(crate) fn nearest_mean_accuracy(&self) -> f32 {
        if self.state.classes.is_empty() || !self.state.balance.is_compared() {
            return 0.0;
        }
        let scoring = Scoring { weights: AnswerWeights::NEAREST_MEAN, ..self.scoring };
        let known = ScoringModel::new(self.base_model, self.state, scoring);
        let classes = self.classes();
        let mut fitting = self.calibrator(&classes, &known);
        self.collect(&known, &classes, &mut fitting);
        fitting.accuracy()
    }

    /// The classes of this state that an earlier one knew, in its order, if it knew no others and all that scores them
    /// is as it was: then their scores are, too.
    pub(crate) fn unchanged(&self, earlier: &State, indices: &[Option<usize>]) -> Option<Vec<usize>> {
        if self.scoring.weights.class_offset > 0.0 && !self.state.classes.is_empty() {
            // A class's offset depends on all others.
            return None;
        }
        if self.replaced != earlier.replaced(self.base_model) {
            return None;
        }
        let count = self.base_model.classes.len() + earlier.classes.len();
        let mut columns = vec![None; count];
        for (class, index) in indices.iter().enumerate() {
            if let Some(index) = *index {
                columns[index] = Some(class);
            }
        }
        let columns: Vec<usize> = columns.into_iter().collect::<Option<_>>()?;
        let targets = |state: &State, class: usize| state.class(self.base_model, class).map(|class| class.target);
        let (now, before) = (self.state.exemplars.by_class(), earlier.exemplars.by_class());
        let is_same = |now: &usize, before: &usize| self.state.exemplars.is_same(*now, &earlier.exemplars, *before);
        let same = |(index, &class): (usize, &usize)| {
            let now = now.get(&(class as u32)).map_or(&[][..], Vec::as_slice);
            let before = before.get(&(index as u32)).map_or(&[][..], Vec::as_slice);
            targets(self.state, class) == targets(earlier, index)
                && now.len() == before.len()
                && now.iter().zip(before).all(|(now, before)| is_same(now, before))
        };
        (self.state.head == earlier.head && columns.iter().enumerate().all(same)).then_some(columns)
    }

    /// Scores of samples in the state whose exemplars they are, without the border: of at most `most` samples, evenly
    /// chosen, excluded ones left out.
    pub(crate) fn rows(&self, known: &ScoringModel<'_>, most: usize) -> Vec<ScoredSample> {
        self.rows_of(known, (0..self.len()).step_by(self.len().div_ceil(most).max(1)).collect())
    }

    /// The same, of shots of learned classes alone.
    pub(crate) fn learned_rows(&self, known: &ScoringModel<'_>, most: usize) -> Vec<ScoredSample> {
        let classes = self.classes();
        let learned: Vec<usize> =
            (self.set_aside()..self.len()).filter(|sample| classes[*sample] as usize >= known.base()).collect();
        self.rows_of(known, learned.iter().copied().step_by(learned.len().div_ceil(most).max(1)).collect())
    }

    fn rows_of(&self, known: &ScoringModel<'_>, some: Vec<usize>) -> Vec<ScoredSample> {
        let classes = self.classes();
        let own = |sample: usize| Some(classes[sample] as usize);
        let mut rows = Vec::with_capacity(some.len());
        self.scores(known, &known.projections, (&own, &some), Wanted::Answers, &mut |sample| {
            if !sample.is_excluded {
                rows.push(ScoredSample { class: classes[sample.number], scores: sample.scores.to_vec() });
            }
        });
        rows
    }

    fn border_of(&self, state: &State) -> f32 {
        state.calibration.map_or(self.scoring.statistics.start, |calibration| calibration.border.shift)
    }

    /// Whether a sample of this class counts for nothing: it is an exemplar that another class has, too, or its own
    /// class before, or a learned class replaces its class.
    fn says_nothing(&self, sample: usize, class: Option<usize>) -> bool {
        let is_replaced = class.is_some_and(|class| self.replaced.get(class) == Some(&true));
        is_replaced || self.is_duplicate(sample)
    }

    fn is_duplicate(&self, sample: usize) -> bool {
        sample.checked_sub(self.set_aside()).is_some_and(|exemplar| self.duplicate[exemplar])
    }

    /// Pairs of classes that have an exemplar in common, that which had it first in front.
    pub(crate) fn pairs(&self) -> BTreeSet<[u32; 2]> {
        self.sharing_shots().into_values().flatten().collect()
    }

    /// How many exemplars of a class are the same as others before them, for each class that has such.
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

    /// The exemplars of every class that are not duplicates, rising.
    fn different_by_class(&self) -> BTreeMap<u32, Vec<usize>> {
        let mut different = self.state.exemplars.by_class();
        different.values_mut().for_each(|members| members.retain(|&exemplar| !self.duplicate[exemplar]));
        different
    }

    /// Exemplars that stand in more classes than one, with the pairs of these.
    fn sharing_shots(&self) -> BTreeMap<[u8; 32], BTreeSet<[u32; 2]>> {
        let mut first = BTreeMap::new();
        let mut shared = BTreeMap::<_, BTreeSet<_>>::new();
        for (&digest, &class) in self.digests.iter().zip(self.state.exemplars.classes()) {
            let earlier = *first.entry(digest).or_insert(class);
            if earlier != class {
                shared.entry(digest).or_default().insert([earlier, class]);
            }
        }
        shared
    }

    /// Answers of a state for some of the samples, by the border that it has. `own` is each sample's class in that
    /// state, if it is known there; an exemplar that belongs to it there is left out of it.
    pub(crate) fn answers(
        &self,
        state: &State,
        own: &dyn Fn(usize) -> Option<usize>,
        samples: Range<usize>,
    ) -> Vec<usize> {
        let known = ScoringModel::new(self.base_model, state, self.scoring);
        let (border, base) = (self.border_of(state), known.base());
        let exemplars = samples.end > self.set_aside();
        let projections =
            if exemplars { known.embedder.projections(&self.state.exemplars) } else { Projections::default() };
        let samples: Vec<usize> = samples.collect();
        let mut answers = Vec::with_capacity(samples.len());
        self.scores(&known, &projections, (own, &samples), Wanted::Answers, &mut |sample| {
            answers.push(BestScores::of(sample.scores, base).answer(border));
        });
        answers
    }

    /// Hands out each sample's scores in a state without the border, some samples at a time. The projections are those
    /// of the exemplars that are samples under that state's head.
    fn scores(
        &self,
        known: &ScoringModel<'_>,
        projections: &Projections,
        (own, samples): (&dyn Fn(usize) -> Option<usize>, &[usize]),
        wanted: Wanted,
        note: &mut dyn FnMut(SampleScores<'_>),
    ) {
        let (length, count) = (known.embedder.length(), known.len());
        let bank = &known.state.exemplars;
        let is_own = core::ptr::eq(known.state, self.state);
        let mut stored = BTreeMap::<(u32, [u8; 32]), u32>::new();
        for (exemplar, &class) in bank.classes().iter().enumerate() {
            let digest = if is_own { self.digests[exemplar] } else { bank.digest_of(exemplar) };
            *stored.entry((class, digest)).or_default() += 1;
        }
        let aside = self.set_aside();
        let left_out = |sample: usize| {
            let exemplar = sample.checked_sub(aside)?;
            let class = own(sample)?;
            let copies = *stored.get(&(class as u32, self.digests[exemplar]))?;
            Some(LeftOutShot { exemplar, class, copies })
        };
        let different = if wanted == Wanted::Border { self.different_by_class() } else { BTreeMap::new() };
        let members_of = |exemplar: usize| {
            let members = &different[&self.state.exemplars.classes()[exemplar]];
            (members, members.partition_point(|&member| member < exemplar))
        };
        let others = |exemplar: usize| -> Vec<LeftOutShot> {
            let (members, own) = members_of(exemplar);
            let next = (1..members.len()).take(MAX_OTHERS).map(|step| members[(own + step) % members.len()]);
            next.filter_map(|exemplar| left_out(aside + exemplar)).collect()
        };
        // Within each class, so that every class has some.
        let every = self.digests.len().div_ceil(MAX_VIEWED).max(1);
        let is_viewed = |shot: LeftOutShot| {
            wanted == Wanted::Border && shot.class >= known.base() && members_of(shot.exemplar).1.is_multiple_of(every)
        };
        for some in samples.chunks(TOGETHER) {
            // Samples set aside come before exemplars.
            let (first, last) = some.split_at(some.partition_point(|&sample| sample < aside));
            let last: Vec<usize> = last.iter().map(|sample| sample - aside).collect();
            let mut embedded = known.embedder.embed(&self.features_set_aside(first));
            embedded.extend(known.embedder.embed_stored(&self.state.exemplars, &last, projections));
            let mut scores = known.rows.scores(&embedded);
            let left_out: Vec<Option<LeftOutShot>> = some.iter().map(|&sample| left_out(sample)).collect();
            let shots: Vec<LeftOutShot> = left_out.iter().flatten().copied().collect();
            let exemplars: Vec<usize> = shots.iter().map(|shot| shot.exemplar).collect();
            let contributions = known.embedder.contributions_of(&self.state.exemplars, &exemplars, projections);
            let mut without = known.without(&shots, contributions).into_iter();
            let each = scores.chunks_exact_mut(count.max(1)).zip(embedded.chunks_exact(length));
            for ((&number, left_out), (scores, embedded)) in some.iter().zip(left_out).zip(each) {
                let mut is_excluded = self.says_nothing(number, own(number));
                let mut views = Vec::new();
                if let Some(shot) = left_out {
                    let without = without.next().expect("one for each that is left out");
                    is_excluded |= without.is_none();
                    scores[shot.class] = without.as_ref().map_or(f32::MIN, |class| class.score(embedded));
                    if let Some(row) = without.filter(|_| !is_excluded && is_viewed(shot)) {
                        let exemplars = (&self.state.exemplars, projections);
                        views = view_scores(known, exemplars, shot, &row, &others(shot.exemplar));
                    }
                }
                note(SampleScores { number, scores, is_excluded, views });
            }
        }
    }

    /// Features of samples that were set aside, `[samples, inputs]`.
    fn features_set_aside(&self, samples: &[usize]) -> Vec<f32> {
        let inputs = self.base_model.head.inputs;
        let mut features = vec![0.0; samples.len() * inputs];
        for (&sample, row) in samples.iter().zip(features.chunks_exact_mut(inputs)) {
            self.scoring.statistics.set_aside.view().read(sample, 0, row);
        }
        features
    }
}

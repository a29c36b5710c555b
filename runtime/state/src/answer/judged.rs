//! Samples by which states are judged: those that the bundle set aside, then the device's exemplars, each left out of
//! its own class.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use orco_core::config::Answer;
use orco_core::math::dot;

use super::calibrate::{Fitting, Leaders, shift};
use super::{Classes, Embedder, Scorer, TOGETHER, targets_are_kept};
use crate::state::{BaseModel, Calibration, State};
use crate::statistics::Statistics;

/// The samples that judge a state and others.
pub(crate) struct Judged<'a> {
    base_model: &'a BaseModel,
    with: (Answer, &'a Statistics),
    /// Whose exemplars are samples.
    state: &'a State,
    /// SHA-256 of each exemplar.
    digests: Vec<[u8; 32]>,
}

/// What judging a state gave.
pub(crate) struct Judgement {
    pub(crate) calibration: Calibration,
    /// The state's answer for every sample.
    pub(crate) answers: Vec<usize>,
    /// Whether a sample says nothing: it is all that its class has, or stands in two classes, one of which it cannot
    /// be.
    pub(crate) mute: Vec<bool>,
}

impl<'a> Judged<'a> {
    /// The samples set aside, and the exemplars of a state.
    pub(crate) fn of(base_model: &'a BaseModel, state: &'a State, with: (Answer, &'a Statistics)) -> Self {
        let digests = (0..state.exemplars.len()).map(|exemplar| state.exemplars.digest_of(exemplar)).collect();
        Self { base_model, with, state, digests }
    }

    /// How many the bundle set aside; these come first.
    pub(crate) fn set_aside(&self) -> usize {
        self.with.1.set_aside.len()
    }

    fn len(&self) -> usize {
        self.set_aside() + self.digests.len()
    }

    /// Class of each sample in the state whose exemplars they are.
    pub(crate) fn classes(&self) -> Vec<u32> {
        self.with.1.set_aside.classes().iter().chain(self.state.exemplars.classes()).copied().collect()
    }

    /// Chooses the border and the temperature of that state, by the samples that say something.
    pub(crate) fn judge(&self) -> Judgement {
        let classes = self.classes();
        let own: Vec<Option<usize>> = classes.iter().map(|class| Some(*class as usize)).collect();
        let (base, count) = (self.base_model.classes.len(), self.state.known(self.base_model).count());
        let mut fitting = Fitting::new(&classes, base, count);
        let twice = self.in_two_classes();
        let mut mute = Vec::with_capacity(self.len());
        let every: Vec<usize> = (0..self.len()).collect();
        self.scores(self.state, &own, &every, &mut |sample, row, alone| {
            mute.push(alone || sample.checked_sub(self.set_aside()).is_some_and(|exemplar| twice[exemplar]));
            fitting.add(row, mute[sample]);
        });
        let calibration = fitting.choose(self.state.balance.weight(), self.with.1.start);
        let answers = fitting.leaders.iter().map(|leaders| leaders.answer(calibration.border.shift)).collect();
        Judgement { calibration, answers, mute }
    }

    /// What a function makes of speaking samples' scores, the state's border among them, with the sample's class: of at
    /// most `most` samples, evenly chosen.
    pub(crate) fn rows_of_own(&self, most: usize, of: &dyn Fn(&[f32]) -> f32) -> Vec<(usize, f32)> {
        let classes = self.classes();
        let own: Vec<Option<usize>> = classes.iter().map(|class| Some(*class as usize)).collect();
        let twice = self.in_two_classes();
        let border = self.state.calibration.map_or(self.with.1.start, |calibration| calibration.border.shift);
        let base = self.base_model.classes.len();
        let some: Vec<usize> = (0..self.len()).step_by(self.len().div_ceil(most).max(1)).collect();
        let mut values = Vec::with_capacity(some.len());
        self.scores(self.state, &own, &some, &mut |sample, row, alone| {
            if !alone && !sample.checked_sub(self.set_aside()).is_some_and(|exemplar| twice[exemplar]) {
                let mut row = row.to_vec();
                shift(&mut row, base, border);
                values.push((own[sample].expect("every sample has a class"), of(&row)));
            }
        });
        values
    }

    /// For every exemplar, whether another class has the same one.
    fn in_two_classes(&self) -> Vec<bool> {
        let twice = self.twice();
        self.digests.iter().map(|digest| twice.contains_key(digest)).collect()
    }

    /// Pairs of classes that have an exemplar in common, that which had it first in front.
    pub(crate) fn pairs(&self) -> BTreeSet<[u32; 2]> {
        self.twice().into_values().flatten().collect()
    }

    /// Exemplars that stand in more classes than one, with the pairs of these.
    fn twice(&self) -> BTreeMap<[u8; 32], BTreeSet<[u32; 2]>> {
        let mut first = BTreeMap::new();
        let mut twice = BTreeMap::<_, BTreeSet<_>>::new();
        for (&digest, &class) in self.digests.iter().zip(self.state.exemplars.classes()) {
            let earlier = *first.entry(digest).or_insert(class);
            if earlier != class {
                twice.entry(digest).or_default().insert([earlier, class]);
            }
        }
        twice
    }

    /// Answers of a state for some of the samples, by the border that it has. `own` is each sample's class in that
    /// state, if it is known there; an exemplar that belongs to it there is left out of it.
    pub(crate) fn answers(&self, state: &State, own: &[Option<usize>], samples: Range<usize>) -> Vec<usize> {
        let border = state.calibration.map_or(self.with.1.start, |calibration| calibration.border.shift);
        let base = self.base_model.classes.len();
        let samples: Vec<usize> = samples.collect();
        let mut answers = Vec::with_capacity(samples.len());
        let mut note = |_, row: &[f32], _| answers.push(Leaders::of(row, base).answer(border));
        self.scores(state, own, &samples, &mut note);
        answers
    }

    /// Hands out each sample's scores without the border, and whether nothing was left of its class without it, some
    /// samples at a time.
    fn scores(
        &self,
        state: &State,
        own: &[Option<usize>],
        samples: &[usize],
        note: &mut dyn FnMut(usize, &[f32], bool),
    ) {
        let embedder = Embedder::new(self.base_model, state, self.with);
        let scorer = Scorer::new(&embedder, self.with);
        let classes = Classes::new((&embedder, &scorer), self.base_model, state, self.with.1);
        let rows = classes.rows(&scorer);
        let (length, count) = (embedder.length(), classes.counts.len());
        let stored: BTreeSet<(u32, [u8; 32])> = if core::ptr::eq(state, self.state) {
            state.exemplars.classes().iter().copied().zip(self.digests.iter().copied()).collect()
        } else {
            let bank = &state.exemplars;
            (0..bank.len()).map(|exemplar| (bank.classes()[exemplar], bank.digest_of(exemplar))).collect()
        };
        let aside = self.set_aside();
        let left_out = |sample: usize| {
            let exemplar = sample.checked_sub(aside)?;
            let class = own[sample]?;
            stored.contains(&(class as u32, self.digests[exemplar])).then_some((exemplar, class))
        };
        for some in samples.chunks(TOGETHER) {
            let embedded = embedder.embed(&self.features(some));
            let mut scores = rows.scores(&embedded);
            let left_out: Vec<Option<(usize, usize)>> = some.iter().map(|&sample| left_out(sample)).collect();
            let exemplars: Vec<usize> = left_out.iter().flatten().map(|(exemplar, _)| *exemplar).collect();
            let contributions = embedder.contributions_of(&self.state.exemplars, &exemplars);
            let mut contributions = contributions.chunks_exact(length);
            let each = scores.chunks_exact_mut(count.max(1)).zip(embedded.chunks_exact(length));
            for ((&sample, left_out), (row, embedded)) in some.iter().zip(left_out).zip(each) {
                let mut alone = false;
                if let Some((_, class)) = left_out {
                    let contribution = contributions.next().expect("one for each that is left out");
                    let keeps_target = targets_are_kept(class, self.base_model, state);
                    row[class] = match classes.without(class, contribution, keeps_target, &scorer) {
                        Some((without, offset)) => dot(&without, embedded) + offset,
                        None => f32::MIN,
                    };
                    alone = row[class] == f32::MIN;
                }
                note(sample, row, alone);
            }
        }
    }

    /// Clean features of samples, `[samples, inputs]`.
    fn features(&self, samples: &[usize]) -> Vec<f32> {
        let inputs = self.base_model.head.inputs;
        let mut features = vec![0.0; samples.len() * inputs];
        let aside = &self.with.1.set_aside;
        for (&sample, row) in samples.iter().zip(features.chunks_exact_mut(inputs)) {
            match sample.checked_sub(aside.len()) {
                None => aside.view().read(sample, 0, row),
                Some(exemplar) => self.state.exemplars.view().read(exemplar, 0, row),
            }
        }
        features
    }
}

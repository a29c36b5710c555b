//! Scores of samples in a state, each shot left out of its class.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::ValidationSamples;
use crate::answer::ScoringWork;
use crate::answer::calibrate::Calibrator;
use crate::answer::embed::{EMBED_BATCH, Projections};
use crate::answer::left_out::{VIEW_BATCH, ViewedShot, view_scores};
use crate::answer::model::{LeftOutShot, ScoringModel};
use crate::answer::scatter::{ScatterChange, ScatteredShot};
use crate::answer::score::ClassRow;
use crate::parallel::for_each_result;
use crate::state::State;

/// Scores of a sample in a state, without the border.
pub(super) struct SampleScores {
    /// The sample's number.
    pub(super) number: usize,
    /// Scores of every class that the state knows.
    pub(super) scores: Vec<f32>,
    /// Whether its class is still known without it.
    pub(super) has_class: bool,
    /// See [`excluded`](super::Validation::excluded).
    pub(super) is_excluded: bool,
    /// Scores of its views, `[views, classes]`, where it is a shot of a learned class and views were asked for.
    pub(super) views: Vec<f32>,
}

impl SampleScores {
    /// Hands its scores, and those of its views, to a calibrator.
    pub(super) fn add_to(&self, calibrator: &mut Calibrator<'_>) {
        if self.is_excluded {
            calibrator.add_excluded(&self.scores);
        } else {
            calibrator.add(&self.scores);
        }
        calibrator.add_views(&self.views);
    }
}

/// The samples that a state scores.
#[derive(Clone, Copy)]
pub(super) struct SampleSource<'a> {
    /// Projections of the exemplars that are needed, by that state's heads.
    pub(super) projections: &'a Projections,
    /// Class of a sample in that state; `None` where the state does not know it.
    pub(super) class_in_state: &'a (dyn Fn(usize) -> Option<usize> + Sync),
    /// Indices of the samples, in ascending order.
    pub(super) samples: &'a [usize],
}

/// What all samples of a scoring have in common.
struct ScoringContext<'a> {
    model: &'a ScoringModel<'a>,
    source: SampleSource<'a>,
    /// How often each class of the state has each exemplar.
    stored: BTreeMap<(u32, [u8; 32]), u32>,
    /// Projections of the samples that were set aside, if a cache keeps them for the next scoring. Without a cache they
    /// are computed batch by batch, which takes less memory.
    of_set_aside: Option<Projections>,
}

/// What leaving a shot out of its class changes.
struct LeftOutEffect {
    shot: LeftOutShot,
    /// Its class without it, as the scatter without it has it; `None` where nothing is left.
    row: Option<ClassRow>,
    /// How scores change because the scatter is without it.
    change: Option<ScatterChange>,
}

impl LeftOutEffect {
    /// Turns the shot's scores in the state into those in the state without it. A class that is gone scores lowest.
    fn apply(&self, scores: &mut [f32], embedded: &[f32]) {
        if let Some(change) = &self.change {
            change.apply(scores, embedded);
        }
        scores[self.shot.class] = self.row.as_ref().map_or(f32::MIN, |row| row.score(embedded));
    }
}

/// What samples are scored for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScoringPurpose {
    /// Answers that are compared with those of another state.
    Answers,
    /// A border.
    Border,
    /// Thresholds that known pictures pass.
    Thresholds,
    /// Thresholds that views of known pictures pass.
    ViewThresholds,
}

impl ScoringPurpose {
    /// Whether all views of shots are scored, not the clean ones alone.
    pub(super) fn has_views(self) -> bool {
        matches!(self, Self::Border | Self::ViewThresholds)
    }

    /// Whether the aligned head counts less for the shots that it was trained on. Not for thresholds: with its whole
    /// weight they refuse no more taught things than is meant (journal of the book, 2026-11-30, left-out shots), and
    /// lower ones would let more unknown things pass.
    fn discounts_aligned(self) -> bool {
        matches!(self, Self::Answers | Self::Border)
    }
}

impl ValidationSamples<'_> {
    /// Hands out each sample's scores in the state whose exemplars they are, without the border, in order.
    pub(super) fn own_scores(
        &self,
        model: &ScoringModel<'_>,
        samples: &[usize],
        purpose: ScoringPurpose,
        work: &mut ScoringWork<'_>,
        note: &mut dyn FnMut(SampleScores),
    ) {
        let class_in_state = |sample: usize| Some(self.class_of(sample) as usize);
        let source = SampleSource { projections: &model.projections, class_in_state: &class_in_state, samples };
        self.scores(model, source, purpose, work, note);
    }

    /// Hands out each sample's scores in a state without the border, in order.
    pub(super) fn scores(
        &self,
        model: &ScoringModel<'_>,
        source: SampleSource<'_>,
        purpose: ScoringPurpose,
        work: &mut ScoringWork<'_>,
        note: &mut dyn FnMut(SampleScores),
    ) {
        let (first, _) = source.samples.split_at(self.first_exemplar_of(source.samples));
        let set_aside = &self.scoring.statistics.set_aside;
        let of_set_aside = work.cache.is_some().then(|| model.embedder.projections(set_aside, first, work));
        let stored = self.stored(model.state);
        let context = ScoringContext { model, source, stored, of_set_aside };
        let scores = |some: &[usize]| self.scores_of_some(&context, some, purpose);
        // A few samples are split as well, so that every thread has some. How they are split must not depend on the
        // number of threads: results are the same to the bit with any.
        let batch = if source.samples.len() <= EMBED_BATCH { VIEW_BATCH } else { EMBED_BATCH };
        for_each_result(work.workers, source.samples, batch, scores, |scored| scored.into_iter().for_each(&mut *note));
    }

    /// The place among these samples, in ascending order, at which exemplars begin.
    fn first_exemplar_of(&self, samples: &[usize]) -> usize {
        samples.partition_point(|&sample| sample < self.set_aside())
    }

    /// How often each class of a state has each exemplar.
    fn stored(&self, state: &State) -> BTreeMap<(u32, [u8; 32]), u32> {
        let is_own = core::ptr::eq(state, self.state);
        let mut stored = BTreeMap::new();
        for (exemplar, &class) in state.exemplars.classes().iter().enumerate() {
            let digest = if is_own { self.digests[exemplar] } else { state.exemplars.digest_of(exemplar) };
            *stored.entry((class, digest)).or_default() += 1;
        }
        stored
    }

    /// Scores of some samples.
    fn scores_of_some(
        &self,
        context: &ScoringContext<'_>,
        some: &[usize],
        purpose: ScoringPurpose,
    ) -> Vec<SampleScores> {
        let ScoringContext { model, source, .. } = context;
        let left_out: Vec<Option<LeftOutShot>> = some.iter().map(|&sample| self.left_out(context, sample)).collect();
        let mut embedded = self.embed_samples(context, some);
        if purpose.discounts_aligned() {
            let rows = embedded.chunks_exact_mut(model.embedder.length()).zip(&left_out);
            rows.filter(|(_, shot)| shot.is_some()).for_each(|(row, _)| model.embedder.discount_aligned(row));
        }
        let mut scores = model.rows.scores(&embedded);
        let effects = self.effects_of_leaving_out(context, left_out, &embedded);
        let each = scores.chunks_exact_mut(model.len().max(1)).zip(embedded.chunks_exact(model.embedder.length()));
        let mut scored = Vec::with_capacity(some.len());
        for ((&number, effect), (scores, embedded)) in some.iter().zip(&effects).zip(each) {
            let has_class = effect.as_ref().is_none_or(|effect| effect.row.is_some());
            let is_excluded = !has_class || self.is_uninformative(number, (source.class_in_state)(number));
            if let Some(effect) = effect {
                effect.apply(scores, embedded);
            }
            scored.push(SampleScores { number, scores: scores.to_vec(), has_class, is_excluded, views: Vec::new() });
        }
        if purpose.has_views() {
            self.add_views(context, effects, purpose, &mut scored);
        }
        scored
    }

    /// What leaving samples out of their classes changes; `None` for one that is no shot in the state.
    /// `embedded` is `[samples, length]`.
    fn effects_of_leaving_out(
        &self,
        context: &ScoringContext<'_>,
        left_out: Vec<Option<LeftOutShot>>,
        embedded: &[f32],
    ) -> Vec<Option<LeftOutEffect>> {
        let ScoringContext { model, source, .. } = context;
        let shots: Vec<LeftOutShot> = left_out.iter().flatten().copied().collect();
        let exemplars: Vec<usize> = shots.iter().map(|shot| shot.exemplar).collect();
        let contributions = model.embedder.contributions_of(&self.state.exemplars, &exemplars, source.projections);
        let of_left_out = left_out.iter().zip(embedded.chunks_exact(model.embedder.length()));
        let roots_start = model.row_builder.roots_start();
        let changes = model.scatter_changes(of_left_out.filter_map(|(shot, embedded)| {
            let LeftOutShot { exemplar, class, .. } = (*shot)?;
            let (digest, roots) = (&self.digests[exemplar], &embedded[roots_start..]);
            Some(ScatteredShot { class: class as u32, digest, roots })
        }));
        let mut without = model.without(&shots, contributions).into_iter().zip(changes);
        let mut effect = |shot: LeftOutShot| {
            let (row, change) = without.next().expect("one for each that is left out");
            let row = row.map(|row| row.changed(change.as_ref()));
            LeftOutEffect { shot, row, change }
        };
        left_out.into_iter().map(|shot| shot.map(&mut effect)).collect()
    }

    /// Adds scores of their views to the samples whose views are scored.
    fn add_views(
        &self,
        context: &ScoringContext<'_>,
        effects: Vec<Option<LeftOutEffect>>,
        purpose: ScoringPurpose,
        scored: &mut [SampleScores],
    ) {
        let (mut samples, mut viewed) = (Vec::new(), Vec::new());
        for (sample, effect) in scored.iter_mut().zip(effects) {
            let Some(LeftOutEffect { shot, row: Some(row), change }) = effect else { continue };
            if !sample.is_excluded && self.viewed.binary_search(&shot.exemplar).is_ok() {
                let others = self.others_left_out(context, shot.exemplar);
                viewed.push(ViewedShot { shot, row, others, change });
                samples.push(sample);
            }
        }
        let (bank, projections) = (&self.state.exemplars, context.source.projections);
        let views = view_scores(context.model, bank, projections, &viewed, purpose.discounts_aligned());
        samples.into_iter().zip(views).for_each(|(sample, views)| sample.views = views);
    }

    /// The shots that are left out in turn beside an exemplar, as shots of the state.
    fn others_left_out(&self, context: &ScoringContext<'_>, exemplar: usize) -> Vec<LeftOutShot> {
        let others = self.others(exemplar).into_iter();
        others.filter_map(|other| self.left_out(context, self.set_aside() + other)).collect()
    }

    /// Embeddings `[samples, length]` of these samples, which are in ascending order.
    fn embed_samples(&self, context: &ScoringContext<'_>, samples: &[usize]) -> Vec<f32> {
        let embedder = &context.model.embedder;
        // Samples set aside come before exemplars.
        let (first, last) = samples.split_at(self.first_exemplar_of(samples));
        let exemplars: Vec<usize> = last.iter().map(|sample| sample - self.set_aside()).collect();
        let set_aside = &self.scoring.statistics.set_aside;
        let mut embedded = match &context.of_set_aside {
            Some(known) => embedder.embed_clean(set_aside, first, known),
            None => embedder.embed(&set_aside.clean_of(first)),
        };
        embedded.extend(embedder.embed_clean(&self.state.exemplars, &exemplars, context.source.projections));
        embedded
    }

    /// A sample as a shot that is left out of its class in a state; `None` if it is no shot there.
    fn left_out(&self, context: &ScoringContext<'_>, sample: usize) -> Option<LeftOutShot> {
        let exemplar = sample.checked_sub(self.set_aside())?;
        let class = (context.source.class_in_state)(sample)?;
        let copies = *context.stored.get(&(class as u32, self.digests[exemplar]))?;
        Some(LeftOutShot { exemplar, class, copies })
    }
}

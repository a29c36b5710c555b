//! Turns features into embeddings, and shots into their contributions to their class.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use orco_core::config::AnswerWeights;
use orco_core::discriminant::{direction, root_direction};
use orco_core::math::add_scaled;

use super::ScoringWork;
use crate::bank::Bank;
use crate::head::Projector;
use crate::parallel::for_each_result;
use crate::state::{BaseModel, Scoring, State};

/// Exemplars that are embedded at a time.
pub(crate) const EMBED_BATCH: usize = if cfg!(target_os = "none") { 8 } else { 64 };

/// The part of the aligned head's weight that goes to the head of phase 2 where a left-out shot is scored for the
/// border or an estimate.
const MOVED_FROM_ALIGNED: f32 = 0.5;

/// A head, prepared for projecting, with the weight of its score.
#[derive(Clone, Debug)]
pub(super) struct WeightedHead {
    pub(super) projector: Projector,
    pub(super) weight: f32,
}

impl WeightedHead {
    /// The heads of a state whose weight is above 0: that of phase 2, then the aligned one. Without an aligned head,
    /// that of phase 2 has the weight of both.
    fn of(base_model: &BaseModel, state: &State, weights: AnswerWeights) -> Vec<Self> {
        let AnswerWeights { targets, aligned, .. } = weights;
        let heads = match &state.head {
            None => [(Some(&base_model.head), targets + aligned), (None, 0.0)],
            Some(head) => [(Some(&base_model.head), targets), (Some(head), aligned)],
        };
        let counted = heads.into_iter().filter_map(|(head, weight)| head.filter(|_| weight > 0.0).zip(Some(weight)));
        counted.map(|(head, weight)| Self { projector: Projector::new(head), weight }).collect()
    }
}

/// A part of an embedding; each serves one score. Rows hold them in this order. The roots must stay last: whitening and
/// the shots' scatter read them from the end of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmbeddingPart {
    /// The projection by the head of this number.
    Projection(usize),
    /// The direction from the centre.
    Direction,
    /// The direction of the roots from their centre.
    Roots,
}

/// Turns features into embeddings.
#[derive(Clone, Debug)]
pub(super) struct Embedder {
    /// The heads with a weight above 0.
    pub(super) heads: Vec<WeightedHead>,
    /// Dimension of a head's sphere.
    pub(super) dimension: usize,
    /// Length of all heads' projections together: heads x dimension.
    pub(super) projections_len: usize,
    pub(super) inputs: usize,
    /// Length of the roots' part: `inputs`, or 0 where the discriminant has no weight.
    pub(super) roots_len: usize,
    /// The generation by which a cache finds its heads ([`ScoringCache::begin_state`]); 0 without one.
    ///
    /// [`ScoringCache::begin_state`]: super::scoring_cache::ScoringCache::begin_state
    pub(super) generation: u32,
    centre: Vec<f32>,
    root_centre: Vec<f32>,
}

impl Embedder {
    pub(super) fn new(base_model: &BaseModel, state: &State, scoring: Scoring<'_>) -> Self {
        let Scoring { weights, statistics } = scoring;
        let heads = WeightedHead::of(base_model, state, weights);
        Self {
            projections_len: heads.len() * base_model.dimension,
            dimension: base_model.dimension,
            heads,
            inputs: base_model.head.inputs,
            roots_len: if weights.discriminant > 0.0 { base_model.head.inputs } else { 0 },
            generation: 0,
            centre: statistics.centre.clone(),
            root_centre: statistics.root_centre.clone(),
        }
    }

    pub(super) fn length(&self) -> usize {
        self.projections_len + self.inputs + self.roots_len
    }

    /// Whether the discriminant has a weight.
    fn has_roots(&self) -> bool {
        self.roots_len > 0
    }

    /// The parts whose scores have a weight.
    pub(super) fn parts(&self) -> Vec<EmbeddingPart> {
        let projections = (0..self.heads.len()).map(EmbeddingPart::Projection);
        let roots = self.has_roots().then_some(EmbeddingPart::Roots);
        projections.chain([EmbeddingPart::Direction]).chain(roots).collect()
    }

    /// Where a part lies in an embedding.
    pub(super) fn range_of(&self, part: EmbeddingPart) -> Range<usize> {
        let (first, length) = match part {
            EmbeddingPart::Projection(head) => (head * self.dimension, self.dimension),
            EmbeddingPart::Direction => (self.projections_len, self.inputs),
            EmbeddingPart::Roots => (self.projections_len + self.inputs, self.roots_len),
        };
        first..first + length
    }

    /// That part of what each of these exemplars of a bank adds to its class, `[exemplars, length of the part]`, as
    /// [`Self::contributions_of`] gives it. Projections that are known already need not be computed.
    pub(super) fn part_of(
        &self,
        part: EmbeddingPart,
        bank: &Bank,
        exemplars: &[usize],
        known: &Projections,
    ) -> Vec<f32> {
        let range = self.range_of(part);
        let rows = match part {
            EmbeddingPart::Projection(head) => {
                let known: Option<Vec<&[f32]>> = exemplars.iter().map(|&exemplar| known.find(exemplar)).collect();
                let columns = |rows: Vec<&[f32]>| -> Vec<f32> {
                    let rows = rows.into_iter().flat_map(|rows| rows.chunks_exact(self.projections_len));
                    rows.flat_map(|row| &row[range.clone()]).copied().collect()
                };
                known.map_or_else(|| self.heads[head].projector.project(&bank.views_of(exemplars)), columns)
            }
            EmbeddingPart::Direction => {
                let mut rows = bank.views_of(exemplars);
                rows.chunks_exact_mut(self.inputs).for_each(|row| direction(row, &self.centre));
                rows
            }
            EmbeddingPart::Roots => {
                let mut rows = bank.views_of(exemplars);
                rows.chunks_exact_mut(self.inputs).for_each(|row| root_direction(row, &self.root_centre));
                rows
            }
        };
        means_of_views(rows, bank.views(), range.len())
    }

    /// Embeddings `[n, length]` of features `[n, inputs]`.
    pub(super) fn embed(&self, features: &[f32]) -> Vec<f32> {
        let mut embedded = self.embed_without_projections(features);
        let projected = self.project(features);
        self.set_projections(&mut embedded, projected.chunks_exact(self.projections_len.max(1)));
        embedded
    }

    /// Projections by all heads `[n, projections_len]` of features `[n, inputs]`.
    fn project(&self, features: &[f32]) -> Vec<f32> {
        // Without a copy, which would take as much memory again.
        if let [head] = &self.heads[..] {
            return head.projector.project(features);
        }
        let mut projected = vec![0.0; features.len() / self.inputs * self.projections_len];
        for (number, head) in self.heads.iter().enumerate() {
            let rows = projected.chunks_exact_mut(self.projections_len);
            let own = head.projector.project(features);
            for (row, own) in rows.zip(own.chunks_exact(self.dimension)) {
                row[number * self.dimension..][..self.dimension].copy_from_slice(own);
            }
        }
        projected
    }

    /// Turns embeddings `[n, length]` of left-out shots into those that score as pictures to come. Phase 3 trained the
    /// aligned head on these very shots, so their scores under it are too high; those under the head of phase 2 are too
    /// low, since new pictures gain by phase 3. So a part of the aligned head's weight goes to the head of phase 2,
    /// if that has a weight. Scores are products, so the parts of the embedding are scaled in place of the weights.
    pub(super) fn discount_aligned(&self, embedded: &mut [f32]) {
        let [phase_2, aligned] = &self.heads[..] else { return };
        let factors = [1.0 + MOVED_FROM_ALIGNED * aligned.weight / phase_2.weight, 1.0 - MOVED_FROM_ALIGNED];
        for row in embedded.chunks_exact_mut(self.length()) {
            for (projection, factor) in row.chunks_exact_mut(self.dimension).zip(factors) {
                projection.iter_mut().for_each(|value| *value *= factor);
            }
        }
    }

    /// Embeddings `[n, length]` of features `[n, inputs]` without their projections.
    fn embed_without_projections(&self, features: &[f32]) -> Vec<f32> {
        let length = self.length();
        let mut embedded = vec![0.0; features.len() / self.inputs * length];
        for (to, from) in embedded.chunks_exact_mut(length).zip(features.chunks_exact(self.inputs)) {
            let (directed, roots) = to[self.projections_len..].split_at_mut(self.inputs);
            directed.copy_from_slice(from);
            direction(directed, &self.centre);
            if self.has_roots() {
                roots.copy_from_slice(from);
                root_direction(roots, &self.root_centre);
            }
        }
        embedded
    }

    fn set_projections<'a>(&self, embedded: &mut [f32], projected: impl Iterator<Item = &'a [f32]>) {
        let rows = embedded.chunks_exact_mut(self.length());
        rows.zip(projected).for_each(|(row, projected)| row[..self.projections_len].copy_from_slice(projected));
    }

    /// What each shot adds to its class, `[shots, length]`: the mean of its clean view's embedding and of the
    /// augmented ones' mean.
    ///
    /// # Shapes
    /// `shots` `[shots, views, inputs]`, the clean view of each first.
    pub(super) fn contributions(&self, shots: &[f32], views: usize) -> Vec<f32> {
        means_of_views(self.embed(shots), views, self.length())
    }

    /// Projections of some of a bank's exemplars, in ascending order; those that earlier scorings left are taken.
    pub(super) fn projections(&self, bank: &Bank, exemplars: &[usize], work: &mut ScoringWork<'_>) -> Projections {
        let (views, projections_len) = (bank.views(), self.projections_len);
        if projections_len == 0 {
            return Projections { views, ..Projections::default() };
        }
        let rows = vec![0.0; exemplars.len() * views * projections_len];
        let mut projections = Projections { views, projections_len, exemplars: exemplars.to_vec(), rows };
        for (number, head) in self.heads.iter().enumerate() {
            let mut kept = work.cache.as_deref_mut().and_then(|cache| cache.of_head(number, self.generation));
            let mut missing = Vec::new();
            for (place, &exemplar) in exemplars.iter().enumerate() {
                match kept.as_mut().and_then(|kept| kept.samples.get(&bank.digest_of(exemplar))) {
                    Some(rows) => projections.set(place, number, rows),
                    None => missing.push((place, exemplar)),
                }
            }
            let project = |some: &[(usize, usize)]| {
                let exemplars: Vec<usize> = some.iter().map(|(_, exemplar)| *exemplar).collect();
                head.projector.project(&bank.views_of(&exemplars))
            };
            let mut computed = missing.iter();
            for_each_result(work.workers, &missing, EMBED_BATCH, project, |rows| {
                for (rows, &(place, exemplar)) in rows.chunks_exact(views * self.dimension).zip(&mut computed) {
                    projections.set(place, number, rows);
                    kept.iter_mut().for_each(|kept| kept.samples.insert(bank.digest_of(exemplar), rows));
                }
            });
        }
        projections
    }

    /// Embeddings `[exemplars, length]` of the clean views of some of a bank's exemplars, whose projections are known.
    pub(super) fn embed_clean(&self, bank: &Bank, exemplars: &[usize], projections: &Projections) -> Vec<f32> {
        let mut embedded = self.embed_without_projections(&bank.clean_of(exemplars));
        self.set_projections(&mut embedded, exemplars.iter().map(|&exemplar| projections.clean(exemplar)));
        embedded
    }

    /// Embeddings `[exemplars, views, length]` of all views of some of a bank's exemplars, whose projections are known.
    pub(super) fn embed_views(&self, bank: &Bank, exemplars: &[usize], projections: &Projections) -> Vec<f32> {
        let mut embedded = self.embed_without_projections(&bank.views_of(exemplars));
        let rows =
            exemplars.iter().flat_map(|&exemplar| projections.of(exemplar).chunks_exact(self.projections_len.max(1)));
        self.set_projections(&mut embedded, rows);
        embedded
    }

    /// What each of these exemplars of a bank, whose projections are known, adds to its class, `[exemplars, length]`.
    pub(super) fn contributions_of(&self, bank: &Bank, exemplars: &[usize], projections: &Projections) -> Vec<f32> {
        let embedded = self.embed_without_projections(&bank.views_of(exemplars));
        let mut contributions = means_of_views(embedded, bank.views(), self.length());
        if self.projections_len > 0 {
            let rows = exemplars.iter().flat_map(|&exemplar| projections.of(exemplar)).copied().collect();
            let means = means_of_views(rows, bank.views(), self.projections_len);
            self.set_projections(&mut contributions, means.chunks_exact(self.projections_len));
        }
        contributions
    }
}

/// Projections of some of a bank's exemplars: most of the work of embedding them, kept where they are needed more than
/// once.
#[derive(Default)]
pub(super) struct Projections {
    views: usize,
    projections_len: usize,
    /// Indices of the exemplars, in ascending order.
    exemplars: Vec<usize>,
    /// `[exemplars, views, projections_len]`.
    rows: Vec<f32>,
}

impl Projections {
    /// Sets what the head of this number gives for all views of the exemplar in this place, `[views, dimension]`.
    fn set(&mut self, place: usize, head: usize, rows: &[f32]) {
        let (length, dimension) = (self.projections_len, rows.len() / self.views);
        let own = self.rows[place * self.views * length..].chunks_exact_mut(length);
        let parts = own.map(|row| &mut row[head * dimension..][..dimension]);
        parts.zip(rows.chunks_exact(dimension)).for_each(|(to, from)| to.copy_from_slice(from));
    }

    /// Projections of all views of an exemplar, `[views, projections_len]`.
    fn of(&self, exemplar: usize) -> &[f32] {
        self.find(exemplar).expect("projections of every exemplar that is needed")
    }

    /// Projections of all views of an exemplar, `[views, projections_len]`, if they are known.
    fn find(&self, exemplar: usize) -> Option<&[f32]> {
        let length = self.views * self.projections_len;
        if length == 0 {
            return Some(&[]);
        }
        let place = self.exemplars.binary_search(&exemplar).ok()?;
        Some(&self.rows[place * length..][..length])
    }

    /// Projections of the clean view of an exemplar, `[projections_len]`.
    fn clean(&self, exemplar: usize) -> &[f32] {
        &self.of(exemplar)[..self.projections_len]
    }
}

/// The share of one of a shot's views: one half for the clean view, which is the first; the others share the rest.
pub(super) fn share_of_view(view: usize, views: usize) -> f32 {
    match (view, views) {
        (_, 1) => 1.0,
        (0, _) => 0.5,
        _ => 0.5 / (views - 1) as f32,
    }
}

/// One row for each shot, `[shots, length]`, from those of its views, `[shots, views, length]`, by their
/// [shares](share_of_view).
fn means_of_views(mut rows: Vec<f32>, views: usize, length: usize) -> Vec<f32> {
    if views == 1 {
        return rows;
    }
    let mut means = Vec::with_capacity(rows.len() / views);
    for shot in rows.chunks_exact_mut(views * length) {
        let (clean, augmented) = shot.split_at_mut(length);
        clean.iter_mut().for_each(|value| *value *= share_of_view(0, views));
        let share = share_of_view(1, views);
        augmented.chunks_exact(length).for_each(|row| add_scaled(clean, share, row));
        means.extend_from_slice(clean);
    }
    means
}

//! The row and the offset that score a class, from the sum over its shots.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use orco_core::linalg::{LANES, LeftFactor, RightFactor, pack_transposed, padded, product};
use orco_core::math::{dot, normalise};
use orco_core::workers::{Workers, for_each_chunk};

use super::ScoringWork;
use super::embed::{EMBED_BATCH, Embedder};
use super::low_rank::LowRankMap;
use super::scatter::{RemovedShot, ScatterBasis, ScatterChange, ScatteredShot, ShotScatter};
use crate::bank::Bank;
use crate::state::Scoring;

/// Turns the sums over classes' shots into their [rows](ClassRow).
#[derive(Clone, Debug)]
pub(super) struct ClassRowBuilder {
    /// W: by the covariance of base classes.
    whitener: LowRankMap,
    /// M; `None` where the discriminant has no weight, or no class has two different shots.
    scatter: Option<Arc<ShotScatter>>,
    /// Dimension of a head's sphere.
    dimension: usize,
    projections_len: usize,
    inputs: usize,
    roots_len: usize,
    /// Weight of each head's projections. All weights here are divided by their sum and by the score's deviation over
    /// base images.
    head_weights: Vec<f32>,
    /// Divided by the [multiple of the usual shots](ShotScatter::multiple), too: the more shots there are, the better
    /// the discriminant is, and the less the means' directions add.
    means_weight: f32,
    /// Divided by the spread that the shots' scatter leaves, too.
    discriminant_weight: f32,
}

impl ClassRowBuilder {
    /// A builder for the classes that have these shots.
    pub(super) fn new(embedder: &Embedder, scoring: Scoring<'_>, shots: &Bank, work: &mut ScoringWork<'_>) -> Self {
        let Scoring { weights, statistics } = scoring;
        let sum_of_weights: f32 = weights.values().iter().sum();
        let [targets_deviation, means_deviation, discriminant_deviation] = statistics.deviations;
        let whitener = LowRankMap::whitening(statistics, embedder.inputs);
        let (root_centre, prior) = (&statistics.root_centre[..], weights.scatter_prior);
        let basis = ScatterBasis { root_centre, whitener: &whitener, prior };
        let scatter = if embedder.roots_len > 0 { ShotScatter::of(shots, basis, work) } else { None };
        // Without a discriminant nothing takes the place of the means.
        let multiple = scatter.as_ref().map_or(1.0, |scatter| scatter.multiple);
        // Scores of base classes stay as far spread as the deviation says.
        let spread = scatter.as_ref().map_or(1.0, |scatter| scatter.remaining_spread(&statistics.whitened));
        Self {
            whitener,
            scatter,
            dimension: embedder.dimension,
            projections_len: embedder.projections_len,
            inputs: embedder.inputs,
            roots_len: embedder.roots_len,
            // Scores of both heads are as far spread before one of them is aligned, so they are divided alike.
            head_weights: embedder.heads.iter().map(|head| head.weight / sum_of_weights / targets_deviation).collect(),
            means_weight: weights.means / sum_of_weights / means_deviation / multiple,
            discriminant_weight: weights.discriminant / sum_of_weights / discriminant_deviation / spread,
        }
    }

    /// Where the roots begin: the last part, which is whitened.
    pub(super) fn roots_start(&self) -> usize {
        self.projections_len + self.inputs
    }

    /// Length of a row.
    fn length(&self) -> usize {
        self.roots_start() + self.roots_len
    }

    /// Whitens the last part of rows `[n, length]`.
    pub(super) fn whiten(&self, rows: &mut [f32]) {
        if self.roots_len == 0 {
            return;
        }
        let mut roots = self.roots_of(rows);
        self.whiten_roots(&mut roots);
        self.set_roots(rows, &roots);
    }

    /// The last part of rows `[n, length]`.
    fn roots_of(&self, rows: &[f32]) -> Vec<f32> {
        let length = self.length();
        rows.chunks_exact(length).flat_map(|row| &row[self.roots_start()..]).copied().collect()
    }

    fn set_roots(&self, rows: &mut [f32], roots: &[f32]) {
        let length = self.length();
        for (row, roots) in rows.chunks_exact_mut(length).zip(roots.chunks_exact(self.roots_len.max(1))) {
            row[self.roots_start()..].copy_from_slice(roots);
        }
    }

    /// Whitens sums of roots, `[n, inputs]`.
    pub(super) fn whiten_roots(&self, sums: &mut [f32]) {
        if self.roots_len > 0 {
            self.whitener.apply(sums);
        }
    }

    /// Takes each shot by itself out of the scatter; `None` for one that is not in it.
    pub(super) fn without_shots<'s>(&self, shots: impl Iterator<Item = ScatteredShot<'s>>) -> Vec<Option<RemovedShot>> {
        match &self.scatter {
            Some(scatter) => scatter.without(shots, &self.whitener),
            None => shots.map(|_| None).collect(),
        }
    }

    /// Frees what only [`Self::without_shots`] needs, unless a cache has it, too.
    pub(super) fn forget_shots(&mut self) {
        if let Some(scatter) = self.scatter.as_mut().and_then(Arc::get_mut) {
            scatter.forget_shots();
        }
    }

    /// How scores change without a shot; `row_products` holds the inner product of each class's row with its residual.
    pub(super) fn change(&self, removed: RemovedShot, row_products: Vec<f32>) -> ScatterChange {
        ScatterChange { removed, row_products, weight: self.discriminant_weight, roots_start: self.roots_start() }
    }

    /// Turns sums of what shots add, `[n, length]`, the last part whitened, into the rows that give the classes'
    /// scores; returns the offsets, `[n]`.
    ///
    /// With z (one for each head), d and u the means of a class's projections, directions and whitened roots over its
    /// `counts` shots, the whitening W, the scatter's damping M, and w the weights of the scores, divided by their
    /// deviations:
    ///
    /// row = (w_head z / |z| .., w_means d / |d|, w_discriminant W M u), offset = -w_discriminant / 2 u . M u
    pub(super) fn finish_rows(&self, sums: &mut [f32], counts: &[f32]) -> Vec<f32> {
        let length = self.length();
        for (row, count) in sums.chunks_exact_mut(length).zip(counts) {
            row.iter_mut().for_each(|value| *value /= count);
        }
        let mut damped = self.roots_of(sums);
        if let Some(scatter) = &self.scatter {
            scatter.damp(&mut damped);
        }
        let offset = |(place, row): (usize, &[f32])| {
            let damped = &damped[place * self.roots_len..][..self.roots_len];
            -0.5 * self.discriminant_weight * dot(&row[self.roots_start()..], damped)
        };
        let offsets = sums.chunks_exact(length).enumerate().map(offset).collect();
        self.whiten_roots(&mut damped);
        self.set_roots(sums, &damped);
        for row in sums.chunks_exact_mut(length) {
            let (projected, rest) = row.split_at_mut(self.projections_len);
            let (directed, whitened) = rest.split_at_mut(self.inputs);
            for (z, weight) in projected.chunks_exact_mut(self.dimension).zip(&self.head_weights) {
                normalise(z);
                scale(z, *weight);
            }
            normalise(directed);
            scale(directed, self.means_weight);
            scale(whitened, self.discriminant_weight);
        }
        offsets
    }
}

fn scale(values: &mut [f32], factor: f32) {
    values.iter_mut().for_each(|value| *value *= factor);
}

/// A class's score for an embedding is the inner product with `row`, plus `offset`.
#[derive(Clone, Debug)]
pub(super) struct ClassRow {
    pub(super) row: Vec<f32>,
    pub(super) offset: f32,
}

impl ClassRow {
    /// The row once a shot is taken out of the scatter; the same row for `None`.
    #[must_use]
    pub(super) fn changed(mut self, change: Option<&ScatterChange>) -> Self {
        if let Some(change) = change {
            change.apply_to_row(&mut self.row, &mut self.offset);
        }
        self
    }

    pub(super) fn score(&self, embedded: &[f32]) -> f32 {
        dot(&self.row, embedded) + self.offset
    }
}

/// Classes whose rows are made at a time: whole groups of columns, so that each is written by one worker.
pub(crate) const ROW_BATCH: usize = EMBED_BATCH.next_multiple_of(LANES);

/// The [rows](ClassRow) and offsets of all classes.
#[derive(Clone, Debug)]
pub(super) struct ScoreRows {
    /// `[length, padded(classes)]`, packed: a class is a column.
    columns: Vec<f32>,
    offsets: Vec<f32>,
    length: usize,
}

impl ScoreRows {
    /// The rows of no class.
    pub(super) fn empty(length: usize) -> Self {
        Self { columns: Vec::new(), offsets: Vec::new(), length }
    }

    /// Computes the rows of `classes` classes: `rows_of` returns the rows `[n, length]` of a range of them, and their
    /// offsets, `[n]`.
    pub(super) fn compute(
        classes: usize,
        length: usize,
        workers: &dyn Workers,
        rows_of: impl Fn(Range<usize>) -> (Vec<f32>, Vec<f32>) + Sync,
    ) -> Self {
        let (mut columns, mut offsets) = (vec![0.0; length * padded(classes)], vec![0.0; classes]);
        let buffers = [(&mut columns[..], ROW_BATCH * length), (&mut offsets[..], ROW_BATCH)];
        for_each_chunk(workers, buffers, |number, [columns, offsets]| {
            let first = number * ROW_BATCH;
            let (rows, of_rows) = rows_of(first..first + offsets.len());
            pack_transposed(offsets.len(), length, &rows, columns);
            offsets.copy_from_slice(&of_rows);
        });
        Self { columns, offsets, length }
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Adds to every class's score.
    pub(super) fn add(&mut self, offsets: &[f32]) {
        self.offsets.iter_mut().zip(offsets).for_each(|(to, offset)| *to += offset);
    }

    pub(super) fn push(&mut self, class: &ClassRow) {
        let count = self.len();
        if count.is_multiple_of(LANES) {
            self.columns.resize(self.columns.len() + self.length * LANES, 0.0);
        }
        let group = &mut self.columns[count / LANES * self.length * LANES..];
        group.chunks_exact_mut(LANES).zip(&class.row).for_each(|(lanes, value)| lanes[count % LANES] = *value);
        self.offsets.push(class.offset);
    }

    /// Scores `[n, classes]` of embeddings `[n, length]`.
    pub(super) fn scores(&self, embedded: &[f32]) -> Vec<f32> {
        let mut scores = self.products_of_last(embedded, self.length);
        for row in scores.chunks_exact_mut(self.len().max(1)) {
            row.iter_mut().zip(&self.offsets).for_each(|(score, offset)| *score += offset);
        }
        scores
    }

    /// Inner products `[n, classes]` of the last part of every class's row with vectors `[n, inputs]`.
    pub(super) fn products_of_last(&self, vectors: &[f32], inputs: usize) -> Vec<f32> {
        let (count, rows) = (self.len(), vectors.len() / inputs);
        let mut products = vec![0.0; rows * count];
        let last = RightFactor {
            values: self.columns.get((self.length - inputs) * LANES..).unwrap_or_default(),
            stride: LANES,
            group_stride: self.length * LANES,
            columns: padded(count),
        };
        product(rows, inputs, LeftFactor::rows(vectors, inputs), last, |row, column, sums| {
            let line = products[row * count..][..count].iter_mut().skip(column);
            line.zip(sums).for_each(|(to, sum)| *to = *sum);
        });
        products
    }
}

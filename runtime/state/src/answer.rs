//! Answers from all that is known of a class: its mean projections under the head of phase 2 and the aligned one, its
//! mean, and the linear discriminant, with a border between base classes and learned ones.
//!
//! A picture's features become one long vector, its *embedding*: their projections by both heads; their direction from
//! the centre of all base features; and the direction of their roots from the centre of those. Projections and roots
//! whose scores have weight 0 are left out. A class is the mean of such vectors over its shots; the clean view of a
//! shot weighs as much as its augmented views together. A score is then one inner product and one offset:
//!
//! - targets and aligned: under each head, the cosine to a base class's pseudo-target, or to the mean projection of a
//!   learned class's shots;
//! - means: the cosine to its mean direction (nearest class mean);
//! - discriminant: v . u - |u|^2 / 2, v a picture's whitened roots and u their mean over a class, which orders classes
//!   as their distances |v - u| do. The whitening W is linear and symmetric, so it is applied to means alone: once in
//!   u, and once more in place of v. The scatter of the device's shots joins the covariance by which it whitens
//!   (`answer/scatter.rs`).
//!
//! Each is divided by its deviation over base images, so that weights mean the same with every backbone: both heads by
//! that under the head of phase 2, whose weight is that of both together until a head is aligned.

mod balance_estimate;
mod calibrate;
mod embed;
mod left_out;
mod low_rank;
mod model;
mod sampling;
mod scatter;
mod score;
mod scoring_cache;
#[cfg(test)]
mod tests;
mod validation;

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use orco_core::math::{add_scaled, highest};
use orco_core::workers::{Serial, Workers};

pub use self::balance_estimate::{BalanceEstimate, BalanceEstimates, balance_estimates};
use self::calibrate::add_border;
pub(crate) use self::calibrate::softmax;
pub use self::calibrate::{Calibrator, LeftOutAccuracy};
pub(crate) use self::embed::EMBED_BATCH;
use self::embed::Embedder;
pub(crate) use self::left_out::{MAX_OTHERS, MAX_VIEWED, VIEW_BATCH};
pub(crate) use self::model::ScoringModel;
pub(crate) use self::scatter::{most_scattered, multiple_of_usual};
pub(crate) use self::score::ROW_BATCH;
use self::score::{ClassRow, ClassRowBuilder, ScoreRows};
pub use self::scoring_cache::ScoringCache;
pub(crate) use self::validation::{
    JudgeableSamples, MAX_SHOT_SAMPLES, Validation, ValidationSamples, judgeable_samples,
};
use crate::state::{BaseModel, Calibration, Scoring, State};

/// Most samples that are scored when a predictor is made. By their scores the thresholds of unknown pictures are
/// chosen, and the temperature where no change has chosen one yet.
pub(crate) const MAX_FIRST_SAMPLES: usize = 1000;

/// Most shots of learned classes that are scored for the sets of labels.
const MAX_FIRST_SHOTS: usize = 250;

/// Most shots of learned classes whose views are scored, for the thresholds of answers that name learned classes alone.
const MAX_FIRST_VIEWED: usize = 100;

/// The classes that answers name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredClasses {
    /// All known classes.
    All,
    /// Learned classes alone: base classes are no rivals.
    Learned,
}

impl AnsweredClasses {
    /// Index of the first of them; classes are numbered base classes first.
    pub fn first(self, base_classes: usize) -> usize {
        match self {
            Self::All => 0,
            Self::Learned => base_classes,
        }
    }
}

/// Cache and threads for scoring a state's classes and samples.
pub(crate) struct ScoringWork<'a> {
    /// What earlier scorings computed, if it is kept.
    pub(crate) cache: Option<&'a mut ScoringCache>,
    /// The threads that share the work.
    pub(crate) workers: &'a dyn Workers,
}

/// Familiarity of a picture: its highest score, with the border added. Unknown pictures have a low one.
pub(crate) fn familiarity(scores: &[f32]) -> f32 {
    highest(scores)
}

/// Scores of a sample whose class is known.
#[derive(Clone, Debug)]
pub(crate) struct ScoredSample {
    /// Its class.
    pub(crate) class: u32,
    /// Whether the bundle set it aside; the others are the device's shots.
    pub(crate) is_set_aside: bool,
    /// Scores of every known class.
    pub(crate) scores: Vec<f32>,
}

/// Scores of samples whose class is known, the border included.
pub(crate) struct KnownSamples {
    /// Samples of all classes, evenly chosen.
    pub(crate) all: Vec<ScoredSample>,
    /// Shots of learned classes.
    pub(crate) learned: Vec<ScoredSample>,
    /// All views of such shots.
    pub(crate) views: Vec<ScoredSample>,
}

/// A state, prepared for answering.
#[derive(Clone, Debug)]
pub(crate) struct Predictor {
    embedder: Embedder,
    row_builder: ClassRowBuilder,
    rows: ScoreRows,
    base: usize,
    calibration: Calibration,
}

impl ScoringWork<'_> {
    /// No cache, and the caller's thread alone.
    pub(crate) fn alone() -> Self {
        Self { cache: None, workers: &Serial }
    }
}

impl Predictor {
    pub(crate) fn new(base_model: &BaseModel, state: &State, scoring: Scoring<'_>, work: &mut ScoringWork<'_>) -> Self {
        match state.calibration {
            Some(calibration) => Self::of(ScoringModel::new(base_model, state, scoring, &[], work), calibration),
            None => Self::with_samples(base_model, state, scoring, work).0,
        }
    }

    /// A predictor, and the scores of samples whose class is known, the border included.
    pub(crate) fn with_samples(
        base_model: &BaseModel,
        state: &State,
        scoring: Scoring<'_>,
        work: &mut ScoringWork<'_>,
    ) -> (Self, KnownSamples) {
        let validation = ValidationSamples::of(base_model, state, scoring);
        let of_all = validation.even_samples(MAX_FIRST_SAMPLES);
        let of_learned = validation.learned_samples(MAX_FIRST_SHOTS);
        let of_viewed = validation.viewed_samples(MAX_FIRST_VIEWED);
        let of_either: Vec<usize> =
            of_all.iter().chain(&of_learned).copied().collect::<BTreeSet<_>>().into_iter().collect();
        let is_calibrated = state.calibration.is_some() || state.classes.is_empty();
        let wanted = if is_calibrated {
            validation.exemplars_to_score(&of_either, &of_viewed)
        } else {
            validation.exemplars_to_calibrate()
        };
        let model = ScoringModel::new(base_model, state, scoring, &wanted, work);
        let mut scored = validation.scored_samples(&model, &of_either, work);
        let base = model.base();
        let calibration = state.calibration.unwrap_or_else(|| {
            if !state.classes.is_empty() {
                return validation.calibrate(&model, work);
            }
            let classes: Vec<u32> = scored.values().map(|sample| sample.class).collect();
            let mut calibrator = Calibrator::new(&classes, base, model.len());
            scored.values().for_each(|sample| calibrator.add(&sample.scores));
            calibrator.choose(state.balance, 0.0, scoring.statistics.initial_shift)
        });
        let mut views = validation.scored_views(&model, &of_viewed, work);
        let with_border = |sample: &mut ScoredSample| add_border(&mut sample.scores, base, calibration.border.shift);
        scored.values_mut().chain(&mut views).for_each(with_border);
        let learned = of_learned.iter().filter_map(|number| scored.get(number).cloned()).collect();
        let all = of_all.iter().filter_map(|number| scored.remove(number)).collect();
        (Self::of(model, calibration), KnownSamples { all, learned, views })
    }

    fn of(model: ScoringModel<'_>, calibration: Calibration) -> Self {
        let base = model.base();
        let (embedder, mut row_builder, rows) = (model.embedder, model.row_builder, model.rows);
        row_builder.forget_shots();
        Self { embedder, row_builder, rows, base, calibration }
    }

    pub(crate) fn classes(&self) -> usize {
        self.rows.len()
    }

    /// What scores are divided by before they become probabilities.
    pub(crate) fn temperature(&self) -> f32 {
        self.calibration.temperature
    }

    /// Scores `[n, classes]` of features `[n, inputs]`, the border among them.
    pub(crate) fn scores(&self, features: &[f32]) -> Vec<f32> {
        let mut scores = self.rows.scores(&self.embedder.embed(features));
        for row in scores.chunks_exact_mut(self.classes().max(1)) {
            add_border(row, self.base, self.calibration.border.shift);
        }
        scores
    }

    /// Turns a row of scores into probabilities.
    pub(crate) fn probabilities(&self, scores: &mut [f32]) {
        softmax(scores, self.calibration.temperature);
    }

    /// Adds a class, known from its shots' features.
    pub(crate) fn imprint<'a>(&mut self, shots: impl Iterator<Item = &'a [f32]>) {
        let contributions: Vec<Vec<f32>> = shots.map(|shot| self.contribution(shot)).collect();
        self.rows.push(&self.row_of(contributions.iter().map(Vec::as_slice)));
    }

    /// Scores `[subsets, n]` of one more class, known by some of these shots alone, for features `[n, inputs]`, the
    /// border among them.
    pub(crate) fn scores_of_subsets(
        &self,
        shots: &[Vec<f32>],
        subsets: &[Vec<usize>],
        features: &[f32],
    ) -> Vec<Vec<f32>> {
        let contributions: Vec<Vec<f32>> = shots.iter().map(|shot| self.contribution(shot)).collect();
        let embedded = self.embedder.embed(features);
        let scores = |subset: &Vec<usize>| {
            let mut class = self.row_of(subset.iter().map(|shot| contributions[*shot].as_slice()));
            class.offset += self.calibration.border.shift;
            embedded.chunks_exact(class.row.len()).map(|embedded| class.score(embedded)).collect()
        };
        subsets.iter().map(scores).collect()
    }

    /// What a shot adds to the sum of its class, `[length]`.
    fn contribution(&self, shot: &[f32]) -> Vec<f32> {
        self.embedder.contributions(shot, shot.len() / self.embedder.inputs)
    }

    /// The row of a class, from what its shots add.
    fn row_of<'a>(&self, contributions: impl Iterator<Item = &'a [f32]>) -> ClassRow {
        let mut sum = vec![0.0; self.embedder.length()];
        let mut count = 0.0;
        for contribution in contributions {
            add_scaled(&mut sum, 1.0, contribution);
            count += 1.0;
        }
        self.row_builder.whiten(&mut sum);
        let offsets = self.row_builder.finish_rows(&mut sum, &[f32::max(count, 1.0)]);
        ClassRow { row: sum, offset: offsets[0] }
    }
}

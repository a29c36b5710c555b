//! Takes a learner through the sessions of a benchmark.

use std::ops::ControlFlow;
use std::time::Instant;

use orco_core::align::AlignProgress;
use orco_state::session::{LearnError, NewClass, OnProgress};
use orco_state::state::{BaseModel, State};

use crate::accuracy_estimate::AccuracyEstimateError;
use crate::benchmark::Benchmark;
use crate::metrics::{AccuracyCounts, SessionAccuracy};
use crate::summary::Draw;

/// A system on its way through the sessions of a draw: it is given the shots of one session after the other, as a
/// device is, and scores pictures in between.
pub trait FeatureLearner {
    /// Learns the classes of a session and returns the floating-point operations of its training, those of matrix
    /// products, as far as they are counted.
    ///
    /// # Errors
    /// [`LearnError`] if the session cannot be learned, or was cancelled.
    fn learn(&mut self, new: &[NewClass], on_progress: OnProgress<'_>) -> Result<f64, LearnError>;

    /// Scores of every class learned so far: `features` `[n, inputs]`, result `[n, classes]`.
    fn scores(&self, features: &[f32]) -> Vec<f32>;

    /// The state of a device, where the learner is one.
    fn state(&self) -> Option<&State> {
        None
    }
}

/// Why measuring stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// A session could not be learned.
    #[error("session {session} cannot be learned")]
    Learn {
        /// The session, from 1.
        session: usize,
        /// What the learner said.
        source: LearnError,
    },
}

/// The sessions of a benchmark with one draw of the shots.
#[derive(Clone, Copy, Debug)]
pub struct SessionWalk<'a> {
    /// What sessions begin with.
    pub base_model: &'a BaseModel,
    /// The features that are learned and measured on.
    pub benchmark: &'a Benchmark,
    /// Number of the draw.
    pub draw: usize,
    /// Seed of the draws.
    pub seed: u64,
}

/// What learning all sessions of a draw took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LearningCost {
    /// Floating-point operations, those of matrix products.
    pub operations: f64,
    /// Seconds.
    pub seconds: f64,
}

impl SessionWalk<'_> {
    /// Leads a learner through all sessions; `on_progress` sees every epoch of learning with its session and may cancel
    /// there, `on_session` looks at every session after it is learned.
    ///
    /// # Errors
    /// [`EvaluateError`] if a session cannot be learned, or was cancelled.
    pub fn run(
        &self,
        learner: &mut dyn FeatureLearner,
        on_progress: &mut (dyn FnMut(usize, AlignProgress) -> ControlFlow<()> + Send),
        on_session: &mut dyn FnMut(&SessionScores<'_>),
    ) -> Result<LearningCost, EvaluateError> {
        let Self { base_model, benchmark, draw, seed } = *self;
        let base = base_model.classes.len();
        // In the order in which their classes come, so that a session's pictures begin with those of the one before.
        let (of, measured) = benchmark.measured_by_class();
        let mut cost = LearningCost::default();
        for (session, classes) in benchmark.classes_after(base).into_iter().enumerate() {
            if session > 0 {
                let new = benchmark.session(base_model, session, draw, seed);
                let started = Instant::now();
                let learned = learner.learn(&new, &mut |progress| on_progress(session, progress));
                cost.operations += learned.map_err(|source| EvaluateError::Learn { session, source })?;
                cost.seconds += started.elapsed().as_secs_f64();
            }
            let pictures = of.partition_point(|class| (*class as usize) < classes);
            let scores = learner.scores(&measured[..pictures * base_model.head.inputs]);
            let (of, state) = (&of[..pictures], learner.state());
            on_session(&SessionScores { session, base, classes, of, scores: &scores, state });
        }
        Ok(cost)
    }

    /// As [`SessionWalk::run`], measuring every session; `on_session` is given each with its accuracies as soon as it
    /// is measured.
    ///
    /// # Errors
    /// As for [`SessionWalk::run`].
    pub fn measure(
        &self,
        learner: &mut dyn FeatureLearner,
        on_progress: &mut (dyn FnMut(usize, AlignProgress) -> ControlFlow<()> + Send),
        on_session: &mut dyn FnMut(&SessionScores<'_>, &SessionAccuracy),
    ) -> Result<Draw, EvaluateError> {
        let mut rows = Vec::with_capacity(self.benchmark.ways.len() + 1);
        let mut estimate_errors = Vec::new();
        let LearningCost { operations, seconds } = self.run(learner, on_progress, &mut |scores| {
            let row = scores.counts().row(scores.session);
            on_session(scores, &row);
            estimate_errors.extend(scores.estimate_error(&row));
            rows.push(row);
        })?;
        Ok(Draw { rows, estimate_errors, operations, seconds })
    }
}

/// How a learner scores the measured pictures after a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionScores<'a> {
    /// The session, 0 before anything was learned.
    pub session: usize,
    /// Base classes.
    pub base: usize,
    /// Classes learned so far, base classes among them.
    pub classes: usize,
    /// The class of every measured picture of these.
    of: &'a [u32],
    /// `[pictures, classes]`.
    scores: &'a [f32],
    /// The device's state, where the learner is one.
    pub state: Option<&'a State>,
}

impl<'a> SessionScores<'a> {
    /// The pictures of the classes learned so far, each with its class and the scores of all classes.
    pub fn pictures(&self) -> impl Iterator<Item = (usize, &'a [f32])> + use<'a> {
        let Self { classes, of, scores, .. } = *self;
        of.iter().map(|class| *class as usize).zip(scores.chunks_exact(classes))
    }

    /// What a device estimates less what was measured, where it estimates something.
    fn estimate_error(&self, measured: &SessionAccuracy) -> Option<AccuracyEstimateError> {
        let border = self.state?.calibration?.border;
        Some(AccuracyEstimateError::of(&border, [measured.base, measured.inc?], self.base as f64 / self.classes as f64))
    }

    /// Right answers per class.
    pub fn counts(&self) -> AccuracyCounts {
        let mut counts = AccuracyCounts::new(self.classes, self.base);
        self.pictures().for_each(|(class, scores)| counts.count_scores(class, scores));
        counts
    }
}

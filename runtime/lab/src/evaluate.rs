//! Walks through all sessions of a benchmark, by OrCo or by a baseline.

use core::ops::ControlFlow;
use std::thread;
use std::time::Instant;

use super::metrics::{Draw, Measured, Row, Summary, summarise};
use crate::benchmark::Benchmark;
use crate::published;
use crate::system::System;
use orco_core::align::AlignProgress;
use orco_core::config::Config;
use orco_core::workers::{Serial, Workers};
use orco_runtime::threads::{Threads, cores};
use orco_state::session::LearnError;
use orco_state::state::{BaseModel, State};

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

/// What is measured, and how.
#[derive(Clone, Copy, Debug)]
pub struct Measurement<'a> {
    /// What the bundle brings.
    pub base_model: &'a BaseModel,
    /// The features measured on.
    pub benchmark: &'a Benchmark,
    /// Who learns.
    pub system: System,
    /// Settings of phase 3.
    pub config: &'a Config,
    /// Seed of the draws, of shuffling and of perturbation.
    pub seed: u64,
}

impl Measurement<'_> {
    /// Measures over several draws of the shots, side by side on all cores; `on_epoch` is told of every epoch of
    /// learning, from any of the threads, and may cancel there.
    ///
    /// # Errors
    /// [`EvaluateError`] if a session cannot be learned, or was cancelled.
    /// # Panics
    /// If `draws` is 0.
    pub fn over(
        &self,
        draws: usize,
        on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Summary, EvaluateError> {
        Ok(summarise(self.system.name(), &self.draws(draws, on_epoch)?))
    }

    /// The same, draw by draw, to be [summarised](summarise).
    ///
    /// # Errors
    /// As for [`Measurement::over`].
    /// # Panics
    /// As for [`Measurement::over`].
    pub fn draws(
        &self,
        draws: usize,
        on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Vec<Draw>, EvaluateError> {
        self.draws_seen(draws, on_epoch, &|_, _| {})
    }

    /// The same; `on_session` looks at every session of every draw, from any of the threads.
    ///
    /// # Errors
    /// As for [`Measurement::over`].
    /// # Panics
    /// As for [`Measurement::over`].
    pub fn draws_seen(
        &self,
        draws: usize,
        on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
        on_session: &(dyn Fn(usize, &Scored<'_>) + Sync),
    ) -> Result<Vec<Draw>, EvaluateError> {
        let cores = cores();
        let workers = cores.min(draws);
        let work = |worker: usize| -> Vec<_> {
            // Cores that the draws leave over work on the matrices of one; the result is the same.
            let threads = (cores >= 2 * draws).then(|| Threads::new(cores / draws).ok()).flatten();
            let threads: &dyn Workers = threads.as_ref().map_or(&Serial, |threads| threads);
            let own = (worker..draws).step_by(workers);
            own.map(|draw| {
                let rows = self.rows(draw, threads, &mut |_, _| on_epoch(), &mut |scored, _| on_session(draw, scored));
                (draw, rows)
            })
            .collect()
        };
        let work = &work;
        let mut rows = thread::scope(|scope| {
            let (mut handles, mut own) = (Vec::new(), Vec::from([0]));
            for worker in 1..workers {
                match thread::Builder::new().spawn_scoped(scope, move || work(worker)) {
                    Ok(handle) => handles.push(handle),
                    // The process may have no more threads: this one does what that one would have done.
                    Err(_) => own.push(worker),
                }
            }
            let mut rows: Vec<_> = own.into_iter().flat_map(work).collect();
            rows.extend(handles.into_iter().flat_map(|handle| match handle.join() {
                Ok(rows) => rows,
                Err(panic) => std::panic::resume_unwind(panic),
            }));
            rows
        });
        rows.sort_by_key(|(draw, _)| *draw);
        rows.into_iter().map(|(_, rows)| rows).collect()
    }

    /// Measures over all sessions with one draw of the shots. `on_progress` sees every epoch of learning with its
    /// session and may cancel there, `on_row` sees every session's row as soon as it is measured.
    ///
    /// # Errors
    /// [`EvaluateError`] if a session cannot be learned, or was cancelled.
    pub fn draw(
        &self,
        draw: usize,
        workers: &dyn Workers,
        on_progress: &mut (dyn FnMut(usize, AlignProgress) -> ControlFlow<()> + Send),
        on_row: &mut dyn FnMut(&Row),
    ) -> Result<Draw, EvaluateError> {
        self.rows(draw, workers, on_progress, &mut |_, row| on_row(row))
    }

    fn rows(
        &self,
        draw: usize,
        workers: &dyn Workers,
        on_progress: &mut (dyn FnMut(usize, AlignProgress) -> ControlFlow<()> + Send),
        on_session: &mut dyn FnMut(&Scored<'_>, &Row),
    ) -> Result<Draw, EvaluateError> {
        let mut rows = Vec::with_capacity(self.benchmark.ways.len() + 1);
        let (operations, seconds) = self.walk(draw, workers, on_progress, &mut |scored| {
            let row = scored.measured().row(scored.session);
            on_session(scored, &row);
            rows.push(row);
        })?;
        Ok(Draw { rows, operations, seconds })
    }

    /// Walks through all sessions with one draw of the shots, `on_session` looking at every one after it is learned.
    /// Returns the operations and the seconds of learning.
    ///
    /// # Errors
    /// As for [`Measurement::draw`].
    pub fn walk(
        &self,
        draw: usize,
        workers: &dyn Workers,
        on_progress: &mut (dyn FnMut(usize, AlignProgress) -> ControlFlow<()> + Send),
        on_session: &mut dyn FnMut(&Scored<'_>),
    ) -> Result<(f64, f64), EvaluateError> {
        let Self { base_model, benchmark, system, config, seed } = *self;
        let own = system.settings(config, published::program(&benchmark.source));
        let base = base_model.classes.len();
        // In the order in which their classes come, so that a session's pictures begin with those of the one before.
        let (of, measured) = benchmark.measured_by_class();
        let mut learner = system.start(self, own.as_ref().unwrap_or(config), workers);
        let (mut operations, mut seconds) = (0.0, 0.0);
        for session in 0..=benchmark.ways.len() {
            if session > 0 {
                let new = benchmark.session(base_model, session, draw, seed);
                let started = Instant::now();
                let learned = learner.learn(&new, &mut |progress| on_progress(session, progress));
                operations += learned.map_err(|source| EvaluateError::Learn { session, source })?;
                seconds += started.elapsed().as_secs_f64();
            }
            let classes = base + benchmark.ways[..session].iter().sum::<u32>() as usize;
            let pictures = of.partition_point(|class| (*class as usize) < classes);
            let scores = learner.scores(&measured[..pictures * base_model.head.inputs]);
            let (of, state) = (&of[..pictures], learner.state());
            on_session(&Scored { session, base, classes, of, scores: &scores, state });
        }
        Ok((operations, seconds))
    }
}

/// What a system says of the measured pictures after a session.
#[derive(Clone, Copy, Debug)]
pub struct Scored<'a> {
    /// The session, 0 before anything was learned.
    pub session: usize,
    /// Base classes.
    pub base: usize,
    /// Classes seen so far.
    pub classes: usize,
    /// The class of every measured picture of these.
    of: &'a [u32],
    /// `[pictures, classes]`.
    scores: &'a [f32],
    /// The device's state, where the system is one.
    pub state: Option<&'a State>,
}

impl<'a> Scored<'a> {
    /// The pictures of the classes seen so far, each with its class and the scores of all classes.
    pub fn pictures(&self) -> impl Iterator<Item = (usize, &'a [f32])> + use<'a> {
        let Self { classes, of, scores, .. } = *self;
        of.iter().map(|class| *class as usize).zip(scores.chunks_exact(classes))
    }

    /// Right answers per class.
    pub fn measured(&self) -> Measured {
        let mut measured = Measured::new(self.classes, self.base);
        self.pictures().for_each(|(class, scores)| measured.count_scores(class, scores));
        measured
    }
}

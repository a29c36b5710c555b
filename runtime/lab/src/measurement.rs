//! Measures a system on a benchmark: over one draw of the shots, or over several side by side.

use std::ops::ControlFlow;
use std::thread;

use orco_benchmark::benchmark::Benchmark;
use orco_benchmark::{Draw, EvaluateError, SessionAccuracy, SessionScores, SessionWalk, Summary, summarise};
use orco_core::align::AlignProgress;
use orco_core::config::MethodConfig;
use orco_core::workers::{Serial, Workers};
use orco_runtime::threads::{Threads, usable_threads};
use orco_state::session::{ChangeReport, Session, SessionMemory};
use orco_state::state::{BaseModel, State};

use crate::published;
use crate::system::{AvailableSettings, System, SystemContext};

/// What is measured, and how.
#[derive(Clone, Copy, Debug)]
pub struct Measurement<'a> {
    /// What the bundle brings.
    pub base_model: &'a BaseModel,
    /// The features measured on.
    pub benchmark: &'a Benchmark,
    /// Who learns.
    pub system: System,
    /// How the method runs: alignment (phase 3), what is kept of a shot, and answers.
    pub config: &'a MethodConfig,
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
    pub fn run(&self, draws: usize, on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync)) -> Result<Summary, EvaluateError> {
        Ok(summarise(self.system.name(), &self.draws(draws, on_epoch)?))
    }

    /// Measures as [`Measurement::run`] does, draw by draw, to be [summarised](summarise).
    ///
    /// # Errors
    /// As for [`Measurement::run`].
    /// # Panics
    /// As for [`Measurement::run`].
    pub fn draws(
        &self,
        draws: usize,
        on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Vec<Draw>, EvaluateError> {
        self.draws_seen(draws, on_epoch, &|_, _| {})
    }

    /// As [`Measurement::draws`]; `on_session` looks at every session of every draw, from any of the threads.
    ///
    /// # Errors
    /// As for [`Measurement::run`].
    /// # Panics
    /// As for [`Measurement::run`].
    pub fn draws_seen(
        &self,
        draws: usize,
        on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
        on_session: &(dyn Fn(usize, &SessionScores<'_>) + Sync),
    ) -> Result<Vec<Draw>, EvaluateError> {
        let cores = usable_threads();
        let workers = cores.min(draws);
        let work = |worker: usize| -> Vec<_> {
            // Cores that the draws leave over work on the matrices of one; the result is the same.
            let threads = (cores >= 2 * draws).then(|| Threads::new(cores / draws).ok()).flatten();
            let threads: &dyn Workers = threads.as_ref().map_or(&Serial, |threads| threads);
            let own = (worker..draws).step_by(workers);
            own.map(|draw| {
                let rows =
                    self.run_sessions(draw, threads, &mut |_, _| on_epoch(), &mut |scores, _| on_session(draw, scores));
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

    /// Learns a session of a draw as a device does; gives the state after it.
    ///
    /// # Errors
    /// [`EvaluateError`] if it cannot be learned.
    pub(crate) fn learn(
        &self,
        draw: usize,
        session: usize,
        state: &State,
        memory: &mut SessionMemory,
    ) -> Result<(State, ChangeReport), EvaluateError> {
        let Self { base_model, benchmark, config, seed, .. } = *self;
        let new = benchmark.session(base_model, session, draw, seed);
        let on_progress = &mut |_| ControlFlow::Continue(());
        let mut device = Session { base_model, config, seed, memory, workers: &Serial, on_progress };
        device.learn(state, &new).map_err(|source| EvaluateError::Learn { session, source })
    }

    /// Runs the system through all sessions with one draw of the shots. `on_progress` sees every epoch of learning
    /// with its session and may cancel there, `on_session` looks at every session after it is learned.
    ///
    /// # Errors
    /// [`EvaluateError`] if a session cannot be learned, or was cancelled.
    pub fn run_sessions(
        &self,
        draw: usize,
        workers: &dyn Workers,
        on_progress: &mut (dyn FnMut(usize, AlignProgress) -> ControlFlow<()> + Send),
        on_session: &mut dyn FnMut(&SessionScores<'_>, &SessionAccuracy),
    ) -> Result<Draw, EvaluateError> {
        let Self { base_model, benchmark, system, config, seed } = *self;
        let program = published::program(&benchmark.source);
        let own = system.settings(AvailableSettings { measured_with: config, program });
        let context = SystemContext {
            base_model,
            benchmark,
            config: own.as_ref().unwrap_or(config),
            seed,
            workers,
            ablation: system.ablation(),
        };
        let mut learner = system.start(&context);
        SessionWalk { base_model, benchmark, draw, seed }.measure(learner.as_mut(), on_progress, on_session)
    }
}

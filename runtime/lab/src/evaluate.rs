//! Walks through all sessions of a benchmark, by OrCo or by a baseline.

use core::ops::ControlFlow;
use std::thread;
use std::time::Instant;

use super::metrics::{Draw, Measured, Row, Summary, summarise};
use crate::ablation::Ablation;
use crate::benchmark::Benchmark;
use crate::ridge::Ridge;
use orco_core::align::Progress;
use orco_core::config::{Answer, Config};
use orco_core::math::{add_scaled, exp, highest, normalise_rows};
use orco_core::workers::{Serial, Workers};
use orco_runtime::threads::{Threads, cores};
use orco_state::classify::{Classifier, mean_direction};
use orco_state::session::{self, LearnError, Memory, NewClass, Session};
use orco_state::state::{BaseModel, State};
use orco_state::target::cosines;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The device's learner: phase 3 in every session.
    Orco,
    /// The same, changed.
    Ablated(Ablation),
    /// Imprinting in the projected space, without training: a new class is the mean projection of its shots, a base
    /// class its pseudo-target; the head of phase 2 stays.
    Imprint,
    /// Nearest class mean on backbone features (cosine): base classes over all their training images, new classes over
    /// their shots.
    Ncm,
    /// The same with the means of new classes moved halfway to the base means that are like them (TEEN, Wang et al.,
    /// NeurIPS 2023: alpha 0.5, tau 16).
    Teen,
    /// Nearest class mean, seen from the mean of all base features, with a border chosen as ours is.
    NcmBorder,
    /// The linear discriminant with the covariance that base classes share, shrunk by half, on the roots of features,
    /// with a border chosen as ours is.
    LdaBorder,
    /// Ridge regression on random features, fitted to the bundle's exemplars and the shots, with a border chosen as
    /// ours is (RanPAC, McDonnell et al., NeurIPS 2023).
    Ridge,
}

impl System {
    /// The systems that are set side by side, ours first.
    pub const ALL: [Self; 7] =
        [Self::Orco, Self::Imprint, Self::Ncm, Self::Teen, Self::NcmBorder, Self::LdaBorder, Self::Ridge];

    /// The systems that can be measured on a bundle: those with a border need its statistics.
    pub fn on(base_model: &BaseModel) -> impl Iterator<Item = Self> {
        let statistics = base_model.statistics.is_some();
        let needs_them = |system: &Self| matches!(system, Self::NcmBorder | Self::LdaBorder | Self::Ridge);
        Self::ALL.into_iter().filter(move |system| statistics || !needs_them(system))
    }

    /// Of a system that is one part of our answers: the weights that leave the others out.
    fn alone(self) -> Option<Answer> {
        let none = Answer { targets: 0.0, means: 0.0, discriminant: 0.0 };
        match self {
            Self::NcmBorder => Some(Answer { means: 1.0, ..none }),
            Self::LdaBorder => Some(Answer { discriminant: 1.0, ..none }),
            _ => None,
        }
    }

    /// Name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Orco => "orco",
            Self::Ablated(_) => "orco, ablated",
            Self::Imprint => "imprint",
            Self::Ncm => "ncm",
            Self::Teen => "teen",
            Self::NcmBorder => "ncm + border",
            Self::LdaBorder => "lda + border",
            Self::Ridge => "ridge + border",
        }
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
        let cores = cores();
        let workers = cores.min(draws);
        let work = |worker: usize| -> Vec<_> {
            // Cores that the draws leave over work on the matrices of one; the result is the same.
            let threads = (cores >= 2 * draws).then(|| Threads::new(cores / draws).ok()).flatten();
            let threads: &dyn Workers = threads.as_ref().map_or(&Serial, |threads| threads);
            let own = (worker..draws).step_by(workers);
            own.map(|draw| (draw, self.draw(draw, threads, &mut |_, _| on_epoch(), &mut |_| {}))).collect()
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
        on_progress: &mut (dyn FnMut(usize, Progress) -> ControlFlow<()> + Send),
        on_row: &mut dyn FnMut(&Row),
    ) -> Result<Draw, EvaluateError> {
        let Self { base_model, benchmark, system, config, seed } = *self;
        let alone = system.alone().map(|answer| Config { epochs: 0, answer: Some(answer), ..config.clone() });
        let config = alone.as_ref().unwrap_or(config);
        let base = base_model.classes.len();
        let measured = benchmark.measured.clean();
        let mut state = State::fresh(base_model, [0; 32]);
        let mut memory = Memory::default();
        let (mut operations, mut seconds) = (0.0, 0.0);
        let mut added = Vec::new();
        let mut ridge = (system == System::Ridge).then(|| Ridge::new(base_model, seed));
        let mut rows = Vec::with_capacity(benchmark.ways.len() + 1);
        for session in 0..=benchmark.ways.len() {
            if session > 0 {
                let new = benchmark.session(base_model, session, draw, seed);
                match system {
                    System::Orco | System::Ablated(_) | System::NcmBorder | System::LdaBorder => {
                        let mut progress = |progress| on_progress(session, progress);
                        let started = Instant::now();
                        let (memory, on_progress) = (&mut memory, &mut progress);
                        let mut step = Session { base_model, config, seed, memory, workers, on_progress };
                        let learned = match system {
                            System::Ablated(ablation) => ablation.learn(&mut step, &state, &new),
                            _ => step.learn(&state, &new).map(|(state, _)| state),
                        };
                        state = learned.map_err(|source| EvaluateError::Learn { session, source })?;
                        seconds += started.elapsed().as_secs_f64();
                        operations += session::operations(base_model, &state, config) as f64;
                    }
                    System::Imprint | System::Ncm | System::Teen => added.extend(new),
                    System::Ridge => ridge.iter_mut().for_each(|ridge| ridge.add(&new)),
                }
            }
            let scores = match system {
                System::Orco | System::Ablated(_) | System::NcmBorder | System::LdaBorder => {
                    Classifier::with_config(base_model, &state, config).scores(&measured)
                }
                System::Imprint => imprinted(base_model, &added, &measured),
                System::Ncm => to_means(base_model, benchmark, &added, &measured, None),
                System::Teen => to_means(base_model, benchmark, &added, &measured, Some(&TEEN)),
                System::Ridge => ridge.as_ref().expect("made above").scores(&measured),
            };
            let seen = base + benchmark.ways[..session].iter().sum::<u32>() as usize;
            let mut counts = Measured::new(seen, base);
            for (&class, scores) in benchmark.measured.classes().iter().zip(scores.chunks_exact(seen)) {
                if (class as usize) < seen {
                    counts.count_scores(class as usize, scores);
                }
            }
            let row = counts.row(session);
            on_row(&row);
            rows.push(row);
        }
        Ok(Draw { rows, operations, seconds })
    }
}

fn imprinted(base_model: &BaseModel, added: &[NewClass], features: &[f32]) -> Vec<f32> {
    let by_targets = base_model.config.by_targets_alone();
    let mut classifier = Classifier::with_config(base_model, &State::fresh(base_model, [0; 32]), &by_targets);
    added.iter().for_each(|class| classifier.imprint(class));
    classifier.scores(features)
}

/// How far and how sharply TEEN moves means.
struct Calibrated {
    alpha: f32,
    tau: f32,
}

/// Its authors' settings.
const TEEN: Calibrated = Calibrated { alpha: 0.5, tau: 16.0 };

/// Cosines to class means, `[n, classes]`.
fn to_means(
    base_model: &BaseModel,
    benchmark: &Benchmark,
    added: &[NewClass],
    features: &[f32],
    calibrated: Option<&Calibrated>,
) -> Vec<f32> {
    let inputs = base_model.head.inputs;
    let mut means = benchmark.base_means.clone();
    normalise_rows(&mut means, inputs);
    let base = means.clone();
    for class in added {
        let mut mean = mean_direction(&clean(class, inputs), inputs);
        if let Some(Calibrated { alpha, tau }) = calibrated {
            let likeness = cosines(&mean, &base, inputs);
            let highest = highest(&likeness);
            let weights: Vec<f32> = likeness.iter().map(|cosine| exp(tau * (cosine - highest))).collect();
            let all: f32 = weights.iter().sum();
            mean.iter_mut().for_each(|value| *value *= 1.0 - alpha);
            base.chunks_exact(inputs)
                .zip(weights)
                .for_each(|(row, weight)| add_scaled(&mut mean, alpha * weight / all, row));
        }
        means.extend(mean);
    }
    normalise_rows(&mut means, inputs);
    let mut directions = features.to_vec();
    normalise_rows(&mut directions, inputs);
    cosines(&directions, &means, inputs)
}

/// The clean views of a class's shots, `[shots, inputs]`.
fn clean(class: &NewClass, inputs: usize) -> Vec<f32> {
    class.shots.iter().flat_map(|shot| &shot[..inputs]).copied().collect()
}

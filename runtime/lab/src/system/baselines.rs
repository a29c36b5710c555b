//! The usual baselines: the head fine-tuned on new shots alone, and the head trained on everything kept so far
//! together, both by cross entropy over the pseudo-targets of all classes seen. With few exemplars they bound nothing:
//! systems fall below the one and rise above the other.

use orco_core::align::Sampling;
use orco_core::config::MethodConfig;
use orco_core::workers::Workers;
use orco_state::classify::Classifier;
use orco_state::session::{self, LearnError, NewClass, OnProgress, Session, SessionMemory};
use orco_state::state::{BaseModel, State};

use crate::method::Method;

use super::{SystemContext, SystemSpec, device, stored_as};

use orco_benchmark::FeatureLearner;

pub(super) static FINE_TUNING: SystemSpec = SystemSpec {
    method: Method {
        name: "fine-tuning",
        description: "The head trained on by cross entropy on the new shots alone, from where the last session left it.",
        paper_row: None,
    },
    about: "the head on new shots alone",
    trains: true,
    needs_statistics: false,
    settings: |available| stored_as(available.measured_with, fine_tuning(available.program)),
    start: |context| {
        let SystemContext { base_model, config, seed, workers, .. } = *context;
        Box::new(FineTuned::new(base_model, config, seed, workers))
    },
};

pub(super) static JOINT: SystemSpec = SystemSpec {
    method: Method {
        name: "joint training",
        description: "The head trained by cross entropy on all exemplars and shots kept. They are few, so that this \
                       bounds nothing.",
        paper_row: None,
    },
    about: "the head on the few exemplars and shots kept: no upper bound",
    trains: true,
    needs_statistics: false,
    settings: |available| stored_as(available.measured_with, joint(available.program)),
    start: device::device,
};

/// Cross entropy over the new classes' samples, and no exemplar of any other class.
fn fine_tuning(program: MethodConfig) -> MethodConfig {
    MethodConfig { base_cross_entropy: 0.0, base_exemplars: 0, ..by_cross_entropy(program) }
}

/// Cross entropy over all samples, those of base classes among them; every session starts from the head of phase 2.
fn joint(program: MethodConfig) -> MethodConfig {
    MethodConfig { base_cross_entropy: 1.0, ..by_cross_entropy(program) }
}

/// The published program's settings without its other losses.
fn by_cross_entropy(program: MethodConfig) -> MethodConfig {
    MethodConfig { contrast: 0.0, orthogonality: 0.0, cross_entropy: 1.0, ..program }
}

/// A head that every session trains on from where the last one left it, on the new shots alone.
struct FineTuned<'a> {
    /// The bundle's, with the head as trained so far.
    base_model: BaseModel,
    config: &'a MethodConfig,
    seed: u64,
    workers: &'a dyn Workers,
    memory: SessionMemory,
    state: State,
}

impl<'a> FineTuned<'a> {
    fn new(base_model: &BaseModel, config: &'a MethodConfig, seed: u64, workers: &'a dyn Workers) -> Self {
        let state = State::fresh(base_model, [0; 32]);
        Self { base_model: base_model.clone(), config, seed, workers, memory: SessionMemory::default(), state }
    }
}

impl FeatureLearner for FineTuned<'_> {
    fn learn(&mut self, new: &[NewClass], on_progress: OnProgress<'_>) -> Result<f64, LearnError> {
        let Self { config, seed, workers, .. } = *self;
        let (base_model, memory) = (&self.base_model, &mut self.memory);
        let mut session = Session { base_model, config, seed, memory, workers, on_progress };
        let mut next = session.admit(&self.state, new)?;
        let first = (base_model.classes.len() + self.state.classes.len()) as u32;
        let of_session = |exemplar: &usize| next.exemplars.classes()[*exemplar] >= first;
        next.exemplars = next.exemplars.only(&(0..next.exemplars.len()).filter(of_session).collect::<Vec<_>>());
        self.state = session.align(&self.state, next, Sampling::seeded(seed))?.0;
        let operations = session::operations(base_model, &self.state, config) as f64;
        self.base_model.head = self.state.head(&self.base_model).clone();
        Ok(operations)
    }

    fn scores(&self, features: &[f32]) -> Vec<f32> {
        Classifier::with_config(&self.base_model, &self.state, self.config).scores(features)
    }

    fn state(&self) -> Option<&State> {
        Some(&self.state)
    }
}

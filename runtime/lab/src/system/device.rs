//! The device's learner.

use orco_core::config::Config;
use orco_core::workers::Workers;
use orco_state::classify::Classifier;
use orco_state::session::{self, LearnError, NewClass, OnProgress, Session, SessionMemory};
use orco_state::state::{BaseModel, State};

use super::Learner;
use crate::ablation::Ablation;

/// What a device does with the settings, or, ablated, with a choice made otherwise.
pub(super) struct Device<'a> {
    base_model: &'a BaseModel,
    config: &'a Config,
    seed: u64,
    workers: &'a dyn Workers,
    ablation: Option<Ablation>,
    memory: SessionMemory,
    state: State,
}

impl<'a> Device<'a> {
    pub(super) fn new(
        base_model: &'a BaseModel,
        config: &'a Config,
        seed: u64,
        workers: &'a dyn Workers,
        ablation: Option<Ablation>,
    ) -> Self {
        let state = State::fresh(base_model, [0; 32]);
        Self { base_model, config, seed, workers, ablation, memory: SessionMemory::default(), state }
    }
}

impl Learner for Device<'_> {
    fn learn(&mut self, new: &[NewClass], on_progress: OnProgress<'_>) -> Result<f64, LearnError> {
        let Self { base_model, config, seed, workers, ablation, .. } = *self;
        let mut session = Session { base_model, config, seed, memory: &mut self.memory, workers, on_progress };
        self.state = match ablation {
            Some(ablation) => ablation.learn(&mut session, &self.state, new)?,
            None => session.learn(&self.state, new)?.0,
        };
        Ok(session::operations(base_model, &self.state, config) as f64)
    }

    fn scores(&self, features: &[f32]) -> Vec<f32> {
        Classifier::with_config(self.base_model, &self.state, self.config).scores(features)
    }

    fn state(&self) -> Option<&State> {
        Some(&self.state)
    }
}

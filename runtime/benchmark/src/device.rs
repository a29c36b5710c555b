//! The device's learner.

use orco_core::config::MethodConfig;
use orco_core::workers::Workers;
use orco_state::classify::Classifier;
use orco_state::session::{self, LearnError, NewClass, OnProgress, Session, SessionMemory};
use orco_state::state::{Balance, BaseModel, State};

use crate::walk::FeatureLearner;

/// Number of what is computed: of what a device learns and answers, of the walk through the sessions, and of the
/// metrics. Raise it with every change of their numbers; measurements that were kept before are then made anew. A hash
/// of the sources would need no care, but would throw away days of training with every comment.
pub const REVISION: u32 = 9;

/// Learns and answers as a device does with these settings.
pub struct DeviceLearner<'a> {
    base_model: &'a BaseModel,
    config: &'a MethodConfig,
    seed: u64,
    workers: &'a dyn Workers,
    memory: SessionMemory,
    state: State,
}

impl<'a> DeviceLearner<'a> {
    /// A device that has learned nothing yet.
    pub fn new(base_model: &'a BaseModel, config: &'a MethodConfig, seed: u64, workers: &'a dyn Workers) -> Self {
        let state = State::fresh(base_model, [0; 32]);
        Self { base_model, config, seed, workers, memory: SessionMemory::default(), state }
    }

    /// With another balance between base classes and learned ones.
    #[must_use]
    pub fn with_balance(mut self, balance: Balance) -> Self {
        self.state.balance = balance;
        self
    }

    /// Learns a session by `learn`, which is given the session and the state before it; returns the operations as
    /// [`FeatureLearner::learn`] does.
    ///
    /// # Errors
    /// As for [`FeatureLearner::learn`].
    pub fn learn_by(
        &mut self,
        on_progress: OnProgress<'_>,
        learn: impl FnOnce(&mut Session<'_>, &State) -> Result<State, LearnError>,
    ) -> Result<f64, LearnError> {
        let Self { base_model, config, seed, workers, .. } = *self;
        let mut session = Session { base_model, config, seed, memory: &mut self.memory, workers, on_progress };
        self.state = learn(&mut session, &self.state)?;
        Ok(session::operations(base_model, &self.state, config) as f64)
    }
}

impl FeatureLearner for DeviceLearner<'_> {
    fn learn(&mut self, new: &[NewClass], on_progress: OnProgress<'_>) -> Result<f64, LearnError> {
        self.learn_by(on_progress, |session, state| Ok(session.learn(state, new)?.0))
    }

    fn scores(&self, features: &[f32]) -> Vec<f32> {
        Classifier::with_config(self.base_model, &self.state, self.config).scores(features)
    }

    fn state(&self) -> Option<&State> {
        Some(&self.state)
    }
}

/// How a device with these settings finds an answer, in words.
pub fn answer_rule(config: &MethodConfig) -> String {
    if let Some(weights) = config.answer {
        return format!("by {weights}");
    }
    let class_means = config.class_means;
    if class_means > 0.0 {
        format!("by targets and by class means, weighed 1 to {class_means}")
    } else {
        "by targets alone".to_owned()
    }
}

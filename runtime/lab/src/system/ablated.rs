//! The device's learner with a choice made otherwise.

use orco_benchmark::{DeviceLearner, Learner};
use orco_state::session::{LearnError, NewClass, OnProgress};
use orco_state::state::State;

use crate::ablation::Ablation;

/// Learns as the [`Ablation`] says, and answers as a device does.
pub(super) struct AblatedLearner<'a> {
    device: DeviceLearner<'a>,
    ablation: Ablation,
}

impl<'a> AblatedLearner<'a> {
    pub(super) fn new(device: DeviceLearner<'a>, ablation: Ablation) -> Self {
        Self { device, ablation }
    }
}

impl Learner for AblatedLearner<'_> {
    fn learn(&mut self, new: &[NewClass], on_progress: OnProgress<'_>) -> Result<f64, LearnError> {
        let ablation = self.ablation;
        self.device.learn_by(on_progress, |session, state| ablation.learn(session, state, new))
    }

    fn scores(&self, features: &[f32]) -> Vec<f32> {
        self.device.scores(features)
    }

    fn state(&self) -> Option<&State> {
        self.device.state()
    }
}

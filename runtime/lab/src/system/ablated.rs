//! The device's learner with a choice made otherwise.

use orco_benchmark::{DeviceLearner, FeatureLearner};
use orco_state::session::{LearnError, NewClass, OnProgress};
use orco_state::state::State;

use super::{SystemContext, SystemSpec, as_measured};
use crate::ablation::Ablation;
use crate::method::Method;

pub(super) static ABLATED: SystemSpec = SystemSpec {
    method: Method { name: "device, ablated", description: "", paper_row: None },
    about: "",
    trains: false,
    needs_statistics: false,
    settings: as_measured,
    start,
};

fn start<'a>(context: &SystemContext<'a>) -> Box<dyn FeatureLearner + 'a> {
    let SystemContext { base_model, config, seed, workers, ablation, .. } = *context;
    let device = DeviceLearner::new(base_model, config, seed, workers);
    Box::new(AblatedLearner { device, ablation: ablation.unwrap_or_default() })
}

/// Learns as the [`Ablation`] says, and answers as a device does.
struct AblatedLearner<'a> {
    device: DeviceLearner<'a>,
    ablation: Ablation,
}

impl FeatureLearner for AblatedLearner<'_> {
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

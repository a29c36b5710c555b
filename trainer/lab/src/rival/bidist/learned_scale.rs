//! BiDist's base session: cross entropy over cosines whose scale is learned with the rest.

use orco_trainer::model::store::{self, Parameter};
use orco_trainer::platform::distributed::RankError;
use orco_trainer::train::pretrain::{BatchLosses, Criterion, StepContext};
use tch::nn::{Init, VarStore};
use tch::{Device, Tensor};

use crate::rival::cosine::{cosines, cross_entropy};

/// What the scale begins with.
const FIRST: f64 = 10.0;

/// The criterion, with its scale.
pub(super) struct LearnedScale {
    store: VarStore,
    /// `[1]`.
    scale: Tensor,
}

impl LearnedScale {
    pub fn new(device: Device) -> Self {
        let store = VarStore::new(device);
        let scale = (store.root() / "cosine").var("scale", &[1], Init::Const(FIRST));
        Self { store, scale }
    }

    /// The scale as it is.
    pub fn value(&self) -> f64 {
        self.scale.double_value(&[0])
    }
}

impl Criterion for LearnedScale {
    type StepDraw = Tensor;

    const OTHER_LOSS: &'static str = "other";

    fn draw(&self, context: &StepContext<'_>, batch: &[usize]) -> Tensor {
        context.views(batch, 1)
    }

    fn losses(&mut self, context: &StepContext<'_>, drawn: Tensor, batch: &[usize]) -> Result<BatchLosses, RankError> {
        Ok(cross_entropy(context, &drawn, batch, |features, classes| cosines(features, classes) * &self.scale))
    }

    /// The scale decays as everything does in the program.
    fn parameters(&self) -> Vec<Parameter> {
        store::parameters(self.tensors()).into_iter().map(|parameter| Parameter { decays: true, ..parameter }).collect()
    }

    fn tensors(&self) -> Vec<(String, Tensor)> {
        store::tensors(&self.store)
    }
}

#[cfg(test)]
mod tests {
    use orco_trials::alone::alone;

    use super::*;
    use crate::rival::tests::goes_on;

    #[test]
    fn the_scale_goes_on_where_it_was() {
        alone("rival::bidist::learned_scale::tests::the_scale_goes_on_where_it_was", || {
            goes_on(|model, _| LearnedScale::new(model.device()));
        });
    }
}

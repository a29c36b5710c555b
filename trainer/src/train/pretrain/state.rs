//! The state of phase 1, which its checkpoint keeps beside the model: a run goes on from both.

use anyhow::{Result, bail};
use tch::{Device, Tensor};

use super::average::WeightAverage;
use super::batch_losses::{LossSums, MeanLosses};
use super::criterion::Criterion;
use crate::config::{Precision, PretrainConfig};
use crate::model::Model;
use crate::run::{PRETRAIN_CHECKPOINT, Run};
use crate::train::optimiser::{LossScaler, Optimiser, all_finite};
use crate::train::training_loop::Position;

/// The state of phase 1 beside the model: optimiser, loss scaler, averaged weights, losses of the epoch.
pub(super) struct PretrainState {
    pub optimiser: Optimiser,
    pub scaler: Option<LossScaler>,
    /// Of the weights over the last epochs, where the recipe asks for it.
    pub average: WeightAverage,
    /// Over the steps of this epoch.
    pub sums: LossSums,
    /// Where the last checkpoint stands.
    saved: Position,
}

impl PretrainState {
    /// The beginning, or where the run's checkpoint stopped; the model is then set from it.
    ///
    /// # Errors
    /// If there is a checkpoint that cannot be read or is of another model.
    pub fn load(
        model: &mut Model,
        criterion: &mut impl Criterion,
        config: &PretrainConfig,
        run: &Run,
    ) -> Result<(Self, Position)> {
        let sums = LossSums::new(model.device());
        let scaler = (config.precision == Precision::F16).then(LossScaler::default);
        let parameters = model.parameters("").into_iter().chain(criterion.parameters());
        let optimiser = Optimiser::new(parameters.collect(), config);
        let mut state = Self { optimiser, scaler, average: WeightAverage::default(), sums, saved: Position::default() };
        let Some(tensors) = run.load(PRETRAIN_CHECKPOINT)? else { return Ok((state, Position::default())) };
        model.restore(&tensors)?;
        criterion.restore(&tensors)?;
        state.optimiser.restore(&tensors);
        state.average = WeightAverage::of_checkpoint(&tensors, state.optimiser.parameters())?;
        if let Some(scaler) = &mut state.scaler {
            scaler.restore(&tensors);
        }
        let at = Position::of_checkpoint(&tensors);
        state.saved = at;
        if let Some(sums) = tensors.get("sums") {
            state.sums = LossSums::of_checkpoint(sums, model.device());
        }
        if at.step == 0 && at.epoch >= config.epochs {
            log::info!("phase 1 was finished before; its checkpoint is used");
        } else {
            log::info!("phase 1 continues after {at}");
        }
        Ok((state, at))
    }

    /// Writes the checkpoint, after `steps` steps.
    ///
    /// # Errors
    /// If a weight is not finite, or the file cannot be written; the checkpoint before is then still there.
    pub fn save(
        &mut self,
        at: Position,
        steps: u64,
        model: &Model,
        criterion: &impl Criterion,
        run: &Run,
    ) -> Result<()> {
        let mut tensors = model.tensors();
        tensors.extend(criterion.tensors());
        tensors.extend(self.optimiser.state());
        if !all_finite(tensors.iter().map(|(_, tensor)| tensor)) {
            bail!("a weight became infinite {}", self.failure_note(at));
        }
        tensors.extend(self.average.tensors());
        tensors.extend(self.scaler.iter().flat_map(LossScaler::state));
        tensors.push(("epochs".into(), Tensor::from(at.epoch as i64)));
        if at.step > 0 {
            tensors.push(("steps".into(), Tensor::from(at.step as i64)));
            tensors.push(("sums".into(), self.sums.tensor()));
        }
        run.save(PRETRAIN_CHECKPOINT, &tensors, steps)?;
        self.saved = at;
        Ok(())
    }

    /// Forgets the losses of the epoch before.
    pub fn begin_epoch(&mut self, device: Device) {
        self.sums = LossSums::new(device);
    }

    /// Means over the steps of this epoch.
    ///
    /// # Errors
    /// If the loss is not finite.
    pub fn means(&self, at: Position, config: &PretrainConfig) -> Result<MeanLosses> {
        let means = self.sums.means(at.step);
        if !means.total.is_finite() {
            let advice = if config.precision == Precision::F32 { "" } else { ", or with pretrain.precision = \"f32\"" };
            bail!("the loss became {} {}{advice}", means.total, self.failure_note(at));
        }
        Ok(means)
    }

    /// Where training failed, which checkpoint is kept, and how to start again.
    fn failure_note(&self, at: Position) -> String {
        let checkpoint = match self.saved {
            Position { epoch: 0, step: 0 } => "there is no checkpoint yet".into(),
            saved => format!("the checkpoint of {saved} is kept"),
        };
        // `save` comes after the epoch was closed.
        let epoch = if at.step == 0 { at.epoch.max(1) } else { at.epoch + 1 };
        format!(
            "in epoch {epoch}; {checkpoint}; start again with another --run folder and a lower pretrain.learning_rate"
        )
    }
}

#[cfg(test)]
mod tests {
    use tch::{Kind, no_grad};

    use super::super::criterion::RecipeCriterion;
    use super::*;
    use crate::config::Recipe;

    #[test]
    fn a_poisoned_model_is_not_saved() {
        let folder = tempfile::tempdir().unwrap();
        let mut recipe: Recipe = toml::from_str(include_str!("../../../recipes/synthetic-tiny.toml")).unwrap();
        recipe.backbone.width = 2;
        let run = Run::open(folder.path(), &recipe).unwrap();
        for name in ["head.w1", "backbone.stem.norm_variance"] {
            let mut model = Model::new(&recipe, [3, 24, 24], Device::Cpu);
            let (mut state, _) = PretrainState::load(&mut model, &mut RecipeCriterion, &recipe.pretrain, &run).unwrap();
            let mut tensors = model.tensors();
            let (_, tensor) = tensors.iter_mut().find(|(own, _)| own == name).unwrap();
            no_grad(|| tensor.copy_(&tensor.full_like(f64::NAN)));
            let said =
                state.save(Position { epoch: 1, step: 0 }, 5, &model, &RecipeCriterion, &run).unwrap_err().to_string();
            assert_eq!(
                said,
                "a weight became infinite in epoch 1; there is no checkpoint yet; start again with another --run \
                 folder and a lower pretrain.learning_rate"
            );
            assert!(!run.path(PRETRAIN_CHECKPOINT).exists());
        }
        let mut model = Model::new(&recipe, [3, 24, 24], Device::Cpu);
        let (mut state, _) = PretrainState::load(&mut model, &mut RecipeCriterion, &recipe.pretrain, &run).unwrap();
        let at = Position { epoch: 0, step: 3 };
        let infinite = Tensor::full([4], f64::INFINITY, (Kind::Double, Device::Cpu));
        state.sums = LossSums::of_checkpoint(&infinite, Device::Cpu);
        let said = state.means(at, &recipe.pretrain).err().unwrap().to_string();
        assert!(said.starts_with("the loss became inf in epoch 1; there is no checkpoint yet"), "{said}");
        state.sums = LossSums::new(Device::Cpu);
        state.save(at, 3, &model, &RecipeCriterion, &run).unwrap();
        assert!(run.path(PRETRAIN_CHECKPOINT).exists());
    }
}

//! Early stopping of phase 2 (Prechelt, 1998) by the loss on images that no step saw.

use std::collections::HashMap;

use anyhow::Result;
use tch::{Kind, Tensor, no_grad};

use super::cache;
use crate::config::BaseAlignConfig;
use crate::model::Model;
use crate::model::store::Parameter;
use crate::platform::device::send;
use crate::train::objective::Targets;
use crate::train::training_loop::BaseSession;

/// Epochs without improvement after which phase 2 stops, as a fraction of all epochs.
const PATIENCE: f64 = 0.25;
/// The same as a number, at least: where images are many, a quarter of the epochs may be one or two.
const MIN_PATIENCE: usize = 5;
/// How far below the best loss a loss must be to count as an improvement, as a fraction of the best loss.
const MIN_IMPROVEMENT: f64 = 0.01;
/// The same as a difference, at least: near 0 a fraction of the best loss is noise.
const MIN_ABSOLUTE_IMPROVEMENT: f64 = 1e-3;
/// What the names of the best weights begin with in a checkpoint.
const PREFIX: &str = "best.";

/// Keeps the weights with the lowest loss on the images set aside, and stops phase 2 once that loss has not improved
/// for `patience` epochs.
pub(super) struct EarlyStopping {
    /// Clean features of the images set aside, f32 `[n, features]`; none where the backbone is trained.
    clean: Option<Tensor>,
    /// Their labels, i64 `[n]`.
    labels: Tensor,
    /// Targets of the base classes divided by the temperature of PSCL, `[classes, dimension]`.
    targets: Tensor,
    patience: usize,
    best: Option<BestWeights>,
}

struct BestWeights {
    loss: f64,
    /// Epochs after which it was found.
    epoch: usize,
    weights: Vec<(String, Tensor)>,
}

impl EarlyStopping {
    /// Early stopping where the recipe counts steps and sets images aside that training does not see; `None` elsewhere.
    ///
    /// # Errors
    /// If an engine outside this program fails, or a stop was asked for.
    pub fn new(
        model: &Model,
        config: &BaseAlignConfig,
        base: &BaseSession<'_>,
        targets: &Targets,
    ) -> Result<Option<Self>> {
        let unseen = base.split.unseen();
        if config.steps.is_none() || unseen.is_empty() {
            return Ok(None);
        }
        let clean = match config.train_backbone {
            true => None,
            false => Some(cache::clean_features(model, base, unseen)?),
        };
        let patience = MIN_PATIENCE.max((PATIENCE * config.epochs as f64).ceil() as usize);
        let labels = send(&base.images.select_labels(unseen), model.device());
        Ok(Some(Self { clean, labels, targets: targets.assigned() / config.temperature, patience, best: None }))
    }

    /// The loss on the images set aside after `epoch` epochs; keeps the weights if it improves on the best one.
    ///
    /// # Errors
    /// If an engine outside this program fails.
    pub fn validation_loss<'a>(
        &mut self,
        model: &Model,
        base: &BaseSession<'_>,
        epoch: usize,
        trained: impl Iterator<Item = &'a Parameter>,
    ) -> Result<f64> {
        let clean = match &self.clean {
            Some(clean) => clean.shallow_clone(),
            None => cache::clean_features(model, base, base.split.unseen())?,
        };
        let scores = no_grad(|| model.head.project(&clean).matmul(&self.targets.transpose(0, 1)));
        let loss = scores.to_kind(Kind::Double).cross_entropy_for_logits(&self.labels).double_value(&[]);
        let loss = base.run.group().broadcast_number(loss)?;
        let improves =
            |best: &BestWeights| loss < best.loss - (MIN_IMPROVEMENT * best.loss).max(MIN_ABSOLUTE_IMPROVEMENT);
        if self.best.as_ref().is_none_or(improves) {
            let copy = |parameter: &Parameter| (parameter.name.clone(), no_grad(|| parameter.tensor.detach().copy()));
            self.best = Some(BestWeights { loss, epoch, weights: trained.map(copy).collect() });
        }
        Ok(loss)
    }

    /// Whether `epochs` epochs exhaust the patience.
    pub fn should_stop(&self, epochs: usize) -> bool {
        self.best.as_ref().is_some_and(|best| epochs >= best.epoch + self.patience)
    }

    /// Sets the trained parameters to the best weights; returns after how many epochs they were reached.
    pub fn restore_best<'a>(&self, trained: impl Iterator<Item = &'a Parameter>) -> Option<usize> {
        let best = self.best.as_ref()?;
        for (parameter, (_, tensor)) in trained.zip(&best.weights) {
            no_grad(|| parameter.tensor.shallow_clone().copy_(tensor));
        }
        Some(best.epoch)
    }

    /// The best weights, for a checkpoint.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let Some(best) = &self.best else { return Vec::new() };
        let named = |(name, tensor): &(String, Tensor)| (format!("{PREFIX}{name}"), tensor.shallow_clone());
        let mut state: Vec<_> = best.weights.iter().map(named).collect();
        state.push((format!("{PREFIX}loss"), Tensor::from(best.loss)));
        state.push((format!("{PREFIX}epoch"), Tensor::from(best.epoch as i64)));
        state
    }

    /// Takes the best weights out of a checkpoint's tensors; without them there, there are none yet.
    pub fn restore<'a>(&mut self, tensors: &HashMap<String, Tensor>, trained: impl Iterator<Item = &'a Parameter>) {
        let of = |name: &str| tensors.get(&format!("{PREFIX}{name}"));
        let weights = trained.map(|parameter| {
            let tensor = of(&parameter.name)?.to_device(parameter.tensor.device());
            (tensor.size() == parameter.tensor.size()).then(|| (parameter.name.clone(), tensor))
        });
        self.best = weights.collect::<Option<Vec<_>>>().and_then(|weights| {
            let (loss, epoch) = (of("loss")?.double_value(&[]), of("epoch")?.int64_value(&[]) as usize);
            Some(BestWeights { loss, epoch, weights })
        });
    }
}

//! When phase 2 has learned enough: judged by images that no step saw (early stopping; Prechelt, 1998).

use std::collections::HashMap;

use anyhow::Result;
use tch::{Kind, Tensor, no_grad};

use super::cache;
use crate::config::BaseAlignConfig;
use crate::model::Model;
use crate::model::store::Parameter;
use crate::platform::device::send;
use crate::train::fit::BaseSession;
use crate::train::objective::Targets;

/// Patience, as a share of the epochs: after so many without a better head no better one is expected.
const PATIENCE: f64 = 0.25;
/// Patience at least, in epochs: where images are many, a quarter of the epochs may be one or two.
const MIN_PATIENCE: usize = 5;
/// Share of the best loss by which a loss must be below it to count as less (`min_delta` elsewhere).
const MIN_IMPROVEMENT: f64 = 0.01;
/// And by how much at least: below this, a loss cannot be told from 0.
const MIN_ABSOLUTE_IMPROVEMENT: f64 = 1e-3;
/// Where the best weights stand in a checkpoint.
const PREFIX: &str = "best.";

/// The rule: keep the weights with the least loss on the images set aside, within [`MIN_IMPROVEMENT`], stop when they
/// stay the best.
pub(super) struct EarlyStopping {
    /// Clean features of these images, f32 `[n, features]`; none where the backbone is trained.
    clean: Option<Tensor>,
    /// i64 `[n]`.
    labels: Tensor,
    /// Unit targets of the base classes, over the temperature, `[classes, dimension]`.
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
    /// The rule, where the recipe counts steps and sets images aside that training does not see.
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
            false => Some(cache::features(model, None, base, unseen, &mut |_| Ok(()))?),
        };
        let patience = MIN_PATIENCE.max((PATIENCE * config.epochs as f64).ceil() as usize);
        let labels = send(&base.images.select_labels(unseen), model.device());
        Ok(Some(Self { clean, labels, targets: targets.assigned() / config.temperature, patience, best: None }))
    }

    /// Judges the weights after so many epochs, and keeps them if none were better.
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
        let renewed;
        let clean = match &self.clean {
            Some(clean) => clean,
            None => {
                renewed = cache::features(model, None, base, base.split.unseen(), &mut |_| Ok(()))?;
                &renewed
            }
        };
        let scores = no_grad(|| model.head.project(clean).matmul(&self.targets.transpose(0, 1)));
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

    /// Whether no better weights are expected after so many epochs.
    pub fn should_stop(&self, epochs: usize) -> bool {
        self.best.as_ref().is_some_and(|best| epochs >= best.epoch + self.patience)
    }

    /// Gives the best weights back to what is trained; returns after how many epochs they were reached.
    pub fn restore_best<'a>(&self, trained: impl Iterator<Item = &'a Parameter>) -> Option<usize> {
        let best = self.best.as_ref()?;
        for (parameter, (_, tensor)) in trained.zip(&best.weights) {
            no_grad(|| parameter.tensor.shallow_clone().copy_(tensor));
        }
        Some(best.epoch)
    }

    /// What a checkpoint keeps of it.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let Some(best) = &self.best else { return Vec::new() };
        let named = |(name, tensor): &(String, Tensor)| (format!("{PREFIX}{name}"), tensor.shallow_clone());
        let mut state: Vec<_> = best.weights.iter().map(named).collect();
        state.push((format!("{PREFIX}loss"), Tensor::from(best.loss)));
        state.push((format!("{PREFIX}epoch"), Tensor::from(best.epoch as i64)));
        state
    }

    /// Goes on from a checkpoint.
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

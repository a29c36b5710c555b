//! Phase 2: base alignment. Every base class gets a pseudo-target, and the head g is trained towards them; f is frozen
//! unless the recipe says otherwise.

mod cache;
mod goals;

use std::time::Instant;

use anyhow::{Result, bail};
use orco_runtime::manifest::hexadecimal;
use orco_runtime::schedule::Schedule;
use orco_runtime::target;
use serde_json::json;
use tch::{Kind, Tensor, no_grad};

use self::cache::FeatureCache;
use self::goals::Goals;
use crate::augment::view;
use crate::backbone::unit;
use crate::config::{AlignConfig, AlignRate, Recipe};
use crate::dataset::{Images, Split};
use crate::interrupt;
use crate::loss::class_means;
use crate::model::Model;
use crate::optimiser::{Sgd, SgdConfig, gradients};
use crate::progress::Progress;
use crate::run::Run;

/// Name of the checkpoint in the run's folder.
pub const CHECKPOINT: &str = "align.safetensors";

/// Pseudo-targets with the base classes' assignment.
#[derive(Debug)]
pub struct Assignment {
    /// Unit rows `[count, projection]`.
    pub targets: Tensor,
    /// For every base class the row of its target.
    pub rows: Vec<i64>,
}

/// Generates the targets, assigns the base classes, trains the head, saves the checkpoint. A run that finished this
/// phase with the same settings loads it instead.
///
/// # Errors
/// If the loss stops being finite, or a checkpoint cannot be read or written.
pub fn align(model: &mut Model, recipe: &Recipe, train: &Images, split: &Split, run: &Run) -> Result<Assignment> {
    let config = &recipe.align;
    // What phase 2 depends on, beside the backbone, whose recipe cannot change within a run.
    let settings = match &model.foreign {
        None => serde_json::to_string_pretty(&(&recipe.targets, config))?,
        Some(foreign) => serde_json::to_string_pretty(&(&recipe.targets, config, hexadecimal(&foreign.digest())))?,
    };
    if let Some(tensors) = run.load(CHECKPOINT)?
        && tensors.get("settings").is_some_and(|made| made.equal(&Tensor::from_slice(settings.as_bytes())))
    {
        log::info!("phase 2 was finished before; its checkpoint is used");
        model.restore(&tensors)?;
        let (Some(targets), Some(rows)) = (tensors.get("targets"), tensors.get("assignment")) else {
            bail!("the checkpoint {} lacks the targets; remove it", run.path(CHECKPOINT).display());
        };
        return Ok(Assignment { targets: targets.shallow_clone(), rows: Vec::try_from(rows)? });
    }
    let device = model.device();
    let dimension = recipe.head.projection;
    let made = target::generate(
        recipe.targets.method,
        recipe.targets.count,
        dimension as usize,
        recipe.targets.steps,
        recipe.seed,
    );
    let targets = Tensor::from_slice(&made).view([recipe.targets.count as i64, dimension]).to_device(device);
    tch::manual_seed((recipe.seed as i64).wrapping_mul(1_000_003).wrapping_sub(1));
    let views = if config.train_backbone { 0 } else { config.cached_views };
    let cache = FeatureCache::new(model, &recipe.pretrain.augment, views, train, split)?;
    let (means, present) = no_grad(|| class_means(&model.head.forward(&cache.clean), &cache.labels));
    let present = Vec::<i64>::try_from(present)?;
    if present.len() != split.base_classes {
        bail!("only {} of {} base classes have images", present.len(), split.base_classes);
    }
    let prototypes = Vec::<f32>::try_from(means.to_device(tch::Device::Cpu).contiguous().view(-1))?;
    let rows: Vec<i64> =
        target::assign(&prototypes, &made, dimension as usize).into_iter().map(|row| row as i64).collect();
    let assignment = Assignment { targets, rows };
    Training { model, recipe, train, split, cache: &cache }.run(&assignment, run)?;
    let mut tensors = model.tensors();
    tensors.push(("targets".into(), assignment.targets.shallow_clone()));
    tensors.push(("assignment".into(), Tensor::from_slice(&assignment.rows)));
    tensors.push(("settings".into(), Tensor::from_slice(settings.as_bytes())));
    run.save(CHECKPOINT, &tensors)?;
    Ok(assignment)
}

/// What the head, and the backbone where the recipe says so, is trained with.
struct Training<'a> {
    model: &'a Model,
    recipe: &'a Recipe,
    train: &'a Images,
    split: &'a Split,
    cache: &'a FeatureCache,
}

impl Training<'_> {
    fn run(&self, assignment: &Assignment, run: &Run) -> Result<()> {
        let (model, config, cache) = (self.model, &self.recipe.align, self.cache);
        let device = model.device();
        let (mut head, mut backbone) = self.optimisers();
        let count = cache.labels.size()[0];
        let steps = count / config.batch as i64;
        if steps == 0 {
            bail!("the {count} base images do not fill one batch of {}; lower align.batch", config.batch);
        }
        let goals = Goals::new(assignment, device);
        let mut progress = Progress::new("phase 2", config.epochs as u64 * steps as u64, 0);
        for epoch in 0..config.epochs {
            interrupt::check()?;
            let started = Instant::now();
            let order = Tensor::randperm(count, (Kind::Int64, device));
            let mut sum = 0.0;
            for step in 0..steps {
                let batch = order.narrow(0, step * config.batch as i64, config.batch as i64);
                let labels = cache.labels.index_select(0, &batch);
                let z = unit(&model.head.forward(&self.features(&batch)?));
                let loss = goals.loss(&z, &labels, config);
                let parameters = head.parameters().iter().chain(backbone.iter().flat_map(Sgd::parameters));
                let gradients = gradients(&loss, parameters);
                let (of_head, of_backbone) = gradients.split_at(head.parameters().len());
                head.step(of_head, rate(config, config.learning_rate, epoch));
                let slower = config.backbone_learning_rate.unwrap_or(config.learning_rate);
                backbone.iter_mut().for_each(|backbone| backbone.step(of_backbone, rate(config, slower, epoch)));
                sum += loss.double_value(&[]);
                if !sum.is_finite() {
                    bail!("the loss of phase 2 became {sum} in epoch {}; lower align.learning_rate", epoch + 1);
                }
                let shown = format!("epoch {}/{} loss {:.3}", epoch + 1, config.epochs, sum / (step + 1) as f64);
                progress.advance(1, &shown);
            }
            let accuracy = self.accuracy(&goals)?;
            run.log(&json!({
                "phase": "align", "epoch": epoch + 1, "loss": sum / steps as f64, "accuracy": 100.0 * accuracy,
                "seconds": started.elapsed().as_secs_f64(),
            }))?;
            progress.milestone(&format!(
                "epoch {}/{}: loss {:.3}, accuracy on base training images {:.1} %",
                epoch + 1,
                config.epochs,
                sum / steps as f64,
                100.0 * accuracy
            ));
        }
        progress.finish();
        Ok(())
    }

    /// Of the head, and of the backbone where it is trained.
    fn optimisers(&self) -> (Sgd, Option<Sgd>) {
        let config = &self.recipe.align;
        let settings = SgdConfig {
            momentum: config.momentum,
            dampening: config.dampening,
            weight_decay: config.weight_decay,
            nesterov: false,
        };
        // The program's weight decay covers biases too; of the backbone, the norms go without as in phase 1.
        let mut parameters = self.model.parameters("head");
        parameters.iter_mut().for_each(|parameter| parameter.decays = true);
        let backbone = config.train_backbone.then(|| Sgd::new(self.model.parameters("backbone"), settings));
        (Sgd::new(parameters, settings), backbone)
    }

    /// Features of both views of a batch, `[2 b, features]`: cached ones, or new ones that gradients flow through. The
    /// backbone's norms keep their statistics (inference mode).
    fn features(&self, batch: &Tensor) -> Result<Tensor> {
        if !self.recipe.align.train_backbone {
            return Ok(Tensor::cat(&self.cache.two_views(batch), 0));
        }
        let indices = Vec::<i64>::try_from(batch.to_device(tch::Device::Cpu))?;
        let indices: Vec<usize> = indices.into_iter().map(|index| self.split.base[index as usize]).collect();
        let images = self.train.select(&indices).to_device(self.model.device()).to_kind(Kind::Float) / 255.0;
        let config = &self.recipe.pretrain;
        let views = Tensor::cat(&[view(&images, &config.augment), view(&images, &config.augment)], 0);
        let input = self.model.channels.normalise(&views);
        Ok(self.model.backbone.forward(&input, config.precision, false))
    }

    /// Share of the base images, unaugmented, whose nearest target is their class's.
    fn accuracy(&self, goals: &Goals) -> Result<f64> {
        let renewed;
        let cache = if self.recipe.align.train_backbone {
            renewed = FeatureCache::new(self.model, &self.recipe.pretrain.augment, 0, self.train, self.split)?;
            &renewed
        } else {
            self.cache
        };
        Ok(no_grad(|| goals.accuracy(&self.model.head.project(&cache.clean), &cache.labels)))
    }
}

/// The learning rate of an epoch, whose highest is `peak`.
fn rate(config: &AlignConfig, peak: f64, epoch: usize) -> f64 {
    /// Where the published program's warm-up begins.
    const START: f64 = 3e-5;
    let warmup = config.warmup_epochs;
    if config.rate == AlignRate::Constant && epoch >= warmup {
        return peak;
    }
    Schedule { steps: config.epochs, warmup, start: START.min(peak), peak, end: 0.0 }.rate(epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_warms_up_and_falls_only_where_the_recipe_says_so() {
        let recipe: Recipe = toml::from_str(include_str!("../recipes/cifar100-edge.toml")).unwrap();
        let rates = |rate_is, warmup_epochs| -> Vec<f64> {
            let config = AlignConfig { rate: rate_is, warmup_epochs, epochs: 100, ..recipe.align.clone() };
            (0..100).map(|epoch| rate(&config, 0.025, epoch)).collect()
        };
        assert_eq!(rates(AlignRate::Constant, 0), vec![0.025; 100]);
        let warmed = rates(AlignRate::Constant, 3);
        assert!(warmed[0] < warmed[1] && warmed[1] < warmed[2] && warmed[3..].iter().all(|rate| *rate == 0.025));
        let cosine = rates(AlignRate::Cosine, 3);
        assert!(cosine[..3] == warmed[..3] && cosine[3] == 0.025, "{:?}", &cosine[..4]);
        assert!(cosine[3..].windows(2).all(|pair| pair[1] < pair[0]) && cosine[99] < 1e-4);
    }
}

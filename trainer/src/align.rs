//! Phase 2: base alignment. Every base class gets a pseudo-target, and the head g is trained towards them; f is frozen
//! unless the recipe says otherwise.

mod cache;
mod goals;
mod state;
mod targets;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use orco_core::schedule::Schedule;
use orco_runtime::manifest::hexadecimal;
use orco_state::target::assign;
use serde_json::json;
use tch::{Device, Kind, Tensor, no_grad};

use self::cache::FeatureCache;
use self::goals::Goals;
use self::state::{State, UNFINISHED};
use self::targets::targets;
use crate::augment::view;
use crate::backbone::unit;
use crate::config::{AlignConfig, AlignRate, Recipe};
use crate::dataset::{Images, Split};
use crate::interrupt::{self, Work};
use crate::loss::class_means;
use crate::model::Model;
use crate::progress::Progress;
use crate::run::Run;

/// Name of the checkpoint of a finished phase in the run's folder.
pub const CHECKPOINT: &str = "align.safetensors";

/// Within an epoch a checkpoint is saved after this time, so that a power cut costs no more.
const SAVE_AFTER: Duration = Duration::from_secs(300);
/// Steps between two looks at the loss on a device that would otherwise wait for each.
const LOOK: i64 = 8;

/// Pseudo-targets with the base classes' assignment.
#[derive(Debug)]
pub struct Assignment {
    /// Unit rows `[count, projection]`.
    pub targets: Tensor,
    /// For every base class the row of its target.
    pub rows: Vec<i64>,
}

impl Assignment {
    /// From a checkpoint, if it has one.
    fn read(tensors: &std::collections::HashMap<String, Tensor>) -> Option<Self> {
        let (targets, rows) = (tensors.get("targets")?, tensors.get("assignment")?);
        Some(Self { targets: targets.shallow_clone(), rows: Vec::try_from(rows).ok()? })
    }
}

/// Generates the targets, assigns the base classes, trains the head, saves the checkpoint. A run that finished this
/// phase with the same settings loads it instead; one that was stopped in it goes on, from a checkpoint that is saved
/// after every epoch, every five minutes, and when a stop is asked for.
///
/// torch's generator is seeded once, before the cached views are drawn. A run that goes on draws everything before once
/// more, so that it ends in the same numbers as one that was never stopped.
///
/// # Errors
/// If the loss stops being finite, a checkpoint cannot be read or written, or a stop was asked for.
pub fn align(model: &mut Model, recipe: &Recipe, train: &Images, split: &Split, run: &Run) -> Result<Assignment> {
    let config = &recipe.align;
    // What phase 2 depends on, beside the backbone, whose recipe cannot change within a run.
    let settings = match &model.foreign {
        None => serde_json::to_string_pretty(&(&recipe.targets, config))?,
        Some(foreign) => serde_json::to_string_pretty(&(&recipe.targets, config, hexadecimal(&foreign.digest())))?,
    };
    let settings = Tensor::from_slice(settings.as_bytes());
    if let Some(tensors) = run.load(CHECKPOINT)?
        && tensors.get("settings").is_some_and(|made| made.equal(&settings))
    {
        log::info!("phase 2 was finished before; its checkpoint is used");
        model.restore(&tensors)?;
        let Some(assignment) = Assignment::read(&tensors) else {
            bail!("the checkpoint {} lacks the targets; remove it", run.path(CHECKPOINT).display());
        };
        return Ok(assignment);
    }
    let (device, dimension) = (model.device(), recipe.head.projection);
    let begun = State::read(run, &settings)?.and_then(|tensors| Some((Assignment::read(&tensors)?, tensors)));
    if begun.is_none() && (run.path(CHECKPOINT).exists() || run.path(UNFINISHED).exists()) {
        log::warn!(
            "phase 2 of this run was made with other [targets] or [align]; it is made anew and replaces what was there"
        );
    }
    let made = match &begun {
        None => targets(&recipe.targets, dimension as usize, recipe.seed)?,
        Some((assignment, _)) => Vec::try_from(assignment.targets.view(-1))?,
    };
    tch::manual_seed((recipe.seed as i64).wrapping_mul(1_000_003).wrapping_sub(1));
    let cache = FeatureCache::new(model, &recipe.pretrain.augment, config, train, split)?;
    let mut state = State::new(model, config);
    let rows = match begun {
        None => assigned(model, &cache, &made, split)?,
        Some((assignment, tensors)) => {
            state.restore(&tensors)?;
            assignment.rows
        }
    };
    let targets = Tensor::from_slice(&made).view([recipe.targets.count as i64, dimension]).to_device(device);
    let assignment = Assignment { targets, rows };
    let base: Vec<i64> = split.base.iter().map(|&index| index as i64).collect();
    let base = Tensor::from_slice(&base).to_device(device);
    Training { model, recipe, train, split, base, cache: &cache }.run(&assignment, &mut state, &settings, run)?;
    let mut tensors = model.tensors();
    state.demand_finite(tensors.iter().map(|(_, tensor)| tensor))?;
    tensors.push(("targets".into(), assignment.targets.shallow_clone()));
    tensors.push(("assignment".into(), Tensor::from_slice(&assignment.rows)));
    tensors.push(("settings".into(), settings));
    run.save(CHECKPOINT, &tensors)?;
    // Should it stay, the finished one still counts.
    let _ = run.remove(UNFINISHED);
    interrupt::enter(Work::Run);
    Ok(assignment)
}

/// For every base class the row of its target among `targets`, chosen by the class means as the head sees them.
fn assigned(model: &Model, cache: &FeatureCache, targets: &[f32], split: &Split) -> Result<Vec<i64>> {
    let classes = split.base_classes;
    let (means, present) = no_grad(|| class_means(&model.head.forward(&cache.clean), &cache.labels, 0..classes as i64));
    let present = present.to_kind(Kind::Int64).sum(Kind::Int64).int64_value(&[]);
    if present != classes as i64 {
        bail!("only {present} of {classes} base classes have images");
    }
    let prototypes = Vec::<f32>::try_from(means.to_device(Device::Cpu).contiguous().view(-1))?;
    let rows = assign(&prototypes, targets, means.size()[1] as usize);
    Ok(rows.into_iter().map(|row| row as i64).collect())
}

/// What the head, and the backbone where the recipe says so, is trained with.
struct Training<'a> {
    model: &'a Model,
    recipe: &'a Recipe,
    train: &'a Images,
    split: &'a Split,
    /// Numbers of the base images among the training images, i64 on the device.
    base: Tensor,
    cache: &'a FeatureCache,
}

impl Training<'_> {
    fn run(&self, assignment: &Assignment, state: &mut State, settings: &Tensor, run: &Run) -> Result<()> {
        let (model, config, cache) = (self.model, &self.recipe.align, self.cache);
        let (device, epochs) = (model.device(), config.epochs);
        let (count, batch) = (cache.labels.size()[0], config.batch as i64);
        let steps = count / batch;
        if steps == 0 {
            bail!("the {count} base images do not fill one batch of {batch}; lower align.batch");
        }
        // Of other settings: what follows takes its place, in the metrics too.
        run.remove(CHECKPOINT)?;
        run.rewind("align", state.epoch)?;
        let goals = Goals::new(assignment, device);
        let place = |state: &State| state.epoch as u64 * steps as u64 + state.step as u64;
        let mut progress = Progress::new("phase 2", epochs as u64 * steps as u64, place(state));
        let mut resumed = self.redraw(&goals, state, steps)?;
        let mut saved = Instant::now();
        interrupt::enter(Work::Align);
        while state.epoch < epochs {
            let started = Instant::now();
            let order = resumed.take().unwrap_or_else(|| Tensor::randperm(count, (Kind::Int64, device)));
            let rates = [config.learning_rate, config.backbone_learning_rate.unwrap_or(config.learning_rate)];
            let rates = rates.map(|peak| rate(config, peak, state.epoch));
            while state.step < steps {
                let batch = order.narrow(0, state.step * batch, batch);
                let labels = cache.labels.index_select(0, &batch);
                let z = unit(&model.head.forward(&self.features(&batch)));
                state.descend(&goals.loss(&z, &labels, config), rates);
                let stop = interrupt::check();
                let save = stop.is_err() || saved.elapsed() > SAVE_AFTER;
                if device == Device::Cpu || save || state.step % LOOK == 0 || state.step == steps {
                    let loss = state.loss()?;
                    progress.at(place(state), || format!("epoch {}/{epochs} loss {loss:.3}", state.epoch + 1));
                }
                if save && state.step < steps {
                    state.save(assignment, settings, run)?;
                    saved = Instant::now();
                    stop?;
                }
            }
            let (loss, accuracy) = (state.loss()?, self.accuracy(&goals)?);
            state.close_epoch();
            // Before the checkpoint; see `Run::rewind`.
            run.log(&json!({
                "phase": "align", "epoch": state.epoch, "loss": loss, "accuracy": 100.0 * accuracy,
                "seconds": started.elapsed().as_secs_f64(),
            }))?;
            if state.epoch < epochs {
                state.save(assignment, settings, run)?;
                saved = Instant::now();
            }
            progress.milestone(&format!(
                "epoch {}/{epochs}: loss {loss:.3}, accuracy on base training images {:.1} %",
                state.epoch,
                100.0 * accuracy
            ));
            if state.epoch < epochs {
                interrupt::check()?;
            }
        }
        progress.finish();
        Ok(())
    }

    /// Draws what the steps before a checkpoint drew; returns the order of the epoch that it stands in.
    fn redraw(&self, goals: &Goals, state: &State, steps: i64) -> Result<Option<Tensor>> {
        let (config, device) = (&self.recipe.align, self.model.device());
        let batch = config.batch as i64;
        // How many numbers a view takes depends on the number of images alone, not on their size.
        let blank = Tensor::zeros([batch, 3, 8, 8], (Kind::Float, device));
        let step = || {
            if config.train_backbone {
                (0..2).for_each(|_| drop(view(&blank, &self.recipe.pretrain.augment)));
            } else {
                let _ = self.cache.choose(batch, device);
            }
            goals.draw(batch, config);
        };
        let order = || Tensor::randperm(self.cache.labels.size()[0], (Kind::Int64, device));
        for _ in 0..state.epoch {
            interrupt::check()?;
            let _ = order();
            (0..steps).for_each(|_| step());
        }
        Ok((state.step > 0).then(|| {
            let order = order();
            (0..state.step).for_each(|_| step());
            order
        }))
    }

    /// Features of both views of a batch, `[2 b, features]`: cached ones, or new ones that gradients flow through. The
    /// backbone's norms keep their statistics (inference mode).
    fn features(&self, batch: &Tensor) -> Tensor {
        if !self.recipe.align.train_backbone {
            return Tensor::cat(&self.cache.two_views(batch), 0);
        }
        let images = self.train.batch_at(&self.base.index_select(0, batch), batch.device());
        let config = &self.recipe.pretrain;
        let views = Tensor::cat(&[view(&images, &config.augment), view(&images, &config.augment)], 0);
        let input = self.model.channels.normalise(&views);
        self.model.backbone.forward(&input, config.precision, false)
    }

    /// Share of the base images, unaugmented, whose nearest target is their class's.
    fn accuracy(&self, goals: &Goals) -> Result<f64> {
        let renewed;
        let clean = if self.recipe.align.train_backbone {
            renewed = cache::features(self.model, None, self.train, self.split, &mut |_| Ok(()))?;
            &renewed
        } else {
            &self.cache.clean
        };
        Ok(no_grad(|| goals.accuracy(&self.model.head.project(clean), &self.cache.labels)))
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

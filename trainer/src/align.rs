//! Phase 2: base alignment. Every base class gets a pseudo-target, and the head g is trained towards them; f is frozen.

use std::time::Instant;

use anyhow::{Result, bail};
use orco_runtime::target;
use serde_json::json;
use tch::{Kind, Tensor, no_grad};

use crate::augment::view;
use crate::backbone::unit;
use crate::config::{AlignConfig, Precision, Recipe};
use crate::dataset::{Images, Split};
use crate::interrupt;
use crate::loss::{class_means, cosine_cross_entropy, orthogonality, perturbed_supervised_contrast};
use crate::model::Model;
use crate::optimiser::{Sgd, SgdConfig};
use crate::pretrain::features;
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
    let settings = serde_json::to_string_pretty(&(&recipe.targets, config))?;
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
    let cache = FeatureCache::new(model, recipe, train, split);
    let (means, present) = no_grad(|| class_means(&model.head.forward(&cache.clean), &cache.labels));
    let present = Vec::<i64>::try_from(present)?;
    if present.len() != split.base_classes {
        bail!("only {} of {} base classes have images", present.len(), split.base_classes);
    }
    let prototypes = Vec::<f32>::try_from(means.to_device(tch::Device::Cpu).contiguous().view(-1))?;
    let rows: Vec<i64> =
        target::assign(&prototypes, &made, dimension as usize).into_iter().map(|row| row as i64).collect();
    let assignment = Assignment { targets, rows };
    train_head(model, config, &cache, &assignment, run)?;
    let mut tensors = model.tensors();
    tensors.push(("targets".into(), assignment.targets.shallow_clone()));
    tensors.push(("assignment".into(), Tensor::from_slice(&assignment.rows)));
    tensors.push(("settings".into(), Tensor::from_slice(settings.as_bytes())));
    run.save(CHECKPOINT, &tensors)?;
    Ok(assignment)
}

/// Features of the base images: clean, and under several augmented views.
struct FeatureCache {
    /// f32 `[n, features]`.
    clean: Tensor,
    /// Each f32 `[n, features]`.
    views: Vec<Tensor>,
    /// i64 `[n]`.
    labels: Tensor,
}

impl FeatureCache {
    fn new(model: &Model, recipe: &Recipe, train: &Images, split: &Split) -> Self {
        const BATCH: usize = 500;
        let device = model.device();
        let passes = recipe.align.cached_views + 1;
        let mut progress = Progress::new("features", (passes * split.base.len()) as u64, 0);
        let mut pass = |augmented: bool| {
            let parts: Vec<Tensor> = split
                .base
                .chunks(BATCH)
                .map(|indices| {
                    let images = train.select(indices).to_device(device).to_kind(Kind::Float) / 255.0;
                    let images = if augmented { view(&images, &recipe.pretrain.augment) } else { images };
                    progress.advance(indices.len() as u64, "");
                    features(model, &images, Precision::F32)
                })
                .collect();
            Tensor::cat(&parts, 0)
        };
        let clean = pass(false);
        let views = (0..recipe.align.cached_views).map(|_| pass(true)).collect();
        progress.finish();
        Self { clean, views, labels: train.select_labels(&split.base).to_device(device) }
    }
}

fn train_head(
    model: &Model,
    config: &AlignConfig,
    cache: &FeatureCache,
    assignment: &Assignment,
    run: &Run,
) -> Result<()> {
    let device = model.device();
    let settings = SgdConfig {
        momentum: config.momentum,
        dampening: config.dampening,
        weight_decay: config.weight_decay,
        nesterov: false,
    };
    // The program's weight decay covers biases too; only norms, of which the head has none, go without.
    let mut parameters = model.parameters("head");
    parameters.iter_mut().for_each(|parameter| parameter.decays = true);
    let mut optimiser = Sgd::new(parameters, settings);
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
            let views = two_views(cache, &batch);
            let z = unit(&model.head.forward(&Tensor::cat(&views, 0)));
            let loss = goals.loss(&z, &labels, config);
            optimiser.zero_grad();
            loss.backward();
            optimiser.step(config.learning_rate);
            sum += loss.double_value(&[]);
            if !sum.is_finite() {
                bail!("the loss of phase 2 became {sum} in epoch {}; lower align.learning_rate", epoch + 1);
            }
            progress.advance(1, &format!("epoch {}/{} loss {:.3}", epoch + 1, config.epochs, sum / (step + 1) as f64));
        }
        let accuracy = no_grad(|| goals.accuracy(&model.head.project(&cache.clean), &cache.labels));
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

/// For every image of the batch, features under two different cached views.
fn two_views(cache: &FeatureCache, batch: &Tensor) -> [Tensor; 2] {
    let views = cache.views.len() as i64;
    let stacked: Vec<Tensor> = cache.views.iter().map(|view| view.index_select(0, batch)).collect();
    let stacked = Tensor::stack(&stacked, 1);
    let options = (Kind::Int64, batch.device());
    let first = Tensor::randint(views, batch.size(), options);
    let second = (&first + 1 + Tensor::randint(views - 1, batch.size(), options)).remainder(views);
    let pick = |choice: Tensor| {
        let index = choice.view([-1, 1, 1]).expand([-1, 1, stacked.size()[2]], false);
        stacked.gather(1, &index, false).squeeze_dim(1)
    };
    [pick(first), pick(second)]
}

/// The targets by role.
struct Goals {
    /// Of the base classes, in order of label, `[base, d]`.
    assigned: Tensor,
    /// The others, `[free, d]`.
    free: Tensor,
}

impl Goals {
    fn new(assignment: &Assignment, device: tch::Device) -> Self {
        let free: Vec<i64> = (0..assignment.targets.size()[0]).filter(|row| !assignment.rows.contains(row)).collect();
        let select = |rows: &[i64]| assignment.targets.index_select(0, &Tensor::from_slice(rows).to_device(device));
        Self { assigned: select(&assignment.rows), free: select(&free) }
    }

    /// PSCL + ORTH + CE of a batch (protocol, phase 2): `z` `[2 b, d]` unit rows of both views, `labels` `[b]`.
    fn loss(&self, z: &Tensor, labels: &Tensor, config: &AlignConfig) -> Tensor {
        let batch = labels.size()[0];
        let both = labels.repeat([2]);
        let mut rows = vec![z.shallow_clone()];
        let mut row_labels = vec![both.shallow_clone()];
        let free = self.free.size()[0];
        if free > 0 {
            let base = self.assigned.size()[0];
            let order = Tensor::randperm(free, (Kind::Int64, z.device()));
            let chosen = order.repeat([(batch + free - 1) / free]).narrow(0, 0, batch);
            for _view in 0..2 {
                let clean = self.free.index_select(0, &chosen);
                let noise = (clean.rand_like() - 0.5) * config.perturbation;
                rows.push(unit(&(clean + noise)));
                row_labels.push(&chosen + base);
            }
        }
        let contrast =
            perturbed_supervised_contrast(&Tensor::cat(&rows, 0), &Tensor::cat(&row_labels, 0), config.temperature);
        let mut total = contrast;
        if config.cross_entropy > 0.0 {
            total += cosine_cross_entropy(z, &self.assigned, &both) * config.cross_entropy;
        }
        if config.orthogonality > 0.0 {
            let (means, present) = class_means(&z.narrow(0, 0, batch), labels);
            let classes = Tensor::arange(self.assigned.size()[0], (Kind::Int64, z.device()));
            let absent = classes.unsqueeze(1).eq_tensor(&present.unsqueeze(0)).any_dim(1, false).logical_not();
            let absent = self.assigned.index_select(0, &absent.nonzero().squeeze_dim(1));
            let rows = Tensor::cat(&[means, absent, self.free.shallow_clone()], 0);
            total += orthogonality(&rows) * config.orthogonality;
        }
        total
    }

    /// Share of rows whose nearest assigned target is their class's.
    fn accuracy(&self, z: &Tensor, labels: &Tensor) -> f64 {
        let nearest = z.matmul(&self.assigned.transpose(0, 1)).argmax(1, false);
        nearest.eq_tensor(labels).to_kind(Kind::Float).mean(Kind::Float).double_value(&[])
    }
}

//! Phase 1: the backbone f and the head g learn the base classes by contrast, cross entropy, or a mixture; or by
//! another [`Criterion`].

mod average;
mod batch_losses;
mod criterion;
mod state;

use anyhow::{Result, bail};
use orco_core::schedule::Schedule;
use serde_json::{Map, Value, json};
use tch::{Kind, Tensor};

use self::batch_losses::MeanLosses;
pub use self::batch_losses::{BatchLosses, accuracy};
use self::criterion::RecipeCriterion;
pub use self::criterion::{Criterion, StepContext};
use self::state::PretrainState;
use crate::config::{Precision, PretrainConfig};
use crate::model::Model;
use crate::platform::interrupt::Activity;
use crate::platform::speed::Speed;
use crate::platform::system;
use crate::run::Run;
use crate::train::optimiser::{gradients, unscale};
use crate::train::require_full_batch;
use crate::train::seed::seed_torch;
use crate::train::training_loop::{BaseSession, EpochReport, EpochTime, Position, TrainingLoop, TrainingPhase};

/// Trains for the epochs that the checkpoint has not seen yet, but not past `until`; [`crate::train::training_loop`]
/// says when one is saved.
///
/// Every epoch seeds torch's generator from the recipe's seed and its own number, and a run that continues within an
/// epoch draws the views of the steps before once more. So a resumed run draws the same views in the same order as one
/// that was never stopped.
///
/// # Errors
/// If the loss stops being finite, a checkpoint cannot be read or written, or a stop was asked for.
pub fn pretrain(
    model: &mut Model,
    config: &PretrainConfig,
    base: &BaseSession<'_>,
    until: Option<usize>,
) -> Result<()> {
    let speed = pretrain_by(model, config, base, until, &mut RecipeCriterion)?;
    let description = &model.backbone.description;
    // Phase 1 mirrors at random, and every view goes through the network once.
    let once = description.multiply_adds() / if description.mirrored { 2 } else { 1 };
    if let Some(sentence) = speed.sentence(once, model.device(), base.run.group().size()) {
        log::info!("phase 1: {sentence}");
    }
    Ok(())
}

/// As [`pretrain`], by any criterion; returns how fast it was.
///
/// # Errors
/// As for [`pretrain`].
pub fn pretrain_by<C: Criterion>(
    model: &mut Model,
    config: &PretrainConfig,
    base: &BaseSession<'_>,
    until: Option<usize>,
    criterion: &mut C,
) -> Result<Speed> {
    let (device, run, images) = (model.device(), base.run, base.split.base.len());
    check_precision(config.precision, device)?;
    let steps = config.steps_per_epoch(images);
    require_full_batch("pretrain.batch", config.batch, images)?;
    let group = run.group();
    group.require_divisible("pretrain.batch", config.batch)?;
    let (state, at) = PretrainState::load(model, criterion, config, run)?;
    group.broadcast(model.tensors().iter().map(|(_, tensor)| tensor))?;
    model.backbone.norm_group = config.sync_batch_norm.then(|| group.clone());
    run.rewind("pretrain", at.epoch)?;
    let norms = model.tensors().into_iter().map(|(_, tensor)| tensor).filter(|tensor| !tensor.requires_grad());
    let views = config.batch * criterion.views(config);
    let mut phase = PretrainPhase {
        model,
        criterion,
        config,
        base,
        schedule: schedule(config, steps),
        steps,
        state,
        norms: norms.collect(),
        order: Vec::new(),
        speed: Speed::default(),
    };
    let training_loop = TrainingLoop {
        run,
        name: "pretrain",
        title: "phase 1",
        work: Activity::Pretrain,
        device,
        steps,
        epochs: config.epochs,
        until: until.unwrap_or(config.epochs).min(config.epochs),
        views: Some(views),
    };
    training_loop.run(&mut phase, at)?;
    if group.is_first()
        && let Some(warning) = divergence(&run.metrics("pretrain"))
    {
        log::warn!("{warning}");
    }
    let speed = phase.speed;
    model.backbone.norm_group = None;
    Ok(speed)
}

/// Phase 1 as a [`TrainingPhase`].
struct PretrainPhase<'a, C> {
    model: &'a Model,
    criterion: &'a mut C,
    config: &'a PretrainConfig,
    base: &'a BaseSession<'a>,
    schedule: Schedule,
    /// Steps of an epoch.
    steps: usize,
    state: PretrainState,
    /// Running statistics of the norms; every rank has the means over all.
    norms: Vec<Tensor>,
    /// Order of the base images in this epoch.
    order: Vec<i64>,
    speed: Speed,
}

impl<C> PretrainPhase<'_, C> {
    /// Numbers of the training images of a step.
    fn batch(&self, step: usize) -> Vec<usize> {
        let order = &self.order[step * self.config.batch..][..self.config.batch];
        order.iter().map(|&index| self.base.split.base[index as usize]).collect()
    }
}

impl<C: Criterion> PretrainPhase<'_, C> {
    /// Adds the weights after this many epochs to the recipe's average, and makes the average the model after the last.
    ///
    /// # Errors
    /// If another rank is gone.
    fn average_weights(&mut self, epochs: usize) -> Result<()> {
        /// Enough for means and variances.
        const IMAGES: usize = 4096;
        let (last, all) = (self.config.average_last, self.config.epochs);
        if last == 0 || epochs + last <= all {
            return Ok(());
        }
        self.state.average.add(self.state.optimiser.parameters());
        if epochs < all {
            return Ok(());
        }
        let averaged = self.state.average.apply(self.state.optimiser.parameters());
        log::info!("phase 1: the weights are the mean over the last {averaged} epochs");
        seed_torch(self.base.seed, all as i64 + 1);
        let context = StepContext::of(self.model, self.config, self.base);
        let batches = self.steps.min(IMAGES.div_ceil(self.config.batch));
        let views = (0..batches).map(|step| self.model.channels.normalise(&context.views(&self.batch(step), 1)));
        self.model.backbone.estimate_norms(views, self.config.precision);
        self.base.run.group().all_reduce_mean(&self.norms)?;
        Ok(())
    }
}

impl<C: Criterion> TrainingPhase for PretrainPhase<'_, C> {
    fn begin(&mut self, at: Position) -> Result<()> {
        seed_torch(self.base.seed, at.epoch as i64 + 1);
        let count = self.base.split.base.len() as i64;
        self.order = Vec::try_from(Tensor::randperm(count, (Kind::Int64, tch::Device::Cpu)))?;
        let context = StepContext::of(self.model, self.config, self.base);
        for step in 0..at.step {
            let _drawn = self.criterion.draw(&context, &self.batch(step));
        }
        Ok(())
    }

    fn step(&mut self, at: Position) -> Result<()> {
        let (group, batch) = (self.base.run.group(), self.batch(at.step));
        let context = StepContext::of(self.model, self.config, self.base);
        let drawn = self.criterion.draw(&context, &batch);
        let losses = self.criterion.losses(&context, drawn, &batch)?;
        let optimiser = &mut self.state.optimiser;
        let parts = losses.parts();
        let average = |gradients: &[Tensor]| {
            let defined = gradients.iter().filter(|gradient| gradient.defined());
            group.all_reduce_mean(defined.chain([&parts]).chain(&self.norms))
        };
        let (gradients, is_taken) = match &mut self.state.scaler {
            None => {
                let own = gradients(&losses.total, optimiser.parameters());
                average(&own)?;
                (own, true)
            }
            Some(scaler) => {
                let mut scaled = gradients(&(&losses.total * scaler.scale()), optimiser.parameters());
                average(&scaled)?;
                let finite = unscale(&mut scaled, scaler.scale());
                (scaled, scaler.update(finite)?)
            }
        };
        if is_taken {
            optimiser.step(&gradients, self.schedule.rate(at.epoch * self.steps + at.step));
        }
        self.state.sums.add(&parts);
        Ok(())
    }

    fn loss(&self, at: Position) -> Result<f64> {
        Ok(self.state.means(at, self.config)?.total)
    }

    fn end(&mut self, at: Position, time: EpochTime) -> Result<EpochReport> {
        self.speed.add(time.steps * self.config.batch * self.criterion.views(self.config), time.duration);
        let MeanLosses { total, cross_entropy, other, accuracy } = self.state.means(at, self.config)?;
        self.state.begin_epoch(self.model.device());
        self.average_weights(at.epoch + 1)?;
        if let Some(scaler) = &self.state.scaler {
            log::debug!("phase 1: the loss is scaled by {}", scaler.scale());
        }
        let rate = self.schedule.rate((at.epoch + 1) * self.steps - 1);
        let classifies = self.criterion.classifies(self.config);
        let metrics = [
            ("cross_entropy", classifies.then_some(cross_entropy)),
            (C::OTHER_LOSS, Some(other)),
            ("accuracy", classifies.then_some(100.0 * accuracy)),
            ("learning_rate", Some(rate)),
        ];
        let metrics: Map<String, Value> =
            metrics.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect();
        let summary = if classifies {
            format!("accuracy on augmented views {:.1} %", 100.0 * accuracy)
        } else {
            format!("{} {other:.3}", C::OTHER_LOSS)
        };
        Ok(EpochReport { loss: total, metrics, summary })
    }

    fn save(&mut self, at: Position, run: &Run) -> Result<()> {
        self.state.save(at, at.global_step(self.steps), self.model, self.criterion, run)
    }
}

/// The learning rate over all epochs, of `steps` steps each.
fn schedule(config: &PretrainConfig, steps: usize) -> Schedule {
    Schedule {
        steps: config.epochs * steps,
        warmup: config.warmup_epochs * steps,
        start: config.warmup_start,
        peak: config.learning_rate,
        end: 0.0,
    }
}

/// The warning of a phase whose loss, by its lines of metrics, rose though it stayed finite, since phase 2 cannot mend
/// that; `None` if it did not rise.
fn divergence(lines: &[Value]) -> Option<String> {
    /// A training that works never ends above so many times its first epoch's loss, or above so much where that was
    /// below 1.
    const RISE: f64 = 10.0;
    let loss = |line: &Value| line["loss"].as_f64();
    let (first, last) = (loss(lines.iter().find(|line| line["epoch"] == 1)?)?, loss(lines.last()?)?);
    (last > RISE * first.max(1.0)).then(|| {
        format!(
            "phase 1 diverged: its loss rose from {first:.3} in the first epoch to {last:.3}; start again with another \
             --run folder and a lower pretrain.learning_rate"
        )
    })
}

/// Refuses a precision that the device cannot train in, and warns of one that makes it slower.
fn check_precision(precision: Precision, device: tch::Device) -> Result<()> {
    if precision == Precision::F16 {
        require_half_precision(device)?;
    }
    if device == tch::Device::Cpu
        && let Some(warning) = slow_precision(precision, system::half_precisions().0)
    {
        log::warn!("{warning}");
    }
    Ok(())
}

/// Refuses f16 where libtorch cannot train convolutions in it.
fn require_half_precision(device: tch::Device) -> Result<()> {
    let probe = || -> Result<bool, tch::TchError> {
        let image = Tensor::f_ones([1, 4, 8, 8], (Kind::Half, device))?;
        let weight = Tensor::f_ones([4, 4, 3, 3], (Kind::Half, device))?.set_requires_grad(true);
        let one = [1, 1];
        image
            .f_conv2d(&weight, None::<Tensor>, one, one, one, 1)?
            .f_to_kind(Kind::Float)?
            .f_sum(Kind::Float)?
            .f_backward()?;
        Ok(weight.grad().f_isfinite()?.f_all()?.f_to_kind(Kind::Int64)?.f_int64_value(&[])? == 1)
    };
    if !probe().unwrap_or(false) {
        bail!(
            "libtorch cannot train convolutions in f16 on this device; set pretrain.precision to \"bf16\" or \"f32\""
        );
    }
    Ok(())
}

/// What makes a training on a processor slower than in f32, by whether the processor has bf16.
fn slow_precision(precision: Precision, has_bf16: bool) -> Option<&'static str> {
    match precision {
        Precision::F16 if has_bf16 => Some("f16 on a processor is mostly slower than f32; this one has bf16"),
        Precision::F16 => Some("f16 on a processor is mostly slower than f32: set pretrain.precision to \"f32\""),
        Precision::Bf16 if !has_bf16 => Some(
            "this processor computes bf16 in software, which can take twice the time of f32: pretrain.precision = \
             \"f32\" is the faster one here",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Recipe;
    use crate::data::dataset::{self, DataOrigin};

    #[test]
    fn contrast_alone_reports_no_accuracy() {
        let mut recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
        (recipe.backbone.width, recipe.data.train_per_class, recipe.data.test_per_class) = (2, Some(12), Some(2));
        recipe.export.candidates_per_class = 5;
        (recipe.pretrain.epochs, recipe.pretrain.warmup_epochs, recipe.pretrain.batch) = (1, 0, 16);
        recipe.pretrain.views = 2;
        let data = dataset::open(&recipe, &DataOrigin::default()).unwrap();
        let names = |cross_entropy: f64, contrast: f64| {
            let folder = tempfile::tempdir().unwrap();
            let run = Run::open(folder.path(), &recipe).unwrap();
            let mut model = Model::new(&recipe, [3, 24, 24], tch::Device::Cpu);
            let config = PretrainConfig { cross_entropy, supervised_contrast: contrast, ..recipe.pretrain.clone() };
            let base = BaseSession { images: &data.train, split: &data.split, seed: 1, run: &run };
            pretrain(&mut model, &config, &base, None).unwrap();
            let line = run.metrics("pretrain").remove(0);
            ["loss", "contrast", "learning_rate", "cross_entropy", "accuracy"].map(|name| line[name].is_f64())
        };
        assert_eq!(names(0.0, 1.0), [true, true, true, false, false]);
        assert_eq!(names(1.0, 1.0), [true; 5]);
    }

    #[test]
    fn a_loss_that_rose_is_warned_of() {
        let said = |losses: &[f64]| {
            let lines: Vec<Value> =
                losses.iter().enumerate().map(|(index, loss)| json!({ "epoch": index + 1, "loss": loss })).collect();
            divergence(&lines)
        };
        let sound: [&[f64]; 5] = [&[], &[5.0], &[5.0, 80.0, 2.0], &[5.0, 49.0], &[0.001, 0.5]];
        assert!(sound.into_iter().all(|losses| said(losses).is_none()));
        let expected = "phase 1 diverged: its loss rose from 5.000 in the first epoch to 80.000; start again with \
                        another --run folder and a lower pretrain.learning_rate";
        assert_eq!(said(&[5.0, 80.0]).as_deref(), Some(expected));
    }

    #[test]
    fn a_precision_that_the_processor_lacks_is_warned_of() {
        let is_warned = |precision| [false, true].map(|has_bf16| slow_precision(precision, has_bf16).is_some());
        assert_eq!(is_warned(Precision::F32), [false, false]);
        assert_eq!(is_warned(Precision::Bf16), [true, false]);
        assert_eq!(is_warned(Precision::F16), [true, true]);
        assert!(slow_precision(Precision::F16, true).unwrap().contains("has bf16"));
    }
}

//! Phase 1: the backbone f and the head g learn the base classes by contrast, cross entropy, or a mixture.

mod losses;
mod state;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use orco_core::schedule::Schedule;
use serde_json::json;
use tch::{Kind, Tensor};

use self::losses::{Losses, Means, views};
use self::state::State;
use crate::config::{Precision, Recipe};
use crate::dataset::{Images, Split};
use crate::interrupt::{self, Work};
use crate::model::Model;
use crate::optimiser::{gradients, unscale};
use crate::progress::Progress;
use crate::run::Run;
use crate::speed::Speed;

/// Name of the checkpoint in the run's folder.
pub const CHECKPOINT: &str = "pretrain.safetensors";

/// Within an epoch a checkpoint is saved after this time, so that a power cut costs no more.
const SAVE_AFTER: Duration = Duration::from_secs(300);
/// A GPU waits while its weights are fetched and written, so epochs of seconds do not each end in a checkpoint there.
const SAVE_APART: Duration = Duration::from_secs(30);
/// Steps between two looks at the loss on a device that would otherwise wait for each.
const LOOK: usize = 8;

/// Trains for the epochs that the checkpoint has not seen yet, but not past `until`; saves one after every epoch (on a
/// GPU, not sooner than half a minute after the one before), every five minutes, and when a stop is asked for.
///
/// Every epoch seeds torch's generator from the recipe's seed and its own number, and a run that continues within an
/// epoch draws the views of the steps before once more. So a resumed run draws the same views in the same order as one
/// that was never stopped.
///
/// # Errors
/// If the loss stops being finite, a checkpoint cannot be read or written, or a stop was asked for.
pub fn pretrain(
    model: &mut Model,
    recipe: &Recipe,
    train: &Images,
    split: &Split,
    run: &Run,
    until: Option<usize>,
) -> Result<()> {
    let config = &recipe.pretrain;
    if config.precision == Precision::F16 {
        half_precision_works(model.device())?;
    }
    let steps = split.base.len() / config.batch;
    if steps == 0 {
        bail!("the {} base images do not fill one batch of {}", split.base.len(), config.batch);
    }
    let mut state = State::load(model, config, run)?;
    run.rewind("pretrain", state.epoch)?;
    let schedule = Schedule {
        steps: config.epochs * steps,
        warmup: config.warmup_epochs * steps,
        start: config.warmup_start,
        peak: config.learning_rate,
        end: 0.0,
    };
    let mut progress =
        Progress::new("phase 1", (config.epochs * steps) as u64, (state.epoch * steps + state.step) as u64);
    let last = until.unwrap_or(config.epochs).min(config.epochs);
    let (mut saved, mut speed) = (Instant::now(), Speed::default());
    interrupt::enter(Work::Pretrain);
    while state.epoch < last {
        tch::manual_seed((recipe.seed as i64).wrapping_mul(1_000_003).wrapping_add(state.epoch as i64 + 1));
        let order = Vec::<i64>::try_from(Tensor::randperm(split.base.len() as i64, (Kind::Int64, tch::Device::Cpu)))?;
        let batch = |step: usize| -> Vec<usize> {
            order[step * config.batch..][..config.batch].iter().map(|&index| split.base[index as usize]).collect()
        };
        for step in 0..state.step {
            let _drawn = views(model, config, train, &batch(step));
        }
        let (started, first) = (Instant::now(), state.step);
        while state.step < steps {
            let losses = Losses::of(model, config, train, &batch(state.step));
            let optimiser = &mut state.optimiser;
            let (gradients, goes) = match &mut state.scaler {
                None => (gradients(&losses.total, optimiser.parameters()), true),
                Some(scaler) => {
                    let mut scaled = gradients(&(&losses.total * scaler.scale()), optimiser.parameters());
                    let finite = unscale(&mut scaled, scaler.scale());
                    (scaled, scaler.update(finite)?)
                }
            };
            if goes {
                optimiser.step(&gradients, schedule.rate(state.epoch * steps + state.step));
            }
            state.sums.add(&losses);
            state.step += 1;
            let stop = interrupt::check();
            let save = stop.is_err() || saved.elapsed() > SAVE_AFTER;
            if model.device() == tch::Device::Cpu || save || state.step.is_multiple_of(LOOK) || state.step == steps {
                let loss = state.means(config)?.total;
                progress.at((state.epoch * steps + state.step) as u64, || {
                    let rate =
                        ((state.step - first) * config.batch * config.views) as f64 / started.elapsed().as_secs_f64();
                    format!("epoch {}/{} loss {loss:.3}, {rate:.0} views/s", state.epoch + 1, config.epochs)
                });
            }
            if save && state.step < steps {
                state.save(model, run)?;
                saved = Instant::now();
            }
            if state.step < steps {
                stop?;
            }
        }
        let time = started.elapsed();
        let seconds = time.as_secs_f64();
        speed.add((steps - first) * config.batch * config.views, time);
        let rate = ((steps - first) * config.batch * config.views) as f64 / seconds;
        let Means { total, cross_entropy, contrast, accuracy } = state.means(config)?;
        state.close_epoch(model.device());
        // Before the checkpoint; see `Run::rewind`.
        run.log(&json!({
            "phase": "pretrain", "epoch": state.epoch, "loss": total, "cross_entropy": cross_entropy,
            "contrast": contrast, "accuracy": 100.0 * accuracy, "seconds": seconds,
            "learning_rate": schedule.rate(state.epoch * steps - 1), "views_per_second": rate,
        }))?;
        let stop = interrupt::check();
        let due = model.device() == tch::Device::Cpu || saved.elapsed() > SAVE_APART || state.epoch == last;
        if due || stop.is_err() {
            state.save(model, run)?;
            saved = Instant::now();
        }
        if let Some(scaler) = &state.scaler {
            log::debug!("phase 1: the loss is scaled by {}", scaler.scale());
        }
        progress.milestone(&format!(
            "epoch {}/{}: loss {total:.3}, accuracy on augmented views {:.1} %, {rate:.0} views/s",
            state.epoch,
            config.epochs,
            100.0 * accuracy,
        ));
        if state.epoch < last {
            stop?;
        }
    }
    interrupt::enter(Work::Run);
    progress.finish();
    let description = &model.backbone.description;
    // Phase 1 mirrors at random, and every view goes through the network once.
    let once = description.multiply_adds() / if description.mirrored { 2 } else { 1 };
    if let Some(sentence) = speed.sentence(once, model.device()) {
        log::info!("phase 1: {sentence}");
    }
    Ok(())
}

/// Refuses f16 where libtorch cannot train convolutions in it.
fn half_precision_works(device: tch::Device) -> Result<()> {
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
    if device == tch::Device::Cpu {
        log::warn!("f16 on a processor is mostly slower than f32; bf16 is the faster one where the processor has it");
    }
    Ok(())
}

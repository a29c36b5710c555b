//! Phase 1: the backbone f and the head g learn the base classes by contrast, cross entropy, or a mixture.

use std::time::Instant;

use anyhow::{Result, bail};
use orco_runtime::schedule::Schedule;
use serde_json::json;
use tch::{Kind, Tensor};

use crate::augment::view;
use crate::config::{Precision, PretrainConfig, Recipe};
use crate::dataset::{Images, Split};
use crate::interrupt;
use crate::loss::contrast;
use crate::model::Model;
use crate::optimiser::{Optimiser, Scaler};
use crate::progress::Progress;
use crate::run::Run;

/// Name of the checkpoint in the run's folder.
pub const CHECKPOINT: &str = "pretrain.safetensors";

/// Trains for the epochs that the checkpoint has not seen yet, but not past `until`; saves one after every epoch.
///
/// Every epoch seeds torch's generator from the recipe's seed and its own number, so a resumed run draws the same
/// views in the same order as one that was never stopped.
///
/// # Errors
/// If the loss stops being finite, or a checkpoint cannot be read or written.
pub fn pretrain(
    model: &mut Model,
    recipe: &Recipe,
    train: &Images,
    split: &Split,
    run: &Run,
    until: Option<usize>,
) -> Result<()> {
    let config = &recipe.pretrain;
    let mut scaler = (config.precision == Precision::F16).then(Scaler::default);
    if config.precision == Precision::F16 {
        half_precision_works(model.device())?;
    }
    let mut optimiser = Optimiser::new(model.parameters(""), config);
    let mut first = 0;
    if let Some(tensors) = run.load(CHECKPOINT)? {
        model.restore(&tensors)?;
        optimiser.restore(&tensors);
        if let Some(scaler) = &mut scaler {
            scaler.restore(&tensors);
        }
        first = tensors.get("epochs").map_or(0, |epochs| epochs.int64_value(&[]) as usize);
        log::info!("phase 1 continues after epoch {first}");
    }
    let steps = split.base.len() / config.batch;
    if steps == 0 {
        bail!("the {} base images do not fill one batch of {}", split.base.len(), config.batch);
    }
    let schedule = Schedule {
        steps: config.epochs * steps,
        warmup: config.warmup_epochs * steps,
        start: config.warmup_start,
        peak: config.learning_rate,
        end: 0.0,
    };
    let mut progress = Progress::new("phase 1", (config.epochs * steps) as u64, (first * steps) as u64);
    let last = until.unwrap_or(config.epochs).min(config.epochs);
    for epoch in first..last {
        let started = Instant::now();
        tch::manual_seed((recipe.seed as i64).wrapping_mul(1_000_003).wrapping_add(epoch as i64 + 1));
        let order = Vec::<i64>::try_from(Tensor::randperm(split.base.len() as i64, (Kind::Int64, tch::Device::Cpu)))?;
        let mut sums = Sums::default();
        for step in 0..steps {
            let batch: Vec<usize> =
                order[step * config.batch..][..config.batch].iter().map(|&i| split.base[i as usize]).collect();
            let losses = losses(model, config, train, &batch);
            optimiser.zero_grad();
            let goes = match &mut scaler {
                None => {
                    losses.total.backward();
                    true
                }
                Some(scaler) => {
                    (&losses.total * scaler.scale()).backward();
                    scaler.update(optimiser.unscale(scaler.scale()))?
                }
            };
            if goes {
                optimiser.step(schedule.rate(epoch * steps + step));
            }
            sums.add(&losses);
            if !sums.total.is_finite() {
                bail!(
                    "the loss became {} in epoch {}; the checkpoint of epoch {epoch} is kept; lower pretrain.learning_rate",
                    sums.total,
                    epoch + 1
                );
            }
            progress.advance(
                1,
                &format!("epoch {}/{} loss {:.3}", epoch + 1, config.epochs, sums.total / (step + 1) as f64),
            );
        }
        let seconds = started.elapsed().as_secs_f64();
        let mut tensors = model.tensors();
        tensors.extend(optimiser.state());
        tensors.extend(scaler.iter().flat_map(Scaler::state));
        tensors.push(("epochs".into(), Tensor::from(epoch as i64 + 1)));
        run.save(CHECKPOINT, &tensors)?;
        let mean = |sum: f64| sum / steps as f64;
        run.log(&json!({
            "phase": "pretrain", "epoch": epoch + 1, "loss": mean(sums.total), "cross_entropy": mean(sums.cross_entropy),
            "contrast": mean(sums.contrast), "accuracy": 100.0 * mean(sums.accuracy), "seconds": seconds,
            "learning_rate": schedule.rate((epoch + 1) * steps - 1),
            "views_per_second": (steps * config.batch * config.views) as f64 / seconds,
        }))?;
        if let Some(scaler) = &scaler {
            log::debug!("phase 1: the loss is scaled by {}", scaler.scale());
        }
        progress.milestone(&format!(
            "epoch {}/{}: loss {:.3}, accuracy on augmented views {:.1} %, {:.0} views/s",
            epoch + 1,
            config.epochs,
            mean(sums.total),
            100.0 * mean(sums.accuracy),
            (steps * config.batch * config.views) as f64 / seconds
        ));
        if epoch + 1 < last {
            interrupt::check()?;
        }
    }
    progress.finish();
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

/// Losses of one batch.
struct Losses {
    total: Tensor,
    cross_entropy: f64,
    contrast: f64,
    accuracy: f64,
}

fn losses(model: &Model, config: &PretrainConfig, train: &Images, batch: &[usize]) -> Losses {
    let device = model.device();
    let images = train.select(batch).to_device(device).to_kind(Kind::Float) / 255.0;
    let views: Vec<Tensor> = (0..config.views).map(|_| view(&images, &config.augment)).collect();
    let repeated = |tensor: Tensor| tensor.repeat([config.views as i64]);
    let labels = repeated(train.select_labels(batch).to_device(device));
    let input = model.channels.normalise(&Tensor::cat(&views, 0));
    let features = model.backbone.forward(&input, config.precision, true);
    let mut total = Tensor::zeros([], (Kind::Float, device));
    let (mut cross_entropy, mut contrasted, mut accuracy) = (0.0, 0.0, 0.0);
    if config.cross_entropy > 0.0 {
        let logits = features.linear(&model.classifier, Some(&model.classifier_bias));
        accuracy = logits.argmax(1, false).eq_tensor(&labels).to_kind(Kind::Float).mean(Kind::Float).double_value(&[]);
        let loss =
            logits.cross_entropy_loss(&labels, None::<Tensor>, tch::Reduction::Mean, -100, config.label_smoothing);
        cross_entropy = loss.double_value(&[]);
        total += loss * config.cross_entropy;
    }
    if config.supervised_contrast > 0.0 || config.self_contrast > 0.0 {
        let z = model.head.forward(&features);
        let mut add = |weight: f64, labels: &Tensor| {
            if weight > 0.0 {
                let loss = contrast(&z, labels, config.temperature);
                contrasted += loss.double_value(&[]);
                total = &total + loss * weight;
            }
        };
        add(config.supervised_contrast, &labels);
        add(config.self_contrast, &repeated(Tensor::arange(batch.len() as i64, (Kind::Int64, device))));
    }
    Losses { total, cross_entropy, contrast: contrasted, accuracy }
}

/// Sums over the steps of an epoch.
#[derive(Default)]
struct Sums {
    total: f64,
    cross_entropy: f64,
    contrast: f64,
    accuracy: f64,
}

impl Sums {
    fn add(&mut self, losses: &Losses) {
        self.total += losses.total.double_value(&[]);
        self.cross_entropy += losses.cross_entropy;
        self.contrast += losses.contrast;
        self.accuracy += losses.accuracy;
    }
}

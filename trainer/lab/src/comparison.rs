//! The paper's comparison of phase 3: g trained alone, as on the device, beside f and g trained together.
//!
//! The runtime's learner on stored features stands first. The others are trained here from images, with new views in
//! every step, by the same settings, losses, exemplars, draws and targets; in every session f and g begin as phase 2
//! left them. All answer by targets alone, as the paper does: where f is trained, means of stored features would be
//! those of another f. Batch norm of f keeps its statistics throughout. The metrics are the runtime's.

mod session;

use std::collections::HashMap;
use std::fs;

use anyhow::{Context, Result, bail};
use orco_benchmark::benchmark::{Benchmark, SEED};
use orco_benchmark::{Metric, Summary};
use orco_core::config::MethodConfig;
use orco_lab::kept_measurements::fingerprint;
use orco_lab::phase3_ablations::{Phase3Ablations, Phase3Settings};
use orco_lab::question::AblationVariant;
use orco_lab::{Measurement, System};
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::threads::{Threads, usable_threads};
use orco_state::state::BaseModel;
use orco_trainer::config::Recipe;
use orco_trainer::data::dataset::{DataSet, Images};
use orco_trainer::export::BundleSource;
use orco_trainer::model::{Model, store};
use orco_trainer::platform::interrupt;
use orco_trainer::run::progress::WorkProgress;
use orco_trainer::train::objective::Targets;
use serde_json::json;
use tch::Tensor;

use self::session::ComparedSession;
use crate::measurements::Experiment;
use crate::sessions::{Protocol, SessionLearner};

/// Images measured at a time.
const BATCH: usize = 500;

/// Name of the runtime's learner in tables.
pub(crate) const ON_DEVICE: &str = "g, as on the device";

/// What is trained in the incremental sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrainedParts {
    /// The head g; f stays.
    Head,
    /// Both; f's learning rate is this multiple of g's.
    Both(f64),
}

impl TrainedParts {
    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Head => "g, new views".into(),
            Self::Both(share) => format!("f and g, f at {share} of the rate"),
        }
    }

    /// The prefix of the files that keep its draws.
    fn file(self) -> String {
        match self {
            Self::Head => "head".into(),
            Self::Both(share) => format!("both-{share}"),
        }
    }
}

/// Measures the runtime's learner, g alone, and f and g together for each share of the learning rate that f gets.
/// The model is left as it was; the run keeps every draw that is measured.
///
/// # Errors
/// If the backbone is an imported ONNX file, the recipe's settings of phase 3 train nothing, ONNX Runtime
/// is missing, or a loss stops being finite.
pub fn compare(
    model: &mut Model,
    targets: &Targets,
    experiment: &Experiment<'_>,
    shares: &[f64],
) -> Result<Vec<Summary>> {
    let Experiment { recipe, data, run, sessions, draws } = *experiment;
    check(model, &recipe.learn, shares)?;
    // A finished phase 2 is read from its checkpoint, onto the processor.
    let targets = &targets.to_device(model.device());
    let source = BundleSource::new(model, recipe, data);
    let (base_model, benchmark) = exported(model, targets, &source)?;
    let config = &recipe.learn.by_targets_alone();
    let mut summaries = vec![measure_on_device(&base_model, &benchmark, config, draws)?];
    let compared: Vec<TrainedParts> =
        std::iter::once(TrainedParts::Head).chain(shares.iter().map(|&share| TrainedParts::Both(share))).collect();
    let (epochs_of_draw, mut done) = ((data.split.sessions.len() * config.epochs) as u64, 0);
    let total = epochs_of_draw * (compared.len() * draws) as u64;
    let mut progress = WorkProgress::new("comparison", "epochs", total, 0);
    let start = StartingPoint::new(model, targets, &source);
    for trained in compared {
        let inputs = fingerprint(json!([recipe, sessions, trained.name()]));
        let (name, file) = (&trained.name(), &trained.file());
        let protocol = Protocol { recipe, data, draws, name, file, run, fingerprint: &inputs };
        let mut learner = ComparedLearner::new(model, &start, trained, protocol, &mut progress);
        let summary = protocol.run_sessions(&mut learner);
        // Whatever happened, the model is what it was.
        model.restore(&start.tensors)?;
        let summary = summary?;
        done += epochs_of_draw * draws as u64;
        progress.show(done, String::new);
        progress.milestone(&format!("{}: aHM {:.2}, aACC {:.2}", summary.name, summary.ahm, summary.aacc));
        summaries.push(summary);
    }
    progress.finish();
    for summary in &summaries {
        run.log(&json!({ "phase": "compare", "draws": draws, "measured": summary }))?;
    }
    Ok(summaries)
}

/// Measures the runtime's learner alone, with the recipe's settings of phase 3, answers by targets alone.
///
/// # Errors
/// If ONNX Runtime is missing, or a loss stops being finite.
pub fn on_device(model: &Model, targets: &Targets, recipe: &Recipe, data: &DataSet, draws: usize) -> Result<Summary> {
    let source = BundleSource::new(model, recipe, data);
    let (base_model, benchmark) = exported(model, &targets.to_device(model.device()), &source)?;
    measure_on_device(&base_model, &benchmark, &recipe.learn.by_targets_alone(), draws)
}

/// Measures the lab's variants of phase 3, which train the head alone. The run keeps every draw.
///
/// # Errors
/// If ONNX Runtime is missing, a loss stops being finite, or the run cannot be written.
pub fn measure_variants(
    variants: &[AblationVariant<Phase3Settings>],
    model: &Model,
    targets: &Targets,
    experiment: &Experiment<'_>,
) -> Result<Vec<Summary>> {
    let Experiment { recipe, data, run, sessions, draws } = *experiment;
    let imported = model.onnx.as_ref().map(|onnx| onnx.digest);
    let content = &fingerprint(json!([recipe, imported, sessions]));
    let source = BundleSource::new(model, recipe, data);
    let (base_model, benchmark) = exported(model, &targets.to_device(model.device()), &source)?;
    let cache = run.path("variants");
    fs::create_dir_all(&cache).with_context(|| format!("cannot make the folder {}", cache.display()))?;
    let ablations =
        Phase3Ablations { base_model: &base_model, benchmark: &benchmark, content, cache: &cache, seed: SEED };
    let threads = Threads::new(usable_threads())?;
    let measured = variants.iter().map(|variant| {
        let measured = ablations.measure(variant, draws, &threads, &interrupt::flow);
        interrupt::check()?;
        log::info!("\"{}\" is measured", variant.name);
        Ok(measured?)
    });
    measured.collect()
}

/// The base model and the benchmark that a bundle of this model would carry, its features computed as on a device.
fn exported(model: &Model, targets: &Targets, source: &BundleSource<'_>) -> Result<(BaseModel, Benchmark)> {
    let mut encoder = Onnx::pool(&BundleSource::encode(model, &[]), &source.input)
        .context("the runtime's learner takes its features from ONNX Runtime")?;
    let base_model = source.base_model(model, targets, &mut encoder)?;
    let base = source.clean_features(&mut encoder, source.train, &source.split.base)?;
    let benchmark = source.benchmark(&mut encoder, &base)?;
    Ok((base_model, benchmark))
}

/// Measures the runtime's learner on a base model.
fn measure_on_device(
    base_model: &BaseModel,
    benchmark: &Benchmark,
    config: &MethodConfig,
    draws: usize,
) -> Result<Summary> {
    let measurement = Measurement { base_model, benchmark, system: System::DEVICE, config, seed: SEED };
    let measured = measurement.run(benchmark.distinct_draws(draws), &interrupt::flow);
    interrupt::check()?;
    Ok(Summary { name: ON_DEVICE.into(), ..measured? })
}

/// Refuses an imported backbone where it would have to be trained.
pub(crate) fn check_trainable(is_imported: bool) -> Result<()> {
    if is_imported {
        bail!(
            "the backbone is an ONNX file, which cannot be trained; name one of the recipe's own, or, if orco-train \
             exported it, name it as backbone.weights, with its architecture and width"
        );
    }
    Ok(())
}

/// Refuses what cannot be compared; [`compare`] asks too, but this needs no trained model.
///
/// # Errors
/// If there is nothing to compare, or a share is no number of at least 0.
pub fn check(model: &Model, learn: &MethodConfig, shares: &[f64]) -> Result<()> {
    check_trainable(model.is_imported())?;
    if !model.look.is_whole() {
        bail!("the recipe has a data.look, but what is trained here sees whole images; leave it out");
    }
    if learn.epochs == 0 {
        bail!(
            "compare trains in every session, but [learn] of the recipe has epochs = 0, as the preset \"closed-form\" \
             does; give it preset = \"edge\", \"published\" or \"paper-text\""
        );
    }
    if let Some(share) = shares.iter().find(|share| !share.is_finite() || **share < 0.0) {
        bail!("--backbone-rate is {share}, but must be a number of at least 0");
    }
    Ok(())
}

/// A table of the systems, then every session's row of each, as text.
pub fn table(summaries: &[Summary], draws: usize) -> String {
    let mut lines =
        vec![format!("means, draws: {draws:<16} aHM            aACC           base decay  performance decay")];
    for summary in summaries {
        lines.push(format!(
            "{:<30} {:<14} {:<14} {:10.2} {:10.2}",
            summary.name,
            summary.cell(Metric::Ahm),
            summary.cell(Metric::Aacc),
            summary.base_decay,
            summary.performance_decay
        ));
    }
    lines.extend(summaries.iter().map(|summary| format!("\n{}\n{}", summary.name, summary.table())));
    lines.join("\n")
}

/// What every session begins with: the model after phase 2.
struct StartingPoint<'a> {
    targets: &'a Targets,
    /// Images of the base exemplars, as many of each class as the settings let a session see.
    exemplars: Vec<usize>,
    /// Every tensor of the model, by name.
    tensors: HashMap<String, Tensor>,
    /// Features of the measured images, `[measured, features]`.
    features: Tensor,
}

impl<'a> StartingPoint<'a> {
    fn new(model: &Model, targets: &'a Targets, source: &BundleSource<'_>) -> Self {
        let (train, most) = (source.train, source.recipe.learn.base_exemplars);
        let all = source.base_exemplars();
        let classes = all.chunk_by(|&a, &b| train.labels[a] == train.labels[b]);
        let exemplars = classes.flat_map(|class| &class[..most.min(class.len())]).copied().collect();
        let tensors = store::copies(model.tensors());
        let features = features(model, source.measured, &source.split.measured);
        Self { targets, exemplars, tensors, features }
    }
}

/// A learner that trains from images.
struct ComparedLearner<'a> {
    model: &'a mut Model,
    start: &'a StartingPoint<'a>,
    trained: TrainedParts,
    protocol: Protocol<'a>,
    progress: &'a mut WorkProgress,
    /// What is known by now.
    session: ComparedSession<'a>,
    draw: usize,
    number: usize,
}

impl<'a> ComparedLearner<'a> {
    fn new(
        model: &'a mut Model,
        start: &'a StartingPoint<'a>,
        trained: TrainedParts,
        protocol: Protocol<'a>,
        progress: &'a mut WorkProgress,
    ) -> Self {
        let recipe = protocol.recipe;
        let session = ComparedSession {
            train: &protocol.data.train,
            config: &recipe.learn,
            augment: recipe.session_augment.as_ref().unwrap_or(&recipe.pretrain.augment),
            precision: recipe.pretrain.precision.unscaled(),
            exemplars: Vec::new(),
            base: protocol.data.split.base_classes as i64,
            targets: start.targets.to_device(model.device()),
        };
        Self { model, start, trained, protocol, progress, session, draw: 0, number: 0 }
    }
}

impl SessionLearner for ComparedLearner<'_> {
    fn begin(&mut self, draw: usize) -> Result<()> {
        self.session.exemplars.clone_from(&self.start.exemplars);
        self.session.targets = self.start.targets.to_device(self.model.device());
        (self.draw, self.number) = (draw, 0);
        self.model.restore(&self.start.tensors)
    }

    fn learn(&mut self, shots: &[usize]) -> Result<()> {
        self.number += 1;
        self.model.restore(&self.start.tensors)?;
        self.session.admit(self.model, shots);
        let (seed, number) = (self.protocol.session_seed(self.draw, self.number), self.number);
        let progress = &mut *self.progress;
        let mut on_epoch = || progress.advance(1, &format!("session {number}"));
        self.session.train(self.model, self.trained, seed, &mut on_epoch)
    }

    fn scores(&self, rows: &Tensor) -> Tensor {
        let features = match self.trained {
            TrainedParts::Both(_) if self.number > 0 => {
                let measured = &self.protocol.data.split.measured;
                let rows = Vec::<i64>::try_from(rows).expect("a row of i64");
                let indices: Vec<usize> = rows.into_iter().map(|row| measured[row as usize]).collect();
                features(self.model, self.protocol.measured(), &indices)
            }
            _ => self.start.features.index_select(0, &rows.to_device(self.model.device())),
        };
        self.model.head.project(&features).matmul(&self.session.targets.assigned().transpose(0, 1))
    }
}

/// Features of clean images by the model's own backbone, `[indices, features]`.
fn features(model: &Model, images: &Images, indices: &[usize]) -> Tensor {
    let parts = indices.chunks(images.forward_batch(BATCH));
    let parts = parts.map(|indices| model.features(images, indices, |images| images));
    Tensor::cat(&parts.collect::<Vec<_>>(), 0)
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    #[test]
    fn settings_that_train_nothing_are_refused_with_those_that_do() {
        let text = include_str!("../../recipes/cifar100-edge.toml");
        let mut recipe: Recipe = toml::from_str(text).unwrap();
        recipe.backbone.width = 4;
        let model = Model::new(&recipe, [3, 16, 16], Device::Cpu);
        for preset in ["published", "paper-text", "edge"] {
            assert!(check(&model, &MethodConfig::preset(preset).unwrap(), &[0.1]).is_ok(), "{preset}");
        }
        let refused = |learn: &MethodConfig, share| check(&model, learn, &[share]).unwrap_err().to_string();
        let said = refused(&MethodConfig::closed_form(), 0.1);
        assert!(said.contains("epochs = 0") && said.contains("preset = \"edge\""), "{said}");
        let mut quoted = said.split('"').skip(1).step_by(2);
        assert!(quoted.all(|name| MethodConfig::PRESETS.contains(&name)), "a preset that there is not: {said}");
        assert!(refused(&MethodConfig::edge(), -1.0).contains("--backbone-rate is -1"));
    }
}

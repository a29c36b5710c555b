//! Phase 2: base alignment. Every base class gets a pseudo-target, and the head g is trained towards them; f is frozen
//! unless the recipe says otherwise. The recipe calls it `[align]`; phase 3 is [`orco_core::align`].

mod cache;
mod early_stopping;
mod state;

use anyhow::{Result, bail};
use orco_core::random::Random;
use orco_core::schedule::Schedule;
use orco_runtime::manifest::hexadecimal;
use orco_state::target::assign_by_cosine;
use serde_json::{Map, json};
use tch::{Kind, Tensor, no_grad};

pub use self::cache::SharedFeatures;
use self::cache::{FeatureCache, blank};
use self::early_stopping::EarlyStopping;
use self::state::{AlignState, AlignTask, UnfinishedAlign, load_finished};
use crate::config::{BaseAlignConfig, BaseAlignSchedule, BaseAssignment, PretrainConfig, Recipe, TargetConfig};
use crate::data::augment::random_view;
use crate::model::Model;
use crate::model::backbone::{ForwardMode, unit};
use crate::platform::device::values;
use crate::platform::distributed::RankGroup;
use crate::platform::interrupt::{self, Activity};
use crate::run::{ALIGN_CHECKPOINT, Run};
use crate::train::loss::unit_class_means;
use crate::train::objective::{Objective, ObjectiveConfig, Targets, pseudo_targets};
use crate::train::require_full_batch;
use crate::train::seed::{PHASE_2, seed_torch};
use crate::train::training_loop::{BaseSession, EpochReport, EpochTime, Position, TrainingLoop, TrainingPhase};

/// The tables of a recipe that phase 2 goes by.
#[derive(Clone, Copy, Debug)]
pub struct AlignTables<'a> {
    /// The pseudo-targets.
    pub targets: &'a TargetConfig,
    /// Phase 2.
    pub align: &'a BaseAlignConfig,
    /// Phase 1, whose views and precision a backbone that is trained further keeps.
    pub pretrain: &'a PretrainConfig,
}

impl<'a> From<&'a Recipe> for AlignTables<'a> {
    fn from(recipe: &'a Recipe) -> Self {
        Self { targets: &recipe.targets, align: &recipe.align, pretrain: &recipe.pretrain }
    }
}

/// Generates the targets, assigns the base classes, trains the head, saves the checkpoint. A run that finished this
/// phase with the same settings loads it instead; one that was stopped in it goes on ([`crate::train::training_loop`]
/// says when a checkpoint is saved).
///
/// torch's generator is seeded once, before the cached views are drawn. A run that goes on draws everything before once
/// more, so that it ends in the same numbers as one that was never stopped.
///
/// # Errors
/// If the loss stops being finite, a checkpoint cannot be read or written, or a stop was asked for.
pub fn align(model: &mut Model, tables: AlignTables<'_>, base: &BaseSession<'_>) -> Result<Targets> {
    align_sharing(model, tables, base, &mut SharedFeatures::default())
}

/// As [`align`], with features that other alignments of the same backbone share; it ends in the same numbers.
///
/// # Errors
/// As for [`align`].
pub fn align_sharing(
    model: &mut Model,
    tables: AlignTables<'_>,
    base: &BaseSession<'_>,
    features: &mut SharedFeatures,
) -> Result<Targets> {
    let settings = settings(model, tables)?;
    let settled = tables.align.for_images_on(base.split.base.len(), base.run.group().size());
    let tables = AlignTables { align: &settled, ..tables };
    let (config, run) = (tables.align, base.run);
    if let Some(targets) = load_finished(model, &settings, run)? {
        return Ok(targets);
    }
    let group = run.group();
    group.require_divisible("align.batch", config.batch)?;
    group.broadcast(model.tensors().iter().map(|(_, tensor)| tensor))?;
    let unfinished = UnfinishedAlign::read(run, &settings)?;
    let vectors = match &unfinished {
        None => pseudo_targets(tables.targets, model.head.dimension() as usize, base.seed)?,
        Some(unfinished) => Vec::try_from(unfinished.targets.vectors.view(-1))?,
    };
    seed_torch(base.seed, PHASE_2);
    let cache = &*features.get(model, &tables.pretrain.augment, config, base)?;
    if unfinished.is_none() && config.steps.is_some() {
        model.head.scale_to(&cache.clean);
    }
    let mut state = AlignState::new(model, config);
    let (assignment, at) = match &unfinished {
        None => (assign_base_classes(model, cache, &vectors, base, config)?, Position::default()),
        Some(unfinished) => (unfinished.targets.assignment.clone(), state.restore(&unfinished.tensors)?),
    };
    let targets = targets_of_first_rank(model, &vectors, &assignment, group)?;
    state.stopping = EarlyStopping::new(model, config, base, &targets)?;
    if let Some(unfinished) = &unfinished {
        state.restore_stopping(&unfinished.tensors);
    }
    let task = AlignTask { targets: &targets, settings: &settings };
    AlignPhase::new(model, tables, base, cache, task, state).run(at)?;
    Ok(targets)
}

/// The targets that the first rank chose, `vectors` `[count, dimension]` and the rows that `assignment` gives the base
/// classes, on the model's device: ranks may round differently, and so assign differently.
fn targets_of_first_rank(model: &Model, vectors: &[f32], assignment: &[i64], group: &RankGroup) -> Result<Targets> {
    let (vectors, assignment) = (Tensor::from_slice(vectors), Tensor::from_slice(assignment));
    group.broadcast([&vectors, &assignment])?;
    let vectors = vectors.view([-1, model.head.dimension()]).to_device(model.device());
    Ok(Targets { vectors, assignment: Vec::try_from(assignment)? })
}

/// What phase 2 depends on, as [`AlignTask::settings`] holds it. A backbone of the recipe's own is left out: its recipe
/// cannot change within a run.
fn settings(model: &Model, tables: AlignTables<'_>) -> Result<Tensor> {
    let (targets, align) = (tables.targets, tables.align);
    let text = match &model.onnx {
        None => serde_json::to_string_pretty(&(targets, align))?,
        Some(onnx) => serde_json::to_string_pretty(&(targets, align, hexadecimal(&onnx.digest)))?,
    };
    Ok(Tensor::from_slice(text.as_bytes()))
}

/// Gives each base class a target: by matching the projected class means to the targets, or at random. Returns the row
/// in `targets` of each base class's target.
fn assign_base_classes(
    model: &Model,
    cache: &FeatureCache,
    targets: &[f32],
    base: &BaseSession<'_>,
    config: &BaseAlignConfig,
) -> Result<Vec<i64>> {
    let classes = base.split.base_classes;
    let (means, present) =
        no_grad(|| unit_class_means(&model.head.forward(&cache.clean), &cache.labels, 0..classes as i64));
    let present = present.to_kind(Kind::Int64).sum(Kind::Int64).int64_value(&[]);
    if present != classes as i64 {
        bail!("only {present} of {classes} base classes have images");
    }
    let dimension = means.size()[1] as usize;
    let rows = match config.assignment {
        BaseAssignment::Matched => assign_by_cosine(&values(&means), targets, dimension),
        BaseAssignment::Random => {
            let mut rows: Vec<usize> = (0..targets.len() / dimension).collect();
            Random::new(base.seed, "base assignment").shuffle(&mut rows);
            rows.truncate(classes);
            rows
        }
    };
    Ok(rows.into_iter().map(|row| row as i64).collect())
}

/// Phase 2 as a [`TrainingPhase`].
struct AlignPhase<'a> {
    model: &'a Model,
    tables: AlignTables<'a>,
    base: &'a BaseSession<'a>,
    cache: &'a FeatureCache,
    task: AlignTask<'a>,
    objective: Objective,
    /// Numbers of the base images among the training images, i64 on the device.
    indices: Tensor,
    state: AlignState,
    /// Order of the base images in this epoch, i64 on the device.
    order: Option<Tensor>,
    /// Of head and backbone, in this epoch.
    learning_rates: [f64; 2],
}

impl<'a> AlignPhase<'a> {
    fn new(
        model: &'a Model,
        tables: AlignTables<'a>,
        base: &'a BaseSession<'a>,
        cache: &'a FeatureCache,
        task: AlignTask<'a>,
        state: AlignState,
    ) -> Self {
        let objective = Objective::of_base(task.targets, ObjectiveConfig::from(tables.align));
        let indices: Vec<i64> = base.split.base.iter().map(|&index| index as i64).collect();
        let indices = Tensor::from_slice(&indices).to_device(model.device());
        Self { model, tables, base, cache, task, objective, indices, state, order: None, learning_rates: [0.0; 2] }
    }

    /// Trains from `at` to the end.
    fn run(&mut self, at: Position) -> Result<()> {
        let (config, run, device) = (self.tables.align, self.base.run, self.model.device());
        require_full_batch("align.batch", config.batch, self.base.split.base.len())?;
        let steps = self.steps();
        // A finished checkpoint of other settings goes, with its metrics.
        run.remove(ALIGN_CHECKPOINT)?;
        run.rewind("align", at.epoch)?;
        self.replay_draws(at, steps)?;
        let (name, title, work) = ("align", "phase 2", Activity::Align);
        let epochs = config.epochs;
        TrainingLoop { run, name, title, work, device, steps, epochs, until: epochs, views: None }.run(self, at)
    }

    /// Steps of an epoch.
    fn steps(&self) -> usize {
        self.base.split.base.len() / self.tables.align.batch
    }

    /// An order of the base images.
    fn shuffled(&self) -> Tensor {
        Tensor::randperm(self.base.split.base.len() as i64, (Kind::Int64, self.model.device()))
    }

    /// Repeats the random draws of the steps before a checkpoint, so that a run that goes on ends in the same numbers.
    fn replay_draws(&mut self, at: Position, steps: usize) -> Result<()> {
        let (config, device) = (self.tables.align, self.model.device());
        let batch = config.batch as i64;
        let group = self.base.run.group();
        let blank = blank(group.own_rows(config.batch).len(), device);
        let step = || {
            if config.train_backbone {
                group.draw_separately(|| (0..2).for_each(|_| drop(random_view(&blank, &self.tables.pretrain.augment))));
            } else {
                let _ = self.cache.choose(batch, device);
            }
            self.objective.replay_draws(batch);
        };
        for _ in 0..at.epoch {
            interrupt::check()?;
            let _ = self.shuffled();
            (0..steps).for_each(|_| step());
            // A backbone that is trained gave features anew at the end of each epoch: for the accuracy, and to judge
            // it.
            if config.train_backbone {
                let passes = 1 + usize::from(self.state.stopping.is_some());
                (0..passes).for_each(|_| group.draw_separately(|| ()));
            }
        }
        let order = (at.step > 0).then(|| self.shuffled());
        (0..at.step).for_each(|_| step());
        self.order = order;
        Ok(())
    }

    /// Features of both views of the own rows b of a batch, `[2 b, features]`: cached ones, or new ones that gradients
    /// flow through. The backbone's norms keep their statistics (inference mode).
    fn features(&self, batch: &Tensor) -> Tensor {
        let group = self.base.run.group();
        let rows_of_rank = group.own_rows(batch.size()[0] as usize);
        if !self.tables.align.train_backbone {
            return Tensor::cat(&self.cache.two_views(batch, rows_of_rank), 0);
        }
        let own = batch.narrow(0, rows_of_rank.start as i64, rows_of_rank.len() as i64);
        let images = self.base.images.batch_at(&self.indices.index_select(0, &own), batch.device());
        let config = self.tables.pretrain;
        let views =
            group.draw_separately(|| [random_view(&images, &config.augment), random_view(&images, &config.augment)]);
        let views = Tensor::cat(&views, 0);
        let input = self.model.channels.normalise(&views);
        self.model.backbone.forward(&input, config.precision, ForwardMode::Inference)
    }

    /// Share of the base images, unaugmented, whose nearest target is their class's.
    fn accuracy(&self) -> Result<f64> {
        let clean = match self.tables.align.train_backbone {
            true => cache::clean_features(self.model, self.base, &self.base.split.base)?,
            false => self.cache.clean.shallow_clone(),
        };
        let right = no_grad(|| self.objective.nearest(&self.model.head.project(&clean)).eq_tensor(&self.cache.labels));
        Ok(right.to_kind(Kind::Float).mean(Kind::Float).double_value(&[]))
    }
}

impl TrainingPhase for AlignPhase<'_> {
    fn begin(&mut self, at: Position) -> Result<()> {
        // Within an epoch, `replay_draws` has drawn its order.
        if at.step == 0 {
            self.order = Some(self.shuffled());
        }
        let config = self.tables.align;
        let peaks = [config.learning_rate, config.backbone_learning_rate.unwrap_or(config.learning_rate)];
        self.learning_rates = peaks.map(|peak| learning_rate(config, peak, at.epoch));
        Ok(())
    }

    fn step(&mut self, at: Position) -> Result<()> {
        let batch = self.tables.align.batch as i64;
        let order = self.order.as_ref().expect("an epoch begins with an order");
        let batch = order.narrow(0, at.step as i64 * batch, batch);
        let labels = self.cache.labels.index_select(0, &batch);
        let group = self.base.run.group();
        let z = group.gather_views(&unit(&self.model.head.forward(&self.features(&batch))), 2)?;
        let loss = self.objective.loss(&z, &labels);
        self.state.descend(&loss, self.learning_rates, group)
    }

    fn loss(&self, at: Position) -> Result<f64> {
        self.state.loss(at)
    }

    fn end(&mut self, at: Position, _: EpochTime) -> Result<EpochReport> {
        let (loss, percent) = (self.state.loss(at)?, 100.0 * self.accuracy()?);
        self.state.begin_epoch();
        let mut metrics = Map::from_iter([("accuracy".to_owned(), json!(percent))]);
        let mut summary = format!("accuracy on base training images {percent:.1} %");
        if let Some(aside) = self.state.validation_loss(self.model, self.base, at.epoch + 1)? {
            metrics.insert("loss_set_aside".to_owned(), json!(aside));
            summary += &format!(", loss on images set aside {aside:.3}");
        }
        Ok(EpochReport { loss, metrics, summary })
    }

    fn should_stop_early(&self, epochs: usize) -> bool {
        self.state.stopping.as_ref().is_some_and(|stopping| stopping.should_stop(epochs))
    }

    fn save(&mut self, at: Position, run: &Run) -> Result<()> {
        let steps = at.global_step(self.steps());
        if at.epoch < self.tables.align.epochs && !self.should_stop_early(at.epoch) {
            return self.state.save(at, steps, self.task, run);
        }
        self.state.save_finished(at, self.steps(), self.model, self.task, run)
    }
}

/// The learning rate of an epoch, whose highest is `peak`.
fn learning_rate(config: &BaseAlignConfig, peak: f64, epoch: usize) -> f64 {
    /// Where the published program's warm-up begins.
    const START: f64 = 3e-5;
    let warmup = config.warmup_epochs;
    if config.rate == BaseAlignSchedule::Constant && epoch >= warmup {
        return peak;
    }
    Schedule { steps: config.epochs, warmup, start: START.min(peak), peak, end: 0.0 }.rate(epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learning_rate_warms_up_and_falls_only_where_the_recipe_says_so() {
        let recipe: Recipe = toml::from_str(include_str!("../../recipes/cifar100-edge.toml")).unwrap();
        let rates = |rate, warmup_epochs| -> Vec<f64> {
            let config = BaseAlignConfig { rate, warmup_epochs, epochs: 100, ..recipe.align.clone() };
            (0..100).map(|epoch| learning_rate(&config, 0.025, epoch)).collect()
        };
        assert_eq!(rates(BaseAlignSchedule::Constant, 0), vec![0.025; 100]);
        let warmed = rates(BaseAlignSchedule::Constant, 3);
        assert!(warmed[0] < warmed[1] && warmed[1] < warmed[2] && warmed[3..].iter().all(|rate| *rate == 0.025));
        let cosine = rates(BaseAlignSchedule::Cosine, 3);
        assert!(cosine[..3] == warmed[..3] && cosine[3] == 0.025, "{:?}", &cosine[..4]);
        assert!(cosine[3..].windows(2).all(|pair| pair[1] < pair[0]) && cosine[99] < 1e-4);
    }
}

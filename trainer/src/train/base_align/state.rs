//! The state of phase 2 and its checkpoints: of a phase in progress, and of a finished one.

use std::collections::HashMap;
use std::iter;

use anyhow::{Result, bail};
use tch::{Kind, Tensor, no_grad};

use super::early_stopping::EarlyStopping;
use crate::config::BaseAlignConfig;
use crate::model::Model;
use crate::model::store::Parameter;
use crate::platform::distributed::RankGroup;
use crate::run::{ALIGN_CHECKPOINT, Run};
use crate::train::objective::Targets;
use crate::train::optimiser::{Sgd, SgdConfig, all_finite, gradients, step_groups};
use crate::train::training_loop::{BaseSession, Position};

/// Name of the checkpoint of a phase 2 in progress. Beside a finished one it stays as the one before it.
const UNFINISHED: &str = "align-unfinished.safetensors";

/// The targets of a checkpoint, if it has them.
fn targets(tensors: &HashMap<String, Tensor>) -> Option<Targets> {
    let (vectors, assignment) = (tensors.get("targets")?, tensors.get("assignment")?);
    Some(Targets { vectors: vectors.shallow_clone(), assignment: Vec::try_from(assignment).ok()? })
}

/// A checkpoint that was made with these settings, if there is one.
fn read(name: &str, settings: &Tensor, run: &Run) -> Result<Option<HashMap<String, Tensor>>> {
    // Phase 2 can be made again from what phase 1 left.
    let tensors = run.load_whole(name)?;
    Ok(tensors.filter(|tensors| tensors.get("settings").is_some_and(|made| made.equal(settings))))
}

/// Sets the model from a phase 2 that was finished with the same settings, if one was, and returns its targets.
///
/// # Errors
/// If its checkpoint cannot be read, or is of another model.
pub(super) fn load_finished(model: &mut Model, settings: &Tensor, run: &Run) -> Result<Option<Targets>> {
    let Some(tensors) = read(ALIGN_CHECKPOINT, settings, run)? else { return Ok(None) };
    log::info!("phase 2 was finished before; its checkpoint is used");
    model.restore(&tensors)?;
    let Some(targets) = targets(&tensors) else {
        bail!("the checkpoint {} lacks the targets; remove it", run.path(ALIGN_CHECKPOINT).display());
    };
    Ok(Some(targets))
}

/// The checkpoint of a phase 2 that was stopped.
pub(super) struct UnfinishedAlign {
    pub targets: Targets,
    /// All of its checkpoint.
    pub tensors: HashMap<String, Tensor>,
}

impl UnfinishedAlign {
    /// The checkpoint of a phase 2 with the same settings that was stopped, if there is one. Warns where checkpoints of
    /// other settings are there, which will be replaced.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(run: &Run, settings: &Tensor) -> Result<Option<Self>> {
        let tensors = read(UNFINISHED, settings, run)?;
        let unfinished = tensors.and_then(|tensors| Some(Self { targets: targets(&tensors)?, tensors }));
        if unfinished.is_none() && (run.has(ALIGN_CHECKPOINT) || run.has(UNFINISHED)) {
            log::warn!(
                "phase 2 of this run was made with other [targets] or [align], or on another ONNX backbone; it is made \
                 anew and replaces what was there"
            );
        }
        Ok(unfinished)
    }
}

/// What phase 2 aligns to, and how: both checkpoints hold it.
#[derive(Clone, Copy)]
pub(super) struct AlignTask<'a> {
    /// The targets, and which of them each base class has.
    pub targets: &'a Targets,
    /// The recipe's settings and the digest of an imported backbone as u8 `[n]`, the bytes of JSON.
    pub settings: &'a Tensor,
}

impl AlignTask<'_> {
    /// Its part of a checkpoint.
    fn tensors(&self) -> [(String, Tensor); 3] {
        let assignment = Tensor::from_slice(&self.targets.assignment);
        let vectors = self.targets.vectors.shallow_clone();
        let named = [("targets", vectors), ("assignment", assignment), ("settings", self.settings.shallow_clone())];
        named.map(|(name, tensor)| (name.to_owned(), tensor))
    }
}

/// The state of phase 2: the trained tensors with their optimisers, the loss of the epoch, early stopping.
pub(super) struct AlignState {
    head: Sgd,
    /// Where the recipe trains the backbone.
    backbone: Option<Sgd>,
    /// Sum of the loss over the steps of this epoch, f64, on the device.
    sum: Tensor,
    /// Says when it is over, where the recipe does not.
    pub stopping: Option<EarlyStopping>,
}

impl AlignState {
    /// The beginning.
    pub fn new(model: &Model, config: &BaseAlignConfig) -> Self {
        let settings = SgdConfig {
            momentum: config.momentum,
            dampening: config.dampening,
            weight_decay: config.weight_decay,
            nesterov: false,
        };
        // The program's weight decay covers biases too; of the backbone, the norms go without as in phase 1.
        let mut parameters = model.parameters("head");
        parameters.iter_mut().for_each(|parameter| parameter.decays = true);
        let backbone = config.train_backbone.then(|| Sgd::new(model.parameters("backbone"), settings));
        let sum = Tensor::zeros([], (Kind::Double, model.device()));
        Self { head: Sgd::new(parameters, settings), backbone, sum, stopping: None }
    }

    /// Sets the trained tensors from the checkpoint of a stopped phase; returns where that stands.
    ///
    /// # Errors
    /// If a tensor is missing or has another shape.
    pub fn restore(&mut self, tensors: &HashMap<String, Tensor>) -> Result<Position> {
        for Parameter { name, tensor, .. } in self.parameters() {
            match tensors.get(name) {
                Some(saved) if saved.size() == tensor.size() => no_grad(|| tensor.shallow_clone().copy_(saved)),
                _ => bail!("the checkpoint {UNFINISHED} does not fit in {name}; remove it to start phase 2 again"),
            }
        }
        self.head.restore(tensors);
        self.backbone.iter_mut().for_each(|backbone| backbone.restore(tensors));
        if let Some(sum) = tensors.get("sum") {
            self.sum = sum.to_device(self.sum.device()).copy();
        }
        let at = Position::of_checkpoint(tensors);
        log::info!("phase 2 continues after {at}");
        Ok(at)
    }

    /// Writes the checkpoint of a phase in progress, after `steps` steps.
    ///
    /// # Errors
    /// If a weight is not finite, or the file cannot be written; the checkpoint before is then still there.
    pub fn save(&self, at: Position, steps: u64, task: AlignTask<'_>, run: &Run) -> Result<()> {
        let trained = self.parameters().map(|parameter| (parameter.name.clone(), parameter.tensor.shallow_clone()));
        let mut tensors: Vec<(String, Tensor)> = trained.collect();
        tensors.extend(self.head.state());
        tensors.extend(self.backbone.iter().flat_map(Sgd::state));
        demand_finite(at, &tensors)?;
        tensors.extend(task.tensors());
        tensors.push(("epochs".into(), Tensor::from(at.epoch as i64)));
        tensors.push(("steps".into(), Tensor::from(at.step as i64)));
        tensors.push(("sum".into(), self.sum.shallow_clone()));
        tensors.extend(self.stopping.iter().flat_map(EarlyStopping::state));
        run.save(UNFINISHED, &tensors, steps)
    }

    /// Judges the weights after `epoch` epochs by the images set aside, if there are any, and returns their loss.
    ///
    /// # Errors
    /// If an engine outside this program fails.
    pub fn validation_loss(&mut self, model: &Model, base: &BaseSession<'_>, epoch: usize) -> Result<Option<f64>> {
        let Some(mut stopping) = self.stopping.take() else { return Ok(None) };
        let loss = stopping.validation_loss(model, base, epoch, self.parameters());
        self.stopping = Some(stopping);
        loss.map(Some)
    }

    /// Goes on with what a stopped phase knew of the best weights.
    pub fn restore_stopping(&mut self, tensors: &HashMap<String, Tensor>) {
        if let Some(mut stopping) = self.stopping.take() {
            stopping.restore(tensors, self.parameters());
            self.stopping = Some(stopping);
        }
    }

    /// Writes the checkpoint of a finished phase. Where images set aside say which weights are best, it has these, and
    /// counts the steps that led to them.
    ///
    /// # Errors
    /// As for [`AlignState::save`].
    pub fn save_finished(
        &self,
        at: Position,
        steps_per_epoch: usize,
        model: &Model,
        task: AlignTask<'_>,
        run: &Run,
    ) -> Result<()> {
        let best = self.stopping.as_ref().and_then(|stopping| stopping.restore_best(self.parameters()));
        if let Some(epoch) = best {
            log::info!(
                "phase 2 ends after {} epochs; the head after {epoch} was the best on images set aside: no later one \
                 lowered their loss by 1 %",
                at.epoch
            );
        }
        let mut tensors = model.tensors();
        demand_finite(at, &tensors)?;
        tensors.extend(task.tensors());
        let shipped = Position { epoch: best.unwrap_or(at.epoch), step: 0 };
        run.save(ALIGN_CHECKPOINT, &tensors, shipped.global_step(steps_per_epoch))?;
        // Two generations are enough; should a third one stay, the finished one still counts.
        let _ = run.remove_previous(UNFINISHED);
        Ok(())
    }

    /// Takes a step along the gradients of a loss, at the learning rates of the head and of the backbone.
    ///
    /// # Errors
    /// If another rank is gone.
    pub fn descend(&mut self, loss: &Tensor, learning_rates: [f64; 2], group: &RankGroup) -> Result<()> {
        let gradients = gradients(loss, self.parameters());
        let loss = loss.detach().to_kind(Kind::Double);
        group.all_reduce_mean(gradients.iter().filter(|gradient| gradient.defined()))?;
        group.all_reduce_mean([&loss])?;
        step_groups(iter::once(&mut self.head).chain(&mut self.backbone).zip(learning_rates), &gradients);
        let _ = self.sum.g_add_(&loss);
        Ok(())
    }

    /// Mean loss of this epoch's steps; waits for the device.
    ///
    /// # Errors
    /// If it is not finite.
    pub fn loss(&self, at: Position) -> Result<f64> {
        let sum = self.sum.double_value(&[]);
        if !sum.is_finite() {
            bail!("the loss became {sum} in epoch {}; lower align.learning_rate", at.epoch + 1);
        }
        Ok(sum / at.step as f64)
    }

    /// Forgets the loss of the epoch before.
    pub fn begin_epoch(&mut self) {
        self.sum = self.sum.zeros_like();
    }

    fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.head.parameters().iter().chain(self.backbone.iter().flat_map(Sgd::parameters))
    }
}

/// Refuses weights that are not finite.
fn demand_finite(at: Position, tensors: &[(String, Tensor)]) -> Result<()> {
    if !all_finite(tensors.iter().map(|(_, tensor)| tensor)) {
        bail!("a weight became infinite after {} epochs; lower align.learning_rate", at.epoch);
    }
    Ok(())
}

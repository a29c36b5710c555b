//! Where phase 2 stands: everything that the checkpoint of one in progress holds.

use std::collections::HashMap;

use anyhow::{Result, bail};
use tch::{Kind, Tensor, no_grad};

use super::Assignment;
use crate::config::AlignConfig;
use crate::model::Model;
use crate::optimiser::{Parameter, Sgd, SgdConfig, finite, gradients};
use crate::run::Run;

/// Name of the checkpoint of a phase 2 in progress; the finished one takes its place.
pub(super) const UNFINISHED: &str = "align-unfinished.safetensors";

/// Optimisers, and the place in the epochs.
pub(super) struct State {
    head: Sgd,
    /// Where the recipe trains the backbone.
    backbone: Option<Sgd>,
    /// Epochs that are done.
    pub epoch: usize,
    /// Steps of the next epoch that are done.
    pub step: i64,
    /// Sum of the loss over these steps, f64, on the device.
    sum: Tensor,
}

impl State {
    /// The beginning.
    pub fn new(model: &Model, config: &AlignConfig) -> Self {
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
        Self { head: Sgd::new(parameters, settings), backbone, epoch: 0, step: 0, sum }
    }

    /// The checkpoint of a phase 2 with the same settings that was stopped, if there is one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(run: &Run, settings: &Tensor) -> Result<Option<HashMap<String, Tensor>>> {
        let tensors = run.load(UNFINISHED)?;
        Ok(tensors.filter(|tensors| tensors.get("settings").is_some_and(|made| made.equal(settings))))
    }

    /// Goes to where a checkpoint stopped, and sets the trained tensors from it.
    ///
    /// # Errors
    /// If a tensor is missing or has another shape.
    pub fn restore(&mut self, tensors: &HashMap<String, Tensor>) -> Result<()> {
        for Parameter { name, tensor, .. } in self.parameters() {
            match tensors.get(name) {
                Some(saved) if saved.size() == tensor.size() => no_grad(|| tensor.shallow_clone().copy_(saved)),
                _ => bail!("the checkpoint {UNFINISHED} does not fit in {name}; remove it to start phase 2 again"),
            }
        }
        self.head.restore(tensors);
        self.backbone.iter_mut().for_each(|backbone| backbone.restore(tensors));
        let count = |name: &str| tensors.get(name).map_or(0, |count| count.int64_value(&[]));
        (self.epoch, self.step) = (count("epochs") as usize, count("steps"));
        if let Some(sum) = tensors.get("sum") {
            self.sum = sum.to_device(self.sum.device()).copy();
        }
        match self.step {
            0 => log::info!("phase 2 continues after epoch {}", self.epoch),
            step => log::info!("phase 2 continues after step {step} of epoch {}", self.epoch + 1),
        }
        Ok(())
    }

    /// Writes the checkpoint.
    ///
    /// # Errors
    /// If a weight is no number, or the file cannot be written; the checkpoint before is then still there.
    pub fn save(&self, assignment: &Assignment, settings: &Tensor, run: &Run) -> Result<()> {
        let trained = self.parameters().map(|parameter| (parameter.name.clone(), parameter.tensor.shallow_clone()));
        let mut tensors: Vec<(String, Tensor)> = trained.collect();
        tensors.extend(self.head.state());
        tensors.extend(self.backbone.iter().flat_map(Sgd::state));
        self.demand_finite(tensors.iter().map(|(_, tensor)| tensor))?;
        tensors.push(("targets".into(), assignment.targets.shallow_clone()));
        tensors.push(("assignment".into(), Tensor::from_slice(&assignment.rows)));
        tensors.push(("settings".into(), settings.shallow_clone()));
        tensors.push(("epochs".into(), Tensor::from(self.epoch as i64)));
        tensors.push(("steps".into(), Tensor::from(self.step)));
        tensors.push(("sum".into(), self.sum.shallow_clone()));
        run.save(UNFINISHED, &tensors)
    }

    /// Refuses weights that are no numbers.
    ///
    /// # Errors
    /// If there is one.
    pub fn demand_finite<'a>(&self, tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<()> {
        if !finite(tensors) {
            bail!("a weight became infinite after {} epochs; lower align.learning_rate", self.epoch);
        }
        Ok(())
    }

    /// Takes a step along the gradients of a loss, at the learning rates of the head and of the backbone.
    pub fn descend(&mut self, loss: &Tensor, [of_head, of_backbone]: [f64; 2]) {
        let gradients = gradients(loss, self.parameters());
        let (head, backbone) = gradients.split_at(self.head.parameters().len());
        self.head.step(head, of_head);
        self.backbone.iter_mut().for_each(|sgd| sgd.step(backbone, of_backbone));
        let _ = self.sum.g_add_(&loss.detach().to_kind(Kind::Double));
        self.step += 1;
    }

    /// Mean loss of this epoch's steps; waits for the device.
    ///
    /// # Errors
    /// If it is no number.
    pub fn loss(&self) -> Result<f64> {
        let sum = self.sum.double_value(&[]);
        if !sum.is_finite() {
            bail!("the loss became {sum} in epoch {}; lower align.learning_rate", self.epoch + 1);
        }
        Ok(sum / self.step as f64)
    }

    /// Goes on to the next epoch.
    pub fn close_epoch(&mut self) {
        (self.epoch, self.step, self.sum) = (self.epoch + 1, 0, self.sum.zeros_like());
    }

    fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.head.parameters().iter().chain(self.backbone.iter().flat_map(Sgd::parameters))
    }
}

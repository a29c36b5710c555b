//! Training by episodes: the record that CEC, LIMIT and C-FSCIL share, and the loop of CEC and LIMIT, which train
//! attention and the backbone with it. Norms of the backbone keep their statistics in that loop, as in both programs.

use anyhow::{Result, bail};
use orco_trainer::config::{AugmentConfig, Precision, PretrainConfig};
use orco_trainer::data::augment::random_view;
use orco_trainer::data::dataset::DataSet;
use orco_trainer::model::backbone::ForwardMode;
use orco_trainer::model::store::Parameter;
use orco_trainer::model::{Model, store};
use orco_trainer::platform::interrupt::Activity;
use orco_trainer::run::Run;
use orco_trainer::train::optimiser::{Sgd, all_finite, gradients, step_groups};
use orco_trainer::train::pretrain::accuracy;
use orco_trainer::train::seed::seed_torch;
use orco_trainer::train::training_loop::{BaseSession, EpochReport, EpochTime, Position, TrainingLoop, TrainingPhase};
use serde_json::{Map, json};
use tch::{Device, Kind, Tensor};

use super::attention::Attention;
use super::embedding::{class_means, features};
use super::nesterov_sgd;

/// The base images that episodes are drawn from.
#[derive(Clone, Copy)]
pub(super) struct EpisodeImages<'a> {
    pub model: &'a Model,
    pub data: &'a DataSet,
    pub augment: &'a AugmentConfig,
}

impl EpisodeImages<'_> {
    /// Class of each image, i64 `[n]`.
    pub fn labels(&self) -> Tensor {
        self.data.train.select_labels(&self.data.split.base)
    }

    pub fn base_classes(&self) -> i64 {
        self.data.split.base_classes as i64
    }

    /// A random view of each of some images, given as rows: f32 `[rows, 3, h, w]`, in 0..1.
    pub fn views(&self, rows: &[i64]) -> Tensor {
        let images: Vec<usize> = rows.iter().map(|row| self.data.split.base[*row as usize]).collect();
        random_view(&self.data.train.batch(&images, self.model.device()), self.augment)
    }

    /// Means of the features of each class, by the backbone as it is, f32 `[base, d]` on the processor.
    ///
    /// # Errors
    /// If a stop was asked for.
    pub fn means(&self) -> Result<Tensor> {
        let features = features(self.model, &self.data.train, &self.data.split.base)?.unsqueeze(1);
        Ok(class_means(&features, &self.labels(), self.base_classes()).squeeze_dim(1))
    }
}

/// Shots that prototypes are made of, and images that are classified by these.
pub(super) struct Episode {
    /// Random views, f32 `[m + n, 3, h, w]` in 0..1: of the shots, then of the images.
    pub views: Tensor,
    /// Class that each shot stands for, i64 `[m]`.
    pub shot_classes: Tensor,
    /// For each image, the row of its class's prototype, i64 `[n]`.
    pub labels: Tensor,
}

/// How long a training by episodes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EpisodeSchedule {
    pub epochs: usize,
    /// Episodes in an epoch; each is one step.
    pub episodes: usize,
}

/// Where episodes come from, and how they are trained on.
pub(super) trait EpisodeSource {
    /// Name of the phase and of its checkpoint.
    const NAME: &'static str;
    /// The rival's [revision](super::RivalSpec). A checkpoint that another one wrote is ignored: training begins anew,
    /// and overwrites it.
    fn revision(&self) -> u32;
    /// Number of epochs and episodes.
    fn schedule(&self) -> EpisodeSchedule;
    /// Learning rates of an epoch: of the backbone, and of all else that is trained.
    fn rates(&self, epoch: usize) -> [f64; 2];
    /// Draws an episode.
    fn draw(&self) -> Episode;
    /// Prototypes f32 `[c, d]`, where the shots of these classes, i64 `[m]`, have these features, f32 `[m, d]`.
    fn prototypes(&self, classes: &Tensor, features: &Tensor) -> Tensor;
    /// Makes ready for another epoch.
    ///
    /// # Errors
    /// If a stop was asked for.
    fn begin_epoch(&self) -> Result<()> {
        Ok(())
    }
    /// What is trained beside attention and backbone.
    fn tensors(&self) -> Vec<(String, Tensor)> {
        Vec::new()
    }
}

/// Trains attention and backbone as far as they are not trained yet, one episode for each step. What another revision
/// trained is trained anew.
///
/// # Errors
/// If the loss stops being finite, a checkpoint cannot be read or written, or a stop was asked for.
pub(super) fn train<T: EpisodeSource>(
    model: &Model,
    attention: &Attention,
    source: &T,
    config: &PretrainConfig,
    base: &BaseSession<'_>,
) -> Result<()> {
    let precision = config.precision.unscaled();
    let own = store::tensors(&attention.store).into_iter().chain(source.tensors());
    let optimisers = [nesterov_sgd(model.parameters(BACKBONE)), nesterov_sgd(store::parameters(own))];
    let record = EpisodeRecord::new(T::NAME, source.revision(), source.schedule());
    let mut phase = EpisodePhase { model, attention, source, precision, base, optimisers, record };
    let trained = phase.trained();
    let at = phase.record.load(base.run, trained, &mut phase.optimisers)?;
    let training_loop = phase.record.training_loop(base.run, attention.store.device());
    training_loop.run(&mut phase, at)
}

/// How names of the backbone's tensors begin.
const BACKBONE: &str = "backbone.";
/// Name of the number in a checkpoint that says which revision trained it.
const REVISION: &str = "revision";

/// The checkpoint of a training by episodes, and its means over the steps of an epoch.
pub(super) struct EpisodeRecord {
    /// Name of the phase and of its checkpoint.
    name: &'static str,
    /// The rival's: a checkpoint that another one wrote is ignored.
    revision: u32,
    schedule: EpisodeSchedule,
    /// Of losses and accuracies over the steps of this epoch.
    sums: [f64; 2],
}

impl EpisodeRecord {
    pub fn new(name: &'static str, revision: u32, schedule: EpisodeSchedule) -> Self {
        Self { name, revision, schedule, sums: [0.0; 2] }
    }

    fn file(&self) -> String {
        format!("{}.safetensors", self.name)
    }

    /// How the phase is trained.
    pub fn training_loop<'a>(&self, run: &'a Run, device: Device) -> TrainingLoop<'a> {
        let EpisodeSchedule { epochs, episodes: steps } = self.schedule;
        TrainingLoop {
            run,
            name: self.name,
            title: "episodes",
            work: Activity::Episodes,
            device,
            steps,
            epochs,
            until: epochs,
            views: None,
        }
    }

    /// Sets everything from the checkpoint, if there is one of this revision, and takes back the metrics after it.
    ///
    /// # Errors
    /// If the checkpoint cannot be read or lacks a tensor, or the metrics cannot be written.
    pub fn load(&mut self, run: &Run, trained: Vec<(String, Tensor)>, optimisers: &mut [Sgd]) -> Result<Position> {
        let mut at = Position::default();
        if let Some(tensors) = run.load(&self.file())? {
            let number = |name: &str| tensors.get(name).map_or(0.0, |number| number.double_value(&[]));
            // Checkpoints of revision 1 may hold none.
            if number(REVISION).max(1.0) as u32 == self.revision {
                store::restore(trained, &tensors)?;
                optimisers.iter_mut().for_each(|optimiser| optimiser.restore(&tensors));
                self.sums = [number("loss"), number("accuracy")];
                at = Position { epoch: number("epochs") as usize, step: number("steps") as usize };
            } else {
                log::warn!(
                    "the episodes of {} were trained by another revision of this program; they are trained anew",
                    self.name
                );
            }
        }
        run.rewind(self.name, at.epoch)?;
        Ok(at)
    }

    /// Counts a step: its loss, and how often the highest of `scores` is the label's.
    pub fn add(&mut self, loss: &Tensor, scores: &Tensor, labels: &Tensor) {
        self.sums[0] += loss.double_value(&[]);
        self.sums[1] += accuracy(&scores.detach(), labels).double_value(&[]);
    }

    /// Mean loss over the steps of this epoch.
    ///
    /// # Errors
    /// If it is not finite.
    pub fn loss(&self, at: Position) -> Result<f64> {
        let loss = self.sums[0] / at.step as f64;
        if !loss.is_finite() {
            bail!("the loss of the episodes became {loss} in epoch {}", at.epoch + 1);
        }
        Ok(loss)
    }

    /// Ends an epoch.
    ///
    /// # Errors
    /// If its loss is not finite.
    pub fn end(&mut self, at: Position) -> Result<EpochReport> {
        let (loss, percent) = (self.loss(at)?, 100.0 * self.sums[1] / at.step as f64);
        self.sums = [0.0; 2];
        let metrics = Map::from_iter([("accuracy".to_owned(), json!(percent))]);
        Ok(EpochReport { loss, metrics, summary: format!("accuracy {percent:.1} %") })
    }

    /// Writes the checkpoint.
    ///
    /// # Errors
    /// If a weight is not finite, or the file cannot be written.
    pub fn save(&self, at: Position, run: &Run, mut tensors: Vec<(String, Tensor)>, optimisers: &[Sgd]) -> Result<()> {
        tensors.extend(optimisers.iter().flat_map(Sgd::state));
        if !all_finite(tensors.iter().map(|(_, tensor)| tensor)) {
            bail!("a weight became infinite in epoch {} of the episodes", at.epoch + 1);
        }
        let numbers = [
            ("loss", self.sums[0]),
            ("accuracy", self.sums[1]),
            ("epochs", at.epoch as f64),
            ("steps", at.step as f64),
            (REVISION, f64::from(self.revision)),
        ];
        tensors.extend(numbers.map(|(name, number)| (name.to_owned(), Tensor::from(number).to_kind(Kind::Double))));
        run.save(&self.file(), &tensors, at.global_step(self.schedule.episodes))
    }
}

struct EpisodePhase<'a, T> {
    model: &'a Model,
    attention: &'a Attention,
    source: &'a T,
    precision: Precision,
    base: &'a BaseSession<'a>,
    /// Of the backbone, and of all else.
    optimisers: [Sgd; 2],
    record: EpisodeRecord,
}

impl<T: EpisodeSource> EpisodePhase<'_, T> {
    /// All that is trained, by name.
    fn trained(&self) -> Vec<(String, Tensor)> {
        let parameters = self.optimisers.iter().flat_map(Sgd::parameters);
        parameters.map(|Parameter { name, tensor, .. }| (name.clone(), tensor.shallow_clone())).collect()
    }
}

impl<T: EpisodeSource> TrainingPhase for EpisodePhase<'_, T> {
    fn begin(&mut self, at: Position) -> Result<()> {
        if at.step == 0 {
            self.source.begin_epoch()?;
        }
        seed_torch(self.base.seed, at.epoch as i64 + 1);
        (0..at.step).for_each(|_| drop(self.source.draw()));
        Ok(())
    }

    fn step(&mut self, at: Position) -> Result<()> {
        let Self { model, attention, source, precision, optimisers, record, .. } = self;
        let Episode { views, shot_classes, labels } = source.draw();
        let input = model.channels.normalise(&views);
        let features = model.backbone.forward(&input, *precision, ForwardMode::Inference);
        let shots = shot_classes.numel() as i64;
        let images = features.narrow(0, shots, labels.numel() as i64);
        let prototypes = source.prototypes(&shot_classes, &features.narrow(0, 0, shots));
        let logits = attention.logits(&images, &prototypes);
        let loss = logits.cross_entropy_for_logits(&labels);
        let gradients = gradients(&loss, optimisers.iter().flat_map(Sgd::parameters));
        step_groups(optimisers.iter_mut().zip(source.rates(at.epoch)), &gradients);
        record.add(&loss, &logits, &labels);
        Ok(())
    }

    fn loss(&self, at: Position) -> Result<f64> {
        self.record.loss(at)
    }

    fn end(&mut self, at: Position, _: EpochTime) -> Result<EpochReport> {
        self.record.end(at)
    }

    fn save(&mut self, at: Position, run: &Run) -> Result<()> {
        self.record.save(at, run, self.trained(), &self.optimisers)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use orco_trials::alone::alone;

    use super::*;
    use crate::rival::tests::{data, model, recipe, values};

    /// The same task in every step.
    struct OneTask {
        revision: u32,
        rates: [f64; 2],
        drawn: Cell<usize>,
    }

    impl EpisodeSource for OneTask {
        const NAME: &'static str = "one-task";

        fn revision(&self) -> u32 {
            self.revision
        }

        fn schedule(&self) -> EpisodeSchedule {
            EpisodeSchedule { epochs: 2, episodes: 3 }
        }

        fn rates(&self, _: usize) -> [f64; 2] {
            self.rates
        }

        fn draw(&self) -> Episode {
            self.drawn.set(self.drawn.get() + 1);
            let views = Tensor::arange(4 * 3 * 24 * 24, (Kind::Float, Device::Cpu)).sin().abs().view([4, 3, 24, 24]);
            let numbers = Tensor::from_slice(&[0i64, 1]);
            Episode { views, shot_classes: numbers.copy(), labels: numbers }
        }

        fn prototypes(&self, _: &Tensor, features: &Tensor) -> Tensor {
            features.shallow_clone()
        }
    }

    /// Trains a model and attention in a folder: steps that were made, and the weights of both after them.
    fn trained(folder: &std::path::Path, revision: u32, rates: [f64; 2]) -> (usize, [Vec<Vec<f32>>; 2]) {
        let recipe = recipe();
        let data = data(&recipe);
        let run = &Run::open(folder, &recipe).unwrap();
        let base = BaseSession { images: &data.train, split: &data.split, seed: recipe.seed, run };
        let task = OneTask { revision, rates, drawn: Cell::new(0) };
        let model = model(&recipe);
        tch::manual_seed(1);
        let attention = Attention::new(model.backbone.description.features(), Device::Cpu);
        train(&model, &attention, &task, &recipe.pretrain, &base).unwrap();
        let of = |named: Vec<(String, Tensor)>| named.iter().map(|(_, tensor)| values(tensor)).collect();
        let attention = of(store::tensors(&attention.store));
        assert_eq!(run.metrics(OneTask::NAME).len(), 2);
        (task.drawn.get(), [of(model.tensors()), attention])
    }

    #[test]
    fn what_another_revision_trained_is_trained_anew() {
        alone("rival::episodes::tests::what_another_revision_trained_is_trained_anew", || {
            let folder = tempfile::tempdir().unwrap();
            let trained = |revision| trained(folder.path(), revision, [0.01, 0.1]);
            let (steps, first) = trained(1);
            assert_eq!(steps, 6);
            assert_eq!(trained(1), (0, first.clone()), "the checkpoint is taken");
            assert_eq!(trained(2), (6, first.clone()), "it is of another revision");
            assert_eq!(trained(2), (0, first));
        });
    }

    #[test]
    fn backbone_and_attention_have_a_rate_each() {
        alone("rival::episodes::tests::backbone_and_attention_have_a_rate_each", || {
            let all = [[0.0, 0.0], [0.01, 0.0], [0.0, 0.1]].map(|rates| {
                let folder = tempfile::tempdir().unwrap();
                trained(folder.path(), 1, rates).1
            });
            let [still, of_backbone, of_attention] = all;
            assert!(still[0] != of_backbone[0] && still[1] == of_backbone[1]);
            assert!(still[0] == of_attention[0] && still[1] != of_attention[1]);
        });
    }
}

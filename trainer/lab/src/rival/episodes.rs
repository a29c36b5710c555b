//! Attention trained by episodes over features of a backbone that stands still: the loop that CEC and LIMIT share.

use anyhow::{Result, bail};
use orco_trainer::model::store;
use orco_trainer::platform::interrupt::Activity;
use orco_trainer::run::Run;
use orco_trainer::train::fit::{
    BaseSession, EpochReport, EpochTime, Position, TrainingLoop, TrainingPhase, seed_torch,
};
use orco_trainer::train::optimiser::{Sgd, finite, gradients};
use orco_trainer::train::pretrain::accuracy;
use serde_json::{Map, json};
use tch::{Kind, Tensor};

use super::attention::Attention;
use super::sgd;

/// A task: which prototypes there are, and whose images are to be told apart.
pub(super) struct Episode {
    /// `[c, d]`.
    pub prototypes: Tensor,
    /// `[n, d]`.
    pub images: Tensor,
    /// Prototype of each image, i64 `[n]`.
    pub labels: Tensor,
}

/// Where episodes come from, and how they are trained on.
pub(super) trait Tasks {
    /// Name of the phase and of its checkpoint.
    const NAME: &'static str;
    /// Number of what is trained, the [revision](super::RivalSpec) of the rival: a checkpoint of another one is left.
    fn revision(&self) -> u32;
    /// Epochs, and steps of each.
    fn length(&self) -> [usize; 2];
    /// Learning rate of an epoch.
    fn rate(&self, epoch: usize) -> f64;
    /// Draws an episode.
    fn draw(&self) -> Episode;
}

/// Trains attention as far as it is not trained yet, one episode for each step. What another revision trained is trained
/// anew.
///
/// # Errors
/// If the loss stops being finite, a checkpoint cannot be read or written, or a stop was asked for.
pub(super) fn train<T: Tasks>(attention: &Attention, tasks: &T, base: &BaseSession<'_>) -> Result<()> {
    let sgd = sgd(store::parameters(store::tensors(&attention.store)));
    let mut phase = EpisodePhase { attention, tasks, base, sgd, sums: [0.0; 2] };
    let at = phase.load()?;
    base.run.rewind(T::NAME, at.epoch)?;
    let [epochs, steps] = tasks.length();
    let fit = TrainingLoop {
        run: base.run,
        name: T::NAME,
        title: "episodes",
        work: Activity::Episodes,
        device: attention.store.device(),
        steps,
        epochs,
        until: epochs,
        views: None,
    };
    fit.run(&mut phase, at)
}

/// Name of the number in a checkpoint that says which revision trained it.
const REVISION: &str = "revision";

struct EpisodePhase<'a, T> {
    attention: &'a Attention,
    tasks: &'a T,
    base: &'a BaseSession<'a>,
    sgd: Sgd,
    /// Of losses and accuracies over the steps of this epoch.
    sums: [f64; 2],
}

impl<T: Tasks> EpisodePhase<'_, T> {
    fn file() -> String {
        format!("{}.safetensors", T::NAME)
    }

    /// Sets everything from the checkpoint, if there is one of this revision; the first one named none.
    fn load(&mut self) -> Result<Position> {
        let Some(tensors) = self.base.run.load(&Self::file())? else { return Ok(Position::default()) };
        let number = |name: &str| tensors.get(name).map_or(0.0, |number| number.double_value(&[]));
        let revision = number(REVISION).max(1.0) as u32;
        if revision != self.tasks.revision() {
            log::warn!(
                "the episodes of {} were trained by another revision of this program; they are trained anew",
                T::NAME
            );
            return Ok(Position::default());
        }
        store::restore(store::tensors(&self.attention.store), &tensors)?;
        self.sgd.restore(&tensors);
        self.sums = [number("loss"), number("accuracy")];
        Ok(Position { epoch: number("epochs") as usize, step: number("steps") as usize })
    }
}

impl<T: Tasks> TrainingPhase for EpisodePhase<'_, T> {
    fn begin(&mut self, at: Position) -> Result<()> {
        seed_torch(self.base.seed, at.epoch as i64 + 1);
        (0..at.step).for_each(|_| drop(self.tasks.draw()));
        Ok(())
    }

    fn step(&mut self, at: Position) -> Result<()> {
        let Episode { prototypes, images, labels } = self.tasks.draw();
        let logits = self.attention.logits(&images, &prototypes);
        let loss = logits.cross_entropy_for_logits(&labels);
        let gradients = gradients(&loss, self.sgd.parameters());
        self.sgd.step(&gradients, self.tasks.rate(at.epoch));
        self.sums[0] += loss.double_value(&[]);
        self.sums[1] += accuracy(&logits.detach(), &labels).double_value(&[]);
        Ok(())
    }

    fn loss(&self, at: Position) -> Result<f64> {
        let loss = self.sums[0] / at.step as f64;
        if !loss.is_finite() {
            bail!("the loss of the episodes became {loss} in epoch {}", at.epoch + 1);
        }
        Ok(loss)
    }

    fn end(&mut self, at: Position, _: EpochTime) -> Result<EpochReport> {
        let (loss, percent) = (self.loss(at)?, 100.0 * self.sums[1] / at.step as f64);
        self.sums = [0.0; 2];
        let metrics = Map::from_iter([("accuracy".to_owned(), json!(percent))]);
        Ok(EpochReport { loss, metrics, summary: format!("accuracy {percent:.1} %") })
    }

    fn save(&mut self, at: Position, run: &Run) -> Result<()> {
        let mut tensors = store::tensors(&self.attention.store);
        tensors.extend(self.sgd.state());
        if !finite(tensors.iter().map(|(_, tensor)| tensor)) {
            bail!("a weight of the attention became infinite in epoch {}", at.epoch + 1);
        }
        let numbers = [
            ("loss", self.sums[0]),
            ("accuracy", self.sums[1]),
            ("epochs", at.epoch as f64),
            ("steps", at.step as f64),
            (REVISION, f64::from(self.tasks.revision())),
        ];
        tensors.extend(numbers.map(|(name, number)| (name.to_owned(), Tensor::from(number).to_kind(Kind::Double))));
        run.save(&Self::file(), &tensors, at.global_step(self.tasks.length()[1]))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use orco_trainer::data::dataset::{self, DataOrigin};
    use orco_trials::alone::alone;
    use tch::Device;

    use super::*;
    use crate::rival::tests::{recipe, values};

    /// The same task in every step.
    struct OneTask {
        revision: u32,
        drawn: Cell<usize>,
    }

    impl Tasks for OneTask {
        const NAME: &'static str = "one-task";

        fn revision(&self) -> u32 {
            self.revision
        }

        fn length(&self) -> [usize; 2] {
            [2, 3]
        }

        fn rate(&self, _: usize) -> f64 {
            0.1
        }

        fn draw(&self) -> Episode {
            self.drawn.set(self.drawn.get() + 1);
            let images = Tensor::eye(2, (Kind::Float, Device::Cpu));
            Episode { prototypes: images.copy(), images, labels: Tensor::from_slice(&[1i64, 0]) }
        }
    }

    #[test]
    fn what_another_revision_trained_is_trained_anew() {
        alone("rival::episodes::tests::what_another_revision_trained_is_trained_anew", || {
            let (recipe, folder) = (recipe(), tempfile::tempdir().unwrap());
            let data = dataset::open(&recipe, &DataOrigin::default()).unwrap();
            let run = &Run::open(folder.path(), &recipe).unwrap();
            let base = BaseSession { images: &data.train, split: &data.split, seed: recipe.seed, run };
            let trained = |revision: u32| {
                let task = OneTask { revision, drawn: Cell::new(0) };
                tch::manual_seed(1);
                let attention = Attention::new(2, Device::Cpu);
                train(&attention, &task, &base).unwrap();
                let weights: Vec<_> =
                    store::tensors(&attention.store).into_iter().map(|(_, tensor)| values(&tensor)).collect();
                (task.drawn.get(), weights)
            };
            let (steps, first) = trained(1);
            assert_eq!(steps, 6);
            assert_eq!(trained(1), (0, first.clone()), "the checkpoint is taken");
            assert_eq!(trained(2), (6, first.clone()), "it is of another revision");
            assert_eq!(trained(2), (0, first));
            assert_eq!(run.metrics(OneTask::NAME).len(), 2);
        });
    }
}

//! LIMIT: learning multi-phase incremental tasks (Zhou et al., "Few-Shot Class-Incremental Learning by Sampling
//! Multi-Phase Tasks", TPAMI 2022).
//!
//! Fake incremental tasks are drawn from the base classes: sixteen of them are known by one shot only, the others by
//! their means, and images of all are to be told apart. A layer of a transformer, over all classifiers and the image at
//! hand, learns to calibrate the ones to the others; in incremental sessions it does the same over the means of all
//! classes seen.
//!
//! Settings are those of the authors' command for CIFAR-100: 20 epochs. In their program, the 32 tasks of a step are
//! the same classes and shots in another order, which attention does not see; here a step has one. The backbone is that
//! of the baseline and stands still, while the program moves it on, and the classifiers too, at a rate of 0.0002;
//! images are features of four random views of each, computed once. Rows of classes that nobody has seen are no tokens.

use anyhow::Result;
use orco_benchmark::Summary;
use orco_lab::method::Method;
use orco_trainer::config::PretrainConfig;
use orco_trainer::data::dataset::DataSet;
use orco_trainer::model::Model;
use orco_trainer::run::progress::PhaseProgress;
use tch::{Device, Kind, Tensor};

use super::cosine::CrossEntropy;
use super::embedding::{rows_of_classes, turned};
use super::episodes::{self, Episode, Tasks};
use super::{BY_CROSS_ENTROPY, RivalSpec, RivalTraining};

pub(super) static LIMIT: RivalSpec = RivalSpec {
    method: Method {
        name: "limit",
        description: "A transformer's layer that calibrates classifiers, learned on fake tasks (Zhou et al., TPAMI 2022).",
        paper_row: Some("LIMIT"),
    },
    revision: 1,
    backbone: BY_CROSS_ENTROPY,
    measure,
};

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    training.train(&mut CrossEntropy)?;
    let (embedding, attention) = (training.embedding(&[0])?, training.attention());
    let means = embedding.means.squeeze_dim(1);
    let tasks = Limit::new(training.model, &training.recipe.pretrain, training.data, &means)?;
    episodes::train(&attention, &tasks, &training.base)?;
    training.protocol.by_means(&embedding, &attention)
}

/// Classes of a task that are known by a shot, `-sample_class` with `-sample_shot 1`.
const FAKE: i64 = 16;
/// Epochs over the base images, `-epochs_base`.
const EPOCHS: usize = 20;
/// Learning rate, and its share after epochs 2, 4 and 6: `-lrg`, `-gamma`, `-milestones`.
const RATE: f64 = 0.0002;
const FALL: f64 = 0.3;
const MILESTONES: [usize; 3] = [2, 4, 6];
/// Views of every image.
const VIEWS: i64 = 4;

/// Where LIMIT's tasks come from.
pub(super) struct Limit {
    /// Features of every base image under each view, `[n, views, d]`.
    features: Tensor,
    /// Class of each image, i64.
    labels: Tensor,
    /// Rows of each class, i64.
    classes: Vec<Tensor>,
    /// Means of the base classes, `[base, d]`.
    means: Tensor,
    /// Images of a step.
    batch: usize,
}

impl Limit {
    /// Computes the features; `means` are those of the base classes, `[base, d]`.
    ///
    /// # Errors
    /// If a stop was asked for.
    pub fn new(model: &Model, config: &PretrainConfig, data: &DataSet, means: &Tensor) -> Result<Self> {
        let augment = Some((&config.augment, config.precision));
        let mut progress =
            PhaseProgress::counting("features", "images", VIEWS as u64 * data.split.base.len() as u64, 0);
        let each = (0..VIEWS).map(|_| turned(model, &data.train, &data.split.base, 0, augment, &mut progress));
        let features = Tensor::stack(&each.collect::<Result<Vec<_>>>()?, 1);
        progress.finish();
        let labels = data.train.select_labels(&data.split.base);
        let device = model.device();
        Ok(Self::over(features.to_device(device), labels, means.to_device(device), config.batch))
    }

    /// Takes features that were computed before.
    fn over(features: Tensor, labels: Tensor, means: Tensor, batch: usize) -> Self {
        let classes = rows_of_classes(&labels, means.size()[0]);
        Self { features, labels, classes, means, batch }
    }

    /// A random view of each row, `[rows, d]`.
    fn shown(&self, rows: &Tensor) -> Tensor {
        let views = Tensor::randint(self.features.size()[1], [rows.numel() as i64], (Kind::Int64, Device::Cpu));
        let flat = self.features.flatten(0, 1);
        flat.index_select(0, &(rows * self.features.size()[1] + views).to_device(flat.device()))
    }
}

impl Tasks for Limit {
    const NAME: &'static str = "limit";

    fn revision(&self) -> u32 {
        LIMIT.revision
    }

    fn length(&self) -> [usize; 2] {
        [EPOCHS, (self.labels.numel() / self.batch).max(1)]
    }

    fn rate(&self, epoch: usize) -> f64 {
        RATE * FALL.powi(MILESTONES.iter().filter(|milestone| epoch >= **milestone).count() as i32)
    }

    fn draw(&self) -> Episode {
        let options = (Kind::Int64, Device::Cpu);
        let fake =
            Tensor::randperm(self.classes.len() as i64, options).narrow(0, 0, FAKE.min(self.classes.len() as i64));
        let shot = |class: i64| {
            let rows = &self.classes[class as usize];
            rows.index_select(0, &Tensor::randint(rows.numel() as i64, [1], options))
        };
        let shots: Vec<Tensor> = (0..fake.numel() as i64).map(|number| shot(fake.int64_value(&[number]))).collect();
        let shots = self.shown(&Tensor::cat(&shots, 0));
        let rows = Tensor::randint(self.labels.numel() as i64, [self.batch as i64], options);
        let device = self.features.device();
        Episode {
            prototypes: self.means.index_copy(0, &fake.to_device(device), &shots),
            images: self.shown(&rows),
            labels: self.labels.index_select(0, &rows).to_device(device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_knows_sixteen_classes_by_a_shot_and_the_others_by_their_means() {
        // 20 classes of 3 images; a feature is its class, and 0.5 more in images than in means.
        let labels: Vec<i64> = (0..60).map(|image| image % 20).collect();
        let labels = Tensor::from_slice(&labels);
        let features = (labels.to_kind(Kind::Float) + 0.5).view([60, 1, 1]).repeat([1, 2, 1]);
        let limit = Limit::over(features, labels, Tensor::arange(20, (Kind::Float, Device::Cpu)).view([20, 1]), 7);
        let Episode { prototypes, images, labels } = limit.draw();
        let shots = (0..20).filter(|&class| {
            let above = prototypes.double_value(&[class, 0]) - class as f64;
            assert!(above == 0.5 || above == 0.0);
            above == 0.5
        });
        assert_eq!(shots.count(), 16);
        assert!(images.squeeze_dim(1).equal(&(labels.to_kind(Kind::Float) + 0.5)) && labels.size() == [7]);
        assert_eq!(limit.length(), [20, 8]);
        let rates = [1, 2, 4, 19].map(|epoch| limit.rate(epoch) / RATE);
        assert!(
            rates.iter().zip([1.0, 0.3, 0.09, 0.027]).all(|(rate, share)| (rate - share).abs() < 1e-12),
            "{rates:?}"
        );
    }
}

//! CEC: continually evolved classifiers (Zhang et al., "Few-Shot Incremental Learning with Continually Evolved
//! Classifiers", CVPR 2021).
//!
//! A layer of graph attention lets the classifiers of all classes and the image at hand adapt to each other. It is
//! learned in incremental sessions that are played with base classes: fifteen classes with one shot each, and the same
//! fifteen, each turned by a quarter, a half or three quarters, as the new ones.
//!
//! Settings are those of the authors' command for CIFAR-100, in full: 100 epochs of 50 episodes. The backbone is that
//! of the baseline, and stands still; the program moves it on, at a rate of 0.002. So episodes are drawn from features
//! that are computed once, of one random view of every image for each turn.

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

pub(super) static CEC: RivalSpec = RivalSpec {
    method: Method {
        name: "cec",
        description: "Attention between classifiers, learned in sessions that are played (Zhang et al., CVPR 2021).",
        paper_row: Some("CEC"),
    },
    revision: 1,
    backbone: BY_CROSS_ENTROPY,
    measure,
};

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    training.train(&mut CrossEntropy)?;
    let (embedding, attention) = (training.embedding(&[0])?, training.attention());
    let tasks = Cec::new(training.model, &training.recipe.pretrain, training.data)?;
    episodes::train(&attention, &tasks, &training.base)?;
    training.protocol.by_means(&embedding, &attention)
}

/// Classes of an episode, `-episode_way` and `-low_way`.
const WAYS: i64 = 15;
/// Images of each that are to be told apart, `-episode_query`.
const QUERIES: i64 = 15;
/// Epochs and episodes of each, `-epochs_base` and `-train_episode`.
const LENGTH: [usize; 2] = [100, 50];
/// Learning rate, halved every 20 epochs: `-lrg`, `-gamma`, `-step`.
const RATE: f64 = 0.0002;
const FALL: f64 = 0.5;
const EVERY: i32 = 20;
/// Turns, in quarters; the first is that of the image as it is.
const TURNS: [i64; 4] = [0, 1, 2, 3];

/// Where CEC's episodes come from.
pub(super) struct Cec {
    /// Features of every base image under each turn, `[n, turns, d]`.
    features: Tensor,
    /// Rows of each class, i64.
    classes: Vec<Tensor>,
}

impl Cec {
    /// Computes the features.
    ///
    /// # Errors
    /// If a stop was asked for.
    pub fn new(model: &Model, config: &PretrainConfig, data: &DataSet) -> Result<Self> {
        let augment = Some((&config.augment, config.precision));
        let mut progress = PhaseProgress::counting("features", "images", data.split.base.len() as u64, 0);
        let each = TURNS.map(|turn| turned(model, &data.train, &data.split.base, turn, augment, &mut progress));
        progress.finish();
        let features = Tensor::stack(&each.into_iter().collect::<Result<Vec<_>>>()?, 1);
        let labels = data.train.select_labels(&data.split.base);
        Ok(Self::over(features.to_device(model.device()), &labels, data.split.base_classes as i64))
    }

    /// Takes features that were computed before.
    fn over(features: Tensor, labels: &Tensor, base: i64) -> Self {
        Self { features, classes: rows_of_classes(labels, base) }
    }

    /// Features under a turn of some rows, `[rows, d]`.
    fn under(&self, turn: i64, rows: &Tensor) -> Tensor {
        self.features.select(1, turn).index_select(0, &rows.to_device(self.features.device()))
    }
}

impl Tasks for Cec {
    const NAME: &'static str = "cec";

    fn revision(&self) -> u32 {
        CEC.revision
    }

    fn length(&self) -> [usize; 2] {
        LENGTH
    }

    fn rate(&self, epoch: usize) -> f64 {
        RATE * FALL.powi(epoch as i32 / EVERY)
    }

    /// The shots are the prototypes; the images of a class follow those of the class before, turned ones those that are
    /// not.
    fn draw(&self) -> Episode {
        let options = (Kind::Int64, Device::Cpu);
        let chosen = Tensor::randperm(self.classes.len() as i64, options);
        let ways = WAYS.min(chosen.numel() as i64);
        let (mut prototypes, mut images, mut labels) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()], Vec::new());
        for number in 0..ways {
            let rows = &self.classes[chosen.int64_value(&[number]) as usize];
            let order = rows.index_select(0, &Tensor::randperm(rows.numel() as i64, options));
            let shot = order.narrow(0, 0, 1);
            let queries = order.narrow(0, 1, QUERIES.min(order.numel() as i64 - 1));
            let turn = Tensor::randint_low(1, TURNS.len() as i64, [1], options).int64_value(&[0]);
            for (part, turn) in [0, turn].into_iter().enumerate() {
                prototypes[part].push(self.under(turn, &shot));
                images[part].push(self.under(turn, &queries));
            }
            labels.extend(std::iter::repeat_n(number, queries.numel()));
        }
        let turned: Vec<i64> = labels.iter().map(|label| label + ways).collect();
        labels.extend(turned);
        let all = |parts: [Vec<Tensor>; 2]| Tensor::cat(&parts.into_iter().flatten().collect::<Vec<_>>(), 0);
        Episode {
            prototypes: all(prototypes),
            images: all(images),
            labels: Tensor::from_slice(&labels).to_device(self.features.device()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_plays_turned_classes_as_new_ones() {
        // A feature says its image and its turn; images 0 to 39 are of two classes in turn.
        let images = Tensor::arange(40, (Kind::Float, Device::Cpu)).view([40, 1, 1]).repeat([1, 4, 1]);
        let turns = Tensor::arange(4, (Kind::Float, Device::Cpu)).view([1, 4, 1]).repeat([40, 1, 1]);
        let labels: Vec<i64> = (0..40).map(|image| image % 2).collect();
        let cec = Cec::over(Tensor::cat(&[images, turns], 2), &Tensor::from_slice(&labels), 2);
        let Episode { prototypes, images, labels } = cec.draw();
        assert_eq!((prototypes.size(), images.size(), labels.size()), (vec![4, 2], vec![60, 2], vec![60]));
        let number = |tensor: &Tensor, row: i64, column: i64| tensor.double_value(&[row, column]) as i64;
        // Of each class, prototype and images are of the same class under the same turn, and the prototype's image is
        // not among the others.
        for row in 0..60 {
            let class = labels.int64_value(&[row]);
            assert_eq!(number(&images, row, 0) % 2, number(&prototypes, class, 0) % 2);
            assert_eq!(number(&images, row, 1), number(&prototypes, class, 1));
            assert_eq!(number(&images, row, 1) > 0, class >= 2);
            assert_ne!(number(&images, row, 0), number(&prototypes, class, 0));
        }
    }

    #[test]
    fn the_rate_is_halved_every_twenty_epochs() {
        let cec = Cec { features: Tensor::new(), classes: Vec::new() };
        assert_eq!([0, 19, 20, 99].map(|epoch| cec.rate(epoch)), [2e-4, 2e-4, 1e-4, 1.25e-5]);
    }
}

//! CEC: continually evolved classifiers (Zhang et al., "Few-Shot Incremental Learning with Continually Evolved
//! Classifiers", CVPR 2021).
//!
//! A layer of graph attention lets the classifiers of all classes and the image at hand adapt to each other. It is
//! learned in incremental sessions that are played with base classes: fifteen classes with one shot each, and the same
//! fifteen, each rotated by 90, 180 or 270 degrees, as the new ones. The backbone is trained with it.
//!
//! Settings are those of the authors' command for CIFAR-100, but for the length: a fifth of their 100 epochs, with
//! rates that fall five times as soon. In full, two cores take hours for it, and the base session is a small share of
//! theirs, too.

use anyhow::Result;
use orco_benchmark::Summary;
use orco_lab::method::Method;
use tch::{Device, Kind, Tensor};

use super::baseline::CrossEntropy;
use super::draw::permuted;
use super::embedding::rows_of_classes;
use super::episodes::{self, Episode, EpisodeImages, EpisodeSchedule, EpisodeSource};
use super::{BY_CROSS_ENTROPY, RivalSpec, RivalTraining};

pub(super) static CEC: RivalSpec = RivalSpec {
    method: Method {
        name: "cec",
        description: "Attention between classifiers, learned in sessions that are played (Zhang et al., CVPR 2021).",
        paper_row: Some("CEC"),
    },
    revision: 2,
    backbone: BY_CROSS_ENTROPY,
    measure,
    extra_training: Some("CEC 20 epochs of 50 episodes, a fifth of its authors' epochs"),
};

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    training.train(&mut CrossEntropy)?;
    let attention = training.attention();
    let source = Cec::new(training.episode_images());
    episodes::train(training.model, &attention, &source, &training.recipe.pretrain, &training.base)?;
    training.measure_by_means(&[0], &attention)
}

/// Classes of an episode, `-episode_way` and `-low_way`.
const WAYS: i64 = 15;
/// Images of each that are to be told apart, `-episode_query`.
const QUERIES: i64 = 15;
/// Epochs, of the authors' 100, and episodes of each, `-epochs_base` and `-train_episode`.
const SCHEDULE: EpisodeSchedule = EpisodeSchedule { epochs: 20, episodes: 50 };
/// Learning rates of the backbone and of attention, `-lr_base` and `-lrg`, halved every fifth of the epochs: `-gamma`,
/// `-step`.
const RATES: [f64; 2] = [0.002, 0.0002];
const RATE_DECAY: f64 = 0.5;
const DECAY_EPOCHS: i32 = 4;
/// A new class is rotated by 1 to `ROTATIONS - 1` quarter turns.
const ROTATIONS: i64 = 4;

/// Where CEC's episodes come from.
pub(super) struct Cec<'a> {
    images: EpisodeImages<'a>,
    /// Rows of each class, i64.
    classes: Vec<Tensor>,
}

impl<'a> Cec<'a> {
    fn new(images: EpisodeImages<'a>) -> Self {
        Self { classes: rows_of_classes(&images.labels(), images.base_classes()), images }
    }
}

/// What an episode shows, class after class: a row for the shot of each class, the rotation of the class that it stands
/// for as a new one, and rows of the images that are to be told apart.
struct EpisodeRows {
    shots: Vec<i64>,
    rotations: Vec<i64>,
    queries: Vec<Vec<i64>>,
}

/// Draws an episode from the rows of each class.
fn draw_rows(classes: &[Tensor]) -> EpisodeRows {
    let options = (Kind::Int64, Device::Cpu);
    let mut episode = EpisodeRows { shots: Vec::new(), rotations: Vec::new(), queries: Vec::new() };
    for class in permuted(classes.len()).into_iter().take(WAYS as usize) {
        let rows = &classes[class];
        let mut order = permuted(rows.numel()).into_iter().map(|row| rows.int64_value(&[row as i64]));
        episode.shots.extend(order.next());
        episode.queries.push(order.take(QUERIES as usize).collect());
        episode.rotations.push(Tensor::randint_low(1, ROTATIONS, [1], options).int64_value(&[0]));
    }
    episode
}

/// Views of some images of each class, each class rotated by so many quarter turns.
fn rotate_classes(views: &Tensor, counts: &[i64], rotations: &[i64]) -> Tensor {
    let parts = views.split_with_sizes(counts, 0);
    let rotated: Vec<Tensor> =
        parts.iter().zip(rotations).map(|(part, rotation)| part.rot90(*rotation, [2, 3])).collect();
    Tensor::cat(&rotated, 0)
}

impl EpisodeSource for Cec<'_> {
    const NAME: &'static str = "cec";

    fn revision(&self) -> u32 {
        CEC.revision
    }

    fn schedule(&self) -> EpisodeSchedule {
        SCHEDULE
    }

    fn rates(&self, epoch: usize) -> [f64; 2] {
        RATES.map(|rate| rate * RATE_DECAY.powi(epoch as i32 / DECAY_EPOCHS))
    }

    /// Shots and images as they are, then each of them rotated as its class is.
    fn draw(&self) -> Episode {
        let EpisodeRows { shots, rotations, queries } = draw_rows(&self.classes);
        let ways = shots.len() as i64;
        let counts: Vec<i64> = queries.iter().map(|rows| rows.len() as i64).collect();
        let (shots, queries) = (self.images.views(&shots), self.images.views(&queries.concat()));
        let views = [
            &shots,
            &rotate_classes(&shots, &vec![1; rotations.len()], &rotations),
            &queries,
            &rotate_classes(&queries, &counts, &rotations),
        ];
        let labels = |first: i64| (first..).zip(&counts).flat_map(|(class, &count)| vec![class; count as usize]);
        let labels: Vec<i64> = labels(0).chain(labels(ways)).collect();
        let device = queries.device();
        Episode {
            views: Tensor::cat(&views, 0),
            shot_classes: Tensor::arange(2 * ways, (Kind::Int64, device)),
            labels: Tensor::from_slice(&labels).to_device(device),
        }
    }

    /// The shots are the prototypes.
    fn prototypes(&self, _: &Tensor, features: &Tensor) -> Tensor {
        features.shallow_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_has_a_shot_of_each_class_and_other_images_of_it() {
        // Images 0 to 39 are of two classes in turn.
        let labels: Vec<i64> = (0..40).map(|image| image % 2).collect();
        let EpisodeRows { shots, rotations, queries } = draw_rows(&rows_of_classes(&Tensor::from_slice(&labels), 2));
        assert_eq!((shots.len(), rotations.len(), queries.len()), (2, 2, 2));
        assert_ne!(shots[0] % 2, shots[1] % 2);
        for (shot, queries) in shots.iter().zip(&queries) {
            assert_eq!(queries.len(), 15);
            assert!(queries.iter().all(|image| image % 2 == shot % 2 && image != shot), "{queries:?}");
        }
        assert!(rotations.iter().all(|rotation| (1..4).contains(rotation)), "{rotations:?}");
    }

    #[test]
    fn images_of_a_class_are_turned_as_the_class_is() {
        let views = Tensor::arange(3 * 4, (Kind::Float, Device::Cpu)).view([3, 1, 2, 2]);
        let rotated = rotate_classes(&views, &[2, 1], &[2, 1]);
        let values = Vec::<f32>::try_from(rotated.view(-1)).unwrap();
        assert_eq!(values, [3.0, 2.0, 1.0, 0.0, 7.0, 6.0, 5.0, 4.0, 9.0, 11.0, 8.0, 10.0]);
    }

    #[test]
    fn rates_are_halved_every_fifth_of_the_epochs() {
        let rates = [0, 3, 4, 19].map(|epoch| RATES.map(|rate| rate * RATE_DECAY.powi(epoch / DECAY_EPOCHS)));
        assert_eq!(rates, [[2e-3, 2e-4], [2e-3, 2e-4], [1e-3, 1e-4], [1.25e-4, 1.25e-5]]);
    }
}

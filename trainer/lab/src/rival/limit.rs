//! LIMIT: learning multi-phase incremental tasks (Zhou et al., "Few-Shot Class-Incremental Learning by Sampling
//! Multi-Phase Tasks", TPAMI 2022).
//!
//! Fake incremental tasks are drawn from the base classes: sixteen classes are known by one shot only, the others by
//! their classifiers, and images of all classes are classified. A transformer layer over all classifiers and the image
//! at hand learns to adapt the classifiers to that image, and those of one shot to the trained ones. In incremental
//! sessions it does the same over the means of all classes seen. Backbone and classifiers are trained with it; every
//! epoch begins with class means as classifiers.
//!
//! Settings are those of the authors' command for CIFAR-100, its 20 epochs among them.
//!
//! Differences from the authors' program:
//!
//! - A step has one task. The program's 32 tasks of a step are the same classes and shots in another order, which
//!   attention does not see.
//! - The images of a step are drawn with replacement, in as many steps as there are full batches. In the program an
//!   epoch shows each image once.
//! - Classes of sessions to come have no token in the attention.

use anyhow::Result;
use orco_benchmark::Summary;
use orco_lab::method::Method;
use orco_trainer::model::store;
use tch::nn::{Init, VarStore};
use tch::{Device, Kind, Tensor, no_grad};

use super::baseline::CrossEntropy;
use super::embedding::rows_of_classes;
use super::episodes::{self, Episode, EpisodeImages, EpisodeSchedule, EpisodeSource};
use super::{BY_CROSS_ENTROPY, RivalSpec, RivalTraining};

pub(super) static LIMIT: RivalSpec = RivalSpec {
    method: Method {
        name: "limit",
        description: "A transformer's layer that calibrates classifiers, learned on fake tasks (Zhou et al., TPAMI 2022).",
        paper_row: Some("LIMIT"),
    },
    revision: 2,
    backbone: BY_CROSS_ENTROPY,
    measure,
    extra_training: Some("LIMIT all 20 epochs of its authors"),
};

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    training.train(&mut CrossEntropy)?;
    let attention = training.attention();
    let pretrain = &training.recipe.pretrain;
    let source = Limit::new(training.episode_images(), pretrain.batch);
    episodes::train(training.model, &attention, &source, pretrain, &training.base)?;
    training.measure_by_means(&[0], &attention)
}

/// Classes of a task that are known by a shot, `-sample_class` with `-sample_shot 1`.
const FAKE: i64 = 16;
/// Epochs over the base images, `-epochs_base`.
const EPOCHS: usize = 20;
/// Learning rate of all, `-lr_base` and `-lrg`, and its share after epochs 2, 4 and 6: `-gamma`, `-milestones`.
const RATE: f64 = 0.0002;
const RATE_DECAY: f64 = 0.3;
const MILESTONES: [usize; 3] = [2, 4, 6];

/// Where LIMIT's episodes come from.
pub(super) struct Limit<'a> {
    images: EpisodeImages<'a>,
    /// Class of each image, i64.
    labels: Tensor,
    /// Rows of each class, i64.
    classes: Vec<Tensor>,
    /// The base classes' classifiers, `[base, d]`.
    store: VarStore,
    classifiers: Tensor,
    /// Images of a step.
    batch: usize,
}

impl<'a> Limit<'a> {
    fn new(images: EpisodeImages<'a>, batch: usize) -> Self {
        let (labels, base) = (images.labels(), images.base_classes());
        let store = VarStore::new(images.model.device());
        let size = [base, images.model.backbone.description.features()];
        let classifiers = (store.root() / "limit").var("classifiers", &size, Init::Const(0.0));
        Self { classes: rows_of_classes(&labels, base), images, labels, store, classifiers, batch }
    }
}

/// A fake incremental task, i64 each.
struct FakeTask {
    /// Classes that are known by a shot, `[m]`.
    classes: Tensor,
    /// A row of each of these classes, `[m]`.
    shots: Tensor,
    /// Rows of the images that are to be told apart, `[batch]`.
    images: Tensor,
}

/// Draws a task from the rows of each class and of all images.
fn fake_task(classes: &[Tensor], images: i64, batch: i64) -> FakeTask {
    let options = (Kind::Int64, Device::Cpu);
    let fake = Tensor::randperm(classes.len() as i64, options).narrow(0, 0, FAKE.min(classes.len() as i64));
    let shot = |class: i64| {
        let rows = &classes[class as usize];
        rows.index_select(0, &Tensor::randint(rows.numel() as i64, [1], options))
    };
    let shots: Vec<Tensor> = (0..fake.numel() as i64).map(|number| shot(fake.int64_value(&[number]))).collect();
    FakeTask { classes: fake, shots: Tensor::cat(&shots, 0), images: Tensor::randint(images, [batch], options) }
}

impl EpisodeSource for Limit<'_> {
    const NAME: &'static str = "limit";

    fn revision(&self) -> u32 {
        LIMIT.revision
    }

    fn schedule(&self) -> EpisodeSchedule {
        EpisodeSchedule { epochs: EPOCHS, episodes: (self.labels.numel() / self.batch).max(1) }
    }

    fn rates(&self, epoch: usize) -> [f64; 2] {
        let falls = MILESTONES.iter().filter(|milestone| epoch >= **milestone).count();
        [RATE * RATE_DECAY.powi(falls as i32); 2]
    }

    fn draw(&self) -> Episode {
        let all_images = self.labels.numel() as i64;
        let FakeTask { classes, shots, images } = fake_task(&self.classes, all_images, self.batch as i64);
        let all = Vec::<i64>::try_from(Tensor::cat(&[&shots, &images], 0)).expect("numbers");
        let views = self.images.views(&all);
        let device = views.device();
        let labels = self.labels.index_select(0, &images).to_device(device);
        Episode { views, shot_classes: classes.to_device(device), labels }
    }

    fn prototypes(&self, classes: &Tensor, features: &Tensor) -> Tensor {
        self.classifiers.index_copy(0, classes, features)
    }

    fn begin_epoch(&self) -> Result<()> {
        let means = self.images.means()?.to_device(self.classifiers.device());
        no_grad(|| self.classifiers.shallow_clone().copy_(&means));
        Ok(())
    }

    fn tensors(&self) -> Vec<(String, Tensor)> {
        store::tensors(&self.store)
    }
}

#[cfg(test)]
mod tests {
    use orco_trials::alone::alone;

    use super::*;
    use crate::rival::tests::{data, model, recipe, values};

    #[test]
    fn a_task_knows_sixteen_classes_by_a_shot() {
        // 20 classes of 3 images, in turn.
        let labels: Vec<i64> = (0..60).map(|image| image % 20).collect();
        let FakeTask { classes: fake, shots, images: rows } =
            fake_task(&rows_of_classes(&Tensor::from_slice(&labels), 20), 60, 7);
        let numbers = |tensor: &Tensor| Vec::<i64>::try_from(tensor).unwrap();
        let (mut fake, shots) = (numbers(&fake), numbers(&shots));
        assert!(fake.iter().zip(&shots).all(|(class, row)| row % 20 == *class), "{fake:?}: {shots:?}");
        fake.sort_unstable();
        fake.dedup();
        assert_eq!(fake.len(), 16);
        assert!(rows.size() == [7] && numbers(&rows).iter().all(|row| (0..60).contains(row)));
    }

    #[test]
    fn classifiers_are_means_first_and_shots_where_there_are_some() {
        alone("rival::limit::tests::classifiers_are_means_first_and_shots_where_there_are_some", || {
            let recipe = recipe();
            let data = data(&recipe);
            let model = model(&recipe);
            let images = EpisodeImages { model: &model, data: &data, augment: &recipe.pretrain.augment };
            let means = values(&images.means().unwrap());
            let limit = Limit::new(images, 24);
            limit.begin_epoch().unwrap();
            assert_eq!(values(&limit.classifiers), means);
            let features = model.backbone.description.features();
            let shot = Tensor::ones([1, features], (Kind::Float, Device::Cpu));
            let prototypes = limit.prototypes(&Tensor::from_slice(&[2i64]), &shot);
            assert_eq!(values(&prototypes.get(2)), values(&shot));
            assert_eq!(values(&prototypes.narrow(0, 3, 3)), means[3 * features as usize..]);
            assert_eq!(limit.schedule(), EpisodeSchedule { epochs: 20, episodes: 3 });
            let rates = [1, 2, 4, 19].map(|epoch| limit.rates(epoch)[0] / RATE);
            let expected = [1.0, 0.3, 0.09, 0.027];
            assert!(rates.iter().zip(expected).all(|(rate, share)| (rate - share).abs() < 1e-12), "{rates:?}");
        });
    }
}

//! C-FSCIL's meta-training: episodes that train the backbone and the layer behind it together.
//!
//! An episode has five shots and ten queries of sixty base classes. A class's prototype is the sum of its shots'
//! projections, which are made in inference mode and have no gradient; queries go through the backbone in training
//! mode. A query attends to a memory of all classes: its cosines with the prototypes are sharpened by softabs and
//! divided by their sum. Classes to come have rows, too, which are zero. Binary cross entropy compares each share of
//! the attention with the label. All of that is as in the authors' program; views are the recipe's, there crops of
//! padded images.
//!
//! The authors' 70,000 episodes of 900 images show 63 million images, each of CIFAR-100's 30,000 base images 2,100
//! times on average, which is too long for a processor. A hundredth of that is taken, and the rate falls after the same
//! shares of it: 21 epochs, each of as many episodes as the base images fill. The last step's weights count.

use std::slice;

use anyhow::Result;
use orco_trainer::config::{PretrainConfig, Recipe};
use orco_trainer::data::augment::random_view;
use orco_trainer::model::backbone::ForwardMode;
use orco_trainer::model::{Model, store};
use orco_trainer::run::Run;
use orco_trainer::train::optimiser::{Sgd, gradients};
use orco_trainer::train::seed::seed_torch;
use orco_trainer::train::training_loop::{BaseSession, EpochReport, EpochTime, Position, TrainingPhase};
use tch::{Kind, Reduction, Tensor, no_grad};

use super::{C_FSCIL, ProjectionLayer, directions};
use crate::rival::draw::permuted;
use crate::rival::episodes::{EpisodeRecord, EpisodeSchedule};
use crate::rival::nesterov_sgd;

/// Name of the phase and of its checkpoint: another one than that of the backbone, which other rivals stand on.
const NAME: &str = "c-fscil";

/// Classes of an episode, `num_ways`; shots of each, `num_shots`; queries of each, `batch_size_training`.
const WAYS: usize = 60;
const SHOTS: usize = 5;
const QUERIES: usize = 10;
/// A hundredth of `max_train_iter` 70000, in passes over the base images.
const EPOCHS: usize = 21;
/// Learning rate, a tenth after each 9 epochs: `learning_rate`, and a hundredth of `lr_step_size` 30000.
const RATE: f64 = 0.01;
const RATE_DECAY: f64 = 0.1;
const DECAY_EPOCHS: usize = 9;
/// How steeply softabs rises, `sharpening_strength`.
const STEEPNESS: f64 = 10.0;

/// sigma(s (x - 1/2)) + sigma(s (-x - 1/2)): nearly 0 around 0 and nearly 1 around 1 and -1.
fn softabs(cosines: &Tensor) -> Tensor {
    let step = |x: Tensor| ((x - 0.5) * STEEPNESS).sigmoid();
    step(cosines.shallow_clone()) + step(-cosines)
}

/// The attention that each query pays to every row of the memory; it adds up to 1.
///
/// # Shapes
/// `queries` f32 `[n, outputs]`, `memory` f32 `[c, outputs]`; returns f32 `[n, c]`.
fn attention(queries: &Tensor, memory: &Tensor) -> Tensor {
    let sharpened = softabs(&directions(queries).matmul(&directions(memory).tr()));
    let sum = sharpened.sum_dim_intlist([1].as_slice(), true, Kind::Float);
    sharpened / sum
}

/// Binary cross entropy of each share of the attention, mean over all.
///
/// # Shapes
/// `attention` f32 `[n, c]`, `labels` i64 `[n]`; returns a scalar.
fn attention_loss(attention: &Tensor, labels: &Tensor) -> Tensor {
    let targets = labels.one_hot(attention.size()[1]).to_kind(Kind::Float);
    attention.binary_cross_entropy(&targets, None::<Tensor>, Reduction::Mean)
}

/// Random views, normalised, with their classes.
struct LabelledViews {
    /// f32 `[n, 3, h, w]`.
    views: Tensor,
    /// i64 `[n]`.
    labels: Tensor,
}

/// Everything random of a step.
struct MetaEpisode {
    shots: LabelledViews,
    queries: LabelledViews,
}

/// What is meta-trained, and on what.
pub(super) struct MetaTraining<'a> {
    model: &'a Model,
    layer: &'a ProjectionLayer,
    config: &'a PretrainConfig,
    base: &'a BaseSession<'a>,
    /// Training images of each base class.
    of_classes: Vec<Vec<usize>>,
    /// Rows of the memory: all classes, those to come among them.
    rows: i64,
    schedule: EpisodeSchedule,
}

impl<'a> MetaTraining<'a> {
    /// On all base images.
    pub fn new(model: &'a Model, layer: &'a ProjectionLayer, recipe: &'a Recipe, base: &'a BaseSession<'a>) -> Self {
        let mut of_classes = vec![Vec::new(); base.split.base_classes];
        for &image in &base.split.base {
            of_classes[usize::from(base.images.labels[image])].push(image);
        }
        let of_episode = WAYS.min(of_classes.len()) * (SHOTS + QUERIES);
        let episodes = (base.split.base.len() / of_episode.max(1)).max(1);
        let schedule = EpisodeSchedule { epochs: EPOCHS, episodes };
        let rows = recipe.classes() as i64;
        Self { model, layer, config: &recipe.pretrain, base, of_classes, rows, schedule }
    }

    /// Trains as far as it is not trained yet: from the model as the base session left it, or from the own checkpoint.
    /// What another revision trained is trained anew.
    ///
    /// # Errors
    /// If the loss stops being finite, a checkpoint cannot be read or written, or a stop was asked for.
    pub fn train(&self) -> Result<()> {
        let mut phase = MetaPhase::new(self);
        let at = phase.record.load(self.base.run, self.tensors(), slice::from_mut(&mut phase.sgd))?;
        let training_loop = phase.record.training_loop(self.base.run, self.model.device());
        training_loop.run(&mut phase, at)
    }

    /// All that is trained and belongs into a checkpoint: the backbone, its norms' statistics among it, and the layer.
    fn tensors(&self) -> Vec<(String, Tensor)> {
        let backbone = self.model.tensors().into_iter().filter(|(name, _)| name.starts_with("backbone."));
        backbone.chain(self.layer.tensors()).collect()
    }

    /// Draws an episode. Of classes with few images, all are in it, one at least as a query.
    fn draw(&self) -> MetaEpisode {
        let (mut shots, mut queries) = (Vec::new(), Vec::new());
        for class in permuted(self.of_classes.len()).into_iter().take(WAYS) {
            let images = &self.of_classes[class];
            let drawn: Vec<usize> =
                permuted(images.len()).into_iter().take(SHOTS + QUERIES).map(|row| images[row]).collect();
            let (own, others) = drawn.split_at(SHOTS.min(drawn.len().saturating_sub(1)));
            shots.extend_from_slice(own);
            queries.extend_from_slice(others);
        }
        MetaEpisode { shots: self.views(&shots), queries: self.views(&queries) }
    }

    fn views(&self, images: &[usize]) -> LabelledViews {
        let Self { model, base, config, .. } = self;
        let device = model.device();
        let views = random_view(&base.images.batch(images, device), &config.augment);
        let labels = base.images.select_labels(images).to_device(device);
        LabelledViews { views: model.channels.normalise(&views), labels }
    }

    /// The memory, f32 `[rows, outputs]`: the sum of the shots' projections in the row of each class.
    fn memory(&self, shots: &LabelledViews) -> Tensor {
        /// Images at a time.
        const BATCH: usize = 500;
        let (backbone, precision) = (&self.model.backbone, self.config.precision.unscaled());
        no_grad(|| {
            let parts = shots.views.split(self.base.images.forward_batch(BATCH) as i64, 0);
            let features = parts.iter().map(|views| backbone.forward(views, precision, ForwardMode::Inference));
            let projected = self.layer.project(&Tensor::cat(&features.collect::<Vec<_>>(), 0));
            let empty = Tensor::zeros([self.rows, projected.size()[1]], (Kind::Float, projected.device()));
            empty.index_add(0, &shots.labels, &projected)
        })
    }
}

/// Meta-training as a [`TrainingPhase`].
struct MetaPhase<'a> {
    training: &'a MetaTraining<'a>,
    sgd: Sgd,
    record: EpisodeRecord,
}

impl<'a> MetaPhase<'a> {
    fn new(training: &'a MetaTraining<'a>) -> Self {
        let parameters = store::parameters(training.tensors());
        let record = EpisodeRecord::new(NAME, C_FSCIL.revision, training.schedule);
        Self { training, sgd: nesterov_sgd(parameters), record }
    }
}

impl TrainingPhase for MetaPhase<'_> {
    fn begin(&mut self, at: Position) -> Result<()> {
        seed_torch(self.training.base.seed, at.epoch as i64 + 1);
        (0..at.step).for_each(|_| drop(self.training.draw()));
        Ok(())
    }

    fn step(&mut self, at: Position) -> Result<()> {
        let MetaTraining { model, layer, config, .. } = self.training;
        let MetaEpisode { shots, queries: LabelledViews { views, labels } } = self.training.draw();
        let memory = self.training.memory(&shots);
        let features = model.backbone.forward(&views, config.precision.unscaled(), ForwardMode::Training);
        let attention = attention(&layer.project(&features), &memory);
        let loss = attention_loss(&attention, &labels);
        let gradients = gradients(&loss, self.sgd.parameters());
        self.sgd.step(&gradients, rate(at.epoch));
        self.record.add(&loss, &attention, &labels);
        Ok(())
    }

    fn loss(&self, at: Position) -> Result<f64> {
        self.record.loss(at)
    }

    fn end(&mut self, at: Position, _: EpochTime) -> Result<EpochReport> {
        self.record.end(at)
    }

    fn save(&mut self, at: Position, run: &Run) -> Result<()> {
        self.record.save(at, run, self.training.tensors(), slice::from_ref(&self.sgd))
    }
}

/// Learning rate of an epoch.
fn rate(epoch: usize) -> f64 {
    RATE * RATE_DECAY.powi((epoch / DECAY_EPOCHS) as i32)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use orco_trainer::data::dataset::DataSet;
    use orco_trainer::run::PRETRAIN_CHECKPOINT;
    use orco_trainer::train::pretrain::pretrain_by;
    use orco_trials::alone::alone;
    use tch::Device;

    use super::*;
    use crate::rival::baseline::CrossEntropy;
    use crate::rival::tests::{data, model, recipe, rows, values};

    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    fn near(found: &[f32], expected: &[f64]) -> bool {
        let are_near = |(found, expected): (&f32, &f64)| (f64::from(*found) - expected).abs() < 1e-5;
        found.len() == expected.len() && found.iter().zip(expected).all(are_near)
    }

    #[test]
    fn attention_is_sharpened_and_shared_among_all_rows() {
        let [none, some, most] = [2.0 * sigmoid(-5.0), sigmoid(1.0) + sigmoid(-11.0), sigmoid(3.0) + sigmoid(-13.0)];
        let found = values(&softabs(&Tensor::from_slice(&[0.0f32, 0.6, -0.6, 0.8])));
        assert!(near(&found, &[none, some, some, most]), "{found:?}");
        // The hyperbolic tangents of ln 2 and ln 3 are 0.6 and 0.8. A row of zeros has the cosine 0, a row of the other
        // sign counts the same.
        let memory = rows(&[0.5, 0.0, 0.0, -20.0, 0.0, 0.0]);
        let found = attention(&rows(&[2f32.ln(), 3f32.ln()]), &memory);
        let sum = some + most + none;
        assert!(near(&values(&found), &[some / sum, most / sum, none / sum]), "{found:?}");
    }

    #[test]
    fn every_share_of_the_attention_counts_in_the_loss() {
        let attention = Tensor::from_slice(&[0.7f32, 0.2, 0.1, 0.3, 0.3, 0.4]).view([2, 3]);
        let loss = attention_loss(&attention, &Tensor::from_slice(&[0i64, 2])).double_value(&[]);
        let logarithms = [0.7f64, 0.8, 0.9, 0.7, 0.7, 0.4].map(f64::ln);
        assert!((loss + logarithms.iter().sum::<f64>() / 6.0).abs() < 1e-6, "{loss}");
    }

    #[test]
    fn the_rate_falls_after_the_shares_of_the_training_that_the_authors_have() {
        assert_eq!([30_000 * EPOCHS, 60_000 * EPOCHS], [70_000 * DECAY_EPOCHS, 70_000 * 2 * DECAY_EPOCHS]);
        let rates = [0, 8, 9, 20].map(rate);
        assert!(
            rates.iter().zip([1e-2, 1e-2, 1e-3, 1e-4]).all(|(rate, expected)| (rate / expected - 1.0).abs() < 1e-9),
            "{rates:?}"
        );
    }

    /// The base session's backbone, trained or taken from its checkpoint, and a layer that is always the same.
    fn start(recipe: &Recipe, base: &BaseSession<'_>) -> (Model, ProjectionLayer) {
        let mut model = model(recipe);
        pretrain_by(&mut model, &recipe.pretrain, base, None, &mut CrossEntropy).unwrap();
        tch::manual_seed(1);
        let layer = ProjectionLayer::new(model.backbone.description.features(), Device::Cpu);
        (model, layer)
    }

    fn base<'a>(data: &'a DataSet, run: &'a Run) -> BaseSession<'a> {
        BaseSession { images: &data.train, split: &data.split, seed: 1, run }
    }

    fn values_of(tensors: &[(String, Tensor)]) -> Vec<Vec<f32>> {
        tensors.iter().map(|(_, tensor)| values(tensor)).collect()
    }

    #[test]
    fn an_episode_has_shots_and_queries_of_the_same_classes() {
        alone("rival::c_fscil::meta_training::tests::an_episode_has_shots_and_queries_of_the_same_classes", || {
            let (recipe, folder) = (recipe(), tempfile::tempdir().unwrap());
            let data = data(&recipe);
            let run = &Run::open(folder.path(), &recipe).unwrap();
            let base = base(&data, run);
            let model = model(&recipe);
            let layer = ProjectionLayer::new(model.backbone.description.features(), Device::Cpu);
            let training = MetaTraining::new(&model, &layer, &recipe, &base);
            assert_eq!((training.schedule, training.rows), (EpisodeSchedule { epochs: EPOCHS, episodes: 1 }, 10));
            let MetaEpisode { shots, queries } = training.draw();
            // Six classes of twelve images.
            let counts = |of: &LabelledViews| values(&of.labels.bincount(None::<Tensor>, 6).to_kind(Kind::Float));
            assert_eq!((counts(&shots), counts(&queries)), (vec![5.0; 6], vec![7.0; 6]));
            assert_eq!(shots.views.size(), [30, 3, 24, 24]);

            let before = values_of(&training.tensors());
            let memory = training.memory(&shots);
            assert_eq!(memory.size()[0], 10);
            let to_come = memory.narrow(0, 6, 4).abs().max().double_value(&[]);
            assert!(to_come == 0.0 && !memory.requires_grad());
            assert!(values_of(&training.tensors()) == before, "shots leave the norms' statistics");
        });
    }

    #[test]
    fn episodes_go_on_where_they_were_and_leave_the_shared_backbone() {
        alone(
            "rival::c_fscil::meta_training::tests::episodes_go_on_where_they_were_and_leave_the_shared_backbone",
            || {
                let (recipe, folder) = (recipe(), tempfile::tempdir().unwrap());
                let data = data(&recipe);
                let schedule = EpisodeSchedule { epochs: 2, episodes: 3 };
                let trained = |name: &str, stops: bool| {
                    let run = &Run::open(&folder.path().join(name), &recipe).unwrap();
                    let base = base(&data, run);
                    let shared = |run: &Run| fs::read(run.path(PRETRAIN_CHECKPOINT)).unwrap();
                    if stops {
                        let (model, layer) = start(&recipe, &base);
                        let training = MetaTraining { schedule, ..MetaTraining::new(&model, &layer, &recipe, &base) };
                        let mut phase = MetaPhase::new(&training);
                        phase.begin(Position::default()).unwrap();
                        for step in 0..2 {
                            phase.step(Position { epoch: 0, step }).unwrap();
                        }
                        phase.save(Position { epoch: 0, step: 2 }, run).unwrap();
                    }
                    let (model, layer) = start(&recipe, &base);
                    let (before, by_base) = (shared(run), values_of(&model.tensors()));
                    let training = MetaTraining { schedule, ..MetaTraining::new(&model, &layer, &recipe, &base) };
                    training.train().unwrap();
                    let tensors = training.tensors();
                    assert_eq!(run.metrics(NAME).len(), 2);
                    assert!(shared(run) == before, "the backbone that others share is as it was");
                    assert!(values_of(&model.tensors()) != by_base, "the backbone moves");

                    // Another rival finds the base session's backbone; this one its own.
                    let (model, layer) = start(&recipe, &base);
                    assert!(values_of(&model.tensors()) == by_base);
                    let training = MetaTraining { schedule, ..MetaTraining::new(&model, &layer, &recipe, &base) };
                    training.train().unwrap();
                    assert!(values_of(&training.tensors()) == values_of(&tensors), "the checkpoint is taken");
                    tensors
                };
                let (straight, stopped) = (trained("straight", false), trained("stopped", true));
                for ((name, straight), (_, stopped)) in straight.iter().zip(&stopped) {
                    assert!(straight.equal(stopped), "{name}");
                }
            },
        );
    }
}

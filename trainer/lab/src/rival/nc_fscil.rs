//! NC-FSCIL: classifiers fixed at the vertices of a simplex (Yang et al., "Neural Collapse Inspired Feature-Classifier
//! Alignment for Few-Shot Class-Incremental Learning", ICLR 2023).
//!
//! Every class, also of sessions to come, has a vertex of one regular simplex as its classifier, which stays fixed. The
//! dot-regression loss pulls a projection of the features to the class's vertex. The base session trains the projection
//! and the backbone, on images mixed by mixup or CutMix. An incremental session trains the projection alone, on the
//! features of the shots and one mean feature vector of every earlier class, from where the session before left it. An
//! image is answered with the vertex nearest to its projection.
//!
//! Settings beside the recipe's are those of the authors' program for CIFAR-100.
//!
//! Differences from the authors' program:
//!
//! - A session's rate falls along the cosine to its end, without steps at a tenth of it.
//! - Sessions beyond the eighth are as long as the eighth.
//! - Biases and norms do not decay.

use std::borrow::Borrow;
use std::collections::HashMap;

use anyhow::Result;
use orco_benchmark::Summary;
use orco_core::schedule::Schedule;
use orco_lab::method;
use orco_state::target::{TargetMethod, generate};
use orco_trainer::config::Recipe;
use orco_trainer::model::backbone::{ForwardMode, linear_init, unit};
use orco_trainer::model::{Model, store};
use orco_trainer::platform::distributed::RankError;
use orco_trainer::platform::interrupt;
use orco_trainer::run::progress::WorkProgress;
use orco_trainer::train::optimiser::{Sgd, SgdConfig, gradients};
use orco_trainer::train::pretrain::{BatchLosses, Criterion, StepContext, accuracy};
use tch::nn::{self, LayerNorm, Linear, LinearConfig, Module, VarStore};
use tch::{Device, Kind, Tensor, no_grad};

use super::draw::{permuted, uniform};
use super::embedding::Embedding;
use super::prototypes::new_means;
use super::{RivalBackbone, RivalSpec, RivalTraining};
use crate::sessions::{Protocol, SessionLearner, check_loss, labelled};

pub(super) static NC_FSCIL: RivalSpec =
    RivalSpec { method: method::NC_FSCIL, revision: 2, backbone: BACKBONE, measure, extra_training: None };

/// What its base session trains.
const BACKBONE: RivalBackbone = RivalBackbone { name: method::NC_FSCIL.name, revision: 2 };

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    let mut nc_fscil = NcFscil::new(training.model, training.recipe);
    training.train(&mut nc_fscil)?;
    let embedding = training.embedding(&[0])?;
    training.protocol.run_sessions(&mut NcFscilSessions::new(&nc_fscil, &embedding, training.protocol))
}

/// Length of a projection, `out_channels`; more where there are more classes.
const OUTPUTS: usize = 512;
/// Slope of the projection's rectifiers below zero.
const SLOPE: f64 = 0.1;
/// Weight of the loss, `loss_weight`.
const WEIGHT: f64 = 10.0;
/// Shares of the steps of the base session whose images are mixed, and pasted into each other.
const MIXED: f64 = 0.4;
const PASTED: f64 = 0.4;
/// Both parameters of the beta law by which images are mixed.
const ALPHA: f64 = 0.8;
/// Steps of each session, `step_list`.
const STEPS: [usize; 8] = [50, 75, 100, 120, 140, 160, 200, 200];
/// Features in a step of a session.
const BATCH: usize = 64;
/// Share of a session's steps whose projections are mixed by halves, `mixup_prob`.
const HALVED: f64 = 0.75;
/// The highest rate of a session, `finetune_lr`, and its SGD.
const RATE: f64 = 0.25;
const SGD: SgdConfig = SgdConfig { momentum: 0.9, dampening: 0.0, weight_decay: 5e-4, nesterov: false };

/// What NC-FSCIL has beside the backbone.
pub(super) struct NcFscil {
    store: VarStore,
    projection: NcFscilProjection,
    /// Of all classes, f32 `[classes, outputs]`.
    vertices: Tensor,
}

/// Two hidden layers, and a straight way past them.
struct NcFscilProjection {
    hidden: [(Linear, LayerNorm); 2],
    last: Linear,
    straight: Linear,
}

impl NcFscilProjection {
    /// Not of unit length, f32 `[n, outputs]`.
    fn forward(&self, features: &Tensor) -> Tensor {
        let layer = |x: Tensor, (linear, norm): &(Linear, LayerNorm)| {
            let x = norm.forward(&linear.forward(&x));
            x.maximum(&(&x * SLOPE))
        };
        let deep = self.hidden.iter().fold(features.shallow_clone(), layer);
        self.last.forward(&deep) + self.straight.forward(features)
    }
}

/// Everything random of a step.
pub(super) struct NcFscilDraw {
    views: Tensor,
    /// None where images are left as they are.
    mixture: Option<Mixture>,
}

/// How the images of a step are mixed with each other.
struct Mixture {
    /// The image that each is mixed with, i64.
    partner: Tensor,
    /// What is left of an image; the rest is its partner's.
    share: f64,
}

impl Mixture {
    /// The loss of mixed images, by that against their `own` classes and against those of their `partners`. The
    /// authors' program counts the former once more: behind both parts, `forward_train` of its classifier updates
    /// `loss` with it again, and `_parse_losses` adds everything up that is called a loss.
    fn loss(&self, own: &Tensor, partners: &Tensor) -> Tensor {
        own * (1.0 + self.share) + partners * (1.0 - self.share)
    }
}

/// A layer with the initial weights of `torch.nn.Linear`, which tch's own default are not.
fn linear<'a>(path: impl Borrow<nn::Path<'a>>, inputs: i64, outputs: i64, bias: bool) -> Linear {
    let init = linear_init(inputs);
    nn::linear(path, inputs, outputs, LinearConfig { ws_init: init, bs_init: Some(init), bias })
}

impl NcFscil {
    /// With a projection as torch begins, and vertices by the recipe's seed.
    pub fn new(model: &Model, recipe: &Recipe) -> Self {
        let (features, classes) = (model.backbone.description.features(), recipe.classes());
        let outputs = OUTPUTS.max(classes);
        let vertices = generate(TargetMethod::Simplex, classes, outputs, 0, recipe.seed);
        let vertices = Tensor::from_slice(&vertices).view([classes as i64, outputs as i64]).to_device(model.device());
        let store = VarStore::new(model.device());
        let (path, outputs) = (store.root() / "projection", outputs as i64);
        let hidden = |name: &str, inputs| {
            let path = &path / name;
            let norm = nn::layer_norm(&path / "norm", vec![2 * features], nn::LayerNormConfig::default());
            (linear(&path / "linear", inputs, 2 * features, true), norm)
        };
        let projection = NcFscilProjection {
            hidden: [hidden("first", features), hidden("second", 2 * features)],
            last: linear(&path / "last", 2 * features, outputs, false),
            straight: linear(&path / "straight", features, outputs, false),
        };
        Self { store, projection, vertices }
    }

    /// Projections of unit length, f32 `[n, outputs]`.
    fn project(&self, features: &Tensor) -> Tensor {
        unit(&self.projection.forward(features))
    }

    fn goals(&self, labels: &Tensor) -> Tensor {
        self.vertices.index_select(0, labels)
    }
}

impl Criterion for NcFscil {
    type StepDraw = NcFscilDraw;

    const OTHER_LOSS: &'static str = "dot regression";

    fn draw(&self, context: &StepContext<'_>, batch: &[usize]) -> NcFscilDraw {
        let views = context.views(batch, 1);
        let order = Tensor::randperm(batch.len() as i64, (Kind::Int64, Device::Cpu));
        let (partner, others) = (order.to_device(views.device()), |partner: &Tensor| views.index_select(0, partner));
        let chosen = uniform();
        if chosen < MIXED {
            let gamma = Tensor::from_slice(&[ALPHA; 2]).internal_standard_gamma();
            let share = gamma.double_value(&[0]) / gamma.sum(Kind::Double).double_value(&[]);
            let mixed = &views * share + others(&partner) * (1.0 - share);
            NcFscilDraw { views: mixed, mixture: Some(Mixture { partner, share }) }
        } else if chosen < MIXED + PASTED {
            // Beta(1, 1) is the uniform law.
            let (pasted, share) = pasted(&views, &others(&partner), uniform(), [uniform(), uniform()]);
            NcFscilDraw { views: pasted, mixture: Some(Mixture { partner, share }) }
        } else {
            NcFscilDraw { views, mixture: None }
        }
    }

    fn losses(
        &mut self,
        context: &StepContext<'_>,
        drawn: NcFscilDraw,
        batch: &[usize],
    ) -> Result<BatchLosses, RankError> {
        let StepContext { model, config, .. } = context;
        let NcFscilDraw { views, mixture } = drawn;
        let labels = context.labels(batch);
        let features =
            model.backbone.forward(&model.channels.normalise(&views), config.precision, ForwardMode::Training);
        let projected = self.project(&features);
        let to = |labels: &Tensor| dot_regression(&projected, &self.goals(labels), None);
        let own = to(&labels);
        let loss = match mixture {
            Some(mixture) => mixture.loss(&own, &to(&labels.index_select(0, &mixture.partner))),
            None => own,
        };
        let base = self.vertices.narrow(0, 0, model.classifier.size()[0]);
        let right = accuracy(&projected.detach().matmul(&base.tr()), &labels);
        Ok(BatchLosses::new(loss.detach().zeros_like(), loss * WEIGHT, right))
    }

    fn tensors(&self) -> Vec<(String, Tensor)> {
        store::tensors(&self.store)
    }
}

/// Images with a box of other ones in each, and the share of an image that is left of it (CutMix, Yun et al., ICCV
/// 2019): the box has the sides' share √(1 - `kept`), lies around `centre`, given as shares of height and width, and
/// ends at the border.
///
/// # Shapes
/// `images` and `others` f32 `[n, 3, h, w]`.
fn pasted(images: &Tensor, others: &Tensor, kept: f64, centre: [f64; 2]) -> (Tensor, f64) {
    let size = images.size();
    let span = |side: i64, centre: f64| {
        let (half, middle) = ((side as f64 * (1.0 - kept).sqrt()) as i64 / 2, (side as f64 * centre) as i64);
        let (from, to) = ((middle - half).max(0), (middle + half).min(side));
        (from, to - from)
    };
    let ((top, height), (left, width)) = (span(size[2], centre[0]), span(size[3], centre[1]));
    let within = |images: &Tensor| images.narrow(2, top, height).narrow(3, left, width);
    let pasted = images.copy();
    within(&pasted).copy_(&within(others));
    (pasted, 1.0 - (height * width) as f64 / (size[2] * size[3]) as f64)
}

/// Half the squared distance of cosines from 1, mean over rows that weigh so much, or all the same.
///
/// # Shapes
/// `projected` and `goals` f32 `[n, outputs]`, unit rows, `weights` f32 `[n]`; returns a scalar.
fn dot_regression(projected: &Tensor, goals: &Tensor, weights: Option<&Tensor>) -> Tensor {
    let apart = ((projected * goals).sum_dim_intlist([1].as_slice(), false, Kind::Float) - 1.0).square();
    weights.map_or_else(|| apart.mean(Kind::Float), |weights| (&apart * weights).mean(Kind::Float)) * 0.5
}

/// Weights by which all classes of a batch count the same, with the mean 1: the squares of the program's `etf_rect`.
///
/// # Shapes
/// `labels` i64 `[n]`; returns f32 `[n]`.
fn balanced(labels: &Tensor) -> Tensor {
    let counts = labels.bincount(None::<Tensor>, 0);
    let classes = counts.gt(0).sum(Kind::Float);
    let own = counts.index_select(0, labels).to_kind(Kind::Float);
    classes.reciprocal() * labels.numel() as f64 / own
}

/// NC-FSCIL in the incremental sessions, over features of a frozen backbone.
pub(super) struct NcFscilSessions<'a> {
    own: &'a NcFscil,
    embedding: &'a Embedding,
    protocol: Protocol<'a>,
    /// The projection as the base session left it.
    base: HashMap<String, Tensor>,
    /// A mean feature vector of every class seen, `[c, d]`.
    means: Tensor,
    draw: usize,
    session: usize,
}

impl<'a> NcFscilSessions<'a> {
    pub fn new(own: &'a NcFscil, embedding: &'a Embedding, protocol: Protocol<'a>) -> Self {
        let base = store::copies(own.tensors());
        let means = embedding.means.squeeze_dim(1);
        Self { own, embedding, protocol, base, means, draw: 0, session: 0 }
    }

    /// The loss of some features; in most steps of projections that are halves of two.
    fn loss(&self, features: &Tensor, labels: &Tensor) -> Tensor {
        let projected = self.own.projection.forward(features);
        let to = |projected: &Tensor, labels: &Tensor| {
            dot_regression(&unit(projected), &self.own.goals(labels), Some(&balanced(labels)))
        };
        let loss = if uniform() < HALVED {
            let partner =
                Tensor::randperm(labels.numel() as i64, (Kind::Int64, Device::Cpu)).to_device(labels.device());
            let halves = (&projected + projected.index_select(0, &partner)) * 0.5;
            (to(&halves, labels) + to(&halves, &labels.index_select(0, &partner))) * 0.5
        } else {
            to(&projected, labels)
        };
        loss * WEIGHT
    }
}

impl SessionLearner for NcFscilSessions<'_> {
    fn begin(&mut self, draw: usize) -> Result<()> {
        store::restore(self.own.tensors(), &self.base)?;
        self.means = self.embedding.means.squeeze_dim(1);
        (self.draw, self.session) = (draw, 0);
        Ok(())
    }

    fn learn(&mut self, shots: &[usize]) -> Result<()> {
        self.session += 1;
        self.protocol.seed(self.draw, self.session);
        let device = self.own.vertices.device();
        let known = self.means.size()[0];
        let own = self.embedding.shots(shots);
        let features = Tensor::cat(&[&own.squeeze_dim(1), &self.means], 0).to_device(device);
        let of_shots: Vec<i64> = labelled(shots, known).into_iter().map(|(_, class)| class).collect();
        let labels =
            Tensor::cat(&[Tensor::from_slice(&of_shots), Tensor::arange(known, (Kind::Int64, Device::Cpu))], 0);
        let labels = labels.to_device(device);

        let steps = STEPS[(self.session - 1).min(STEPS.len() - 1)];
        let schedule = Schedule { steps, warmup: 5, start: 0.1 * RATE, peak: RATE, end: 0.01 * RATE };
        let mut sgd = Sgd::new(self.own.parameters(), SGD);
        let mut progress = WorkProgress::new("session", "steps", steps as u64, 0);
        let count = labels.numel();
        let mut order = Vec::new();
        for step in 0..steps {
            interrupt::check()?;
            // What does not fill a batch is left, and all are drawn anew.
            if order.len() < BATCH.min(count) {
                order = permuted(count);
            }
            let rows: Vec<i64> = order.drain(..BATCH.min(count)).map(|row| row as i64).collect();
            let rows = Tensor::from_slice(&rows).to_device(device);
            let loss = self.loss(&features.index_select(0, &rows), &labels.index_select(0, &rows));
            check_loss(&loss)?;
            sgd.step(&gradients(&loss, sgd.parameters()), schedule.rate(step));
            progress.advance(1, "");
        }
        progress.finish();
        self.means = Tensor::cat(&[&self.means, &new_means(&own).squeeze_dim(1)], 0);
        Ok(())
    }

    fn scores(&self, rows: &Tensor) -> Tensor {
        let features = self.embedding.measured.index_select(0, rows).squeeze_dim(1);
        let vertices = self.own.vertices.narrow(0, 0, self.means.size()[0]);
        no_grad(|| self.own.project(&features.to_device(vertices.device())).matmul(&vertices.tr()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rival::tests::{data, model, protocol, recipe, values};
    use orco_trainer::run::Run;
    use orco_trials::alone::alone;

    #[test]
    fn dot_regression_is_the_distance_from_a_cosine_of_one() {
        let rows = |values: &[f32]| Tensor::from_slice(values).view([-1, 2]);
        let (projected, goals) = (rows(&[1.0, 0.0, 0.0, 1.0]), rows(&[0.6, 0.8, 0.0, 1.0]));
        // Cosines 0.6 and 1: 0.16 and 0.
        let even = dot_regression(&projected, &goals, None).double_value(&[]);
        let weighed = dot_regression(&projected, &goals, Some(&Tensor::from_slice(&[1.5f32, 0.5]))).double_value(&[]);
        assert!((even - 0.04).abs() < 1e-6 && (weighed - 0.06).abs() < 1e-6, "{even}, {weighed}");
    }

    #[test]
    fn the_classes_of_mixed_images_count_once_more() {
        let mixture = Mixture { partner: Tensor::from_slice(&[0i64]), share: 0.75 };
        let loss = mixture.loss(&Tensor::from(2.0), &Tensor::from(4.0)).double_value(&[]);
        assert_eq!(loss, 0.75 * 2.0 + 0.25 * 4.0 + 2.0);
    }

    #[test]
    fn layers_begin_as_those_of_torch() {
        let store = VarStore::new(Device::Cpu);
        for bias in [true, false] {
            let layer = linear(store.root() / "layer" / i64::from(bias), 64, 256, bias);
            let largest = |of: &Tensor| of.abs().max().double_value(&[]);
            for tensor in [Some(&layer.ws), layer.bs.as_ref()].into_iter().flatten() {
                let largest = largest(tensor);
                assert!((0.95 * 0.125..=0.125).contains(&largest), "{largest}");
            }
            assert_eq!(layer.bs.is_some(), bias);
        }
    }

    #[test]
    fn classes_of_a_batch_count_the_same() {
        let weights = values(&balanced(&Tensor::from_slice(&[0i64, 4, 0, 0])));
        let expected = [2.0 / 3.0, 2.0, 2.0 / 3.0, 2.0 / 3.0];
        assert!(weights.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{weights:?}");
    }

    #[test]
    fn a_box_ends_at_the_border_and_its_share_is_what_is_seen() {
        let (images, others) = (Tensor::zeros([2, 3, 8, 8], (Kind::Float, Device::Cpu)), 1);
        let others = &images + others;
        // Half of both sides: four by four pixels in the middle, two by two in a corner.
        for (centre, side) in [([0.5; 2], 4.0), ([0.0; 2], 2.0)] {
            let (mixed, share) = pasted(&images, &others, 0.75, centre);
            assert_eq!(share, 1.0 - side * side / 64.0);
            assert_eq!(mixed.sum(Kind::Float).double_value(&[]), 2.0 * 3.0 * side * side);
        }
        assert_eq!(images.sum(Kind::Float).double_value(&[]), 0.0, "the images stay as they are");
    }

    #[test]
    fn sessions_train_the_projection_and_another_draw_begins_anew() {
        alone("rival::nc_fscil::tests::sessions_train_the_projection_and_another_draw_begins_anew", || {
            let recipe = recipe();
            let data = data(&recipe);
            let model = model(&recipe);
            let own = NcFscil::new(&model, &recipe);
            let cosines = values(&own.vertices.matmul(&own.vertices.tr()));
            let expected = |index| if index % 11 == 0 { 1.0 } else { -1.0 / 9.0 };
            assert!(cosines.iter().enumerate().all(|(index, cosine)| (cosine - expected(index)).abs() < 1e-5));

            let folder = tempfile::tempdir().unwrap();
            let run = &Run::open(folder.path(), &recipe).unwrap();
            let protocol = protocol(&recipe, &data, run, "nc-fscil");
            let embedding = Embedding::of(&model, &data, protocol.measured(), &[0]).unwrap();
            let weights = || own.tensors().iter().map(|(_, tensor)| values(tensor)).collect::<Vec<_>>();
            let start = weights();
            let mut sessions = NcFscilSessions::new(&own, &embedding, protocol);
            sessions.begin(0).unwrap();
            let shots = protocol.shots(1, 0);
            let pulled = |sessions: &NcFscilSessions<'_>| {
                let features = embedding.shots(&shots).squeeze_dim(1);
                let labels: Vec<i64> = labelled(&shots, 6).into_iter().map(|(_, class)| class).collect();
                let goals = sessions.own.goals(&Tensor::from_slice(&labels));
                no_grad(|| dot_regression(&sessions.own.project(&features), &goals, None)).double_value(&[])
            };
            let before = pulled(&sessions);
            sessions.learn(&shots).unwrap();
            assert!(pulled(&sessions) < 0.9 * before, "{} after {before}", pulled(&sessions));
            assert_eq!((sessions.means.size()[0], sessions.session), (8, 1));
            let learned = weights();
            assert_ne!(learned, start);
            assert_eq!(sessions.scores(&Tensor::from_slice(&[0i64, 1])).size(), [2, 8]);

            sessions.begin(0).unwrap();
            assert_eq!(weights(), start);
            sessions.learn(&shots).unwrap();
            assert_eq!(weights(), learned, "the same draw gives the same");
        });
    }
}

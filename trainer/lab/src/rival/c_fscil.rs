//! C-FSCIL: constrained few-shot class-incremental learning (Hersche et al., "Constrained Few-shot Class-incremental
//! Learning", CVPR 2022), in its mode 3.
//!
//! After cross entropy on the base classes, episodes train the backbone and a fully connected layer behind it
//! ([`meta_training`]). From then on the backbone is frozen. Of every class seen one feature vector is kept; its
//! projection by the layer is the class's prototype. In every session, the base session among them, the prototypes are
//! nudged apart until they are nearly orthogonal, without going far from where they were; the layer is trained on, so
//! that the kept features come to the nudged prototypes; and new projections of them are the prototypes that images are
//! compared with. An image is answered with the prototype whose cosine has the largest magnitude. All cosines are those
//! of the projections' hyperbolic tangents.
//!
//! Settings are those of the authors' commands for CIFAR-100. In their program, the feature vector of a base class is a
//! sum: of its means in each of the batches of 128 that 200 images of every base class fill (`update_feat_replay`).
//! That of a learned class is the mean of its shots, all in one batch. So base prototypes are much longer, and their
//! hyperbolic tangents hardly move any more; the same is done here.
//!
//! Differences from the authors' program:
//!
//! - The base session trains the backbone alone, over scaled cosines and by the recipe's budget, and the layer begins
//!   with the episodes. The program trains the layer in the base session, too, below a linear classifier without a
//!   bias.
//! - Kept features are means over clean images, of a base class over all of them. The program averages one random view
//!   of each of 200 images.

mod meta_training;

use std::collections::HashMap;

use anyhow::Result;
use orco_benchmark::Summary;
use orco_lab::method::Method;
use orco_trainer::model::backbone::unit;
use orco_trainer::model::store::{self, Parameter};
use orco_trainer::platform::interrupt;
use orco_trainer::run::progress::WorkProgress;
use orco_trainer::train::optimiser::{Sgd, SgdConfig, gradients};
use tch::nn::{Init, VarStore};
use tch::{Device, Kind, Tensor, no_grad};

use self::meta_training::MetaTraining;
use super::baseline::CrossEntropy;
use super::embedding::Embedding;
use super::prototypes::new_means;
use super::{BY_CROSS_ENTROPY, RivalSpec, RivalTraining, nesterov_sgd};
use crate::sessions::{Protocol, SessionLearner, check_loss};

pub(super) static C_FSCIL: RivalSpec = RivalSpec {
    method: Method {
        name: "c-fscil",
        description: "A meta-trained layer, nudged prototypes: mode 3 (Hersche et al., CVPR 2022).",
        paper_row: Some("C-FSCIL"),
    },
    revision: 1,
    backbone: BY_CROSS_ENTROPY,
    measure,
    extra_training: Some("C-FSCIL 21 passes over the base images by episodes, a hundredth of its authors' episodes"),
};

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    training.train(&mut CrossEntropy)?;
    // The layer begins the same whether the backbone was trained now or before.
    tch::manual_seed(training.recipe.seed as i64);
    let layer = ProjectionLayer::new(training.model.backbone.description.features(), training.model.device());
    MetaTraining::new(training.model, &layer, training.recipe, &training.base).train()?;
    let embedding = training.embedding(&[0])?;
    training.protocol.run_sessions(&mut CFscilSessions::new(&layer, &embedding, training.protocol))
}

/// Length of a projection, `dim_features`.
const OUTPUTS: i64 = 512;
/// How sharply likeness is punished, `nudging_act_exp`.
const ALPHA: f64 = 4.0;
/// Steps of nudging, `nudging_iter`, their rate, and their SGD.
const NUDGING_STEPS: usize = 100;
const NUDGING_RATE: f64 = 0.1;
const NUDGING_SGD: SgdConfig = SgdConfig { momentum: 0.9, dampening: 0.0, weight_decay: 0.0, nesterov: true };
/// Steps of the layer in a session, `retrain_iter`, and their rate, `learning_rate`.
const STEPS: usize = 50;
const RATE: f64 = 0.01;
/// Images that the program takes of each base class, `num_shots`, and of all classes in a batch, `batch_size_training`.
const BASE_SHOTS: usize = 200;
const BATCH: usize = 128;

/// The fully connected layer behind the backbone.
pub(super) struct ProjectionLayer {
    store: VarStore,
    /// `[outputs, features]`.
    weight: Tensor,
    /// `[outputs]`.
    bias: Tensor,
}

impl ProjectionLayer {
    /// Uniform weights with variance 2 / (features + outputs), as the program's; seeds nothing.
    pub fn new(features: i64, device: Device) -> Self {
        let store = VarStore::new(device);
        let path = store.root() / "projection";
        let bound = (6.0 / (features + OUTPUTS) as f64).sqrt();
        let weight = path.var("weight", &[OUTPUTS, features], Init::Uniform { lo: -bound, up: bound });
        let bias = path.var("bias", &[OUTPUTS], Init::Const(0.0));
        Self { store, weight, bias }
    }

    /// Projections, f32 `[n, outputs]`, of features f32 `[n, features]`.
    fn project(&self, features: &Tensor) -> Tensor {
        features.linear(&self.weight, Some(&self.bias))
    }

    fn tensors(&self) -> Vec<(String, Tensor)> {
        store::tensors(&self.store)
    }

    fn parameters(&self) -> Vec<Parameter> {
        store::parameters(self.tensors())
    }
}

/// Unit vectors along the hyperbolic tangents of projections.
fn directions(projected: &Tensor) -> Tensor {
    unit(&projected.tanh())
}

/// Mean cosine of each row with the same row of `others`.
fn mean_cosine(projected: &Tensor, others: &Tensor) -> Tensor {
    let cosines = (directions(projected) * directions(others)).sum_dim_intlist([1].as_slice(), false, Kind::Float);
    cosines.mean(Kind::Float)
}

/// What nudging makes small: the mean over pairs of e^(alpha c) + e^(-alpha c) - 2, c the cosine of two prototypes,
/// plus the mean of 1 - cos(prototype, where it was).
///
/// # Shapes
/// `moved` and `prototypes` f32 `[c, outputs]`; returns a scalar.
fn nudging_loss(moved: &Tensor, prototypes: &Tensor) -> Tensor {
    let (count, units) = (moved.size()[0], directions(moved));
    // The upper triangle holds each pair once. The other entries are 0 and add nothing: e^0 + e^-0 - 2 = 0.
    let cosines = units.matmul(&units.tr()).triu(1);
    let likeness = (&cosines * ALPHA).exp() + (&cosines * -ALPHA).exp() - 2.0;
    let pairs = (count * (count - 1) / 2).max(1) as f64;
    likeness.sum(Kind::Float) / pairs + (1.0 - mean_cosine(moved, prototypes))
}

/// Prototypes nudged apart, at a rate.
///
/// # Errors
/// If the loss is no number, or a stop was asked for.
fn nudged(prototypes: &Tensor, rate: f64) -> Result<Tensor> {
    let moved = prototypes.copy().set_requires_grad(true);
    let parameter = Parameter { name: "prototypes".into(), tensor: moved.shallow_clone(), decays: false };
    let mut sgd = Sgd::new(vec![parameter], NUDGING_SGD);
    for _ in 0..NUDGING_STEPS {
        interrupt::check()?;
        let loss = nudging_loss(&moved, prototypes);
        check_loss(&loss)?;
        let gradients = gradients(&loss, sgd.parameters());
        sgd.step(&gradients, rate);
    }
    Ok(moved.detach())
}

/// Batches in which the program averages the images of so many base classes.
fn batches(base: usize) -> usize {
    (base * BASE_SHOTS).div_ceil(BATCH)
}

/// C-FSCIL in the incremental sessions, over features of a frozen backbone.
struct CFscilSessions<'a> {
    layer: &'a ProjectionLayer,
    embedding: &'a Embedding,
    /// The layer as the episodes left it.
    start: HashMap<String, Tensor>,
    /// Its momenta are kept from session to session.
    sgd: Sgd,
    /// Of the base classes, `[base, d]`.
    base: Tensor,
    /// A feature vector of every class seen, `[c, d]`.
    features: Tensor,
    /// What images are compared with, `[c, outputs]`.
    prototypes: Tensor,
}

impl<'a> CFscilSessions<'a> {
    fn new(layer: &'a ProjectionLayer, embedding: &'a Embedding, protocol: Protocol<'_>) -> Self {
        let start = store::copies(layer.tensors());
        let means = embedding.means.squeeze_dim(1).to_device(layer.weight.device());
        let base = means * batches(protocol.data.split.base_classes) as f64;
        let (sgd, prototypes) = (nesterov_sgd(layer.parameters()), no_grad(|| layer.project(&base)));
        Self { layer, embedding, start, sgd, features: base.shallow_clone(), base, prototypes }
    }

    /// Nudges the prototypes of all classes seen, and trains the layer to them.
    fn align(&mut self) -> Result<()> {
        let projected = no_grad(|| self.layer.project(&self.features));
        let goals = nudged(&projected, NUDGING_RATE)?;
        let mut progress = WorkProgress::new("session", "steps", STEPS as u64, 0);
        for _ in 0..STEPS {
            interrupt::check()?;
            let loss = -mean_cosine(&self.layer.project(&self.features), &goals);
            check_loss(&loss)?;
            let gradients = gradients(&loss, self.sgd.parameters());
            self.sgd.step(&gradients, RATE);
            progress.advance(1, "");
        }
        progress.finish();
        self.prototypes = no_grad(|| self.layer.project(&self.features));
        Ok(())
    }
}

impl SessionLearner for CFscilSessions<'_> {
    fn begin(&mut self, _: usize) -> Result<()> {
        store::restore(self.layer.tensors(), &self.start)?;
        self.sgd = nesterov_sgd(self.layer.parameters());
        self.features = self.base.shallow_clone();
        self.align()
    }

    fn learn(&mut self, shots: &[usize]) -> Result<()> {
        let means = new_means(&self.embedding.shots(shots)).squeeze_dim(1);
        self.features = Tensor::cat(&[&self.features, &means.to_device(self.features.device())], 0);
        self.align()
    }

    fn scores(&self, rows: &Tensor) -> Tensor {
        let features = self.embedding.measured.index_select(0, rows).squeeze_dim(1);
        let projected = self.layer.project(&features.to_device(self.prototypes.device()));
        directions(&projected).matmul(&directions(&self.prototypes).tr()).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rival::tests::{data, model, protocol, recipe, values};
    use orco_trainer::run::Run;
    use orco_trials::alone::alone;

    /// Projections whose hyperbolic tangents have these angles, in degrees, and the length 0.8.
    fn at_angles(degrees: &[f32]) -> Tensor {
        let row = |angle: &f32| [angle.to_radians().cos(), angle.to_radians().sin()].map(|x| (0.8 * x).atanh());
        Tensor::from_slice(&degrees.iter().flat_map(row).collect::<Vec<f32>>()).view([-1, 2])
    }

    fn cosine(projected: &Tensor) -> f64 {
        let units = directions(projected);
        units.matmul(&units.tr()).double_value(&[0, 1])
    }

    #[test]
    fn the_nudging_loss_is_likeness_and_distance() {
        // Prototypes 60 degrees apart that were 90 degrees apart: c = 1/2, and each has moved by 15 degrees.
        let loss = nudging_loss(&at_angles(&[15.0, 75.0]), &at_angles(&[0.0, 90.0])).double_value(&[]);
        let expected = 2f64.exp() + (-2f64).exp() - 2.0 + 1.0 - 15f64.to_radians().cos();
        assert!((loss - expected).abs() < 1e-4, "{loss}, not {expected}");
    }

    #[test]
    fn prototypes_are_nudged_to_right_angles_from_either_side() {
        // Symmetric, so both turn by the same angle d; the loss is least where their cosine is sin d / 64 = 0.004.
        for (degrees, expected) in [([15.0, 75.0], 0.004), ([-15.0, 105.0], -0.004)] {
            let moved = nudged(&at_angles(&degrees), 0.005).unwrap();
            assert!((cosine(&moved) - expected).abs() < 5e-4, "{}", cosine(&moved));
            let moved = values(&moved);
            assert!((moved[0] - moved[3]).abs() < 1e-4 && (moved[1] - moved[2]).abs() < 1e-4, "{moved:?}");
        }
        let lone = at_angles(&[30.0]);
        assert!(values(&(nudged(&lone, 0.005).unwrap() - &lone)).iter().all(|apart| apart.abs() < 1e-5));
    }

    #[test]
    fn the_layer_begins_as_that_of_the_authors_program() {
        let layer = ProjectionLayer::new(256, Device::Cpu);
        let largest = layer.weight.abs().max().double_value(&[]);
        // √(6 / 768) = 0.0884.
        assert!((0.088..0.0884).contains(&largest), "{largest}");
        assert_eq!(layer.bias.abs().max().double_value(&[]), 0.0);
        assert_eq!(layer.tensors().len(), 2);
    }

    #[test]
    fn base_features_add_up_over_the_batches_of_the_authors_program() {
        // 12,000 images: 93 full batches and 96 images more.
        assert_eq!([batches(60), batches(1)], [94, 2]);
    }

    #[test]
    fn sessions_train_the_layer_and_another_draw_begins_anew() {
        alone("rival::c_fscil::tests::sessions_train_the_layer_and_another_draw_begins_anew", || {
            let recipe = recipe();
            let data = data(&recipe);
            let model = model(&recipe);
            let layer = ProjectionLayer::new(model.backbone.description.features(), Device::Cpu);
            let folder = tempfile::tempdir().unwrap();
            let run = &Run::open(folder.path(), &recipe).unwrap();
            let protocol = protocol(&recipe, &data, run, "c-fscil");
            let embedding = Embedding::of(&model, &data, protocol.measured(), &[0]).unwrap();
            let weights = || layer.tensors().iter().map(|(_, tensor)| values(tensor)).collect::<Vec<_>>();
            let start = weights();
            let mut sessions = CFscilSessions::new(&layer, &embedding, protocol);
            sessions.begin(0).unwrap();
            let base = weights();
            assert_ne!(base, start, "the base session's prototypes are nudged, too");
            let shots = protocol.shots(1, 0);
            sessions.learn(&shots).unwrap();
            let learned = weights();
            assert_ne!(learned, base);
            assert_eq!((sessions.features.size()[0], sessions.prototypes.size()), (8, vec![8, OUTPUTS]));
            let scores = no_grad(|| sessions.scores(&Tensor::from_slice(&[0i64, 1])));
            assert_eq!(scores.size(), [2, 8]);
            assert!(values(&scores).iter().all(|score| (0.0..1.0 + 1e-5).contains(score)));

            sessions.begin(0).unwrap();
            assert_eq!(weights(), base);
            sessions.learn(&shots).unwrap();
            assert_eq!(weights(), learned, "the same draw gives the same");
        });
    }
}

//! LCwoF: learning and calibration without forgetting (Kukleva et al., "Generalized and Incremental Few-Shot Learning
//! by Explicit Learning and Calibration without Forgetting", ICCV 2021).
//!
//! Cross entropy on the base classes is its first phase; every session has two more. The second trains the new classes'
//! rows of the classifier and the last stage of the backbone on the shots alone; the classes before stay in the
//! denominator of the cross entropy (base-normalised), and the last stage is held where it was (weight constraint). The
//! third, calibration, trains all rows and the last stage on the shots and on one exemplar of each class before.
//!
//! Settings are those of the published program for five shots of mini-ImageNet. It plays one session: that the last
//! stage is held where the session before left it, and that a learned class is remembered by one exemplar as a base
//! class is, is ours. Logits are scaled cosines as the other rivals', there inner products. The weight constraint is
//! taken as a proximal step after the other gradients are clipped: as a gradient, which is clipped with them there, it
//! overshoots at the second phase's rate. Gradients are clipped by the norm of those that are taken; there, those of
//! layers that nothing trains add up in the norm. The backbone has no dropout.

use anyhow::Result;
use orco_benchmark::Summary;
use orco_lab::method::Method;
use orco_trainer::config::SHOTS;
use orco_trainer::model::Model;
use orco_trainer::model::store::Parameter;
use orco_trainer::platform::interrupt;
use orco_trainer::run::progress::WorkProgress;
use orco_trainer::train::optimiser::{Sgd, SgdConfig, gradients, step_groups};
use tch::{Kind, Tensor, no_grad};

use super::baseline::CrossEntropy;
use super::branch::Branch;
use super::cosine::logits;
use super::draw::permuted;
use super::embedding::rows_of_classes;
use super::{BY_CROSS_ENTROPY, RivalSpec, RivalTraining};
use crate::sessions::{Protocol, SessionLearner, check_loss, labelled};

pub(super) static LCWOF: RivalSpec = RivalSpec {
    method: Method {
        name: "lcwof",
        description: "Every session learns, then calibrates (Kukleva et al., ICCV 2021).",
        paper_row: Some("LCwoF"),
    },
    revision: 1,
    backbone: BY_CROSS_ENTROPY,
    measure,
    extra_training: Some("LCwoF 150 and 200 epochs in each session, those of its authors' only one"),
};

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    training.train(&mut CrossEntropy)?;
    training.protocol.run_sessions(&mut Lcwof::new(training.model, training.protocol)?)
}

/// How a phase of a session trains.
struct SessionPhase {
    epochs: usize,
    /// Learning rate of rows.
    rate: f64,
    /// Weight of cross entropy.
    weight: f64,
}

/// The second phase: `lr`, `crt_epoch`.
const LEARNING: SessionPhase = SessionPhase { epochs: 150, rate: 1e-2, weight: 1.0 };
/// The third: `crt_lr`, `ep_plus`, `ce_ft3_lymbda`.
const CALIBRATION: SessionPhase = SessionPhase { epochs: 200, rate: 1e-3, weight: 0.1 };
/// Share of the learning rate that the last stage has.
const SHARE: f64 = 0.1;
/// Images in a step.
const BATCH: usize = 16;
/// Weight of the constraint, `l2_weight`.
const CONSTRAINT: f64 = 5e3;
/// Largest norm of all gradients together, `clip`.
const CLIP: f64 = 100.0;
/// The program's SGD.
const SGD: SgdConfig = SgdConfig { momentum: 0.9, dampening: 0.0, weight_decay: 1e-4, nesterov: false };

/// LCwoF in the incremental sessions.
pub(super) struct Lcwof<'a> {
    branch: Branch<'a>,
    /// The classifier's rows: of the base classes as the base session left them, and of all classes seen, `[c, d]`.
    base: Tensor,
    rows: Tensor,
    /// An exemplar of each class seen, and its class.
    exemplars: Vec<(usize, i64)>,
}

impl<'a> Lcwof<'a> {
    /// Begins as the base session left the model.
    ///
    /// # Errors
    /// If a stop was asked for.
    pub fn new(model: &'a Model, protocol: Protocol<'a>) -> Result<Self> {
        let base = model.classifier.detach().copy();
        Ok(Self { rows: base.shallow_clone(), base, exemplars: Vec::new(), branch: Branch::new(model, protocol)? })
    }

    /// One training image of each base class, chosen at random.
    fn base_exemplars(&self) -> Vec<(usize, i64)> {
        let Protocol { data, .. } = self.branch.protocol;
        let base = &data.split.base;
        let classes = rows_of_classes(&data.train.select_labels(base), data.split.base_classes as i64);
        let chosen = |rows: Tensor| base[rows.int64_value(&[permuted(rows.numel())[0] as i64]) as usize];
        (0..).zip(classes).map(|(class, rows)| (chosen(rows), class)).collect()
    }

    /// The last stage as it is now.
    fn stage(&self) -> Vec<Tensor> {
        self.branch.trained().iter().map(|parameter| parameter.tensor.detach().copy()).collect()
    }

    /// Trains the last stage and the classifier's rows from `first` on, by images with their classes. The last stage is
    /// held where it was `before` the session.
    fn train(
        &mut self,
        phase: &SessionPhase,
        samples: &[(usize, i64)],
        first: i64,
        before: &[Tensor],
        progress: &mut WorkProgress,
    ) -> Result<()> {
        let Branch { model, .. } = self.branch;
        let fixed = self.rows.narrow(0, 0, first);
        let own = self.rows.narrow(0, first, self.rows.size()[0] - first).copy().set_requires_grad(true);
        let rows = Parameter { name: "rows".into(), tensor: own.shallow_clone(), decays: true };
        let (mut stage, mut rows) = (Sgd::new(self.branch.trained(), SGD), Sgd::new(vec![rows], SGD));
        for _ in 0..phase.epochs {
            for batch in permuted(samples.len()).chunks(BATCH) {
                interrupt::check()?;
                let (images, labels): (Vec<usize>, Vec<i64>) = batch.iter().map(|&sample| samples[sample]).unzip();
                let features = self.branch.features(&model.backbone, &self.branch.hidden(&images));
                let logits = logits(&features, &Tensor::cat(&[&fixed, &own], 0));
                let labels = Tensor::from_slice(&labels).to_device(model.device());
                let loss = logits.cross_entropy_for_logits(&labels) * phase.weight;
                check_loss(&loss)?;
                let mut gradients = gradients(&loss, stage.parameters().iter().chain(rows.parameters()));
                clip(&mut gradients);
                step_groups([(&mut stage, phase.rate * SHARE), (&mut rows, phase.rate)], &gradients);
                hold(stage.parameters(), before, phase.rate * SHARE);
                progress.advance(1, "");
            }
        }
        self.rows = Tensor::cat(&[&fixed, &own.detach()], 0);
        Ok(())
    }
}

/// Shortens gradients, all together, to a norm of at most [`CLIP`].
fn clip(gradients: &mut [Tensor]) {
    no_grad(|| {
        let defined = || gradients.iter().filter(|gradient| gradient.defined());
        let squares: Vec<Tensor> = defined().map(|gradient| gradient.square().sum(Kind::Float)).collect();
        let norm = Tensor::stack(&squares, 0).sum(Kind::Float).sqrt().double_value(&[]);
        if norm > CLIP {
            let defined = gradients.iter_mut().filter(|gradient| gradient.defined());
            defined.for_each(|gradient| *gradient = &*gradient * (CLIP / norm));
        }
    });
}

/// Pulls weights back after a step at `rate`: the proximal step of [`CONSTRAINT`] times the squared distance from
/// `before`. With momentum, a gradient of the loss moves weights 1 / (1 - momentum) times as far as one step. The pull
/// is scaled by the same factor, so that weights come to rest where the gradients of loss and constraint cancel.
fn hold(weights: &[Parameter], before: &[Tensor], rate: f64) {
    let pull = 2.0 * rate * CONSTRAINT / (1.0 - SGD.momentum);
    no_grad(|| {
        for (weight, before) in weights.iter().zip(before) {
            let mut tensor = weight.tensor.shallow_clone();
            tensor.copy_(&((&tensor + before * pull) / (1.0 + pull)));
        }
    });
}

impl SessionLearner for Lcwof<'_> {
    fn begin(&mut self, draw: usize) -> Result<()> {
        self.branch.begin(draw);
        self.rows = self.base.copy();
        self.exemplars = self.base_exemplars();
        Ok(())
    }

    fn learn(&mut self, shots: &[usize]) -> Result<()> {
        self.branch.enter();
        let size = self.rows.size();
        let (known, width) = (size[0], size[1]);
        let new = (shots.len() / SHOTS) as i64;
        let bound = 1.0 / (width as f64).sqrt();
        let fresh = Tensor::empty([new, width], (Kind::Float, self.rows.device())).uniform_(-bound, bound);
        self.rows = Tensor::cat(&[&self.rows, &fresh], 0);

        let shots = labelled(shots, known);
        let all = [shots.as_slice(), &self.exemplars].concat();
        let steps = |phase: &SessionPhase, samples: usize| (phase.epochs * samples.div_ceil(BATCH)) as u64;
        let total = steps(&LEARNING, shots.len()) + steps(&CALIBRATION, all.len());
        let mut progress = WorkProgress::new("session", "steps", total, 0);
        let before = self.stage();
        self.train(&LEARNING, &shots, known, &before, &mut progress)?;
        self.train(&CALIBRATION, &all, 0, &before, &mut progress)?;
        progress.finish();
        let of_class = |class: i64| shots[class as usize * SHOTS + permuted(SHOTS)[0]];
        self.exemplars.extend((0..new).map(of_class));
        self.branch.measure()
    }

    fn scores(&self, rows: &Tensor) -> Tensor {
        let features = self.branch.by_branch.index_select(0, rows).to_device(self.rows.device());
        logits(&features, &self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rival::tests::{data, model, protocol, recipe, values};
    use orco_trainer::run::Run;
    use orco_trials::alone::alone;

    #[test]
    fn gradients_are_shortened_together() {
        let mut gradients = [Tensor::from_slice(&[60.0f32]), Tensor::new(), Tensor::from_slice(&[80.0f32])];
        clip(&mut gradients);
        assert_eq!([values(&gradients[0]), values(&gradients[2])], [[60.0], [80.0]], "a norm of 100 is the largest");
        gradients[0] *= 3.0;
        gradients[2] *= 3.0;
        clip(&mut gradients);
        assert!((values(&gradients[0])[0] - 60.0).abs() < 1e-4 && (values(&gradients[2])[0] - 80.0).abs() < 1e-4);
    }

    #[test]
    fn weights_rest_where_loss_and_constraint_are_even() {
        // The loss -5000 w and the constraint 5000 (w - 1)² have even gradients at w = 1.5, whatever the rate.
        for rate in [1e-3, 1e-4] {
            let weight = || Parameter { name: "w".into(), tensor: Tensor::from_slice(&[1.0f32]), decays: false };
            let mut sgd = Sgd::new(vec![weight()], SGD);
            for _ in 0..500 {
                sgd.step(&[Tensor::from_slice(&[-5000.0f32])], rate);
                hold(sgd.parameters(), &[Tensor::from_slice(&[1.0f32])], rate);
            }
            let rests = values(&sgd.parameters()[0].tensor)[0];
            assert!((rests - 1.5).abs() < 1e-3, "{rests}");
        }
    }

    #[test]
    fn learning_trains_new_rows_calibration_trains_all() {
        alone("rival::lcwof::tests::learning_trains_new_rows_calibration_trains_all", || {
            let recipe = recipe();
            let data = data(&recipe);
            let model = model(&recipe);
            let folder = tempfile::tempdir().unwrap();
            let run = &Run::open(folder.path(), &recipe).unwrap();
            let protocol = protocol(&recipe, &data, run, "lcwof");
            let mut lcwof = Lcwof::new(&model, protocol).unwrap();
            let weights = || weights(&model);
            let start = weights();
            lcwof.begin(0).unwrap();
            assert_eq!(lcwof.exemplars.len(), 6);
            let is_of_its_class = |&(image, class): &(usize, i64)| i64::from(data.train.labels[image]) == class;
            assert!(lcwof.exemplars.iter().all(is_of_its_class));

            let shots = protocol.shots(1, 0);
            let mut progress = WorkProgress::new("session", "steps", 1, 0);
            lcwof.rows = Tensor::cat(&[&lcwof.base, &lcwof.base.narrow(0, 0, 2)], 0);
            let before = lcwof.stage();
            lcwof.train(&LEARNING, &labelled(&shots, 6), 6, &before, &mut progress).unwrap();
            assert_eq!(values(&lcwof.rows.narrow(0, 0, 6)), values(&lcwof.base), "rows of classes before stay");
            assert_ne!(values(&lcwof.rows.narrow(0, 6, 2)), values(&lcwof.base.narrow(0, 0, 2)));
            assert_ne!(weights(), start);

            lcwof.begin(0).unwrap();
            assert_eq!(weights(), start, "another draw begins as the base session ended");
            lcwof.learn(&shots).unwrap();
            assert_eq!((lcwof.rows.size()[0], lcwof.exemplars.len()), (8, 8));
            assert_ne!(values(&lcwof.rows.narrow(0, 0, 6)), values(&lcwof.base), "calibration moves them");
            assert!(lcwof.exemplars[6..].iter().all(is_of_its_class));
            assert_eq!(lcwof.scores(&Tensor::from_slice(&[0i64, 1])).size(), [2, 8]);
        });
    }

    /// All weights of the model, in order of their names.
    fn weights(model: &Model) -> Vec<Vec<f32>> {
        let tensors = model.tensors();
        tensors.iter().filter(|(_, tensor)| tensor.is_floating_point()).map(|(_, tensor)| values(tensor)).collect()
    }
}

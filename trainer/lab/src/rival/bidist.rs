//! BiDist: class-aware bilateral distillation (Zhao et al., "Few-Shot Class-Incremental Learning via Class-Aware
//! Bilateral Distillation", CVPR 2023).
//!
//! After cross entropy on the base classes, every session trains a branch on its shots and on one exemplar of each
//! class before: the last stage of the backbone and all prototypes. Two teachers hold it: the backbone of the base
//! session, which knows the base classes, and the branch before the session, which knows the classes learned since; for
//! a learned class, a small network says from its likeness to the base classes how much the former counts. Answers come
//! from both the base backbone and the branch, weighed for each image by another small network.
//!
//! The authors published the program for mini-ImageNet alone; settings are those of its command. Prototypes begin as
//! means of unit features. The scale of cosines is learned in the base session, from 10, and stays in the others.

mod learned_scale;
mod step;

use anyhow::Result;
use orco_benchmark::Summary;
use orco_lab::method::Method;
use orco_trainer::config::{HeadConfig, Precision};
use orco_trainer::model::backbone::{ForwardMode, Network, ProjectionHead, unit};
use orco_trainer::model::store::Parameter;
use orco_trainer::model::{Model, store};
use orco_trainer::platform::interrupt;
use orco_trainer::train::optimiser::{gradients, step_groups};
use tch::nn::VarStore;
use tch::{Kind, Tensor, no_grad};

use self::learned_scale::LearnedScale;
use self::step::{BidistStep, both, merged};
use super::branch::{Branch, copied};
use super::cosine::cosines;
use super::draw::{drawn, permuted};
use super::embedding::{class_means, features};
use super::nesterov_sgd;
use super::prototypes::new_means;
use super::{RivalBackbone, RivalSpec, RivalTraining};
use crate::sessions::{Protocol, SessionLearner, check_loss, labelled};

pub(super) static BIDIST: RivalSpec = RivalSpec {
    method: Method {
        name: "bidist",
        description: "Two branches and two teachers in every session (Zhao et al., CVPR 2023).",
        paper_row: Some("BiDist"),
    },
    revision: 3,
    backbone: RivalBackbone { name: "cross-entropy-with-scale", revision: 1 },
    measure,
    extra_training: Some("BiDist its authors' 100 steps in each session"),
};

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    let mut criterion = LearnedScale::new(training.model.device());
    training.train(&mut criterion)?;
    training.protocol.run_sessions(&mut Bidist::new(training.model, training.protocol, criterion.value())?)
}

/// Steps of a session, `--ft_iters`.
const STEPS: usize = 100;
/// Learning rate of the branch, and of the small networks: `--ft_lr`, `--BC_lr`, `--EMA_FC_lr`.
const RATE: f64 = 0.001;
const SMALL_RATE: f64 = 0.01;
/// Exemplars in a step: of base classes in the first session, half of them of learned ones later, each drawn with
/// replacement (`--batch_size_exemplar`).
const EXEMPLARS: usize = 50;
/// The small networks: a hidden layer, two outputs.
const SMALL: HeadConfig = HeadConfig { hidden: 64, projection: 2 };

/// BiDist in the incremental sessions.
pub(super) struct Bidist<'a> {
    branch: Branch<'a>,
    /// What cosines are multiplied by to be logits.
    scale: f64,
    /// The backbone before the session at hand.
    before: (VarStore, Network),
    /// Means of the base classes, and of all classes seen, by the base backbone: `[c, d]`.
    base_means: Tensor,
    base_weights: Tensor,
    /// Prototypes of the branch, `[seen, d]`.
    weights: Tensor,
    /// Images and classes of exemplars: of base classes, and of those learned.
    base_exemplars: Vec<(usize, i64)>,
    learned: Vec<(usize, i64)>,
    /// Says which branch counts.
    selector: Option<(VarStore, ProjectionHead)>,
}

impl<'a> Bidist<'a> {
    /// Computes means, features and exemplars by the model as the base session left it.
    ///
    /// # Errors
    /// If a stop was asked for.
    pub fn new(model: &'a Model, protocol: Protocol<'a>, scale: f64) -> Result<Self> {
        let (train, split) = (&protocol.data.train, &protocol.data.split);
        let branch = Branch::new(model, protocol)?;
        let base = features(model, train, &split.base)?;
        let labels = train.select_labels(&split.base);
        let means = class_means(&unit(&base).unsqueeze(1), &labels, split.base_classes as i64).squeeze_dim(1);
        let nearest = nearest_of_each(&base, &labels, &means);
        let base_exemplars = nearest.into_iter().map(|(row, class)| (split.base[row], class)).collect();
        let means = means.to_device(model.device());
        Ok(Self {
            before: copied(model),
            base_weights: means.shallow_clone(),
            weights: means.shallow_clone(),
            base_means: means,
            base_exemplars,
            learned: Vec::new(),
            selector: None,
            scale,
            branch,
        })
    }

    /// Means of unit features of the shots of each class by a network, `[classes, d]`.
    fn means(&self, network: &Network, shots: &[usize]) -> Tensor {
        let Branch { protocol, model, .. } = &self.branch;
        let images = protocol.data.train.batch(shots, model.device());
        let input = model.channels.normalise(&images);
        let features = no_grad(|| network.forward(&input, Precision::F32, ForwardMode::Inference));
        new_means(&unit(&features).unsqueeze(1)).squeeze_dim(1)
    }

    /// Trains the branch on a session's shots; `weights` and `base_weights` have rows for its classes already.
    fn fine_tune(&mut self, shots: &[(usize, i64)]) -> Result<()> {
        let (base, known) = (self.base_means.size()[0], self.weights.size()[0]);
        let device = self.branch.model.device();
        let mut small = VarStore::new(device);
        let selector = ProjectionHead::new(&(small.root() / "selector"), 2 * known, &SMALL);
        let trust = ProjectionHead::new(&(small.root() / "trust"), base, &SMALL);
        let before = self.weights.copy();
        let weights = self.weights.copy().set_requires_grad(true);
        let mut trained = self.branch.trained();
        trained.push(Parameter { name: "weights".into(), tensor: weights.shallow_clone(), decays: true });
        let mut groups =
            [(nesterov_sgd(trained), RATE), (nesterov_sgd(store::parameters(store::tensors(&small))), SMALL_RATE)];
        let likeness = unit(&self.base_weights.narrow(0, base, known - base)).matmul(&unit(&self.base_means).tr());
        for _ in 0..STEPS {
            interrupt::check()?;
            let (images, labels): (Vec<usize>, Vec<i64>) =
                step_images(shots, &self.base_exemplars, &self.learned).into_iter().unzip();
            let branch = &self.branch;
            let (hidden, labels) = (branch.hidden(&images), Tensor::from_slice(&labels).to_device(device));
            let logits = |features: &Tensor, rows: &Tensor| cosines(features, rows) * self.scale;
            let student = logits(&branch.features(&branch.model.backbone, &hidden), &weights);
            let of = |network: &Network, rows| no_grad(|| logits(&branch.features(network, &hidden), rows));
            let (by_base, by_before) = (of(&branch.base.1, &self.base_weights), of(&self.before.1, &before));
            let new = shots.len() as i64;
            let loss = BidistStep { student, by_base, by_before, labels, new, base, first: self.learned.is_empty() }
                .loss(&|rows| trust.forward(rows), &|rows| selector.forward(rows), &likeness);
            check_loss(&loss)?;
            let gradients = gradients(&loss, groups.iter().flat_map(|(group, _)| group.parameters()));
            step_groups(groups.iter_mut().map(|(group, rate)| (group, *rate)), &gradients);
        }
        small.freeze();
        self.weights = weights.detach();
        self.selector = Some((small, selector));
        Ok(())
    }
}

/// Images of a step with their classes: the session's shots in random order, since the last of them are distilled, then
/// exemplars of base classes and of `learned` ones.
fn step_images(shots: &[(usize, i64)], base: &[(usize, i64)], learned: &[(usize, i64)]) -> Vec<(usize, i64)> {
    let mut images: Vec<_> = permuted(shots.len()).into_iter().map(|row| shots[row]).collect();
    let of_base = if learned.is_empty() { EXEMPLARS } else { EXEMPLARS / 2 };
    images.extend(drawn(base.len(), of_base).into_iter().map(|row| base[row]));
    if !learned.is_empty() {
        images.extend(drawn(learned.len(), EXEMPLARS - of_base).into_iter().map(|row| learned[row]));
    }
    images
}

/// Row and class of the row of each class that is most like its class's mean.
fn nearest_of_each(features: &Tensor, labels: &Tensor, means: &Tensor) -> Vec<(usize, i64)> {
    let own =
        (unit(features) * unit(means).index_select(0, labels)).sum_dim_intlist([1].as_slice(), false, Kind::Float);
    let best = |class: i64| {
        let others = labels.not_equal(class);
        own.masked_fill(&others, f64::NEG_INFINITY).argmax(0, false).int64_value(&[]) as usize
    };
    (0..means.size()[0]).map(|class| (best(class), class)).collect()
}

impl SessionLearner for Bidist<'_> {
    fn begin(&mut self, draw: usize) -> Result<()> {
        self.branch.begin(draw);
        store::copy(self.branch.model.tensors(), &self.before.0.variables());
        (self.weights, self.base_weights) = (self.base_means.copy(), self.base_means.copy());
        self.learned.clear();
        self.selector = None;
        Ok(())
    }

    fn learn(&mut self, shots: &[usize]) -> Result<()> {
        self.branch.enter();
        let Branch { protocol, model, .. } = self.branch;
        let known = self.weights.size()[0];
        self.weights = Tensor::cat(&[&self.weights, &self.means(&model.backbone, shots)], 0);
        self.base_weights = Tensor::cat(&[&self.base_weights, &self.means(&self.branch.base.1, shots)], 0);
        self.fine_tune(&labelled(shots, known))?;

        let features = model.features(&protocol.data.train, shots, |images| images);
        let (_, classes): (Vec<usize>, Vec<i64>) = labelled(shots, 0).into_iter().unzip();
        let classes = Tensor::from_slice(&classes).to_device(features.device());
        let rows = self.weights.narrow(0, known, self.weights.size()[0] - known);
        let nearest = nearest_of_each(&features, &classes, &rows);
        self.learned.extend(nearest.into_iter().map(|(row, class)| (shots[row], known + class)));
        store::copy(model.tensors(), &self.before.0.variables());
        self.branch.measure()
    }

    fn scores(&self, rows: &Tensor) -> Tensor {
        let device = self.branch.model.device();
        let of = |features: &Tensor, weights| {
            cosines(&features.index_select(0, rows).to_device(device), weights) * self.scale
        };
        let by_base = of(&self.branch.by_base, &self.base_weights);
        let Some((_, selector)) = &self.selector else { return by_base };
        let branch = of(&self.branch.by_branch, &self.weights);
        merged(&by_base, &branch, &selector.forward(&both(&by_base, &branch)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rival::tests::rows;

    #[test]
    fn the_exemplar_of_a_class_is_the_image_most_like_its_mean() {
        let features = rows(&[1.0, 1.0, 0.0, 3.0, 2.0, 0.1, 0.5, 1.0]);
        let found = nearest_of_each(&features, &Tensor::from_slice(&[0i64, 1, 0, 1]), &rows(&[1.0, 0.0, 0.0, 1.0]));
        assert_eq!(found, [(2, 0), (1, 1)]);
    }

    #[test]
    fn half_of_the_exemplars_are_of_learned_classes_however_few_there_are() {
        let shots = labelled(&[500; 25], 65);
        let of = |classes: std::ops::Range<i64>| classes.map(|class| (class as usize, class)).collect::<Vec<_>>();
        let counts = |learned: &[(usize, i64)]| {
            let images = step_images(&shots, &of(0..60), learned);
            let of_base = images.iter().filter(|(_, class)| *class < 60).count();
            assert!(images[25..].iter().all(|(image, class)| *image as i64 == *class), "{images:?}");
            [of_base, images.len() - 25 - of_base]
        };
        assert_eq!([counts(&[]), counts(&of(60..65)), counts(&of(60..80))], [[50, 0], [25, 25], [25, 25]]);
    }

    #[test]
    fn every_step_has_all_shots_in_another_order() {
        let shots = labelled(&(0..25).collect::<Vec<_>>(), 60);
        let steps: Vec<_> = (0..20).map(|_| step_images(&shots, &[(100, 0)], &[])[..25].to_vec()).collect();
        let mut last: Vec<i64> = steps.iter().flat_map(|step| step[20..].iter().map(|(_, class)| *class)).collect();
        last.sort_unstable();
        last.dedup();
        assert_eq!(last, [60, 61, 62, 63, 64], "the five that are distilled are of any class");
        for mut step in steps {
            step.sort_unstable();
            assert_eq!(step, shots);
        }
    }
}

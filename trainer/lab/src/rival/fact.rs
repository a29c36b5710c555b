//! FACT: forward compatible training (Zhou et al., "Forward Compatible Few-Shot Class-Incremental Learning", CVPR
//! 2022).
//!
//! Beside the base classes' prototypes there are virtual ones, one for each class to come. An image's second answer is
//! to be the nearest virtual prototype, and so is the first answer of a mixture of two classes' hidden images, whose
//! second is to be a base class: that keeps space between the base classes. In incremental sessions a class answers by
//! its mean, and a tenth of the answer comes by way of the virtual prototypes.
//!
//! This follows the authors' program, with the settings of its command for CIFAR-100: all three losses that reserve
//! space have one weight, cross entropy is over the base classes alone, images pull virtual prototypes by their
//! mixtures only. Each virtual prototype is allowed to three random base classes; of an image's cosines with those that
//! its class is not allowed the program makes 0 before it takes the largest. A mixture may have any of them. The
//! program copies the virtual prototypes to the GPU twice, so mixtures move one copy and images are compared with the
//! other, which stays as it began; the same is done here. What it computes twice of a batch is computed once: there,
//! batch norm counts a batch as often, so mixtures weigh less in its statistics.

use std::f64::consts::FRAC_PI_2;

use anyhow::Result;
use orco_benchmark::Summary;
use orco_lab::method::Method;
use orco_trainer::config::Recipe;
use orco_trainer::model::backbone::{Description, ForwardMode, unit};
use orco_trainer::model::{Model, store};
use orco_trainer::platform::distributed::RankError;
use orco_trainer::train::loss::MASKED_LOGIT;
use orco_trainer::train::pretrain::{BatchLosses, Criterion, StepContext, accuracy};
use tch::nn::{self, Init, VarStore};
use tch::{Device, Kind, Tensor, no_grad};

use super::cosine::logits;
use super::draw::uniform;
use super::prototypes::PrototypeClassifier;
use super::{RivalBackbone, RivalSpec, RivalTraining};

pub(super) static FACT: RivalSpec = RivalSpec {
    method: Method {
        name: "fact",
        description: "Virtual prototypes reserve space (Zhou et al., CVPR 2022).",
        paper_row: Some("FACT"),
    },
    revision: 2,
    backbone: RivalBackbone { name: "fact", revision: 2 },
    measure,
    extra_training: None,
};

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    let mut fact = Fact::new(training.model, training.recipe);
    training.train(&mut fact)?;
    training.measure_by_means(&[0], &fact)
}

/// Weight of the losses that reserve space, `-balance`.
const BALANCE: f64 = 0.001;
/// Share of the answer that comes by way of the virtual prototypes, `-eta`.
const ETA: f64 = 0.1;
/// Base classes that each virtual prototype is allowed to, `masknum`.
const ALLOWED: i64 = 3;
/// Virtual prototypes that an answer goes by, the nearest ones.
const NEAREST: i64 = 40;

/// What FACT has beside the model, whose classifier holds the base classes' prototypes.
pub(super) struct Fact {
    store: VarStore,
    /// `[classes to come, d]`.
    virtuals: Tensor,
    /// As they began.
    first_virtuals: Tensor,
    /// 1 where a base class is allowed a virtual prototype, else 0, `[base, classes to come]`.
    allowed: Tensor,
}

/// Everything random of a step.
pub(super) struct FactDraw {
    views: Tensor,
    /// Of the first image in a mixture: Beta(1/2, 1/2), `-alpha 0.5`.
    share: f64,
    /// With whom each image is mixed, i64.
    partner: Tensor,
}

impl Fact {
    /// Prototypes that are orthogonal, as far as there are dimensions: those of the base classes go to the model. Draws
    /// which base classes each virtual one is allowed to.
    pub fn new(model: &Model, recipe: &Recipe) -> Self {
        let (base, classes) = (recipe.split.base_classes as i64, recipe.classes() as i64);
        let features = model.backbone.description.features();
        let orthogonal = Init::Orthogonal { gain: 1.0 };
        let all = no_grad(|| nn::init(orthogonal, &[classes, features], model.device()));
        let (own, to_come) = (all.narrow(0, 0, base), all.narrow(0, base, classes - base));
        no_grad(|| model.classifier.shallow_clone().copy_(&own));
        let store = VarStore::new(model.device());
        let path = store.root() / "fact";
        let virtuals = path.var_copy("virtual", &to_come);
        let mut first_virtuals = path.zeros_no_train("first_virtual", &to_come.size());
        no_grad(|| first_virtuals.copy_(&to_come));
        let mut allowed = path.zeros_no_train("allowed", &[base, classes - base]);
        no_grad(|| allowed.copy_(&drawn_allowed(base, classes - base)));
        Self { store, virtuals, first_virtuals, allowed }
    }
}

impl Criterion for Fact {
    type StepDraw = FactDraw;

    const OTHER_LOSS: &'static str = "reserve";

    fn draw(&self, context: &StepContext<'_>, batch: &[usize]) -> FactDraw {
        let views = context.views(batch, 1);
        // Beta(1/2, 1/2) is the arcsine law.
        let share = (FRAC_PI_2 * uniform()).sin().powi(2);
        let partner = Tensor::randperm(batch.len() as i64, (Kind::Int64, views.device()));
        FactDraw { views, share, partner }
    }

    fn losses(
        &mut self,
        context: &StepContext<'_>,
        drawn: FactDraw,
        batch: &[usize],
    ) -> Result<BatchLosses, RankError> {
        let StepContext { model, config, .. } = context;
        let FactDraw { views, share, partner } = drawn;
        let (labels, base) = (context.labels(batch), model.classifier.size()[0]);
        let between = before_third_stage(&model.backbone.description);
        let hidden =
            model.backbone.lower(&model.channels.normalise(&views), between, config.precision, ForwardMode::Training);
        let all = |virtuals: &Tensor| Tensor::cat(&[&model.classifier, virtuals], 0);

        let known = logits(&model.backbone.upper(&hidden, between, ForwardMode::Training), &all(&self.first_virtuals));
        let own = known.narrow(1, 0, base);
        let cross_entropy = own.cross_entropy_for_logits(&labels);
        let mut reserve = reserved(&known, &labels, &self.allowed);

        let mixed = &hidden * share + hidden.index_select(0, &partner) * (1.0 - share);
        let differ = labels.index_select(0, &partner).not_equal_tensor(&labels).nonzero().squeeze_dim(1);
        let mixed = logits(&model.backbone.upper(&mixed, between, ForwardMode::Training), &all(&self.virtuals))
            .index_select(0, &differ);
        if differ.numel() > 0 {
            reserve += forecast(&mixed, base);
        }
        Ok(BatchLosses::new(cross_entropy, reserve * BALANCE, accuracy(&own.detach(), &labels)))
    }

    fn tensors(&self) -> Vec<(String, Tensor)> {
        store::tensors(&self.store)
    }
}

/// Where hidden images are mixed: after the second stage, as the program does; in the middle where there are fewer.
fn before_third_stage(description: &Description) -> usize {
    description.stages().get(1).copied().unwrap_or(description.blocks.len() / 2)
}

/// Which base classes each virtual prototype is allowed to, 1 or 0, f32 `[base, virtual]`.
fn drawn_allowed(base: i64, virtuals: i64) -> Tensor {
    let column = |_| {
        let chosen = Tensor::randperm(base, (Kind::Int64, Device::Cpu)).narrow(0, 0, ALLOWED.min(base));
        Tensor::zeros([base], (Kind::Float, Device::Cpu)).index_fill(0, &chosen, 1.0)
    };
    Tensor::stack(&(0..virtuals).map(column).collect::<Vec<_>>(), 1)
}

/// The second answer of an image, once its label is masked out, is to be the nearest virtual prototype, where cosines
/// with those that its class is not allowed count as 0.
///
/// # Shapes
/// `logits` f32 `[n, base + virtual]`, `labels` i64 `[n]`, `allowed` f32 `[base, virtual]`; returns a scalar.
fn reserved(logits: &Tensor, labels: &Tensor, allowed: &Tensor) -> Tensor {
    let [base, virtuals] = [0, 1].map(|side| allowed.size()[side]);
    let to_virtuals = logits.narrow(1, base, virtuals) * allowed.index_select(0, labels);
    masked(logits, labels).cross_entropy_for_logits(&(to_virtuals.argmax(1, false) + base))
}

/// The first answer of a mixture is to be the nearest virtual prototype, and the second the nearest base
/// class.
///
/// # Shapes
/// `logits` f32 `[n, base + virtual]`; returns a scalar.
fn forecast(logits: &Tensor, base: i64) -> Tensor {
    let nearest = logits.narrow(1, base, logits.size()[1] - base).argmax(1, false) + base;
    let known = logits.narrow(1, 0, base).argmax(1, false);
    logits.cross_entropy_for_logits(&nearest) + masked(logits, &nearest).cross_entropy_for_logits(&known)
}

/// The logits without one class of each row.
fn masked(logits: &Tensor, classes: &Tensor) -> Tensor {
    let classes = classes.unsqueeze(1);
    let mask = logits.detach().zeros_like().scatter_value(1, &classes, 1.0).gt(0.0);
    logits.masked_fill(&mask, MASKED_LOGIT)
}

impl PrototypeClassifier for Fact {
    /// The program's `test_intergrate`: a softmax over the cosines with the class means, and one over what the virtual
    /// prototypes near the image say of the classes near them; the base session has the former alone. Class means are
    /// unit vectors in both; the program brings the second's transpose to unit length along the classes.
    fn scores(&self, features: &Tensor, classes: &Tensor, base: usize) -> Tensor {
        let (features, classes) = (features.squeeze_dim(1), classes.squeeze_dim(1));
        let by_means = logits(&features, &classes);
        if classes.size()[0] == base as i64 {
            return by_means;
        }
        let virtuals = unit(&self.virtuals.detach().to_device(features.device()));
        let to_virtuals = unit(&features).matmul(&virtuals.tr());
        let (kept, which) = to_virtuals.topk(NEAREST.min(virtuals.size()[0]), 1, true, false);
        let near = to_virtuals.zeros_like().scatter(1, &which, &kept);
        let by_virtuals = near.matmul(&virtuals.matmul(&unit(&classes).tr()));
        by_virtuals.softmax(1, Kind::Float) * ETA + by_means.softmax(1, Kind::Float) * (1.0 - ETA)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rival::tests::{model, recipe};

    fn near(value: &Tensor, expected: f64) {
        let value = value.double_value(&[]);
        assert!((value - expected).abs() < 1e-6, "{value}, not {expected}");
    }

    /// Odds 4 and 2 of the base classes, 1 and 3 of the virtual ones.
    fn odds() -> Tensor {
        Tensor::from_slice(&[4.0f32, 2.0, 1.0, 3.0]).log().view([1, 4])
    }

    #[test]
    fn an_image_has_a_virtual_class_for_its_second_answer() {
        // Without label 0 there are 2 + 1 + 3, of which the nearest virtual class has 3; without label 1, 3 of 8.
        let all = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
        near(&reserved(&odds(), &Tensor::from_slice(&[0i64]), &all), 2f64.ln());
        near(&reserved(&odds(), &Tensor::from_slice(&[1i64]), &all), (8f64 / 3.0).ln());
    }

    #[test]
    fn the_second_answer_is_one_that_the_class_is_allowed() {
        // Class 0 is allowed the first virtual prototype alone, whose cosine of ln 2 is more than the 0 of the other;
        // without label 0 there are 2 + 2 + 3.
        let logits = Tensor::from_slice(&[4.0f32, 2.0, 2.0, 3.0]).log().view([1, 4]);
        let allowed = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 1.0]).view([2, 2]);
        near(&reserved(&logits, &Tensor::from_slice(&[0i64]), &allowed), (7f64 / 2.0).ln());
        near(&reserved(&logits, &Tensor::from_slice(&[1i64]), &allowed), (9f64 / 3.0).ln());
    }

    #[test]
    fn a_virtual_prototype_is_allowed_to_three_base_classes() {
        let allowed = drawn_allowed(7, 40);
        assert_eq!(allowed.size(), [7, 40]);
        let counts = allowed.sum_dim_intlist([0].as_slice(), false, Kind::Float);
        near(&(counts - 3.0).abs().max(), 0.0);
        assert!(allowed.sum_dim_intlist([1].as_slice(), false, Kind::Float).min().double_value(&[]) > 0.0);
        near(&drawn_allowed(2, 5).sum(Kind::Float), 10.0);
    }

    #[test]
    fn images_are_compared_with_virtual_prototypes_that_nothing_trains() {
        let recipe = recipe();
        let fact = Fact::new(&model(&recipe), &recipe);
        assert!(fact.first_virtuals.equal(&fact.virtuals));
        let trained: Vec<String> = fact.parameters().into_iter().map(|parameter| parameter.name).collect();
        assert_eq!(trained, ["fact.virtual"]);
    }

    #[test]
    fn a_mixture_is_a_virtual_class_first_and_a_base_class_then() {
        // 3 of 10, then 4 of the 7 that are left.
        near(&forecast(&odds(), 2), (10f64 / 3.0).ln() + (7f64 / 4.0).ln());
    }

    #[test]
    fn a_tenth_of_an_answer_comes_by_way_of_the_virtual_prototypes() {
        let store = VarStore::new(Device::Cpu);
        let rows = |values: &[f32]| Tensor::from_slice(values).view([-1, 2]);
        let virtuals = store.root().var_copy("virtual", &rows(&[2.0, 0.0, 0.0, 5.0]));
        let fact = Fact { store, virtuals, first_virtuals: Tensor::new(), allowed: Tensor::new() };
        let (image, classes) = (rows(&[3.0, 0.0]).unsqueeze(1), rows(&[1.0, 0.0, 0.0, 1.0]).unsqueeze(1));
        // Cosines 1 and 0, both with the virtual prototypes and with the classes, which are the same directions.
        let odds = |scale: f64| scale.exp() / (scale.exp() + 1.0);
        near(&fact.scores(&image, &classes, 1).get(0).get(0), 0.1 * odds(1.0) + 0.9 * odds(16.0));
        // In the base session, cosines alone.
        near(&fact.scores(&image, &classes, 2).get(0).get(0), 16.0);
    }
}

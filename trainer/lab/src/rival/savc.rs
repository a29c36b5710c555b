//! SAVC: semantic-aware virtual contrast (Song et al., "Learning with Fantasy: Semantic-Aware Virtual Contrastive
//! Constraint for Few-Shot Class-Incremental Learning", CVPR 2023).
//!
//! A known transformation makes a class of its own of every base class: these fantasised classes stand in for the
//! unseen ones. All are told apart by cross entropy, and by contrast with a queue of keys, which a slowly following
//! copy of the network makes of other views (MoCo, with labels). A class answers by the mean of its cosines over the
//! transformations, each with the mean of its own.
//!
//! Settings are those of the authors' command for CIFAR-100, the transformations among them: none, and a rotation by
//! 180 degrees. Simplified, so that a small budget goes to steps: the view that is classified is also the query, all
//! views are the recipe's, and there is one small crop of an image instead of four, which leaves the expected loss the
//! same; it is not bound to overlap the key's crop. Classifiers of new classes are not trained (the authors' `-incft`,
//! which their command leaves out).

use anyhow::Result;
use orco_benchmark::Summary;
use orco_lab::method::Method;
use orco_trainer::config::{AugmentConfig, PretrainConfig, Recipe};
use orco_trainer::data::augment::random_view;
use orco_trainer::model::backbone::{ForwardMode, Network, linear_init, unit};
use orco_trainer::model::{Model, store};
use orco_trainer::platform::distributed::RankError;
use orco_trainer::train::loss::MASKED_LOGIT;
use orco_trainer::train::pretrain::{BatchLosses, Criterion, StepContext, accuracy};
use tch::nn::{Init, Path, VarStore};
use tch::{Kind, Tensor, no_grad};

use super::cosine::logits;
use super::prototypes::PrototypeClassifier;
use super::{RivalBackbone, RivalSpec, RivalTraining};

pub(super) static SAVC: RivalSpec = RivalSpec {
    method: Method {
        name: "savc",
        description: "Fantasised classes, and contrast with a queue (Song et al., CVPR 2023).",
        paper_row: None,
    },
    revision: 1,
    backbone: RivalBackbone { name: "savc", revision: 1 },
    measure,
    extra_training: None,
};

fn measure(training: &mut RivalTraining<'_>) -> Result<Summary> {
    let mut savc = Savc::new(training.model, training.recipe);
    training.train(&mut savc)?;
    training.measure_by_means(&ROTATIONS, &savc)
}

/// Rotations of an image in quarter turns, one for each of the classes that a class becomes, `-fantasy rotation2`.
pub(super) const ROTATIONS: [i64; 2] = [0, 2];
/// Weights of contrast by whole views and by small crops, `-alpha` and `-beta`.
const WHOLE: f64 = 0.2;
const SMALL: f64 = 0.8;
/// Temperature of contrast, `-moco_t`.
const TEMPERATURE: f64 = 0.07;
/// How slowly the key network follows, `-moco_m`.
const MOMENTUM: f64 = 0.995;
/// Keys in the queue, `-moco_k`.
const QUEUE: i64 = 8192;
/// Dimension of keys, `-moco_dim`.
const KEY: i64 = 32;
/// Share of the image in a small crop, `-min_scale_crops` and `-max_scale_crops`.
const SMALL_CROP: [f64; 2] = [0.2, 0.7];
/// Its side, of 32 pixels, `-size_crops`.
const SMALL_SIDE: i64 = 18;

/// Maps features to keys: d - relu - key.
struct SavcProjection {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
}

impl SavcProjection {
    fn new(path: &Path<'_>, features: i64) -> Self {
        let init = linear_init(features);
        Self {
            w1: path.var("w1", &[features, features], init),
            b1: path.var("b1", &[features], init),
            w2: path.var("w2", &[KEY, features], init),
        }
    }

    /// Unit rows, `[n, key]`.
    fn keys(&self, features: &Tensor) -> Tensor {
        unit(&features.linear(&self.w1, Some(&self.b1)).relu().linear(&self.w2, None::<Tensor>))
    }
}

/// What SAVC has beside the model.
pub(super) struct Savc {
    /// What is trained: classifier and projection.
    trained: VarStore,
    /// Prototypes of the fantasised classes, `[rotations base, d]`: those of the first transformation first.
    classifier: Tensor,
    projection: SavcProjection,
    /// What follows, and the queue.
    followed: VarStore,
    key_backbone: Network,
    key_projection: SavcProjection,
    /// `[QUEUE, key]`, unit rows, the last batches' in a ring; random at first, as in the program.
    queue: Tensor,
    /// Their fantasised classes, -1 where there is none yet, f32 `[QUEUE]`.
    classes: Tensor,
    /// Where the next keys go, f32 scalar.
    next: Tensor,
}

/// Everything random of a step.
pub(super) struct SavcDraw {
    /// Two views, `[2 b, 3, h, w]`: that of the query, and that of the key.
    views: Tensor,
    /// Small crops, `[b, 3, h', w']`.
    small: Tensor,
}

impl Savc {
    pub fn new(model: &Model, recipe: &Recipe) -> Self {
        let (base, features) = (recipe.split.base_classes as i64, model.backbone.description.features());
        let trained = VarStore::new(model.device());
        let path = trained.root() / "savc";
        let classifier = path.var("classifier", &[ROTATIONS.len() as i64 * base, features], linear_init(features));
        let projection = SavcProjection::new(&(&path / "projection"), features);
        let mut followed = VarStore::new(model.device());
        let path = followed.root() / "key";
        let key_backbone = Network::new(&(&path / "backbone"), model.backbone.description.clone());
        let key_projection = SavcProjection::new(&(&path / "savc" / "projection"), features);
        let queue = path.var_copy("queue", &unit(&Tensor::randn([QUEUE, KEY], (Kind::Float, model.device()))));
        let classes = path.var("classes", &[QUEUE], Init::Const(-1.0));
        let next = path.var("next", &[], Init::Const(0.0));
        followed.freeze();
        let mut savc =
            Self { trained, classifier, projection, followed, key_backbone, key_projection, queue, classes, next };
        savc.follow(model, 0.0);
        savc
    }

    /// Moves the key network towards the trained one; with a momentum of 0, onto it, its norms' statistics too.
    fn follow(&mut self, model: &Model, momentum: f64) {
        let mut keys = self.followed.variables();
        let own = store::tensors(&self.trained).into_iter().chain(model.tensors());
        no_grad(|| {
            for (name, tensor) in own.filter(|(_, tensor)| momentum == 0.0 || tensor.requires_grad()) {
                if let Some(key) = keys.get_mut(&format!("key.{name}")) {
                    key.copy_(&(&*key * momentum + tensor * (1.0 - momentum)));
                }
            }
        });
    }

    /// Puts keys `[n, key]` of fantasised classes into the queue.
    fn push(&mut self, keys: &Tensor, classes: &Tensor) {
        let (count, device) = (keys.size()[0].min(QUEUE), keys.device());
        let next = self.next.double_value(&[]) as i64;
        let rows = (Tensor::arange(count, (Kind::Int64, device)) + next).remainder(QUEUE);
        no_grad(|| {
            let _ = self.queue.index_copy_(0, &rows, &keys.narrow(0, 0, count));
            let _ = self.classes.index_copy_(0, &rows, &classes.narrow(0, 0, count).to_kind(Kind::Float));
            let _ = self.next.fill_(((next + count) % QUEUE) as f64);
        });
    }
}

/// Every image, then every image rotated by 180 degrees, and so on for all transformations.
fn fantasised(images: &Tensor) -> Tensor {
    Tensor::cat(&ROTATIONS.map(|rotation| images.rot90(rotation, [2, 3])), 0)
}

/// The classes of [`fantasised`] images: those of the first transformation are the base classes.
fn fantasised_classes(labels: &Tensor, base: i64) -> Tensor {
    let shifted: Vec<Tensor> = (0..ROTATIONS.len() as i64).map(|number| labels + number * base).collect();
    Tensor::cat(&shifted, 0)
}

impl Criterion for Savc {
    type StepDraw = SavcDraw;

    const OTHER_LOSS: &'static str = "contrast";

    fn views(&self, _: &PretrainConfig) -> usize {
        3 * ROTATIONS.len()
    }

    fn draw(&self, context: &StepContext<'_>, batch: &[usize]) -> SavcDraw {
        let views = context.views(batch, 2);
        let small = AugmentConfig { crop_scale: SMALL_CROP, ..context.config.augment.clone() };
        let small = random_view(&context.images.batch(batch, context.model.device()), &small);
        let smaller = |side: i64| (side * SMALL_SIDE / 32).max(1);
        let sides = [smaller(small.size()[2]), smaller(small.size()[3])];
        SavcDraw { views, small: small.internal_upsample_bilinear2d_aa(sides, false, None, None) }
    }

    fn losses(
        &mut self,
        context: &StepContext<'_>,
        drawn: SavcDraw,
        batch: &[usize],
    ) -> Result<BatchLosses, RankError> {
        let StepContext { model, config, .. } = context;
        let count = batch.len() as i64;
        let input = |images: &Tensor| model.channels.normalise(&fantasised(images));
        let classes = fantasised_classes(&context.labels(batch), model.classifier.size()[0]);

        let features = |images| model.backbone.forward(&input(&images), config.precision, ForwardMode::Training);
        let whole = features(drawn.views.narrow(0, 0, count));
        let answers = logits(&whole, &self.classifier);
        let small = features(drawn.small);

        self.follow(model, MOMENTUM);
        let keys = no_grad(|| {
            let other = input(&drawn.views.narrow(0, count, count));
            self.key_projection.keys(&self.key_backbone.forward(&other, config.precision, ForwardMode::Training))
        });
        // What gradients need is not what the next keys are written into.
        let queue = self.queue.copy();
        let positive = classes.unsqueeze(1).eq_tensor(&self.classes.unsqueeze(0));
        let contrast = |features: &Tensor| labelled_contrast(&self.projection.keys(features), &keys, &queue, &positive);
        let loss = contrast(&whole) * WHOLE + contrast(&small) * SMALL;
        self.push(&keys, &classes);
        let right = accuracy(&answers.detach(), &classes);
        Ok(BatchLosses::new(answers.cross_entropy_for_logits(&classes), loss, right))
    }

    fn tensors(&self) -> Vec<(String, Tensor)> {
        let mut all = store::tensors(&self.trained);
        all.extend(store::tensors(&self.followed));
        all
    }
}

/// Contrast of queries with keys under labels (MoCo's queue with positives by class, as UniMoCo has it): the mean over
/// a query's positives p - its own key, and the keys of its class in the queue - of log(1 + sum_n exp(s_n - s_p)), n
/// being the queue's other keys.
///
/// # Shapes
/// `queries` and `keys` f32 `[n, d]`, `queue` f32 `[k, d]`, all of unit rows, `positive` bool `[n, k]`; returns a
/// scalar.
fn labelled_contrast(queries: &Tensor, keys: &Tensor, queue: &Tensor, positive: &Tensor) -> Tensor {
    let own = (queries * keys).sum_dim_intlist([1].as_slice(), true, Kind::Float) / TEMPERATURE;
    let others = queries.matmul(&queue.tr()) / TEMPERATURE;
    let negative = others.masked_fill(positive, MASKED_LOGIT).logsumexp([1].as_slice(), true);
    let weights = positive.to_kind(Kind::Float);
    let of_others = ((&negative - others).softplus() * &weights).sum_dim_intlist([1].as_slice(), true, Kind::Float);
    let count = weights.sum_dim_intlist([1].as_slice(), true, Kind::Float) + 1.0;
    (((&negative - own).softplus() + of_others) / count).mean(Kind::Float)
}

impl PrototypeClassifier for Savc {
    fn scores(&self, features: &Tensor, classes: &Tensor, _: usize) -> Tensor {
        let of = |tensor: &Tensor, rotation: usize| tensor.select(1, rotation as i64);
        let each: Vec<Tensor> =
            (0..ROTATIONS.len()).map(|rotation| logits(&of(features, rotation), &of(classes, rotation))).collect();
        Tensor::stack(&each, 0).mean_dim([0].as_slice(), false, Kind::Float)
    }
}

#[cfg(test)]
mod tests;

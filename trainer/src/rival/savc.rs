//! SAVC: semantic-aware virtual contrast (Song et al., "Learning with Fantasy: Semantic-Aware Virtual Contrastive
//! Constraint for Few-Shot Class-Incremental Learning", CVPR 2023).
//!
//! A known transformation makes a class of its own of every base class: these fantasised classes stand in for the
//! unseen ones. All are told apart by cross entropy, and by contrast with a queue of keys, which a slowly following copy
//! of the network makes of other views (MoCo, with labels). A class answers by the mean of its cosines over the
//! transformations, each with the mean of its own.
//!
//! Settings are those of the authors' command for CIFAR-100, the transformations among them: none, and half a turn.
//! Simplified, so that a small budget goes to steps: the view that is classified is also the query, all views are the
//! recipe's, and there is one small crop of an image instead of four, which leaves the expected loss the same; it is
//! not bound to overlap the key's crop. Classifiers of new classes are not trained (the authors' `-incft`, which their
//! command leaves out).

use std::collections::HashMap;

use anyhow::Result;
use tch::nn::{Init, Path, VarStore};
use tch::{Kind, Tensor, no_grad};

use super::cosine::{accuracy, logits};
use super::sessions::Rule;
use crate::augment::view;
use crate::backbone::{Network, unit};
use crate::config::{AugmentConfig, PretrainConfig, Recipe};
use crate::distributed::RankError;
use crate::model::{Model, store};
use crate::optimiser::Parameter;
use crate::pretrain::{BatchLosses, Criterion, Scene};

/// Quarters that an image is turned by, one for each of the classes that a class becomes, `-fantasy rotation2`.
pub(super) const TURNS: [i64; 2] = [0, 2];
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
/// Stands for minus infinity where a gradient must stay finite.
const NEVER: f64 = -1e9;

/// Maps features to keys: d - relu - key.
struct Projection {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
}

impl Projection {
    fn new(path: &Path<'_>, features: i64) -> Self {
        let bound = 1.0 / (features as f64).sqrt();
        let uniform = Init::Uniform { lo: -bound, up: bound };
        Self {
            w1: path.var("w1", &[features, features], uniform),
            b1: path.var("b1", &[features], uniform),
            w2: path.var("w2", &[KEY, features], uniform),
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
    /// Prototypes of the fantasised classes, `[turns base, d]`: those of the first transformation first.
    classifier: Tensor,
    projection: Projection,
    /// What follows, and the queue.
    followed: VarStore,
    key_backbone: Network,
    key_projection: Projection,
    /// `[QUEUE, key]`, unit rows, the last batches' in a ring; random at first, as in the program.
    queue: Tensor,
    /// Their fantasised classes, -1 where there is none yet, f32 `[QUEUE]`.
    classes: Tensor,
    /// Where the next keys go, f32 scalar.
    next: Tensor,
}

/// Everything random of a step.
pub(super) struct Drawn {
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
        let bound = 1.0 / (features as f64).sqrt();
        let uniform = Init::Uniform { lo: -bound, up: bound };
        let classifier = path.var("classifier", &[TURNS.len() as i64 * base, features], uniform);
        let projection = Projection::new(&(&path / "projection"), features);
        let mut followed = VarStore::new(model.device());
        let path = followed.root() / "key";
        let key_backbone = Network::new(&(&path / "backbone"), model.backbone.description.clone());
        let key_projection = Projection::new(&(&path / "savc" / "projection"), features);
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

/// Every image, then every image turned by half a turn, and so on for all transformations.
fn fantasised(images: &Tensor) -> Tensor {
    Tensor::cat(&TURNS.map(|turn| images.rot90(turn, [2, 3])), 0)
}

/// The classes of [`fantasised`] images: those of the first transformation are the base classes.
fn fantasised_classes(labels: &Tensor, base: i64) -> Tensor {
    let shifted: Vec<Tensor> = (0..TURNS.len() as i64).map(|number| labels + number * base).collect();
    Tensor::cat(&shifted, 0)
}

impl Criterion for Savc {
    type Drawn = Drawn;

    const OTHER: &'static str = "contrast";

    fn views(&self, _: &PretrainConfig) -> usize {
        3 * TURNS.len()
    }

    fn draw(&self, scene: &Scene<'_>, batch: &[usize]) -> Drawn {
        let views = scene.views(batch, 2);
        let small = AugmentConfig { crop_scale: SMALL_CROP, ..scene.config.augment.clone() };
        let small = view(&scene.images.batch(batch, scene.model.device()), &small);
        let smaller = |side: i64| (side * SMALL_SIDE / 32).max(1);
        let sides = [smaller(small.size()[2]), smaller(small.size()[3])];
        Drawn { views, small: small.internal_upsample_bilinear2d_aa(sides, false, None, None) }
    }

    fn losses(&mut self, scene: &Scene<'_>, drawn: Drawn, batch: &[usize]) -> Result<BatchLosses, RankError> {
        let Scene { model, config, .. } = scene;
        let count = batch.len() as i64;
        let input = |images: &Tensor| model.channels.normalise(&fantasised(images));
        let classes = fantasised_classes(&scene.labels(batch), model.classifier.size()[0]);

        let features = |images| model.backbone.forward(&input(&images), config.precision, true);
        let whole = features(drawn.views.narrow(0, 0, count));
        let answers = logits(&whole, &self.classifier);
        let small = features(drawn.small);

        self.follow(model, MOMENTUM);
        let keys = no_grad(|| {
            let other = input(&drawn.views.narrow(0, count, count));
            self.key_projection.keys(&self.key_backbone.forward(&other, config.precision, true))
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

    fn parameters(&self) -> Vec<Parameter> {
        store::parameters(store::tensors(&self.trained))
    }

    fn tensors(&self) -> Vec<(String, Tensor)> {
        let mut all = store::tensors(&self.trained);
        all.extend(store::tensors(&self.followed));
        all
    }

    fn restore(&mut self, saved: &HashMap<String, Tensor>) -> Result<()> {
        store::restore(self.tensors(), saved)
    }
}

/// Contrast of queries with keys under labels (MoCo's queue with positives by class, as UniMoCo has it): the mean over a
/// query's positives p - its own key, and the keys of its class in the queue - of log(1 + sum_n exp(s_n - s_p)), n being
/// the queue's other keys.
///
/// # Shapes
/// `queries` and `keys` f32 `[n, d]`, `queue` f32 `[k, d]`, all of unit rows, `positive` bool `[n, k]`; returns a scalar.
fn labelled_contrast(queries: &Tensor, keys: &Tensor, queue: &Tensor, positive: &Tensor) -> Tensor {
    let own = (queries * keys).sum_dim_intlist([1].as_slice(), true, Kind::Float) / TEMPERATURE;
    let others = queries.matmul(&queue.tr()) / TEMPERATURE;
    let negative = others.masked_fill(positive, NEVER).logsumexp([1].as_slice(), true);
    let weights = positive.to_kind(Kind::Float);
    let of_others = ((&negative - others).softplus() * &weights).sum_dim_intlist([1].as_slice(), true, Kind::Float);
    let count = weights.sum_dim_intlist([1].as_slice(), true, Kind::Float) + 1.0;
    (((&negative - own).softplus() + of_others) / count).mean(Kind::Float)
}

impl Rule for Savc {
    fn scores(&self, features: &Tensor, classes: &Tensor, _: usize) -> Tensor {
        let of = |tensor: &Tensor, turn: usize| tensor.select(1, turn as i64);
        let each: Vec<Tensor> = (0..TURNS.len()).map(|turn| logits(&of(features, turn), &of(classes, turn))).collect();
        Tensor::stack(&each, 0).mean_dim([0].as_slice(), false, Kind::Float)
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::config::Recipe;

    fn rows(values: &[f32]) -> Tensor {
        Tensor::from_slice(values).view([-1, 2])
    }

    #[test]
    fn a_query_is_drawn_to_its_key_and_to_its_class_in_the_queue() {
        // Similarities over temperature: own key 0, queue ln 2 (its class), 0 and ln 3 (others), temperature 0.07.
        let at = |log: f64| (log * TEMPERATURE) as f32;
        let queue = rows(&[at(2f64.ln()), 0.5, 0.0, 0.5, at(3f64.ln()), 0.5]);
        let positive = Tensor::from_slice(&[1i64, 0, 0]).view([1, 3]).gt(0);
        let loss = labelled_contrast(&rows(&[1.0, 0.0]), &rows(&[0.0, 1.0]), &queue, &positive);
        // The others sum to 1 + 3: log(1 + 4 / 1) for the own key, log(1 + 4 / 2) for that of its class.
        let expected = (5f64.ln() + 3f64.ln()) / 2.0;
        assert!((loss.double_value(&[]) - expected).abs() < 1e-5, "{loss:?}, not {expected}");
    }

    #[test]
    fn a_class_becomes_as_many_as_there_are_transformations() {
        let image = Tensor::arange(4, (Kind::Float, Device::Cpu)).view([1, 1, 2, 2]);
        let made = fantasised(&image);
        assert_eq!(Vec::<f32>::try_from(made.view(-1)).unwrap(), [0.0, 1.0, 2.0, 3.0, 3.0, 2.0, 1.0, 0.0]);
        let classes = fantasised_classes(&Tensor::from_slice(&[4i64, 0]), 5);
        assert_eq!(Vec::<i64>::try_from(classes).unwrap(), [4, 0, 9, 5]);
    }

    fn savc() -> (Model, Savc) {
        let mut recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
        recipe.backbone.width = 2;
        let model = Model::new(&recipe, [3, 24, 24], Device::Cpu);
        let savc = Savc::new(&model, &recipe);
        (model, savc)
    }

    #[test]
    fn the_key_network_begins_as_a_copy_and_follows_slowly() {
        let (model, mut savc) = savc();
        let keys = savc.followed.variables();
        let (own, key) =
            (&model.backbone.tensors(model.backbone.description.stem.as_ref().unwrap()).weight, "stem.weight");
        let key = &keys[&format!("key.backbone.{key}")];
        assert!(own.equal(key) && savc.projection.w2.equal(&savc.key_projection.w2));
        no_grad(|| own.shallow_clone().copy_(&(own + 2.0)));
        savc.follow(&model, MOMENTUM);
        let behind = (own - key).mean(Kind::Double).double_value(&[]);
        assert!((behind - 2.0 * MOMENTUM).abs() < 1e-5, "{behind}");
    }

    #[test]
    fn the_queue_is_a_ring() {
        let (_, mut savc) = savc();
        let keys = |value: f64| Tensor::full([5000, KEY], value, (Kind::Float, Device::Cpu));
        let classes = |class: i64| Tensor::full([5000], class, (Kind::Int64, Device::Cpu));
        savc.push(&keys(1.0), &classes(3));
        savc.push(&keys(2.0), &classes(4));
        let at = |row: i64| (savc.queue.double_value(&[row, 7]), savc.classes.double_value(&[row]));
        let past = 10000 - QUEUE;
        assert_eq!(
            [at(past - 1), at(past), at(4999), at(5000), at(QUEUE - 1)],
            [(2.0, 4.0), (1.0, 3.0), (1.0, 3.0), (2.0, 4.0), (2.0, 4.0)]
        );
    }

    #[test]
    fn an_answer_is_the_mean_over_the_transformations() {
        let (_, savc) = savc();
        let image = rows(&[1.0, 0.0, 0.6, 0.8]).view([1, 2, 2]);
        let classes = rows(&[1.0, 0.0, 0.0, 2.0, 0.0, 1.0, 3.0, 0.0]).view([2, 2, 2]);
        let scores = Vec::<f32>::try_from(savc.scores(&image, &classes, 2).view(-1)).unwrap();
        // Class 0: cosines 1 and 0.8; class 1: 0 and 0.6.
        assert!((scores[0] - 14.4).abs() < 1e-4 && (scores[1] - 4.8).abs() < 1e-4, "{scores:?}");
    }
}

//! A training that takes seconds: small made-up images and a recipe for them.

use orco_trainer::config::Recipe;
use orco_trainer::dataset::Images;
use tch::{Device, Kind, Tensor};

/// Classes of [`images`]: four base classes and one session of two, by [`recipe`].
pub const CLASSES: i64 = 6;
/// Images of each class.
const EACH: i64 = 24;

/// Noise around one colour and one corner per class, 16x16. Seeds torch's generator.
pub fn images() -> Images {
    tch::manual_seed(3);
    let base = Tensor::rand([CLASSES, 3, 2, 2], (Kind::Float, Device::Cpu)) * 200.0;
    let large = base.upsample_nearest2d([16, 16], None, None).repeat_interleave_self_int(EACH, 0, CLASSES * EACH);
    let noisy = &large + large.rand_like() * 55.0;
    let labels = (0..CLASSES as u16).flat_map(|class| std::iter::repeat_n(class, EACH as usize)).collect();
    Images { pixels: noisy.to_kind(Kind::Uint8), labels }
}

/// The shipped bundle's recipe, shrunk to [`images`].
pub fn recipe(epochs: usize) -> Recipe {
    let text = include_str!("../../trainer/recipes/cifar100-edge.toml");
    let mut recipe: Recipe = toml::from_str(text).expect("the recipe is sound");
    (recipe.split.base_classes, recipe.split.sessions, recipe.split.ways) = (4, 1, 2);
    (recipe.backbone.width, recipe.head.hidden, recipe.head.projection) = (4, 32, 8);
    (recipe.pretrain.epochs, recipe.pretrain.batch, recipe.pretrain.warmup_epochs) = (epochs, 16, 1);
    (recipe.align.epochs, recipe.align.batch, recipe.align.cached_views) = (30, 16, 3);
    recipe.align.learning_rate = 0.1;
    recipe.targets.count = 8;
    recipe
}

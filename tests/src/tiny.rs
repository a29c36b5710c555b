//! A training that takes seconds: small made-up images and a recipe for them.

use orco_core::config::MethodConfig;
use orco_trainer::config::{BaseAlignSchedule, Precision, Recipe};
use orco_trainer::data::dataset::{ChannelStatistics, DataSet, Images, ListNames, Split};
use tch::{Kind, Tensor};

/// Classes of [`images`]: four base classes and one session of two, by [`recipe`].
pub const CLASSES: i64 = 6;
/// Images of each class.
const EACH: i64 = 24;

/// Red, green, blue, yellow, cyan and magenta under noise, 16x16: classes that every crop, mirror image and change of
/// tone leaves apart, so that what a training reaches on them does not hang on how a processor rounds. Seeds torch's
/// generator.
pub fn images() -> Images {
    const COLOURS: [[f32; 3]; CLASSES as usize] =
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]];
    tch::manual_seed(3);
    let colours = Tensor::from_slice(COLOURS.as_flattened()).view([CLASSES, 3, 1, 1]) * 160.0 + 20.0;
    let plain = colours.expand([CLASSES, 3, 16, 16], false).repeat_interleave_self_int(EACH, 0, CLASSES * EACH);
    let noisy = &plain + plain.rand_like() * 55.0;
    let labels = (0..CLASSES as u16).flat_map(|class| std::iter::repeat_n(class, EACH as usize)).collect();
    Images { pixels: noisy.to_kind(Kind::Uint8), labels }
}

/// The shipped bundle's recipe, shrunk to [`images`]. Its learning rates go with its batches of 256: with as few images
/// as here they would throw the weights about until rounding decides where they land. So the rates are smaller, fall to
/// 0, and the arithmetic is f32 on every processor. Devices learn by the preset `edge`, which needs no statistics.
pub fn recipe(epochs: usize) -> Recipe {
    let text = include_str!("../../trainer/recipes/cifar100-edge.toml");
    let mut recipe: Recipe = toml::from_str(text).expect("the recipe is sound");
    (recipe.split.base_classes, recipe.split.sessions, recipe.split.ways) = (4, 1, 2);
    (recipe.backbone.width, recipe.head.hidden, recipe.head.projection) = (4, 32, 8);
    (recipe.pretrain.epochs, recipe.pretrain.batch, recipe.pretrain.warmup_epochs) = (epochs, 16, 1);
    (recipe.pretrain.learning_rate, recipe.pretrain.precision) = (0.05, Precision::F32);
    (recipe.align.epochs, recipe.align.batch, recipe.align.cached_views) = (30, 16, 3);
    (recipe.align.learning_rate, recipe.align.rate) = (0.1, BaseAlignSchedule::Cosine);
    recipe.targets.count = 8;
    recipe.learn = MethodConfig::edge();
    recipe
}

/// [`images`] as a data set, to be trained on and measured on alike.
pub fn data(images: &Images, split: Split) -> DataSet {
    let copy = || Images { pixels: images.pixels.shallow_clone(), labels: images.labels.clone() };
    DataSet {
        train: copy(),
        test: copy(),
        test_seed: None,
        split,
        class_names: (0..CLASSES).map(|class| format!("class {class}")).collect(),
        channels: ChannelStatistics::default(),
        names: ListNames::Numbers,
        skipped: Vec::new(),
    }
}

//! Random views of image batches, computed on the tensor's own device.
//!
//! All randomness comes from torch's generator, which the caller seeds.

mod geometry;
mod policy;
mod tone;

use tch::{Kind, Tensor};

use crate::config::{AugmentConfig, AugmentPolicy};
use crate::platform::device::send;

/// Draws one random view of every image.
///
/// # Shapes
/// `images` f32 `[n, 3, h, w]` in 0..1; returns the same shape, in 0..1.
pub fn random_view(images: &Tensor, config: &AugmentConfig) -> Tensor {
    let cropped = crop_and_flip(images, config.crop_scale);
    let changed = if config.policy == AugmentPolicy::None { cropped } else { policy::apply(&cropped, config.policy) };
    let jittered = jitter(&changed, config.jitter_probability, config.jitter, config.hue);
    let greyed = grey(&jittered, config.grey_probability);
    cutout(&erase(&greyed, config.erase_probability), config.cutout)
}

/// Normalises to zero mean and unit deviation per channel.
///
/// # Shapes
/// `images` f32 `[n, 3, h, w]` in 0..1; `mean` and `deviation` per channel, in 0..1.
pub fn normalise(images: &Tensor, mean: [f32; 3], deviation: [f32; 3]) -> Tensor {
    let channel = |values: [f32; 3]| send(&Tensor::from_slice(&values).view([1, 3, 1, 1]), images.device());
    (images - channel(mean)) / channel(deviation)
}

/// Uniform numbers `[n, 1, 1, 1]` from `low` to `high`.
fn uniform(images: &Tensor, low: f64, high: f64) -> Tensor {
    Tensor::rand([images.size()[0], 1, 1, 1], (Kind::Float, images.device())) * (high - low) + low
}

/// Boolean `[n, 1, 1, 1]`, true with the given probability.
fn chance(images: &Tensor, probability: f64) -> Tensor {
    uniform(images, 0.0, 1.0).lt(probability)
}

/// Random resized crop (aspect ratio 3/4..4/3, log-uniform) and horizontal flip, bilinear, as one sampling grid.
fn crop_and_flip(images: &Tensor, scale: [f64; 2]) -> Tensor {
    let count = images.size()[0];
    let area = uniform(images, scale[0], scale[1]);
    let ratio = uniform(images, (3.0f64 / 4.0).ln(), (4.0f64 / 3.0).ln()).exp();
    let width = (&area * &ratio).sqrt().clamp(0.0, 1.0);
    let height = (&area / &ratio).sqrt().clamp(0.0, 1.0);
    let shift_x = uniform(images, -1.0, 1.0) * (1.0 - &width);
    let shift_y = uniform(images, -1.0, 1.0) * (1.0 - &height);
    let sign = chance(images, 0.5).to_kind(Kind::Float) * 2.0 - 1.0;
    let zero = area.zeros_like();
    let affine = Tensor::cat(&[&width * sign, zero.shallow_clone(), shift_x, zero, height, shift_y], 1);
    let grid = Tensor::affine_grid_generator(&affine.view([count, 2, 3]), images.size(), false);
    const BILINEAR: i64 = 0;
    const BORDER: i64 = 1;
    images.grid_sampler(&grid, BILINEAR, BORDER, false)
}

/// Brightness, contrast and saturation, each by a factor of its own, then a shift of the hue.
fn jitter(images: &Tensor, probability: f64, strength: f64, hue: f64) -> Tensor {
    if probability == 0.0 || (strength == 0.0 && hue == 0.0) {
        return images.shallow_clone();
    }
    let factor = || uniform(images, 1.0 - strength, 1.0 + strength);
    let bright = tone::brightness(images, &factor());
    let contrast = tone::contrast(&bright, &factor());
    let saturated = tone::saturation(&contrast, &factor());
    let turned = if hue > 0.0 { tone::hue(&saturated, &uniform(images, -hue, hue)) } else { saturated };
    turned.where_self(&chance(images, probability), images)
}

/// Replaces all channels by the luminance.
fn grey(images: &Tensor, probability: f64) -> Tensor {
    if probability == 0.0 {
        return images.shallow_clone();
    }
    luminance(images).expand_as(images).where_self(&chance(images, probability), images)
}

/// Rec. 601 luma, `[n, 1, h, w]`.
fn luminance(images: &Tensor) -> Tensor {
    images.narrow(1, 0, 1) * 0.299 + images.narrow(1, 1, 1) * 0.587 + images.narrow(1, 2, 1) * 0.114
}

/// Replaces a random rectangle (2 % to 33 % of the area, aspect ratio 0.3..3.3, as torchvision's `RandomErasing`) by
/// the image's mean.
fn erase(images: &Tensor, probability: f64) -> Tensor {
    if probability == 0.0 {
        return images.shallow_clone();
    }
    let area = uniform(images, 0.02, 0.33);
    let ratio = uniform(images, 0.3f64.ln(), 3.3f64.ln()).exp();
    let half_width = (&area * &ratio).sqrt().clamp(0.0, 1.0) / 2.0;
    let half_height = (&area / &ratio).sqrt().clamp(0.0, 1.0) / 2.0;
    let inside = |size: i64, half: &Tensor, shape: [i64; 4]| {
        let centre = uniform(images, 0.0, 1.0);
        let positions = (Tensor::arange(size, (Kind::Float, images.device())) + 0.5) / size as f64;
        (positions.view(shape) - centre).abs().lt_tensor(half)
    };
    let size = images.size();
    let rows = inside(size[2], &half_height, [1, 1, -1, 1]);
    let columns = inside(size[3], &half_width, [1, 1, 1, -1]);
    let erased = rows.logical_and(&columns).logical_and(&chance(images, probability));
    let mean = images.mean_dim([1, 2, 3].as_slice(), true, Kind::Float);
    mean.where_self(&erased, images)
}

/// Replaces a square of `side` pixels, whose centre may be any pixel, by the image's mean (DeVries and Taylor,
/// "Improved Regularization of Convolutional Neural Networks with Cutout", 2017).
fn cutout(images: &Tensor, side: usize) -> Tensor {
    if side == 0 {
        return images.shallow_clone();
    }
    let inside = |size: i64, shape: [i64; 4]| {
        let options = (Kind::Int64, images.device());
        let first = Tensor::randint(size, [images.size()[0], 1, 1, 1], options) - side as i64 / 2;
        let positions = Tensor::arange(size, options).view(shape);
        positions.ge_tensor(&first).logical_and(&positions.lt_tensor(&(first + side as i64)))
    };
    let size = images.size();
    let covered = inside(size[2], [1, 1, -1, 1]).logical_and(&inside(size[3], [1, 1, 1, -1]));
    images.mean_dim([1, 2, 3].as_slice(), true, Kind::Float).where_self(&covered, images)
}

#[cfg(test)]
mod tests;

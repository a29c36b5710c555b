//! Operations that change values and leave pixels where they are, as the Python Imaging Library defines them.
//!
//! # Shapes
//! Every function takes `images` f32 `[n, 3, h, w]` in 0..1 and returns the same shape, in 0..1; `factor` and the like
//! are f32 `[n, 1, 1, 1]`, one per image.

use tch::{Kind, Tensor};

use super::luminance;
use crate::platform::device::send;

/// Goes from `origin` to the image and on: 0 is the origin, 1 the image.
fn blend(origin: &Tensor, images: &Tensor, factor: &Tensor) -> Tensor {
    (origin + (images - origin) * factor).clamp(0.0, 1.0)
}

/// Factor 0 is black.
pub fn brightness(images: &Tensor, factor: &Tensor) -> Tensor {
    (images * factor).clamp(0.0, 1.0)
}

/// Factor 0 is the mean luminance everywhere.
pub fn contrast(images: &Tensor, factor: &Tensor) -> Tensor {
    blend(&luminance(images).mean_dim([2, 3].as_slice(), true, Kind::Float), images, factor)
}

/// Factor 0 is grey.
pub fn saturation(images: &Tensor, factor: &Tensor) -> Tensor {
    blend(&luminance(images), images, factor)
}

/// Factor 0 is smoothed by the kernel 1 1 1, 1 5 1, 1 1 1 over 13; the outermost pixels stay.
pub fn sharpness(images: &Tensor, factor: &Tensor) -> Tensor {
    let size = images.size();
    if size[2] < 3 || size[3] < 3 {
        return images.shallow_clone();
    }
    let kernel = Tensor::from_slice(&[1.0f32, 1.0, 1.0, 1.0, 5.0, 1.0, 1.0, 1.0, 1.0]).view([1, 1, 3, 3]) / 13.0;
    let kernel = send(&kernel, images.device()).repeat([size[1], 1, 1, 1]);
    let inner = images.conv2d(&kernel, None::<Tensor>, [1, 1], [0, 0], [1, 1], size[1]);
    let smooth = images.copy();
    smooth.narrow(2, 1, size[2] - 2).narrow(3, 1, size[3] - 2).copy_(&inner);
    blend(&smooth, images, factor)
}

/// Stretches every channel to 0..1; a channel of one value stays.
pub fn auto_contrast(images: &Tensor) -> Tensor {
    let low = images.amin([2, 3].as_slice(), true);
    let range = images.amax([2, 3].as_slice(), true) - &low;
    let flat = range.le(0.0);
    ((images - low) / range.masked_fill(&flat, 1.0)).clamp(0.0, 1.0).where_self(&flat.logical_not(), images)
}

/// Makes the histogram of 256 values of every channel as flat as it can be.
pub fn equalize(images: &Tensor) -> Tensor {
    let size = images.size();
    let pixels = size[2] * size[3];
    let values = (images * 255.0).round().clamp(0.0, 255.0).to_kind(Kind::Int64).view([-1, pixels]);
    let options = (Kind::Int64, images.device());
    let histogram =
        Tensor::zeros([values.size()[0], 256], options).scatter_add(1, &values, &Tensor::ones_like(&values));
    let highest = values.amax([1].as_slice(), true);
    let step = (pixels - histogram.gather(1, &highest, false)).divide_scalar_mode(255, "floor");
    // A channel of almost one value has nothing to spread.
    let flat = step.eq(0);
    let divisor = step.masked_fill(&flat, 1);
    let before = histogram.cumsum(1, Kind::Int64) - &histogram;
    let table = (before + divisor.divide_scalar_mode(2, "floor")).divide_tensor_mode(&divisor, "floor").clamp(0, 255);
    let equalized = table.gather(1, &values, false).where_self(&flat.logical_not(), &values);
    (equalized.to_kind(Kind::Float) / 255.0).view(size.as_slice())
}

/// Inverts every value from the threshold up.
pub fn solarize(images: &Tensor, threshold: &Tensor) -> Tensor {
    invert(images).where_self(&images.ge_tensor(threshold), images)
}

/// Keeps the highest bits of every 8-bit value; `bits` in 0..=8.
pub fn posterize(images: &Tensor, bits: &Tensor) -> Tensor {
    let width = Tensor::exp2(&(8.0 - bits));
    ((images * 255.0).round() / &width).floor() * width / 255.0
}

/// The negative.
pub fn invert(images: &Tensor) -> Tensor {
    1.0 - images
}

/// Turns the hue by `shift` of the colour circle; lightness and saturation of the HSV model stay.
pub fn hue(images: &Tensor, shift: &Tensor) -> Tensor {
    let highest = images.amax([1].as_slice(), true);
    let range = &highest - images.amin([1].as_slice(), true);
    let divisor = range.masked_fill(&range.le(0.0), 1.0);
    let channel = |index: i64| images.narrow(1, index, 1);
    let (red, green, blue) = (channel(0), channel(1), channel(2));
    let from_blue = (&red - &green) / &divisor + 4.0;
    let from_green = (&blue - &red) / &divisor + 2.0;
    let from_red = (&green - &blue) / &divisor;
    let sixths = from_green.where_self(&highest.eq_tensor(&green), &from_blue);
    let sixths = from_red.where_self(&highest.eq_tensor(&red), &sixths) + shift * 6.0;
    // Channel c of a colour of hue s, in sixths: highest - range * max(0, min(k, 4 - k, 1)), k = (c + s) mod 6.
    let offsets = send(&Tensor::from_slice(&[5.0f32, 3.0, 1.0]).view([1, 3, 1, 1]), images.device());
    let k = (sixths + offsets).remainder(6.0);
    let share = k.minimum(&(4.0 - &k)).clamp(0.0, 1.0);
    (highest - range * share).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One image of 3x3 whose channels all hold `values`.
    fn image(values: [f32; 9]) -> Tensor {
        Tensor::from_slice(&values).view([1, 1, 3, 3]).repeat([1, 3, 1, 1])
    }

    fn colour(red: f32, green: f32, blue: f32) -> Tensor {
        Tensor::from_slice(&[red, green, blue]).view([1, 3, 1, 1])
    }

    fn one(value: f64) -> Tensor {
        Tensor::from_slice(&[value as f32]).view([1, 1, 1, 1])
    }

    fn close(result: &Tensor, expected: &[f32]) {
        let values = Vec::<f32>::try_from(result.contiguous().view(-1)).unwrap();
        let near = values.iter().zip(expected).all(|(a, b)| (a - b).abs() < 2e-6);
        assert!(near, "{values:?}, not {expected:?}");
    }

    const STEPS: [f32; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

    #[test]
    fn factor_one_changes_nothing() {
        let images = image(STEPS);
        for operation in [brightness, contrast, saturation, sharpness] {
            close(&operation(&images, &one(1.0)), &STEPS);
        }
        let whole = [0.0, 1.0, 2.0, 3.0, 100.0, 101.0, 200.0, 254.0, 255.0].map(|value| value / 255.0);
        close(&posterize(&image(whole), &one(8.0)), &whole);
        let tint = colour(0.8, 0.4, 0.2);
        close(&hue(&tint, &one(0.0)), &[0.8, 0.4, 0.2]);
        close(&hue(&tint, &one(1.0)), &[0.8, 0.4, 0.2]);
    }

    #[test]
    fn colours_are_those_computed_by_hand() {
        close(&brightness(&colour(0.8, 0.4, 0.2), &one(1.5)), &[1.0, 0.6, 0.3]);
        // Luminance 0.299 * 0.8 + 0.587 * 0.4 + 0.114 * 0.2 = 0.4968.
        close(&saturation(&colour(0.8, 0.4, 0.2), &one(0.5)), &[0.6484, 0.4484, 0.3484]);
        close(&contrast(&colour(0.8, 0.4, 0.2), &one(0.0)), &[0.4968, 0.4968, 0.4968]);
        close(&invert(&colour(0.8, 0.4, 0.2)), &[0.2, 0.6, 0.8]);
        close(&solarize(&colour(0.8, 0.4, 0.2), &one(0.4)), &[0.2, 0.6, 0.2]);
        // 204, 102, 51 with the two highest of eight bits: 192, 64, 0.
        close(&posterize(&colour(0.8, 0.4, 0.2), &one(2.0)), &[192.0 / 255.0, 64.0 / 255.0, 0.0]);
    }

    #[test]
    fn hues_turn_the_circle() {
        close(&hue(&colour(1.0, 0.0, 0.0), &one(1.0 / 3.0)), &[0.0, 1.0, 0.0]);
        close(&hue(&colour(1.0, 0.0, 0.0), &one(-1.0 / 3.0)), &[0.0, 0.0, 1.0]);
        close(&hue(&colour(1.0, 0.0, 0.0), &one(0.5)), &[0.0, 1.0, 1.0]);
        close(&hue(&colour(0.8, 0.4, 0.2), &one(1.0 / 3.0)), &[0.2, 0.8, 0.4]);
        close(&hue(&colour(0.3, 0.3, 0.3), &one(0.2)), &[0.3, 0.3, 0.3]);
    }

    #[test]
    fn sharpness_weighs_neighbours() {
        let mut values = [0.0; 9];
        values[4] = 0.65;
        // Smoothed, the centre is 0.65 * 5 / 13 = 0.25; halfway there 0.45; the border stays.
        let mut expected = [0.0; 9];
        expected[4] = 0.45;
        close(&sharpness(&image(values), &one(0.5)), &expected);
    }

    #[test]
    fn ranges_are_stretched() {
        let stretched = [0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0];
        close(&auto_contrast(&image(STEPS)), &stretched);
        close(&auto_contrast(&image([0.3; 9])), &[0.3; 9]);
    }

    #[test]
    fn histograms_are_flattened() {
        // 16x64 = 1024 pixels: 514 of value 10, 255 of 20, 255 of 30. Step (1024 - 255) / 255 = 3; table: (0 + 1) / 3
        // = 0, (514 + 1) / 3 = 171, (769 + 1) / 3 = 256, held at 255.
        let values: Vec<f32> =
            (0..1024).map(|i| if i < 514 { 10.0 } else if i < 769 { 20.0 } else { 30.0 } / 255.0).collect();
        let images = Tensor::from_slice(&values).view([1, 1, 16, 64]).repeat([1, 3, 1, 1]);
        let expected: Vec<f32> = (0..1024)
            .map(|i| {
                if i < 514 {
                    0.0
                } else if i < 769 {
                    171.0 / 255.0
                } else {
                    1.0
                }
            })
            .collect();
        close(&equalize(&images), &expected);
        // Nine pixels are fewer than 255 steps: nothing changes.
        let small = image([0.2; 9]);
        close(&equalize(&small), &[0.2; 9]);
    }
}

//! Mean and deviation of the colour channels, by which images are normalised.

use tch::{Kind, Tensor};

use super::Images;
use crate::config::{DataConfig, IMAGENET, Recipe};

/// Mean and deviation of red, green and blue, in 0..1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelStatistics {
    /// Mean of each channel.
    pub mean: [f32; 3],
    /// Deviation of each channel, above 0.
    pub deviation: [f32; 3],
}

impl Default for ChannelStatistics {
    /// The middle of the range, for data about which nothing is known.
    fn default() -> Self {
        Self { mean: [0.5; 3], deviation: [0.25; 3] }
    }
}

impl ChannelStatistics {
    /// Those of ImageNet, which torchvision's weights were trained with.
    pub const IMAGENET: Self = {
        let (mean, deviation) = IMAGENET;
        Self { mean, deviation }
    };

    /// Normalises images to zero mean and unit deviation per channel (see [`crate::data::augment::normalise`]).
    pub fn normalise(self, images: &Tensor) -> Tensor {
        crate::data::augment::normalise(images, self.mean, self.deviation)
    }

    /// Whether pixels from 0 to 1 can be normalised by them.
    pub fn is_sound(&self) -> bool {
        let is_share = |value: &f32| (0.0..=1.0).contains(value);
        self.mean.iter().chain(&self.deviation).all(is_share) && self.deviation.iter().all(|&value| value > 0.0)
    }

    /// What the backbone's weights were trained with, or what is [known](Self::known) of the data.
    pub fn of(recipe: &Recipe) -> Option<Self> {
        let own = recipe.backbone.channels().map(|(mean, deviation)| Self { mean, deviation });
        own.or_else(|| Self::known(&recipe.data))
    }

    /// What the recipe or the data set's publication says, if either does.
    pub fn known(data: &DataConfig) -> Option<Self> {
        data.statistics().map(|(mean, deviation)| Self { mean, deviation })
    }

    /// Computed over all pixels of the images at `indices`, rounded to four decimals.
    ///
    /// The sums are whole numbers and therefore exact, so the result depends on the images alone, not on the number of
    /// threads. A channel without any variation gets the smallest deviation, 0.0001. Without images: the default.
    pub fn measure(images: &Images, indices: &[usize]) -> Self {
        let (mut sum, mut squares, mut count) = ([0i64; 3], [0i64; 3], 0i64);
        for chunk in indices.chunks(256) {
            let pixels = images.select(chunk).to_device(tch::Device::Cpu).to_kind(Kind::Int);
            let size = pixels.size();
            count += size[0] * size[2] * size[3];
            let total = |tensor: &Tensor| {
                let sums = tensor.sum_dim_intlist([0, 2, 3].as_slice(), false, Kind::Int64);
                [0, 1, 2].map(|channel| sums.int64_value(&[channel]))
            };
            for (all, part) in [(&mut sum, total(&pixels)), (&mut squares, total(&pixels.square()))] {
                all.iter_mut().zip(part).for_each(|(all, part)| *all += part);
            }
        }
        if count == 0 {
            return Self::default();
        }
        let rounded = |value: f64| ((value * 1e4).round() / 1e4) as f32;
        let mean = sum.map(|sum| sum as f64 / count as f64);
        let variance = [0, 1, 2].map(|channel| squares[channel] as f64 / count as f64 - mean[channel] * mean[channel]);
        Self {
            mean: mean.map(|mean| rounded(mean / 255.0)),
            deviation: variance.map(|variance| rounded(variance.max(0.0).sqrt() / 255.0).max(1e-4)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::*;

    #[test]
    fn statistics_are_those_of_the_chosen_images() {
        let pixels = Tensor::zeros([3, 3, 2, 2], (Kind::Uint8, Device::Cpu));
        let _ = pixels.get(0).get(0).fill_(255);
        let _ = pixels.get(1).get(1).fill_(51);
        let _ = pixels.get(2).fill_(200);
        let images = Images { pixels, labels: vec![0, 0, 0] };
        let channels = ChannelStatistics::measure(&images, &[0, 1]);
        assert_eq!(channels, ChannelStatistics { mean: [0.5, 0.1, 0.0], deviation: [0.5, 0.1, 1e-4] });
        assert_eq!(ChannelStatistics::measure(&images, &[]), ChannelStatistics::default());
    }
}

//! The int8 backbone of a bundle, and what quantising it costs.

use anyhow::{Context, Result};
use orco_runtime::benchmark::Benchmark;
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::onnx::Onnx;
use tch::Kind;

use super::bundle::Source;
use super::metadata::{Facts, metadata};
use super::onnx::encode_int8;
use super::quantise::Ranges;
use crate::model::Model;

/// Calibration images at a time.
const BATCH: usize = 100;
/// Most images that float and int8 are compared on.
const COMPARED: usize = 1000;

/// An int8 backbone and how it compares with the float one, both run by ONNX Runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct Int8 {
    /// The ONNX file.
    pub bytes: Vec<u8>,
    /// Size of the float one, in bytes.
    pub float_bytes: usize,
    /// Images compared: measured images of base classes.
    pub images: usize,
    /// Mean of the cosine between both features of an image.
    pub cosine: f64,
    /// Lowest of these.
    pub lowest: f64,
    /// Accuracy of the nearest base mean (of float features) for float features, 0 to 1.
    pub float_accuracy: f64,
    /// The same for int8 features.
    pub int8_accuracy: f64,
}

/// Quantises the backbone with base training images and compares it with the float one, which `encoder` runs.
pub(super) fn int8(
    model: &Model,
    source: &Source<'_>,
    facts: &Facts<'_>,
    (encoder, float_bytes): (&mut dyn Encoder, usize),
    benchmark: &Benchmark,
) -> Result<Int8> {
    let calibration = spread(&source.split.base, source.recipe.export.calibration_images);
    let batches = calibration.chunks(BATCH).map(|indices| {
        let images = source.train.select(indices).to_device(model.device()).to_kind(Kind::Float) / 255.0;
        model.channels.normalise(&images)
    });
    let ranges = Ranges::measure(&model.backbone, batches);
    let bytes = encode_int8(&model.backbone, &ranges, &metadata(&Facts { precision: "int8", ..*facts }));
    let mut quantised = Onnx::open(&bytes, &source.input).context("the int8 backbone is checked with ONNX Runtime")?;
    let label = |index: usize| usize::from(source.measured.labels[index]);
    let base = source.split.measured.iter().copied().filter(|&index| label(index) < source.split.base_classes);
    let images = spread(&base.collect::<Vec<_>>(), COMPARED);
    let float = source.clean_features(encoder, source.measured, &images)?;
    let int8 = source.clean_features(&mut quantised, source.measured, &images)?;
    let rows = |features: &[f32]| features.chunks_exact(source.features).map(<[f32]>::to_vec).collect::<Vec<_>>();
    let (float, int8) = (rows(&float), rows(&int8));
    let cosines: Vec<f64> = float.iter().zip(&int8).map(|(float, int8)| cosine(float, int8)).collect();
    let count = images.len().max(1) as f64;
    let accuracy = |features: &[Vec<f32>]| {
        let found = features.iter().map(|row| nearest(row, &benchmark.base_means));
        found.zip(&images).filter(|(class, index)| *class == label(**index)).count() as f64 / count
    };
    let measured = Int8 {
        float_bytes,
        images: images.len(),
        cosine: cosines.iter().sum::<f64>() / count,
        lowest: cosines.iter().copied().fold(1.0, f64::min),
        float_accuracy: accuracy(&float),
        int8_accuracy: accuracy(&int8),
        bytes,
    };
    log::info!("{}", measured.sentence());
    Ok(measured)
}

impl Int8 {
    /// What was measured, for people.
    pub fn sentence(&self) -> String {
        format!(
            "the int8 backbone takes {:.0} KiB (float {:.0} KiB); on {} measured images of base classes its features' cosine to \
             the float ones is {:.4} on average and {:.4} at least; nearest base mean: int8 {:.1} %, float {:.1} %",
            self.bytes.len() as f64 / 1024.0,
            self.float_bytes as f64 / 1024.0,
            self.images,
            self.cosine,
            self.lowest,
            100.0 * self.int8_accuracy,
            100.0 * self.float_accuracy
        )
    }
}

/// At most `count` of the indices, evenly spread.
fn spread(indices: &[usize], count: usize) -> Vec<usize> {
    let count = count.min(indices.len());
    (0..count).map(|position| indices[position * indices.len() / count]).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f64::MIN_POSITIVE)
}

/// The row of `means` whose cosine to the features is the largest.
fn nearest(features: &[f32], means: &[f32]) -> usize {
    let cosines = means.chunks_exact(features.len()).map(|mean| cosine(features, mean));
    cosines.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(row, _)| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_spread_and_the_nearest_mean_is_found() {
        assert_eq!(spread(&[5, 6, 7, 8], 2), [5, 7]);
        assert_eq!(spread(&[5], 9), [5]);
        assert!(spread(&[], 3).is_empty());
        assert_eq!(nearest(&[0.1, 3.0], &[1.0, 0.0, 0.0, 1.0]), 1);
    }
}

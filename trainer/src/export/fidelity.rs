//! How close the features of a smaller backbone file are to those of the f32 one.

use anyhow::{Result, bail};
use orco_runtime::encoder::Encoder;
use orco_runtime::manifest::WeightFormat;

use super::source::BundleSource;
use crate::model::backbone::cosine;

/// Most images that both are compared on.
const COMPARED: usize = 1000;

/// A smaller file beside the f32 one, both run by ONNX Runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct Fidelity {
    /// Size of the file, in bytes.
    pub bytes: usize,
    /// Size of the f32 one.
    pub float_bytes: usize,
    /// Images compared: measured images of base classes.
    pub images: usize,
    /// Mean of the cosine between both features of an image.
    pub cosine: f64,
    /// Lowest of these.
    pub lowest: f64,
    /// Accuracy of the nearest base mean (of the shipped features) for f32 features, 0 to 1.
    pub float_accuracy: f64,
    /// Accuracy of the nearest base mean (of the shipped features) for the file's features, 0 to 1.
    pub accuracy: f64,
}

/// A backbone in an engine.
pub(super) struct EncoderOfFile<'a> {
    pub encoder: &'a mut dyn Encoder,
    /// Size of the backbone's file, in bytes.
    pub bytes: usize,
}

impl Fidelity {
    /// Compares a file with the f32 one; `means` `[base classes, features]` are the means of the shipped features.
    pub(super) fn measure(
        source: &BundleSource<'_>,
        float: EncoderOfFile<'_>,
        other: EncoderOfFile<'_>,
        means: &[f32],
    ) -> Result<Self> {
        let label = |index: usize| usize::from(source.measured.labels[index]);
        let base = source.split.measured.iter().copied().filter(|&index| label(index) < source.split.base_classes);
        let images = spread(&base.collect::<Vec<_>>(), COMPARED);
        let expected = source.clean_features(float.encoder, source.measured, &images)?;
        let actual = source.clean_features(other.encoder, source.measured, &images)?;
        let rows = || expected.chunks_exact(source.features).zip(actual.chunks_exact(source.features));
        let count = images.len().max(1) as f64;
        let accuracy = |features: &[f32]| {
            let found = features.chunks_exact(source.features).map(|row| nearest(row, means));
            found.zip(&images).filter(|(class, index)| *class == label(**index)).count() as f64 / count
        };
        Ok(Self {
            bytes: other.bytes,
            float_bytes: float.bytes,
            images: images.len(),
            cosine: rows().map(|(expected, actual)| cosine(expected, actual)).sum::<f64>() / count,
            lowest: rows().map(|(expected, actual)| cosine(expected, actual)).fold(1.0, f64::min),
            float_accuracy: accuracy(&expected),
            accuracy: accuracy(&actual),
        })
    }

    /// What was measured, for people; goes on from the file's name.
    pub fn sentence(&self) -> String {
        format!(
            "takes {:.0} KiB (f32 {:.0} KiB); on {} measured images of base classes its features' cosine to the \
             float ones: mean {:.5}, least {:.5}; nearest base mean: {:.1} % (f32 {:.1} %)",
            self.bytes as f64 / 1024.0,
            self.float_bytes as f64 / 1024.0,
            self.images,
            self.cosine,
            self.lowest,
            100.0 * self.accuracy,
            100.0 * self.float_accuracy
        )
    }

    /// Refuses weights that lost more than their rounding explains. Only cosines are compared: the accuracy may be
    /// that of test images.
    ///
    /// # Errors
    /// If the mean cosine is below 0.9999 for f16 or 0.99 for int8.
    pub(super) fn accept(&self, weights: WeightFormat) -> Result<()> {
        let (least, instead) = match weights {
            WeightFormat::F32 => return Ok(()),
            WeightFormat::F16 => (0.9999, "f32"),
            WeightFormat::Int8 => (0.99, "f16"),
        };
        if self.cosine >= least {
            return Ok(());
        }
        bail!(
            "with weights in {} the features' cosine to the float ones is {:.5} on average, less than {least}; \
             nothing was written; set weights = \"{instead}\" under [export]",
            weights.name(),
            self.cosine
        )
    }
}

/// At most `count` of the indices, evenly spread.
pub(super) fn spread(indices: &[usize], count: usize) -> Vec<usize> {
    let count = count.min(indices.len());
    (0..count).map(|position| indices[position * indices.len() / count]).collect()
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

    #[test]
    fn what_lost_too_much_is_refused_with_the_next_choice() {
        let (bytes, float_bytes, images, lowest, float_accuracy, accuracy) = (1, 4, 9, 0.9, 0.7, 0.7);
        let measured = Fidelity { bytes, float_bytes, images, cosine: 0.9995, lowest, float_accuracy, accuracy };
        assert!(measured.accept(WeightFormat::F32).is_ok() && measured.accept(WeightFormat::Int8).is_ok());
        let said = measured.accept(WeightFormat::F16).unwrap_err().to_string();
        assert!(said.contains("0.99950") && said.ends_with("set weights = \"f32\" under [export]"), "{said}");
    }
}

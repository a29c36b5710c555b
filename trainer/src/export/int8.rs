//! The backbone with int8 arithmetic: its ranges measured on base training images, its file written and compared.

use anyhow::{Context, Result};
use orco_runtime::encoder::onnx::Onnx;
use tch::Tensor;

use super::fidelity::{EncoderOfFile, Fidelity, spread};
use super::metadata::{OnnxFacts, metadata};
use super::quantise::{Ranges, encode_int8};
use super::source::BundleSource;
use crate::model::Model;

/// Most calibration images at a time.
const BATCH: usize = 100;

/// Bytes of the int8 backbone, and how it compares with the float one, by `means` as in [`Fidelity::measure`].
pub(super) fn int8(
    model: &Model,
    source: &BundleSource<'_>,
    facts: &OnnxFacts<'_>,
    float: EncoderOfFile<'_>,
    means: &[f32],
) -> Result<(Vec<u8>, Fidelity)> {
    let calibration = spread(&source.split.base, source.recipe.export.calibration_images);
    let batches = calibration.chunks(source.train.forward_batch(BATCH)).map(|indices| {
        let images = source.train.batch(indices, model.device());
        model.channels.normalise(&Tensor::cat(&model.parts(&images), 0))
    });
    let ranges = Ranges::measure(&model.backbone, batches);
    let facts = OnnxFacts { precision: "int8", weights: "int8", ..*facts };
    let bytes = encode_int8(&model.backbone, &ranges, &metadata(&facts));
    let mut encoder = Onnx::pool(&bytes, &source.input).context("the int8 backbone is checked with ONNX Runtime")?;
    let int8 = EncoderOfFile { encoder: &mut encoder, bytes: bytes.len() };
    let fidelity = Fidelity::measure(source, float, int8, means)?;
    Ok((bytes, fidelity))
}

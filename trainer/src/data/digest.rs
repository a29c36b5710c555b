//! Digests of a data set: whether a run goes on with the data that it was trained on, and whether sessions that were
//! measured before had the same images.

use anyhow::{Context, Result};
use orco_runtime::manifest::hexadecimal;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::config::SHOTS;
use crate::data::dataset::{DataSet, Images};
use crate::run::TrainedOn;
use crate::run::digest::digest;

/// Images digested at once.
pub(crate) const BLOCK: usize = 1024;

/// Digests what a run is trained on; 150 MB take less than a second. `weights` is the digest of the file that
/// `backbone.weights` names (SHA-256, in hexadecimal), `onnx` that of the imported backbone (SHA-256).
///
/// # Errors
/// If the pixels cannot be read.
pub fn digest_training_data(data: &DataSet, weights: Option<String>, onnx: Option<[u8; 32]>) -> Result<TrainedOn> {
    let (train, split) = (&data.train, &data.split);
    let mut classes = Sha256::new();
    for name in &data.class_names {
        classes.update((name.len() as u64).to_le_bytes());
        classes.update(name);
    }
    let indices = |indices: &mut dyn Iterator<Item = usize>| {
        let mut sum = Sha256::new();
        indices.for_each(|index| sum.update((index as u64).to_le_bytes()));
        text(sum)
    };
    let fixed = || indices(&mut split.candidates.iter().flat_map(|images| images.iter().take(SHOTS).copied()));
    Ok(TrainedOn {
        classes: text(classes),
        count: train.len(),
        images: digest_images(train)?,
        base: indices(&mut split.base.iter().copied()),
        lists: split.fixed_draw.then(fixed),
        weights,
        onnx: onnx.map(|digest| hexadecimal(&digest)),
    })
}

/// A digest of what sessions draw their shots from and measure on, beside the data that a run holds fast.
///
/// # Errors
/// If the pixels cannot be read.
pub fn session_digest(data: &DataSet) -> Result<String> {
    let split = &data.split;
    Ok(digest(json!([split.candidates, split.fixed_draw, split.measured, digest_images(&data.test)?])))
}

fn text(sum: Sha256) -> String {
    hexadecimal(&sum.finalize())
}

/// SHA-256 of sizes, labels and pixels, in hexadecimal.
fn digest_images(images: &Images) -> Result<String> {
    let mut sum = Sha256::new();
    for side in images.pixels.size() {
        sum.update(side.to_le_bytes());
    }
    for label in &images.labels {
        sum.update(label.to_le_bytes());
    }
    for start in (0..images.len()).step_by(BLOCK) {
        let rows = images.pixels.narrow(0, start as i64, BLOCK.min(images.len() - start) as i64);
        let rows = rows.to_device(tch::Device::Cpu).contiguous().view(-1);
        sum.update(Vec::<u8>::try_from(rows).context("pixels")?);
    }
    Ok(text(sum))
}

//! CIFAR-100 in its binary layout (Krizhevsky 2009), as tensors.
//!
//! The records themselves are read by [`orco_runtime::protocol::cifar100`], which the device program shares.

use std::path::Path;

use orco_runtime::protocol::cifar100::{self, DatasetError, Part};
use tch::{Kind, Tensor};

use super::Images;

/// Names of the 100 classes, by label.
///
/// # Errors
/// [`DatasetError`] if `fine_label_names.txt` is missing or does not hold 100 names.
pub fn class_names(folder: &Path) -> Result<Vec<String>, DatasetError> {
    cifar100::class_names(folder)
}

/// Reads one part of the data set.
///
/// # Errors
/// [`DatasetError`] if the file is missing, has the wrong size, or holds a label out of range.
pub fn read(folder: &Path, part: Part) -> Result<Images, DatasetError> {
    let records = cifar100::read(folder, part)?;
    let count = records.len() as i64;
    let labels = records.labels().collect();
    let planes: Vec<u8> = records.iter().flat_map(|record| record.planes.iter().copied()).collect();
    let pixels = Tensor::from_slice(&planes).view([count, 3, 32, 32]).to_kind(Kind::Uint8);
    Ok(Images { pixels, labels })
}

//! CIFAR-100 (Krizhevsky 2009), its binary version, as tensors.
//!
//! The records are read by [`orco_lab::cifar100`], which the device program shares.

use std::path::Path;

use orco_lab::cifar100::{self, DatasetError, Part};
use tch::{Kind, Tensor};

use super::{DataError, Images};

/// Names of the 100 classes, by label.
///
/// # Errors
/// [`DatasetError`] if `fine_label_names.txt` is missing or does not hold 100 names.
pub fn class_names(folder: &Path) -> Result<Vec<String>, DatasetError> {
    cifar100::class_names(folder)
}

/// Reads one part of the binary version.
///
/// # Errors
/// [`DatasetError`] if the file is missing, has the wrong size, or holds a label out of range.
pub fn read(folder: &Path, part: Part) -> Result<Images, DatasetError> {
    let records = cifar100::read(folder, part)?;
    let labels = records.labels().collect();
    let planes: Vec<u8> = records.iter().flat_map(|record| record.planes.iter().copied()).collect();
    Ok(images(&planes, labels))
}

/// Training images, test images and class names, from the folder or from the one that the archive unpacks to.
pub(super) fn open(folder: &Path) -> Result<(Images, Images, Vec<String>), DataError> {
    let unpacked = folder.join("cifar-100-binary");
    let inside = !folder.join("train.bin").is_file() && unpacked.join("train.bin").is_file();
    let folder = if inside { unpacked.as_path() } else { folder };
    Ok((read(folder, Part::Train)?, read(folder, Part::Test)?, class_names(folder)?))
}

fn images(planes: &[u8], labels: Vec<u16>) -> Images {
    let pixels = Tensor::from_slice(planes).view([labels.len() as i64, 3, 32, 32]).to_kind(Kind::Uint8);
    Images { pixels, labels }
}

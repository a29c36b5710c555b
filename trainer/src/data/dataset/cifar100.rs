//! CIFAR-100 (Krizhevsky 2009), its binary version, as tensors.
//!
//! The records are read by [`orco_benchmark::cifar100`], which the device program shares.

use std::path::Path;

use orco_benchmark::cifar100::{self, Cifar100Part};
use tch::Tensor;

use super::{DataError, Images};
use crate::platform::distributed::{RankGroup, SharedRows};

/// Reads one part of the binary version, into memory that the ranks of a machine share.
///
/// # Errors
/// [`DataError::Binary`] if the file is missing, has the wrong size, or holds a label out of range.
pub fn read(folder: &Path, part: Cifar100Part, group: &RankGroup) -> Result<Images, DataError> {
    let records = cifar100::read(folder, part)?;
    let labels: Vec<u16> = records.labels().collect();
    let side = cifar100::SIDE as i64;
    let SharedRows { rows: pixels, own, .. } = group.common_rows(&[labels.len() as i64, 3, side, side])?;
    let planes: Vec<u8> =
        records.iter().skip(own.start).take(own.len()).flat_map(|record| record.planes.iter().copied()).collect();
    let mut rows = pixels.narrow(0, own.start as i64, own.len() as i64);
    rows.copy_(&Tensor::from_slice(&planes).view_as(&rows));
    group.barrier()?;
    Ok(Images { pixels, labels })
}

/// Training images, test images and class names, from the folder or from the one that the archive unpacks to.
pub(super) fn open(folder: &Path, group: &RankGroup) -> Result<(Images, Images, Vec<String>), DataError> {
    let unpacked = folder.join("cifar-100-binary");
    let inside = !folder.join("train.bin").is_file() && unpacked.join("train.bin").is_file();
    let folder = if inside { unpacked.as_path() } else { folder };
    let train = read(folder, Cifar100Part::Train, group)?;
    Ok((train, read(folder, Cifar100Part::Test, group)?, cifar100::class_names(folder)?))
}

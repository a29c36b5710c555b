//! Image files with labels, and their way into memory: decoded in parallel, scaled, laid into one tensor.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;
use std::thread;

use orco_runtime::image::{self, ImageError};
use orco_runtime::threads::usable_threads;
use tch::Tensor;

use super::{DataError, Images};
use crate::config::{DataConfig, DataKind, SquareFit};
use crate::platform::distributed::{RankGroup, SharedRows};
use crate::platform::interrupt;
use crate::run::progress::WorkProgress;

/// Images decoded between two writes into the tensor; bounds the memory beside it.
const BLOCK: usize = 256;

/// One image file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedImage {
    /// Where it is.
    pub path: PathBuf,
    /// `class/file`, as session lists name it after their prefix.
    pub name: String,
    /// Its class.
    pub label: u16,
}

/// A data set of image files.
#[derive(Debug)]
pub(super) struct Listing {
    pub train: Vec<ListedImage>,
    pub test: Vec<ListedImage>,
    /// Seed that drew `test` from all, where the data do not set it apart.
    pub test_seed: Option<u64>,
    /// By label.
    pub class_names: Vec<String>,
    /// What session lists write before `class/file`.
    pub prefix: &'static str,
}

/// Images of a list of files.
#[derive(Debug)]
pub(super) struct DecodedImages {
    pub images: Images,
    /// [`ListedImage::name`] of each image.
    pub names: Vec<String>,
    /// Hash of each image's pixels, by which equal pictures are found.
    pub hashes: Vec<u64>,
    /// What was left out, a sentence each.
    pub skipped: Vec<String>,
}

/// Decodes JPEG, PNG and WebP files into `[n, 3, side, side]`: the part of the picture that the recipe names, scaled
/// with antialiasing.
///
/// The ranks of one machine decode a part each, into memory that they share. Files that cannot be decoded end the work
/// of all, or with `skip_broken` are left out. Images keep the order of `entries` whatever the number of threads and
/// ranks.
pub(super) fn decode(
    entries: &[ListedImage],
    data: &DataConfig,
    skip_broken: bool,
    what: &'static str,
    group: &RankGroup,
) -> Result<DecodedImages, DataError> {
    let side = i64::from(data.canvas());
    if group.size() > 1 {
        // Before any rank decodes its part of another list.
        require_same_files(entries, group)?;
    }
    let SharedRows { rows: pixels, own, first } = group.common_rows(&[entries.len() as i64, 3, side, side])?;
    let mut progress = WorkProgress::new(what, "images", own.len() as u64, 0);
    if group.size() > 1 {
        log::debug!("rank {} decodes {} of {} {what}", group.rank(), own.len(), entries.len());
    }
    let (mut broken, mut hashes) = (Vec::new(), vec![0; entries.len()]);
    for block in own.clone().step_by(BLOCK).map(|start| start..(start + BLOCK).min(own.end)) {
        interrupt::check().map_err(DataError::Stopped)?;
        let rows = pixels.narrow(0, block.start as i64, block.len() as i64);
        for (index, decoded) in block.clone().zip(decode_block(&entries[block.clone()], data, &rows)) {
            match decoded {
                Ok(hash) => hashes[index] = hash,
                Err(failure) => broken.push((index, failure.to_string())),
            }
        }
        if !broken.is_empty() && !skip_broken {
            break;
        }
        progress.advance(block.len() as u64, "");
    }
    progress.finish();
    // Every machine decodes all images.
    let broken: BTreeMap<usize, String> = group.gather_all(&broken)?.into_iter().flatten().collect();
    if let Some((&index, reason)) = broken.first_key_value()
        && !skip_broken
    {
        return Err(DataError::Image { path: entries[index].path.clone(), reason: reason.clone() });
    }
    if group.size() > 1 && is_compared(data) {
        for (start, part) in group.gather_all(&(own.start, hashes[own].to_vec()))? {
            hashes[start..start + part.len()].copy_from_slice(&part);
        }
    }
    let kept: Vec<usize> = (0..entries.len()).filter(|index| !broken.contains_key(index)).collect();
    if first {
        move_to_front(&pixels, &kept);
    }
    group.barrier()?;
    let skipped = broken.iter().map(|(&index, reason)| format!("{} {reason}", entries[index].path.display())).collect();
    let images = Images {
        pixels: pixels.narrow(0, 0, kept.len() as i64),
        labels: kept.iter().map(|&index| entries[index].label).collect(),
    };
    let names = kept.iter().map(|&index| entries[index].name.clone()).collect();
    let hashes = kept.iter().map(|&index| hashes[index]).collect();
    Ok(DecodedImages { images, names, hashes, skipped })
}

/// Refuses ranks whose lists, or files on them, differ.
fn require_same_files(entries: &[ListedImage], group: &RankGroup) -> Result<(), DataError> {
    let size = |entry: &ListedImage| entry.path.metadata().map_or(0, |file| file.len());
    let files: Vec<_> = entries.iter().map(|entry| (&entry.name, entry.label, size(entry))).collect();
    group.require_same("pictures", &format!("{files:?}"))?;
    Ok(())
}

/// Moves the rows of these indices, which rise, to the front, over those that are left out.
fn move_to_front(rows: &Tensor, kept: &[usize]) {
    for (row, &index) in kept.iter().enumerate().filter(|&(row, &index)| row != index) {
        rows.get(row as i64).copy_(&rows.get(index as i64));
    }
}

/// Whether pictures are compared with each other: a user's own may be there twice.
fn is_compared(data: &DataConfig) -> bool {
    data.kind == DataKind::Folders
}

/// Decodes some files on all cores into `rows`, `[n, 3, side, side]`: the hash of each one's pixels, 0 where they are
/// not [compared](is_compared), or its error.
fn decode_block(entries: &[ListedImage], data: &DataConfig, rows: &Tensor) -> Vec<Result<u64, ImageError>> {
    let image = 3 * (data.canvas() * data.canvas()) as usize;
    let mut buffer = vec![0; entries.len() * image];
    let mut hashes: Vec<Result<u64, ImageError>> = entries.iter().map(|_| Ok(0)).collect();
    let share = entries.len().div_ceil(usable_threads());
    thread::scope(|scope| {
        let parts = entries.chunks(share).zip(buffer.chunks_mut(share * image)).zip(hashes.chunks_mut(share));
        for ((entries, planes), hashes) in parts {
            scope.spawn(move || {
                for ((entry, planes), hash) in entries.iter().zip(planes.chunks_mut(image)).zip(hashes) {
                    let decoded = decode_one(entry, data, planes);
                    *hash = decoded.map(|()| if is_compared(data) { hash_of(planes) } else { 0 });
                }
            });
        }
    });
    rows.shallow_clone().copy_(&Tensor::from_slice(&buffer).view_as(rows));
    hashes
}

/// A hash of an image's pixels, the same in every process.
fn hash_of(pixels: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(pixels);
    hasher.finish()
}

/// Decodes one file into the planes of red, green and blue.
fn decode_one(entry: &ListedImage, data: &DataConfig, planes: &mut [u8]) -> Result<(), ImageError> {
    let picture = image::open(&entry.path).map_err(|broken| broken.reason)?;
    let side = data.canvas();
    let part = part(picture.width(), picture.height(), data.fit, data.crop.unwrap_or(1.0));
    let fitted = image::resize_part(&picture, part, [side, side]);
    let plane = (side * side) as usize;
    for (index, pixel) in fitted.pixels().enumerate() {
        for channel in 0..3 {
            planes[channel * plane + index] = pixel[channel];
        }
    }
    Ok(())
}

/// Left edge, upper edge, width and height of what is kept of a picture.
fn part(width: u32, height: u32, fit: SquareFit, crop: f64) -> [u32; 4] {
    let (full_width, full_height) = match fit {
        SquareFit::Square => (width.min(height), width.min(height)),
        SquareFit::Stretch => (width, height),
    };
    let kept = |side: u32| ((f64::from(side) * crop).round() as u32).max(1);
    let (kept_width, kept_height) = (kept(full_width), kept(full_height));
    [(width - kept_width) / 2, (height - kept_height) / 2, kept_width, kept_height]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::data::dataset::testing::write_picture;

    #[test]
    fn images_keep_their_order_and_broken_ones_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let entries: Vec<ListedImage> = (0..BLOCK + 5)
            .map(|index| {
                let path = folder.path().join(format!("{index}.png"));
                write_picture(&path, 12, 8, [index as u8, 7, 200]);
                ListedImage { path, name: format!("a/{index}.png"), label: index as u16 }
            })
            .collect();
        let data: DataConfig = toml::from_str("kind = \"folders\"\nimage_size = 8").unwrap();
        let all = decode(&entries, &data, false, "test", &RankGroup::alone()).unwrap();
        assert_eq!(all.images.pixels.size(), [BLOCK as i64 + 5, 3, 8, 8]);
        let at =
            |decoded: &DecodedImages, image: i64, channel| decoded.images.pixels.int64_value(&[image, channel, 3, 4]);
        assert_eq!((at(&all, 9, 0), at(&all, 9, 1), at(&all, 9, 2)), (9, 7, 200));
        // The red of the last ones is that of the first ones again.
        let different: HashSet<u64> = all.hashes.iter().copied().collect();
        assert_eq!((all.hashes.len(), different.len(), all.hashes[BLOCK]), (BLOCK + 5, 256, all.hashes[0]));

        std::fs::write(&entries[3].path, b"no picture").unwrap();
        std::fs::remove_file(&entries[BLOCK].path).unwrap();
        let error = decode(&entries, &data, false, "test", &RankGroup::alone()).unwrap_err().to_string();
        assert!(
            error.contains("3.png is neither a JPEG nor a PNG nor a WebP picture") && error.contains("--skip-broken"),
            "{error}"
        );
        let some = decode(&entries, &data, true, "test", &RankGroup::alone()).unwrap();
        assert_eq!((some.images.len(), some.names.len(), some.skipped.len()), (BLOCK + 3, BLOCK + 3, 2));
        assert_eq!((some.names[3].as_str(), some.images.labels[3], at(&some, 3, 0)), ("a/4.png", 4, 4));
        assert_eq!(at(&some, BLOCK as i64 - 1, 0), 1, "rows after a gap move up");
        assert_eq!((some.hashes.len(), &some.hashes[3..9]), (BLOCK + 3, &all.hashes[4..10]));
        assert!(some.skipped[1].contains(&format!("{BLOCK}.png cannot be read")), "{}", some.skipped[1]);
    }

    #[test]
    fn the_recipe_says_which_part_of_a_picture_is_kept() {
        assert_eq!(part(500, 375, SquareFit::Square, 1.0), [62, 0, 375, 375]);
        // The field: shorter side to 256, then the middle 224 x 224, which is 375 * 224 / 256 = 328 of the picture.
        assert_eq!(part(500, 375, SquareFit::Square, 0.875), [86, 23, 328, 328]);
        // 92 x 92, then the middle 84 x 84.
        assert_eq!(part(500, 375, SquareFit::Stretch, 84.0 / 92.0), [21, 16, 457, 342]);
        assert_eq!(part(1, 3, SquareFit::Square, 0.2), [0, 1, 1, 1]);
    }
}

//! Image files with labels, and their way into memory: decoded in parallel, scaled, laid into one tensor.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::thread;

use orco_runtime::image::{self, ImageError};
use orco_runtime::threads::usable_threads;
use orco_state::escape::EscapedText;
use orco_state::sentence::join_first;
use tch::Tensor;

use super::{DataError, Images};
use crate::config::{DataConfig, SquareFit};
use crate::platform::distributed::{RankGroup, SharedRows};
use crate::platform::interrupt;
use crate::run::progress::PhaseProgress;

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
        let size = |entry: &ListedImage| entry.path.metadata().map_or(0, |file| file.len());
        let files: Vec<_> = entries.iter().map(|entry| (&entry.name, entry.label, size(entry))).collect();
        group.require_same("pictures", &format!("{files:?}"))?;
    }
    let SharedRows { rows: pixels, own, first } = group.common_rows(&[entries.len() as i64, 3, side, side])?;
    let mut progress = PhaseProgress::counting(what, "images", own.len() as u64, 0);
    if group.size() > 1 {
        log::debug!("rank {} decodes {} of {} {what}", group.rank(), own.len(), entries.len());
    }
    let mut broken = Vec::new();
    for block in own.clone().step_by(BLOCK).map(|start| start..(start + BLOCK).min(own.end)) {
        interrupt::check().map_err(DataError::Stopped)?;
        let rows = pixels.narrow(0, block.start as i64, block.len() as i64);
        let failures = decode_block(&entries[block.clone()], data, &rows);
        broken.extend(block.clone().zip(failures).filter_map(|(index, failure)| Some((index, failure?.to_string()))));
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
    let kept: Vec<usize> = (0..entries.len()).filter(|index| !broken.contains_key(index)).collect();
    if first {
        for (row, &index) in kept.iter().enumerate().filter(|&(row, &index)| row != index) {
            pixels.get(row as i64).copy_(&pixels.get(index as i64));
        }
    }
    group.barrier()?;
    let skipped = broken.iter().map(|(&index, reason)| format!("{} {reason}", entries[index].path.display())).collect();
    let images = Images {
        pixels: pixels.narrow(0, 0, kept.len() as i64),
        labels: kept.iter().map(|&index| entries[index].label).collect(),
    };
    Ok(DecodedImages { images, names: kept.iter().map(|&index| entries[index].name.clone()).collect(), skipped })
}

/// Says which pictures are there twice, pixel for pixel, though they must not be: in two classes, of which one is wrong,
/// or among training and test images, so that accuracy says nothing about new pictures. A sentence each.
pub(super) fn repeated(train: &DecodedImages, test: &DecodedImages) -> Vec<String> {
    const NAMED: usize = 3;
    let (mut first_of, mut in_two_classes, mut in_both_parts) = (HashMap::new(), Vec::new(), Vec::new());
    for (is_test, DecodedImages { images, names, .. }) in [(false, train), (true, test)] {
        for (row, (name, &label)) in names.iter().zip(&images.labels).enumerate() {
            let pixels = images.pixels.get(row as i64).contiguous().view(-1);
            let mut hasher = DefaultHasher::new();
            let Ok(pixels) = Vec::<u8>::try_from(pixels) else { return Vec::new() };
            pixels.hash(&mut hasher);
            let (class, first, is_first_test) = *first_of.entry(hasher.finish()).or_insert((label, name, is_test));
            if class != label {
                in_two_classes.push(format!("{} and {}", EscapedText(first), EscapedText(name)));
            } else if is_test && !is_first_test {
                in_both_parts.push(format!("{} and {}", EscapedText(first), EscapedText(name)));
            }
        }
    }
    let mut sentences = Vec::new();
    if !in_two_classes.is_empty() {
        let shown = join_first(in_two_classes.iter(), NAMED, ", ");
        sentences.push(format!("the same picture lies in two classes: {shown}; remove it where it is wrong"));
    }
    if !in_both_parts.is_empty() {
        let shown = join_first(in_both_parts.iter(), NAMED, ", ");
        sentences.push(format!(
            "the same picture is a training image and a test image: {shown}; measured accuracies will be too high; remove \
             one of each pair"
        ));
    }
    sentences
}

/// Decodes some files on all cores into `rows`, `[n, 3, side, side]`; what went wrong with each.
fn decode_block(entries: &[ListedImage], data: &DataConfig, rows: &Tensor) -> Vec<Option<ImageError>> {
    let image = 3 * (data.canvas() * data.canvas()) as usize;
    let mut buffer = vec![0; entries.len() * image];
    let mut failures: Vec<Option<ImageError>> = entries.iter().map(|_| None).collect();
    let share = entries.len().div_ceil(usable_threads());
    thread::scope(|scope| {
        let parts = entries.chunks(share).zip(buffer.chunks_mut(share * image)).zip(failures.chunks_mut(share));
        for ((entries, planes), failures) in parts {
            scope.spawn(move || {
                for ((entry, planes), failure) in entries.iter().zip(planes.chunks_mut(image)).zip(failures) {
                    *failure = decode_one(entry, data, planes).err();
                }
            });
        }
    });
    rows.shallow_clone().copy_(&Tensor::from_slice(&buffer).view_as(rows));
    failures
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
        assert!(some.skipped[1].contains(&format!("{BLOCK}.png cannot be read")), "{}", some.skipped[1]);
    }

    #[test]
    fn a_picture_in_two_classes_or_in_both_parts_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let listed = |name: &str, label: u16, red: u8| {
            let path = folder.path().join(name);
            write_picture(&path, 8, 8, [red, 7, 200]);
            ListedImage { path, name: name.into(), label }
        };
        let data: DataConfig = toml::from_str("kind = \"folders\"\nimage_size = 8").unwrap();
        let decoded = |entries: &[ListedImage]| decode(entries, &data, false, "test", &RankGroup::alone()).unwrap();
        let train = decoded(&[listed("a/1.png", 0, 10), listed("a/2.png", 0, 10), listed("b/1.png", 1, 90)]);
        let test = decoded(&[listed("a/3.png", 0, 50), listed("b/2.png", 1, 10)]);
        let other = decoded(&[listed("a/6.png", 0, 20)]);
        assert!(repeated(&train, &other).is_empty(), "twice in one class is no contradiction");
        let two_classes = "the same picture lies in two classes: a/1.png and b/2.png; remove it where it is wrong";
        assert_eq!(repeated(&train, &test), [two_classes]);
        let tested = decoded(&[listed("a/4.png", 0, 50), listed("a/5.png", 0, 50), listed("b/3.png", 1, 90)]);
        let both_parts = "the same picture is a training image and a test image: b/1.png and b/3.png; measured \
                          accuracies will be too high; remove one of each pair";
        assert_eq!(repeated(&train, &tested), [both_parts]);
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

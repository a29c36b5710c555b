//! Image files with labels, and their way into memory: decoded in parallel, scaled, laid into one tensor.

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use orco_runtime::image::{self, ImageError, Preprocessing};
use tch::{Device, Kind, Tensor};

use super::{DataError, Images};
use crate::progress::Progress;
use crate::system;

/// Images decoded between two writes into the tensor; bounds the memory beside it.
const BLOCK: usize = 256;
/// Seconds between two lines of progress.
const QUIET: u64 = 10;

/// One image file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
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
    pub train: Vec<Entry>,
    pub test: Vec<Entry>,
    /// By label.
    pub class_names: Vec<String>,
    /// What session lists write before `class/file`.
    pub prefix: &'static str,
}

/// Images of a list of files.
#[derive(Debug)]
pub(super) struct Decoded {
    pub images: Images,
    /// [`Entry::name`] of each image.
    pub names: Vec<String>,
    /// What was left out, a sentence each.
    pub skipped: Vec<String>,
}

/// Decodes JPEG and PNG files into `[n, 3, side, side]`: the largest centred square, scaled with antialiasing.
///
/// Files that cannot be decoded end the work, or with `skip_broken` are left out. Images keep the order of `entries`
/// whatever the number of threads.
pub(super) fn decode(
    entries: &[Entry],
    side: u32,
    skip_broken: bool,
    what: &'static str,
) -> Result<Decoded, DataError> {
    let threads = system::cores();
    let plane = (side * side) as usize;
    let pixels = Tensor::zeros([entries.len() as i64, 3, i64::from(side), i64::from(side)], (Kind::Uint8, Device::Cpu));
    let mut buffer = vec![0; BLOCK.min(entries.len()) * 3 * plane];
    let (mut names, mut labels, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    let mut progress = Progress::counting(what, "images", entries.len() as u64, 0);
    let mut said = Instant::now();
    for block in entries.chunks(BLOCK) {
        let mut failures: Vec<Option<ImageError>> = block.iter().map(|_| None).collect();
        let share = block.len().div_ceil(threads);
        thread::scope(|scope| {
            let parts = block.chunks(share).zip(buffer.chunks_mut(share * 3 * plane)).zip(failures.chunks_mut(share));
            for ((entries, planes), failures) in parts {
                scope.spawn(move || {
                    for ((entry, planes), failure) in entries.iter().zip(planes.chunks_mut(3 * plane)).zip(failures) {
                        *failure = decode_one(entry, side, planes).err();
                    }
                });
            }
        });
        let mut kept = 0;
        let first = labels.len();
        for (index, (entry, failure)) in block.iter().zip(failures).enumerate() {
            match failure {
                None => {
                    buffer.copy_within(index * 3 * plane..(index + 1) * 3 * plane, kept * 3 * plane);
                    kept += 1;
                    names.push(entry.name.clone());
                    labels.push(entry.label);
                }
                Some(reason) if skip_broken => skipped.push(format!("{} {reason}", entry.path.display())),
                Some(reason) => return Err(DataError::Image { path: entry.path.clone(), reason }),
            }
        }
        let rows = pixels.narrow(0, first as i64, kept as i64);
        rows.shallow_clone().copy_(&Tensor::from_slice(&buffer[..kept * 3 * plane]).view_as(&rows));
        progress.advance(block.len() as u64, "");
        if said.elapsed().as_secs() >= QUIET {
            progress.milestone(&format!("{} of {} images", labels.len(), entries.len()));
            said = Instant::now();
        }
    }
    progress.finish();
    Ok(Decoded { images: Images { pixels: pixels.narrow(0, 0, labels.len() as i64), labels }, names, skipped })
}

/// Decodes one file into the planes of red, green and blue.
fn decode_one(entry: &Entry, side: u32, planes: &mut [u8]) -> Result<(), ImageError> {
    let picture = image::open(&entry.path)?;
    let fitted = Preprocessing { width: side, height: side, mean: [0.0; 3], deviation: [1.0; 3] }.fit(&picture);
    let plane = (side * side) as usize;
    for (index, pixel) in fitted.pixels().enumerate() {
        for channel in 0..3 {
            planes[channel * plane + index] = pixel[channel];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::testing::write_picture;

    #[test]
    fn images_keep_their_order_and_broken_ones_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let entries: Vec<Entry> = (0..BLOCK + 5)
            .map(|index| {
                let path = folder.path().join(format!("{index}.png"));
                write_picture(&path, 12, 8, [index as u8, 7, 200]);
                Entry { path, name: format!("a/{index}.png"), label: index as u16 }
            })
            .collect();
        let all = decode(&entries, 8, false, "test").unwrap();
        assert_eq!(all.images.pixels.size(), [BLOCK as i64 + 5, 3, 8, 8]);
        let at = |decoded: &Decoded, image: i64, channel| decoded.images.pixels.int64_value(&[image, channel, 3, 4]);
        assert_eq!((at(&all, 9, 0), at(&all, 9, 1), at(&all, 9, 2)), (9, 7, 200));

        std::fs::write(&entries[3].path, b"no picture").unwrap();
        std::fs::remove_file(&entries[BLOCK].path).unwrap();
        let error = decode(&entries, 8, false, "test").unwrap_err().to_string();
        assert!(
            error.contains("3.png is neither a JPEG nor a PNG picture") && error.contains("--skip-broken"),
            "{error}"
        );
        let some = decode(&entries, 8, true, "test").unwrap();
        assert_eq!((some.images.len(), some.names.len(), some.skipped.len()), (BLOCK + 3, BLOCK + 3, 2));
        assert_eq!((some.names[3].as_str(), some.images.labels[3], at(&some, 3, 0)), ("a/4.png", 4, 4));
        assert_eq!(at(&some, BLOCK as i64 - 1, 0), 1, "rows after a gap move up");
        assert!(some.skipped[1].contains(&format!("{BLOCK}.png cannot be read")), "{}", some.skipped[1]);
    }
}

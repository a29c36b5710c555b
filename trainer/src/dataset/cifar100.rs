//! CIFAR-100 (Krizhevsky 2009) as tensors: its binary version, or its python version (pickles), by the files there.
//!
//! The binary records are read by [`orco_lab::cifar100`], which the device program shares. Both versions
//! hold the same images in the same order, so that the field's session lists fit either.

use std::path::Path;
use std::{fs, io};

use orco_lab::cifar100::{self, CLASSES, DatasetError, Part};
use tch::{Kind, Tensor};

use super::pickle::{self, PickleError, Value};
use super::{DataError, Images};

/// Bytes of an image.
const PLANES: usize = 3 * 32 * 32;
/// Largest pickle that is read, in bytes; the training part has 155 million.
const MOST_BYTES: u64 = 400 << 20;
/// What is said beside a pickle that is missing.
const LAYOUT: &str = "CIFAR-100's python version is the files train, test and meta";

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

/// Training images, test images and class names, from whichever version is in the folder or in the folder that the
/// archive unpacks to.
pub(super) fn open(folder: &Path) -> Result<(Images, Images, Vec<String>), DataError> {
    let inner = |name: &str, file: &str| Some(folder.join(name)).filter(|folder| folder.join(file).is_file());
    let binary = inner("", "train.bin").or_else(|| inner("cifar-100-binary", "train.bin"));
    let python = inner("", "train").or_else(|| inner("cifar-100-python", "train"));
    match (binary, python) {
        (None, Some(folder)) => {
            Ok((read_python(&folder, "train", 50_000)?, read_python(&folder, "test", 10_000)?, read_meta(&folder)?))
        }
        (binary, _) => {
            let folder = binary.as_deref().unwrap_or(folder);
            Ok((read(folder, Part::Train)?, read(folder, Part::Test)?, class_names(folder)?))
        }
    }
}

fn images(planes: &[u8], labels: Vec<u16>) -> Images {
    let pixels = Tensor::from_slice(planes).view([labels.len() as i64, 3, 32, 32]).to_kind(Kind::Uint8);
    Images { pixels, labels }
}

/// Reads a part of the python version: `data` `[count, 3072]` bytes, `fine_labels` `[count]`.
fn read_python(folder: &Path, name: &str, count: usize) -> Result<Images, DataError> {
    with_pickle(&folder.join(name), |value| {
        let wrong = |key, expected| PickleError::Key { key, expected };
        let planes = match value.get("data") {
            Some(Value::Array(shape, bytes)) if **shape == [count, PLANES] && bytes.len() == count * PLANES => *bytes,
            _ => return Err(wrong("data", format!("an array of {count} x {PLANES} bytes"))),
        };
        let labels: Option<Vec<u16>> = value
            .get("fine_labels")
            .and_then(Value::numbers)
            .filter(|labels| labels.len() == count && labels.iter().all(|label| (0..CLASSES as i64).contains(label)))
            .map(|labels| labels.into_iter().map(|label| label as u16).collect());
        let labels = labels.ok_or_else(|| wrong("fine_labels", format!("a list of {count} labels from 0 to 99")))?;
        Ok(images(planes, labels))
    })
}

/// Reads the class names of the python version.
fn read_meta(folder: &Path) -> Result<Vec<String>, DataError> {
    with_pickle(&folder.join("meta"), |value| {
        let names = value.get("fine_label_names").and_then(Value::texts).filter(|names| names.len() == CLASSES);
        names.ok_or(PickleError::Key { key: "fine_label_names", expected: "a list of 100 names".into() })
    })
}

fn with_pickle<T>(path: &Path, read: impl Fn(&Value<'_>) -> Result<T, PickleError>) -> Result<T, DataError> {
    let sized = fs::metadata(path).and_then(|facts| match facts.len() {
        0..=MOST_BYTES => fs::read(path),
        _ => Err(io::Error::other("it is too large")),
    });
    let bytes = sized.map_err(DataError::read(path, LAYOUT))?;
    let made = pickle::read(&bytes).and_then(|value| read(&value));
    made.map_err(|reason| DataError::Pickle { path: path.into(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part as cPickle wrote the published ones: protocol 2, strings as BINSTRING, memoised.
    fn part(count: usize, label: impl Fn(usize) -> u8, shape: u32) -> Vec<u8> {
        let mut bytes =
            b"\x80\x02}q\x01(U\x09filenamesq\x02]q\x03(U\x05a.pngq\x04h\x04eU\x0bfine_labelsq\x05]q\x06(".to_vec();
        (0..count).for_each(|index| bytes.extend([b'K', label(index)]));
        bytes.extend(b"eU\x04dataq\x07cnumpy.core.multiarray\n_reconstruct\nq\x08cnumpy\nndarray\nq\x09K\x00\x85U\x01b\x87Rq\x0a");
        bytes.extend(b"(K\x01J");
        bytes.extend(shape.to_le_bytes());
        bytes.extend(b"M\x00\x0c\x86cnumpy\ndtype\nq\x0bU\x02u1K\x00K\x01\x87Rq\x0c(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T");
        bytes.extend(((count * PLANES) as u32).to_le_bytes());
        bytes.extend((0..count * PLANES).map(|index| (index / PLANES * 10 + index / 1024 % 3) as u8));
        bytes.extend(b"q\x0dtbu.");
        bytes
    }

    #[test]
    fn the_python_version_is_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("test"), part(4, |index| index as u8 + 90, 4)).unwrap();
        let images = read_python(folder.path(), "test", 4).unwrap();
        assert_eq!(images.labels, [90, 91, 92, 93]);
        assert_eq!(images.pixels.size(), [4, 3, 32, 32]);
        assert_eq!(images.pixels.int64_value(&[3, 2, 31, 31]), 32);
        let mut meta = b"\x80\x02}q\x01U\x10fine_label_namesq\x02]q\x03(".to_vec();
        (0..100).for_each(|class| meta.extend(format!("U\x07class{class:02}").bytes()));
        meta.extend(b"es.");
        fs::write(folder.path().join("meta"), meta).unwrap();
        let names = read_meta(folder.path()).unwrap();
        assert_eq!((names.len(), names[42].as_str()), (100, "class42"));
    }

    #[test]
    fn what_is_wrong_with_the_python_version_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let missing = open(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("train.bin"), "{missing}");
        let said = |bytes: Vec<u8>| {
            fs::write(folder.path().join("train"), bytes).unwrap();
            read_python(folder.path(), "train", 4).unwrap_err().to_string()
        };
        let whole = part(4, |_| 5, 4);
        let cut = said(whole[..whole.len() - 100].to_vec());
        assert!(cut.contains("train: the file is cut off"), "{cut}");
        let label = said(part(4, |_| 100, 4));
        assert!(label.contains("\"fine_labels\" is missing or is not a list of 4 labels from 0 to 99"), "{label}");
        let shape = said(part(4, |_| 5, 3));
        assert!(shape.contains("\"data\" is missing or is not an array of 4 x 3072 bytes"), "{shape}");
        let small = open(folder.path()).err().unwrap().to_string();
        assert!(small.contains("an array of 50000 x 3072 bytes"), "the python version is chosen: {small}");
        let lacking = read_meta(folder.path()).unwrap_err().to_string();
        assert!(lacking.contains("meta") && lacking.contains("train, test and meta"), "{lacking}");
    }
}

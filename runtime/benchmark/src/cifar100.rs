//! CIFAR-100 in its binary layout (Krizhevsky 2009): per record one byte coarse label, one byte fine label, then 3072
//! bytes of red, green and blue planes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Number of classes.
pub const CLASSES: usize = 100;
/// Side of an image.
pub const SIDE: usize = 32;
const PLANES: usize = 3 * SIDE * SIDE;
const RECORD: usize = 2 + PLANES;

/// Training or test images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cifar100Part {
    /// `train.bin`, 50,000 records.
    Train,
    /// `test.bin`, 10,000 records.
    Test,
}

impl Cifar100Part {
    /// Name of the file and number of records.
    fn file(self) -> (&'static str, usize) {
        match self {
            Self::Train => ("train.bin", 50_000),
            Self::Test => ("test.bin", 10_000),
        }
    }
}

/// Why a part of the data set could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cifar100Error {
    /// The file could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file does not hold the right number of whole records.
    Size {
        /// The file.
        path: PathBuf,
        /// Bytes expected.
        expected: usize,
        /// Bytes there.
        actual: usize,
    },
    /// A record's fine label is 100 or more.
    Label {
        /// The file.
        path: PathBuf,
        /// Number of the record, from 0.
        record: usize,
        /// Its label.
        label: u8,
    },
    /// The list of names does not hold 100 of them.
    Names {
        /// The file.
        path: PathBuf,
        /// Names there.
        actual: usize,
    },
}

impl std::fmt::Display for Cifar100Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read { path, source } => write!(
                f,
                "cannot read {}: {source}; the folder must hold train.bin, test.bin and fine_label_names.txt of \
                 CIFAR-100's binary version",
                path.display()
            ),
            Self::Size { path, expected, actual } => write!(
                f,
                "{} has {actual} bytes, but CIFAR-100's binary version has {expected}; it is cut off or another file",
                path.display()
            ),
            Self::Label { path, record, label } => {
                write!(
                    f,
                    "{}, record {record}: label {label} is out of range 0..=99; the file is damaged",
                    path.display()
                )
            }
            Self::Names { path, actual } => write!(f, "{} holds {actual} names, but 100 are expected", path.display()),
        }
    }
}

impl std::error::Error for Cifar100Error {}

/// All records of a part, in their original order.
#[derive(Clone, Debug)]
pub struct Cifar100Records(Vec<u8>);

/// One image with its label.
#[derive(Clone, Copy, Debug)]
pub struct Cifar100Record<'a> {
    /// Fine label, below 100.
    pub label: u16,
    /// 32x32 red, then green, then blue values, row-major.
    pub planes: &'a [u8],
}

impl Cifar100Records {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.0.len() / RECORD
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Record number `index`.
    ///
    /// # Panics
    /// If there is no such record.
    pub fn get(&self, index: usize) -> Cifar100Record<'_> {
        let record = &self.0[index * RECORD..][..RECORD];
        Cifar100Record { label: u16::from(record[1]), planes: &record[2..] }
    }

    /// All records in order.
    pub fn iter(&self) -> impl Iterator<Item = Cifar100Record<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// All labels in order.
    pub fn labels(&self) -> impl Iterator<Item = u16> + '_ {
        self.iter().map(|record| record.label)
    }
}

/// Reads one part.
///
/// # Errors
/// [`Cifar100Error`] if the file is missing, has the wrong size, or holds a label out of range.
pub fn read(folder: &Path, part: Cifar100Part) -> Result<Cifar100Records, Cifar100Error> {
    let (name, count) = part.file();
    let path = folder.join(name);
    // The size is asked first, so that a wrong, huge file is not read into memory.
    let failed = |source| Cifar100Error::Read { path: path.clone(), source };
    let actual = fs::metadata(&path).map_err(failed)?.len() as usize;
    if actual != count * RECORD {
        return Err(Cifar100Error::Size { path, expected: count * RECORD, actual });
    }
    let records = Cifar100Records(fs::read(&path).map_err(failed)?);
    let wrong = records.labels().position(|label| usize::from(label) >= CLASSES);
    match wrong {
        Some(record) => Err(Cifar100Error::Label { path, record, label: records.get(record).label as u8 }),
        None => Ok(records),
    }
}

/// Names of the 100 classes, by label, from `fine_label_names.txt`.
///
/// # Errors
/// [`Cifar100Error`] if the list is missing or does not hold 100 names.
pub fn class_names(folder: &Path) -> Result<Vec<String>, Cifar100Error> {
    let path = folder.join("fine_label_names.txt");
    let text = fs::read_to_string(&path).map_err(|source| Cifar100Error::Read { path: path.clone(), source })?;
    let names: Vec<String> = text.lines().map(str::trim).filter(|name| !name.is_empty()).map(String::from).collect();
    if names.len() == CLASSES { Ok(names) } else { Err(Cifar100Error::Names { path, actual: names.len() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_wrong_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.bin");
        let missing = read(folder.path(), Cifar100Part::Test).unwrap_err();
        assert!(matches!(missing, Cifar100Error::Read { .. }), "{missing}");
        let mut bytes = vec![7u8; 10_000 * RECORD];
        bytes[3 * RECORD + 1] = 99;
        bytes[3 * RECORD + 2] = 200;
        fs::write(&path, &bytes).unwrap();
        let records = read(folder.path(), Cifar100Part::Test).unwrap();
        assert_eq!((records.len(), records.get(3).label, records.get(3).planes[0]), (10_000, 99, 200));
        bytes[5 * RECORD + 1] = 100;
        fs::write(&path, &bytes).unwrap();
        let wrong = read(folder.path(), Cifar100Part::Test).unwrap_err();
        assert!(matches!(wrong, Cifar100Error::Label { record: 5, label: 100, .. }), "{wrong}");
        fs::write(&path, &bytes[1..]).unwrap();
        let short = read(folder.path(), Cifar100Part::Test).unwrap_err();
        assert!(matches!(short, Cifar100Error::Size { expected: 30_740_000, actual: 30_739_999, .. }), "{short}");
    }
}

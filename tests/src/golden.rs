//! Reads a file of reference vectors.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};

use crate::compare;

/// Names the file of reference vectors to use instead of the one in `tests/golden`.
pub const VARIABLE: &str = "ORCO_GOLDEN";

/// A file of reference vectors. A key that is missing or of another kind fails the test with its name.
#[derive(Clone, Debug)]
pub struct Golden {
    path: PathBuf,
    arrays: BTreeMap<String, (Vec<usize>, Numbers)>,
}

/// The entries of an array as stored.
#[derive(Clone, Debug)]
enum Numbers {
    Single(Vec<f32>),
    Double(Vec<f64>),
    Integer(Vec<i64>),
    Other(Dtype),
}

/// An array out of a file of reference vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<T> {
    /// Its key.
    pub key: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its entries, row-major.
    pub values: Vec<T>,
}

impl<T> Array<T> {
    /// Entry `index` of the first axis with all that is in it.
    ///
    /// # Panics
    /// If there is none.
    pub fn part(&self, index: usize) -> &[T] {
        let count = self.shape.first().copied().unwrap_or(0);
        assert!(index < count, "{}: part {index} of {count} is wanted", self.key);
        let length = self.values.len() / count;
        &self.values[index * length..][..length]
    }

    /// Length along an axis, counted from 0.
    ///
    /// # Panics
    /// If the array has fewer axes.
    pub fn length(&self, axis: usize) -> usize {
        let shape = &self.shape;
        *shape.get(axis).unwrap_or_else(|| panic!("{}: shape {shape:?} has no axis {axis}", self.key))
    }

    /// The array itself, if it has the shape that is wanted.
    ///
    /// # Panics
    /// If it has not.
    #[must_use]
    pub fn shaped(self, shape: &[usize]) -> Self {
        assert_eq!(self.shape, shape, "{}: shape as read, and as the other arrays ask for", self.key);
        self
    }
}

impl<T: Copy + Into<f64>> Array<T> {
    /// Compares numbers of ours with this array, as [`compare::assert_close`] does.
    ///
    /// # Panics
    /// If one of them is too far off.
    #[track_caller]
    pub fn assert_close<A: Copy + Into<f64>>(&self, actual: &[A], tolerance: f64) {
        compare::assert_close(&self.key, actual, &self.values, tolerance);
    }
}

impl Golden {
    /// The vectors that [`VARIABLE`] names, else those in `tests/golden`.
    ///
    /// # Panics
    /// If the file is not there or unusable.
    pub fn open() -> Self {
        Self::find(std::env::var_os(VARIABLE).as_deref(), &kept())
    }

    /// The vectors in `tests/golden`, whatever [`VARIABLE`] names: for tests that rest on what is in them.
    ///
    /// # Panics
    /// If the file is not there or unusable.
    pub fn open_kept() -> Self {
        Self::find(None, &kept())
    }

    fn find(named: Option<&OsStr>, kept: &Path) -> Self {
        let Some(named) = named else { return Self::read(kept) };
        // Cargo runs tests in their package's folder; a relative path was likely meant from the workspace's.
        let paths = [PathBuf::from(named), package().join("..").join(named)];
        Self::read(paths.iter().find(|path| path.is_file()).unwrap_or(&paths[0]))
    }

    /// Reads a file.
    ///
    /// # Panics
    /// If it cannot be read or is not in the safetensors format.
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path)
            .unwrap_or_else(|error| panic!("reference vectors {} cannot be read: {error}", path.display()));
        Self::parse(&bytes, path)
    }

    fn parse(bytes: &[u8], path: &Path) -> Self {
        let tensors = SafeTensors::deserialize(bytes)
            .unwrap_or_else(|error| panic!("reference vectors {} are no safetensors: {error}", path.display()));
        let arrays = tensors.iter().map(|(key, tensor)| {
            let bytes = tensor.data();
            let numbers = match tensor.dtype() {
                Dtype::F32 => Numbers::Single(words(bytes).map(f32::from_le_bytes).collect()),
                Dtype::F64 => Numbers::Double(words(bytes).map(f64::from_le_bytes).collect()),
                Dtype::I64 => Numbers::Integer(words(bytes).map(i64::from_le_bytes).collect()),
                other => Numbers::Other(other),
            };
            (key.to_owned(), (tensor.shape().to_vec(), numbers))
        });
        Self { path: path.to_owned(), arrays: arrays.collect() }
    }

    /// The f32 array of that key.
    ///
    /// # Panics
    /// If there is none.
    pub fn f32(&self, key: &str) -> Array<f32> {
        self.array(key, "f32", |numbers| match numbers {
            Numbers::Single(values) => Some(values.clone()),
            _ => None,
        })
    }

    /// The f64 array of that key.
    ///
    /// # Panics
    /// If there is none.
    pub fn f64(&self, key: &str) -> Array<f64> {
        self.array(key, "f64", |numbers| match numbers {
            Numbers::Double(values) => Some(values.clone()),
            _ => None,
        })
    }

    /// The i64 array of that key.
    ///
    /// # Panics
    /// If there is none.
    pub fn i64(&self, key: &str) -> Array<i64> {
        self.array(key, "i64", |numbers| match numbers {
            Numbers::Integer(values) => Some(values.clone()),
            _ => None,
        })
    }

    /// The i64 array of that key, whose entries are labels or rows: none is negative.
    ///
    /// # Panics
    /// If there is none, or an entry does not fit.
    pub fn labels(&self, key: &str) -> Array<u32> {
        let Array { key, shape, values } = self.i64(key);
        let fit = |value| u32::try_from(value).unwrap_or_else(|_| panic!("{key}: {value} is no label"));
        let values = values.into_iter().map(fit).collect();
        Array { key, shape, values }
    }

    /// The parts N of the keys `{prefix}{N}{suffix}`, as written; there is at least one.
    ///
    /// # Panics
    /// If there is none.
    pub fn names(&self, prefix: &str, suffix: &str) -> Vec<String> {
        let names = self.arrays.keys().filter_map(|key| key.strip_prefix(prefix)?.strip_suffix(suffix));
        let names: Vec<String> = names.map(str::to_owned).collect();
        assert!(!names.is_empty(), "reference vectors {} lack a key {prefix}{{N}}{suffix}", self.path.display());
        names
    }

    /// [`Golden::names`] that are whole numbers, rising.
    ///
    /// # Panics
    /// If there is none, or one is not a number.
    pub fn numbers(&self, prefix: &str, suffix: &str) -> Vec<usize> {
        let number = |name: &String| {
            name.parse().unwrap_or_else(|_| panic!("the key {prefix}{name}{suffix} has no number in it"))
        };
        let mut numbers: Vec<usize> = self.names(prefix, suffix).iter().map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn array<T>(&self, key: &str, kind: &str, values: impl Fn(&Numbers) -> Option<Vec<T>>) -> Array<T> {
        let path = self.path.display();
        let (shape, numbers) =
            self.arrays.get(key).unwrap_or_else(|| panic!("reference vectors {path} lack the key {key}"));
        let values = values(numbers)
            .unwrap_or_else(|| panic!("reference vectors {path}: {key} is {}, not {kind}", numbers.kind()));
        Array { key: key.to_owned(), shape: shape.clone(), values }
    }
}

impl Numbers {
    fn kind(&self) -> String {
        match self {
            Self::Single(_) => "f32".to_owned(),
            Self::Double(_) => "f64".to_owned(),
            Self::Integer(_) => "i64".to_owned(),
            Self::Other(dtype) => format!("{dtype:?}"),
        }
    }
}

/// Splits bytes into the words that numbers of `N` bytes are stored as.
fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// Place of the reference vectors in the repository.
fn kept() -> PathBuf {
    package().join("golden/reference-vectors.safetensors")
}

/// The folder of this package, which lies in the workspace's.
fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::TensorView;

    use super::*;

    fn example() -> Golden {
        let floats: Vec<u8> = [1.5f32, -2.0, 0.0, 4.0, 5.0, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let integers: Vec<u8> = [3i64, -1].iter().flat_map(|x| x.to_le_bytes()).collect();
        let view = |dtype, shape, bytes| TensorView::new(dtype, shape, bytes).unwrap();
        let bytes = safetensors::serialize(
            [
                ("after10.w", view(Dtype::F32, vec![3, 2], &floats)),
                ("after9.w", view(Dtype::F32, vec![6], &floats)),
                ("labels", view(Dtype::I64, vec![2], &integers)),
            ],
            None,
        );
        Golden::parse(&bytes.unwrap(), Path::new("example"))
    }

    #[test]
    fn arrays_come_with_shapes() {
        let array = example().f32("after10.w");
        assert_eq!((array.length(0), array.part(1)), (3, &[0.0, 4.0][..]));
        assert_eq!(example().i64("labels").values, [3, -1]);
    }

    #[test]
    fn names_in_keys_are_found() {
        assert_eq!(example().numbers("after", ".w"), [9, 10]);
        assert_eq!(example().names("lab", ""), ["els"]);
    }

    #[test]
    #[should_panic(expected = "example lack the key absent")]
    fn absent_key_is_named() {
        example().f32("absent");
    }

    #[test]
    #[should_panic(expected = "example lack a key before{N}.w")]
    fn absent_family_of_keys_is_named() {
        example().numbers("before", ".w");
    }

    #[test]
    #[should_panic(expected = "labels is i64, not f32")]
    fn other_kind_is_named() {
        example().f32("labels");
    }

    #[test]
    #[should_panic(expected = "labels: -1 is no label")]
    fn negative_label_is_named() {
        example().labels("labels");
    }

    #[test]
    #[should_panic(expected = "reference vectors /nowhere/vectors cannot be read")]
    fn a_missing_file_fails() {
        Golden::find(None, Path::new("/nowhere/vectors"));
    }

    #[test]
    #[should_panic(expected = "reference vectors /nowhere/vectors cannot be read")]
    fn named_file_must_be_there() {
        Golden::find(Some(OsStr::new("/nowhere/vectors")), Path::new("/nowhere/else"));
    }

    #[test]
    #[should_panic(expected = "are no safetensors")]
    fn named_file_must_be_safetensors() {
        Golden::find(Some(OsStr::new("Cargo.toml")), Path::new("/nowhere/else"));
    }
}

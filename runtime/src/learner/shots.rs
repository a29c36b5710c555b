//! The shots of a class, as files, pictures in memory, or features.

use std::fs;
use std::path::{Path, PathBuf};

use ::image::RgbImage;
use ndarray::ArrayView3;
use orco_state::label::Shown;

use super::error::{BrokenPicture, ShotsError};
use crate::image;

/// Endings of the files that count as pictures.
const ENDINGS: [&str; 3] = ["jpg", "jpeg", "png"];

/// The shots of a class.
#[derive(Clone, Debug)]
pub enum Shots<'a> {
    /// Files of pictures. One is open at a time, whatever their number.
    Files(Vec<PathBuf>),
    /// Pictures in memory.
    Pictures(&'a [RgbImage]),
    /// Features that were computed before, `[shots, views, features]`, the clean view of each first.
    Features(ArrayView3<'a, f32>),
    /// The same with the pictures that the features were computed of, which are kept where that is wanted.
    Taken(ArrayView3<'a, f32>, &'a [RgbImage]),
}

impl Shots<'_> {
    /// All pictures of a folder, as [`pictures_in`] lists them.
    ///
    /// # Errors
    /// [`ShotsError`] if the folder cannot be read or holds none.
    pub fn folder(path: impl AsRef<Path>) -> Result<Self, ShotsError> {
        Ok(Self::Files(pictures_in(path.as_ref())?))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Files(paths) => paths.len(),
            Self::Pictures(pictures) => pictures.len(),
            Self::Features(features) | Self::Taken(features, _) => features.dim().0,
        }
    }

    /// What one is called, in a sentence.
    pub(super) fn name(&self, shot: usize, label: &str) -> String {
        match self {
            Self::Files(paths) => paths[shot].display().to_string(),
            _ => format!("picture {} of {}", shot + 1, Shown(label)),
        }
    }
}

/// The pictures of a folder (.jpg, .jpeg, .png), sorted by name. Other files are passed over, and hidden ones:
/// `._1.jpg`, which a Mac writes beside `1.jpg`, is no picture.
///
/// # Errors
/// [`ShotsError`] if the folder cannot be read or holds none.
pub fn pictures_in(folder: &Path) -> Result<Vec<PathBuf>, ShotsError> {
    let unreadable = |source| ShotsError::Folder { path: folder.into(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.is_file() && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(ShotsError::Empty { path: folder.into() });
    }
    paths.sort();
    Ok(paths)
}

/// Opens a picture; the error names it.
pub(super) fn open(path: &Path) -> Result<RgbImage, BrokenPicture> {
    image::open(path).map_err(|reason| BrokenPicture { path: path.into(), reason })
}

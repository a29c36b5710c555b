//! The shots of a class, as files, pictures in memory, or features.

use std::fs;
use std::path::{Path, PathBuf};

use ::image::RgbImage;
use ndarray::ArrayView3;
use orco_state::label::EscapedText;

use super::error::{BrokenPicture, ShotsError};
use crate::files::SymlinkPolicy;
use crate::files::folder::OpenFolder;
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
    /// Pictures whose features were computed before. The pictures are kept where that is wanted.
    WithFeatures {
        /// The pictures.
        pictures: &'a [RgbImage],
        /// Their features, `[shots, views, features]`, the clean view of each first.
        features: ArrayView3<'a, f32>,
    },
}

impl Shots<'_> {
    /// All pictures of a folder, as [`pictures_in`] lists them.
    ///
    /// # Errors
    /// [`ShotsError`] if the folder cannot be read or holds none.
    pub fn folder(path: impl AsRef<Path>) -> Result<Self, ShotsError> {
        Ok(Self::Files(pictures_in(path)?))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Files(paths) => paths.len(),
            Self::Pictures(pictures) => pictures.len(),
            Self::Features(features) | Self::WithFeatures { features, .. } => features.dim().0,
        }
    }

    /// What one is called, in a sentence.
    pub(super) fn name(&self, shot: usize, label: &str) -> String {
        match self {
            Self::Files(paths) => paths[shot].display().to_string(),
            _ => format!("picture {} of {}", shot + 1, EscapedText(label)),
        }
    }
}

/// The pictures of a folder (.jpg, .jpeg, .png), sorted by name. Other files are passed over, and hidden ones:
/// `._1.jpg`, which a Mac writes beside `1.jpg`, is no picture. One that cannot be reached, such as a link that leads
/// nowhere, is among them: whoever opens it says so.
///
/// # Errors
/// [`ShotsError`] if the folder cannot be read or holds none.
pub fn pictures_in(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, ShotsError> {
    let folder = folder.as_ref();
    let unreadable = |source| ShotsError::Folder { path: folder.into(), source };
    let opened = OpenFolder::open_existing(folder, SymlinkPolicy::Follow).map_err(unreadable)?;
    let names = opened.all_names().map_err(unreadable)?;
    let mut paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).filter(|path| is_picture(path)).collect();
    if paths.is_empty() {
        return Err(ShotsError::Empty { path: folder.into() });
    }
    paths.sort();
    Ok(paths)
}

/// Whether a file is meant to be a picture, by its name.
fn is_picture(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let is_named = !is_hidden && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()));
    is_named && !fs::metadata(path).is_ok_and(|facts| facts.is_dir())
}

/// Opens a picture; the error names it.
pub(super) fn open(path: &Path) -> Result<RgbImage, BrokenPicture> {
    image::open(path).map_err(|reason| BrokenPicture { path: path.into(), reason })
}

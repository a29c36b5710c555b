//! The shots of a class, as files, pictures in memory, or features.

use std::path::{Path, PathBuf};

use ::image::RgbImage;
use ndarray::ArrayView3;
use orco_state::escape::EscapedText;
use orco_state::session::LearnError;

use super::error::{BrokenPicture, ChangeError, ShotsError};
use crate::files::SymlinkPolicy;
use crate::files::folder::OpenFolder;
use crate::image::{self, ForeignFile, ForeignFormat};
use crate::scene::Viewfinder;

/// The shots of a class.
#[derive(Clone, Debug)]
pub enum Shots<'a> {
    /// Files of pictures. One is open at a time, whatever their number.
    Files(Vec<PathBuf>),
    /// Pictures in memory.
    Pictures(&'a [RgbImage]),
    /// Files of pictures of which a part is learned, such as a thing before an empty place. One is open at a time.
    Viewed {
        /// The files.
        files: Vec<PathBuf>,
        /// What of each is learned.
        viewfinder: &'a Viewfinder,
    },
    /// Features that were computed before, `[shots, views, features]`, the clean view of each first.
    Features(ArrayView3<'a, f32>),
    /// Pictures whose features were computed before. The pictures are kept where that is wanted.
    WithFeatures {
        /// The pictures.
        pictures: &'a [RgbImage],
        /// Features of as many shots, `[shots, views, features]`, the clean view of each first.
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
            Self::Viewed { files, .. } => files.len(),
            Self::Pictures(pictures) => pictures.len(),
            Self::Features(features) | Self::WithFeatures { features, .. } => features.dim().0,
        }
    }

    /// Refuses what cannot be learned under a label by a head with so many inputs, as far as that shows before anything
    /// is read: rows of another length, which could pass for several, pictures without pixels, and another number of
    /// pictures than of features.
    pub(super) fn check(&self, label: &str, inputs: usize) -> Result<(), ChangeError> {
        let (pictures, features) = match self {
            Self::Files(_) | Self::Viewed { .. } => return Ok(()),
            Self::Pictures(pictures) => (*pictures, None),
            Self::Features(features) => (&[][..], Some(features)),
            Self::WithFeatures { pictures, features } => (*pictures, Some(features)),
        };
        if features.is_some_and(|features| features.dim().1 == 0 || features.dim().2 != inputs) {
            return Err(LearnError::BadFeatures { label: label.into(), shot: 0 }.into());
        }
        if let Self::WithFeatures { pictures, features } = self
            && pictures.len() != features.dim().0
        {
            let (pictures, features) = (pictures.len(), features.dim().0);
            return Err(ShotsError::Unequal { label: label.into(), pictures, features }.into());
        }
        match pictures.iter().position(|picture| picture.is_empty()) {
            Some(shot) => Err(ShotsError::NoPixels { shot: self.name(shot, label) }.into()),
            None => Ok(()),
        }
    }

    /// What one is called, in a sentence.
    pub(super) fn name(&self, shot: usize, label: &str) -> String {
        match self {
            Self::Files(files) | Self::Viewed { files, .. } => files[shot].display().to_string(),
            _ => format!("picture {} of {}", shot + 1, EscapedText(label)),
        }
    }
}

/// The pictures of a folder (.jpg, .jpeg, .png, .webp), sorted by name. Other files are passed over
/// ([`PictureFolder::foreign`] has those that are pictures in other formats), and hidden ones: `._1.jpg`, which a Mac
/// writes beside `1.jpg`, is no picture. One that cannot be reached, such as a link that leads nowhere, is among them:
/// whoever opens it says so.
///
/// # Errors
/// [`ShotsError`] if the folder cannot be read or holds none.
pub fn pictures_in(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, ShotsError> {
    Ok(PictureFolder::read_filled(folder)?.pictures)
}

/// What a folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PictureFolder {
    /// Its pictures, sorted by name.
    pub pictures: Vec<PathBuf>,
    /// Pictures and films in formats that are not read, sorted by name.
    pub foreign: Vec<ForeignFile>,
}

impl PictureFolder {
    /// Lists a folder.
    ///
    /// # Errors
    /// [`ShotsError`] if it cannot be read.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self, ShotsError> {
        let folder = folder.as_ref();
        let mut paths = paths_in(folder)?;
        paths.sort();
        let pictures = paths.iter().filter(|path| image::has_extension(path)).cloned().collect();
        let foreign = |path: PathBuf| Some(ForeignFile { format: ForeignFormat::of_name(&path)?, path });
        Ok(Self { pictures, foreign: paths.into_iter().filter_map(foreign).collect() })
    }

    /// Lists a folder that is to hold pictures.
    ///
    /// # Errors
    /// [`ShotsError`] if it cannot be read, or holds no picture that can.
    pub fn read_filled(folder: impl AsRef<Path>) -> Result<Self, ShotsError> {
        let folder = folder.as_ref();
        let listed = Self::read(folder)?;
        if listed.pictures.is_empty() {
            return Err(ShotsError::Empty {
                path: folder.into(),
                folders: entries_of(folder)?.iter().filter(|path| path.is_dir()).count(),
                foreign: listed.foreign,
            });
        }
        Ok(listed)
    }
}

/// The pictures and films of a folder, by their names.
fn paths_in(folder: &Path) -> Result<Vec<PathBuf>, ShotsError> {
    let mut paths = entries_of(folder)?;
    paths.retain(|path| has_known_ending(path) && !path.is_dir());
    Ok(paths)
}

/// What is in a folder and not hidden.
fn entries_of(folder: &Path) -> Result<Vec<PathBuf>, ShotsError> {
    let unreadable = |source| ShotsError::Folder { path: folder.into(), source };
    let opened = OpenFolder::open_existing(folder, SymlinkPolicy::Follow).map_err(unreadable)?;
    let names = opened.all_names().map_err(unreadable)?;
    let is_hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    Ok(names.iter().map(|name| folder.join(name)).filter(|path| !is_hidden(path)).collect())
}

/// Whether a file is meant to be a picture or film, by its name.
fn has_known_ending(path: &Path) -> bool {
    image::has_extension(path) || ForeignFormat::of_name(path).is_some()
}

/// Opens a picture; the error names it.
pub(super) fn open(path: &Path) -> Result<RgbImage, BrokenPicture> {
    Ok(image::open(path)?)
}

/// Opens a picture and takes what of it is learned; the error names it.
pub(super) fn open_viewed(path: &Path, viewfinder: &Viewfinder) -> Result<RgbImage, BrokenPicture> {
    let picture = image::open_with_size(path)?;
    viewfinder.shot(&picture).map_err(|error| BrokenPicture { path: path.into(), reason: error.into() })
}

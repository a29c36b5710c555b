//! The shots of a class: files, pictures in memory, or features.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ::image::RgbImage;
use ndarray::{ArrayView3, Axis};
use orco_state::escape::EscapedText;

use super::error::{BrokenPicture, ShotsError};
use crate::files::folder::OpenFolder;
use crate::files::{SymlinkPolicy, is_hidden};
use crate::image::{self, UnsupportedFile, UnsupportedFormat};
use crate::scene::{PlaceFit, ShotView, Viewfinder};

/// The shots of a class.
#[derive(Clone, Debug)]
#[non_exhaustive]
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

/// The picture of a shot, or the part of it that is learned.
pub(super) struct OpenedShot<'a> {
    pub(super) picture: Cow<'a, RgbImage>,
    /// How well the empty place in front of the camera is found in it.
    pub(super) fit: PlaceFit,
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

    /// Refuses what cannot be learned under a label by a head with `inputs` inputs, as far as that shows before
    /// anything is read: rows of another length, which could pass for several, pictures without pixels, and another
    /// number of pictures than of features.
    pub(super) fn check(&self, label: &str, inputs: usize) -> Result<(), ShotsError> {
        let check_rows = |features: &ArrayView3<f32>| match features.dim() {
            (_, 1.., length) if length == inputs => Ok(()),
            (_, views, actual) => {
                Err(ShotsError::OtherFeatures { label: label.into(), views, expected: inputs, actual })
            }
        };
        let check_pixels = |pictures: &[RgbImage]| match pictures.iter().position(|picture| picture.is_empty()) {
            Some(shot) => Err(ShotsError::NoPixels { shot: self.name(shot, label) }),
            None => Ok(()),
        };
        match self {
            Self::Files(_) | Self::Viewed { .. } => Ok(()),
            Self::Pictures(pictures) => check_pixels(pictures),
            Self::Features(features) => check_rows(features),
            Self::WithFeatures { pictures, features } => {
                check_rows(features)?;
                let (pictured, described) = (pictures.len(), features.dim().0);
                if pictured != described {
                    let label = label.into();
                    return Err(ShotsError::Unequal { label, pictures: pictured, features: described });
                }
                check_pixels(pictures)
            }
        }
    }

    /// Whether their features were computed before.
    pub(super) fn have_features(&self) -> bool {
        matches!(self, Self::Features(_) | Self::WithFeatures { .. })
    }

    /// Features of one's views, where they were computed before.
    pub(super) fn features(&self, shot: usize) -> Option<Vec<f32>> {
        match self {
            Self::Features(features) | Self::WithFeatures { features, .. } => {
                Some(features.index_axis(Axis(0), shot).iter().copied().collect())
            }
            Self::Files(_) | Self::Pictures(_) | Self::Viewed { .. } => None,
        }
    }

    /// Opens the picture of one; `None` where there are features alone.
    pub(super) fn open(&self, shot: usize) -> Result<Option<OpenedShot<'_>>, ShotsError> {
        let broken = |picture| ShotsError::Pictures(vec![picture]);
        let whole = |picture| Some(OpenedShot { picture, fit: PlaceFit::WHOLE });
        match self {
            Self::Features(_) => Ok(None),
            Self::Pictures(pictures) | Self::WithFeatures { pictures, .. } => Ok(whole(Cow::Borrowed(&pictures[shot]))),
            Self::Files(files) => {
                Ok(whole(Cow::Owned(image::open(&files[shot]).map_err(|picture| broken(picture.into()))?)))
            }
            Self::Viewed { files, viewfinder } => {
                let ShotView { picture, fit } = open_viewed(&files[shot], viewfinder).map_err(broken)?;
                Ok(Some(OpenedShot { picture: Cow::Owned(picture), fit }))
            }
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

/// The pictures of a folder ([`image::EXTENSIONS`]), sorted by name. Other files are passed over
/// ([`PictureFolder::unsupported`] has those that are pictures), and hidden ones: `._1.jpg`, which a Mac writes beside
/// `1.jpg`, is no picture. One that cannot be reached, such as a link that leads nowhere, is among them: opening it
/// says so.
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
    /// Pictures and films in formats that are not read, and pictures without a picture's extension, sorted by name.
    pub unsupported: Vec<UnsupportedFile>,
    /// Folders in it, sorted by name, but for those that systems make beside pictures. What they hold is not listed.
    pub folders: Vec<PathBuf>,
}

/// Whether systems make folders of this name beside pictures: a network drive, and a Mac in its archives.
pub fn is_made_by_systems(folder: &Path) -> bool {
    ["@eaDir", "__MACOSX"].iter().any(|name| folder.ends_with(name))
}

impl PictureFolder {
    /// Lists a folder.
    ///
    /// # Errors
    /// [`ShotsError`] if it cannot be read.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self, ShotsError> {
        let folder = folder.as_ref();
        let mut entries = entries_of(folder)?;
        entries.sort();
        let (mut folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.into_iter().partition(|path| path.is_dir());
        folders.retain(|path| !is_made_by_systems(path));
        let (pictures, others): (_, Vec<_>) = files.into_iter().partition(|path| image::has_extension(path));
        let unsupported =
            |path: PathBuf| Some(UnsupportedFile { format: UnsupportedFormat::of_other_file(&path)?, path });
        Ok(Self { pictures, unsupported: others.into_iter().filter_map(unsupported).collect(), folders })
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
                folders: listed.folders.len(),
                unsupported: listed.unsupported,
            });
        }
        Ok(listed)
    }
}

/// What is in a folder and not hidden.
fn entries_of(folder: &Path) -> Result<Vec<PathBuf>, ShotsError> {
    let unreadable = |source| ShotsError::Folder { path: folder.into(), source };
    let opened = OpenFolder::open_existing(folder, SymlinkPolicy::Follow).map_err(unreadable)?;
    let names = opened.all_names().map_err(unreadable)?;
    Ok(names.iter().map(|name| folder.join(name)).filter(|path| !is_hidden(path)).collect())
}

/// Opens a picture and takes what of it is learned; the error names it.
fn open_viewed(path: &Path, viewfinder: &Viewfinder) -> Result<ShotView, BrokenPicture> {
    let picture = image::open_with_size(path)?;
    viewfinder.shot_view((&picture).into()).map_err(|error| BrokenPicture { path: path.into(), reason: error.into() })
}

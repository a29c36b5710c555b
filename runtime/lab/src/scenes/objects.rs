//! Things that were photographed and whose masks are known.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use orco_runtime::files::is_hidden;
use orco_runtime::image_rs::{self, RgbaImage, imageops};

/// Folder of the masks beside pictures without transparency: `maps/NAME-map.png`, white on black, as ETH-80 has them.
const MASKS: &str = "maps";
/// Folder that macOS puts into archives.
const OF_ARCHIVES: &str = "__MACOSX";
/// Cover from which a pixel is the thing's.
const INSIDE: u8 = 128;

/// A thing with its pictures.
#[derive(Clone, Debug)]
pub struct PhotographedObject {
    /// Its folder's name below the folder of all.
    pub name: String,
    /// Its pictures, sorted by name.
    pub pictures: Vec<PathBuf>,
}

/// A picture of a thing, cut to the thing, whose alpha channel is its mask.
#[derive(Clone, Debug)]
pub struct MaskedPicture(pub RgbaImage);

/// Why things cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// A folder cannot be read.
    #[error("{} cannot be read", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A picture or its mask cannot be read.
    #[error("{} cannot be read", path.display())]
    Picture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: image_rs::ImageError,
    },
    /// A mask does not belong to its picture, or shows nothing.
    #[error("{} has no thing in its mask", path.display())]
    Mask {
        /// The picture.
        path: PathBuf,
    },
}

/// All things below a folder: each folder that holds PNG files is one. Hidden files and folders, and what macOS puts
/// beside the files of an archive, are passed over, and so are links to folders: one upwards would lead to the same
/// thing again.
///
/// # Errors
/// [`ObjectError::Folder`] if a folder cannot be read.
pub fn objects_in(folder: &Path) -> Result<Vec<PhotographedObject>, ObjectError> {
    let mut objects = Vec::new();
    collect(folder, folder, &mut objects)?;
    objects.sort_by(|one: &PhotographedObject, other| one.name.cmp(&other.name));
    Ok(objects)
}

fn collect(root: &Path, folder: &Path, objects: &mut Vec<PhotographedObject>) -> Result<(), ObjectError> {
    let unreadable = |source| ObjectError::Folder { path: folder.into(), source };
    let mut pictures = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let (path, name) = (entry.path(), entry.file_name());
        if is_hidden(&path) {
            continue;
        }
        if entry.file_type().map_err(unreadable)?.is_dir() {
            if name != MASKS && name != OF_ARCHIVES {
                collect(root, &path, objects)?;
            }
        } else if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png")) && path.is_file() {
            pictures.push(path);
        }
    }
    if !pictures.is_empty() {
        pictures.sort();
        let name = folder.strip_prefix(root).unwrap_or(folder).to_string_lossy().into_owned();
        objects.push(PhotographedObject { name, pictures });
    }
    Ok(())
}

impl MaskedPicture {
    /// Opens a picture with its mask: its transparency, or the file `maps/NAME-map.png` beside it.
    ///
    /// # Errors
    /// [`ObjectError`] if one of them cannot be read, or the mask shows nothing.
    pub fn open(path: &Path) -> Result<Self, ObjectError> {
        let open =
            |path: &Path| image_rs::open(path).map_err(|source| ObjectError::Picture { path: path.into(), source });
        let picture = open(path)?;
        let has_alpha = picture.color().has_alpha();
        let mut picture = picture.into_rgba8();
        if !has_alpha {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let mask = open(&path.with_file_name(MASKS).join(format!("{stem}-map.png")))?.into_luma8();
            if mask.dimensions() != picture.dimensions() {
                return Err(ObjectError::Mask { path: path.into() });
            }
            picture.pixels_mut().zip(mask.pixels()).for_each(|(pixel, mask)| pixel[3] = mask[0]);
        }
        Self::cut(&picture).ok_or_else(|| ObjectError::Mask { path: path.into() })
    }

    /// Cuts a picture to its thing; none if it shows nothing.
    pub fn cut(picture: &RgbaImage) -> Option<Self> {
        let inside = || picture.enumerate_pixels().filter(|(.., pixel)| pixel[3] >= INSIDE);
        let (left, right) = (inside().map(|(x, ..)| x).min()?, inside().map(|(x, ..)| x).max()?);
        let (top, bottom) = (inside().map(|(_, y, _)| y).min()?, inside().map(|(_, y, _)| y).max()?);
        Some(Self(imageops::crop_imm(picture, left, top, right - left + 1, bottom - top + 1).to_image()))
    }
}

#[cfg(test)]
mod tests {
    use orco_runtime::state::sentence::with_causes;

    use super::*;

    #[test]
    fn why_a_picture_cannot_be_read_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let said = with_causes(&MaskedPicture::open(&folder.path().join("cup.png")).unwrap_err());
        assert_eq!(said.matches("os error 2").count(), 1, "{said}");
    }

    #[test]
    fn each_folder_with_pictures_is_one_thing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for file in ["cup/1.png", "cup/2.PNG", "cup/._1.png", "cup/maps/1-map.png", ".git/1.png", "__MACOSX/cup/1.png"]
        {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink("..", root.join("cup/up")).unwrap();
        let found = objects_in(root).unwrap();
        assert_eq!((found.len(), found[0].name.as_str()), (1, "cup"));
        assert_eq!(found[0].pictures, ["cup/1.png", "cup/2.PNG"].map(|file| root.join(file)));
    }
}

//! Reads the shots of classes from folders.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use orco_runtime::learner::{PictureFolder, Shots};
use orco_runtime::scene::{Region, Viewfinder};
use orco_runtime::state::sentence::counted;
use orco_runtime::{files, image};

use crate::change_options::ClassFolder;
use crate::output::Output;

/// Extensions of archives, which users must unpack.
const ARCHIVES: [&str; 6] = ["zip", "tar", "gz", "tgz", "7z", "rar"];

/// The classes of `orco learn shots/*` whose path is a folder. A file beside the folders, such as notes, is left out,
/// with a warning. Without any folder, the files are returned, and refused when they are read.
pub fn folders_or_files<'a>(classes: &'a [ClassFolder], output: &Output) -> Vec<&'a ClassFolder> {
    let is_beside = |class: &ClassFolder| class.is_named_by_folder && class.folder.is_file();
    let (files, folders): (Vec<_>, Vec<_>) = classes.iter().partition(|class| is_beside(class));
    if folders.is_empty() {
        return files;
    }
    files.iter().for_each(|file| output.warn(no_folder(&file.folder, ", and passed over")));
    folders
}

/// Says that a path is a file where a folder is wanted, and what becomes of it.
fn no_folder(file: &Path, outcome: &str) -> String {
    let ending = file.extension().map(OsStr::to_ascii_lowercase);
    let is_archive = ending.is_some_and(|ending| ARCHIVES.iter().any(|archive| ending == *archive));
    let remedy = if is_archive { "; unpack it" } else { "" };
    format!("{} is a file, not a folder of pictures{outcome}{remedy}", file.display())
}

/// The pictures of a folder. Those in formats that are not read are named one by one, and folders among the pictures
/// are counted.
pub fn folder_pictures(folder: &Path, output: &Output) -> Result<Vec<PathBuf>> {
    let PictureFolder { pictures, unsupported, folders } = PictureFolder::read_filled(folder)?;
    unsupported.iter().for_each(|file| output.warn(file));
    if !folders.is_empty() {
        let (path, folders) = (folder.display(), counted(folders.len(), "folder"));
        output.warn(format!("{path} holds {folders}, passed over: put all its pictures into one folder"));
    }
    Ok(pictures)
}

/// The shots of a class by its label, as a viewfinder shows them.
pub fn folder_shots<'a>(
    viewfinder: &'a Viewfinder,
    class: &'a ClassFolder,
    output: &Output,
) -> Result<(&'a str, Shots<'a>)> {
    if viewfinder.regions.len() > 1 {
        bail!("shots are taken of one region: give --region once");
    }
    let ClassFolder { label, folder, .. } = class;
    if folder.is_file() {
        bail!("{}", no_folder(folder, ""));
    }
    let files = folder_pictures(folder, output)?;
    let shots = if viewfinder.is_plain() { Shots::Files(files) } else { Shots::Viewed { files, viewfinder } };
    Ok((label, shots))
}

/// Warns of one class whose first picture is so long that the backbone sees less than half of it.
pub fn warn_of_long_pictures(classes: &[(&str, Shots<'_>)], output: &Output) {
    let first_pictures = classes.iter().filter_map(|(_, shots)| match shots {
        Shots::Files(files) => files.first(),
        _ => None,
    });
    let mut shares = first_pictures.filter_map(|picture| Some((picture, seen_share(picture)?)));
    if let Some((picture, seen)) = shares.find(|(_, seen)| *seen < 0.5) {
        output.warn(format!(
            "the backbone sees only the square in the middle of a picture, {:.0} % of {}: choose what it sees with \
             --region, for answers, too; --region 0,0,1,1 shows it all of a picture, with less detail",
            100.0 * seen,
            picture.display()
        ));
    }
}

/// Which share of a picture the largest square in its middle is; none if its file does not tell.
fn seen_share(picture: &Path) -> Option<f64> {
    let (width, height) = image::size(&files::read(picture, image::MAX_FILE).ok()?).ok()?;
    let [_, _, width, height] = Region::CentreSquare.shares(width, height);
    Some(width * height)
}

//! Small pictures of shots, which a pack may carry and which can be taken out again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use orco_runtime::files;
use orco_runtime::image::{self, reduced_jpeg};
use orco_runtime::manifest::hexadecimal;
use orco_runtime::pack::{MAX_THUMBNAIL, MAX_THUMBNAIL_SIDE, MAX_THUMBNAILS, Pack, Thumbnail};
use orco_runtime::state::codec;

use crate::folder_shots::folder_pictures;
use crate::options::in_a_path;
use crate::output::Output;

/// Thumbnails of the pictures of a folder, JPEG, without the pictures' own descriptions (place, time, camera).
pub fn of_folder(folder: &Path, output: &Output) -> Result<Vec<Thumbnail>> {
    let paths = folder_pictures(folder, output)?;
    if paths.len() > MAX_THUMBNAILS {
        bail!("the folder {} holds {} pictures; a pack takes at most {MAX_THUMBNAILS}", folder.display(), paths.len());
    }
    paths.iter().map(|path| of_picture(path)).collect()
}

fn of_picture(path: &Path) -> Result<Thumbnail> {
    let jpeg = reduced_jpeg(&image::open(path)?, MAX_THUMBNAIL_SIDE);
    if jpeg.len() > MAX_THUMBNAIL {
        bail!("the thumbnail of {} takes {} bytes, more than {MAX_THUMBNAIL}", path.display(), jpeg.len());
    }
    Ok(Thumbnail(jpeg))
}

/// Where the thumbnails of a class are written.
pub fn folder_of(label: &str, folder: &Path) -> PathBuf {
    folder.join(folder_name(label))
}

/// Writes a pack's thumbnails as `FOLDER/LABEL/1.jpg` and so on, readable by their owner alone. A file that is there
/// stays: one with another picture is an error, after all others were written.
pub fn write(pack: &Pack, label: &str, folder: &Path) -> Result<()> {
    let folder = folder_of(label, folder);
    let failed = || format!("the thumbnails of {label} cannot be written into {}", folder.display());
    let mut taken = Vec::new();
    for (index, Thumbnail(bytes)) in pack.thumbnails.iter().enumerate() {
        fs::create_dir_all(&folder).with_context(failed)?;
        let name = format!("{}.jpg", index + 1);
        let path = folder.join(&name);
        match files::create(&path, bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !files::read_own(&path, MAX_THUMBNAIL as u64).is_ok_and(|there| there == *bytes) {
                    taken.push(name);
                }
            }
            written => written.with_context(failed)?,
        }
    }
    if !taken.is_empty() {
        return Err(anyhow!("something else is there: {}", taken.join(", ")).context(failed()));
    }
    Ok(())
}

/// A label as the name of a folder. Where it cannot stay as it is, some digits of its digest keep it apart from others;
/// `_` marks those, so that no other label has such a name.
fn folder_name(label: &str) -> String {
    const LONGEST: usize = 48;
    const DIGITS: usize = 16;
    let name: String = label.chars().take(LONGEST).map(in_a_path).collect();
    if name == label && !name.contains('_') {
        return name;
    }
    format!("{name}_{}", &hexadecimal(&codec::digest(label.as_bytes()))[..DIGITS])
}

#[cfg(test)]
mod tests {
    use super::folder_name;

    #[test]
    fn labels_have_folders_of_their_own() {
        assert_eq!(folder_name("coffee-mug"), "coffee-mug");
        let long = "é".repeat(512);
        let labels = ["a b", "a_b", "a/b", "..", "../x", "x", &long, &long[2..], &folder_name("a b")];
        let mut names: Vec<String> = labels.iter().map(|label| folder_name(label)).collect();
        assert!(names.iter().all(|name| name.len() < 255 && !name.contains(['/', '.'])), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), labels.len(), "{names:?}");
    }
}

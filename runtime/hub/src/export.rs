//! Shared pictures as `CLASS/*.jpg` folders, which `orco-train` takes as data.

use std::io;
use std::path::{Path, PathBuf};

use image::codecs::jpeg::JpegEncoder;
use orco_runtime::files;
use orco_runtime::store::kept_pictures;

use crate::error::HubError;
use crate::protocol::ObjectDigest;
use crate::store::{HubStore, SharedPicture};

/// Quality of the pictures, from 1 to 100: they are small, and the trainer should see what the device saw.
const QUALITY: u8 = 95;
/// Letters of a label that its folder's name has.
const MAX_NAME: usize = 60;

/// What an export wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportOutcome {
    /// Classes.
    pub classes: usize,
    /// Pictures.
    pub pictures: usize,
}

/// Writes all shared pictures into a folder, one folder for each class. Files that are there already are replaced, so
/// that an export can be repeated into the same folder.
///
/// # Errors
/// [`HubError`] if a picture cannot be read or written.
pub fn export(store: &HubStore, folder: &Path) -> Result<ExportOutcome, HubError> {
    let mut outcome = ExportOutcome::default();
    let mut last = None;
    for SharedPicture { label, digest } in store.shared_pictures()? {
        let class = folder.join(folder_name(&label));
        let path = class.join(format!("{}.jpg", &digest.to_string()[..16]));
        files::replace_in_new_folder(&path, &jpeg(store, &digest)?).map_err(HubError::file(path))?;
        outcome.pictures += 1;
        outcome.classes += usize::from(last.as_ref() != Some(&class));
        last = Some(class);
    }
    Ok(outcome)
}

/// The name of a class's folder. Where the label cannot be one, a part of its digest keeps it apart from others.
fn folder_name(label: &str) -> PathBuf {
    let plain = |letter: char| letter.is_alphanumeric() || " -_".contains(letter);
    let shown: String = label.chars().map(|letter| if plain(letter) { letter } else { '_' }).take(MAX_NAME).collect();
    // The trainer takes folders of these names for parts of the data.
    if shown == label && !["train", "test"].contains(&label) {
        return shown.into();
    }
    format!("{shown}-{}", &ObjectDigest::of(label.as_bytes()).to_string()[..8]).into()
}

fn jpeg(store: &HubStore, digest: &ObjectDigest) -> Result<Vec<u8>, HubError> {
    let bytes = store.objects().read(digest)?;
    let invalid = |reason: String| HubError::file(store.objects().path(digest))(io::Error::other(reason));
    let picture = kept_pictures::decoded(&bytes).map_err(|error| invalid(error.to_string()))?;
    let mut jpeg = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut jpeg, QUALITY);
    picture.write_with_encoder(encoder).map_err(|error| invalid(error.to_string()))?;
    Ok(jpeg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_names_of_folders() {
        assert_eq!(folder_name("mug"), Path::new("mug"));
        assert_eq!(folder_name("rubber duck"), Path::new("rubber duck"));
        for label in ["..", "a/b", "a:b", "mug (door 3)", ""] {
            let name = folder_name(label);
            assert_eq!(name.components().count(), if label.is_empty() { 0 } else { 1 }, "{label}");
            assert!(!name.to_string_lossy().contains(['/', '.', ':']), "{label}");
        }
        assert_ne!(folder_name("a/b"), folder_name("a:b"));
        for label in ["train", "test"] {
            assert_ne!(folder_name(label), Path::new(label), "the trainer would not take it for a class");
        }
    }
}

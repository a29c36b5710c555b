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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportOutcome {
    /// Classes.
    pub classes: usize,
    /// Pictures.
    pub pictures: usize,
    /// Labels that no folder can have, so that a bundle trained on the pictures would call these classes otherwise.
    pub renamed: Vec<String>,
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
        let name = folder_name(&label);
        let class = folder.join(&name);
        let path = class.join(format!("{}.jpg", &digest.to_string()[..16]));
        files::replace_in_new_folder(&path, &jpeg(store, &digest)?).map_err(HubError::file(path))?;
        outcome.pictures += 1;
        if last.as_ref() != Some(&label) {
            outcome.classes += 1;
            outcome.renamed.extend((name != Path::new(&label)).then(|| label.clone()));
        }
        last = Some(label);
    }
    Ok(outcome)
}

/// The name of a class's folder: its label, by which a bundle that is trained on it knows the class. Where some system
/// refuses that, or hides the folder, a part of its digest keeps it apart from others.
fn folder_name(label: &str) -> PathBuf {
    let allowed = |letter: char| !letter.is_control() && !r#"/\:*?"<>|"#.contains(letter);
    let letters = label.trim_matches('.').chars();
    let shown: String = letters.map(|letter| if allowed(letter) { letter } else { '_' }).take(MAX_NAME).collect();
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
        // A bundle that is trained on them knows the classes by the labels that devices have.
        for label in ["mug (door 3)", "Größe 3, blau", "क्षमा", "M 2.5", "\u{1f469}\u{200d}\u{1f373}"] {
            assert_eq!(folder_name(label), Path::new(label));
        }
        for label in [".5 l", "...", "a.", "1/2 inch", &"x".repeat(MAX_NAME + 1)] {
            let name = folder_name(label).into_os_string().into_string().unwrap();
            assert!(!name.is_empty() && name != label && !name.contains(['/', '.']), "{name}");
        }
        assert_ne!(folder_name("a/b"), folder_name("a:b"));
        for label in ["train", "test"] {
            assert_ne!(folder_name(label), Path::new(label), "the trainer would not take it for a class");
        }
    }
}

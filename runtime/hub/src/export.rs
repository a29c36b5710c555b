//! Shared pictures as `CLASS/*.jpg` folders, which `orco-train` takes as data.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use image::codecs::jpeg::JpegEncoder;
use orco_runtime::files;
use orco_runtime::state::sentence::with_causes;
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
    /// Labels that some system refuses as names of folders, so that a bundle trained on the pictures would call these
    /// classes otherwise.
    pub renamed: Vec<String>,
    /// Why pictures were left out: one sentence for each that is lost or damaged.
    pub unreadable: Vec<String>,
}

/// Writes all shared pictures into a folder, one folder for each class. Files that are there already are replaced, so
/// that an export can be repeated into the same folder.
///
/// # Errors
/// [`HubError`] if the database cannot be read, or a picture cannot be written.
pub fn export(store: &HubStore, folder: &Path) -> Result<ExportOutcome, HubError> {
    let mut outcome = ExportOutcome::default();
    let mut names = BTreeSet::new();
    let pictures = store.shared_pictures()?;
    for class in pictures.chunk_by(|one, next| one.label == next.label) {
        let Some(SharedPicture { label, .. }) = class.first() else { continue };
        let name = free_name(label, &mut names);
        let before = outcome.pictures;
        for SharedPicture { digest, .. } in class {
            let bytes = match jpeg(store, digest) {
                Ok(bytes) => bytes,
                Err(error) => {
                    outcome.unreadable.push(with_causes(&error));
                    continue;
                }
            };
            let path = folder.join(&name).join(format!("{}.jpg", &digest.to_string()[..16]));
            files::replace_in_new_folder(&path, &bytes).map_err(HubError::file(path))?;
            outcome.pictures += 1;
        }
        if outcome.pictures > before {
            outcome.classes += 1;
            outcome.renamed.extend((name != *label).then(|| label.clone()));
        }
    }
    Ok(outcome)
}

/// The name of a class's folder. Windows and macOS do not tell `Mug` from `mug`: of such labels the first has its name.
fn free_name(label: &str, names: &mut BTreeSet<String>) -> String {
    let name = folder_name(label);
    if names.insert(name.to_lowercase()) { name } else { with_digest(&name, label) }
}

/// The name of a class's folder: its label, by which a bundle that is trained on it knows the class. Where some system
/// refuses that, or hides the folder, a part of its digest keeps it apart from others.
fn folder_name(label: &str) -> String {
    let allowed = |letter: char| !letter.is_control() && !r#"/\:*?"<>|"#.contains(letter);
    let letters = label.trim_matches('.').chars();
    let shown: String = letters.map(|letter| if allowed(letter) { letter } else { '_' }).take(MAX_NAME).collect();
    if is_device(&shown) {
        return with_digest(&format!("_{shown}"), label);
    }
    // The trainer takes folders of these names for parts of the data.
    if shown == label && !["train", "test"].contains(&label) { shown } else { with_digest(&shown, label) }
}

/// Whether Windows takes a name for one of its devices, whatever follows the first dot.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_uppercase();
    let is_port = |number: &str| number.chars().count() == 1 && "0123456789\u{b9}\u{b2}\u{b3}".contains(number);
    ["CON", "PRN", "AUX", "NUL"].contains(&stem.as_str())
        || ["COM", "LPT"].iter().any(|port| stem.strip_prefix(port).is_some_and(is_port))
}

fn with_digest(name: &str, label: &str) -> String {
    format!("{name}-{}", &ObjectDigest::of(label.as_bytes()).to_string()[..8])
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
        assert_eq!(folder_name("mug"), "mug");
        assert_eq!(folder_name("rubber duck"), "rubber duck");
        for label in ["..", "a/b", "a:b", "mug (door 3)", ""] {
            let name = folder_name(label);
            assert_eq!(Path::new(&name).components().count(), if label.is_empty() { 0 } else { 1 }, "{label}");
            assert!(!name.contains(['/', '.', ':']), "{label}");
        }
        // A bundle that is trained on them knows the classes by the labels that devices have.
        for label in ["mug (door 3)", "Größe 3, blau", "क्षमा", "M 2.5", "\u{1f469}\u{200d}\u{1f373}"] {
            assert_eq!(folder_name(label), label);
        }
        for label in [".5 l", "...", "a.", "1/2 inch", &"x".repeat(MAX_NAME + 1)] {
            let name = folder_name(label);
            assert!(!name.is_empty() && name != label && !name.contains(['/', '.']), "{name}");
        }
        assert_ne!(folder_name("a/b"), folder_name("a:b"));
        for label in ["train", "test"] {
            assert_ne!(folder_name(label), label, "the trainer would not take it for a class");
        }
    }

    #[test]
    fn windows_can_unpack_all_folders() {
        for label in ["con", "NUL", "aux.txt", ".prn", "Com1", "lpt9 .x", "COM\u{b2}"] {
            let name = folder_name(label);
            assert!(name.starts_with('_') && !is_device(&name), "{name}");
        }
        for label in ["icon", "console", "COM1 port", "com", "COM12", "nul-modem"] {
            assert_eq!(folder_name(label), label);
        }
        let mut names = BTreeSet::new();
        let names = ["MUG", "Mug", "cup", "mug"].map(|label| free_name(label, &mut names));
        assert_eq!((names[0].as_str(), names[2].as_str()), ("MUG", "cup"));
        let lower: BTreeSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
        assert_eq!(lower.len(), 4, "{names:?}");
    }
}

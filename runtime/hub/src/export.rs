//! Shared pictures as `CLASS/*.jpg` folders, which `orco-train` takes as data.

mod folder_name;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use image::codecs::jpeg::JpegEncoder;
use orco_runtime::files;
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::kept_pictures;

use self::folder_name::unique_folder_name;
use crate::error::HubError;
use crate::protocol::ObjectDigest;
use crate::store::{HubStore, SharedPicture};

/// Quality of the pictures, from 1 to 100: they are small, and the trainer should see what the device saw.
const QUALITY: u8 = 95;

/// What an export wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportOutcome {
    /// Classes.
    pub classes: usize,
    /// Pictures.
    pub pictures: usize,
    /// Labels whose folders got another name, since some system refuses the label as one. A bundle that is trained on
    /// the pictures knows these classes by the folders' names.
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
        let name = unique_folder_name(label, &mut names);
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

/// A kept picture as JPEG, which the trainer reads.
fn jpeg(store: &HubStore, digest: &ObjectDigest) -> Result<Vec<u8>, HubError> {
    let bytes = store.objects().read(digest)?;
    let invalid = |reason: String| HubError::file(store.objects().path(digest))(io::Error::other(reason));
    let picture = kept_pictures::decoded(&bytes).map_err(|error| invalid(error.to_string()))?;
    let mut jpeg = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut jpeg, QUALITY);
    picture.write_with_encoder(encoder).map_err(|error| invalid(error.to_string()))?;
    Ok(jpeg)
}

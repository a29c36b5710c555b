//! Name, release and digest of a bundle, as kept pictures and backups record them.

use std::io;

use serde::{Deserialize, Serialize};

use crate::bundle::Bundle;
use crate::manifest::hexadecimal;

/// Name of the file that says which bundle kept pictures, or a backup, belong to.
pub(crate) const BUNDLE_RECORD: &str = "bundle.toml";
/// Largest such file that is read, in bytes.
pub(crate) const MAX_BUNDLE_RECORD: u64 = 8 << 20;

/// A text cannot be read as the [`BundleRecord`] that is expected. Where it lies beside kept pictures, the next change
/// that keeps some writes it anew; where it is a backup's, take another backup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleRecordError {
    /// It is not TOML with the fields of a record: what is wrong with it.
    #[error("{0}")]
    Format(String),
    /// It is the record of another bundle than the one that the pictures, or the backup's state, were made with.
    #[error("it belongs to another bundle")]
    OtherBundle,
}

/// What is recorded of the bundle that pictures were kept with, or a backup was made with: what must be known when that
/// bundle is no longer at hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleRecord {
    /// Its name.
    pub name: String,
    /// Its release.
    pub release: u32,
    /// SHA-256 of its learner file, in hexadecimal digits.
    pub digest: String,
    /// Labels of its base classes, in their order.
    pub labels: Vec<String>,
}

impl BundleRecord {
    /// That of an opened bundle.
    pub fn of(bundle: &Bundle) -> Self {
        Self {
            name: bundle.manifest.name.clone(),
            release: bundle.manifest.release,
            digest: hexadecimal(&bundle.digest),
            labels: bundle.base_model.classes.iter().map(|class| class.label.clone()).collect(),
        }
    }

    /// As the text of a file.
    ///
    /// # Errors
    /// If it cannot be written as TOML.
    pub fn text(&self) -> io::Result<String> {
        toml::to_string(self).map_err(io::Error::other)
    }

    /// Out of the text of a file, for the bundle of that digest.
    ///
    /// # Errors
    /// [`BundleRecordError`] if it is no such text, or the record of a bundle of another digest.
    pub fn parse(text: &str, digest: &[u8; 32]) -> Result<Self, BundleRecordError> {
        let read: Self = toml::from_str(text).map_err(|error| BundleRecordError::Format(error.message().to_owned()))?;
        if read.digest == hexadecimal(digest) { Ok(read) } else { Err(BundleRecordError::OtherBundle) }
    }
}

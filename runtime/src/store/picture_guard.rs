//! Writes pictures before the state that they belong to, and removes them if that state is not saved.

use super::bundle_record::BundleRecord;
use super::{LockedStore, StoreError};

/// Keeps pictures for a state that is still to be saved. Dropped before it is [released](PictureGuard::release), it
/// removes those that it wrote.
pub(crate) struct PictureGuard<'a> {
    locked: &'a LockedStore,
    /// SHA-256 of the learner file of the state's bundle.
    digest: [u8; 32],
    /// Exemplars whose pictures were not there before.
    written: Vec<[u8; 32]>,
}

impl<'a> PictureGuard<'a> {
    /// For a state of the bundle whose learner file has that SHA-256.
    pub(crate) fn new(locked: &'a LockedStore, digest: [u8; 32]) -> Self {
        Self { locked, digest, written: Vec::new() }
    }

    /// The store that the pictures lie in.
    pub(crate) fn locked(&self) -> &'a LockedStore {
        self.locked
    }

    /// SHA-256 of the learner file of the state's bundle.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Prepares the folder, which every picture needs; returns how many pictures are in it.
    ///
    /// # Errors
    /// As for [`LockedStore::begin_keeping`].
    pub(crate) fn begin(&self, bundle: &BundleRecord) -> Result<usize, StoreError> {
        self.locked.begin_keeping(&self.digest, bundle)
    }

    /// Keeps an exemplar's picture, of which these are the file's bytes.
    ///
    /// # Errors
    /// As for [`LockedStore::keep_picture`].
    pub(crate) fn keep(&mut self, exemplar: [u8; 32], bytes: &[u8]) -> Result<(), StoreError> {
        if self.locked.keep_picture(&self.digest, &exemplar, bytes)? {
            self.written.push(exemplar);
        }
        Ok(())
    }

    /// The state is saved: its pictures stay.
    pub(crate) fn release(mut self) {
        self.written.clear();
    }
}

impl Drop for PictureGuard<'_> {
    fn drop(&mut self) {
        // Where this fails, the next change sweeps them away.
        let _ = self.locked.store().pictures(&self.digest).remove(&self.written);
    }
}

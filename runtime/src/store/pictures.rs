//! The pictures of shots, beside the slots: kept before the state that they belong to is saved, swept away once no
//! state has their exemplars.

use std::io;

use orco_state::history::SavedState;
use orco_state::slots;

use super::bundle_record::BundleRecord;
use super::kept_pictures::{self, KeptPictures, MAX_PICTURES};
use super::{LockedStore, Store, StoreError};

impl Store {
    /// The pictures that are kept for the bundle whose learner file has that SHA-256.
    pub fn pictures(&self, digest: &[u8; 32]) -> KeptPictures {
        KeptPictures::new(&self.folder, *digest)
    }

    /// Number of pictures that are kept for the bundle that the newest state belongs to.
    pub(super) fn kept_for_newest(&self) -> usize {
        let digest = slots::newest_bundle_digest(&mut self.slot_files());
        digest.and_then(|digest| self.pictures(&digest).exemplars().ok()).map_or(0, |exemplars| exemplars.len())
    }
}

impl LockedStore {
    /// Makes ready to keep pictures for a bundle; returns how many are kept.
    ///
    /// # Errors
    /// [`StoreError::Write`] if the folder cannot be made or written.
    pub fn begin_keeping(&self, digest: &[u8; 32], with: &BundleRecord) -> Result<usize, StoreError> {
        let pictures = self.store.pictures(digest);
        pictures.begin(with).map_err(|source| folder_error(&pictures, source))?;
        Ok(pictures.exemplars().map_err(|source| folder_error(&pictures, source))?.len())
    }

    /// Keeps the picture of an exemplar that is to be saved; says whether it was not there before.
    ///
    /// # Errors
    /// [`StoreError::Write`] if it cannot be written.
    pub fn keep_picture(&self, digest: &[u8; 32], exemplar: &[u8; 32], bytes: &[u8]) -> Result<bool, StoreError> {
        let pictures = self.store.pictures(digest);
        let path = pictures.path(exemplar);
        pictures.keep(exemplar, bytes).map_err(|source| StoreError::Write { path, source })
    }

    /// Refuses more pictures than are kept for a bundle.
    ///
    /// # Errors
    /// [`StoreError::TooManyPictures`] if there would be more than [`MAX_PICTURES`].
    pub fn check_room(&self, pictures: usize) -> Result<(), StoreError> {
        if pictures > MAX_PICTURES { Err(StoreError::TooManyPictures { pictures }) } else { Ok(()) }
    }

    /// Removes the pictures of which neither the state, which is the one in the slots, nor its history has the
    /// exemplar, and folders of other bundles that no change can come back to.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`] if one cannot be removed.
    pub fn sweep(&self, saved: &SavedState) -> Result<(), StoreError> {
        // Before anything was saved, nothing says what belongs to what.
        if self.newest.get().generation == 0 {
            return Ok(());
        }
        let digest = saved.state.bundle_digest;
        let pictures = self.store.pictures(&digest);
        let left = |source| StoreError::Uncertain { path: pictures.folder().to_owned(), source };
        pictures.sweep(&saved.exemplar_digests()).map_err(left)?;
        for folder in kept_pictures::other_folders(&self.store.folder, &digest).map_err(left)? {
            if !kept_pictures::has_former_state(&folder).map_err(left)? {
                kept_pictures::discard(&folder).map_err(left)?;
            }
        }
        Ok(())
    }

    /// Removes what was kept aside of other bundles; returns whether there was anything of ours.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`] if some of it cannot be removed.
    pub fn discard_others(&self, digest: &[u8; 32]) -> Result<bool, StoreError> {
        let left = |source| StoreError::Uncertain { path: self.store.folder.clone(), source };
        let others = kept_pictures::other_folders(&self.store.folder, digest).map_err(left)?;
        let mut any = false;
        for folder in &others {
            any |= kept_pictures::discard(folder).map_err(left)?;
        }
        Ok(any)
    }
}

/// The error of a folder of pictures that cannot be written or listed.
pub(super) fn folder_error(pictures: &KeptPictures, source: io::Error) -> StoreError {
    StoreError::Write { path: pictures.folder().to_owned(), source }
}

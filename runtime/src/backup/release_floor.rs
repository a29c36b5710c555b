//! The lowest release of each bundle that a restore accepts: the highest that was used on this device, or on the one
//! that wrote the backup.

use std::path::Path;

use crate::release::{RELEASES, ReleaseError, Releases};
use crate::store::{Store, StoreError};

/// The releases that were used, here or where a backup was written. Dropped before it is [committed](Self::commit), it
/// writes back what was remembered before.
pub(super) struct ReleaseFloor<'a> {
    folder: &'a Path,
    /// What the state's folder remembers.
    before: Releases,
    /// What it is to remember once the backup is restored.
    after: Releases,
    is_written: bool,
}

impl<'a> ReleaseFloor<'a> {
    pub(super) fn of(store: &'a Store, others: &Releases) -> Result<Self, ReleaseError> {
        let before = Releases::read(store.folder())?;
        let mut after = before.clone();
        after.raise_all(others);
        Ok(Self { folder: store.folder(), before, after, is_written: false })
    }

    /// Refuses an older release than was used, and remembers a newer one.
    ///
    /// # Errors
    /// [`ReleaseError::Older`] if it is older.
    pub(super) fn accept(&mut self, name: &str, release: u32) -> Result<(), ReleaseError> {
        self.after.check(name, release)?;
        self.after.raise(name, release);
        Ok(())
    }

    /// Writes them, if there is anything new.
    pub(super) fn write(&mut self) -> Result<(), StoreError> {
        if self.after == self.before {
            return Ok(());
        }
        self.is_written = true;
        let failed = |source| StoreError::Write { path: self.folder.join(RELEASES), source };
        self.after.write(self.folder).map_err(failed)
    }

    /// Keeps what was written, as the backup is restored.
    pub(super) fn commit(mut self) {
        self.is_written = false;
    }
}

impl Drop for ReleaseFloor<'_> {
    fn drop(&mut self) {
        if self.is_written
            && let Err(error) = self.before.write(self.folder)
        {
            log::warn!("{} says more than it did: {error}", self.folder.join(RELEASES).display());
        }
    }
}

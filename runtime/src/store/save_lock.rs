//! Locks a store: a lock file lets one process at a time change it. If that file was removed, two processes may each
//! hold a lock; a lock of the folder then lets one save at a time through.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use orco_state::slots::Slot;

use super::{LockedStore, Store, StoreError};
use crate::files::lock::{HeldFile, Lock, LockError};
use crate::files::missing_folders;

/// Name of the file whose lock a process holds while it changes the state.
pub(super) const LOCK: &str = ".lock";
/// Time that a save waits, at most, for another process to finish one: only where the lock file was removed can there
/// be two.
pub(super) const MAX_SAVE_WAIT: Duration = Duration::from_secs(30);

/// Keeps other processes from saving until it is dropped.
pub(super) struct SaveLock {
    _folder: Option<HeldFile>,
    _slot: Option<Lock>,
}

impl Store {
    /// Keeps other processes from changing this folder until the returned value is dropped; waits up to `wait` for
    /// another one.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if another process is at it, [`StoreError::OtherOwner`] if the state, or for root the
    /// folder in which it is to be made, belongs to another user, [`StoreError::Folder`], [`StoreError::Write`] or
    /// [`StoreError::Lock`] if the folder cannot be made, written or locked.
    pub fn lock(&self, wait: Duration) -> Result<LockedStore, StoreError> {
        let path = self.folder.join(LOCK);
        let failed = |source| StoreError::Write { path: path.clone(), source };
        self.check_new_state_owner()?;
        let mut created_folders = Vec::new();
        let taken = loop {
            created_folders.extend(missing_folders(&self.folder).map(Path::to_owned));
            self.create_folder().map_err(|source| {
                // Removes what could be made of it.
                created_folders.iter().for_each(|folder| drop(fs::remove_dir(folder)));
                StoreError::Folder { path: self.folder.clone(), source }
            })?;
            self.check_slot_owners()?;
            match Lock::take(&path, wait) {
                // The process that had made the folder saved nothing, and has removed it again.
                Err(LockError::Open(error)) if error.kind() == io::ErrorKind::NotFound && !self.folder.exists() => {}
                taken => break taken,
            }
        };
        let lock = taken.map_err(|error| match error {
            LockError::Held => StoreError::Busy { folder: self.folder.clone() },
            LockError::OtherOwner { owner, user } => StoreError::OtherOwner { path: path.clone(), owner, user },
            LockError::Open(source) if source.kind() != io::ErrorKind::InvalidInput => failed(source),
            source => StoreError::Lock { path: path.clone(), source },
        })?;
        let locked = LockedStore { store: self.clone(), lock, created_folders, newest: Cell::default() };
        match self.hold_folder(Duration::ZERO) {
            // The lock file was removed, and another process is saving just now: its new file is no leftover. Whoever
            // locks next removes leftovers.
            Err(StoreError::Busy { .. }) => {}
            held => {
                let _folder = held?;
                self.slot_files().remove_unfinished().map_err(failed)?;
            }
        }
        Ok(locked)
    }

    /// Holds the folder until what it returns is dropped; waits up to `wait` for another process. `None` where the
    /// system has no locks for folders.
    pub(super) fn hold_folder(&self, wait: Duration) -> Result<Option<HeldFile>, StoreError> {
        HeldFile::folder(&self.folder, wait).map_err(|_| StoreError::Busy { folder: self.folder.clone() })
    }
}

impl LockedStore {
    /// Refuses to go on where another process may have locked the store, too: it may take what is kept for a change for
    /// leftovers.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if the lock file was removed or replaced.
    pub(crate) fn check_in_place(&self) -> Result<(), StoreError> {
        if self.lock.is_in_place() { Ok(()) } else { Err(self.overtaken()) }
    }

    /// Holds the store for a save. `slot` holds the state that was loaded.
    ///
    /// Where the lock file was removed, another process may be saving just now. So a save holds the folder: the first
    /// one writes both slots, and nobody may change the state between. Only where the system has no locks for folders
    /// does it hold the file of the state that both loaded, which neither writes: on SMB nobody, not even the holder,
    /// can read a locked file by another handle.
    pub(super) fn hold_for_save(&self, slot: Option<Slot>) -> Result<SaveLock, StoreError> {
        let folder = self.store.hold_folder(MAX_SAVE_WAIT)?;
        let held = slot.filter(|_| folder.is_none());
        let hold = held.map(|slot| Lock::take_existing(&self.store.path(slot), MAX_SAVE_WAIT)).transpose();
        let slot = hold.map_err(|error| match error {
            LockError::Open(error) if error.kind() == io::ErrorKind::NotFound => self.overtaken(),
            LockError::Held => StoreError::Busy { folder: self.store.folder.clone() },
            source => StoreError::Lock { path: self.store.path(slot.unwrap_or(Slot::A)), source },
        })?;
        Ok(SaveLock { _folder: folder, _slot: slot })
    }
}

//! A store under its lock: what may be saved, and what a save is made from.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::PathBuf;

use orco_state::history::SavedState;
use orco_state::slots::{self, MediumState, NewestSlot, SaveError};
use orco_state::state::BaseModel;

use super::disk::{Disk, FolderDisk};
use super::save_lock::LOCK;
use super::slot_files::SlotFiles;
use super::{NewestState, Store, StoreError, StoreSnapshot, kept_pictures};
use crate::bundle::Bundle;
use crate::files::lock::Lock;

/// A store that no other process changes: only through this can anything be saved.
#[derive(Debug)]
pub struct LockedStore {
    pub(super) store: Store,
    pub(super) lock: Lock,
    /// Folders that locking created, the store's first: they are removed again if nothing is saved.
    pub(super) created_folders: Vec<PathBuf>,
    /// The state that was loaded or saved last.
    pub(super) newest: Cell<NewestState>,
}

impl LockedStore {
    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The number of the save that wrote the state which was loaded or saved last; 0 if nothing was saved yet.
    pub fn generation(&self) -> u64 {
        self.newest.get().generation
    }

    /// The slot that holds the state which was loaded or saved last, if a save for this bundle need not read both
    /// again: they were in order, and nobody has changed their files since (`STATE.md`, "Which slot is current", 8).
    fn undisturbed(&self, digest: [u8; 32]) -> Option<NewestSlot> {
        let NewestState { revision, generation, slot, undisturbed_for } = self.newest.get();
        let slot = slot.filter(|_| undisturbed_for == Some(digest) && self.store.revision() == revision)?;
        Some(NewestSlot { generation, slot })
    }

    /// The state that was loaded or saved last.
    pub(crate) fn newest(&self) -> NewestState {
        self.newest.get()
    }

    /// Goes on from a state that was loaded or saved under an earlier lock, if its files are the same still; returns
    /// whether they are.
    pub(crate) fn resume(&self, known: NewestState) -> bool {
        let is_same = !known.revision.is_empty() && self.store.revision() == known.revision;
        if is_same {
            self.newest.set(known);
        }
        is_same
    }

    /// Reads the state to be changed. Writes nothing.
    ///
    /// # Errors
    /// As for [`Store::load`], and [`StoreError::UnreadableSlot`] if a slot cannot be read: it may be the newest.
    pub fn load(&self, bundle: &Bundle) -> Result<StoreSnapshot, StoreError> {
        self.load_on(&bundle.base_model, bundle.digest)
    }

    /// Reads the state to be changed, given the parts of a bundle that states depend on: the base model, and the
    /// SHA-256 of its file.
    ///
    /// # Errors
    /// As for [`LockedStore::load`].
    pub fn load_on(&self, base_model: &BaseModel, digest: [u8; 32]) -> Result<StoreSnapshot, StoreError> {
        let found = self.store.read(slots::load_to_change, base_model, digest)?;
        self.newest.set(found.newest);
        Ok(found)
    }

    /// Saves a state with its history, made from the one that was loaded. When this returns, it survives a power cut;
    /// whatever happens until then, the old state or the new one is there.
    ///
    /// # Errors
    /// [`StoreError`] if the system refuses, another process has changed the state meanwhile, or the state makes no
    /// sense, so that no load would accept it.
    pub fn save(&self, bundle: &Bundle, saved: &SavedState) -> Result<(), StoreError> {
        self.save_on(&bundle.base_model, saved)
    }

    /// Saves a state as [`save`](Self::save) does, given the part of a bundle that states depend on.
    ///
    /// # Errors
    /// As for [`LockedStore::save`].
    pub fn save_on(&self, base_model: &BaseModel, saved: &SavedState) -> Result<(), StoreError> {
        let digest = saved.state.bundle_digest;
        self.write(digest, |files, from| match self.undisturbed(digest) {
            Some(newest) => slots::save_next(files, base_model, saved, newest),
            None => slots::save(files, base_model, saved, from),
        })
    }

    /// Saves into both slots and removes everything else of the store's from the folder, so that nothing of what was
    /// there before is left in its files.
    ///
    /// # Errors
    /// As for [`LockedStore::save`]; something of the old may be left where the system refused.
    pub fn purge(&self, bundle: &Bundle, saved: &SavedState) -> Result<(), StoreError> {
        let digest = saved.state.bundle_digest;
        self.write(digest, |files, from| slots::purge(files, &bundle.base_model, saved, from))
    }

    /// The error of a state that no load would accept.
    pub(crate) fn unsound(&self) -> StoreError {
        let source = io::Error::new(io::ErrorKind::InvalidData, "its content makes no sense");
        StoreError::Write { path: self.store.folder.clone(), source }
    }

    /// The error of a state that another process has changed meanwhile.
    pub(super) fn overtaken(&self) -> StoreError {
        StoreError::Overtaken { folder: self.store.folder.clone() }
    }

    /// Removes the folders that were made for a change that saved nothing, unless something else lies in them.
    fn leave_nothing(&self) -> io::Result<()> {
        let folder = &self.store.folder;
        for kept in kept_pictures::folders(folder)? {
            kept_pictures::discard(&kept)?;
        }
        if self.store.slot_files().disk.list()?.iter().all(|name| name == LOCK) {
            fs::remove_file(folder.join(LOCK))?;
            self.created_folders.iter().try_for_each(fs::remove_dir)?;
        }
        Ok(())
    }

    /// Writes a state of the bundle whose learner file has the SHA-256 `digest`, and notes where it lies.
    pub(super) fn write(
        &self,
        digest: [u8; 32],
        write: impl FnOnce(&mut SlotFiles<FolderDisk>, u64) -> Result<NewestSlot, SaveError<io::Error>>,
    ) -> Result<(), StoreError> {
        self.store.check_slot_owners()?;
        let NewestState { generation: from, slot, .. } = self.newest.get();
        let _save = self.hold_for_save(slot)?;
        let mut files = self.store.slot_files();
        let NewestSlot { generation, slot } = write(&mut files, from).map_err(|error| match error {
            SaveError::Unsound => self.unsound(),
            SaveError::Occupied(error) => self.store.load_error(error),
            SaveError::Overtaken { .. } => self.overtaken(),
            SaveError::Medium { state: MediumState::Old, .. } if !self.lock.is_in_place() => self.overtaken(),
            SaveError::Medium { slot, source, state: MediumState::Old } => {
                StoreError::Write { path: self.store.path(slot), source }
            }
            SaveError::Medium { slot, source, state: MediumState::New | MediumState::Either } => {
                StoreError::Uncertain { path: self.store.path(slot), source }
            }
        })?;
        // Under the lock of the save: later, the files may be those of another process's save.
        let revision = self.store.revision();
        self.newest.set(NewestState { revision, generation, slot: Some(slot), undisturbed_for: Some(digest) });
        Ok(())
    }
}

impl Drop for LockedStore {
    fn drop(&mut self) {
        if !self.created_folders.is_empty() && self.store.revision().is_empty() && self.lock.is_in_place() {
            // What is left does no harm.
            let _ = self.leave_nothing();
        }
    }
}

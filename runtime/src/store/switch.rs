//! Moving to another bundle, or to a backup: another state takes the place of the one in the slots.
//!
//! The move is a save: the new state goes into both slots, the older one first. Until the first is whole, the old
//! state is the newest; from then on the new one is. Before that, the old state's slot is copied into the folder of its
//! pictures, from where it can be brought back; what is kept for the new state is on the disk by then, too.

use orco_state::history::SavedState;
use orco_state::slots::{self, Medium, Slot};

use super::bundle_record::BundleRecord;
use super::disk::Disk;
use super::kept_pictures;
use super::pictures::folder_error;
use super::save_lock::MAX_SAVE_WAIT;
use super::slot_files::AsideSlot;
use super::{LockedStore, NewestState, Store, StoreError};

/// What becomes of a state when another one takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormerState {
    /// It is kept aside, and what was kept aside before is let go.
    KeptAside,
    /// It goes, with its pictures, and so does what was kept aside before.
    Discarded,
}

impl Store {
    /// The bundle that was in use before, whose state is kept aside; `None` if there is none, or it cannot be read.
    /// `present` is the SHA-256 of the learner file of the bundle in use.
    pub fn former_bundle(&self, present: &[u8; 32]) -> Option<BundleRecord> {
        let folders = kept_pictures::other_folders(&self.folder, present).ok()?;
        folders
            .iter()
            .filter(|folder| kept_pictures::has_former_state(folder).unwrap_or(true))
            .find_map(|folder| kept_pictures::recorded_bundle(folder))
    }

    /// The bytes of the slot that holds a state; `None` if nothing was saved.
    pub(crate) fn slot_of(&self, newest: NewestState) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(slot) = newest.slot else { return Ok(None) };
        let bytes = self.slot_files().read(slot);
        bytes.map_err(|source| StoreError::UnreadableSlot { path: self.path(slot), source })
    }
}

impl LockedStore {
    /// Reads the newest state, whatever bundle it belongs to; `None` if nothing was saved yet. Writes nothing.
    ///
    /// # Errors
    /// [`StoreError`] as for [`LockedStore::load`], except that of another bundle.
    pub fn load_any(&self) -> Result<Option<SavedState>, StoreError> {
        let loaded = slots::load_any(&mut self.store.slot_files()).map_err(|error| self.store.load_error(error))?;
        let (revision, generation, slot) = (self.store.revision(), loaded.generation, loaded.slot);
        self.newest.set(NewestState { revision, generation, slot, undisturbed_for: None });
        Ok(loaded.saved)
    }

    /// The bytes of the slot that holds the state which was loaded or saved last; `None` if nothing was saved yet.
    ///
    /// # Errors
    /// [`StoreError::UnreadableSlot`] if it cannot be read.
    pub fn newest_slot(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.slot_of(self.newest.get())
    }

    /// Puts a state into the place of one that is lost, whose slots are set aside: nothing of them is deleted. A
    /// failure gives them their names back; after a power cut in between they are still aside, which is said at each
    /// load.
    ///
    /// # Errors
    /// As for [`LockedStore::switch`].
    pub(crate) fn replace_lost(&self, to: &SavedState) -> Result<(), StoreError> {
        let mut aside = Vec::new();
        let done = self.set_aside_lost(&mut aside).and_then(|()| self.switch(None, to, FormerState::Discarded));
        if done.as_ref().is_err_and(|error| !matches!(error, StoreError::Uncertain { .. })) {
            self.put_back(&aside);
        }
        done
    }

    /// Sets aside both slots of a state that is lost; adds them to `aside`.
    fn set_aside_lost(&self, aside: &mut Vec<AsideSlot>) -> Result<(), StoreError> {
        self.store.check_slot_owners()?;
        let _folder = self.store.hold_folder(MAX_SAVE_WAIT)?;
        match self.load_any() {
            Err(StoreError::Lost { .. }) => {}
            Ok(_) => return Err(self.overtaken()),
            Err(error) => return Err(error),
        }
        let mut files = self.store.slot_files();
        for slot in Slot::BOTH {
            let failed = |source| StoreError::Write { path: self.store.path(slot), source };
            if files.read(slot).map_err(failed)?.is_some() {
                aside.push(AsideSlot { slot, name: files.move_aside(slot).map_err(failed)? });
                files.disk.sync_folder().map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Gives slots of a lost state their names back, unless another process has saved a state meanwhile. What stays
    /// aside is said at each load; why the backup was not restored counts more.
    fn put_back(&self, aside: &[AsideSlot]) {
        let Ok(_folder) = self.store.hold_folder(MAX_SAVE_WAIT) else { return };
        if !matches!(self.load_any(), Ok(None) | Err(StoreError::Lost { .. })) {
            return;
        }
        if let Err(error) = self.store.slot_files().put_back(aside) {
            log::warn!("what was set aside in {} cannot be put back: {error}", self.store.folder.display());
        }
    }

    /// Moves from one state, which [`load_any`](Self::load_any) gave, to another, mostly of another bundle. When
    /// this returns, the new one survives a power cut; whatever happens until then, the old or the new one is there.
    ///
    /// # Errors
    /// As for [`LockedStore::save`].
    pub fn switch(&self, from: Option<&SavedState>, to: &SavedState, former: FormerState) -> Result<(), StoreError> {
        let keeps_former = former == FormerState::KeptAside;
        if let Some(from) = from.filter(|_| keeps_former) {
            let bytes = self.newest_slot()?.ok_or_else(|| self.overtaken())?;
            let pictures = self.store.pictures(&from.state.bundle_digest);
            pictures.keep_former_state(&bytes).map_err(|source| folder_error(&pictures, source))?;
        }
        let from_digest = from.map(|from| from.state.bundle_digest).unwrap_or_default();
        self.write(to.state.bundle_digest, |files, generation| slots::switch(files, from_digest, to, generation))?;
        // What is left is swept away after another change, at the latest by a purge.
        let others =
            kept_pictures::other_folders(&self.store.folder, &to.state.bundle_digest).unwrap_or_else(|error| {
                log::warn!("cannot look for kept pictures in {}: {error}", self.store.folder.display());
                Vec::new()
            });
        let kept_digest = if keeps_former { from_digest } else { to.state.bundle_digest };
        let kept = self.store.pictures(&kept_digest);
        for folder in others.iter().filter(|folder| *folder != kept.folder()) {
            if let Err(error) = kept_pictures::discard(folder) {
                log::warn!("cannot remove {}: {error}", folder.display());
            }
        }
        Ok(())
    }
}

//! The store of a device with a file system: [`orco_state::slots`] on a folder, which one process at a time may change.
//!
//! # What is kept, and how it is told apart
//!
//! | word | what it is |
//! |---|---|
//! | *state*, [`State`](orco_state::state::State) | what a device has learned on a bundle: classes, exemplars, aligned head, balance |
//! | *saved*, [`SavedState`] | a state with the history of how it came to be: what is written and read as one |
//! | *slot*, [`Slot`] | one of the two places for a saved state; the newest sound one is current |
//! | *generation*, [`StoreSnapshot::generation`] | counts the saves, 0 before the first, and stands in the slot: it tells which slot is newer, and whether another process saved meanwhile |
//! | *revision*, [`Revision`] | which files the slots are now, without reading them: another one after every save, of which none is higher than another; it tells cheaply whether the state is to be read again |
//!
//! ```
//! use std::time::Duration;
//!
//! use orco_runtime::bundle::Bundle;
//! use orco_runtime::store::Store;
//!
//! let bundle = Bundle::open("../models/cifar100-edge")?;
//! let folder = tempfile::tempdir()?;
//! let store = Store::new(folder.path());
//!
//! let locked = store.lock(Duration::ZERO)?;
//! let found = locked.load(&bundle)?;
//! assert!(found.saved.state.classes.is_empty()); // nothing has been learned here
//! locked.save(&bundle, &found.saved)?;
//! assert!(store.lock(Duration::ZERO).is_err()); // one change at a time
//! drop(locked);
//!
//! assert_eq!(store.load(&bundle)?.saved, found.saved); // looking needs no lock
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bundle_record;
mod disk;
mod error;
pub mod kept_pictures;
mod locked_store;
pub(crate) mod picture_guard;
mod pictures;
mod revision;
mod save_lock;
mod slot_files;
mod switch;
#[cfg(test)]
mod tests;

pub(crate) use bundle_record::{BUNDLE_RECORD, MAX_BUNDLE_RECORD};
pub use bundle_record::{BundleRecord, BundleRecordError};
pub(crate) use error::uncertainty;
pub use error::{DamagedCopy, StoreError};
pub use locked_store::LockedStore;
pub use revision::Revision;
pub use switch::FormerState;

use std::fs;
use std::io;
use std::path::{self, Path, PathBuf};

use self::slot_files::SlotFiles;
use crate::bundle::Bundle;
use crate::files::{
    FolderOfAnotherUser, SymlinkPolicy, create_folder, folder_of_another_user, probe_other_owner, random_name,
};
use disk::FolderDisk;
pub(crate) use disk::MAX_SLOT;
use orco_state::codec::DecodeError;
use orco_state::history::SavedState;
use orco_state::slots::{self, DamagedSlot, FaultySlot, LoadError, Medium, MediumSnapshot, Slot, SlotFault};
use orco_state::state::BaseModel;

/// A folder that holds a device's state.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Which state of a store is the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NewestState {
    /// The files that hold it and the one before, as they were when it was read or saved.
    pub(crate) revision: Revision,
    /// Counts saves; 0 if nothing was saved yet.
    pub(crate) generation: u64,
    /// The slot that holds it.
    slot: Option<Slot>,
    /// SHA-256 of the learner file of the bundle for which both slots are known and neither is to be set aside. While
    /// the files stay the same, a save for that bundle need not read them (`STATE.md`, "Which slot is current", 8).
    undisturbed_for: Option<[u8; 32]>,
}

/// The newest state in a folder, with warnings for people.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreSnapshot {
    /// The newest state that can be read, with its history; a fresh one if nothing was saved yet.
    pub saved: SavedState,
    /// What is wrong with the store, in sentences, for somebody to be told.
    pub warnings: Vec<String>,
    /// Where it lies.
    pub(crate) newest: NewestState,
}

impl StoreSnapshot {
    /// Counts saves; 0 if nothing was saved yet.
    pub fn generation(&self) -> u64 {
        self.newest.generation
    }
}

/// How the slots are read.
type SlotLoad =
    fn(&mut SlotFiles<FolderDisk>, &BaseModel, [u8; 32]) -> Result<MediumSnapshot<io::Error>, LoadError<io::Error>>;

impl Store {
    /// The store in `folder`, which is created on the first save. A relative path starts at the folder that is current
    /// now, and stays the same if the program changes to another one. An empty path is the current folder.
    pub fn new(folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref();
        // Files in it could be opened by its empty name, but not the folder itself, to be synced.
        let named = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // The current folder may be gone.
        Self { folder: path::absolute(named).unwrap_or_else(|_| named.into()) }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of a slot's file.
    pub fn path(&self, slot: Slot) -> PathBuf {
        self.folder.join(slot.name())
    }

    /// Its slots, for callers that watch what is read and written.
    pub fn slots(&self) -> impl Medium<Error = io::Error> + use<> {
        self.slot_files()
    }

    fn slot_files(&self) -> SlotFiles<FolderDisk> {
        SlotFiles::new(FolderDisk { path: self.folder.clone(), links: SymlinkPolicy::Follow }, random_name())
    }

    /// Refuses to change what another user could then no longer read.
    fn check_slot_owners(&self) -> Result<(), StoreError> {
        for name in Slot::BOTH.map(Slot::name) {
            let path = self.folder.join(name);
            let facts = match fs::symlink_metadata(&path) {
                Ok(facts) => facts,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(StoreError::UnreadableSlot { path, source }),
            };
            match probe_other_owner(&facts, &self.folder) {
                Ok(None) => {}
                Ok(Some([owner, user])) => return Err(StoreError::OtherOwner { path, owner, user }),
                Err(source) => return Err(StoreError::Write { path: self.folder.clone(), source }),
            }
        }
        Ok(())
    }

    /// Refuses root a state that another user's programs could then not read, before anything is made. Whose a state is
    /// that is there, its own files say.
    fn check_new_state_owner(&self) -> Result<(), StoreError> {
        if Slot::BOTH.iter().any(|slot| self.path(*slot).exists()) {
            return Ok(());
        }
        folder_of_another_user(&self.folder).map_or(Ok(()), |FolderOfAnotherUser { folder, owner, user }| {
            Err(StoreError::OtherOwner { path: folder, owner, user })
        })
    }

    /// Makes the folder, so that it survives a power cut.
    fn create_folder(&self) -> io::Result<()> {
        if self.folder.is_dir() { Ok(()) } else { create_folder(&self.folder) }
    }

    /// Reads the newest state that can be read. Writes nothing. Where a slot cannot be used, a warning says so; where
    /// one cannot even be read, the state may be an older one than was saved.
    ///
    /// # Errors
    /// [`StoreError`] if there is a state, but none that can be read, or it belongs to another bundle.
    pub fn load(&self, bundle: &Bundle) -> Result<StoreSnapshot, StoreError> {
        self.load_on(&bundle.base_model, bundle.digest)
    }

    /// Reads the newest state as [`load`](Self::load) does, given the parts of a bundle that states depend on: the base
    /// model, and the SHA-256 of its file.
    ///
    /// # Errors
    /// As for [`Store::load`].
    pub fn load_on(&self, base_model: &BaseModel, digest: [u8; 32]) -> Result<StoreSnapshot, StoreError> {
        self.read(slots::load, base_model, digest)
    }

    /// Reads the newest state, as [`load`](Self::load) does, or refuses: for what may not come from an older one.
    ///
    /// # Errors
    /// As for [`Store::load`], and [`StoreError::UnreadableSlot`] if a slot cannot be read.
    pub fn load_newest(&self, bundle: &Bundle) -> Result<StoreSnapshot, StoreError> {
        self.read(slots::load_to_change, &bundle.base_model, bundle.digest)
    }

    fn read(&self, load: SlotLoad, base_model: &BaseModel, digest: [u8; 32]) -> Result<StoreSnapshot, StoreError> {
        // Before they are read: files that are written meanwhile are others.
        let revision = self.revision();
        let loaded = load(&mut self.slot_files(), base_model, digest).map_err(|error| self.load_error(error))?;
        if loaded.saved.is_none() && self.slot_files().has_slot_aside().map_err(|source| self.read_error(source))? {
            // Not a first save that was cut off: there was a copy once.
            let damaged = |faulty: &FaultySlot<io::Error>| match faulty.fault {
                SlotFault::Damaged(error) => Some(DamagedCopy { path: self.path(faulty.slot), error }),
                SlotFault::Unreadable(_) => None,
            };
            let copies: Vec<_> = loaded.faults.iter().filter_map(damaged).collect();
            if !copies.is_empty() {
                return Err(StoreError::Lost { copies });
            }
            return Ok(Self::without_slots(base_model, digest, vec![self.missing_warning()]));
        }
        let undisturbed_for = loaded.newest_undisturbed().map(|_| digest);
        let mut warnings = self.slot_warnings(&loaded);
        match loaded.saved {
            Some(saved) => {
                let newest =
                    NewestState { revision, generation: loaded.generation, slot: loaded.slot, undisturbed_for };
                Ok(StoreSnapshot { saved, warnings, newest })
            }
            None => {
                let patches = self.slot_files().patches().map_err(|source| self.read_error(source))?;
                // Another process may have saved for the first time since.
                if !patches.is_empty() && self.revision().is_empty() {
                    warnings.push(self.patches_alone_warning());
                }
                Ok(Self::without_slots(base_model, digest, warnings))
            }
        }
    }

    /// What is wrong with the slots that were read, in sentences.
    fn slot_warnings(&self, loaded: &MediumSnapshot<io::Error>) -> Vec<String> {
        let has_other = loaded.saved.is_some();
        let warning = |faulty: &FaultySlot<io::Error>| slot_warning(&self.path(faulty.slot), &faulty.fault, has_other);
        let mut warnings: Vec<String> = loaded.faults.iter().map(warning).collect();
        // From the first acknowledged save on there are two.
        let is_missing = |slot: &Slot| {
            let found = fs::symlink_metadata(self.path(*slot));
            found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        if let Some(slot) = loaded.slot.map(Slot::other).filter(is_missing) {
            warnings.push(format!(
                "{} is missing: the other copy is used, which may lack what was learned last, and the next change writes \
                 this one anew",
                self.path(slot).display()
            ));
        }
        warnings
    }

    /// What is known where no slot holds a state.
    fn without_slots(base_model: &BaseModel, digest: [u8; 32], warnings: Vec<String>) -> StoreSnapshot {
        let saved = SavedState::fresh(base_model, digest);
        StoreSnapshot { saved, warnings, newest: NewestState::default() }
    }

    /// The warning that there is no slot, but was one: somebody moved both away, or a restored backup did not come to
    /// replace what it set aside.
    fn missing_warning(&self) -> String {
        format!(
            "both copies of the state in {} are missing, and older ones lie there that were set aside (slot-a.bad-N, \
             slot-b.bad-N): the device knows what the bundle knows, and the next change begins a new state; where \
             nobody moved them away on purpose, restore a backup first",
            self.folder.display()
        )
    }

    /// The warning that there is no slot, but patches of one: somebody moved `slot-a` and `slot-b` away without them,
    /// or copied them without these.
    fn patches_alone_warning(&self) -> String {
        format!(
            "slot-a and slot-b are missing in {}, where changes that were appended to them still lie (slot-a.patch-..., \
             slot-b.patch-...): the device knows what the bundle knows, and the next change begins a new state and \
             removes these files; where nobody moved slot-a and slot-b away on purpose, put them back or restore a \
             backup first",
            self.folder.display()
        )
    }

    /// Whether any of its files still holds a label: an older slot, say, or one that was set aside. In a damaged one a
    /// short label may match by chance.
    ///
    /// # Errors
    /// [`StoreError::Read`] if a file cannot be read.
    pub fn mentions(&self, label: &str) -> Result<bool, StoreError> {
        let files = self.slot_files();
        for name in files.all().map_err(|source| self.read_error(source))? {
            let bytes = files.read_patched(&name);
            let bytes = bytes.map_err(|source| StoreError::Read { path: self.folder.join(&name), source })?;
            if bytes.is_some_and(|bytes| slot_mentions(&bytes, label)) {
                return Ok(true);
            }
        }
        let folders = kept_pictures::folders(&self.folder).map_err(|source| self.read_error(source))?;
        for folder in folders {
            if !kept_pictures::has_former_state(&folder).map_err(|source| self.read_error(source))? {
                continue;
            }
            let path = kept_pictures::former_state_in(&folder);
            let bytes = crate::files::read_own(&path, MAX_SLOT).map_err(|source| StoreError::Read { path, source })?;
            if slot_mentions(&bytes, label) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read_error(&self, source: io::Error) -> StoreError {
        StoreError::Read { path: self.folder.clone(), source }
    }

    fn load_error(&self, error: LoadError<io::Error>) -> StoreError {
        let path = |slot| self.path(slot);
        match error {
            LoadError::Unreadable { slot, source } => StoreError::UnreadableSlot { path: path(slot), source },
            LoadError::Lost(slots) => {
                let copy = |DamagedSlot { slot, error }| DamagedCopy { path: path(slot), error };
                StoreError::Lost { copies: slots.into_iter().map(copy).collect() }
            }
            LoadError::Version { slot, expected, actual } => {
                StoreError::Decode { path: path(slot), source: DecodeError::Version { expected, actual } }
            }
            LoadError::OtherBundle { slot } => {
                StoreError::OtherBundle { path: path(slot), kept: self.kept_for_newest() }
            }
        }
    }
}

/// Whether the bytes of a slot hold a label, in any of the states that its patches made. Bytes that cannot be decoded
/// may hold it anywhere.
fn slot_mentions(bytes: &[u8], label: &str) -> bool {
    let stored = postcard::to_allocvec(label).expect("serialising into memory cannot fail");
    slots::read_each(bytes).any(|saved| match saved {
        Some(saved) => saved.mentions(label),
        None => bytes.windows(stored.len()).any(|window| window == stored),
    })
}

/// The warning that a slot is left out.
fn slot_warning(path: &Path, fault: &SlotFault<io::Error>, has_other: bool) -> String {
    let instead = match (has_other, fault) {
        (_, SlotFault::Unreadable(_)) => {
            "the other copy is used, which may lack what was learned last, and nothing can be changed until this one \
             can be read: give it back to this user (chown, chmod 600), or check the disk"
        }
        (true, _) => "the other copy is used, and the next change sets this one aside",
        (false, _) => {
            "there is no other copy, so the device knows what the bundle knows, and the next change sets this one aside"
        }
    };
    format!("{} is left out: {fault}; {instead}", path.display())
}

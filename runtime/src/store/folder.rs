//! The store of a device with a file system: a folder, which one process at a time may change.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{Disk, Folder};
use super::files::Files;
use super::medium::{Medium, Slot};
use super::slots::{Fault, LoadError, SaveError};
use crate::bundle::Bundle;
use crate::codec::{self, DecodeError, Kind};
use crate::history::Saved;
use crate::state::{Foundation, State};

/// Name of the one file that releases before the slots wrote. It is read where there are no slots, and removed when they
/// are written.
pub const LEGACY: &str = "state.postcard";

/// A folder that holds a device's state.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Why the state could not be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// A file could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is a state, but no copy of it can be decoded.
    Decode {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The state was learned on another bundle.
    OtherBundle {
        /// The file.
        path: PathBuf,
    },
    /// Another process is learning into the same folder.
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// The state could not be written; the old one is still there.
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The state was written, but it is not certain that it would survive a power cut, or that nothing of the old is left.
    Uncertain {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "cannot read the state {}: {source}", path.display()),
            Self::Decode { path, source } => write!(
                f,
                "the state {} cannot be used: {source}; move its folder away to start from the bundle again",
                path.display()
            ),
            Self::OtherBundle { path } => write!(
                f,
                "the state {} was learned on another bundle, or another export of this one; give that bundle with --bundle, or another folder with --state",
                path.display()
            ),
            Self::Busy { folder } => {
                write!(f, "another orco is learning into {} just now; wait for it to finish", folder.display())
            }
            Self::Write { path, source } => {
                write!(f, "cannot write the state {}: {source}; what was known before is unchanged", path.display())
            }
            Self::Uncertain { path, source } => write!(
                f,
                "the new state {} was written, but perhaps not completely: {source}; check the disk and repeat the command",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StoreError {}

impl Store {
    /// The store in `folder`, which is created on the first save.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.into() }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of a slot's file.
    pub fn path(&self, slot: Slot) -> PathBuf {
        self.folder.join(slot.name())
    }

    /// Its slots, for whoever wants to watch what is read and written.
    pub fn slots(&self) -> impl Medium<Error = io::Error> + use<> {
        self.files()
    }

    fn files(&self) -> Files<Folder> {
        Files { disk: Folder { path: self.folder.clone() }, legacy: LEGACY }
    }

    /// Keeps other processes from learning into this folder until the returned file is dropped.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if another process is at it, [`StoreError::Write`] if the folder cannot be written.
    pub fn lock(&self) -> Result<File, StoreError> {
        let path = self.folder.join(".lock");
        let failed = |source| StoreError::Write { path: path.clone(), source };
        self.create_folder().map_err(failed)?;
        let file = File::create(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(StoreError::Busy { folder: self.folder.clone() }),
            Err(fs::TryLockError::Error(source)) => return Err(failed(source)),
        }
        self.files().remove_unfinished().map_err(failed)?;
        Ok(file)
    }

    /// Makes the folder, so that it survives a power cut.
    fn create_folder(&self) -> io::Result<()> {
        if self.folder.is_dir() {
            return Ok(());
        }
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&self.folder)?;
        match self.folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => Folder { path: parent.into() }.sync_folder(),
            None => Ok(()),
        }
    }

    /// Reads the state with its history; a fresh one if nothing was saved yet. Writes nothing. A slot that cannot be used
    /// is logged as a warning.
    ///
    /// # Errors
    /// [`StoreError`] if there is a state that cannot be read or belongs to another bundle.
    pub fn load(&self, bundle: &Bundle) -> Result<Saved, StoreError> {
        self.load_on(&bundle.foundation, bundle.digest)
    }

    /// The same for the parts of a bundle that states depend on: the foundation, and the SHA-256 of its file.
    ///
    /// # Errors
    /// As for [`Store::load`].
    pub fn load_on(&self, foundation: &Foundation, digest: [u8; 32]) -> Result<Saved, StoreError> {
        let mut loaded = super::load(&mut self.files(), foundation, digest).map_err(|error| self.not_loaded(error))?;
        if loaded.saved.is_none() && self.files().has_aside().map_err(|source| self.unreadable(source))? {
            // Not a first save that was cut off: there was a copy once.
            if let Some((slot, fault)) = loaded.faults.pop() {
                return Err(self.not_loaded(LoadError::Lost { slot, fault }));
            }
        }
        for (slot, fault) in &loaded.faults {
            let instead = if loaded.saved.is_some() {
                "the other copy is used"
            } else {
                "there is no other copy, so the device knows what the bundle knows"
            };
            let path = self.path(*slot);
            log::warn!("{} is left out: {fault}; {instead}, and the next change sets it aside", path.display());
        }
        match loaded.saved {
            Some(saved) => Ok(saved),
            None => Ok(self.load_legacy(foundation, digest)?.unwrap_or_else(|| Saved::fresh(foundation, digest))),
        }
    }

    /// Whether any of its files holds a label, though the state and its history need not: an older slot, one that was set
    /// aside, the file of an older release. A short label may be found by chance.
    ///
    /// # Errors
    /// [`StoreError::Read`] if a file cannot be read.
    pub fn mentions(&self, label: &str) -> Result<bool, StoreError> {
        let stored = postcard::to_allocvec(label).expect("serialising into memory cannot fail");
        let files = self.files();
        for name in files.all().map_err(|source| self.unreadable(source))? {
            let bytes = files.disk.read(&name);
            let bytes = bytes.map_err(|source| StoreError::Read { path: self.folder.join(&name), source })?;
            if bytes.is_some_and(|bytes| bytes.windows(stored.len()).any(|window| window == stored)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn unreadable(&self, source: io::Error) -> StoreError {
        StoreError::Read { path: self.folder.clone(), source }
    }

    /// The state of a release before the slots.
    fn load_legacy(&self, foundation: &Foundation, digest: [u8; 32]) -> Result<Option<Saved>, StoreError> {
        let path = self.folder.join(LEGACY);
        let bytes = match self.files().disk.read(LEGACY) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(source) => return Err(StoreError::Read { path, source }),
        };
        let state: State =
            codec::decode(Kind::State, &bytes).map_err(|source| StoreError::Decode { path: path.clone(), source })?;
        if state.foundation != digest {
            return Err(StoreError::OtherBundle { path });
        }
        if !state.is_sound(foundation) {
            return Err(StoreError::Decode { path, source: DecodeError::Body });
        }
        Ok(Some(Saved::without_history(state)))
    }

    /// Saves a state with its history. When this returns, it survives a power cut; whatever happens until then, the old
    /// state or the new one is there.
    ///
    /// # Errors
    /// [`StoreError`] if the system refuses.
    pub fn save(&self, bundle: &Bundle, saved: &Saved) -> Result<(), StoreError> {
        self.save_on(&bundle.foundation, saved)
    }

    /// The same for the part of a bundle that states depend on.
    ///
    /// # Errors
    /// As for [`Store::save`].
    pub fn save_on(&self, foundation: &Foundation, saved: &Saved) -> Result<(), StoreError> {
        let mut files = self.prepare()?;
        super::save(&mut files, foundation, saved).map_err(|error| self.not_saved(error))?;
        // Both slots are written: it was loaded from here, and would only take room.
        let legacy = |source| StoreError::Uncertain { path: self.folder.join(LEGACY), source };
        files.remove_legacy().map_err(legacy)
    }

    /// Saves into both slots and removes everything else of the store's from the folder, so that nothing of what was there
    /// before is left in its files.
    ///
    /// # Errors
    /// [`StoreError`] if the system refuses; something of the old may be left then.
    pub fn purge(&self, bundle: &Bundle, saved: &Saved) -> Result<(), StoreError> {
        let mut files = self.prepare()?;
        super::purge(&mut files, &bundle.foundation, saved).map(|_| ()).map_err(|error| self.not_saved(error))
    }

    fn prepare(&self) -> Result<Files<Folder>, StoreError> {
        self.create_folder().map_err(|source| StoreError::Write { path: self.folder.clone(), source })?;
        Ok(self.files())
    }

    fn not_loaded(&self, error: LoadError<io::Error>) -> StoreError {
        let path = |slot| self.path(slot);
        match error {
            LoadError::Lost { slot, fault: Fault::Unreadable(source) } => StoreError::Read { path: path(slot), source },
            LoadError::Lost { slot, fault: Fault::Damaged(source) } => StoreError::Decode { path: path(slot), source },
            LoadError::Version { slot, expected, actual } => {
                StoreError::Decode { path: path(slot), source: DecodeError::Version { expected, actual } }
            }
            LoadError::OtherBundle { slot } => StoreError::OtherBundle { path: path(slot) },
        }
    }

    fn not_saved(&self, error: SaveError<io::Error>) -> StoreError {
        match error {
            SaveError::Occupied(error) => self.not_loaded(error),
            SaveError::Medium { slot, source, in_place: false } => StoreError::Write { path: self.path(slot), source },
            SaveError::Medium { slot, source, in_place: true } => {
                StoreError::Uncertain { path: self.path(slot), source }
            }
        }
    }
}

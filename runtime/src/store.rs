//! The state on disk: one file in the state folder, replaced atomically.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::bundle::Bundle;
use crate::codec::{self, DecodeError, Kind};
use crate::files;
use crate::state::State;

/// Name of the state's file.
pub const STATE: &str = "state.postcard";

/// Largest state that is read, in bytes.
const MAX_FILE: u64 = 1 << 30;
/// Start of the names of files that are being written.
const TEMPORARY: &str = ".state-";

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
    /// The state could not be decoded.
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
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "cannot read the state {}: {source}", path.display()),
            Self::Decode { path, source } => write!(
                f,
                "the state {} cannot be used: {source}; move it away to start from the bundle again",
                path.display()
            ),
            Self::OtherBundle { path } => write!(
                f,
                "the state {} was learned on another bundle; give that bundle with --bundle, or another folder with --state",
                path.display()
            ),
            Self::Busy { folder } => {
                write!(f, "another orco is learning into {} just now; wait for it to finish", folder.display())
            }
            Self::Write { path, source } => {
                write!(f, "cannot write the state {}: {source}; what was known before is unchanged", path.display())
            }
        }
    }
}

impl std::error::Error for StoreError {}

impl Store {
    /// The store in `folder`, which is created on the first save.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.into() }
    }

    /// Path of the state's file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(STATE)
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
        self.remove_leftovers().map_err(failed)?;
        Ok(file)
    }

    /// Makes the folder, so that it survives a power cut.
    fn create_folder(&self) -> io::Result<()> {
        if self.folder.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.folder)?;
        match self.folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Removes what a killed save left behind; the lock is held, so nobody is saving.
    fn remove_leftovers(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Reads the state; a fresh one if nothing was saved yet.
    ///
    /// # Errors
    /// [`StoreError`] if there is a state that cannot be read or belongs to another bundle.
    pub fn load(&self, bundle: &Bundle) -> Result<State, StoreError> {
        let path = self.path();
        let bytes = match files::read(&path, MAX_FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(bundle.fresh_state()),
            Err(source) => return Err(StoreError::Read { path, source }),
        };
        let state: State =
            codec::decode(Kind::State, &bytes).map_err(|source| StoreError::Decode { path: path.clone(), source })?;
        if state.foundation != bundle.digest {
            return Err(StoreError::OtherBundle { path });
        }
        if !state.is_sound(&bundle.foundation) {
            return Err(StoreError::Decode { path, source: DecodeError::Body });
        }
        Ok(state)
    }

    /// Replaces the state: a temporary file, readable by its owner alone, synced, renamed over the old one, the folder
    /// synced. Whatever happens, the old state or the new one is there.
    ///
    /// # Errors
    /// [`StoreError`] if the system refuses; the old state holds.
    pub fn save(&self, state: &State) -> Result<(), StoreError> {
        let bytes = codec::encode(Kind::State, state);
        let write = || -> io::Result<()> {
            self.create_folder()?;
            let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.folder)?;
            file.write_all(&bytes)?;
            file.as_file().sync_all()?;
            file.persist(self.path()).map_err(|error| error.error)?;
            // Renaming alone does not make the new name survive a power cut.
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|source| StoreError::Write { path: self.path(), source })
    }
}

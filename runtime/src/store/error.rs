//! Why a store refuses.

use std::fmt;
use std::io;
use std::path::PathBuf;

use orco_state::codec::DecodeError;

use super::LOCK;
use crate::files::lock::LockError;

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
    /// A slot cannot be read, and it may hold the newest state, so nothing is changed.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file belongs to another user, so nothing is changed: that one could not read what would be written.
    Foreign {
        /// The file.
        path: PathBuf,
        /// Number of the user whom it belongs to.
        owner: u32,
        /// Number of the user whom new files belong to.
        user: u32,
    },
    /// The lock file cannot be opened or locked.
    Lock {
        /// The file.
        path: PathBuf,
        /// Why.
        source: LockError,
    },
    /// Another process has changed the state since it was loaded; nothing was changed by this one.
    Overtaken {
        /// The folder.
        folder: PathBuf,
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
    /// The state was written, or may have been, but it is not certain that it would survive a power cut, or that nothing of the old is left.
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
            Self::Unreadable { path, source } => write!(
                f,
                "cannot read the state {}: {source}; it may hold what was learned last, so nothing is done without it: \
                 give it back to the user who runs this (chown, chmod 600), check the disk, or move it away to go on \
                 without it",
                path.display()
            ),
            Self::Foreign { path, owner, user } => write!(
                f,
                "{} belongs to user {owner}, but what is written here to user {user}; nothing was changed: run this as \
                 that user, or give the files of the state to this one (chown)",
                path.display()
            ),
            Self::Lock { path, source } => {
                write!(f, "cannot lock the state with {}: {source}; nothing was changed", path.display())
            }
            Self::Overtaken { folder } => write!(
                f,
                "another orco has changed the state in {} meanwhile, though this one had locked it (was {LOCK} removed?); \
                 nothing was changed by this one: repeat the command",
                folder.display()
            ),
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
                write!(
                    f,
                    "another orco is changing the state in {} just now; nothing was changed: wait for it to finish, with --wait SECONDS",
                    folder.display()
                )
            }
            Self::Write { path, source } => {
                write!(f, "cannot write the state {}: {source}; what was known before is unchanged", path.display())
            }
            Self::Uncertain { path, source } => write!(
                f,
                "the new state was saved, but not as it should be ({}: {source}): a power cut could still lose it, or \
                 something of the old is left; check the disk and the room on it, and list what is known now",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StoreError {}

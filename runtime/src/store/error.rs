//! Why a store refuses.

use std::io;
use std::path::PathBuf;

use orco_state::codec::DecodeError;

use super::kept_pictures::MAX_PICTURES;
use crate::files::lock::LockError;

/// A file that should hold a state, but is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedCopy {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub error: DecodeError,
}

/// Why the state could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file could not be read.
    #[error("cannot read the state {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A slot cannot be read, and it may hold the newest state, so nothing is changed.
    #[error(
        "cannot read the state {}, which may hold what was learned last, so nothing is done without it",
        path.display()
    )]
    UnreadableSlot {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file, or for root a folder, belongs to another user, so nothing is changed: that one could not read what would
    /// be written.
    #[error(
        "{} belongs to user {owner}, but new files here would belong to user {user}; nothing was changed",
        path.display()
    )]
    OtherOwner {
        /// The file or folder.
        path: PathBuf,
        /// Number of the user whom it belongs to.
        owner: u32,
        /// Number of the user whom new files belong to.
        user: u32,
    },
    /// The lock file cannot be opened or locked.
    #[error("cannot lock the state with {}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why.
        source: LockError,
    },
    /// Another process has changed the state since it was loaded; nothing was changed by this one.
    #[error(
        "another process has changed the state in {} meanwhile, though this one had locked it; nothing was changed \
         by this one",
        folder.display()
    )]
    Overtaken {
        /// The folder.
        folder: PathBuf,
    },
    /// There is a state, but every copy of it is damaged.
    #[error("no copy of the state can be used: {}", listed(copies))]
    Lost {
        /// The files, and what is wrong with each.
        copies: Vec<DamagedCopy>,
    },
    /// The newest copy of the state was written by a later release.
    #[error("the state {} cannot be used", path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The state was learned on another bundle.
    #[error("the state {} was learned on another bundle, or another export of this one", path.display())]
    OtherBundle {
        /// The file.
        path: PathBuf,
        /// Pictures of its shots that are kept, from which another bundle can learn its classes again.
        kept: usize,
    },
    /// More pictures of shots would be kept than a device keeps.
    #[error("{pictures} pictures of shots would be kept, but a device keeps at most {MAX_PICTURES}")]
    TooManyPictures {
        /// How many there would be.
        pictures: usize,
    },
    /// There was a state when it was read last, and now there is none.
    #[error(
        "the state in {} is gone: its files were removed while it was in use",
        folder.display()
    )]
    Gone {
        /// The folder.
        folder: PathBuf,
    },
    /// Another process is learning into the same folder.
    #[error("another process is changing the state in {} just now; nothing was changed", folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// There is no folder for the state, and none can be made.
    #[error("cannot make the folder {} for the state", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The state could not be written; the old one is still there.
    #[error("cannot write the state {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The state was written, or may have been, but it is not certain that it would survive a power cut, or that
    /// nothing of the old is left.
    #[error(
        "the new state was saved, but a power cut could still lose it, or something of the old is left, because of \
         {}",
        path.display()
    )]
    Uncertain {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The state was written; but where small pictures of shots would be, a link lies, which was not followed.
    #[error(
        "the new state was saved, but {} is a link, which was not followed: small pictures of shots behind it, if \
         there are any, are still there",
        path.display()
    )]
    LinkNotFollowed {
        /// The link.
        path: PathBuf,
    },
}

/// "FILE: what is wrong with it" for every copy.
fn listed(copies: &[DamagedCopy]) -> String {
    let copy = |DamagedCopy { path, error }: &DamagedCopy| format!("{}: {error}", path.display());
    copies.iter().map(copy).collect::<Vec<_>>().join("; ")
}

/// Why a state that was saved is not as safe as it should be, if it is not.
///
/// # Errors
/// If it was not saved.
pub(crate) fn uncertainty(saved: Result<(), StoreError>) -> Result<Option<StoreError>, StoreError> {
    match saved {
        Ok(()) => Ok(None),
        Err(error @ StoreError::Uncertain { .. }) => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

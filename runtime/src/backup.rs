//! All that a device knows in one file, for its replacement.
//!
//! The envelope of all of our files ([`orco_state::codec`]; kind `ORCOBKUP`, version 2), and in it:
//!
//! | bytes | what (integers little endian) |
//! |---|---|
//! | n | a tar archive |
//! | m | the text of a signature of minisign's over magic, version and archive; empty where the backup is not signed |
//! | 4 | m |
//!
//! The archive holds, in this order:
//!
//! | name | what |
//! |---|---|
//! | `bundle.toml` | the bundle that it was learned on: name, release, SHA-256 of its learner file, base classes |
//! | `releases.toml` | the highest release of each bundle that was used ([`crate::release`]) |
//! | `slot` | the newest slot: the state with its history (`STATE.md`) |
//! | `shots/DIGEST.png` | the kept picture of each shot, named by the digest of its exemplar, in ascending order |
//!
//! Nothing else may be in it: no folders, links or long names, nothing twice. Nothing in it is believed before the
//! checksum of the whole and, where a public key is configured, the signature are right, and no name of it becomes a
//! path. Version 1 is the archive alone, without `releases.toml`; it still restores where no key is configured.

mod envelope;
mod release_floor;
mod restore;
#[cfg(test)]
mod tests;
mod write;

use std::io;
use std::path::PathBuf;

use orco_state::codec::DecodeError;
use orco_state::sentence::counted;

use crate::release::ReleaseError;
use crate::signature::SignatureError;
use crate::store::{BundleRecord, StoreError};

pub use restore::{RestoreOptions, restore};
pub use write::{BackupOptions, write, write_to};

/// Largest state with its history that is restored, in bytes: the largest that a store holds.
pub const MAX_STATE: u64 = crate::store::MAX_SLOT;

const SLOT: &str = "slot";
const SHOTS: &str = "shots/";

/// Why a backup cannot be written or restored. The state is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The state cannot be read, locked or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be read or written.
    #[error("the backup cannot be read or written")]
    File(#[from] io::Error),
    /// The file is in place as a whole, but [unsynced](crate::files::is_unsynced): a power cut could still lose it.
    #[error("{error}")]
    Unsynced {
        /// What it holds.
        contents: Box<BackupContents>,
        /// Why its folder could not be synced.
        error: io::Error,
    },
    /// The file is no backup, of a later release, cut off or damaged.
    #[error("it is no backup that can be restored")]
    Decode(#[from] DecodeError),
    /// Its checksum is right, but it holds what no backup does.
    #[error("it is no backup that can be restored: {0}")]
    Content(String),
    /// A public key is configured, and the file was not signed with its secret key.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The bundle is an older release than was used before, here or where the backup was written.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// There is nothing to keep.
    #[error("nothing was learned in {}, so there is nothing to back up", folder.display())]
    Nothing {
        /// The store's folder.
        folder: PathBuf,
    },
    /// It was learned on another bundle.
    #[error("it belongs to release {release} of the bundle {name}, or another export of it, and not to this bundle")]
    OtherBundle {
        /// The bundle's name.
        name: String,
        /// Its release.
        release: u32,
    },
    /// The device knows something already.
    #[error(
        "the state in {} knows something already: {}, {}",
        folder.display(), counted(*classes, "learned class"), counted(*changes, "change")
    )]
    Occupied {
        /// The store's folder.
        folder: PathBuf,
        /// Learned classes.
        classes: usize,
        /// Changes that its history remembers.
        changes: usize,
    },
}

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupContents {
    /// The bundle that it was learned on.
    pub bundle: BundleRecord,
    /// Learned classes.
    pub classes: usize,
    /// Exemplars.
    pub exemplars: usize,
    /// Kept pictures of shots.
    pub pictures: usize,
    /// Bytes of the file.
    pub bytes: u64,
    /// Pictures that could not be used and were left out, in sentences.
    pub warnings: Vec<String>,
}

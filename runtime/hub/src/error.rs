//! Errors of the hub.

use std::io;
use std::path::PathBuf;

use orco_runtime::bundle::OpenError;
use orco_runtime::files;
use orco_runtime::pack::OpenPackError;
use orco_runtime::signature::SignError;
use rusqlite::ErrorCode;

use crate::merge::MergeError;
use crate::protocol::{DeviceId, ObjectDigest, ReleaseId};

/// Why the hub cannot start, or refuses what its operator asks for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The database cannot be used.
    #[error("the hub's database cannot be used")]
    Database(#[source] DatabaseError),
    /// The database was written by a newer program.
    #[error("the hub's database has version {found}, but this program knows up to {known}; update the program")]
    Newer {
        /// Version of the database.
        found: i64,
        /// Newest version that is known.
        known: i64,
    },
    /// The database is gone, though the hub was in use.
    #[error(
        "the hub's database is empty, but there are objects or its key: it was lost; restore the folder from a backup"
    )]
    NoDatabase,
    /// The database is not where it was opened.
    #[error(
        "the hub's database {} was moved, removed or replaced while the hub ran: put it back, or restore the hub's \
         folder from a backup and start the hub again",
        path.display()
    )]
    Moved {
        /// Where it was.
        path: PathBuf,
    },
    /// There is no room for a file.
    #[error(
        "the disk has no room for {}: make room there, then try again; `orco hub purge --bundles` removes withdrawn \
         bundles, and `orco hub purge PACK` removes packs",
        path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{} cannot be read or written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing can be written into the hub's folder.
    #[error("the hub cannot save anything: {reason}")]
    Unwritable {
        /// Why.
        reason: String,
    },
    /// The file of the hub's key is gone or holds no key.
    #[error(
        "{} is missing or holds no key of a hub; restore it from a backup, or begin a hub in a new folder, with which \
         every device must enrol",
        path.display()
    )]
    Key {
        /// The file.
        path: PathBuf,
    },
    /// Others may read the file of the hub's key: whoever has it can pose as the hub.
    #[error("others may read the hub's key {}: make it private (chmod 600)", path.display())]
    KeyExposed {
        /// The file.
        path: PathBuf,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// An object is gone.
    #[error("the hub lost the object {digest}; restore it from a backup")]
    Lost {
        /// Its name.
        digest: ObjectDigest,
    },
    /// The bytes of a pack that a device pushed are gone.
    #[error(
        "the hub lost the pack {digest}: a device that still shares the class pushes it again in its next round (`orco \
         sync`); if none does, restore the hub's folder from a backup"
    )]
    LostPack {
        /// Its digest.
        digest: ObjectDigest,
    },
    /// An object is not what its name says.
    #[error("the object {digest} is damaged: its bytes do not match its name; restore it from a backup")]
    Damaged {
        /// Its name.
        digest: ObjectDigest,
    },
    /// A text names no channel.
    #[error("\"{name}\" names no channel: use up to 64 small letters, digits and hyphens")]
    Channel {
        /// The text.
        name: String,
    },
    /// No device has that identifier.
    #[error("no device has the identifier {device}")]
    NoDevice {
        /// The identifier.
        device: DeviceId,
    },
    /// No device pushed that pack.
    #[error("no device pushed the pack {digest}")]
    NoPack {
        /// Its digest.
        digest: ObjectDigest,
    },
    /// A channel holds the pack.
    #[error("release {release} holds the pack {digest}: take it back first (`orco hub withdraw {release}`)")]
    Released {
        /// The pack's digest.
        digest: ObjectDigest,
        /// The release's number.
        release: ReleaseId,
    },
    /// There is no such release.
    #[error("there is no release {release}")]
    NoRelease {
        /// Its number.
        release: ReleaseId,
    },
    /// The release was taken back.
    #[error("release {release} was taken back; release it once more instead")]
    Withdrawn {
        /// Its number.
        release: ReleaseId,
    },
    /// A stage never gets narrower.
    #[error("release {release} is at {present} % already; a stage never narrows, withdraw the release instead")]
    StaleStage {
        /// Its number.
        release: ReleaseId,
        /// Its percentage now.
        present: u8,
    },
    /// A pack cannot be opened.
    #[error("the pack {digest} cannot be used")]
    Pack {
        /// Its digest.
        digest: ObjectDigest,
        /// What is wrong.
        source: OpenPackError,
    },
    /// Packs cannot be combined.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// A pack cannot be signed.
    #[error("the pack cannot be signed: {0}")]
    Sign(SignError),
    /// A bundle cannot be opened.
    #[error(transparent)]
    Bundle(#[from] OpenError),
    /// A bundle lists files that no device would take.
    #[error("the bundle {} cannot be released: {reason}", folder.display())]
    BundleFiles {
        /// Its folder.
        folder: PathBuf,
        /// What speaks against them.
        reason: String,
    },
    /// The token's file or the certificate cannot be used, or there are too few open files.
    #[error(transparent)]
    Serve(#[from] orco_serve::ServeError),
    /// The hub cannot listen.
    #[error("cannot listen at {address}")]
    Listen {
        /// Where it should.
        address: std::net::SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The threads of the network cannot be started.
    #[error("cannot start threads")]
    Threads(#[source] io::Error),
}

/// What the database says of itself, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{0}{advice}", advice = advice(.0))]
pub struct DatabaseError(rusqlite::Error);

fn advice(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => "; restore the hub's folder from a backup",
        // Where hardly anything is left, SQLite calls that a failure of the disk. Systems mount a failing disk
        // read-only.
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::ReadOnly) => {
            "; make room where the hub's folder lies, or check its disk"
        }
        _ => "",
    }
}

/// For this crate alone: which database it is may change.
#[doc(hidden)]
impl From<rusqlite::Error> for HubError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(DatabaseError(error))
    }
}

impl HubError {
    /// That of a file.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| if files::is_disk_full(&source) { Self::Full { path } } else { Self::File { path, source } }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn a_file_for_which_there_is_no_room_says_what_to_do() {
        let said = HubError::file("objects/3f")(io::ErrorKind::StorageFull.into()).to_string();
        assert!(said.starts_with("the disk has no room for objects/3f: "), "{said}");
        assert!(said.contains("`orco hub purge --bundles`") && said.contains("`orco hub purge PACK`"), "{said}");
        let other = HubError::file("objects/3f")(io::ErrorKind::PermissionDenied.into());
        assert!(matches!(other, HubError::File { .. }), "{other}");
    }

    #[test]
    fn a_disk_that_is_read_only_or_has_hardly_any_room_is_told_as_a_full_one() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_READONLY] {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let said = DatabaseError(error).to_string();
            assert!(said.contains("; make room where the hub's folder lies"), "{said}");
        }
    }
}

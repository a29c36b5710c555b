//! What the hub keeps: a database of facts, and objects named by their digests.
//!
//! The order of writing makes every acknowledged fact durable: objects first, then one transaction that holds the fact,
//! the device's sequence number and the answer, then the answer itself. A hub that is killed between any two of them
//! has either not heard the request, or gives the same answer again.

mod bundles;
mod deliveries;
mod devices;
mod enrolment;
mod objects;
mod pack_releases;
mod packs;
mod pictures;
mod purge;
mod releases;
mod schema;
mod targets;
#[cfg(test)]
mod tests;

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use orco_runtime::threads::lock;
use orco_runtime::{clock, files};
use orco_serve::disk_check::unwritable;
use orco_serve::secret_file;
use rusqlite::{Connection, Transaction, TransactionBehavior};

pub use bundles::BundleRelease;
pub use deliveries::{Delivery, StoredAnswer};
pub use devices::DeviceRecord;
pub use enrolment::MAX_CODE_LIFETIME_HOURS;
pub use objects::{ObjectFolder, ObjectPart};
pub use pack_releases::PackRelease;
pub use packs::PackRecord;
pub use pictures::SharedPicture;
pub use purge::HubPurge;
pub use releases::{ReleaseKind, ReleaseRecord};

use crate::error::HubError;
use crate::protocol::SigningKey;
use crate::rollout;

/// Name of the database in the hub's folder.
const DATABASE: &str = "hub.sqlite";
/// Name of the file of the hub's key.
const KEY: &str = "key";
/// Largest file of a key that is read, in bytes.
const MAX_KEY: u64 = 1 << 10;

/// Device and number of a file.
type FileIdentity = (u64, u64);

/// Seconds since 1970.
pub type UnixSeconds = i64;

/// The present time.
pub fn now() -> UnixSeconds {
    clock::seconds_since_1970().try_into().unwrap_or(UnixSeconds::MAX)
}

/// The folder of a hub. Several processes may open it at the same time: the service, and commands of the operator.
#[derive(Debug)]
pub struct HubStore {
    folder: PathBuf,
    key: SigningKey,
    objects: ObjectFolder,
    connection: Mutex<Connection>,
    /// Which file the connection has open.
    database: FileIdentity,
}

impl HubStore {
    /// Whether a folder is a hub's, or holds what is left of one.
    pub fn is_in(folder: &Path) -> bool {
        [DATABASE, KEY, objects::FOLDER].iter().any(|name| !files::is_absent(&folder.join(name)))
    }

    /// Opens a hub's folder, or makes it with a new key.
    ///
    /// # Errors
    /// [`HubError`] if it cannot be read or written, or belongs to a newer program.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, HubError> {
        let folder = folder.as_ref();
        let key = folder.join(KEY);
        // Root may look at another user's hub, but begins none for him.
        if !folder.is_dir() || [DATABASE, KEY].iter().any(|name| files::is_absent(&folder.join(name))) {
            files::create_own_folder(folder).map_err(HubError::file(folder))?;
        }
        let objects = ObjectFolder::open(folder)?;
        // The database is made before the key: where there is a key, there was a database.
        let was_in_use = objects.is_used() || fs::symlink_metadata(&key).is_ok();
        let path = folder.join(DATABASE);
        // SQLite would make it readable by all.
        let mut options = files::private_options();
        let made = files::open_own(options.read(true).write(true).create(true).truncate(false), &path);
        drop(made.map_err(HubError::file(&path))?);
        let mut connection = Connection::open(&path)?;
        let database = identity(&path).map_err(HubError::file(&path))?;
        schema::prepare(&mut connection, was_in_use)?;
        // Devices know the hub by its key: another in its place would make it a stranger to them.
        if !schema::knows_devices(&connection)? {
            make_key_if_absent(&key)?;
        }
        let key = read_key(&key)?;
        Ok(Self { folder: folder.into(), key, objects, connection: Mutex::new(connection), database })
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The hub's key.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// The objects.
    pub fn objects(&self) -> &ObjectFolder {
        &self.objects
    }

    /// Checks that the database can be read and the folder be written. Writes nothing.
    ///
    /// # Errors
    /// [`HubError`] if they cannot.
    pub fn check(&self) -> Result<(), HubError> {
        schema::knows_devices(&*self.connection()?)?;
        unwritable(&self.folder).map_or(Ok(()), |reason| Err(HubError::Unwritable { reason }))
    }

    /// A transaction that panicked was rolled back, so the connection can be used again.
    ///
    /// # Errors
    /// [`HubError::Moved`] if another file took the database's place, or none is there: the next start would not find
    /// what is written into the open one.
    fn connection(&self) -> Result<MutexGuard<'_, Connection>, HubError> {
        let connection = lock(&self.connection);
        let path = self.folder.join(DATABASE);
        match identity(&path) {
            Ok(there) if there == self.database => Ok(connection),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(HubError::file(path)(error)),
            _ => Err(HubError::Moved { path }),
        }
    }

    /// Runs `change` in one transaction and commits it; where `change` fails, nothing is changed.
    fn in_transaction<T>(&self, change: impl FnOnce(&Transaction<'_>) -> Result<T, HubError>) -> Result<T, HubError> {
        let mut connection = self.connection()?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let changed = change(&transaction)?;
        transaction.commit()?;
        Ok(changed)
    }
}

/// Refuses a text that names no channel.
fn check_channel(name: &str) -> Result<(), HubError> {
    if rollout::is_channel(name) { Ok(()) } else { Err(HubError::Channel { name: name.into() }) }
}

/// The identity of the file at a path.
#[cfg(unix)]
fn identity(path: &Path) -> io::Result<FileIdentity> {
    fs::metadata(path).map(|facts| files::identity(&facts))
}

/// Other systems than Unix do not tell: they let nobody move a file that SQLite has open.
#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<FileIdentity> {
    fs::metadata(path).map(|_| (0, 0))
}

/// Makes the key of a new hub.
fn make_key_if_absent(path: &Path) -> Result<(), HubError> {
    if !files::is_absent(path) {
        return Ok(());
    }
    let key = SigningKey::generate().ok_or(HubError::Random)?;
    match files::create(path, key.pkcs8()) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(HubError::file(path)),
    }
}

fn read_key(path: &Path) -> Result<SigningKey, HubError> {
    let unusable = || HubError::Key { path: path.into() };
    let file = match files::open_own(OpenOptions::new().read(true), path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unusable()),
        opened => opened.map_err(HubError::file(path))?,
    };
    if secret_file::is_exposed(&file).map_err(HubError::file(path))? {
        return Err(HubError::KeyExposed { path: path.into() });
    }
    let bytes = files::read_opened(file, MAX_KEY).map_err(HubError::file(path))?;
    SigningKey::from_pkcs8(&bytes).ok_or_else(unusable)
}

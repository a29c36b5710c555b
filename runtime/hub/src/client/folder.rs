//! What a device keeps beside its state: who it is, its last sequence number, and how far it has come.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use orco_runtime::files;
use orco_runtime::files::lock::{Lock, LockError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::SyncError;
use super::observer::{SyncObserver, SyncStep, proceed};
use super::progress::SyncProgress;
use super::{IDENTITY, PROGRESS};
use crate::protocol::{Fingerprint, ObjectDigest, SigningKey, VerifyingKey};

/// Name of the file with the last sequence number.
const SEQUENCE: &str = "sequence.json";
/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 16 << 20;
/// What the name of an object that is still fetched ends with.
pub(super) const PARTIAL: &str = ".part";

/// The folder of a device's part in a fleet.
#[derive(Clone, Debug)]
pub struct DeviceFolder(PathBuf);

/// Who a device is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceIdentity {
    /// Its secret key, PKCS #8 in Base64.
    key: String,
    /// The hub that it is to enrol with.
    pub fingerprint: Fingerprint,
    /// The hub's key, once it is enrolled.
    pub hub: Option<VerifyingKey>,
}

impl DeviceIdentity {
    /// A new device for the hub of that fingerprint.
    pub(super) fn new(key: &SigningKey, fingerprint: Fingerprint) -> Self {
        Self { key: BASE64_STANDARD.encode(key.pkcs8()), fingerprint, hub: None }
    }

    /// Its key.
    pub(super) fn signing_key(&self) -> Option<SigningKey> {
        SigningKey::from_pkcs8(&BASE64_STANDARD.decode(&self.key).ok()?)
    }
}

impl DeviceFolder {
    /// That folder, which need not be there yet.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self(path.as_ref().into())
    }

    /// The one beside a state, where no other is named: `fleet` in the state's folder.
    pub fn of_state(state: impl AsRef<Path>) -> Self {
        Self(state.as_ref().join("fleet"))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Keeps other rounds out until what this returns is dropped: two would use the same sequence numbers, and write
    /// over each other's progress.
    pub(super) fn lock(&self) -> Result<Lock, SyncError> {
        self.lock_within(Duration::ZERO)
    }

    /// As [`lock`](Self::lock), but waits so long for a round that is under way.
    pub(super) fn lock_within(&self, wait: Duration) -> Result<Lock, SyncError> {
        files::create_own_folder(&self.0).map_err(SyncError::file(&self.0))?;
        let path = self.0.join(".lock");
        Lock::take(&path, wait).map_err(|error| match error {
            LockError::Held => SyncError::Busy { folder: self.0.clone() },
            LockError::Open(source) => SyncError::File { path, source },
            other => SyncError::File { path, source: io::Error::other(other) },
        })
    }

    /// Where objects lie until they are used.
    pub(super) fn objects(&self) -> PathBuf {
        self.0.join("objects")
    }

    /// Whether a file among the objects has a name as they have, or as one that is still fetched. The folder may hold
    /// files of others.
    pub(super) fn is_object(name: &str) -> bool {
        ObjectDigest::parse(name.strip_suffix(PARTIAL).unwrap_or(name)).is_some()
    }

    /// Where bundles lie.
    pub(super) fn bundles(&self) -> PathBuf {
        self.0.join("bundles")
    }

    /// A link to the bundle that the device should run with, once its channel named one.
    pub fn current_bundle(&self) -> PathBuf {
        self.bundles().join("current")
    }

    /// Who the device is; none before it began to enrol.
    pub(super) fn identity(&self) -> Result<Option<DeviceIdentity>, SyncError> {
        self.read(IDENTITY)
    }

    /// Whether the device enrolled.
    ///
    /// # Errors
    /// [`SyncError`] if that cannot be read.
    pub fn is_enrolled(&self) -> Result<bool, SyncError> {
        Ok(self.identity()?.is_some_and(|identity| identity.hub.is_some()))
    }

    pub(super) fn keep_identity(
        &self,
        identity: &DeviceIdentity,
        observer: &mut dyn SyncObserver,
    ) -> Result<(), SyncError> {
        self.write(IDENTITY, identity, observer)
    }

    /// The last sequence number that was used; 0 if none was.
    pub(super) fn sequence(&self) -> Result<u64, SyncError> {
        Ok(self.read(SEQUENCE)?.unwrap_or(0))
    }

    pub(super) fn keep_sequence(&self, sequence: u64, observer: &mut dyn SyncObserver) -> Result<(), SyncError> {
        self.write(SEQUENCE, &sequence, observer)
    }

    pub(super) fn progress(&self) -> Result<SyncProgress, SyncError> {
        Ok(self.read(PROGRESS)?.unwrap_or_default())
    }

    pub(super) fn keep_progress(
        &self,
        progress: &SyncProgress,
        observer: &mut dyn SyncObserver,
    ) -> Result<(), SyncError> {
        self.write(PROGRESS, progress, observer)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, SyncError> {
        let path = self.0.join(name);
        let read = files::read_own_if_there(&path, MAX_FILE).map_err(SyncError::file(&path))?;
        let Some(bytes) = read else { return Ok(None) };
        let parsed = serde_json::from_slice(&bytes);
        parsed.map(Some).map_err(|error| SyncError::Damaged { path, reason: error.to_string() })
    }

    fn write(&self, name: &str, value: &impl Serialize, observer: &mut dyn SyncObserver) -> Result<(), SyncError> {
        proceed(observer, SyncStep::Write)?;
        let path = self.0.join(name);
        let bytes = serde_json::to_vec(value).map_err(io::Error::other);
        bytes.and_then(|bytes| files::replace_in_own_folder(&path, &bytes)).map_err(SyncError::file(path))
    }
}

//! What a device keeps beside its state: who it is, its last sequence number, and how far it has come.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use orco_runtime::files;
use orco_runtime::files::lock::{Lock, LockError};
use orco_runtime::state::label;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::SyncError;
use super::observer::{SyncObserver, SyncStep, proceed};
use crate::protocol::{Fingerprint, ObjectDigest, ReleaseId, ReleaseOutcome, SigningKey, VerifyingKey};

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 16 << 20;
/// Pushed versions of a class that are remembered.
const MAX_PUSHED: usize = 16;

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

/// A pack that the device learned because its channel holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LearnedPack {
    /// The released pack.
    pub pack: ObjectDigest,
    /// Digest of the learner file of its bundle.
    #[serde(rename = "bundle")]
    pub bundle_digest: ObjectDigest,
    /// The class's label.
    pub label: String,
    /// The class's shots as they were learned ([`super::content::content`]).
    pub content: ObjectDigest,
}

/// A class that the device pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PushedClass {
    /// The class's label.
    pub label: String,
    /// Its shots as they were pushed.
    pub content: ObjectDigest,
    /// The pack.
    pub pack: ObjectDigest,
    /// Whether its pictures were pushed, too.
    pub pictures: bool,
}

/// A release that the device refused for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RefusedRelease {
    /// The release.
    pub release: ReleaseId,
    /// Its bundle's manifest: a hub that was restored from a backup may give the number again. Older programs did not
    /// write it; what they refused is tried once more.
    #[serde(default)]
    pub manifest: Option<ObjectDigest>,
    /// Why.
    pub reason: String,
}

/// How far a device has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SyncProgress {
    pub learned: Vec<LearnedPack>,
    pub pushed: Vec<PushedClass>,
    pub refused: Vec<RefusedRelease>,
    /// What became of the releases of the channel in the last round.
    #[serde(default)]
    pub outcomes: Vec<ReleaseOutcome>,
}

impl SyncProgress {
    /// Why a release with this manifest was refused for good, if it was.
    pub fn refusal(&self, release: ReleaseId, manifest: ObjectDigest) -> Option<&str> {
        let is_meant = |refused: &&RefusedRelease| refused.release == release && refused.manifest == Some(manifest);
        self.refused.iter().find(is_meant).map(|refused| refused.reason.as_str())
    }

    /// Remembers a class that was pushed. Of each label the newest few count: an undone change brings back an earlier
    /// one.
    pub fn remember_pushed(&mut self, class: PushedClass) {
        let same: Vec<usize> =
            (0..self.pushed.len()).filter(|&index| label::same(&self.pushed[index].label, &class.label)).collect();
        if let Some(oldest) = same.first().filter(|_| same.len() >= MAX_PUSHED) {
            self.pushed.remove(*oldest);
        }
        self.pushed.push(class);
    }

    /// The record of a pack.
    pub fn learned(&self, pack: &ObjectDigest) -> Option<&LearnedPack> {
        self.learned.iter().find(|learned| learned.pack == *pack)
    }
}

impl DeviceFolder {
    /// That folder, which need not be there yet.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self(path.as_ref().into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Keeps other rounds out until what this returns is dropped: two would use the same sequence numbers, and write
    /// over each other's progress.
    pub(super) fn lock(&self) -> Result<Lock, SyncError> {
        if !self.0.is_dir() {
            files::create_folder(&self.0).map_err(SyncError::file(&self.0))?;
        }
        let path = self.0.join(".lock");
        Lock::take(&path, Duration::ZERO).map_err(|error| match error {
            LockError::Held => SyncError::Busy { folder: self.0.clone() },
            LockError::Open(source) => SyncError::File { path, source },
            other => SyncError::File { path, source: io::Error::other(other) },
        })
    }

    /// Where objects lie until they are used.
    pub(super) fn objects(&self) -> PathBuf {
        self.0.join("objects")
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
        self.read("identity.json")
    }

    pub(super) fn keep_identity(
        &self,
        identity: &DeviceIdentity,
        observer: &mut dyn SyncObserver,
    ) -> Result<(), SyncError> {
        self.write("identity.json", identity, observer)
    }

    /// The last sequence number that was used; 0 if none was.
    pub(super) fn sequence(&self) -> Result<u64, SyncError> {
        Ok(self.read("sequence.json")?.unwrap_or(0))
    }

    pub(super) fn keep_sequence(&self, sequence: u64, observer: &mut dyn SyncObserver) -> Result<(), SyncError> {
        self.write("sequence.json", &sequence, observer)
    }

    pub(super) fn progress(&self) -> Result<SyncProgress, SyncError> {
        Ok(self.read("progress.json")?.unwrap_or_default())
    }

    pub(super) fn keep_progress(
        &self,
        progress: &SyncProgress,
        observer: &mut dyn SyncObserver,
    ) -> Result<(), SyncError> {
        self.write("progress.json", progress, observer)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, SyncError> {
        let path = self.0.join(name);
        let bytes = match files::read_own(&path, MAX_FILE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(SyncError::file(&path))?,
        };
        let parsed = serde_json::from_slice(&bytes);
        parsed.map(Some).map_err(|error| SyncError::Damaged { path, reason: error.to_string() })
    }

    fn write(&self, name: &str, value: &impl Serialize, observer: &mut dyn SyncObserver) -> Result<(), SyncError> {
        proceed(observer, SyncStep::Write)?;
        let path = self.0.join(name);
        let bytes = serde_json::to_vec(value).map_err(io::Error::other);
        bytes.and_then(|bytes| files::replace_in_new_folder(&path, &bytes)).map_err(SyncError::file(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_stands_for_one_manifest() {
        let [first, second] = ["first", "second"].map(|text| ObjectDigest::of(text.as_bytes()));
        let refused = RefusedRelease { release: ReleaseId(7), manifest: Some(first), reason: "worse".into() };
        let progress = SyncProgress { refused: vec![refused], ..SyncProgress::default() };
        let read: SyncProgress = serde_json::from_slice(&serde_json::to_vec(&progress).unwrap()).unwrap();
        assert_eq!(read, progress);
        assert_eq!(read.refusal(ReleaseId(7), first), Some("worse"));
        assert_eq!(read.refusal(ReleaseId(7), second), None);
        assert_eq!(read.refusal(ReleaseId(8), first), None);
    }

    #[test]
    fn refusals_of_older_programs_are_read_and_tried_again() {
        let old = r#"{"learned":[],"pushed":[],"refused":[{"release":7,"reason":"worse"}]}"#;
        let read: SyncProgress = serde_json::from_str(old).unwrap();
        assert_eq!(read.refused.len(), 1);
        assert_eq!(read.refusal(ReleaseId(7), ObjectDigest::of(b"any")), None);
    }
}

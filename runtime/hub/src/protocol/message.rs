//! Bodies of messages, JSON.

use serde::{Deserialize, Serialize};

use super::enrolment_code::CodeId;
use super::key::{ObjectDigest, VerifyingKey};

/// A device's request to join the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolment {
    /// The code's identifier.
    pub code: CodeId,
    /// The device's key.
    pub key: VerifyingKey,
    /// What people call the device.
    pub name: String,
    /// That the device has the code ([`super::CodeKey::prove`]), by which it is bound to the key.
    pub proof: ObjectDigest,
}

/// The answer to an [`Enrolment`]: the device is in the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentAnswer {
    /// The hub's key.
    pub hub: VerifyingKey,
    /// The channel that the device follows.
    pub channel: String,
}

/// Number of a release, which the hub gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReleaseId(pub i64);

impl std::fmt::Display for ReleaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What a device is and knows. `client/report.rs` fills it in, `server/device.rs` refuses one that lists too much, and
/// [`overview`](crate::overview) and [`page`](crate::page) show what the hub keeps of it. A further field needs a
/// default: devices and hubs of other releases do not know it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Version of its program.
    pub version: String,
    /// Its bundle, if it has one.
    pub bundle: Option<ReportedBundle>,
    /// The classes that it learned.
    pub classes: Vec<ClassReport>,
    /// Its free bytes and warnings.
    pub health: DeviceHealth,
    /// What became of the releases of its channel.
    pub outcomes: Vec<ReleaseOutcome>,
    /// Packs that it pushed, of what it may share as it is now: the hub answers which of them it lost. Told once in a
    /// round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pushed: Vec<ObjectDigest>,
    /// Of those, the ones whose pictures it pushed, too. Told once in a round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictured: Vec<PushedPictures>,
    /// A random number, told once in a round. Without it, two devices that share a key and know the same would send the
    /// same message under the same number, as if a network had delivered it twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
}

/// How many pictures of a pack a device pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushedPictures {
    /// The pack.
    pub pack: ObjectDigest,
    /// Its pictures, each once.
    pub count: u32,
}

/// The bundle that a device runs with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedBundle {
    /// Its name.
    pub name: String,
    /// Its release, of which its signer decides.
    pub release: u32,
    /// Digest of its learner file, by which packs name their bundle.
    #[serde(rename = "learner")]
    pub bundle_digest: ObjectDigest,
}

/// A class that a device learned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassReport {
    /// Its label.
    pub label: String,
    /// Its stored shots.
    pub shots: u32,
}

/// Free bytes and warnings of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceHealth {
    /// Bytes that are free where its state lies, if that is known.
    pub free_bytes: Option<u64>,
    /// What is wrong, in sentences.
    pub warnings: Vec<String>,
}

/// What became of a release on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseOutcome {
    /// The release.
    pub release: ReleaseId,
    /// Why the device does not hold it; none if it does.
    pub refused: Option<String>,
}

/// What a channel holds for a device at its stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelTarget {
    /// The bundle, where the channel says which.
    pub bundle: Option<BundleTarget>,
    /// Packs of that bundle, or of the device's own where the channel names none; one for each label.
    pub packs: Vec<PackTarget>,
    /// Packs that the device says it pushed, but of which the hub has no record or no bytes, as after a backup of it
    /// was restored, or whose device is out of the fleet: the device pushes them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<ObjectDigest>,
    /// Packs of which the hub has fewer pictures than the device says it pushed: the device pushes them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_pictures: Vec<ObjectDigest>,
}

/// A bundle that a device should run with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleTarget {
    /// The release.
    pub release: ReleaseId,
    /// Its name.
    pub name: String,
    /// Digest of its learner file.
    #[serde(rename = "learner")]
    pub bundle_digest: ObjectDigest,
    /// Whether a device moves to the bundle even if classes are recognised clearly worse, or have no pictures.
    pub force: bool,
    /// Whether a device gives up classes of which it kept no picture, such as those of packs.
    pub give_up_unkept: bool,
    /// Its files.
    pub files: Vec<ReleasedFile>,
}

/// A file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedFile {
    /// Its name in the bundle's folder.
    pub name: String,
    /// Its digest.
    pub digest: ObjectDigest,
    /// Its length in bytes.
    pub size: u64,
}

/// A pack that a device should have learned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackTarget {
    /// The release.
    pub release: ReleaseId,
    /// Its label.
    pub label: String,
    /// Its digest.
    pub digest: ObjectDigest,
    /// Its length in bytes.
    pub size: u64,
    /// The packs that devices pushed and that it was made of.
    pub origins: Vec<ObjectDigest>,
}

/// The answer to a push: the hub keeps what was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushAnswer {
    /// Its digest.
    pub digest: ObjectDigest,
}

/// Why the hub refuses a device that it knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubRefusal {
    /// Which kind of reason.
    pub kind: RefusalKind,
    /// In a sentence.
    pub reason: String,
}

/// Kinds of reasons. Devices in the field read no others: a new reason is [`RefusalKind::Invalid`] with a sentence of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RefusalKind {
    /// The sequence number was used before; the device goes on after this one.
    Replay {
        /// The highest number that the hub has seen.
        last: u64,
    },
    /// The message makes no sense, or something in it is beyond a limit.
    Invalid,
    /// There is no such object, or the device may not have it.
    Missing,
}

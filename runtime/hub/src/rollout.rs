//! Channels and stages: which device gets which release.
//!
//! A release begins with a few devices and is widened by a person. Which of a hundred buckets a device is in is a hash
//! of its identifier and the release, so it never changes: a device that has a release keeps it when the stage widens,
//! and another release begins with other devices. With few devices, nobody may be in a bucket below five.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::protocol::{DeviceId, ObjectDigest};

/// The channel of devices for which nobody named one.
pub const DEFAULT_CHANNEL: &str = "stable";
/// Longest name of a channel, in bytes.
const MAX_CHANNEL: usize = 64;

/// Which share of a channel's devices gets a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum RolloutStage {
    /// 5 %.
    First,
    /// 25 %.
    Quarter,
    /// All.
    All,
}

/// A number is no stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stage is 5, 25 or 100 percent")]
pub struct StageError;

impl RolloutStage {
    /// The stages, the narrowest first.
    pub const CHOICES: [Self; 3] = [Self::First, Self::Quarter, Self::All];

    /// Its percentage.
    pub fn percent(self) -> u8 {
        match self {
            Self::First => 5,
            Self::Quarter => 25,
            Self::All => 100,
        }
    }

    /// Whether a device gets a release at this stage.
    pub fn includes(self, device: &DeviceId, release: &ObjectDigest) -> bool {
        // An overview asks for every device and release; most releases are for all.
        self == Self::All || bucket(device, release) < self.percent()
    }
}

impl From<RolloutStage> for u8 {
    fn from(stage: RolloutStage) -> Self {
        stage.percent()
    }
}

impl TryFrom<u8> for RolloutStage {
    type Error = StageError;

    fn try_from(percent: u8) -> Result<Self, StageError> {
        Self::CHOICES.into_iter().find(|stage| stage.percent() == percent).ok_or(StageError)
    }
}

impl std::str::FromStr for RolloutStage {
    type Err = StageError;

    fn from_str(text: &str) -> Result<Self, StageError> {
        match text.trim_end_matches('%').trim() {
            "all" => Ok(Self::All),
            number => number.parse::<u8>().map_err(|_| StageError)?.try_into(),
        }
    }
}

/// A device's bucket for a release, 0 to 99.
fn bucket(device: &DeviceId, release: &ObjectDigest) -> u8 {
    let digest: [u8; 32] = Sha256::new().chain_update(device.bytes()).chain_update(release.bytes()).finalize().into();
    let number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    // 2^64 is so much more than 100 that all buckets are equally likely.
    (number % 100) as u8
}

/// Whether a text names a channel: small letters, digits and hyphens.
pub fn is_channel(name: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    (1..=MAX_CHANNEL).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::SigningKey;

    fn devices(count: usize) -> Vec<DeviceId> {
        (0..count).map(|_| SigningKey::generate().unwrap().verifying_key().device()).collect()
    }

    #[test]
    fn a_wider_stage_has_all_devices_of_a_narrower_one() {
        let release = ObjectDigest::of(b"release");
        for device in devices(500) {
            let included = RolloutStage::CHOICES.map(|stage| stage.includes(&device, &release));
            assert!(included.is_sorted(), "{included:?}");
            assert!(included[2]);
        }
    }

    #[test]
    fn stages_have_about_their_share_of_the_devices_and_releases_begin_with_others() {
        let devices = devices(2000);
        let first = |release: &[u8]| -> Vec<bool> {
            let release = ObjectDigest::of(release);
            devices.iter().map(|device| RolloutStage::First.includes(device, &release)).collect()
        };
        let (one, two) = (first(b"one"), first(b"two"));
        for share in [&one, &two] {
            let count = share.iter().filter(|included| **included).count();
            assert!((50..=150).contains(&count), "{count} of 2000 are not 5 %");
        }
        assert_ne!(one, two);
    }

    #[test]
    fn stages_have_three_names() {
        assert_eq!("5%".parse(), Ok(RolloutStage::First));
        assert_eq!("25".parse(), Ok(RolloutStage::Quarter));
        assert_eq!("all".parse(), Ok(RolloutStage::All));
        assert_eq!("50".parse::<RolloutStage>(), Err(StageError));
        assert_eq!(serde_json::to_string(&RolloutStage::Quarter).unwrap(), "25");
        assert!(serde_json::from_str::<RolloutStage>("26").is_err());
    }

    #[test]
    fn channels_are_plain_names() {
        assert!(is_channel("stable") && is_channel("door-3"));
        for name in ["", "Stable", "a b", "a/b", &"x".repeat(65)] {
            assert!(!is_channel(name), "{name}");
        }
    }
}

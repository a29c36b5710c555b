//! The fleet at a glance, for the page, the administrators' API and `orco hub list`.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::error::HubError;
use crate::protocol::{DeviceId, DeviceReport, ObjectDigest, ReleaseId, ReportedBundle};
use crate::rollout::RolloutStage;
use crate::store::{DeviceRecord, HubStore, PackRecord, ReleaseKind, ReleaseRecord, UnixSeconds};

/// The fleet.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FleetOverview {
    /// Its devices, by name: `door 2` before `door 12`.
    pub devices: Vec<DeviceOverview>,
    /// Packs that devices pushed, by label.
    pub packs: Vec<PackOverview>,
    /// Releases, newest first.
    pub releases: Vec<ReleaseOverview>,
}

/// A device.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DeviceOverview {
    /// Its identifier.
    pub id: DeviceId,
    /// What people call it.
    pub name: String,
    /// The channel that it follows.
    pub channel: String,
    /// When its last request came, in seconds since 1970.
    pub seen: UnixSeconds,
    /// What it said of itself last.
    pub report: Option<DeviceReport>,
}

/// A pack that a device pushed.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PackOverview {
    /// Its digest, by which it is released.
    pub digest: ObjectDigest,
    /// Its label.
    pub label: String,
    /// Identifier of the device.
    pub device_id: DeviceId,
    /// Name of the device.
    pub device: String,
    /// Name of its bundle.
    pub bundle: String,
    /// Its shots.
    pub shots: u32,
    /// Pictures that the device shares of them.
    pub pictures: u32,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it came first, in seconds since 1970. A device that goes back to an earlier pack pushes none anew.
    pub received: UnixSeconds,
}

/// A release.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ReleaseOverview {
    /// Its number.
    pub id: ReleaseId,
    /// The channel.
    pub channel: String,
    /// What is released.
    pub kind: ReleaseKind,
    /// Name of the bundle, or label of the pack.
    pub name: String,
    /// Which share of the devices gets it.
    #[serde(rename = "percent")]
    pub stage: RolloutStage,
    /// Whether it was taken back.
    pub withdrawn: bool,
    /// Whether no device gets it any more, since newer releases took its place.
    pub replaced: bool,
    /// When it was made, in seconds since 1970.
    pub created: UnixSeconds,
    /// Devices that it is for at this stage.
    pub devices: usize,
    /// Those that hold it.
    pub held: usize,
    /// Those that refused it.
    pub refused: usize,
    /// Of a pack, those that run with another bundle than it was made with, and so do not get it.
    pub other_bundle: usize,
}

impl FleetOverview {
    /// That of a hub.
    ///
    /// # Errors
    /// [`HubError::Database`] if it cannot be read.
    pub fn of(store: &HubStore) -> Result<Self, HubError> {
        let packs = store.packs()?.into_iter().map(PackOverview::from).collect();
        Ok(Self { packs, ..Self::without_packs(store)? })
    }

    /// That of a hub, as if it had no packs.
    pub(crate) fn without_packs(store: &HubStore) -> Result<Self, HubError> {
        let mut devices = store.devices()?;
        devices.sort_by_cached_key(|device| with_padded_numbers(&device.name));
        let releases = store.releases()?;
        let replaced = store.replaced(&releases)?;
        let releases = releases.into_iter().map(|release| {
            let is_replaced = replaced.contains(&release.id);
            release_overview(release, is_replaced, &devices)
        });
        Ok(Self {
            releases: releases.collect(),
            packs: Vec::new(),
            devices: devices.into_iter().map(DeviceOverview::from).collect(),
        })
    }

    /// Names that several devices have; devices out of the fleet whose packs are left count, too. Beside such a name,
    /// a list shows the identifier.
    pub fn shared_names(&self) -> BTreeSet<&str> {
        let devices = self.devices.iter().map(|device| (device.name.as_str(), device.id));
        let of_packs = self.packs.iter().map(|pack| (pack.device.as_str(), pack.device_id));
        let mut names = BTreeSet::new();
        let distinct: BTreeSet<(&str, DeviceId)> = devices.chain(of_packs).collect();
        distinct.into_iter().map(|(name, _)| name).filter(|name| !names.insert(*name)).collect()
    }
}

impl From<PackRecord> for PackOverview {
    fn from(pack: PackRecord) -> Self {
        Self {
            digest: pack.digest,
            label: pack.label,
            device_id: pack.device,
            device: pack.device_name,
            bundle: pack.bundle_name,
            shots: pack.shots,
            pictures: pack.pictures,
            bytes: pack.size,
            received: pack.received,
        }
    }
}

impl From<DeviceRecord> for DeviceOverview {
    fn from(device: DeviceRecord) -> Self {
        Self { id: device.id, name: device.name, channel: device.channel, seen: device.seen, report: device.report }
    }
}

impl DeviceOverview {
    /// Its warnings, and for each release that it refused the reason, in sentences.
    pub fn problems(&self) -> Vec<String> {
        let Some(report) = &self.report else { return vec!["no report yet".into()] };
        let refused = report.outcomes.iter().filter_map(|outcome| {
            let reason = outcome.refused.as_ref()?;
            Some(format!("release {}: {reason}", outcome.release))
        });
        report.health.warnings.iter().cloned().chain(refused).collect()
    }
}

impl ReleaseOverview {
    /// Whom it is for, in a word.
    pub fn stage_text(&self) -> String {
        match self {
            Self { withdrawn: true, .. } => "withdrawn".into(),
            Self { replaced: true, .. } => "replaced".into(),
            Self { stage, .. } => format!("{} %", stage.percent()),
        }
    }

    /// How many hold it, in words.
    pub fn held_text(&self) -> String {
        let Self { held, devices, other_bundle, .. } = self;
        match other_bundle {
            0 => format!("{held} of {devices}"),
            others => format!("{held} of {devices}, {others} with another bundle"),
        }
    }
}

/// A name whose numbers have 20 digits, so that names are sorted by the value of their numbers.
fn with_padded_numbers(name: &str) -> String {
    let (mut padded, mut rest) = (String::new(), name);
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        padded = format!("{padded}{before}{number:0>20}");
        rest = after;
    }
    padded + rest
}

/// How long ago something was, in words.
pub fn ago(seconds: UnixSeconds) -> String {
    match seconds {
        // The hub's clock was ahead then, or is behind now.
        ..=-120 => "not known: the hub's clock was changed".into(),
        -119..=119 => "now".into(),
        120..=7_199 => format!("{} minutes ago", seconds / 60),
        7_200..=172_799 => format!("{} hours ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

fn release_overview(release: ReleaseRecord, replaced: bool, devices: &[DeviceRecord]) -> ReleaseOverview {
    let meant: Vec<&DeviceRecord> = devices
        .iter()
        .filter(|device| device.channel == release.channel && release.stage.includes(&device.id, &release.identity))
        .collect();
    let (mut held, mut refused, mut other_bundle) = (0, 0, 0);
    for report in meant.iter().filter_map(|device| device.report.as_ref()) {
        // One of each device, however many it lists.
        match report.outcomes.iter().find(|outcome| outcome.release == release.id) {
            Some(outcome) if outcome.refused.is_none() => held += 1,
            Some(_) => refused += 1,
            None if has_other_bundle(report, &release) => other_bundle += 1,
            None => {}
        }
    }
    ReleaseOverview {
        id: release.id,
        channel: release.channel,
        kind: release.kind,
        name: release.name,
        stage: release.stage,
        withdrawn: release.withdrawn,
        replaced,
        created: release.created,
        devices: meant.len(),
        held,
        refused,
        other_bundle,
    }
}

/// Whether a device runs with another bundle than the one that a released pack was made with.
fn has_other_bundle(report: &DeviceReport, release: &ReleaseRecord) -> bool {
    let is_other = |bundle: &ReportedBundle| bundle.bundle_digest != release.bundle_digest;
    release.kind == ReleaseKind::Pack && report.bundle.as_ref().is_some_and(is_other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{ReleaseOutcome, SigningKey};

    #[test]
    fn names_are_sorted_by_the_value_of_their_numbers() {
        let sorted = ["", "12", "door", "door 2", "door 12", "door 12 b", "door 100", "türe 3"];
        assert!(sorted.map(with_padded_numbers).is_sorted());
    }

    #[test]
    fn names_that_several_devices_have_are_found() {
        let door =
            |name: &str| DeviceOverview { name: name.into(), ..DeviceOverview::from(device(DeviceReport::default())) };
        let mut devices = vec![door("door 3"), door("door 3"), door("door 7")];
        // A device by itself shares its name with none.
        devices.push(devices[2].clone());
        let fleet = FleetOverview { devices, packs: Vec::new(), releases: Vec::new() };
        assert_eq!(fleet.shared_names(), BTreeSet::from(["door 3"]));
    }

    fn device(report: DeviceReport) -> DeviceRecord {
        let key = SigningKey::generate().unwrap().verifying_key();
        let (id, name, channel) = (key.device(), "door 3".to_owned(), "stable".to_owned());
        DeviceRecord { id, key, name, channel, enrolled: 0, seen: 0, report: Some(report) }
    }

    fn release_of_mug() -> ReleaseRecord {
        let digest = ObjectDigest::of(b"mug");
        ReleaseRecord {
            id: ReleaseId(1),
            channel: "stable".into(),
            kind: ReleaseKind::Pack,
            name: "mug".into(),
            bundle_digest: digest,
            identity: digest,
            stage: RolloutStage::All,
            force: false,
            give_up_unkept: false,
            withdrawn: false,
            created: 0,
        }
    }

    #[test]
    fn a_device_counts_once_however_often_it_reports_a_release() {
        let outcome = ReleaseOutcome { release: ReleaseId(1), refused: None };
        let report = DeviceReport { outcomes: vec![outcome; 3], ..DeviceReport::default() };
        let shown = release_overview(release_of_mug(), false, &[device(report)]);
        assert_eq!((shown.held, shown.refused, shown.devices), (1, 0, 1));
    }

    /// Else an operator waits in vain, and nothing says why.
    #[test]
    fn devices_with_another_bundle_than_a_packs_are_told_apart() {
        let with = |text: &[u8]| {
            let bundle = ReportedBundle { name: "b".into(), release: 1, bundle_digest: ObjectDigest::of(text) };
            device(DeviceReport { bundle: Some(bundle), ..DeviceReport::default() })
        };
        let devices = [with(b"mug"), with(b"other"), device(DeviceReport::default())];
        let shown = release_overview(release_of_mug(), false, &devices);
        assert_eq!((shown.other_bundle, shown.held_text().as_str()), (1, "0 of 3, 1 with another bundle"));
        let of_bundle = ReleaseRecord { kind: ReleaseKind::Bundle, ..release_of_mug() };
        assert_eq!(release_overview(of_bundle, false, &devices).held_text(), "0 of 3");
    }
}

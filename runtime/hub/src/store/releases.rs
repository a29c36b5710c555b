//! Releases: bundles and packs that a person gives to a channel.

use std::collections::{BTreeMap, BTreeSet};

use orco_runtime::state::label;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{HubStore, UnixSeconds};
use crate::error::HubError;
use crate::protocol::{DeviceId, ObjectDigest, ReleaseId, ReleasedFile};
use crate::rollout::RolloutStage;

/// What is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReleaseKind {
    /// A bundle.
    Bundle,
    /// A pack.
    Pack,
}

impl ReleaseKind {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::Pack => "pack",
        }
    }
}

/// A release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseRecord {
    /// Its number.
    pub id: ReleaseId,
    /// The channel that it belongs to.
    pub channel: String,
    /// What is released.
    pub kind: ReleaseKind,
    /// Name of the bundle, or label of the pack.
    pub name: String,
    /// Digest of the learner file of the bundle, or of the pack's bundle.
    pub bundle_digest: ObjectDigest,
    /// Digest of the manifest or the pack; with a device's id it decides when the device's turn comes in the rollout.
    pub identity: ObjectDigest,
    /// Which share of the devices gets it.
    pub stage: RolloutStage,
    /// Whether devices move to the bundle at any cost.
    pub force: bool,
    /// Whether they give up classes of which they kept no picture.
    pub give_up_unkept: bool,
    /// Whether it was taken back.
    pub withdrawn: bool,
    /// When it was made.
    pub created: UnixSeconds,
}

/// A release before it is in the database, with what belongs to it.
pub(super) struct ReleaseDraft<'a> {
    pub channel: &'a str,
    pub kind: ReleaseKind,
    pub name: String,
    pub bundle_digest: ObjectDigest,
    pub identity: ObjectDigest,
    pub stage: RolloutStage,
    pub force: bool,
    pub give_up_unkept: bool,
    pub files: Vec<ReleasedFile>,
    pub origins: Vec<ObjectDigest>,
}

/// What all devices of a channel get, of its newest releases.
#[derive(Default)]
struct ChannelForAll {
    has_bundle: bool,
    packs: BTreeMap<ObjectDigest, PacksForAll>,
}

/// Packs of one bundle that all devices of a channel get.
#[derive(Default)]
struct PacksForAll {
    labels: BTreeSet<String>,
    sources: BTreeSet<ClassSource>,
}

/// A device's class that a release was made of.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClassSource {
    device: DeviceId,
    /// The label of the class on that device, in its normal form.
    label: String,
}

impl ChannelForAll {
    /// Whether they leave no place for an older release.
    fn replaces(&self, older: &ReleaseRecord, sources: &BTreeSet<ClassSource>) -> bool {
        match older.kind {
            ReleaseKind::Bundle => self.has_bundle,
            ReleaseKind::Pack => self.packs.get(&older.bundle_digest).is_some_and(|packs| {
                packs.labels.contains(&label::normal(&older.name)) || are_covered(sources, &packs.sources)
            }),
        }
    }

    fn add(&mut self, release: &ReleaseRecord, sources: BTreeSet<ClassSource>) {
        match release.kind {
            ReleaseKind::Bundle => self.has_bundle = true,
            ReleaseKind::Pack => {
                let packs = self.packs.entry(release.bundle_digest).or_default();
                // One whose label a newer release has covers nothing. Any other keeps older ones of its label away,
                // even if it was replaced itself.
                if packs.labels.insert(label::normal(&release.name)) {
                    packs.sources.extend(sources);
                }
            }
        }
    }
}

const SELECT_RELEASE: &str = "SELECT id, channel, kind, name, bundle, identity, stage, force, withdrawn, created,
    give_up_unkept FROM release";

fn record(row: &Row<'_>) -> rusqlite::Result<ReleaseRecord> {
    let kind: String = row.get(2)?;
    Ok(ReleaseRecord {
        id: ReleaseId(row.get(0)?),
        channel: row.get(1)?,
        kind: if kind == ReleaseKind::Bundle.name() { ReleaseKind::Bundle } else { ReleaseKind::Pack },
        name: row.get(3)?,
        bundle_digest: row.get(4)?,
        identity: row.get(5)?,
        // The narrowest one, should the database hold a number that is none.
        stage: row.get::<_, u8>(6)?.try_into().unwrap_or(RolloutStage::First),
        force: row.get(7)?,
        withdrawn: row.get(8)?,
        created: row.get(9)?,
        give_up_unkept: row.get(10)?,
    })
}

impl HubStore {
    /// All releases, newest first.
    ///
    /// # Errors
    /// [`HubError::Database`] if they cannot be read.
    pub fn releases(&self) -> Result<Vec<ReleaseRecord>, HubError> {
        let connection = self.connection()?;
        let mut query = connection.prepare_cached(&format!("{SELECT_RELEASE} ORDER BY id DESC"))?;
        let releases = query.query_map([], record)?.collect::<Result<_, _>>()?;
        Ok(releases)
    }

    /// The releases that no device gets any more, newest first: newer ones for all devices of the channel have replaced
    /// them.
    ///
    /// # Errors
    /// [`HubError::Database`] if it cannot be read what they were made of.
    pub fn replaced(&self, releases: &[ReleaseRecord]) -> Result<BTreeSet<ReleaseId>, HubError> {
        let connection = self.connection()?;
        let (mut replaced, mut channels) = (BTreeSet::new(), BTreeMap::<&str, ChannelForAll>::new());
        for release in releases.iter().filter(|release| !release.withdrawn) {
            let sources = sources(&connection, release.id)?;
            let newer = channels.entry(&release.channel).or_default();
            if newer.replaces(release, &sources) {
                replaced.insert(release.id);
            }
            if release.stage == RolloutStage::All {
                newer.add(release, sources);
            }
        }
        Ok(replaced)
    }

    /// The packs that a release was made of.
    ///
    /// # Errors
    /// [`HubError::Database`] if they cannot be read.
    pub fn origins(&self, release: ReleaseId) -> Result<Vec<ObjectDigest>, HubError> {
        origins(&*self.connection()?, release)
    }

    /// Gives a release to more devices.
    ///
    /// # Errors
    /// [`HubError::StaleStage`] if it is at a wider stage already, [`HubError::Withdrawn`] if it was taken back, or
    /// another if it cannot be kept.
    pub fn set_stage(&self, release: ReleaseId, stage: RolloutStage) -> Result<(), HubError> {
        self.in_transaction(|transaction| {
            let query = "SELECT stage, withdrawn FROM release WHERE id = ?1";
            let found = transaction.query_row(query, [release.0], |row| Ok((row.get(0)?, row.get(1)?)));
            let (present, is_withdrawn): (u8, bool) = found.optional()?.ok_or(HubError::NoRelease { release })?;
            if is_withdrawn {
                return Err(HubError::Withdrawn { release });
            }
            if stage.percent() < present {
                return Err(HubError::StaleStage { release, present });
            }
            update_stage(transaction, release, stage)
        })
    }

    /// Takes a release back. Devices forget a pack that they learned from it and did not change; they keep a bundle
    /// until the channel names another one.
    ///
    /// # Errors
    /// [`HubError`] if there is no such release, or it cannot be kept.
    pub fn withdraw(&self, release: ReleaseId) -> Result<(), HubError> {
        let changed = self.connection()?.execute("UPDATE release SET withdrawn = 1 WHERE id = ?1", [release.0])?;
        if changed == 0 { Err(HubError::NoRelease { release }) } else { Ok(()) }
    }
}

/// Releases of a channel that were not taken back, newest first.
pub(super) fn active(connection: &Connection, channel: &str) -> Result<Vec<ReleaseRecord>, HubError> {
    let query = format!("{SELECT_RELEASE} WHERE channel = ?1 AND withdrawn = 0 ORDER BY id DESC");
    let mut query = connection.prepare_cached(&query)?;
    let releases = query.query_map([channel], record)?.collect::<Result<_, _>>()?;
    Ok(releases)
}

/// Of releases, the newest first, the newest pack of each label for a bundle: those are what devices learn.
pub(super) fn newest_packs(releases: &[ReleaseRecord], bundle: ObjectDigest) -> impl Iterator<Item = &ReleaseRecord> {
    let mut labels = BTreeSet::new();
    let packs =
        releases.iter().filter(move |release| release.kind == ReleaseKind::Pack && release.bundle_digest == bundle);
    packs.filter(move |release| labels.insert(label::normal(&release.name)))
}

/// Whether all classes that a release was made of are among those that newer ones were made of.
pub(super) fn are_covered(sources: &BTreeSet<ClassSource>, newer: &BTreeSet<ClassSource>) -> bool {
    !sources.is_empty() && sources.is_subset(newer)
}

fn update_stage(transaction: &Transaction<'_>, release: ReleaseId, stage: RolloutStage) -> Result<(), HubError> {
    transaction.execute("UPDATE release SET stage = ?2 WHERE id = ?1", params![release.0, stage.percent()])?;
    Ok(())
}

/// Gives a release to the devices of a further stage, if it has not reached that yet; returns its number.
pub(super) fn widen(
    transaction: &Transaction<'_>,
    known: &ReleaseRecord,
    stage: RolloutStage,
) -> Result<ReleaseId, HubError> {
    if stage > known.stage {
        update_stage(transaction, known.id, stage)?;
    }
    Ok(known.id)
}

pub(super) fn origins(connection: &Connection, release: ReleaseId) -> Result<Vec<ObjectDigest>, HubError> {
    let mut query = connection.prepare_cached("SELECT pack FROM release_origin WHERE release = ?1 ORDER BY pack")?;
    let origins = query.query_map([release.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(origins)
}

/// The classes that a release was made of.
pub(super) fn sources(connection: &Connection, release: ReleaseId) -> Result<BTreeSet<ClassSource>, HubError> {
    let mut query = connection.prepare_cached(
        "SELECT pack.device, pack.label FROM release_origin JOIN pack ON pack.digest = release_origin.pack
         WHERE release_origin.release = ?1",
    )?;
    let sources = query.query_map([release.0], |row| {
        Ok(ClassSource { device: row.get(0)?, label: label::normal(&row.get::<_, String>(1)?) })
    })?;
    Ok(sources.collect::<Result<_, _>>()?)
}

pub(super) fn insert(
    transaction: &Transaction<'_>,
    new: &ReleaseDraft<'_>,
    now: UnixSeconds,
) -> Result<ReleaseId, HubError> {
    transaction.execute(
        "INSERT INTO release (channel, kind, name, bundle, identity, stage, force, give_up_unkept, withdrawn, created)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9)",
        params![
            new.channel,
            new.kind.name(),
            new.name,
            new.bundle_digest,
            new.identity,
            new.stage.percent(),
            new.force,
            new.give_up_unkept,
            now
        ],
    )?;
    let id = transaction.last_insert_rowid();
    for file in &new.files {
        let size = i64::try_from(file.size).unwrap_or(i64::MAX);
        let insert = "INSERT INTO release_file (release, name, digest, size) VALUES (?1, ?2, ?3, ?4)";
        transaction.execute(insert, params![id, file.name, file.digest, size])?;
    }
    for origin in &new.origins {
        transaction.execute("INSERT INTO release_origin (release, pack) VALUES (?1, ?2)", params![id, origin])?;
    }
    Ok(ReleaseId(id))
}

//! What a device should have: of its channel's releases, those whose stage includes it ([`crate::rollout`]).

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use super::HubStore;
use super::releases::{ReleaseKind, ReleaseRecord, active, are_covered, newest_packs, origins, sources};
use crate::error::HubError;
use crate::protocol::{
    BundleTarget, ChannelTarget, DeviceId, DeviceReport, MAX_RELEASES, ObjectDigest, PackTarget, ReleaseId,
    ReleasedFile,
};

impl HubStore {
    /// What a device that reports this should have of its channel's releases. Packs may have been kept apart or merged
    /// since a release, so that a newer one brings the same class under another label: only the newer one counts.
    ///
    /// # Errors
    /// [`HubError::Database`] if it cannot be read.
    pub(crate) fn target(
        connection: &Connection,
        device: &DeviceId,
        report: &DeviceReport,
    ) -> Result<ChannelTarget, HubError> {
        let query = "SELECT channel FROM device WHERE id = ?1";
        let channel: Option<String> = connection.query_row(query, [device], |row| row.get(0)).optional()?;
        let mut releases = active(connection, &channel.unwrap_or_default())?;
        releases.retain(|release| release.stage.includes(device, &release.identity));
        let bundle = releases.iter().find(|release| release.kind == ReleaseKind::Bundle);
        let refused = |release: &&ReleaseRecord| {
            report.outcomes.iter().any(|outcome| outcome.release == release.id && outcome.refused.is_some())
        };
        // A device that went back to its bundle still gets packs of that one.
        let own = || report.bundle.as_ref().map(|bundle| bundle.bundle_digest);
        let bundle_digest =
            bundle.filter(|release| !refused(release)).map(|release| release.bundle_digest).or_else(own);
        let (mut covered, mut packs) = (BTreeSet::new(), Vec::new());
        for release in bundle_digest.into_iter().flat_map(|digest| newest_packs(&releases, digest)) {
            if packs.len() == MAX_RELEASES {
                break;
            }
            let sources = sources(connection, release.id)?;
            // A device that learned both would answer with either label for the same thing.
            if !are_covered(&sources, &covered) {
                packs.push(pack_target(connection, release)?);
            }
            covered.extend(sources);
        }
        // In the order of release: devices learn them so.
        packs.reverse();
        let bundle = bundle.map(|release| bundle_target(connection, release)).transpose()?;
        Ok(ChannelTarget { bundle, packs, ..ChannelTarget::default() })
    }

    /// Whether a device may read an object: one that its channel holds.
    ///
    /// # Errors
    /// [`HubError::Database`] if that cannot be read.
    pub(crate) fn may_read(
        connection: &Connection,
        device: &DeviceId,
        object: &ObjectDigest,
    ) -> Result<bool, HubError> {
        let query = "SELECT EXISTS (SELECT 1 FROM release_file JOIN release ON release.id = release_file.release
            JOIN device ON device.channel = release.channel
            WHERE release_file.digest = ?1 AND device.id = ?2 AND release.withdrawn = 0)";
        Ok(connection.prepare_cached(query)?.query_row(params![object, device], |row| row.get(0))?)
    }
}

/// The files of a release, by name.
pub(super) fn released_files(connection: &Connection, release: ReleaseId) -> Result<Vec<ReleasedFile>, HubError> {
    let mut query =
        connection.prepare_cached("SELECT name, digest, size FROM release_file WHERE release = ?1 ORDER BY name")?;
    let files = query.query_map([release.0], |row| {
        Ok(ReleasedFile { name: row.get(0)?, digest: row.get(1)?, size: row.get::<_, i64>(2)?.unsigned_abs() })
    })?;
    Ok(files.collect::<Result<_, _>>()?)
}

fn bundle_target(connection: &Connection, release: &ReleaseRecord) -> Result<BundleTarget, HubError> {
    Ok(BundleTarget {
        release: release.id,
        name: release.name.clone(),
        bundle_digest: release.bundle_digest,
        force: release.force,
        give_up_unkept: release.give_up_unkept,
        files: released_files(connection, release.id)?,
    })
}

fn pack_target(connection: &Connection, release: &ReleaseRecord) -> Result<PackTarget, HubError> {
    let size = released_files(connection, release.id)?.iter().map(|file| file.size).sum();
    Ok(PackTarget {
        release: release.id,
        label: release.name.clone(),
        digest: release.identity,
        size,
        origins: origins(connection, release.id)?,
    })
}

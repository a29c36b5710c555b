//! Purges what devices pushed, on request or when a device may push no more, and bundles that were taken back.

use std::collections::BTreeSet;

use rusqlite::{Connection, Transaction};

use super::{HubStore, ReleaseKind};
use crate::error::HubError;
use crate::protocol::{ObjectDigest, ReleaseId};

/// What a purge removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HubPurge {
    /// Packs.
    pub packs: usize,
    /// Their pictures.
    pub pictures: usize,
    /// Withdrawn releases, of bundles or made of these packs.
    pub releases: usize,
}

impl HubStore {
    /// Removes packs that devices pushed, their pictures, and the withdrawn releases that were made of them, which
    /// hold their shots. A device that still shares the class pushes it again. A purge that was cut off can be
    /// repeated.
    ///
    /// # Errors
    /// [`HubError::Released`] if a channel still holds one of them, [`HubError::NoPack`] if there is none, or another
    /// if it cannot be removed. The database is unchanged then.
    pub fn purge_packs(&self, packs: &[ObjectDigest]) -> Result<HubPurge, HubError> {
        // Each once, however often it was named.
        let packs: BTreeSet<&ObjectDigest> = packs.iter().collect();
        self.purge(|transaction, purged, objects| {
            packs.into_iter().try_for_each(|pack| purge_pack(transaction, pack, purged, objects))
        })
    }

    /// Removes the withdrawn releases of bundles, and those of their files that no other release has. A bundle that was
    /// replaced stays: devices return to it if the newer one is taken back. A purge that was cut off can be repeated.
    ///
    /// # Errors
    /// [`HubError`] if something cannot be removed. The database is unchanged then.
    pub fn purge_bundles(&self) -> Result<HubPurge, HubError> {
        self.purge(|transaction, purged, objects| {
            for release in withdrawn_bundles(transaction)? {
                delete_release(transaction, release, purged, objects)?;
            }
            Ok(())
        })
    }

    /// Runs `delete`, which counts what it deletes and gives the objects that its records named, and removes those of
    /// them that nothing names any more.
    fn purge(
        &self,
        delete: impl FnOnce(&Transaction<'_>, &mut HubPurge, &mut BTreeSet<ObjectDigest>) -> Result<(), HubError>,
    ) -> Result<HubPurge, HubError> {
        let purged = self.in_transaction(|transaction| {
            let (mut purged, mut objects) = (HubPurge::default(), BTreeSet::new());
            delete(transaction, &mut purged, &mut objects)?;
            // Before the records are gone for good: they tell what a repeated purge has to remove.
            objects.iter().try_for_each(|object| self.remove_unneeded(transaction, object))?;
            self.objects().sync_folders_of(&objects)?;
            Ok(purged)
        })?;
        // What fails from here on is no failure of the purge: repeated, it would find nothing to remove.
        let fault = self.connection().map(|connection| fault_of_emptying_log(&connection));
        if let Ok(Some(reason)) = fault {
            log::warn!("the database's log holds what was purged until the next purge or restart: {reason}");
        }
        Ok(purged)
    }

    /// Removes an object that nothing names any more. Its folder is synced later, once for all of its objects: a sync
    /// for each would hold the database's lock for minutes.
    pub(super) fn remove_unneeded(&self, transaction: &Transaction<'_>, object: &ObjectDigest) -> Result<(), HubError> {
        if is_needed(transaction, object)? { Ok(()) } else { self.objects().remove(object) }
    }
}

/// Writes the database's log into the database and empties it; returns why that could not be done, as on a full disk.
pub(super) fn fault_of_emptying_log(connection: &Connection) -> Option<String> {
    let is_busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    match is_busy {
        Ok(is_busy) => is_busy.then(|| "another process uses the database".into()),
        Err(error) => Some(error.to_string()),
    }
}

/// Deletes the records of a pack; `objects` gets what they named.
fn purge_pack(
    transaction: &Transaction<'_>,
    pack: &ObjectDigest,
    purged: &mut HubPurge,
    objects: &mut BTreeSet<ObjectDigest>,
) -> Result<(), HubError> {
    let releases = releases_of(transaction, pack)?;
    if let Some((release, _)) = releases.iter().find(|(_, is_withdrawn)| !is_withdrawn) {
        return Err(HubError::Released { digest: *pack, release: *release });
    }
    let deleted = transaction.execute("DELETE FROM pack WHERE digest = ?1", [pack])?;
    if deleted == 0 {
        return Err(HubError::NoPack { digest: *pack });
    }
    purged.packs += deleted;
    objects.insert(*pack);
    let mut query = transaction.prepare_cached("SELECT digest FROM picture WHERE pack = ?1")?;
    for picture in query.query_map([pack], |row| row.get::<_, ObjectDigest>(0))? {
        objects.insert(picture?);
    }
    purged.pictures += transaction.execute("DELETE FROM picture WHERE pack = ?1", [pack])?;
    for (release, _) in releases {
        delete_release(transaction, release, purged, objects)?;
    }
    Ok(())
}

/// Deletes the records of a release; `objects` gets its files.
fn delete_release(
    transaction: &Transaction<'_>,
    release: ReleaseId,
    purged: &mut HubPurge,
    objects: &mut BTreeSet<ObjectDigest>,
) -> Result<(), HubError> {
    let mut query = transaction.prepare_cached("SELECT digest FROM release_file WHERE release = ?1")?;
    for file in query.query_map([release.0], |row| row.get::<_, ObjectDigest>(0))? {
        objects.insert(file?);
    }
    transaction.execute("DELETE FROM release_file WHERE release = ?1", [release.0])?;
    transaction.execute("DELETE FROM release_origin WHERE release = ?1", [release.0])?;
    purged.releases += transaction.execute("DELETE FROM release WHERE id = ?1", [release.0])?;
    Ok(())
}

/// Releases of bundles that were taken back.
fn withdrawn_bundles(transaction: &Transaction<'_>) -> Result<Vec<ReleaseId>, HubError> {
    let mut query = transaction.prepare_cached("SELECT id FROM release WHERE kind = ?1 AND withdrawn = 1")?;
    let releases = query.query_map([ReleaseKind::Bundle.name()], |row| Ok(ReleaseId(row.get(0)?)))?;
    Ok(releases.collect::<Result<_, _>>()?)
}

/// Releases that were made of a pack, each with whether it was taken back.
fn releases_of(transaction: &Transaction<'_>, pack: &ObjectDigest) -> Result<Vec<(ReleaseId, bool)>, HubError> {
    let mut query = transaction.prepare_cached(
        "SELECT release.id, release.withdrawn FROM release JOIN release_origin ON release_origin.release = release.id
         WHERE release_origin.pack = ?1 ORDER BY release.id",
    )?;
    let releases = query.query_map([pack], |row| Ok((ReleaseId(row.get(0)?), row.get(1)?)))?;
    Ok(releases.collect::<Result<_, _>>()?)
}

/// Whether anything names an object.
fn is_needed(transaction: &Transaction<'_>, object: &ObjectDigest) -> Result<bool, HubError> {
    let mut query = transaction.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM pack WHERE digest = ?1) OR EXISTS (SELECT 1 FROM picture WHERE digest = ?1)
             OR EXISTS (SELECT 1 FROM release_file WHERE digest = ?1)",
    )?;
    Ok(query.query_row([object], |row| row.get(0))?)
}

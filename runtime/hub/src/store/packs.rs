//! Packs that devices push.

use orco_runtime::pack::{self, Pack};
use orco_runtime::state::sentence::with_causes;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{HubStore, StoredAnswer, UnixSeconds};
use crate::error::HubError;
use crate::protocol::{DeviceId, ObjectDigest, PushAnswer, RefusalKind, RequestHead};

/// Most packs that the hub takes from one device.
const MAX_PACKS: i64 = 10_000;
/// Bytes of packs and pictures that the hub takes from one device.
const MAX_BYTES: i64 = 4 << 30;

/// A pack that a device pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackRecord {
    /// Its digest.
    pub digest: ObjectDigest,
    /// Its label.
    pub label: String,
    /// Digest of the learner file of its bundle.
    pub bundle_digest: ObjectDigest,
    /// Name of that bundle.
    pub bundle_name: String,
    /// The device that pushed it first; once that one is out of the fleet, the next that pushes it.
    pub device: DeviceId,
    /// Name of the device; once it is out of the fleet, the name that it had when it pushed the pack.
    pub device_name: String,
    /// Its shots.
    pub shots: u32,
    /// Its length in bytes.
    pub size: u64,
    /// When it came.
    pub received: UnixSeconds,
    /// How many pictures of its shots the device shares.
    pub pictures: u32,
}

/// A pushed pack that was opened.
struct OpenedPack {
    digest: ObjectDigest,
    pack: Pack,
    size: usize,
}

const SELECT_PACK: &str = "SELECT digest, label, bundle, bundle_name, device,
    ifnull((SELECT name FROM device WHERE device.id = pack.device), device_name), shots, size, received,
    (SELECT count(*) FROM picture WHERE picture.pack = pack.digest) FROM pack";

fn record(row: &Row<'_>) -> rusqlite::Result<PackRecord> {
    Ok(PackRecord {
        digest: row.get(0)?,
        label: row.get(1)?,
        bundle_digest: row.get(2)?,
        bundle_name: row.get(3)?,
        device: row.get(4)?,
        device_name: row.get(5)?,
        shots: row.get(6)?,
        size: row.get::<_, i64>(7)?.unsigned_abs(),
        received: row.get(8)?,
        pictures: row.get(9)?,
    })
}

impl HubStore {
    /// All packs that devices pushed, by label and time.
    ///
    /// # Errors
    /// [`HubError::Database`] if they cannot be read.
    pub fn packs(&self) -> Result<Vec<PackRecord>, HubError> {
        let connection = self.connection()?;
        let mut query = connection.prepare_cached(&format!("{SELECT_PACK} ORDER BY label, received, digest"))?;
        let packs = query.query_map([], record)?.collect::<Result<_, _>>()?;
        Ok(packs)
    }

    /// A pack that a device pushed.
    ///
    /// # Errors
    /// [`HubError`] if there is none, or it cannot be read.
    pub fn pack(&self, digest: &ObjectDigest) -> Result<PackRecord, HubError> {
        let query = format!("{SELECT_PACK} WHERE digest = ?1");
        let found = self.connection()?.query_row(&query, [digest], record).optional()?;
        found.ok_or(HubError::NoPack { digest: *digest })
    }

    /// Which of these packs are to be pushed again: the hub has no record of them, or no bytes, or has them from a
    /// device that is out of the fleet, whose packs the next one that pushes them [takes over](take_over).
    ///
    /// # Errors
    /// [`HubError::Database`] if that cannot be read.
    pub(crate) fn lost_packs(
        &self,
        connection: &Connection,
        packs: &[ObjectDigest],
    ) -> Result<Vec<ObjectDigest>, HubError> {
        let query = "SELECT EXISTS (SELECT 1 FROM pack JOIN device ON device.id = pack.device WHERE pack.digest = ?1)";
        let mut query = connection.prepare_cached(query)?;
        let mut lost = Vec::new();
        for pack in packs {
            let is_of_fleet: bool = query.query_row([pack], |row| row.get(0))?;
            if !is_of_fleet || !self.objects().holds(pack) {
                lost.push(*pack);
            }
        }
        Ok(lost)
    }

    /// Keeps a pack that a device pushes. The same pack counts once, even from several devices.
    ///
    /// # Errors
    /// [`HubError`] if it cannot be kept. A pack that makes no sense is refused in the answer.
    pub fn receive_pack(
        &self,
        head: &RequestHead,
        body: &[u8],
        now: UnixSeconds,
    ) -> Result<Option<StoredAnswer>, HubError> {
        let pack = match pack::open(body, None) {
            Ok(pack) => pack,
            Err(error) => {
                let reason = format!("the pack is refused: {}", with_causes(&error));
                let refusal = StoredAnswer::refusal(RefusalKind::Invalid, reason);
                return self.answer_once(head, now, |_| Ok(refusal));
            }
        };
        let digest = ObjectDigest::of(body);
        self.answer_once(head, now, |transaction| {
            // One that has a record takes no further room, even if its bytes were lost.
            if !has_record(transaction, &digest)?
                && let Some(reason) = no_room(transaction, &head.device, body.len())?
            {
                return Ok(StoredAnswer::refusal(RefusalKind::Invalid, reason));
            }
            // Not before it is known that there is room: nothing would ever remove it.
            let opened = OpenedPack { digest: self.objects().put(body)?, pack, size: body.len() };
            take_over(transaction, head.device, &opened)?;
            insert(transaction, head.device, &opened, now)?;
            Ok(StoredAnswer::json(&PushAnswer { digest: opened.digest }))
        })
    }
}

/// Whether the database has that pack; its bytes may be lost all the same.
pub(super) fn has_record(connection: &Connection, pack: &ObjectDigest) -> Result<bool, HubError> {
    let mut query = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM pack WHERE digest = ?1)")?;
    Ok(query.query_row([pack], |row| row.get(0))?)
}

/// Why the hub takes no more of a device, if it does not: no device may fill the hub's disk.
pub(super) fn no_room(
    transaction: &Transaction<'_>,
    device: &DeviceId,
    more: usize,
) -> Result<Option<String>, HubError> {
    let query = "SELECT count(*), ifnull(sum(size + ifnull((SELECT sum(picture.size) FROM picture
                 WHERE picture.pack = pack.digest), 0)), 0) FROM pack WHERE device = ?1";
    let (packs, bytes): (i64, i64) =
        transaction.prepare_cached(query)?.query_row([device], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let is_full = packs >= MAX_PACKS || bytes.saturating_add(i64::try_from(more).unwrap_or(i64::MAX)) > MAX_BYTES;
    Ok(is_full.then(|| format!("the hub has {packs} packs and {} MB of this device and takes no more", bytes >> 20)))
}

/// Adds the record of a pack, unless there is one.
fn insert(
    transaction: &Transaction<'_>,
    device: DeviceId,
    opened: &OpenedPack,
    now: UnixSeconds,
) -> Result<(), HubError> {
    let OpenedPack { digest, pack, size } = opened;
    transaction.execute(
        "INSERT OR IGNORE INTO pack (digest, label, bundle, bundle_name, device, device_name, shots, size, received)
         VALUES (?1, ?2, ?3, ?4, ?5, (SELECT name FROM device WHERE id = ?5), ?6, ?7, ?8)",
        params![
            digest,
            pack.label,
            ObjectDigest::new(pack.bundle_digest),
            pack.origin.bundle,
            device,
            u32::try_from(pack.exemplars.len()).unwrap_or(u32::MAX),
            i64::try_from(*size).unwrap_or(i64::MAX),
            now
        ],
    )?;
    Ok(())
}

/// Gives a device the packs of another one that is out of the fleet, those of a label, if it pushes one of them: it is
/// that device under a new key, or its replacement, and its packs must not count as those of another device.
fn take_over(transaction: &Transaction<'_>, device: DeviceId, opened: &OpenedPack) -> Result<(), HubError> {
    let query = "SELECT device FROM pack
                 WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM device WHERE device.id = pack.device)";
    let former = transaction.query_row(query, [opened.digest], |row| row.get::<_, DeviceId>(0)).optional()?;
    if let Some(former) = former {
        transaction.execute(
            "UPDATE pack SET device = ?3, device_name = (SELECT name FROM device WHERE id = ?3)
             WHERE device = ?1 AND label = ?2",
            params![former, opened.pack.label, device],
        )?;
    }
    Ok(())
}

//! Packs and pictures that devices push.

use std::collections::{BTreeMap, BTreeSet};

use orco_runtime::pack::{self, Pack};
use orco_runtime::state::label;
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::kept_pictures;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{DeviceRecord, HubStore, StoredAnswer, UnixSeconds};
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

/// A picture of a shot that a device shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPicture {
    /// Label of its class, in its normal form.
    pub label: String,
    /// Its digest.
    pub digest: ObjectDigest,
}

/// A pushed pack that was opened.
struct OpenedPack {
    digest: ObjectDigest,
    pack: Pack,
    size: usize,
}

const COLUMNS: &str = "SELECT digest, label, bundle, bundle_name, device,
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
        let connection = self.connection();
        let mut query = connection.prepare_cached(&format!("{COLUMNS} ORDER BY label, received, digest"))?;
        let packs = query.query_map([], record)?.collect::<Result<_, _>>()?;
        Ok(packs)
    }

    /// A pack that a device pushed.
    ///
    /// # Errors
    /// [`HubError`] if there is none, or it cannot be read.
    pub fn pack(&self, digest: &ObjectDigest) -> Result<PackRecord, HubError> {
        let query = format!("{COLUMNS} WHERE digest = ?1");
        let found = self.connection().query_row(&query, [digest], record).optional()?;
        found.ok_or(HubError::NoPack { digest: *digest })
    }

    /// All pictures that devices share, by label, each under one: a device that renamed a class, or moved a shot to
    /// another one, pushed it under both. That counts by which the device knows a class now, of several the newest.
    ///
    /// # Errors
    /// [`HubError::Database`] if they cannot be read.
    pub fn shared_pictures(&self) -> Result<Vec<SharedPicture>, HubError> {
        let mut present: BTreeSet<(DeviceId, String)> = BTreeSet::new();
        for DeviceRecord { id, report, .. } in self.devices()? {
            let classes = report.into_iter().flat_map(|report| report.classes);
            present.extend(classes.map(|class| (id, label::normal(&class.label))));
        }
        let connection = self.connection();
        let mut query = connection.prepare_cached(
            "SELECT picture.digest, pack.device, pack.label FROM picture JOIN pack ON pack.digest = picture.pack
             ORDER BY pack.rowid",
        )?;
        let pushed = query.query_map([], |row| {
            Ok((row.get::<_, ObjectDigest>(0)?, row.get::<_, DeviceId>(1)?, row.get::<_, String>(2)?))
        })?;
        let mut labels: BTreeMap<ObjectDigest, (bool, String)> = BTreeMap::new();
        for row in pushed {
            let (digest, device, label) = row?;
            let class = (device, label::normal(&label));
            let is_present = present.contains(&class);
            if labels.get(&digest).is_none_or(|(known_is_present, _)| is_present >= *known_is_present) {
                labels.insert(digest, (is_present, class.1));
            }
        }
        let pictures = labels.into_iter().map(|(digest, (_, label))| SharedPicture { label, digest });
        let mut pictures: Vec<SharedPicture> = pictures.collect();
        pictures.sort_by(|one, other| (&one.label, one.digest).cmp(&(&other.label, other.digest)));
        Ok(pictures)
    }

    /// Which of these packs the hub has no record of, or no bytes, or from a device that is out of the fleet: whoever
    /// pushes such a one again goes on with it.
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
            let is_known: bool = query.query_row([pack], |row| row.get(0))?;
            if !is_known || !self.objects().holds(pack) {
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
            insert(transaction, head.device, &opened, now)?;
            Ok(StoredAnswer::json(&PushAnswer { digest: opened.digest }))
        })
    }

    /// Keeps the picture of a shot of a pack that the same device pushed.
    ///
    /// # Errors
    /// [`HubError`] if it cannot be kept. What is no picture, or belongs to no pack of the device, is refused in the
    /// answer.
    pub fn receive_picture(
        &self,
        head: &RequestHead,
        pack: &ObjectDigest,
        body: &[u8],
        now: UnixSeconds,
    ) -> Result<Option<StoredAnswer>, HubError> {
        if let Err(error) = kept_pictures::decoded(body) {
            let refusal = StoredAnswer::refusal(RefusalKind::Invalid, format!("the picture {error}"));
            return self.answer_once(head, now, |_| Ok(refusal));
        }
        let digest = ObjectDigest::of(body);
        self.answer_once(head, now, |transaction| {
            let query = "SELECT shots, (SELECT count(*) FROM picture WHERE pack = ?1) FROM pack
                         WHERE digest = ?1 AND device = ?2";
            let room = transaction
                .query_row(query, params![pack, head.device], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
            let Some((shots, pictures)) = room.optional()? else {
                return Ok(StoredAnswer::refusal(RefusalKind::Missing, "this device pushed no such pack"));
            };
            let known = "SELECT count(*) FROM picture WHERE pack = ?1 AND digest = ?2";
            let is_known = transaction.query_row(known, params![pack, digest], |row| row.get::<_, i64>(0))? > 0;
            if !is_known && pictures >= shots {
                return Ok(StoredAnswer::refusal(RefusalKind::Invalid, "the pack has a picture for every shot"));
            }
            if !is_known && let Some(reason) = no_room(transaction, &head.device, body.len())? {
                return Ok(StoredAnswer::refusal(RefusalKind::Invalid, reason));
            }
            self.objects().put(body)?;
            let insert = "INSERT OR IGNORE INTO picture (pack, digest, size) VALUES (?1, ?2, ?3)";
            transaction.execute(insert, params![pack, digest, i64::try_from(body.len()).unwrap_or(i64::MAX)])?;
            Ok(StoredAnswer::json(&PushAnswer { digest }))
        })
    }
}

/// Whether the database has that pack; its bytes may be lost all the same.
pub(super) fn has_record(connection: &Connection, pack: &ObjectDigest) -> Result<bool, HubError> {
    let mut query = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM pack WHERE digest = ?1)")?;
    Ok(query.query_row([pack], |row| row.get(0))?)
}

/// Why the hub takes no more of a device, if it does not: no device may fill the hub's disk.
fn no_room(transaction: &Transaction<'_>, device: &DeviceId, more: usize) -> Result<Option<String>, HubError> {
    let query = "SELECT count(*), ifnull(sum(size + ifnull((SELECT sum(picture.size) FROM picture
                 WHERE picture.pack = pack.digest), 0)), 0) FROM pack WHERE device = ?1";
    let (packs, bytes): (i64, i64) =
        transaction.prepare_cached(query)?.query_row([device], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let is_full = packs >= MAX_PACKS || bytes.saturating_add(i64::try_from(more).unwrap_or(i64::MAX)) > MAX_BYTES;
    Ok(is_full.then(|| format!("the hub has {packs} packs and {} MB of this device and takes no more", bytes >> 20)))
}

fn insert(
    transaction: &Transaction<'_>,
    device: DeviceId,
    opened: &OpenedPack,
    now: UnixSeconds,
) -> Result<(), HubError> {
    let OpenedPack { digest, pack, size } = opened;
    take_over(transaction, device, opened)?;
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

/// Has a device that pushes the pack of one that is out of the fleet go on with that one's packs of the label, as after
/// its key was replaced: they would count as another device's.
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

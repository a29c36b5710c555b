//! Pictures of shots that devices share.

use std::collections::{BTreeMap, BTreeSet};

use orco_runtime::state::label;
use orco_runtime::store::kept_pictures;
use rusqlite::{Connection, OptionalExtension, params};

use super::packs::{has_record, no_room};
use super::{DeviceRecord, HubStore, StoredAnswer, UnixSeconds};
use crate::error::HubError;
use crate::protocol::{DeviceId, ObjectDigest, PushAnswer, PushedPictures, RefusalKind, RequestHead};

/// A picture of a shot that a device shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPicture {
    /// Label of its class, in its normal form.
    pub label: String,
    /// Its digest.
    pub digest: ObjectDigest,
}

/// A label under which a device pushed a picture.
struct PushedLabel {
    label: String,
    /// Whether the device reported a class of that label last.
    is_reported: bool,
}

impl HubStore {
    /// All pictures that devices share, by label, each under one label. A device that renamed a class, or moved a shot
    /// to another one, pushed the picture under both: of those labels the one counts that the device reports now; of
    /// several such, or if it reports none, the one that was pushed last.
    ///
    /// # Errors
    /// [`HubError::Database`] if they cannot be read.
    pub fn shared_pictures(&self) -> Result<Vec<SharedPicture>, HubError> {
        let mut reported: BTreeSet<(DeviceId, String)> = BTreeSet::new();
        for DeviceRecord { id, report, .. } in self.devices()? {
            let classes = report.into_iter().flat_map(|report| report.classes);
            reported.extend(classes.map(|class| (id, label::normal(&class.label))));
        }
        let connection = self.connection()?;
        let mut query = connection.prepare_cached(
            "SELECT picture.digest, pack.device, pack.label FROM picture JOIN pack ON pack.digest = picture.pack
             ORDER BY pack.rowid",
        )?;
        let pushed = query.query_map([], |row| {
            Ok((row.get::<_, ObjectDigest>(0)?, row.get::<_, DeviceId>(1)?, row.get::<_, String>(2)?))
        })?;
        let mut labels: BTreeMap<ObjectDigest, PushedLabel> = BTreeMap::new();
        for row in pushed {
            let (digest, device, label) = row?;
            let class = (device, label::normal(&label));
            let is_reported = reported.contains(&class);
            if labels.get(&digest).is_none_or(|earlier| is_reported >= earlier.is_reported) {
                labels.insert(digest, PushedLabel { label: class.1, is_reported });
            }
        }
        let pictures = labels.into_iter().map(|(digest, PushedLabel { label, .. })| SharedPicture { label, digest });
        let mut pictures: Vec<SharedPicture> = pictures.collect();
        pictures.sort_by(|one, other| (&one.label, one.digest).cmp(&(&other.label, other.digest)));
        Ok(pictures)
    }

    /// Of which of these packs the pictures are to be pushed again: the hub has records or bytes of fewer.
    ///
    /// # Errors
    /// [`HubError::Database`] if that cannot be read.
    pub(crate) fn lost_pictures(
        &self,
        connection: &Connection,
        pushed: &[PushedPictures],
    ) -> Result<Vec<ObjectDigest>, HubError> {
        let mut query = connection.prepare_cached("SELECT digest FROM picture WHERE pack = ?1")?;
        let mut lost = Vec::new();
        let counts: BTreeMap<&ObjectDigest, u32> = pushed.iter().map(|pushed| (&pushed.pack, pushed.count)).collect();
        for (pack, count) in counts {
            let known = query.query_map([pack], |row| row.get::<_, ObjectDigest>(0))?;
            let known = known.collect::<Result<Vec<_>, _>>()?;
            let held = known.iter().filter(|picture| self.objects().holds(picture)).count();
            if held < count as usize {
                lost.push(*pack);
            }
        }
        Ok(lost)
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
                let reason = if has_record(transaction, pack)? {
                    "another device pushed the very same shots first; the hub takes their pictures from this one only \
                     once its operator has removed that one"
                } else {
                    "this device pushed no such pack"
                };
                return Ok(StoredAnswer::refusal(RefusalKind::Missing, reason));
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

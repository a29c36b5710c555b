//! Releases of packs that devices pushed, combined with what the channel has.

use std::collections::{BTreeMap, BTreeSet};

use orco_runtime::pack::{self, Pack};
use orco_runtime::signature::SecretKey;
use orco_runtime::state::label;
use rusqlite::{Connection, Transaction};

use super::packs::has_record;
use super::releases::{
    ReleaseDraft, ReleaseKind, ReleaseRecord, active, are_covered, insert, newest_packs, origins, sources, widen,
};
use super::{HubStore, PackRecord, UnixSeconds, check_channel};
use crate::error::HubError;
use crate::merge::{self, CombinedPack, MergeError, PushedPack, SameLabel};
use crate::protocol::{DeviceId, ObjectDigest, ReleaseId, ReleasedFile};
use crate::rollout::RolloutStage;

/// Name of the only file of a released pack.
const PACK_FILE: &str = "pack";

/// Packs that a person releases.
#[derive(Clone, Copy, Debug)]
pub struct PackRelease<'a> {
    /// The packs, which devices pushed.
    pub packs: &'a [ObjectDigest],
    /// The channel.
    pub channel: &'a str,
    /// Which share of the devices gets them at first.
    pub stage: RolloutStage,
    /// What becomes of packs with the same label.
    pub same_label: SameLabel,
    /// Signs what is released.
    pub key: Option<&'a SecretKey>,
}

/// A release of a pack before it is kept.
struct PackDraft<'a> {
    release: ReleaseDraft<'a>,
    /// The pack's bytes.
    bytes: Vec<u8>,
}

impl HubStore {
    /// Gives packs to a channel. A pack takes the place of an earlier one of its label and bundle, if the same devices
    /// made both or the new one has the shots of both. One that is the newest of its label there already stays the
    /// release that it is, widened to the stage. Where somebody else changes the channel's releases meanwhile, they are
    /// combined anew.
    ///
    /// # Errors
    /// [`HubError`] if a pack is not there, packs cannot be combined, or the releases cannot be kept.
    pub fn release_packs(&self, release: &PackRelease<'_>, now: UnixSeconds) -> Result<Vec<ReleaseId>, HubError> {
        check_channel(release.channel)?;
        loop {
            let before = self.active_ids(release.channel)?;
            let drafts = match self.drafts(release) {
                // Somebody else has released meanwhile.
                Err(_) if self.active_ids(release.channel)? != before => continue,
                drafts => drafts?,
            };
            // Each is synced, and other requests wait for a transaction: so they are written before it.
            let put = drafts.iter().try_for_each(|draft| self.objects().put(&draft.bytes).map(drop));
            let made = put.and_then(|()| self.insert_if_unchanged(&drafts, release.channel, &before, now));
            if let Ok(Some(ids)) = made {
                return Ok(ids);
            }
            drafts.iter().for_each(|draft| self.remove_unreleased(&draft.release.files));
            made?;
        }
    }

    /// Drafts of what is released: the packs, combined with what the channel has.
    fn drafts<'a>(&self, release: &PackRelease<'a>) -> Result<Vec<PackDraft<'a>>, HubError> {
        let PackRelease { packs, channel, stage, same_label, key } = *release;
        // Each once, however often it was named.
        let packs: BTreeSet<&ObjectDigest> = packs.iter().collect();
        let mut chosen = packs.into_iter().map(|digest| self.pack(digest)).collect::<Result<Vec<_>, _>>()?;
        if same_label == SameLabel::Merge {
            chosen.extend(self.packs_to_merge_with(&chosen, channel)?);
            // The same packs make the same merged one, whichever of them were named.
            chosen.sort_by_key(|record| record.digest);
        }
        let opened = chosen.iter().map(|record| self.opened(record)).collect::<Result<Vec<_>, _>>()?;
        let combined = merge::combine(opened, same_label)?;
        let mut drafts = Vec::with_capacity(combined.len());
        for CombinedPack { origins, pack } in combined {
            self.refuse_silent_replacement(&pack, &origins, channel)?;
            let released = if key.is_none() { self.released_bytes(&pack, channel)? } else { None };
            let bytes = released.map_or_else(|| sealed(&pack, key), Ok)?;
            let (digest, size) = (ObjectDigest::of(&bytes), bytes.len() as u64);
            let release = ReleaseDraft {
                channel,
                kind: ReleaseKind::Pack,
                name: pack.label,
                bundle_digest: ObjectDigest::new(pack.bundle_digest),
                identity: digest,
                stage,
                force: false,
                give_up_unkept: false,
                files: vec![ReleasedFile { name: PACK_FILE.into(), digest, size }],
                origins,
            };
            drafts.push(PackDraft { release, bytes });
        }
        Ok(drafts)
    }

    /// Releases of a channel that were not taken back, newest first.
    fn active_ids(&self, channel: &str) -> Result<Vec<ReleaseId>, HubError> {
        Ok(active(&*self.connection()?, channel)?.iter().map(|release| release.id).collect())
    }

    /// Reads a pushed pack's bytes and opens them.
    fn opened(&self, record: &PackRecord) -> Result<PushedPack<ObjectDigest>, HubError> {
        let digest = record.digest;
        let bytes = self.objects().read(&digest).map_err(|error| match error {
            HubError::Lost { digest } => HubError::LostPack { digest },
            error => error,
        })?;
        let pack = pack::open(&bytes, None).map_err(|source| HubError::Pack { digest, source })?;
        Ok(PushedPack { id: digest, device: record.device_name.clone(), pack })
    }

    /// The release of a pack that devices of a channel have now for a label on a bundle.
    fn active_pack_release(
        &self,
        channel: &str,
        label: &str,
        bundle_digest: &ObjectDigest,
    ) -> Result<Option<ReleaseRecord>, HubError> {
        Ok(newest_pack(&active(&*self.connection()?, channel)?, label, bundle_digest).cloned())
    }

    /// The bytes of a channel's newest release of a label, if they hold this very pack: released once more without the
    /// key, it keeps its signature.
    fn released_bytes(&self, pack: &Pack, channel: &str) -> Result<Option<Vec<u8>>, HubError> {
        let bundle = ObjectDigest::new(pack.bundle_digest);
        let Some(release) = self.active_pack_release(channel, &pack.label, &bundle)? else { return Ok(None) };
        // Where they were lost or damaged, they are made anew.
        let Ok(bytes) = self.objects().read(&release.identity) else { return Ok(None) };
        let is_same = pack::open(&bytes, None).is_ok_and(|known| known.to_be_signed() == pack.to_be_signed());
        Ok(is_same.then_some(bytes))
    }

    /// Packs of other devices that are released under the labels of these, to be merged with them.
    fn packs_to_merge_with(&self, chosen: &[PackRecord], channel: &str) -> Result<Vec<PackRecord>, HubError> {
        let mut devices: BTreeMap<String, BTreeSet<DeviceId>> = BTreeMap::new();
        for pack in chosen {
            devices.entry(label::normal(&pack.label)).or_default().insert(pack.device);
        }
        let mut more = Vec::new();
        for (label, devices) in devices {
            let Some(pack) = chosen.iter().find(|pack| label::same(&pack.label, &label)) else { continue };
            let Some(release) = self.active_pack_release(channel, &label, &pack.bundle_digest)? else { continue };
            for origin in self.origins(release.id)? {
                let pack = self.pack(&origin)?;
                if !devices.contains(&pack.device) {
                    more.push(pack);
                }
            }
        }
        Ok(more)
    }

    /// Refuses a pack that would silently take the place of another device's.
    fn refuse_silent_replacement(&self, pack: &Pack, origins: &[ObjectDigest], channel: &str) -> Result<(), HubError> {
        let bundle = ObjectDigest::new(pack.bundle_digest);
        let Some(release) = self.active_pack_release(channel, &pack.label, &bundle)? else { return Ok(()) };
        let devices = |packs: &[ObjectDigest]| -> Result<BTreeSet<DeviceId>, HubError> {
            packs.iter().map(|pack| Ok(self.pack(pack)?.device)).collect()
        };
        let (before, after) = (devices(&self.origins(release.id)?)?, devices(origins)?);
        if before.is_subset(&after) {
            return Ok(());
        }
        let count = before.union(&after).count();
        Err(MergeError::Undecided { label: pack.label.clone(), count }.into())
    }

    /// Keeps releases that were combined with what a channel had; `None` if it has others meanwhile.
    fn insert_if_unchanged(
        &self,
        drafts: &[PackDraft<'_>],
        channel: &str,
        before: &[ReleaseId],
        now: UnixSeconds,
    ) -> Result<Option<Vec<ReleaseId>>, HubError> {
        self.in_transaction(|transaction| {
            let present = active(transaction, channel)?;
            if !present.iter().map(|release| release.id).eq(before.iter().copied()) {
                return Ok(None);
            }
            check_origins(transaction, drafts)?;
            // A purge of another release that has them, too, may have removed some meanwhile.
            for draft in drafts.iter().filter(|draft| !self.objects().holds(&draft.release.identity)) {
                self.objects().put(&draft.bytes)?;
            }
            let release = |draft: &ReleaseDraft<'_>| match repeated(transaction, &present, draft)? {
                Some(known) => widen(transaction, known, draft.stage),
                None => insert(transaction, draft, now),
            };
            drafts.iter().map(|draft| release(&draft.release)).collect::<Result<_, _>>().map(Some)
        })
    }
}

/// Refuses releases of packs that somebody purged meanwhile.
fn check_origins(transaction: &Transaction<'_>, drafts: &[PackDraft<'_>]) -> Result<(), HubError> {
    for digest in drafts.iter().flat_map(|draft| &draft.release.origins) {
        if !has_record(transaction, digest)? {
            return Err(HubError::NoPack { digest: *digest });
        }
    }
    Ok(())
}

/// A pack's bytes, signed where there is a key.
fn sealed(pack: &Pack, key: Option<&SecretKey>) -> Result<Vec<u8>, HubError> {
    let bytes = pack.to_be_signed();
    let signature = key.map_or(Ok(String::new()), |key| key.sign(&bytes, &pack.comment())).map_err(HubError::Sign)?;
    Ok(pack::seal(&bytes, &signature))
}

/// Of releases, newest first, that of a pack that devices have for a label on a bundle.
fn newest_pack<'a>(
    releases: &'a [ReleaseRecord],
    label: &str,
    bundle_digest: &ObjectDigest,
) -> Option<&'a ReleaseRecord> {
    newest_packs(releases, *bundle_digest).find(|release| label::same(&release.name, label))
}

/// The release that a draft would only repeat: of two alike, withdrawing one would change nothing. A release that
/// devices do not get any more is not repeated but made anew: later ones, of its label or of all its origins, took its
/// place.
fn repeated<'a>(
    connection: &Connection,
    present: &'a [ReleaseRecord],
    draft: &ReleaseDraft<'_>,
) -> Result<Option<&'a ReleaseRecord>, HubError> {
    let newest = newest_pack(present, &draft.name, &draft.bundle_digest);
    let Some(newest) = newest.filter(|newest| newest.identity == draft.identity) else { return Ok(None) };
    let known: BTreeSet<ObjectDigest> = origins(connection, newest.id)?.into_iter().collect();
    let is_same = known == draft.origins.iter().copied().collect();
    Ok((is_same && !is_covered(connection, present, newest)?).then_some(newest))
}

/// Whether newer releases, merged or kept apart, have taken the place of one of a pack.
fn is_covered(connection: &Connection, present: &[ReleaseRecord], release: &ReleaseRecord) -> Result<bool, HubError> {
    let mut covered = BTreeSet::new();
    for newer in newest_packs(present, release.bundle_digest).take_while(|newer| newer.id != release.id) {
        covered.extend(sources(connection, newer.id)?);
    }
    Ok(are_covered(&sources(connection, release.id)?, &covered))
}

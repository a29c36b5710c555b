//! Bundles that a person releases.

use std::path::Path;

use orco_runtime::bundle::{Bundle, OpenError};
use orco_runtime::files;
use orco_runtime::manifest::{BENCHMARK, MANIFEST, SIGNATURE};
use orco_runtime::signature::{self, PublicKey};
use orco_runtime::state::sentence::with_causes;
use rusqlite::Connection;

use super::releases::{ReleaseDraft, ReleaseKind, ReleaseRecord, active, insert, widen};
use super::targets::released_files;
use super::{HubStore, UnixSeconds, check_channel};
use crate::error::HubError;
use crate::protocol::{self, MAX_OBJECT, ObjectDigest, ReleaseId, ReleasedFile};
use crate::rollout::RolloutStage;

/// A bundle that a person releases.
#[derive(Clone, Copy, Debug)]
pub struct BundleRelease<'a> {
    /// Its folder.
    pub folder: &'a Path,
    /// The channel.
    pub channel: &'a str,
    /// Which share of the devices gets it at first.
    pub stage: RolloutStage,
    /// Whether devices move to it even if classes are recognised clearly worse, or have no pictures.
    pub force: bool,
    /// Whether devices give up classes of which they kept no picture, such as those of packs.
    pub give_up_unkept: bool,
    /// The key that its signature is checked with.
    pub key: Option<&'a PublicKey>,
}

impl HubStore {
    /// Gives a bundle to a channel. One that is the newest there already, under the same options, stays the release
    /// that it is, widened to the stage.
    ///
    /// # Errors
    /// [`HubError`] if the bundle cannot be used, or the release cannot be kept.
    pub fn release_bundle(&self, release: &BundleRelease<'_>, now: UnixSeconds) -> Result<ReleaseId, HubError> {
        let BundleRelease { folder, channel, stage, force, give_up_unkept, key } = *release;
        check_channel(channel)?;
        let bundle = Bundle::open_trusted(folder, key)?;
        let released = checked_files(&bundle)?;
        let manifest = released.iter().find(|file| file.name == MANIFEST).map(|file| file.digest);
        let new = ReleaseDraft {
            channel,
            kind: ReleaseKind::Bundle,
            name: bundle.manifest.name.clone(),
            bundle_digest: ObjectDigest::new(bundle.digest),
            identity: manifest.unwrap_or(ObjectDigest::new(bundle.digest)),
            stage,
            force,
            give_up_unkept,
            files: released,
            origins: Vec::new(),
        };
        let put = new.files.iter().try_for_each(|file| self.put_file(folder, file));
        let made = put.and_then(|()| {
            self.in_transaction(|transaction| {
                // A purge of another release that has them, too, may have removed some meanwhile.
                for file in new.files.iter().filter(|file| !self.objects().holds(&file.digest)) {
                    self.put_file(folder, file)?;
                }
                match repeated(transaction, &new)? {
                    Some(known) => widen(transaction, &known, stage),
                    None => insert(transaction, &new, now),
                }
            })
        });
        if made.is_err() {
            self.remove_unreleased(&new.files);
        }
        made
    }

    /// Removes what was written of a bundle or a pack that could not be released. On a disk that it filled, the hub
    /// could not answer devices any more.
    pub(super) fn remove_unreleased(&self, files: &[ReleasedFile]) {
        let removed = self.in_transaction(|transaction| {
            for file in files {
                if let Err(error) = self.remove_unneeded(transaction, &file.digest) {
                    warn_of_remains(&error);
                }
            }
            self.objects().sync_folders_of(files.iter().map(|file| &file.digest))
        });
        if let Err(error) = removed {
            warn_of_remains(&error);
        }
    }

    fn put_file(&self, folder: &Path, file: &ReleasedFile) -> Result<(), HubError> {
        let (bytes, read) = read_file(folder, &file.name, file.size)?;
        if read != *file {
            return Err(OpenError::Digest { path: folder.join(&file.name) }.into());
        }
        self.objects().put(&bytes)?;
        Ok(())
    }
}

/// The channel's newest release of a bundle, if a draft would only repeat it: of two alike, withdrawing one would
/// change nothing. One under other options or with another signature is a release of its own: devices try it again.
fn repeated(connection: &Connection, draft: &ReleaseDraft<'_>) -> Result<Option<ReleaseRecord>, HubError> {
    let releases = active(connection, draft.channel)?;
    let Some(newest) = releases.into_iter().find(|release| release.kind == ReleaseKind::Bundle) else {
        return Ok(None);
    };
    let is_alike = newest.identity == draft.identity
        && (newest.force, newest.give_up_unkept) == (draft.force, draft.give_up_unkept);
    // The identity is the manifest's digest, which says nothing of its signature.
    let signature = |files: &[ReleasedFile]| files.iter().find(|file| file.name == SIGNATURE).map(|file| file.digest);
    let is_signed_alike = signature(&released_files(connection, newest.id)?) == signature(&draft.files);
    Ok((is_alike && is_signed_alike).then_some(newest))
}

/// Logs why files of what could not be released may stay.
fn warn_of_remains(error: &HubError) {
    log::warn!("files of what was not released may stay in the hub's folder: {}", with_causes(error));
}

/// A bundle's files as devices will have them: without the benchmark, which no device needs and packages leave out,
/// too. Nothing of a bundle becomes an object before all of it was checked: what the manifest lists may lie anywhere,
/// and may be damaged.
fn checked_files(bundle: &Bundle) -> Result<Vec<ReleasedFile>, HubError> {
    let (folder, listed) = (&bundle.folder, &bundle.manifest.files);
    let has_signature = folder.join(SIGNATURE).exists();
    let needed = || listed.keys().map(String::as_str).filter(|name| *name != BENCHMARK);
    let names = || needed().chain([MANIFEST]).chain(has_signature.then_some(SIGNATURE));
    if let Some(reason) = protocol::fault_of_files(names()) {
        return Err(HubError::BundleFiles { folder: folder.clone(), reason });
    }
    let mut files = Vec::new();
    for name in names() {
        let limit = if name == SIGNATURE { signature::MAX_FILE } else { MAX_OBJECT };
        let (bytes, file) = read_file(folder, name, limit)?;
        // No digest says what is in it: a link in its place could give any small file of the hub away to devices.
        if name == SIGNATURE && !std::str::from_utf8(&bytes).is_ok_and(signature::is_signature) {
            let reason = format!("its {SIGNATURE} is no signature of minisign");
            return Err(HubError::BundleFiles { folder: folder.clone(), reason });
        }
        if listed.get(name).is_some_and(|digest| *digest != file.digest.to_string()) {
            return Err(OpenError::Digest { path: folder.join(name) }.into());
        }
        files.push(file);
    }
    Ok(files)
}

fn read_file(folder: &Path, name: &str, limit: u64) -> Result<(Vec<u8>, ReleasedFile), HubError> {
    let path = folder.join(name);
    let bytes = files::read(&path, limit).map_err(HubError::file(path))?;
    let file = ReleasedFile { name: name.into(), digest: ObjectDigest::of(&bytes), size: bytes.len() as u64 };
    Ok((bytes, file))
}

//! All that a device knows in one file, for its replacement.
//!
//! The envelope of all of our files ([`orco_state::codec`]; kind `ORCOBKUP`, version 2), and in it:
//!
//! | bytes | what (integers little endian) |
//! |---|---|
//! | n | a tar archive |
//! | m | the text of a signature of minisign's over magic, version and archive; empty where the backup is not signed |
//! | 4 | m |
//!
//! The archive holds, in this order:
//!
//! | name | what |
//! |---|---|
//! | `bundle.toml` | the bundle that it was learned on: name, release, SHA-256 of its learner file, base classes |
//! | `releases.toml` | the highest release of each bundle that was used ([`crate::release`]) |
//! | `slot` | the newest slot: the state with its history (`STATE.md`) |
//! | `shots/DIGEST.png` | the kept picture of each shot, rising, named by the digest of its exemplar |
//!
//! Nothing else may be in it: no folders, links or long names, nothing twice. Nothing in it is believed before the
//! checksum of the whole and, where a public key is configured, the signature are right, and no name of it becomes a
//! path. Version 1 is the archive alone, without `releases.toml`; it still restores where no key is configured.

mod envelope;
mod floor;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use orco_state::codec::DecodeError;
use orco_state::history::SavedState;
use orco_state::store as slots;
use tar::{Archive, EntryType, Header};

use self::floor::ReleaseFloor;
use crate::bundle::Bundle;
use crate::files;
use crate::learner::ChangeOutcome;
use crate::release::{self, RELEASES, ReleaseError, Releases};
#[cfg(feature = "sign")]
use crate::signature::SecretKey;
use crate::signature::{PublicKey, SignatureError};
use crate::store::kept::{self, KeptBundle, MAX_BUNDLE_FILE, MAX_PICTURE};
use crate::store::{LockedStore, Store, StoreError};

/// Largest state with its history that is restored, in bytes.
pub const MAX_STATE: u64 = 256 << 20;

const BUNDLE: &str = "bundle.toml";
const SLOT: &str = "slot";
const SHOTS: &str = "shots/";

/// Why a backup cannot be written or restored. The state is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The state cannot be read, locked or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be read or written.
    #[error("the backup cannot be read or written")]
    File(#[from] io::Error),
    /// The file is no backup, of a later release, cut off or damaged.
    #[error("it is no backup that can be restored")]
    Decode(#[from] DecodeError),
    /// Its checksum is right, but it holds what no backup does.
    #[error("it is no backup that can be restored: {0}")]
    Content(String),
    /// A public key is configured, and the file was not signed with its secret key.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The bundle is an older release than was used before, here or where the backup was written.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// There is nothing to keep.
    #[error("nothing was learned in {}, so there is nothing to back up", folder.display())]
    Nothing {
        /// The store's folder.
        folder: PathBuf,
    },
    /// It was learned on another bundle.
    #[error("it belongs to release {release} of the bundle {name}, or another export of it, and not to this bundle")]
    OtherBundle {
        /// The bundle's name.
        name: String,
        /// Its release.
        release: u32,
    },
    /// The device knows something already.
    #[error("the state in {} knows something already: {classes} learned classes, {changes} changes", folder.display())]
    Occupied {
        /// The store's folder.
        folder: PathBuf,
        /// Learned classes.
        classes: usize,
        /// Changes that its history remembers.
        changes: usize,
    },
}

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupContents {
    /// The bundle that it was learned on.
    pub bundle: KeptBundle,
    /// Learned classes.
    pub classes: usize,
    /// Exemplars.
    pub exemplars: usize,
    /// Kept pictures of shots.
    pub pictures: usize,
    /// Bytes of the file.
    pub bytes: u64,
    /// Pictures that could not be used and were left out, in sentences.
    pub warnings: Vec<String>,
}

/// What may be overruled when a backup is restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// That the device knows something already, which is then gone.
    pub occupied: bool,
    /// That the backup belongs to another bundle, for which [`crate::learner::upgrade`] is to be done next.
    pub other_bundle: bool,
}

/// Writes all that a device knows into an empty file, while no other process may change it.
///
/// # Errors
/// [`BackupError`] if nothing was learned, the newest state cannot be read, or the file cannot be written.
pub fn write(bundle: &Bundle, store: &Store, wait: Duration, file: &mut File) -> Result<BackupContents, BackupError> {
    write_with(bundle, store, wait, file, &unsigned)
}

/// The text of the signature over all that can be read, for the bundle that the backup belongs to.
type Sign<'a> = &'a dyn Fn(&mut dyn Read, &KeptBundle) -> io::Result<String>;

/// No signature.
fn unsigned(_: &mut dyn Read, _: &KeptBundle) -> io::Result<String> {
    Ok(String::new())
}

fn write_with(
    bundle: &Bundle,
    store: &Store,
    wait: Duration,
    file: &mut File,
    sign: Sign<'_>,
) -> Result<BackupContents, BackupError> {
    let locked = store.lock(wait)?;
    let saved = locked.load(bundle)?.saved;
    let nothing = || BackupError::Nothing { folder: store.folder().into() };
    let slot = locked.newest_slot()?.ok_or_else(nothing)?;
    let with = KeptBundle::of(bundle);
    let mut tar = tar::Builder::new(envelope::begin(file)?);
    append(&mut tar, BUNDLE, with.text()?.as_bytes())?;
    append(&mut tar, RELEASES, Releases::read(store.folder())?.text()?.as_bytes())?;
    append(&mut tar, SLOT, &slot)?;
    let (mut pictures, mut warnings) = (0, Vec::new());
    let kept = store.pictures(&bundle.digest);
    for exemplar in kept.exemplars()?.intersection(&saved.exemplar_digests()) {
        let left_out = |reason: String| format!("{} is left out: {reason}", kept.path(exemplar).display());
        let bytes = match kept.read(exemplar) {
            Ok(bytes) => bytes,
            Err(error) => {
                warnings.push(left_out(format!("it cannot be read: {error}")));
                continue;
            }
        };
        if let Err(error) = kept::decoded(&bytes) {
            warnings.push(left_out(format!("it {error}")));
            continue;
        }
        append(&mut tar, &format!("{SHOTS}{}", kept::file_of(exemplar)), &bytes)?;
        pictures += 1;
    }
    tar.into_inner()?.into_inner().map_err(|error| error.into_error())?;
    let bytes = envelope::finish(file, |signed| sign(signed, &with))?;
    let (classes, exemplars) = (saved.state.classes.len(), saved.state.exemplars.len());
    Ok(BackupContents { bundle: with, classes, exemplars, pictures, bytes, warnings })
}

/// The same into a file of its own, which is there as a whole or not at all; a link is followed. One that is there already
/// stays, unless this may `replace` it.
///
/// # Errors
/// As for [`write()`]; [`BackupError::File`] with [`io::ErrorKind::AlreadyExists`] if there is a file. Where the file
/// [is in place](files::is_in_place) all the same, a power cut could still lose it.
pub fn write_to(
    bundle: &Bundle,
    store: &Store,
    wait: Duration,
    path: &Path,
    replace: bool,
) -> Result<BackupContents, BackupError> {
    write_to_with(bundle, store, wait, path, replace, &unsigned)
}

/// As [`write_to`], signed with a key.
///
/// # Errors
/// As for [`write_to`], and if it cannot be signed.
#[cfg(feature = "sign")]
pub fn write_signed_to(
    bundle: &Bundle,
    store: &Store,
    wait: Duration,
    path: &Path,
    replace: bool,
    key: &SecretKey,
) -> Result<BackupContents, BackupError> {
    let sign = |signed: &mut dyn Read, with: &KeptBundle| {
        let comment = format!("orco backup of bundle {} release {}", with.name, with.release);
        key.sign_read(signed, &comment).map_err(|error| io::Error::other(format!("it cannot be signed: {error}")))
    };
    write_to_with(bundle, store, wait, path, replace, &sign)
}

fn write_to_with(
    bundle: &Bundle,
    store: &Store,
    wait: Duration,
    path: &Path,
    replace: bool,
    sign: Sign<'_>,
) -> Result<BackupContents, BackupError> {
    let path = match fs::metadata(path) {
        Ok(facts) if !facts.is_file() => return Err(io::Error::other("what is there is no regular file").into()),
        Ok(_) if !replace => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of that name").into());
        }
        Ok(_) => fs::canonicalize(path)?,
        Err(_) if fs::symlink_metadata(path).is_ok() => {
            return Err(io::Error::other("it is a link that leads nowhere").into());
        }
        Err(_) => path.to_owned(),
    };
    // Locking it would make it.
    if !store.folder().is_dir() {
        return Err(BackupError::Nothing { folder: store.folder().into() });
    }
    files::replace_with(&path, |file| write_with(bundle, store, wait, file, sign))
}

/// Puts what a backup holds into the place of what the device knows, at once or not at all. Releases that were used here
/// or where it was written stay used.
///
/// # Errors
/// [`BackupError`] if the file is no sound backup, the device knows something already, or the backup belongs to another
/// bundle, and that is not [overruled](RestoreOptions).
pub fn restore(
    bundle: &Bundle,
    store: &Store,
    wait: Duration,
    file: &mut File,
    overruled: RestoreOptions,
) -> Result<ChangeOutcome<BackupContents>, BackupError> {
    restore_trusted(bundle, store, wait, file, overruled, None)
}

/// As [`restore`]. Where a key is given, which the bundle's signature was checked with, the backup must carry that key's
/// signature, too, and the bundle must not be an older release than was used before.
///
/// # Errors
/// As for [`restore`]; [`BackupError::Signature`] if it is not signed with the key, [`BackupError::Release`] if the
/// bundle is an older release.
pub fn restore_trusted(
    bundle: &Bundle,
    store: &Store,
    wait: Duration,
    file: &mut File,
    overruled: RestoreOptions,
    key: Option<&PublicKey>,
) -> Result<ChangeOutcome<BackupContents>, BackupError> {
    let checked = envelope::check(file, key)?;
    let (version, bytes) = (checked.version, checked.bytes);
    let locked = store.lock(wait)?;
    let present = locked.load_any()?;
    if let Some(present) = present.as_ref().filter(|_| !overruled.occupied) {
        let (classes, changes) = (present.state.classes.len(), present.history.entries().len() - 1);
        if classes > 0 || changes > 0 || !present.state.exemplars.is_empty() {
            return Err(BackupError::Occupied { folder: store.folder().into(), classes, changes });
        }
    }
    let mut archive = Archive::new(envelope::ArchiveReader::new(file, &checked)?);
    let mut entries = archive.entries()?.raw(true);
    let mut next = || entries.next().transpose().map_err(BackupError::from);
    let missing = |name: &str| BackupError::Content(format!("it holds no {name}"));
    let text = named(next()?, BUNDLE, MAX_BUNDLE_FILE)?.ok_or_else(|| missing(BUNDLE))?;
    let used = if version == envelope::WITHOUT_SIGNATURE {
        Releases::default()
    } else {
        releases(&named(next()?, RELEASES, release::MAX_FILE)?.ok_or_else(|| missing(RELEASES))?)?
    };
    let slot = named(next()?, SLOT, MAX_STATE)?.ok_or_else(|| missing(SLOT))?;
    let nonsense = || BackupError::Content("its state makes no sense, or is a later release's".into());
    let saved = slots::read(&slot).ok_or_else(nonsense)?;
    let digest = saved.state.bundle_digest;
    let text = std::str::from_utf8(&text).map_err(|error| error.to_string());
    let with = text.and_then(|text| KeptBundle::parse(text, &digest));
    let with = with.map_err(|reason| BackupError::Content(format!("its {BUNDLE} cannot be used: {reason}")))?;
    if digest == bundle.digest {
        if !saved.is_sound(&bundle.base_model) {
            return Err(nonsense());
        }
        if with.labels != KeptBundle::of(bundle).labels {
            let reason = format!("its {BUNDLE} names other base classes than the bundle has");
            return Err(BackupError::Content(reason));
        }
    } else if !overruled.other_bundle {
        return Err(BackupError::OtherBundle { name: with.name, release: with.release });
    }
    let mut floor = ReleaseFloor::of(store, &used)?;
    if key.is_some() {
        floor.accept(&bundle.manifest.name, bundle.manifest.release)?;
    }
    let exemplars = saved.exemplar_digests();
    let mut written = Written { locked: &locked, digest, exemplars: Vec::new() };
    let mut seen = BTreeSet::new();
    while let Some(entry) = next()? {
        let (exemplar, bytes) = picture(entry, &exemplars)?;
        if !seen.insert(exemplar) || seen.len() > kept::MAX_PICTURES {
            return Err(BackupError::Content("it holds a picture twice, or too many".into()));
        }
        if seen.len() == 1 {
            locked.begin_keeping(&digest, &with)?;
        }
        if locked.keep_picture(&digest, &exemplar, &bytes)? {
            written.exemplars.push(exemplar);
        }
    }
    archive.into_inner().finish()?;
    // Before the state: a power cut between leaves a floor that is too high for nobody, and never one that is too low.
    floor.write()?;
    let uncertain = match locked.switch(present.as_ref(), &saved, false) {
        Ok(()) => None,
        Err(error @ StoreError::Uncertain { .. }) => Some(error),
        Err(error) => return Err(error.into()),
    };
    floor.done();
    written.exemplars.clear();
    let uncertain = uncertain.or(locked.sweep(&saved).err());
    let SavedState { state, .. } = saved;
    let (classes, exemplars, pictures) = (state.classes.len(), state.exemplars.len(), seen.len());
    let report = BackupContents { bundle: with, classes, exemplars, pictures, bytes, warnings: Vec::new() };
    Ok(ChangeOutcome { report, uncertain })
}

/// Pictures that were written, and go again unless the state does come.
struct Written<'a> {
    locked: &'a LockedStore,
    digest: [u8; 32],
    exemplars: Vec<[u8; 32]>,
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        self.locked.take_back(&self.digest, &self.exemplars);
    }
}

fn append<W: Write>(tar: &mut tar::Builder<W>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_size(bytes.len() as u64);
    header.set_mode(0o600);
    header.set_mtime(0);
    header.set_entry_type(EntryType::Regular);
    header.set_cksum();
    tar.append(&header, bytes)
}

/// The releases that a backup says were used.
fn releases(text: &[u8]) -> Result<Releases, BackupError> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string());
    let unusable = |reason| BackupError::Content(format!("its {RELEASES} cannot be used: {reason}"));
    text.and_then(Releases::parse).map_err(unusable)
}

type BackupEntry<'a, R> = tar::Entry<'a, R>;

/// The bytes of an entry, which must have that name and no more bytes; `None` if there is no entry.
fn named<R: Read>(entry: Option<BackupEntry<'_, R>>, name: &str, limit: u64) -> Result<Option<Vec<u8>>, BackupError> {
    let Some(entry) = entry else { return Ok(None) };
    if entry.path_bytes() != name.as_bytes() {
        return Err(BackupError::Content(format!("it holds something else where {name} should be")));
    }
    contents(entry, limit).map(Some)
}

/// A picture's exemplar, which must be one of these, and its bytes, which must be a picture.
fn picture<R: Read>(entry: BackupEntry<'_, R>, of: &BTreeSet<[u8; 32]>) -> Result<([u8; 32], Vec<u8>), BackupError> {
    let name = String::from_utf8(entry.path_bytes().into_owned()).ok();
    let exemplar = name.and_then(|name| kept::exemplar_of(name.strip_prefix(SHOTS)?));
    let exemplar = exemplar.filter(|exemplar| of.contains(exemplar));
    let exemplar = exemplar.ok_or_else(|| BackupError::Content("it holds something that belongs to no shot".into()))?;
    let bytes = contents(entry, MAX_PICTURE)?;
    kept::decoded(&bytes).map_err(|error| BackupError::Content(format!("a picture in it {error}")))?;
    Ok((exemplar, bytes))
}

fn contents<R: Read>(entry: BackupEntry<'_, R>, limit: u64) -> Result<Vec<u8>, BackupError> {
    if entry.header().entry_type() != EntryType::Regular {
        return Err(BackupError::Content("it holds something that is no plain file".into()));
    }
    let size = entry.header().entry_size()?;
    if size > limit {
        return Err(BackupError::Content(format!("it holds a file of {size} bytes where {limit} are the most")));
    }
    let mut bytes = Vec::new();
    entry.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == size { Ok(bytes) } else { Err(BackupError::Content("a file in it is cut off".into())) }
}

#[cfg(test)]
mod tests;

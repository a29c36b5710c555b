//! Writing a backup.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use orco_state::history::SavedState;
use tar::{EntryType, Header};

use super::{BackupContents, BackupError, SHOTS, SLOT, envelope};
use crate::bundle::Bundle;
use crate::files;
use crate::files::destination::{self, ExistingFile};
use crate::learner::LearnerSettings;
use crate::release::{RELEASES, Releases};
#[cfg(feature = "sign")]
use crate::signature::SecretKey;
use crate::store::kept_pictures;
use crate::store::{BUNDLE_RECORD, BundleRecord, LockedStore, Store, StoreError};

/// Without the feature `sign` there is no secret key.
#[cfg(not(feature = "sign"))]
#[derive(Debug)]
enum SecretKey {}

/// How a backup is written into a file of its own: by default unsigned, and into a new file alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackupOptions<'a> {
    existing: ExistingFile,
    key: Option<&'a SecretKey>,
}

impl<'a> BackupOptions<'a> {
    /// Replaces a file that is there already.
    #[must_use]
    pub fn replace(self, replace: bool) -> Self {
        Self { existing: ExistingFile::replace_if(replace), ..self }
    }

    /// Signs with a secret key, if there is one.
    #[cfg(feature = "sign")]
    #[must_use]
    pub fn sign(self, key: Option<&'a SecretKey>) -> Self {
        Self { key, ..self }
    }

    /// The text of the signature over all that can be read, for a backup that belongs to a bundle; empty where it is
    /// not signed.
    #[cfg(feature = "sign")]
    fn signature(&self, signed: &mut dyn Read, bundle: &BundleRecord) -> io::Result<String> {
        let Some(key) = self.key else { return Ok(String::new()) };
        let comment = format!("orco backup of bundle {} release {}", bundle.name, bundle.release);
        key.sign_read(signed, &comment).map_err(|error| io::Error::other(format!("it cannot be signed: {error}")))
    }

    #[cfg(not(feature = "sign"))]
    fn signature(&self, _: &mut dyn Read, _: &BundleRecord) -> io::Result<String> {
        self.key.map_or_else(|| Ok(String::new()), |key| match *key {})
    }
}

/// The newest state of a store, which nobody changes as long as this is there.
struct LockedState {
    saved: SavedState,
    /// The bytes of its slot.
    slot: Vec<u8>,
    /// Nothing where the file system is read-only.
    _lock: Option<LockedStore>,
}

impl LockedState {
    /// That of a device; `None` if nothing was saved.
    fn of(bundle: &Bundle, store: &Store, settings: &LearnerSettings) -> Result<Option<Self>, BackupError> {
        let locked = match store.lock(settings.wait) {
            // A state that nobody can write needs no lock.
            Err(StoreError::Write { source, .. }) if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                return Self::read_only(bundle, store, settings);
            }
            locked => locked?,
        };
        settings.accept_release(bundle, &locked)?;
        let saved = locked.load(bundle)?.saved;
        let slot = locked.newest_slot()?;
        Ok(slot.map(|slot| Self { saved, slot, _lock: Some(locked) }))
    }

    /// That of a device whose file system is read-only.
    fn read_only(bundle: &Bundle, store: &Store, settings: &LearnerSettings) -> Result<Option<Self>, BackupError> {
        settings.check_release(bundle, store)?;
        let found = store.load_newest(bundle)?;
        let slot = store.slot_of(found.newest)?;
        // It may be read-only for this process alone, in a container for one.
        if store.revision() != found.newest.revision {
            return Err(StoreError::Busy { folder: store.folder().into() }.into());
        }
        Ok(slot.map(|slot| Self { saved: found.saved, slot, _lock: None }))
    }
}

/// Writes all that a device knows into an empty file, while no other process may change it.
///
/// Of the settings, `wait` and `compare_releases` count.
///
/// # Errors
/// [`BackupError`] if nothing was learned, the newest state cannot be read, the bundle is an older release than was
/// used before, or the file cannot be written.
pub fn write(
    bundle: &Bundle,
    store: &Store,
    settings: &LearnerSettings,
    file: &mut File,
) -> Result<BackupContents, BackupError> {
    write_signed(bundle, store, settings, file, &BackupOptions::default())
}

fn write_signed(
    bundle: &Bundle,
    store: &Store,
    settings: &LearnerSettings,
    file: &mut File,
    options: &BackupOptions<'_>,
) -> Result<BackupContents, BackupError> {
    let nothing = || BackupError::Nothing { folder: store.folder().into() };
    // Locking the store would make its folder, even one whose name was mistyped.
    match fs::metadata(store.folder()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(nothing()),
        Err(source) => return Err(StoreError::Read { path: store.folder().into(), source }.into()),
        Ok(_) => {}
    }
    let LockedState { saved, slot, _lock } = LockedState::of(bundle, store, settings)?.ok_or_else(nothing)?;
    let record = BundleRecord::of(bundle);
    let mut tar = tar::Builder::new(envelope::begin(file)?);
    append(&mut tar, BUNDLE_RECORD, record.text()?.as_bytes())?;
    append(&mut tar, RELEASES, Releases::read(store.folder())?.text()?.as_bytes())?;
    append(&mut tar, SLOT, &slot)?;
    let (mut pictures, mut warnings) = (0, Vec::new());
    let kept = store.pictures(&bundle.digest);
    let unread = |source| StoreError::Read { path: kept.folder().into(), source };
    for exemplar in kept.exemplars().map_err(unread)?.intersection(&saved.exemplar_digests()) {
        match sound_picture(kept.read(exemplar)) {
            Ok(bytes) => {
                append(&mut tar, &format!("{SHOTS}{}", kept_pictures::file_of(exemplar)), &bytes)?;
                pictures += 1;
            }
            Err(reason) => warnings.push(format!("{} is left out: {reason}", kept.path(exemplar).display())),
        }
    }
    tar.into_inner()?.into_inner().map_err(|error| error.into_error())?;
    let bytes = envelope::finish(file, |signed| options.signature(signed, &record))?;
    let (classes, exemplars) = (saved.state.classes.len(), saved.state.exemplars.len());
    Ok(BackupContents { bundle: record, classes, exemplars, pictures, bytes, warnings })
}

/// The bytes of a kept picture, or why they cannot be used.
fn sound_picture(read: io::Result<Vec<u8>>) -> Result<Vec<u8>, String> {
    let bytes = read.map_err(|error| format!("it cannot be read: {error}"))?;
    match kept_pictures::decoded(&bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("it {error}")),
    }
}

/// Writes all that a device knows into a file of its own, which is there as a whole or not at all; a link is followed.
/// The file lies outside the store's folder, whose own files it could replace.
///
/// # Errors
/// As for [`write()`]; [`BackupError::File`] with [`io::ErrorKind::InvalidInput`] if the file would lie there, and with
/// [`io::ErrorKind::AlreadyExists`] if there is one that may not be [replaced](BackupOptions::replace);
/// [`BackupError::Unsynced`] if the file is in place, but a power cut could still lose it.
pub fn write_to(
    bundle: &Bundle,
    store: &Store,
    settings: &LearnerSettings,
    path: impl AsRef<Path>,
    options: &BackupOptions<'_>,
) -> Result<BackupContents, BackupError> {
    let path = path.as_ref();
    let path = destination::file(path, store.folder(), options.existing)?;
    let mut written = None;
    let in_place = options.existing.write_with(&path, |file| {
        written = Some(write_signed(bundle, store, settings, file, options)?);
        Ok::<(), BackupError>(())
    });
    match (in_place, written) {
        (Ok(()), Some(contents)) => Ok(contents),
        (Err(BackupError::File(error)), Some(contents)) if files::is_unsynced(&error) => {
            Err(BackupError::Unsynced { contents: contents.into(), error })
        }
        (in_place, _) => Err(in_place.err().unwrap_or_else(|| io::Error::other("nothing was written").into())),
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

//! Restoring a backup.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;

use orco_state::history::SavedState;
use orco_state::slots;
use tar::{Archive, Entries, EntryType};

use super::envelope::{self, ArchiveReader};
use super::release_floor::ReleaseFloor;
use super::{BackupContents, BackupError, MAX_STATE, SHOTS, SLOT};
use crate::bundle::Bundle;
use crate::learner::{ChangeOutcome, LearnerSettings};
use crate::release::{self, RELEASES, Releases};
use crate::signature::PublicKey;
use crate::store::kept_pictures::{self, MAX_PICTURE};
use crate::store::picture_guard::PictureGuard;
use crate::store::{BUNDLE_RECORD, BundleRecord, FormerState, MAX_BUNDLE_RECORD, Store, StoreError, uncertainty};
use crate::thumbnails::Thumbnails;

/// How a backup is restored: by default into an empty state alone, from a backup of the same bundle, signed or not.
///
/// ```
/// use orco_runtime::backup::RestoreOptions;
///
/// let options = RestoreOptions::default().replace(true);
/// assert!(options.replace && !options.other_bundle);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// Whether what the device knows already is replaced, and gone then. Slots of a state that is lost are set aside.
    pub replace: bool,
    /// Whether the backup may belong to another bundle, for which [`crate::learner::upgrade`] is to be done next.
    pub other_bundle: bool,
    /// The key that the backup must be signed with, which the bundle's signature was checked with, too. With a key, the
    /// bundle must not be an older release than was used before, here or where the backup was written.
    pub public_key: Option<PublicKey>,
}

impl RestoreOptions {
    /// Replaces what the device knows already, which is gone then; slots of a state that is lost are set aside.
    #[must_use]
    pub fn replace(self, replace: bool) -> Self {
        Self { replace, ..self }
    }

    /// Restores a backup of another bundle, too.
    #[must_use]
    pub fn other_bundle(self, other_bundle: bool) -> Self {
        Self { other_bundle, ..self }
    }

    /// Restores only what is signed with a key.
    #[must_use]
    pub fn public_key(self, public_key: Option<PublicKey>) -> Self {
        Self { public_key, ..self }
    }
}

/// Puts what a backup holds into the place of what the device knows, at once or not at all. Releases that were used
/// here or where it was written stay used.
///
/// Of the settings, `wait` counts.
///
/// # Errors
/// [`BackupError`] if the file is no sound backup, or the [options](RestoreOptions) do not allow what it holds:
/// [`BackupError::Occupied`], [`BackupError::OtherBundle`], [`BackupError::Signature`], [`BackupError::Release`].
pub fn restore(
    bundle: &Bundle,
    store: &Store,
    settings: &LearnerSettings,
    file: &mut File,
    options: &RestoreOptions,
) -> Result<ChangeOutcome<BackupContents>, BackupError> {
    let key = options.public_key.as_ref();
    let checked = envelope::check(file, key)?;
    let (version, bytes) = (checked.version, checked.bytes);
    let locked = store.lock(settings.wait)?;
    let (present, is_lost) = match locked.load_any() {
        Err(StoreError::Lost { .. }) if options.replace => (None, true),
        found => (found?, false),
    };
    if let Some(present) = present.as_ref().filter(|_| !options.replace) {
        check_empty(store, present)?;
    }
    let mut archive = Archive::new(ArchiveReader::new(file, &checked)?);
    let mut entries = archive.entries()?.raw(true);
    let start = BackupStart::read(&mut entries, version)?;
    check_bundle(bundle, &start, options)?;
    let BackupStart { record, releases, saved } = start;
    let mut floor = ReleaseFloor::of(store, &releases)?;
    if key.is_some() {
        floor.accept(&bundle.manifest.name, bundle.manifest.release)?;
    }
    let mut guard = PictureGuard::new(&locked, saved.state.bundle_digest);
    let pictures = restore_pictures(&mut entries, &record, &saved, &mut guard)?;
    archive.into_inner().finish()?;
    // Before the state: after a power cut in between, a release counts as used too early, but never too late.
    floor.write()?;
    let switched = if is_lost {
        locked.replace_lost(&saved)
    } else {
        locked.switch(present.as_ref(), &saved, FormerState::Discarded)
    };
    let uncertain = uncertainty(switched)?;
    floor.commit();
    guard.release();
    // A power cut may still bring the old state back, with its pictures.
    let uncertain = uncertain.or_else(|| {
        let pruned = Thumbnails::of(store).prune(&saved);
        locked.sweep(&saved).and(pruned).err()
    });
    let SavedState { state, .. } = saved;
    let report = BackupContents {
        bundle: record,
        classes: state.classes.len(),
        exemplars: state.exemplars.len(),
        pictures,
        bytes,
        warnings: Vec::new(),
    };
    Ok(ChangeOutcome { report, uncertain, unaligned: None })
}

/// Keeps all pictures that a backup holds; returns how many there are.
fn restore_pictures(
    entries: &mut Entries<'_, ArchiveReader<'_>>,
    record: &BundleRecord,
    saved: &SavedState,
    guard: &mut PictureGuard<'_>,
) -> Result<usize, BackupError> {
    let exemplars = saved.exemplar_digests();
    let mut restored = BTreeSet::new();
    while let Some(entry) = entries.next().transpose()? {
        let (exemplar, bytes) = picture(entry, &exemplars)?;
        if !restored.insert(exemplar) || restored.len() > kept_pictures::MAX_PICTURES {
            return Err(BackupError::Content("it holds a picture twice, or too many".into()));
        }
        if restored.len() == 1 {
            guard.begin(record)?;
        }
        guard.keep(exemplar, &bytes)?;
    }
    Ok(restored.len())
}

/// Refuses to replace a state that knows anything.
fn check_empty(store: &Store, present: &SavedState) -> Result<(), BackupError> {
    let (classes, changes) = (present.state.classes.len(), present.history.entries().len() - 1);
    if classes == 0 && changes == 0 && present.state.exemplars.is_empty() {
        return Ok(());
    }
    Err(BackupError::Occupied { folder: store.folder().into(), classes, changes })
}

/// Refuses a backup of another bundle, unless the options allow it, and one that does not fit the bundle.
fn check_bundle(bundle: &Bundle, start: &BackupStart, options: &RestoreOptions) -> Result<(), BackupError> {
    let BackupStart { record, saved, .. } = start;
    if saved.state.bundle_digest == bundle.digest {
        return check_sound(bundle, record, saved);
    }
    if options.other_bundle {
        return Ok(());
    }
    Err(BackupError::OtherBundle { name: record.name.clone(), release: record.release })
}

/// Refuses a state that does not fit the bundle which it says it belongs to.
fn check_sound(bundle: &Bundle, record: &BundleRecord, saved: &SavedState) -> Result<(), BackupError> {
    if !saved.is_sound(&bundle.base_model) {
        return Err(nonsense());
    }
    if record.labels != BundleRecord::of(bundle).labels {
        return Err(BackupError::Content(format!("its {BUNDLE_RECORD} names other base classes than the bundle has")));
    }
    Ok(())
}

fn nonsense() -> BackupError {
    BackupError::Content("its state makes no sense, or is a later release's".into())
}

/// What a backup begins with, before the pictures.
struct BackupStart {
    /// The bundle that it was learned on.
    record: BundleRecord,
    /// The releases that were used where it was written.
    releases: Releases,
    /// The state with its history.
    saved: SavedState,
}

impl BackupStart {
    fn read(entries: &mut Entries<'_, ArchiveReader<'_>>, version: u16) -> Result<Self, BackupError> {
        let mut file = |name: &str, limit: u64| {
            let bytes = named(entries.next().transpose()?, name, limit)?;
            bytes.ok_or_else(|| BackupError::Content(format!("it holds no {name}")))
        };
        let record = file(BUNDLE_RECORD, MAX_BUNDLE_RECORD)?;
        let releases = if version == envelope::WITHOUT_SIGNATURE {
            Releases::default()
        } else {
            parsed(RELEASES, &file(RELEASES, release::MAX_FILE)?, Releases::parse)?
        };
        let saved = slots::read(&file(SLOT, MAX_STATE)?).ok_or_else(nonsense)?;
        let record = parsed(BUNDLE_RECORD, &record, |text| BundleRecord::parse(text, &saved.state.bundle_digest))?;
        Ok(Self { record, releases, saved })
    }
}

/// What the text of the file `name` says.
fn parsed<T, E: ToString>(
    name: &str,
    bytes: &[u8],
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, BackupError> {
    let unusable = |reason| BackupError::Content(format!("its {name} cannot be used: {reason}"));
    let text = std::str::from_utf8(bytes).map_err(|error| unusable(error.to_string()))?;
    parse(text).map_err(|error| unusable(error.to_string()))
}

/// The bytes of an entry, which must have that name and no more bytes; `None` if there is no entry.
fn named<R: Read>(entry: Option<tar::Entry<'_, R>>, name: &str, limit: u64) -> Result<Option<Vec<u8>>, BackupError> {
    let Some(entry) = entry else { return Ok(None) };
    if entry.path_bytes() != name.as_bytes() {
        return Err(BackupError::Content(format!("it holds something else where {name} should be")));
    }
    contents(entry, limit).map(Some)
}

/// A picture's exemplar, which must be one of these, and its bytes, which must be a picture.
fn picture<R: Read>(entry: tar::Entry<'_, R>, of: &BTreeSet<[u8; 32]>) -> Result<([u8; 32], Vec<u8>), BackupError> {
    let name = String::from_utf8(entry.path_bytes().into_owned()).ok();
    let exemplar = name.and_then(|name| kept_pictures::exemplar_of(name.strip_prefix(SHOTS)?));
    let exemplar = exemplar.filter(|exemplar| of.contains(exemplar));
    let exemplar = exemplar.ok_or_else(|| BackupError::Content("it holds something that belongs to no shot".into()))?;
    let bytes = contents(entry, MAX_PICTURE)?;
    kept_pictures::decoded(&bytes).map_err(|error| BackupError::Content(format!("a picture in it {error}")))?;
    Ok((exemplar, bytes))
}

fn contents<R: Read>(entry: tar::Entry<'_, R>, limit: u64) -> Result<Vec<u8>, BackupError> {
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

//! All that a device knows in one file, for its replacement.

use std::ffi::c_char;
use std::path::Path;
use std::time::Duration;

use orco_runtime::backup::{self, BackupContents, BackupError, BackupOptions, RestoreOptions};
use orco_runtime::bundle::Bundle;
use orco_runtime::files;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::store::Store;

use crate::change::check_complete;
use crate::learner::{OrcoLearner, read_key};
use crate::pointer::{borrow, read_path, write_lines, write_optional};
use crate::status::{OrcoStatus, StatusError, guard};

/// What a backup holds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OrcoBackup {
    /// Classes that were learned on the device.
    pub learned_classes: usize,
    /// Stored exemplars.
    pub exemplars: usize,
    /// Kept pictures of shots.
    pub pictures: usize,
    /// Bytes of the file.
    pub bytes: u64,
}

impl From<&BackupContents> for OrcoBackup {
    fn from(contents: &BackupContents) -> Self {
        let BackupContents { classes, exemplars, pictures, bytes, .. } = *contents;
        Self { learned_classes: classes, exemplars, pictures, bytes }
    }
}

/// Writes all that the device knows into the file `path`: as a whole, or not at all. A file that is there already stays
/// and the call fails, unless it may `replace` it. `backup`, which says what was written, may be NULL.
///
/// `warnings`, which may be NULL, gets what had to be left out, a sentence a line, to be freed with orco_text_free(), or
/// NULL if nothing was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_backup(
    learner: *const OrcoLearner,
    path: *const c_char,
    replace: bool,
    backup: *mut OrcoBackup,
    warnings: *mut *mut c_char,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        write_lines(warnings, &[]);
        let path = Path::new(read_path(path, "path")?);
        let learner = borrow(learner, "learner")?.lock()?;
        let options = BackupOptions::default().replace(replace);
        let written = backup::write_to(learner.bundle(), learner.store(), learner.settings(), path, &options);
        let (contents, synced) = match written {
            Err(BackupError::Unsynced { contents, error }) => {
                (*contents, Err(StatusError::of(OrcoStatus::Uncertain, &error)))
            }
            written => (written.map_err(|error| StatusError::from(error).of_file(path))?, Ok(())),
        };
        write_optional(backup, (&contents).into());
        write_lines(warnings, &contents.warnings);
        synced
    })
}

/// How a backup is restored. The strictest is all zero: `{0}` in C, `{}` in C++.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OrcoRestoreOptions {
    /// The file of a public key, written by minisign; NULL for none. With a key, the bundle and the backup must both be
    /// signed with it, and the bundle must not be an older release than was used before, here or where the backup was
    /// written.
    pub public_key: *const c_char,
    /// Whether what the device knows already is replaced, and gone then; it is refused otherwise.
    pub replace: bool,
    /// Whether a backup of another bundle is restored, for which orco_upgrade() is to be called next; it is refused
    /// otherwise.
    pub other_bundle: bool,
    /// How long a change of another process is waited for, at most.
    pub wait_milliseconds: u32,
}

impl Default for OrcoRestoreOptions {
    fn default() -> Self {
        Self { public_key: std::ptr::null(), replace: false, other_bundle: false, wait_milliseconds: 0 }
    }
}

/// Puts what orco_backup() wrote into the folder `state` of a device with the bundle `bundle`, at once or not at all. A
/// learner that is open on that folder sees it with its next change or orco_refresh(). `options` may be NULL for all
/// zero; `backup`, which says what was restored, may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_restore(
    bundle: *const c_char,
    state: *const c_char,
    path: *const c_char,
    options: *const OrcoRestoreOptions,
    backup: *mut OrcoBackup,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        let (bundle, state) = (read_path(bundle, "bundle")?, Store::new(read_path(state, "state")?));
        let path = read_path(path, "path")?;
        let options = options.as_ref().copied().unwrap_or_default();
        let key = read_key(options.public_key)?;
        let bundle = Bundle::open_trusted(bundle, key.as_ref())?;
        let mut file = files::open_regular(Path::new(path))
            .map_err(|error| StatusError::new(OrcoStatus::FileFailed, format!("{path} cannot be read: {error}")))?;
        let settings = LearnerSettings::default().wait(Duration::from_millis(options.wait_milliseconds.into()));
        let options =
            RestoreOptions::default().replace(options.replace).other_bundle(options.other_bundle).public_key(key);
        let outcome = backup::restore(&bundle, &state, &settings, &mut file, &options)
            .map_err(|error| StatusError::from(error).of_file(Path::new(path)))?;
        write_optional(backup, (&outcome.report).into());
        check_complete(outcome)
    })
}

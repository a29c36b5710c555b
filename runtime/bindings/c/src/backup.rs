//! All that a device knows in one file, for its replacement.

use std::ffi::c_char;
use std::path::Path;
use std::time::Duration;

use orco_runtime::backup::{self, BackupContents, BackupOptions, RestoreOptions};
use orco_runtime::bundle::Bundle;
use orco_runtime::files;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::store::Store;

use crate::change::doubtless;
use crate::learner::OrcoLearner;
use crate::pointer::{borrowed, lines, text};
use crate::status::{Failure, OrcoStatus, guarded};

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
/// and the call fails, unless it may `replace` it. `backup`, which says what was written, may be NULL; so may
/// `warnings`, which gets what had to be left out, a sentence a line, to be freed with orco_text_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_backup(
    learner: *const OrcoLearner,
    path: *const c_char,
    replace: bool,
    backup: *mut OrcoBackup,
    warnings: *mut *mut c_char,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guarded(|| unsafe {
        lines(warnings, &[]);
        let path = Path::new(text(path, "path")?);
        let learner = borrowed(learner, "learner")?.lock()?;
        let options = BackupOptions::default().replace(replace);
        let contents = backup::write_to(learner.bundle(), learner.store(), learner.settings(), path, &options)?;
        if !backup.is_null() {
            backup.write((&contents).into());
        }
        lines(warnings, &contents.warnings);
        Ok(())
    })
}

/// Puts what orco_backup() wrote into the folder `state` of a device with the bundle `bundle`; a learner that is open on
/// that folder sees it with its next change or orco_refresh(). Refused where the device knows something already, unless
/// it may `replace` that, which is gone then, and where the backup was made with another bundle, unless
/// `other_bundle` allows it: then orco_upgrade() is to be called next. A change of another process is waited for
/// `wait_milliseconds` at most. `backup`, which says what was restored, may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_restore(
    bundle: *const c_char,
    state: *const c_char,
    path: *const c_char,
    replace: bool,
    other_bundle: bool,
    wait_milliseconds: u32,
    backup: *mut OrcoBackup,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guarded(|| unsafe {
        let (bundle, state) = (text(bundle, "bundle")?, Store::new(Path::new(text(state, "state")?)));
        let path = text(path, "path")?;
        let bundle = Bundle::open(Path::new(bundle)).map_err(|error| Failure::of(OrcoStatus::CannotOpen, &error))?;
        let mut file = files::open_regular(Path::new(path))
            .map_err(|error| Failure::new(OrcoStatus::FileFailed, format!("{path} cannot be read: {error}")))?;
        let wait = Duration::from_millis(wait_milliseconds.into());
        let settings = LearnerSettings::default().wait(wait);
        let options = RestoreOptions::default().replace(replace).other_bundle(other_bundle);
        let made = backup::restore(&bundle, &state, &settings, &mut file, &options)?;
        if !backup.is_null() {
            backup.write((&made.report).into());
        }
        doubtless(made)
    })
}

//! A learned class for another device.

use std::ffi::c_char;
use std::io;
use std::path::Path;

use orco_runtime::files::destination::ExistingFile;
use orco_runtime::pack::{self, PackOrigin, WritePackError};

use crate::learner::OrcoLearner;
use crate::pointer::{borrow, read_optional_text, read_path, read_text, write_optional};
use crate::status::{OrcoStatus, StatusError, guard};

/// Writes a learned class into the file `path`, a pack, for another device with the same bundle: as a whole, or not at
/// all. It holds exemplars and no picture, and is not signed; `orco export --sign` signs. `device`, which may be NULL,
/// is the name of this one, for whoever receives the pack. A file that is there already stays and the call fails,
/// unless it may `replace` it. `bytes`, which gets the size of the file, may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_export(
    learner: *const OrcoLearner,
    label: *const c_char,
    path: *const c_char,
    device: *const c_char,
    replace: bool,
    bytes: *mut u64,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        let (label, path) = (read_text(label, "label")?, read_path(path, "path")?);
        let device = read_optional_text(device, "device")?.map(str::to_owned);
        let origin = PackOrigin { device, ..PackOrigin::default() };
        let mut learner = borrow(learner, "learner")?.lock()?;
        let pack = learner.export(label, origin)?;
        let failed = |status: OrcoStatus, error: io::Error| StatusError::new(status, format!("{path}: {error}"));
        let existing = ExistingFile::replace_if(replace);
        let (size, synced) = match pack::write_unsigned(learner.store(), Path::new(path), &pack, existing) {
            Ok(size) => (size, Ok(())),
            Err(WritePackError::Unsynced { size, error }) => (size, Err(failed(OrcoStatus::Uncertain, error))),
            Err(WritePackError::File(error)) => return Err(failed(OrcoStatus::FileFailed, error)),
            Err(error) => return Err(StatusError::of(OrcoStatus::Refused, &error)),
        };
        write_optional(bytes, size as u64);
        synced
    })
}

//! The result of a call, and the text of its error.

use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CString, c_char};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use orco_runtime::backup::BackupError;
use orco_runtime::bundle::OpenError as BundleError;
use orco_runtime::encoder::EncodeError;
use orco_runtime::image::ImageError;
use orco_runtime::learner::upgrade::UpgradeError;
use orco_runtime::learner::{ChangeError, ExportError, OpenLearnerError, ShotsError};
use orco_runtime::signature::KeyError;
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::StoreError;

use crate::float_modes::DefaultFloatModes;
use crate::pointer::c_string;

/// The result of a call. After anything but `ORCO_STATUS_OK`, orco_error() says why.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrcoStatus {
    /// It is done.
    Ok = 0,
    /// The change is made, or the file is written, but a power cut could lose it, or something of the old is left on
    /// the disk.
    Uncertain = 1,
    /// An argument is NULL, not UTF-8, an empty path, or out of range.
    BadArgument = 2,
    /// The bundle, its signature or the state cannot be used.
    CannotOpen = 3,
    /// A picture cannot be used.
    BadPicture = 4,
    /// The backbone cannot be started or fails.
    EngineFailed = 5,
    /// The change is refused; nothing was changed.
    Refused = 6,
    /// Another process is changing the same state; nothing was changed. To be tried again.
    Busy = 7,
    /// The state cannot be read or written; nothing was changed.
    StoreFailed = 8,
    /// A fault in this library. The learner that it met answers nothing else from now on and is to be freed.
    Fault = 9,
    /// The file of a backup or a pack is there already, cannot be read or written, or holds no backup; nothing was
    /// changed.
    FileFailed = 10,
    /// The change is made, but the head was not aligned to it: answers follow the change already, and orco_align()
    /// tries again.
    Unaligned = 11,
}

/// An error of a call: a status other than [`OrcoStatus::Ok`], and the text that orco_error() gives.
#[derive(Debug)]
pub(crate) struct StatusError {
    status: OrcoStatus,
    text: String,
}

impl StatusError {
    /// An error in words of its own.
    pub fn new(status: OrcoStatus, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// An error with its causes.
    pub fn of(status: OrcoStatus, error: &(dyn Error + 'static)) -> Self {
        Self::new(status, with_causes(error))
    }

    /// With what to do about it.
    fn advised(self, advice: Option<&str>) -> Self {
        match advice {
            Some(advice) => Self::new(self.status, format!("{}; {advice}", self.text)),
            None => self,
        }
    }

    /// With the name of a backup's file, where it is the file that cannot be used.
    pub fn of_file(self, path: &Path) -> Self {
        match self.status {
            OrcoStatus::FileFailed => Self::new(self.status, format!("{}: {}", path.display(), self.text)),
            _ => self,
        }
    }

    /// The number that was given for `argument` is no variant of an enumeration of C.
    pub fn unknown_variant(argument: &str, number: u32, enumeration: &str) -> Self {
        Self::new(OrcoStatus::BadArgument, format!("{argument} {number} is no {enumeration}"))
    }

    /// A picture that cannot be used. The library's reason is the rest of a sentence that begins with its name.
    pub fn picture(name: &str, reason: &ImageError) -> Self {
        Self::new(OrcoStatus::BadPicture, format!("{name} {reason}"))
    }
}

impl From<BundleError> for StatusError {
    fn from(error: BundleError) -> Self {
        Self::of(OrcoStatus::CannotOpen, &error)
    }
}

impl From<KeyError> for StatusError {
    fn from(error: KeyError) -> Self {
        Self::of(OrcoStatus::CannotOpen, &error)
    }
}

impl From<OpenLearnerError> for StatusError {
    fn from(error: OpenLearnerError) -> Self {
        let advice = match &error {
            OpenLearnerError::Store(StoreError::OtherBundle { .. }) => {
                Some("open it with that one, or move it to this one by orco_upgrade()")
            }
            _ => None,
        };
        Self::of(OrcoStatus::CannotOpen, &error).advised(advice)
    }
}

impl From<EncodeError> for StatusError {
    fn from(error: EncodeError) -> Self {
        Self::of(OrcoStatus::EngineFailed, &error)
    }
}

impl From<ChangeError> for StatusError {
    fn from(error: ChangeError) -> Self {
        let status = match &error {
            ChangeError::Store(error) => store_status(error),
            ChangeError::Shots(error) => shots_status(error),
            _ => OrcoStatus::Refused,
        };
        Self::of(status, &error)
    }
}

/// The status of an error of the store.
fn store_status(error: &StoreError) -> OrcoStatus {
    if matches!(error, StoreError::Busy { .. }) { OrcoStatus::Busy } else { OrcoStatus::StoreFailed }
}

/// The status of an error of shots.
fn shots_status(error: &ShotsError) -> OrcoStatus {
    if matches!(error, ShotsError::Encode(_)) { OrcoStatus::EngineFailed } else { OrcoStatus::BadPicture }
}

impl From<BackupError> for StatusError {
    fn from(error: BackupError) -> Self {
        let status = match &error {
            BackupError::Store(error) => store_status(error),
            BackupError::Unsynced { .. } => OrcoStatus::Uncertain,
            BackupError::File(_) | BackupError::Decode(_) | BackupError::Content(_) => OrcoStatus::FileFailed,
            BackupError::Release(_) => OrcoStatus::CannotOpen,
            _ => OrcoStatus::Refused,
        };
        let advice = match &error {
            BackupError::Occupied { .. } => Some("`replace` of the options replaces that with the backup"),
            BackupError::OtherBundle { .. } => Some("`other_bundle` of the options restores it for orco_upgrade()"),
            BackupError::File(error) if error.kind() == ErrorKind::AlreadyExists => Some("`replace` replaces it"),
            _ => None,
        };
        Self::of(status, &error).advised(advice)
    }
}

impl From<ExportError> for StatusError {
    fn from(error: ExportError) -> Self {
        let status = if let ExportError::Store(error) = &error { store_status(error) } else { OrcoStatus::Refused };
        Self::of(status, &error)
    }
}

impl From<UpgradeError> for StatusError {
    fn from(error: UpgradeError) -> Self {
        let status = match &error {
            UpgradeError::Store(error) => store_status(error),
            UpgradeError::Shots(error) => shots_status(error),
            UpgradeError::Release(_) => OrcoStatus::CannotOpen,
            _ => OrcoStatus::Refused,
        };
        let advice = match &error {
            UpgradeError::NotKept { .. } => {
                Some("`give_up_unkept` of the options gives the classes up; orco_set_keep_shots() keeps pictures")
            }
            UpgradeError::Missing { .. } => Some("`give_up_unkept` of the options gives these classes up"),
            UpgradeError::Worse { .. } => Some("`force` of the options moves to the bundle all the same"),
            _ => None,
        };
        Self::of(status, &error).advised(advice)
    }
}

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// Makes a call and keeps its error's text for orco_error(). A panic, which C could not pass on, becomes a status.
pub(crate) fn guard(call: impl FnOnce() -> Result<(), StatusError>) -> OrcoStatus {
    let _modes = DefaultFloatModes::set();
    let fault = |_| Err(StatusError::new(OrcoStatus::Fault, "a fault in liborco, which it wrote to standard error"));
    let (status, text) = match catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(fault) {
        Ok(()) => (OrcoStatus::Ok, String::new()),
        Err(error) => (error.status, error.text),
    };
    let text = c_string(&text);
    // A thread that is ending has no place for it any more.
    let _ = ERROR.try_with(|error| error.replace(text));
    status
}

/// The text of the calling thread's last error: one sentence or two. Empty if its last call returned
/// `ORCO_STATUS_OK`. Valid until that thread's next call that returns a status; never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn orco_error() -> *const c_char {
    ERROR.try_with(|error| error.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The library's version, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn orco_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn error() -> String {
        // SAFETY: never null, and nothing is called meanwhile.
        unsafe { CStr::from_ptr(orco_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_status_and_the_next_call_clears_the_text() {
        assert_eq!(guard(|| panic!("a panic that is meant")), OrcoStatus::Fault);
        assert!(error().contains("fault"));
        let refused = StatusError::new(OrcoStatus::Refused, "one\0two");
        assert_eq!(guard(|| Err(refused)), OrcoStatus::Refused);
        assert_eq!(error(), "one\u{fffd}two");
        assert_eq!(std::thread::spawn(error).join().unwrap(), "", "every thread has its own");
        assert_eq!(guard(|| Ok(())), OrcoStatus::Ok);
        assert_eq!(error(), "");
    }

    #[test]
    fn causes_are_part_of_the_text() {
        let opened = orco_runtime::learner::Learner::open("no bundle", "no state").unwrap_err();
        let error = StatusError::from(opened);
        assert_eq!(error.status, OrcoStatus::CannotOpen);
        assert!(error.text.contains("no bundle") && error.text.contains(": "), "{}", error.text);
    }
}

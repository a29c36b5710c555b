//! The exceptions, with the library's sentences.

use std::error::Error;
use std::io::ErrorKind;
use std::path::Path;

use orco_runtime::backup;
use orco_runtime::bundle::OpenError as BundleError;
use orco_runtime::encoder::EncodeError;
use orco_runtime::image::ImageError;
use orco_runtime::learner::upgrade::UpgradeError;
use orco_runtime::learner::{self, OpenLearnerError, ShotsError};
use orco_runtime::signature::KeyError;
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::StoreError;
use orco_runtime::threads::ProcessLockError;
use pyo3::exceptions::PyException;
use pyo3::{PyErr, create_exception};

create_exception!(orco, OrcoError, PyException, "Something that this package cannot do, and why.");
create_exception!(orco, OpenError, OrcoError, "The bundle, its signature or the state cannot be used.");
create_exception!(orco, PictureError, OrcoError, "A picture cannot be used.");
create_exception!(orco, EngineError, OrcoError, "The backbone cannot be started or fails.");
create_exception!(orco, ChangeError, OrcoError, "A change is refused; nothing was changed.");
create_exception!(
    orco,
    BackupError,
    OrcoError,
    "A backup's file is there already, cannot be read or written, or holds no backup."
);
create_exception!(
    orco,
    BusyError,
    ChangeError,
    "Another process is changing the same state; nothing was changed. To be tried again."
);

/// An error's sentence with its causes, and what to do about it, in Python's words.
fn advised(error: &(dyn Error + 'static), advice: Option<&str>) -> String {
    let sentence = with_causes(error);
    match advice {
        Some(advice) => format!("{sentence}; {advice}"),
        None => sentence,
    }
}

/// An exception that is raised as soon as Python's lock is held again.
#[derive(Debug)]
pub enum PendingError {
    /// [`OpenError`].
    Open(String),
    /// [`PictureError`].
    Picture(String),
    /// [`EngineError`].
    Engine(String),
    /// [`ChangeError`].
    Change(String),
    /// [`BusyError`].
    Busy(String),
    /// [`BackupError`].
    Backup(String),
    /// The learner met a panic before.
    Fault,
    /// Python's own, such as Ctrl-C.
    Python(PyErr),
}

impl PendingError {
    /// A picture that cannot be used. The library's reason is the rest of a sentence that begins with its name.
    pub fn picture(name: impl std::fmt::Display, reason: &ImageError) -> Self {
        Self::Picture(format!("{name} {reason}"))
    }

    /// With the name of a backup's file, where it is the file that cannot be used.
    pub fn of_file(self, path: &Path) -> Self {
        match self {
            Self::Backup(text) => Self::Backup(format!("{}: {text}", path.display())),
            other => other,
        }
    }
}

impl From<PendingError> for PyErr {
    fn from(error: PendingError) -> Self {
        match error {
            PendingError::Open(text) => OpenError::new_err(text),
            PendingError::Picture(text) => PictureError::new_err(text),
            PendingError::Engine(text) => EngineError::new_err(text),
            PendingError::Change(text) => ChangeError::new_err(text),
            PendingError::Busy(text) => BusyError::new_err(text),
            PendingError::Backup(text) => BackupError::new_err(text),
            PendingError::Fault => OrcoError::new_err("an earlier call met a fault; open the learner anew"),
            PendingError::Python(error) => error,
        }
    }
}

impl From<OpenLearnerError> for PendingError {
    fn from(error: OpenLearnerError) -> Self {
        let advice = match &error {
            OpenLearnerError::Store(StoreError::OtherBundle { .. }) => {
                Some("open it with that one, or move it to this one by `orco.upgrade`")
            }
            _ => None,
        };
        Self::Open(advised(&error, advice))
    }
}

impl From<BundleError> for PendingError {
    fn from(error: BundleError) -> Self {
        Self::Open(with_causes(&error))
    }
}

impl From<KeyError> for PendingError {
    fn from(error: KeyError) -> Self {
        Self::Open(with_causes(&error))
    }
}

impl From<ProcessLockError> for PendingError {
    fn from(error: ProcessLockError) -> Self {
        match error {
            ProcessLockError::Forked => Self::Engine(error.to_string()),
            _ => Self::Fault,
        }
    }
}

impl From<EncodeError> for PendingError {
    fn from(error: EncodeError) -> Self {
        Self::Engine(with_causes(&error))
    }
}

impl From<backup::BackupError> for PendingError {
    fn from(error: backup::BackupError) -> Self {
        use backup::BackupError;
        let advice = match &error {
            BackupError::Occupied { .. } => Some("`RestoreOptions(replace=True)` replaces that with the backup"),
            BackupError::OtherBundle { .. } => {
                Some("`RestoreOptions(other_bundle=True)` restores it for `orco.upgrade`")
            }
            BackupError::File(error) if error.kind() == ErrorKind::AlreadyExists => Some("`replace=True` replaces it"),
            _ => None,
        };
        let text = advised(&error, advice);
        match error {
            BackupError::Store(StoreError::Busy { .. }) => Self::Busy(text),
            BackupError::File(_) | BackupError::Decode(_) | BackupError::Content(_) => Self::Backup(text),
            BackupError::Release(_) => Self::Open(text),
            _ => Self::Change(text),
        }
    }
}

impl From<UpgradeError> for PendingError {
    fn from(error: UpgradeError) -> Self {
        let advice = match &error {
            UpgradeError::NotKept { .. } => {
                Some("`give_up_unkept=True` gives the classes up; `LearnerOptions(keep_shots=True)` keeps pictures")
            }
            UpgradeError::Missing { .. } => Some("`give_up_unkept=True` gives these classes up"),
            UpgradeError::Worse { .. } => Some("`force=True` moves to the bundle all the same"),
            _ => None,
        };
        let text = advised(&error, advice);
        match error {
            UpgradeError::Store(StoreError::Busy { .. }) => Self::Busy(text),
            UpgradeError::Shots(ShotsError::Encode(_)) => Self::Engine(text),
            UpgradeError::Shots(_) => Self::Picture(text),
            UpgradeError::Release(_) => Self::Open(text),
            _ => Self::Change(text),
        }
    }
}

impl From<learner::ExportError> for PendingError {
    fn from(error: learner::ExportError) -> Self {
        let text = with_causes(&error);
        match error {
            learner::ExportError::Store(_) => Self::Open(text),
            _ => Self::Change(text),
        }
    }
}

impl From<learner::ChangeError> for PendingError {
    fn from(error: learner::ChangeError) -> Self {
        let text = with_causes(&error);
        match error {
            learner::ChangeError::Store(StoreError::Busy { .. }) => Self::Busy(text),
            learner::ChangeError::Shots(ShotsError::Encode(_)) => Self::Engine(text),
            learner::ChangeError::Shots(_) => Self::Picture(text),
            _ => Self::Change(text),
        }
    }
}

//! Why a round of synchronisation stops.

use std::io;
use std::path::{Path, PathBuf};

use orco_runtime::bundle::OpenError;
use orco_runtime::files;
use orco_runtime::learner::upgrade::UpgradeError;
use orco_runtime::learner::{ChangeError, ExportError, OpenLearnerError};
use orco_runtime::state::escape::EscapedText;
use orco_runtime::store::StoreError;

use super::{IDENTITY, PROGRESS};
use crate::protocol::{CodeError, ObjectDigest, RefusalKind};

/// Why a round stops. What was done until then stays, and the next round goes on from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// A file of the device cannot be read or written.
    #[error("{} cannot be read or written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the device holds something else.
    #[error("{} is damaged: {reason}; remove it{}", path.display(), after_removal(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Another round is under way.
    #[error("another round is under way in {}", folder.display())]
    Busy {
        /// The device's folder.
        folder: PathBuf,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The device cannot be called so.
    #[error(
        "a device cannot be called \"{}\": give a --name that is not blank and has no \"=\", tabs or characters that \
         cannot be seen",
        EscapedText(name)
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The device never enrolled.
    #[error("this device is not enrolled; get a code with `orco hub code` and pass it with --code")]
    NotEnrolled,
    /// The device belongs to another hub.
    #[error(
        "this device is enrolled with another hub; to enrol anew, remove {IDENTITY} and {PROGRESS} in {}, but not the \
         bundles there, which its state may need",
        folder.display()
    )]
    OtherHub {
        /// The device's folder.
        folder: PathBuf,
    },
    /// A text is no code.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// No signed answer came.
    #[error("the hub cannot be reached: {reason}")]
    Unreachable {
        /// The last attempt's reason.
        reason: String,
    },
    /// The hub, or something in its place, does not know the device.
    #[error(
        "the hub does not know this device, or does not take its code: a code works once and for a limited time, and \
         the address must be the hub's"
    )]
    Unknown,
    /// The hub refuses the message.
    #[error("the hub refuses: {reason}")]
    Refused {
        /// Which kind of reason.
        kind: RefusalKind,
        /// In a sentence.
        reason: String,
    },
    /// An answer of the hub makes no sense.
    #[error("the hub's answer makes no sense: {reason}")]
    Answer {
        /// What is wrong.
        reason: String,
    },
    /// An object is not what the channel says.
    #[error("the object {digest} came damaged; the next round fetches it again")]
    Object {
        /// Its digest.
        digest: ObjectDigest,
    },
    /// The bundle cannot be used.
    #[error(transparent)]
    Bundle(#[from] OpenError),
    /// There is neither a bundle on the device nor one in its channel.
    #[error("neither the device nor its channel has a bundle that can be used; release one, or name one with --bundle")]
    NoBundle,
    /// The state cannot be used.
    #[error(transparent)]
    Learner(#[from] OpenLearnerError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A class cannot be learned or forgotten.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A class cannot be exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The state cannot move to another bundle, or back.
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    /// The observer stopped the round.
    #[error("the round was stopped")]
    Stopped,
}

/// What to do when a damaged file of the device was removed.
fn after_removal(path: &Path) -> &'static str {
    if path.ends_with(IDENTITY) { " and enrol again with a new code" } else { "; the next round goes on without it" }
}

impl SyncError {
    /// Whether there is no room for what was to be written.
    pub(super) fn is_disk_full(&self) -> bool {
        matches!(self, Self::File { source, .. } if files::is_disk_full(source))
    }

    /// That of a file.
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

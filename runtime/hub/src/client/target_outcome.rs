//! Whether a device holds what its channel names, or why not.

use orco_runtime::state::sentence::with_causes;

use super::error::SyncError;
use crate::protocol::{RefusalKind, ReleaseId, ReleaseOutcome, bounded};

/// What became of a target, a [bundle](crate::protocol::BundleTarget) or a [pack](crate::protocol::PackTarget).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TargetOutcome {
    /// The device holds it.
    Held,
    /// The device stays without it, for this reason.
    Refused(String),
    /// The device stays without it for now; the next round tries again.
    Deferred(String),
}

impl TargetOutcome {
    /// The outcome of a release that an error kept the device from, where that error is a matter of this release alone:
    /// the round goes on without it.
    ///
    /// # Errors
    /// Those that the round has to stop for.
    pub(super) fn deferred(error: SyncError) -> Result<Self, SyncError> {
        match error {
            SyncError::Object { .. } | SyncError::Refused { kind: RefusalKind::Missing, .. } => {
                Ok(Self::Deferred(with_causes(&error)))
            }
            error if error.is_disk_full() => Ok(Self::Deferred(with_causes(&error))),
            error => Err(error),
        }
    }

    /// The outcome as the device reports it.
    pub(super) fn of_release(self, release: ReleaseId) -> ReleaseOutcome {
        let refused = match self {
            Self::Held => None,
            Self::Refused(reason) | Self::Deferred(reason) => Some(bounded(&reason)),
        };
        ReleaseOutcome { release, refused }
    }
}

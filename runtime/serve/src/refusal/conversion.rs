//! Errors of `orco_runtime` as refusals: one code for each variant, whether a request or a job meets it.

use std::error::Error;

use orco_runtime::backup::BackupError;
use orco_runtime::encoder::EncodeError;
use orco_runtime::image::ImageError;
use orco_runtime::learner::{ChangeError, ExportError, OpenLearnerError, ShotsError};
use orco_runtime::method::align::AlignError;
use orco_runtime::pack::{OpenPackError, PackError, PackExportError};
use orco_runtime::release::ReleaseError;
use orco_runtime::scene::BackgroundError;
use orco_runtime::signature::SignatureError;
use orco_runtime::state::MAX_SHOTS;
use orco_runtime::state::codec::DecodeError;
use orco_runtime::state::history::PurgeError;
use orco_runtime::state::sentence::with_causes;
use orco_runtime::state::session::LearnError;
use orco_runtime::store::StoreError;
use serde_json::{Value, json};

use super::{ErrorCode, Refusal};

impl From<&ChangeError> for Refusal {
    fn from(error: &ChangeError) -> Self {
        match error {
            ChangeError::Learn(error) => error.into(),
            ChangeError::Pack(error) => error.into(),
            ChangeError::Purge(error) => error.into(),
            ChangeError::Store(error) => error.into(),
            ChangeError::Release(error) => error.into(),
            ChangeError::Shots(ShotsError::Encode(cause)) => Self { sentence: with_causes(error), ..cause.into() },
            ChangeError::Shots(ShotsError::OtherFeatures { .. }) => {
                refused(ErrorCode::BackboneFailed, error).with("reason", error.to_string())
            }
            ChangeError::Cancelled => refused(ErrorCode::Cancelled, error),
            ChangeError::Forgetting { budget, excess } => {
                let classes: Vec<&str> = excess.classes.iter().map(|class| class.label.as_str()).collect();
                refused(ErrorCode::ForgettingBudget, error).with("budget", decimal(*budget)).with("classes", classes)
            }
            ChangeError::NotEnoughToUndo { .. } | ChangeError::Present { .. } => {
                refused(ErrorCode::NothingToUndo, error)
            }
            ChangeError::NotEnoughToRedo { .. } => refused(ErrorCode::NothingToRedo, error),
            ChangeError::NotLast { number, last } => {
                refused(ErrorCode::HistoryChanged, error).with("entry", *number).with("last", *last)
            }
            ChangeError::NoEntry { number } | ChangeError::OtherEntry { number } => {
                refused(ErrorCode::UnknownEntry, error).with("entry", *number)
            }
            ChangeError::OtherShot { label } => {
                refused(ErrorCode::UnknownStoredShot, error).with("label", label.as_str())
            }
            _ => unexpected(error),
        }
    }
}

impl From<&LearnError> for Refusal {
    fn from(error: &LearnError) -> Self {
        let labelled = |code, label: &str| refused(code, error).with("label", label);
        match error {
            LearnError::NoBorder => refused(ErrorCode::NoBorder, error),
            LearnError::NoShots { label } => labelled(ErrorCode::NothingToLearn, label),
            LearnError::BadLabel { label } => labelled(ErrorCode::InvalidLabel, label),
            LearnError::TooManyShots { label, shots } => {
                labelled(ErrorCode::TooManyShots, label).with("shots", *shots).with("limit", MAX_SHOTS)
            }
            LearnError::LabelExists { label }
            | LearnError::BaseLabelExists { label }
            | LearnError::LabelTwice { label } => labelled(ErrorCode::LabelTaken, label),
            LearnError::NoShot { label, .. } => labelled(ErrorCode::UnknownStoredShot, label),
            LearnError::LastShot { label } => labelled(ErrorCode::LastShot, label),
            LearnError::SameClass { label } => labelled(ErrorCode::SameClass, label),
            LearnError::UnknownLabel { label } => labelled(ErrorCode::UnknownClass, label),
            LearnError::BaseClass { label } => labelled(ErrorCode::BaseClass, label),
            LearnError::NoFreeTargets { wanted, free } => {
                refused(ErrorCode::NoFreeTarget, error).with("wanted", *wanted).with("free", *free)
            }
            // Only a pack brings exemplars that do not fit.
            LearnError::OtherLayout { .. } => refused(ErrorCode::PackDamaged, error),
            LearnError::BadFeatures { .. } => {
                refused(ErrorCode::BackboneFailed, error).with("reason", error.to_string())
            }
            LearnError::Align(AlignError::Cancelled) => refused(ErrorCode::Cancelled, error),
            LearnError::Align(cause) => refused(ErrorCode::TrainingFailed, error).with("reason", cause.to_string()),
            _ => unexpected(error),
        }
    }
}

impl From<&PurgeError> for Refusal {
    fn from(error: &PurgeError) -> Self {
        let labelled = |code, label: &str| refused(code, error).with("label", label);
        match error {
            PurgeError::Unknown { label } => labelled(ErrorCode::UnknownClass, label),
            PurgeError::BaseClass { label } => labelled(ErrorCode::BaseClass, label),
            PurgeError::Renamed { label, now } => labelled(ErrorCode::ClassRenamed, label).with("now", now.as_str()),
            _ => unexpected(error),
        }
    }
}

impl From<&StoreError> for Refusal {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Busy { .. } => refused(ErrorCode::StateBusy, error),
            StoreError::Overtaken { .. } => refused(ErrorCode::StateChanged, error),
            StoreError::Lost { .. }
            | StoreError::Decode { .. }
            | StoreError::OtherBundle { .. }
            | StoreError::Gone { .. } => refused(ErrorCode::StateUnusable, error).with("reason", reason(error)),
            _ => refused(ErrorCode::Storage, error).with("reason", reason(error)),
        }
    }
}

impl From<&ReleaseError> for Refusal {
    fn from(error: &ReleaseError) -> Self {
        match error {
            ReleaseError::Older { release, used, .. } => {
                refused(ErrorCode::OlderRelease, error).with("release", *release).with("used", *used)
            }
            _ => refused(ErrorCode::Storage, error).with("reason", reason(error)),
        }
    }
}

impl From<&OpenLearnerError> for Refusal {
    fn from(error: &OpenLearnerError) -> Self {
        match error {
            OpenLearnerError::Store(error) => error.into(),
            OpenLearnerError::Release(error) => error.into(),
            _ => unexpected(error),
        }
    }
}

impl From<&EncodeError> for Refusal {
    fn from(error: &EncodeError) -> Self {
        match error {
            // It may be asked again: the backbone is still being opened.
            EncodeError::Busy => refused(ErrorCode::BackboneBusy, error),
            _ => refused(ErrorCode::BackboneFailed, error).with("reason", with_causes(error)),
        }
    }
}

impl From<&ExportError> for Refusal {
    fn from(error: &ExportError) -> Self {
        match error {
            ExportError::Class(error) => error.into(),
            ExportError::Store(error) => error.into(),
            _ => unexpected(error),
        }
    }
}

impl From<&PackExportError> for Refusal {
    fn from(error: &PackExportError) -> Self {
        let labelled = |code, label: &str| refused(code, error).with("label", label);
        match error {
            PackExportError::UnknownLabel { label } => labelled(ErrorCode::UnknownClass, label),
            PackExportError::BaseClass { label } => labelled(ErrorCode::BaseClass, label),
            PackExportError::NoExemplars { label } => labelled(ErrorCode::NoExemplars, label),
            _ => unexpected(error),
        }
    }
}

impl From<&OpenPackError> for Refusal {
    fn from(error: &OpenPackError) -> Self {
        match error {
            OpenPackError::Pack(error) => error.into(),
            OpenPackError::Signature(SignatureError::Missing) => refused(ErrorCode::PackUnsigned, error),
            OpenPackError::Signature(SignatureError::OtherKey) => refused(ErrorCode::PackOtherKey, error),
            OpenPackError::Signature(_) => refused(ErrorCode::PackAltered, error),
            _ => refused(ErrorCode::PackDamaged, error),
        }
    }
}

impl From<&PackError> for Refusal {
    fn from(error: &PackError) -> Self {
        match error {
            PackError::Decode(DecodeError::Version { expected, actual }) => {
                refused(ErrorCode::PackVersion, error).with("version", *actual).with("supported", *expected)
            }
            PackError::TooManyShots { shots } => {
                refused(ErrorCode::PackTooManyShots, error).with("shots", *shots).with("limit", MAX_SHOTS)
            }
            PackError::OtherBundle { bundle } => refused(ErrorCode::OtherBundle, error).with("bundle", bundle.as_str()),
            _ => refused(ErrorCode::PackDamaged, error),
        }
    }
}

impl From<&BackupError> for Refusal {
    fn from(error: &BackupError) -> Self {
        match error {
            BackupError::Nothing { .. } => Self::nothing_to_back_up(),
            BackupError::Store(error) => Self::from(error).about("no backup"),
            BackupError::Release(error) => Self::from(error).about("no backup"),
            _ => Self::no_backup(error),
        }
    }
}

impl From<&ImageError> for Refusal {
    fn from(error: &ImageError) -> Self {
        let picture = |code| Self::new(code, format!("the picture {error}"));
        match error {
            ImageError::Format | ImageError::Empty | ImageError::LfsPointer => picture(ErrorCode::NotAPicture),
            ImageError::Unsupported(format) => picture(ErrorCode::UnsupportedPicture).with("format", format.name),
            ImageError::TooLarge | ImageError::LargeWebp { .. } | ImageError::LargeMetadata => {
                picture(ErrorCode::PictureTooLarge)
            }
            ImageError::Damaged(reason) => picture(ErrorCode::PictureDamaged).with("reason", reason.as_str()),
            _ => picture(ErrorCode::BadRequest),
        }
    }
}

impl From<&BackgroundError> for Refusal {
    fn from(error: &BackgroundError) -> Self {
        match error {
            BackgroundError::Dark { view } => refused(ErrorCode::SceneDark, error).with("view", *view),
            BackgroundError::Bright { view } => refused(ErrorCode::SceneBright, error).with("view", *view),
            BackgroundError::Flat { view } => refused(ErrorCode::SceneFlat, error).with("view", *view),
            BackgroundError::Thing { view } => refused(ErrorCode::SceneNotEmpty, error).with("view", *view),
            _ => refused(ErrorCode::SceneUnusable, error),
        }
    }
}

fn refused(code: ErrorCode, error: &(dyn Error + 'static)) -> Refusal {
    Refusal::new(code, with_causes(error))
}

/// An error that callers can do nothing about; the log keeps it.
fn unexpected(error: &(dyn Error + 'static)) -> Refusal {
    log::error!("{}", with_causes(error));
    refused(ErrorCode::Internal, error)
}

/// What the system or another part of the program said: the cause of an error, or the error itself.
pub(super) fn reason(error: &(dyn Error + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), with_causes)
}

/// A share without the digits that come of its being stored in 32 bits.
fn decimal(share: f32) -> Value {
    json!((f64::from(share) * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn transparent_errors_keep_their_sentence() {
        let cause = LearnError::UnknownLabel { label: "mug".into() };
        let refusal = Refusal::from(&ChangeError::from(cause.clone()));
        assert_eq!((refusal.code, &refusal.sentence), (ErrorCode::UnknownClass, &cause.to_string()));
        assert_eq!(refusal.values["label"], "mug");
        let busy = ChangeError::Store(StoreError::Busy { folder: PathBuf::from("state") });
        let refusal = Refusal::from(&busy);
        assert_eq!((refusal.code, &refusal.sentence), (ErrorCode::StateBusy, &busy.to_string()));
    }

    #[test]
    fn numbers_of_an_error_are_values() {
        let refusal = Refusal::from(&ChangeError::Forgetting { budget: 0.02, excess: Default::default() });
        assert_eq!(json!(refusal.values), json!({ "budget": 0.02, "classes": [] }));
        let refusal = Refusal::from(&ChangeError::NotLast { number: 3, last: 4 });
        assert_eq!(
            (refusal.code, json!(refusal.values)),
            (ErrorCode::HistoryChanged, json!({ "entry": 3, "last": 4 }))
        );
        let gone = BackupError::Store(StoreError::Gone { folder: "state".into() });
        let refusal = Refusal::from(&gone);
        assert!(refusal.sentence.starts_with("no backup: "), "{}", refusal.sentence);
        assert_eq!(refusal.code, ErrorCode::StateUnusable);
        let refusal = Refusal::from(&ChangeError::Pack(PackError::TooManyShots { shots: 2000 }));
        assert_eq!(json!(refusal.values), json!({ "shots": 2000, "limit": MAX_SHOTS }));
    }

    #[test]
    fn a_reason_is_what_the_system_said() {
        let full = StoreError::Write { path: "state".into(), source: std::io::Error::other("the disk is full") };
        let refusal = Refusal::from(&full);
        assert_eq!((refusal.code, &refusal.values["reason"]), (ErrorCode::Storage, &json!("the disk is full")));
        assert_eq!(refusal.sentence, "cannot write the state state: the disk is full");
    }
}

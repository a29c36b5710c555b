//! What goes wrong, in codes for programs, each with the status of its answer.

use std::fmt;

use axum::http::StatusCode;
use serde::Serialize;

/// What is said about a code beside its name.
struct CodeDescription {
    meaning: &'static str,
    status: StatusCode,
    values: &'static [&'static str],
}

/// The codes, each with its meaning, the status of an answer that has it, and the values that its sentence names.
macro_rules! codes {
    ($(#[doc = $meaning:literal] $code:ident: $status:ident $(, $value:literal)*;)+) => {
        /// Why a request is refused or a change fails. A name that is published keeps its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(#[doc = $meaning] $code,)+
        }

        impl ErrorCode {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$code),+];

            const DESCRIPTIONS: &[CodeDescription] = &[
                $(CodeDescription { meaning: $meaning, status: StatusCode::$status, values: &[$($value),*] }),+
            ];
        }
    };
}

codes! {
    /// The request cannot be understood, or asks for something that makes no sense.
    BadRequest: BAD_REQUEST;
    /// The token is missing, or is another one.
    Unauthorized: UNAUTHORIZED;
    /// A page of another site sent the request.
    CrossOrigin: FORBIDDEN;
    /// The request is for a host that is not this service.
    HostNotAllowed: MISDIRECTED_REQUEST;
    /// There is no such path.
    UnknownPath: NOT_FOUND;
    /// The path takes other methods.
    MethodNotAllowed: METHOD_NOT_ALLOWED, "allowed";
    /// The path takes bodies of other types.
    UnsupportedMediaType: UNSUPPORTED_MEDIA_TYPE, "expected";
    /// The path takes no bodies that are compressed like this, or none at all.
    UnsupportedEncoding: UNSUPPORTED_MEDIA_TYPE, "expected";
    /// The body has more bytes than the path takes, or the request takes more memory than `--picture-memory` grants one.
    BodyTooLarge: PAYLOAD_TOO_LARGE, "limit";
    /// The body did not arrive in time.
    BodyTimeout: REQUEST_TIMEOUT;
    /// The connection ended before the body did, or a chunk of the body is malformed.
    BodyIncomplete: BAD_REQUEST;

    /// Too much is going on. Ask again.
    TooManyRequests: TOO_MANY_REQUESTS;
    /// The queue of changes is full. Ask again later.
    TooManyChanges: TOO_MANY_REQUESTS, "limit";
    /// Too many backups are being sent. Ask again when one has arrived.
    TooManyBackups: TOO_MANY_REQUESTS, "limit";
    /// Another backup or pack is being written. Ask again.
    TransferBusy: TOO_MANY_REQUESTS;
    /// What is known changed meanwhile. Ask again.
    StateChanged: TOO_MANY_REQUESTS;
    /// The service is stopping.
    ShuttingDown: SERVICE_UNAVAILABLE;
    /// The thread that answers failed and starts again. Ask again.
    InferenceRestarted: SERVICE_UNAVAILABLE;
    /// A thread is down, or the state cannot be used. `GET status` says why.
    Degraded: SERVICE_UNAVAILABLE;
    /// A backbone is still being opened. Ask again.
    BackboneBusy: SERVICE_UNAVAILABLE;
    /// The backbone cannot be run.
    BackboneFailed: INTERNAL_SERVER_ERROR, "reason";
    /// A file cannot be read or written.
    Storage: INTERNAL_SERVER_ERROR, "reason";
    /// The service failed. Its log says why.
    Internal: INTERNAL_SERVER_ERROR;

    /// The file is no picture.
    NotAPicture: BAD_REQUEST;
    /// The picture is in a format that cannot be read.
    UnsupportedPicture: BAD_REQUEST, "format";
    /// The picture is damaged or cut off.
    PictureDamaged: BAD_REQUEST, "reason";
    /// The picture has more pixels than any picture may.
    PictureTooLarge: BAD_REQUEST;
    /// Decoding the picture takes more memory than `--picture-memory` grants one picture.
    PictureMemory: PAYLOAD_TOO_LARGE, "needed_mib", "limit_mib";

    /// No class may have this label.
    InvalidLabel: BAD_REQUEST, "label";
    /// Another class has this label.
    LabelTaken: CONFLICT, "label";
    /// No class has this label.
    UnknownClass: NOT_FOUND, "label";
    /// The class came with the bundle, so it cannot be changed or exported.
    BaseClass: CONFLICT, "label";
    /// The class has another label now.
    ClassRenamed: CONFLICT, "label", "now";
    /// A change of this class waits or is being made.
    ClassBusy: CONFLICT, "label", "job";
    /// There are fewer free targets than new classes. Forget a class first.
    NoFreeTarget: CONFLICT, "wanted", "free";

    /// There are no shots of this label to learn.
    NothingToLearn: CONFLICT, "label";
    /// No shots of this label wait to be learned.
    NoPendingShots: NOT_FOUND, "label";
    /// There is no such shot among those that wait to be learned.
    UnknownPendingShot: NOT_FOUND, "label", "shot";
    /// The class does not have the stored shot, or not any more.
    UnknownStoredShot: NOT_FOUND, "label";
    /// Too many shots wait to be learned. Learn or remove some first.
    ShotsFull: CONFLICT, "limit";
    /// The class would have more shots than a class may.
    TooManyShots: CONFLICT, "label", "shots", "limit";
    /// The shot is the last one of its class. Forget the class instead.
    LastShot: CONFLICT, "label";
    /// The shot belongs to this class already.
    SameClass: CONFLICT, "label";
    /// No picture of the shot or sighting is kept.
    NoPicture: NOT_FOUND;

    /// No change can be undone.
    NothingToUndo: CONFLICT;
    /// No change can be redone.
    NothingToRedo: CONFLICT;
    /// The history does not have the entry, or not any more.
    UnknownEntry: NOT_FOUND, "entry";
    /// Another change was made since the one that was meant.
    HistoryChanged: CONFLICT, "entry", "last";

    /// The job is not remembered.
    UnknownJob: NOT_FOUND, "job";
    /// Another change or program has locked the state. Ask again.
    StateBusy: SERVICE_UNAVAILABLE;
    /// What is stored is damaged, gone, or of another bundle or release.
    StateUnusable: INTERNAL_SERVER_ERROR, "reason";
    /// The bundle is an older release than the device has used.
    OlderRelease: CONFLICT, "release", "used";
    /// Old classes would have lost more than the forgetting budget.
    ForgettingBudget: CONFLICT, "budget", "classes";
    /// The bundle has no border between base and learned classes that could be moved.
    NoBorder: CONFLICT;
    /// The head cannot be trained with these settings.
    TrainingFailed: INTERNAL_SERVER_ERROR, "reason";
    /// The service was stopped before the change was made.
    Cancelled: SERVICE_UNAVAILABLE;
    /// The thread that makes changes failed before the change was saved. Ask again.
    ChangeInterrupted: INTERNAL_SERVER_ERROR;
    /// The thread that makes changes failed. Whether the change was saved is unknown.
    OutcomeUnknown: INTERNAL_SERVER_ERROR, "reason";
    /// The change failed, and its error named a class that was purged since.
    Purged: GONE;

    /// Nothing was learned, so there is nothing to back up.
    NothingToBackUp: CONFLICT;
    /// The backup cannot be written.
    BackupFailed: INTERNAL_SERVER_ERROR, "reason";
    /// No pack may have this label. Rename the class first.
    LabelNotExportable: CONFLICT, "label";
    /// The class has no exemplars left to export.
    NoExemplars: CONFLICT, "label";
    /// The file is no pack, or is damaged.
    PackDamaged: BAD_REQUEST;
    /// The pack is of a version that cannot be read.
    PackVersion: BAD_REQUEST, "version", "supported";
    /// The pack holds more shots than a class may have.
    PackTooManyShots: BAD_REQUEST, "shots", "limit";
    /// The pack is not signed, but must be.
    PackUnsigned: FORBIDDEN;
    /// The pack is signed with another key than the configured one.
    PackOtherKey: FORBIDDEN;
    /// The pack or its signature was altered after signing.
    PackAltered: FORBIDDEN;
    /// The pack was made with another bundle.
    OtherBundle: CONFLICT, "bundle";

    /// The service has no camera of its own.
    NoCamera: NOT_FOUND;
    /// The camera is not there. The service keeps trying.
    CameraUnavailable: SERVICE_UNAVAILABLE, "reason";
    /// The camera has not given a picture yet. Ask again.
    CameraStarting: SERVICE_UNAVAILABLE;
    /// The camera gives no new frames. Ask again.
    CameraStalled: TOO_MANY_REQUESTS;
    /// The camera's frames take more memory than `--picture-memory` grants one picture.
    CameraFramesTooLarge: SERVICE_UNAVAILABLE, "needed_mib", "limit_mib";
    /// A picture of the camera cannot be read.
    CameraPictureUnreadable: BAD_GATEWAY, "reason";
    /// The frame of the camera is not held any more. Take another shot.
    CameraFrameExpired: NOT_FOUND, "frame";
    /// No region has this name.
    UnknownRegion: NOT_FOUND, "region";
    /// The region is too small in the camera's frames.
    RegionTooSmall: CONFLICT;
    /// The place in view is empty. Put the thing there.
    NothingInView: CONFLICT;
    /// The empty place was not shown.
    NoScene: NOT_FOUND;
    /// A view of the empty place is black.
    SceneDark: CONFLICT, "view";
    /// A view of the empty place is clipped to white.
    SceneBright: CONFLICT, "view";
    /// A view of the empty place has only one colour.
    SceneFlat: CONFLICT, "view";
    /// Something is in a view of the empty place that the others do not show; if there are regions, only these count.
    SceneNotEmpty: CONFLICT, "view";
    /// The views do not show one empty place.
    SceneUnusable: CONFLICT;

    /// The inbox does not have this picture, or not any more.
    UnknownInboxPicture: NOT_FOUND, "frame";
    /// The service keeps no sightings.
    NoSightings: NOT_FOUND;
    /// The service has another model, or another version of it.
    UnknownModel: NOT_FOUND, "model", "version";
}

impl ErrorCode {
    /// When it happens, in a sentence or two.
    pub fn meaning(self) -> &'static str {
        self.description().meaning.trim_start()
    }

    /// The status of a refusal.
    pub fn status(self) -> StatusCode {
        self.description().status
    }

    /// Names of the values that its sentence names.
    pub fn values(self) -> &'static [&'static str] {
        self.description().values
    }

    fn description(self) -> &'static CodeDescription {
        // Both lists are made of the same rows, in the same order.
        &Self::DESCRIPTIONS[self as usize]
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::ErrorCode;
    use crate::page;

    /// A row of the table: code, status, values, meaning.
    fn row(code: &ErrorCode) -> String {
        let values: Vec<String> = code.values().iter().map(|value| format!("`{value}`")).collect();
        format!("| `{code}` | {} | {} | {} |", code.status().as_u16(), values.join(", "), code.meaning())
    }

    #[test]
    fn the_book_lists_every_code() {
        let page =
            fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/reference/http.md")).unwrap();
        let table = page.lines().skip_while(|line| !line.starts_with("| code |")).skip(2);
        let listed: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
        let expected: Vec<String> = ErrorCode::ALL.iter().map(row).collect();
        assert_eq!(listed, expected, "the table of docs/src/reference/http.md should be\n{}", expected.join("\n"));
    }

    /// Not as `enum`: clients that are generated from one fail on a code of a later release.
    #[test]
    fn the_openapi_document_lists_every_code_and_allows_others() {
        let document: Value = serde_json::from_str(page::OPENAPI).unwrap();
        let schema = &document["components"]["schemas"]["ErrorCode"];
        assert_eq!(schema["x-extensible-enum"], json!(ErrorCode::ALL));
        assert_eq!(schema["enum"], Value::Null);
    }
}

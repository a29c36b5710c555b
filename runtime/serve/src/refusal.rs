//! Why the service refuses a request, and what its caller is told.

mod code;
mod conversion;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use orco_runtime::encoder::EncodeError;
use orco_runtime::state::sentence::with_causes;
use orco_runtime::state::session::LearnError;
use serde::Serialize;
use serde_json::{Value, json};

pub use self::code::ErrorCode;

/// Most characters that are kept of the beginning of a decoder's message, and of its end.
const MAX_TOLD_CHARS: usize = 256;

/// A decoder's message that names the number it expected in people's words: it names Rust's type, such as `u64`.
fn with_plain_numbers(said: &str) -> String {
    let Some((found, expected)) = said.rsplit_once(", expected ") else {
        return said.to_owned();
    };
    let (kind, place) = expected.split_at(expected.find(' ').unwrap_or(expected.len()));
    let kind = match kind {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, at least 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        kind => kind,
    };
    format!("{found}, expected {kind}{place}")
}

/// Why a request is refused, or a change fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Refusal {
    /// What was wrong and what to do, for people.
    #[serde(rename = "error")]
    pub sentence: String,
    /// The same for programs.
    pub code: ErrorCode,
    /// What the sentence names, by the names that the code gives ([`ErrorCode::values`]).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<&'static str, Value>,
}

impl Refusal {
    /// A refusal, for now without values.
    pub fn new(code: ErrorCode, sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), code, values: BTreeMap::new() }
    }

    /// Adds a value that the sentence names.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        debug_assert!(self.code.values().contains(&name), "{} has no value \"{name}\"", self.code);
        self.values.insert(name, value.into());
        self
    }

    /// Says first what could not be done.
    #[must_use]
    pub(crate) fn about(self, deed: &str) -> Self {
        Self { sentence: format!("{deed}: {}", self.sentence), ..self }
    }

    /// Adds its members to an object of JSON: `error`, `code` and, where there are some, `values`.
    pub(crate) fn add_to(&self, object: &mut Value) {
        if let (Value::Object(object), Value::Object(members)) = (object, json!(self)) {
            object.extend(members);
        }
    }

    /// The status of its answer.
    pub fn status(&self) -> StatusCode {
        self.code.status()
    }

    /// The request makes no sense.
    pub fn bad_request(sentence: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, sentence)
    }

    /// A part of the request cannot be decoded. Decoders quote what they did not expect, which may be a whole picture,
    /// so a long message is shortened to its beginning and its end.
    pub(crate) fn not_understood(part: &str, error: &dyn fmt::Display) -> Self {
        let said = with_plain_numbers(&error.to_string());
        let count = said.chars().count();
        let told: String = if count > 2 * MAX_TOLD_CHARS {
            let (beginning, end) = (said.chars().take(MAX_TOLD_CHARS), said.chars().skip(count - MAX_TOLD_CHARS));
            beginning.chain(['…']).chain(end).collect()
        } else {
            said
        };
        Self::bad_request(format!("{part}: {told}"))
    }

    /// Too much is going on; it may be asked again.
    pub fn too_many_requests(sentence: impl Into<String>) -> Self {
        Self::new(ErrorCode::TooManyRequests, sentence)
    }

    /// The body has more bytes than are taken.
    pub fn too_large(limit: usize) -> Self {
        Self::body_limit(limit, format!("the body is too large: at most {limit} bytes are taken"))
    }

    /// As [`Refusal::too_large`], in other words.
    pub(crate) fn body_limit(limit: usize, sentence: impl Into<String>) -> Self {
        Self::new(ErrorCode::BodyTooLarge, sentence).with("limit", limit)
    }

    /// The connection ended before the body did, or a chunk of the body is malformed.
    pub fn body_incomplete() -> Self {
        let sentence = "the connection ended before the whole body had arrived, or a chunk of the body is malformed";
        Self::new(ErrorCode::BodyIncomplete, sentence)
    }

    /// The service failed at it.
    pub fn internal(sentence: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, sentence)
    }

    /// A file cannot be read or written; `error` says which.
    pub fn storage(error: &(dyn Error + 'static)) -> Self {
        Self::new(ErrorCode::Storage, with_causes(error)).with("reason", conversion::reason(error))
    }

    /// The service ends.
    pub fn stopping() -> Self {
        Self::new(ErrorCode::ShuttingDown, "the service is stopping")
    }

    /// The thread that was to answer panicked, and is started again.
    pub fn answer_lost() -> Self {
        let sentence = "the answer was lost, since the thread that answers failed; try again";
        Self::new(ErrorCode::InferenceRestarted, sentence)
    }

    /// No class has the label.
    pub fn unknown_class(label: &str) -> Self {
        Self::from(&LearnError::UnknownLabel { label: label.into() })
    }

    /// No shots of the label wait to be learned.
    pub(crate) fn no_shots(label: &str) -> Self {
        Self::new(ErrorCode::NoPendingShots, format!("there are no shots of \"{label}\"")).with("label", label)
    }

    /// Nothing was learned.
    pub(crate) fn nothing_to_back_up() -> Self {
        Self::new(ErrorCode::NothingToBackUp, "nothing was learned, so there is nothing to back up")
    }

    /// The backup cannot be written.
    pub(crate) fn no_backup(error: &(dyn Error + 'static)) -> Self {
        let why = with_causes(error);
        Self::new(ErrorCode::BackupFailed, format!("no backup: {why}")).with("reason", why)
    }
}

/// The sentence.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl Error for Refusal {}

impl From<EncodeError> for Refusal {
    fn from(error: EncodeError) -> Self {
        Self::from(&error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
            }
            _ => {}
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backbone_that_is_being_opened_may_be_asked_again() {
        let response = Refusal::from(EncodeError::Busy).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(response.headers().contains_key(header::RETRY_AFTER));
        let response = Refusal::from(EncodeError::Run("out of memory".into())).into_response();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!response.headers().contains_key(header::RETRY_AFTER));
    }

    #[test]
    fn a_refusal_is_a_sentence_a_code_and_what_the_sentence_names() {
        let said =
            json!({ "error": "no class has the label \"mug\"", "code": "unknown_class", "values": { "label": "mug" } });
        assert_eq!(json!(Refusal::unknown_class("mug")), said);
        let said = json!({ "error": "the service is stopping", "code": "shutting_down" });
        assert_eq!(json!(Refusal::stopping()), said, "there are no values to name");
    }

    #[test]
    fn a_program_passes_a_refusal_on_as_an_error() {
        let error: Box<dyn Error + Send + Sync> = Refusal::unknown_class("mug").into();
        assert_eq!(error.to_string(), "no class has the label \"mug\"");
    }
}

//! The handlers of requests, one file for each thing that they are about.

pub mod camera;
pub mod changes;
pub mod classes;
pub mod classify;
pub mod events;
pub mod inbox;
pub mod inference;
pub mod jobs;
pub mod metrics;
mod picture;
pub mod regions;
pub mod scene;
pub mod shots;
pub mod sightings;
pub mod status;
pub mod stored_shots;
pub mod transfer;

use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{self, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderName, header};
use orco_runtime::state::label;
use orco_runtime::state::session::LearnError;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};

use crate::blocking::blocking;
use crate::refusal::{ErrorCode, Refusal};

/// Has a proxy such as nginx pass a stream on as it comes: it would hold back what does not fill its buffer.
const UNBUFFERED: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

/// Says that an answer is a JPEG.
const JPEG: (HeaderName, &str) = (header::CONTENT_TYPE, "image/jpeg");

/// JSON without the byte order mark that Windows' programs begin their files with (RFC 8259, section 8.1).
fn without_mark(json: &[u8]) -> &[u8] {
    json.strip_prefix("\u{feff}".as_bytes()).unwrap_or(json)
}

/// The JSON body of a request; one that is not understood is refused in a sentence.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let bytes = Bytes::from_request(request, state).await.map_err(|_| Refusal::body_incomplete())?;
        object(&bytes).map(Self)
    }
}

/// The JSON object that a body holds. A hub reads the requests of its administrators by it, too.
///
/// # Errors
/// [`Refusal`] if it holds none, or one that is not understood.
pub fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let Ok(text) = std::str::from_utf8(without_mark(body)) else {
        return Err(Refusal::bad_request(
            "the request is not in UTF-8: Windows PowerShell needs the content type \"application/json; \
             charset=utf-8\" for that",
        ));
    };
    // The decoder would take a list for an object, or name a type of ours.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Refusal::bad_request("the request must be a JSON object: {...}"));
    }
    serde_json::from_str(text).map_err(|error| Refusal::not_understood("the request", &error))
}

/// A value, or its default where it is `null`, as some clients write fields that they leave empty. A field that may be
/// left out needs `default` beside it; one of an `Option` takes both by itself.
fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The query of an address, after the `?`; a field that is not known is refused in a sentence, like all that is not
/// understood.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = extract::Query::from_request_parts(parts, state).await;
        query.map(|extract::Query(query)| Self(query)).map_err(|error| {
            let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            Refusal::not_understood("the query", &cause)
        })
    }
}

/// `true` or `false` in a query, in upper or lower case: Python's `requests` writes `True`. Clients in PHP write `1`
/// and `0`.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("true") || is("1") {
        return Ok(true);
    }
    if is("false") || is("0") {
        return Ok(false);
    }
    Err(D::Error::custom(format!("\"{text}\" must be true or false")))
}

/// A whole number in a query.
fn whole_number<'de, D: Deserializer<'de>, N: FromStr>(deserializer: D) -> Result<N, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = if is_number { "is too large a number" } else { "must be a whole number, at least 0" };
    text.parse().map_err(|_| D::Error::custom(format!("\"{text}\" {wrong}")))
}

/// The variable parts of a path, such as a label; one that is not understood is refused in a sentence.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = extract::Path::from_request_parts(parts, state).await;
        path.map(|extract::Path(path)| Self(path)).map_err(|error| path_refusal(&error))
    }
}

/// What is said of a path whose variable parts are not understood.
fn path_refusal(error: &PathRejection) -> Refusal {
    if let PathRejection::FailedToDeserializePathParams(failure) = error {
        match failure.kind() {
            ErrorKind::InvalidUtf8InPathParam { key } => {
                return Refusal::bad_request(format!(
                    "the {key} in the path is not in UTF-8: an \"ü\" is written %C3%BC there, for example"
                ));
            }
            // Our own sentence, of an id.
            ErrorKind::DeserializeError { message, .. } => return Refusal::bad_request(message),
            _ => {}
        }
    }
    let is_ours = error.status().is_server_error();
    Refusal::new(if is_ours { ErrorCode::Internal } else { ErrorCode::BadRequest }, error.body_text())
}

/// A label in its normal form, if it is one that a class may have.
///
/// # Errors
/// [`Refusal`] if it is not.
pub(crate) fn usable_label(label: &str) -> Result<String, Refusal> {
    let normal = label::normal(label);
    if label::is_usable(&normal) {
        return Ok(normal);
    }
    Err(Refusal::from(&LearnError::BadLabel { label: normal }))
}

/// A label for a class.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewLabel {
    pub(crate) label: String,
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_number_that_is_none_is_refused_without_the_name_of_a_type() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Numbers {
            #[serde(rename = "frame")]
            _frame: Option<u64>,
            #[serde(rename = "at")]
            _at: Option<[f64; 2]>,
        }
        let sentence = |body: &str| object::<Numbers>(body.as_bytes()).unwrap_err().sentence;
        for (body, said) in [
            (
                r#"{"frame": "7"}"#,
                "invalid type: string \"7\", expected a whole number, at least 0 at line 1 column 13",
            ),
            (
                r#"{"frame": -1}"#,
                "invalid value: integer `-1`, expected a whole number, at least 0 at line 1 column 12",
            ),
            (r#"{"at": ["0", 1]}"#, "invalid type: string \"0\", expected a number at line 1 column 11"),
            (r#"{"at": 1}"#, "invalid type: integer `1`, expected an array of length 2 at line 1 column 8"),
            (r#"{"to": 1}"#, "unknown field `to`, expected `frame` or `at` at line 1 column 5"),
        ] {
            assert_eq!(sentence(body), format!("the request: {said}"));
        }
    }

    /// Clients in PHP refuse every label if the pattern has a `\u`, which PCRE does not know. They match bytes, so a
    /// range above ASCII would exclude parts of letters such as `à`.
    #[test]
    fn the_openapi_document_says_which_ascii_characters_no_label_holds_in_a_pattern_that_php_reads() {
        let document: Value = serde_json::from_str(crate::page::OPENAPI).unwrap();
        let pattern = r"^[^\x00-\x1f=\x7f]+$";
        assert_eq!(document["components"]["schemas"]["Label"]["pattern"], pattern);
        for c in '\0'..='\u{ff}' {
            let excluded = matches!(c, '\0'..='\u{1f}' | '=' | '\u{7f}'..='\u{a0}' | '\u{ad}');
            assert_eq!(usable_label(&format!("m{c}g")).is_err(), excluded, "{c:?}");
        }
    }

    /// Generators make a set of a list whose items are unique: it loses the order of regions, the first of which
    /// answers for the frame, and in TypeScript does not take a list.
    #[test]
    fn the_openapi_document_has_no_sets() {
        assert!(!crate::page::OPENAPI.contains("uniqueItems"));
    }

    /// Without a type, generators write clients in Go, Java and TypeScript that do not compile.
    #[test]
    fn every_constant_of_the_openapi_document_has_a_type() {
        fn check(value: &Value) {
            match value {
                Value::Array(values) => values.iter().for_each(check),
                Value::Object(fields) => {
                    assert!(!fields.contains_key("const") || fields.contains_key("type"), "{value}");
                    fields.values().for_each(check);
                }
                _ => {}
            }
        }
        check(&serde_json::from_str(crate::page::OPENAPI).unwrap());
    }

    /// The integers of a part of the document, each with the name of its property, header or parameter. `name` is that
    /// of the part.
    fn integers<'a>(value: &'a Value, name: &'a str, found: &mut Vec<(&'a str, &'a Value)>) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| integers(value, name, found)),
            Value::Object(fields) => {
                if value["type"] == "integer" {
                    found.push((name, value));
                }
                // A parameter says its name beside its schema.
                let name = value["name"].as_str().unwrap_or(name);
                for (key, value) in fields {
                    let is_of_name = key == "schema" || key == "oneOf";
                    integers(value, if is_of_name { name } else { key.as_str() }, found);
                }
            }
            _ => {}
        }
    }

    /// Clients in Go and Java would keep what the service counts in 64 bits, such as the number of a frame, in 32.
    #[test]
    fn the_openapi_document_gives_integers_of_64_bits_as_many() {
        let document: Value = serde_json::from_str(crate::page::OPENAPI).unwrap();
        let mut found = Vec::new();
        integers(&document, "", &mut found);
        for wide in
            ["Orco-Frame", "after", "frame", "frames", "id", "opened", "seconds", "seconds_since_1970", "unreadable"]
        {
            let mut schemas = found.iter().filter(|(name, _)| *name == wide).peekable();
            assert!(schemas.peek().is_some(), "{wide}");
            schemas.for_each(|(_, schema)| assert_eq!(schema["format"], "int64", "{wide}: {schema}"));
        }
    }
}

//! Why the service cannot be started, and why it refuses a request.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use orco_runtime::encoder::EncodeError;
use orco_runtime::learner::OpenLearnerError;
use orco_runtime::state::sentence::with_causes;
use serde_json::json;

/// Why the service cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The bundle or the state cannot be used.
    #[error(transparent)]
    Learner(#[from] OpenLearnerError),
    /// The backbone cannot be started.
    #[error("the backbone cannot be started")]
    Encode(#[from] EncodeError),
    /// A thread or the runtime of the network cannot be started.
    #[error("cannot start the service's threads: {}", advised(.0))]
    Threads(io::Error),
    /// The process may not have the threads that it needs.
    #[error("cannot start the service's threads, of which it needs {needed} more: {}", advised(reason))]
    TooFewThreads {
        /// How many are needed.
        needed: usize,
        /// What the system said.
        reason: io::Error,
    },
    /// The process may not have the files that it needs.
    #[error(
        "the process may have {limit} open files, which leaves too few for connections: raise the limit (ulimit -n, or \
         LimitNOFILE= of the unit)"
    )]
    TooFewFiles {
        /// How many it may have.
        limit: u64,
    },
    /// A thread broke off before it worked.
    #[error("the thread \"{thread}\" broke off while it was started: {why}")]
    BrokeOff {
        /// Its name.
        thread: &'static str,
        /// What it said.
        why: String,
    },
    /// A thread broke off again and again; the service has ended.
    #[error("the service ends: {0}; start it anew")]
    Broken(String),
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// On an address that others reach, callers must have a token.
    #[error("{address} can be reached from other machines: name a file for the token that they must give")]
    NoToken {
        /// The address.
        address: SocketAddr,
    },
    /// The token's file cannot be read or made.
    #[error("cannot use the token file {}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read the token's file.
    #[error("others may read the token file {}: take that right from them (chmod 600)", path.display())]
    TokenOpen {
        /// The file.
        path: PathBuf,
    },
    /// The token's file holds something else.
    #[error("{} holds no token of 64 hexadecimal digits: remove it, and a new one is made", path.display())]
    TokenForm {
        /// The file.
        path: PathBuf,
    },
    /// Others may read the certificate's key.
    #[error("others may read the key {}: take that right from them (chmod 600)", path.display())]
    KeyOpen {
        /// The file.
        path: PathBuf,
    },
    /// The camera can never be one.
    #[error("{0}")]
    Camera(String),
    /// The folder of sightings cannot be used.
    #[error("cannot keep sightings in {}: {reason}", path.display())]
    Sightings {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificate or its key cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate and key cannot be used together.
    #[error("the certificate and its key cannot be used: {0}")]
    Tls(rustls::Error),
}

/// What the system said, and what to do where it has no more threads.
fn advised(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            format!("{error}; allow the process more (ulimit -u, or TasksMax= of the unit)")
        }
        _ => error.to_string(),
    }
}

/// Why a request is refused: a status and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// What was wrong and what to do.
    pub sentence: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(status: StatusCode, sentence: impl Into<String>) -> Self {
        Self { status, sentence: sentence.into() }
    }

    /// What was asked for does not make sense.
    pub fn bad_request(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, sentence)
    }

    /// There is no such thing.
    pub fn not_found(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, sentence)
    }

    /// It contradicts what is going on or known.
    pub fn conflict(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, sentence)
    }

    /// Too much is waiting; it may be tried again.
    pub fn too_many_requests(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, sentence)
    }

    /// The body has more bytes than are taken.
    pub fn too_large(limit: usize) -> Self {
        let sentence = format!("the body is too large: at most {limit} bytes are taken");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, sentence)
    }

    /// The service failed at it.
    pub fn internal(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, sentence)
    }

    /// The service ends.
    pub fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the service is stopping")
    }

    /// The thread that was to answer broke off, and is started again.
    pub fn answer_lost() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the answer was lost, since the thread that answers broke off; try again",
        )
    }
}

impl From<EncodeError> for Refusal {
    /// A backbone that is still being opened is no failure: it may be asked again.
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            error => Self::internal(with_causes(&error)),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({ "error": self.sentence }))).into_response();
        let headers = response.headers_mut();
        match self.status {
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
}

//! Plain HTTP at a port that speaks TLS: redirects to the same address under https.

use std::convert::Infallible;
use std::future::{Ready, ready};

use axum::http::uri::{Authority, PathAndQuery};
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Whether a connection that begins with this byte speaks TLS: its first record is a handshake (RFC 8446, section 5.1).
pub(crate) fn is_tls(first: u8) -> bool {
    first == 0x16
}

/// Answers every request with its address under https, and ends the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpsRedirect;

impl<B> hyper::service::Service<Request<B>> for HttpsRedirect {
    type Response = Response;
    type Error = Infallible;
    type Future = Ready<Result<Response, Infallible>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        ready(Ok(answer(&request)))
    }
}

fn answer<B>(request: &Request<B>) -> Response {
    const SENTENCE: &str = "This port speaks https: write https:// in front of the address.\n";
    let headers = [
        (header::CONNECTION, "close"),
        // With another certificate, or none, the port may speak plain HTTP next time.
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
    ];
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let path = request.uri().path_and_query().map(PathAndQuery::as_str).filter(|path| path.starts_with('/'));
    match host {
        Some(host) => {
            let location = format!("https://{host}{}", path.unwrap_or("/"));
            (StatusCode::TEMPORARY_REDIRECT, headers, [(header::LOCATION, location)], SENTENCE).into_response()
        }
        None => (StatusCode::BAD_REQUEST, headers, SENTENCE).into_response(),
    }
}

//! The definition of a route: path, method, body, and whether it needs the token.

use std::fmt;
use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use orco_runtime::image::MAX_FILE;
use tower_http::compression::CompressionLayer;

use crate::service::Service;
use crate::transfer::MAX_PACK;

/// Most bytes of JSON without tensors.
pub(crate) const MAX_JSON_BYTES: usize = 64 << 10;

/// What body a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// None. One that comes is dropped: some clients send one with every request.
    None,
    /// JSON.
    Json,
    /// JSON, or nothing: clients of the Open Inference Protocol ask so, and name no type.
    OptionalJson,
    /// A JPEG, PNG or WebP file.
    Picture,
    /// A pack, a class in a file.
    Pack,
    /// JSON, with or without binary tensors behind it, as the Open Inference Protocol has it.
    Tensors,
}

impl BodyKind {
    /// Most bytes of a body of that content type.
    pub fn limit(self, content_type: &str) -> usize {
        let is_json = content_type.eq_ignore_ascii_case("application/json");
        match self {
            Self::None | Self::Json | Self::OptionalJson => MAX_JSON_BYTES,
            Self::Picture => MAX_FILE as usize,
            Self::Pack => MAX_PACK,
            // A picture of 12 MiB in Base64, or a thousand long feature vectors; what is larger goes as it is.
            Self::Tensors if is_json => (16 << 20) + MAX_JSON_BYTES,
            Self::Tensors => MAX_FILE as usize + MAX_JSON_BYTES,
        }
    }

    /// Content types that are taken.
    pub fn content_types(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Json | Self::OptionalJson => &["application/json"],
            // What a picture is shows in its bytes; many clients name no better type for a file.
            // Some write `image/jpg`, though there is no such type.
            Self::Picture => &["image/jpeg", "image/jpg", "image/png", "image/webp", "application/octet-stream"],
            Self::Pack => &["application/octet-stream"],
            Self::Tensors => &["application/json", "application/octet-stream"],
        }
    }

    /// Whether it is what clients of the Open Inference Protocol send: they may leave the content type out, and
    /// compress the body.
    pub fn is_of_inference_protocol(self) -> bool {
        matches!(self, Self::OptionalJson | Self::Tensors)
    }
}

/// A route, and its handler.
#[derive(Clone)]
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path, as axum and OpenAPI write it.
    pub path: &'static str,
    /// What body it takes.
    pub body: BodyKind,
    /// Whether it is served without the token, where there is one: what shows nothing of what is known.
    pub open: bool,
    /// Whether it takes a query.
    pub query: bool,
    /// What answers it.
    pub(crate) handler: MethodRouter<Arc<Service>>,
}

impl Route {
    /// A route that reads.
    pub(crate) fn get<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<Service>>) -> Self {
        Self::new(Method::GET, MethodFilter::GET, path, BodyKind::None, handler)
    }

    /// A route that takes a body.
    pub(crate) fn post<T: 'static>(path: &'static str, body: BodyKind, handler: impl Handler<T, Arc<Service>>) -> Self {
        Self::new(Method::POST, MethodFilter::POST, path, body, handler)
    }

    /// A route that changes a part of something, as JSON says.
    pub(crate) fn patch<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<Service>>) -> Self {
        Self::new(Method::PATCH, MethodFilter::PATCH, path, BodyKind::Json, handler)
    }

    /// A route that removes something.
    pub(crate) fn delete<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<Service>>) -> Self {
        Self::new(Method::DELETE, MethodFilter::DELETE, path, BodyKind::None, handler)
    }

    fn new<T: 'static>(
        method: Method,
        filter: MethodFilter,
        path: &'static str,
        body: BodyKind,
        handler: impl Handler<T, Arc<Service>>,
    ) -> Self {
        Self { method, path, body, open: false, query: false, handler: on(filter, handler) }
    }

    /// Takes a query.
    pub(crate) fn with_query(self) -> Self {
        Self { query: true, ..self }
    }

    /// Needs no token. Takes any query, since links to pages carry all kinds.
    pub(crate) fn without_token(self) -> Self {
        Self { open: true, query: true, ..self }
    }

    /// Compresses its answers for clients that accept gzip.
    pub(crate) fn compressed(self) -> Self {
        Self { handler: self.handler.layer(CompressionLayer::new()), ..self }
    }

    /// Whether it may change something.
    pub fn mutates(&self) -> bool {
        self.method != Method::GET
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({:?}, open: {}, query: {})", self.method, self.path, self.body, self.open, self.query)
    }
}

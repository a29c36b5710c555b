//! Checks every request before a handler sees it: host, origin, token, size and time of the body.
//!
//! The caller to fear is a page of another site, open in a browser that reaches this service. `Sec-Fetch-Site` and
//! `Origin` give it away; `Host` does where it makes the browser take this service for its own host. It may not even
//! embed a picture: whether that loads tells which classes exist.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use tokio::task;

use crate::admission::BodyPermit;
use crate::blocking::blocking;
use crate::compression::Compression;
use crate::metric::RequestMetric;
use crate::page::PAGE;
use crate::refusal::{ErrorCode, Refusal};
use crate::route::{BodyKind, Route};
use crate::service::Service;
use crate::token::{self, Token};

/// Most bytes of a refused body that are read, so that its sender sees the answer.
const MAX_DISCARDED_BYTES: usize = 64 << 20;
/// Longest time for which a refused body is read.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest pause that the sender of a refused body may make.
const MAX_DISCARD_PAUSE: Duration = Duration::from_secs(1);

/// Checks requests by its rules; all handlers share it.
#[derive(Clone)]
pub struct Guard(Arc<GuardRules>);

/// The rules by which a [`Guard`] checks requests.
pub struct GuardRules {
    /// What is guarded.
    pub service: Arc<Service>,
    /// What callers from other machines must give, if anything.
    pub token: Option<Token>,
    /// Whether the service listens on the loopback address alone: then only that is a host, else any address.
    pub loopback: bool,
    /// Names that are hosts in both cases.
    pub host_names: Vec<String>,
    /// Time within which a body must be there.
    pub body_timeout: Duration,
    /// Who may ask for what.
    pub routes: &'static [Route],
}

impl Guard {
    /// Guards a service by these rules.
    pub fn new(rules: GuardRules) -> Self {
        Self(Arc::new(rules))
    }

    /// The service.
    pub fn service(&self) -> &Arc<Service> {
        &self.0.service
    }
}

/// Hands a request on, its body read, or refuses it; counts both.
pub async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let rules = &guard.0;
    let (parts, body) = request.into_parts();
    let mut body = IncomingBody::of(&parts.headers, body);
    let response = match rules.admit(path.as_deref(), parts, &mut body).await {
        Ok(request) => next.run(request).await,
        Err(refusal) => {
            if refusal.code != ErrorCode::BodyTimeout {
                body.discard();
            }
            let is_wrong_method = refusal.code == ErrorCode::MethodNotAllowed;
            let mut response = refusal.into_response();
            if is_wrong_method
                && let Ok(allowed) = HeaderValue::from_str(&rules.allowed_methods(path.as_deref()).join(", "))
            {
                response.headers_mut().insert(header::ALLOW, allowed);
            }
            response
        }
    };
    count(&rules.service, path.unwrap_or_default(), &response);
    response
}

/// Refuses a request for an unknown path, and counts it.
pub async fn no_such_path(State(service): State<Arc<Service>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    IncomingBody::of(&parts.headers, body).discard();
    let sentence = "there is no such path: GET /api/v1/openapi.json lists all";
    let response = Refusal::new(ErrorCode::UnknownPath, sentence).into_response();
    count(&service, "none".into(), &response);
    response
}

fn count(service: &Service, route: String, response: &Response) {
    let answered = RequestMetric { route, status: response.status().as_u16() };
    service.metrics.requests.get_or_create(&answered).inc();
}

/// A body as it comes.
struct IncomingBody {
    stream: BodyDataStream,
    /// Whether the sender asks first whether the body is wanted, and has not sent it: the first look at it says yes.
    is_held_back: bool,
}

impl IncomingBody {
    fn of(headers: &HeaderMap, body: Body) -> Self {
        Self { stream: body.into_data_stream(), is_held_back: headers.contains_key(header::EXPECT) }
    }

    /// Its next piece.
    async fn next(&mut self) -> Option<Result<Bytes, Refusal>> {
        self.is_held_back = false;
        Some(self.stream.next().await?.map_err(|_| Refusal::body_incomplete()))
    }

    /// Reads what is left of it, if its sender sends that.
    fn discard(self) {
        if !self.is_held_back {
            task::spawn(discard(self.stream));
        }
    }
}

/// Reads what is left of a refused body and keeps nothing of it: were the connection closed meanwhile, most clients
/// would report that, and not the answer (RFC 9112, section 9.6).
async fn discard(mut body: BodyDataStream) {
    let mut left = MAX_DISCARDED_BYTES;
    let all = async {
        while let Ok(Some(Ok(chunk))) = tokio::time::timeout(MAX_DISCARD_PAUSE, body.next()).await {
            match left.checked_sub(chunk.len()) {
                Some(less) => left = less,
                None => return,
            }
        }
    };
    // What takes longer, or is more, ends with the connection.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, all).await;
}

impl GuardRules {
    /// Checks who asks for what, then reads the body.
    async fn admit(&self, path: Option<&str>, parts: Parts, body: &mut IncomingBody) -> Result<Request, Refusal> {
        let headers = &parts.headers;
        let host = self.host(&parts)?;
        check_origin(headers, host.as_ref())?;
        check_site(headers, path == Some(PAGE) && parts.method == Method::GET)?;
        // What may be got may be asked for its head alone.
        let method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
        let route = self.routes.iter().find(|route| Some(route.path) == path && route.method == *method);
        let Some(route) = route else {
            // A path that is served, by another method.
            let allowed = self.allowed_methods(path);
            let sentence = format!("this path does not support this method; it supports {}", allowed.join(", "));
            return Err(Refusal::new(ErrorCode::MethodNotAllowed, sentence).with("allowed", allowed));
        };
        self.check_token(route, headers)?;
        if !route.query && parts.uri.query().is_some_and(|query| !query.is_empty()) {
            return Err(Refusal::bad_request("this path takes no query: leave out the \"?\" and what follows"));
        }
        let body = self.read_body(route.body, headers, body).await?;
        Ok(Request::from_parts(parts, Body::from(body)))
    }

    /// The body of a request, decompressed; empty where the route takes none.
    async fn read_body(&self, kind: BodyKind, headers: &HeaderMap, body: &mut IncomingBody) -> Result<Bytes, Refusal> {
        let limit = kind.limit(check_content_type(kind, headers)?);
        let compression = compression(kind, headers)?;
        let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let most = announced.unwrap_or(limit);
        let late = |_| Refusal::new(ErrorCode::BodyTimeout, "the body did not arrive in time");
        if kind == BodyKind::None {
            if most > limit {
                return Err(no_body(limit));
            }
            tokio::time::timeout(self.body_timeout, drop_all(body, limit)).await.map_err(late)??;
            return Ok(Bytes::new());
        }
        if most > limit {
            return Err(Refusal::too_large(limit));
        }
        let permit = self.service.admission.body();
        permit.check(announced.unwrap_or(0))?;
        let mut bytes = tokio::time::timeout(self.body_timeout, read(body, most, permit)).await.map_err(late)??;
        if let Some(compression) = compression {
            let permit = self.service.admission.body_beside(bytes.len());
            bytes = blocking(move || compression.expand(&bytes, limit, permit)).await??;
        }
        Ok(bytes)
    }

    /// The methods that a path takes, in the order of the alphabet.
    fn allowed_methods(&self, path: Option<&str>) -> Vec<&str> {
        let of_path = self.routes.iter().filter(|route| Some(route.path) == path);
        let mut methods: Vec<&str> = of_path.map(|route| route.method.as_str()).collect();
        if methods.contains(&Method::GET.as_str()) {
            methods.push(Method::HEAD.as_str());
        }
        methods.sort_unstable();
        methods
    }

    /// The host that the request is for, which must be this one. Clients of HTTP/1.0 need not name it, such as probes
    /// of load balancers; browsers do.
    fn host(&self, parts: &Parts) -> Result<Option<Authority>, Refusal> {
        let not_allowed = || {
            let sentence = "this service does not answer for that host: if the name is its own, start it with \
                            --host-name NAME";
            Refusal::new(ErrorCode::HostNotAllowed, sentence)
        };
        let mut hosts = parts.headers.get_all(header::HOST).iter();
        let in_header = match (hosts.next(), hosts.next()) {
            (Some(host), None) => Some(host),
            (None, _) if parts.version == Version::HTTP_10 => None,
            _ => return Err(Refusal::bad_request("an HTTP/1.1 request must have exactly one Host header")),
        };
        let parsed = |host: &HeaderValue| -> Option<Authority> { without_zone(host.to_str().ok()?).parse().ok() };
        // A request to a proxy names the host in its address, which goes before `Host` (RFC 9112, section 3.2.2).
        let host = match (parts.uri.authority(), in_header) {
            (Some(in_address), _) => in_address.clone(),
            (None, Some(in_header)) => parsed(in_header).ok_or_else(not_allowed)?,
            (None, None) => return Ok(None),
        };
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        let own = match name.parse::<IpAddr>() {
            Ok(address) => !self.loopback || address.is_loopback(),
            Err(_) => is_same_name(name, "localhost"),
        };
        let named = self.host_names.iter().any(|known| is_same_name(name, known));
        if own || named { Ok(Some(host)) } else { Err(not_allowed()) }
    }

    fn check_token(&self, route: &Route, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = self.token.as_ref().filter(|_| !route.open) else { return Ok(()) };
        match token::bearer(headers) {
            Some(given) if token.is(given) => Ok(()),
            Some(_) => Err(Refusal::new(ErrorCode::Unauthorized, "this is not the token of this service")),
            None => Err(Refusal::new(ErrorCode::Unauthorized, "this needs the token: Authorization: Bearer TOKEN")),
        }
    }
}

/// A host without the zone of a link-local address, as in `[fe80::1%eth0]:8080`: it says over which network the client
/// reaches this machine, and is no part of a URI's host here.
fn without_zone(host: &str) -> Cow<'_, str> {
    let zone = host.strip_prefix('[').and_then(|rest| rest.split_once('%'));
    match zone.and_then(|(address, zone)| Some((address, zone.split_once(']')?.1))) {
        Some((address, port)) => format!("[{address}]{port}").into(),
        None => host.into(),
    }
}

/// Whether two names are those of one host. A dot at the end says that nothing is to be added to the name.
fn is_same_name(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|name| name.strip_suffix('.').unwrap_or(name));
    one.eq_ignore_ascii_case(other)
}

fn cross_origin() -> Refusal {
    Refusal::new(ErrorCode::CrossOrigin, "pages of other sites may not ask this service")
}

/// What a browser says of the page that makes it ask (Fetch Metadata): this service's own, or none. A link from another
/// site may open the page itself, since that shows the other site nothing. Programs send none of these headers, nor
/// do browsers to an address that is neither https nor this machine's own, where the token keeps pages out.
fn check_site(headers: &HeaderMap, is_page: bool) -> Result<(), Refusal> {
    let opens_page = is_page
        && headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
        && headers.get("sec-fetch-dest").is_some_and(|destination| destination == "document");
    let is_own = |site: &HeaderValue| site == "same-origin" || site == "none";
    if opens_page || headers.get_all("sec-fetch-site").iter().all(is_own) { Ok(()) } else { Err(cross_origin()) }
}

/// A page that asks must be this service's own.
fn check_origin(headers: &HeaderMap, host: Option<&Authority>) -> Result<(), Refusal> {
    for origin in headers.get_all(header::ORIGIN) {
        let origin: Uri = origin.to_str().ok().and_then(|origin| origin.parse().ok()).ok_or_else(cross_origin)?;
        let is_web = matches!(origin.scheme_str(), Some("http" | "https"));
        let same = origin
            .authority()
            .zip(host)
            .is_some_and(|(origin, host)| origin.as_str().eq_ignore_ascii_case(host.as_str()));
        if !is_web || !same {
            return Err(cross_origin());
        }
    }
    Ok(())
}

/// The content type, if the route takes it; clients of the Open Inference Protocol may leave it out. Where there may be
/// no body and is none, it says nothing: axios and `curl -d ''` then name that of forms.
fn check_content_type(kind: BodyKind, headers: &HeaderMap) -> Result<&str, Refusal> {
    let types = kind.content_types();
    let may_be_left_out = kind.is_of_inference_protocol() && !headers.contains_key(header::CONTENT_TYPE);
    if may_be_left_out || (kind == BodyKind::OptionalJson && has_no_body(headers)) {
        return Ok("");
    }
    let given = headers.get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    if types.is_empty() || types.iter().any(|known| known.eq_ignore_ascii_case(essence)) {
        return Ok(essence);
    }
    let sentence = format!("the content type must be {}", types.join(" or "));
    Err(Refusal::new(ErrorCode::UnsupportedMediaType, sentence).with("expected", types))
}

/// Whether a request says that it has no body (RFC 9112, section 6.3).
fn has_no_body(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    !headers.contains_key(header::TRANSFER_ENCODING) && length.is_none_or(|length| length == "0")
}

/// How the body is compressed, if it is, and the route takes that.
fn compression(kind: BodyKind, headers: &HeaderMap) -> Result<Option<Compression>, Refusal> {
    let Some(given) = headers.get(header::CONTENT_ENCODING) else { return Ok(None) };
    let name = given.to_str().unwrap_or_default().trim();
    if name.is_empty() || name.eq_ignore_ascii_case("identity") {
        return Ok(None);
    }
    let refused = |sentence: &str, expected: &[&str]| {
        Err(Refusal::new(ErrorCode::UnsupportedEncoding, sentence).with("expected", expected))
    };
    match Compression::of(name) {
        _ if !kind.is_of_inference_protocol() => refused("this path takes no compressed body", &[]),
        None => refused("a body may be compressed with gzip or deflate, once", &["gzip", "deflate"]),
        known => Ok(known),
    }
}

fn no_body(limit: usize) -> Refusal {
    Refusal::body_limit(limit, "this path takes no body: leave it out")
}

/// Reads a body that the path does not take, and keeps nothing of it: it may be an empty object, which some clients
/// send with every request.
async fn drop_all(body: &mut IncomingBody, limit: usize) -> Result<(), Refusal> {
    let mut left = limit;
    while let Some(chunk) = body.next().await {
        left = left.checked_sub(chunk?.len()).ok_or_else(|| no_body(limit))?;
    }
    Ok(())
}

/// A body of at most `most` bytes. It takes memory as it arrives: a client that announces much and sends little keeps
/// nobody out.
async fn read(body: &mut IncomingBody, most: usize, mut permit: BodyPermit) -> Result<Bytes, Refusal> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk?;
        let wanted = bytes.len() + chunk.len();
        if wanted > most {
            return Err(Refusal::too_large(most));
        }
        permit.grow(&mut bytes, wanted, most)?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(permit.holding(bytes))
}

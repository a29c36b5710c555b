//! Cameras that are asked over HTTP: Motion JPEG, or one picture after another.

use std::io::{self, Read};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orco_runtime::image::{self, ImageError};
use percent_encoding::percent_decode_str;
use ureq::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body, BodyReader, Timeout};
use url::Url;

use crate::deadline::{DeadlineReader, PICTURE_TIME, SILENCE};
use crate::error::{CameraError, StreamError};
use crate::frame::{CameraPicture, MAX_PICTURE_BYTES};
use crate::motion_jpeg::completed;
use crate::multipart::Multipart;
use crate::redirect;
use crate::source::OpenSource;
use crate::stop::Stop;

/// How long after one single picture the next is fetched.
const FETCH_EVERY: Duration = Duration::from_millis(200);
/// How often in a row a camera may name another address.
const MAX_REDIRECTS: u32 = 3;

pub(crate) struct HttpSource {
    agent: Agent,
    url: String,
    stop: Stop,
    body: HttpBody,
}

enum HttpBody {
    Stream(Multipart<DeadlineReader<BodyReader<'static>>>),
    /// The last picture that was fetched.
    Single(Option<Vec<u8>>),
}

impl HttpSource {
    pub fn open(url: &str, stop: &Stop) -> Result<Self, CameraError> {
        let config = Agent::config_builder()
            .timeout_resolve(Some(SILENCE))
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            // `ask` follows redirects itself, on the camera alone.
            .max_redirects(0)
            // `refusal` reads the answer for what is wrong.
            .http_status_as_error(false)
            // Whatever proxy the environment names: a camera is asked directly.
            .proxy(None)
            .user_agent(concat!("orco/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = Agent::new_with_config(config);
        let handle = agent.clone();
        stop.on_set(move || handle.shutdown());
        let body = ask(&agent, url)?;
        Ok(Self { agent, url: url.into(), stop: stop.clone(), body })
    }
}

/// An address, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct HttpAddress {
    /// The address without name and password.
    url: Url,
    /// Name and password, as basic authentication sends them (RFC 7617).
    authorization: Option<String>,
}

/// The `Authorization` header for the name and password in an address (RFC 7617); none where the address has neither.
/// In the address they may be percent-encoded, as `@`, `:` and `/` must be.
pub fn basic_authorization(address: &str) -> Option<String> {
    authorization_in(&Url::parse(address).ok()?)
}

fn authorization_in(url: &Url) -> Option<String> {
    let (name, password) = (url.username(), url.password());
    (!name.is_empty() || password.is_some()).then(|| {
        let mut sent: Vec<u8> = percent_decode_str(name).collect();
        sent.push(b':');
        sent.extend(percent_decode_str(password.unwrap_or_default()));
        format!("Basic {}", STANDARD.encode(sent))
    })
}

impl HttpAddress {
    fn of(address: &str) -> Result<Self, CameraError> {
        let mut url = Url::parse(address).map_err(|error| CameraError::InvalidAddress(error.into()))?;
        let authorization = authorization_in(&url);
        // Addresses with a host, as these have, may hold both or neither.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        Ok(Self { url, authorization })
    }
}

/// Asks an address and follows redirects, each with the address's name and password: they never leave the camera.
fn ask(agent: &Agent, url: &str) -> Result<HttpBody, CameraError> {
    let mut url = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let HttpAddress { url: asked, authorization } = HttpAddress::of(&url)?;
        let mut request = agent.get(asked.as_str());
        let has_password = authorization.is_some();
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let response = request.call().map_err(request_error)?;
        if !response.status().is_redirection() {
            return pictures_of(response, has_password);
        }
        let location = response.headers().get("location").and_then(|location| location.to_str().ok());
        url = redirect::target(&url, location.ok_or(CameraError::RedirectWithoutAddress)?)?;
    }
    Err(CameraError::TooManyRedirects(MAX_REDIRECTS))
}

/// The pictures in an answer: a stream of them, or one. `has_password` says whether the request had a name and
/// password.
fn pictures_of(response: Response<Body>, has_password: bool) -> Result<HttpBody, CameraError> {
    if !response.status().is_success() {
        return Err(refusal(&response, has_password));
    }
    let given = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let given = given.to_owned();
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let body = response.into_body().into_with_config().limit(u64::MAX).reader();
    let body = DeadlineReader::new(body, PICTURE_TIME);
    match essence.as_str() {
        kind if kind.starts_with("multipart/") => {
            let parameters = given.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
            let boundary = parameters.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"));
            Ok(HttpBody::Stream(match boundary {
                Some((_, boundary)) => Multipart::new(body, boundary),
                None => Multipart::with_any_boundary(body),
            }))
        }
        kind => {
            let mut body = Multipart::with_any_boundary(body);
            let start = body.start().map_err(read_error)?;
            if start.starts_with(b"--") {
                return Ok(HttpBody::Stream(body));
            }
            // Cameras send pictures under many names, and under none. A film is not read to its end.
            let may_be_picture = kind.is_empty() || kind.starts_with("image/") || kind == "application/octet-stream";
            if !may_be_picture && !begins_as_picture(start) {
                return Err(CameraError::ContentType(kind.into()));
            }
            single_picture(body.into_stream(), kind)
        }
    }
}

/// Whether bytes may be those of a picture in a format that is read.
fn begins_as_picture(bytes: &[u8]) -> bool {
    !matches!(image::size(bytes), Err(ImageError::Format | ImageError::Empty | ImageError::Unsupported(_)))
}

/// A body that is said to be a picture of a kind that is read, or is one by its first bytes.
fn single_picture(body: impl Read, essence: &str) -> Result<HttpBody, CameraError> {
    let mut picture = Vec::new();
    body.take(MAX_PICTURE_BYTES as u64 + 1).read_to_end(&mut picture).map_err(read_error)?;
    if picture.len() > MAX_PICTURE_BYTES {
        return Err(StreamError::TooLarge.into());
    }
    // What else is wrong with a picture is told when it is decoded.
    if !image::MEDIA_TYPES.contains(&essence) && !begins_as_picture(picture.trim_ascii_start()) {
        let named = if essence.is_empty() { "nothing that it names" } else { essence };
        return Err(CameraError::ContentType(named.into()));
    }
    Ok(HttpBody::Single(Some(picture)))
}

/// Why a camera answers without pictures.
fn refusal(response: &Response<Body>, has_password: bool) -> CameraError {
    if response.status() != StatusCode::UNAUTHORIZED {
        return CameraError::Status(response.status().as_u16());
    }
    let challenges =
        response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|challenge| challenge.to_str().ok());
    // One header may hold several, each beginning with its scheme.
    let schemes: Vec<&str> =
        challenges.flat_map(|all| all.split(',')).filter_map(|part| part.split_whitespace().next()).collect();
    let wants = |wanted: &str| schemes.iter().any(|scheme| scheme.eq_ignore_ascii_case(wanted));
    match (wants("digest") && !wants("basic"), has_password) {
        (true, _) => CameraError::DigestAuthentication,
        (false, true) => CameraError::WrongPassword,
        (false, false) => CameraError::NoPassword,
    }
}

/// Why an address cannot be asked, or what it sends not be read.
fn request_error(error: ureq::Error) -> CameraError {
    match error {
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => CameraError::Unreachable(SILENCE),
        ureq::Error::Timeout(_) => CameraError::Silent(SILENCE),
        error => untrusted_certificate(&error).unwrap_or_else(|| CameraError::Http(error.into())),
    }
}

fn untrusted_certificate(error: &ureq::Error) -> Option<CameraError> {
    // As rustls says it.
    let said = error.to_string();
    let (_, why) = said.split_once("invalid peer certificate: ")?;
    Some(CameraError::UntrustedCertificate(why.into()))
}

/// Why a body cannot be read.
fn read_error(error: io::Error) -> CameraError {
    match ureq::Error::from(error) {
        ureq::Error::Io(error) => StreamError::Read(error).into(),
        other => request_error(other),
    }
}

impl OpenSource for HttpSource {
    fn next_picture(&mut self) -> Result<Option<CameraPicture>, CameraError> {
        let picture = match &mut self.body {
            HttpBody::Stream(parts) => {
                parts.stream_mut().restart(PICTURE_TIME);
                parts.next().map_err(|error| match error {
                    StreamError::Read(error) => read_error(error),
                    other => other.into(),
                })?
            }
            HttpBody::Single(picture) => match picture.take() {
                Some(picture) => picture,
                None => {
                    if !self.stop.wait(FETCH_EVERY) {
                        self.body = ask(&self.agent, &self.url)?;
                    }
                    return Ok(None);
                }
            },
        };
        Ok(Some(CameraPicture::File(completed(&picture).into_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_sent_as_they_are_meant() {
        for (address, url, sent) in [
            ("http://admin:p%40ss@door3/stream", "http://door3/stream", Some("admin:p@ss")),
            ("https://a%3Ab:%2f%23%3F%25@door3:8443/?x=1", "https://door3:8443/?x=1", Some("a:b:/#?%")),
            ("http://me:se@cret@door3/", "http://door3/", Some("me:se@cret")),
            ("http://me:100%@door3/", "http://door3/", Some("me:100%")),
            ("http://me@door3/", "http://door3/", Some("me:")),
            ("http://:secret@door3/", "http://door3/", Some(":secret")),
            ("http://door3/@stream", "http://door3/@stream", None),
        ] {
            let found = HttpAddress::of(address).unwrap();
            let authorization = sent.map(|sent| format!("Basic {}", STANDARD.encode(sent)));
            assert_eq!((found.url.as_str(), found.authorization), (url, authorization), "{address}");
        }
        let error = HttpAddress::of("http://admin:pass#1@door3/").unwrap_err();
        assert!(matches!(error, CameraError::InvalidAddress(_)) && !error.to_string().contains("pass"), "{error}");
    }

    #[test]
    fn who_has_a_camera_with_a_certificate_of_its_own_is_told_what_to_do() {
        let failed = |why: &str| request_error(io::Error::new(io::ErrorKind::InvalidData, why).into()).to_string();
        let told = failed("invalid peer certificate: UnknownIssuer");
        assert!(told.starts_with("its certificate is not trusted (UnknownIssuer); if it is self-signed"), "{told}");
        assert!(!failed("received corrupt message").contains("certificate"));
    }

    #[test]
    fn a_redirect_keeps_name_and_password_as_they_are_meant() {
        let address = "http://admin:p%40ss%25@door3/stream";
        for location in ["/moved", "http://door3/moved", "https://door3/moved"] {
            let moved = HttpAddress::of(&redirect::target(address, location).unwrap()).unwrap();
            assert_eq!(moved.authorization, HttpAddress::of(address).unwrap().authorization, "{location}");
            assert_eq!(moved.url.path(), "/moved", "{location}");
        }
    }
}

//! Cameras that are asked over HTTP: Motion JPEG, or one picture after another.

use std::io::{self, Read};
use std::time::Duration;

use orco_runtime::image::{self, ImageError};
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body, BodyReader, Timeout};

use crate::deadline::{DeadlineReader, PICTURE_TIME, SILENCE};
use crate::error::{CameraError, StreamError};
use crate::frame::{CameraPicture, MAX_PICTURE_BYTES};
use crate::http_address::HttpAddress;
use crate::motion_jpeg::completed;
use crate::multipart::Multipart;
use crate::redirect;
use crate::source::OpenSource;
use crate::stop::Stop;

/// How long after one single picture the next is fetched.
const FETCH_EVERY: Duration = Duration::from_millis(200);
/// How often in a row a camera may name another address.
const MAX_REDIRECTS: u32 = 3;

/// A camera that is asked over HTTP.
pub(crate) struct HttpSource {
    agent: Agent,
    url: String,
    stop: Stop,
    body: HttpBody,
}

enum HttpBody {
    Stream(Multipart<DeadlineReader<BodyReader<'static>>>),
    /// The last picture that was fetched, until it is taken.
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
        if response.status().is_success() {
            return pictures_of(response);
        }
        if !response.status().is_redirection() {
            return Err(refusal(&response, has_password));
        }
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        url = redirect::target(&url, location.ok_or(CameraError::RedirectWithoutAddress)?)?;
    }
    Err(CameraError::TooManyRedirects(MAX_REDIRECTS))
}

/// The pictures in an answer: a stream of them, or one.
fn pictures_of(response: Response<Body>) -> Result<HttpBody, CameraError> {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = boundary_of(content_type).map(str::to_owned);
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let body = response.into_body().into_with_config().limit(u64::MAX).reader();
    let body = DeadlineReader::new(body, PICTURE_TIME);
    if essence.starts_with("multipart/") {
        return Ok(HttpBody::Stream(match boundary {
            Some(boundary) => Multipart::new(body, &boundary),
            None => Multipart::with_any_boundary(body),
        }));
    }
    let mut body = Multipart::with_any_boundary(body);
    let start = body.start().map_err(read_error)?;
    if start.starts_with(b"--") {
        return Ok(HttpBody::Stream(body));
    }
    // Cameras send pictures under many names, and under none. A film is not read to its end.
    let may_be_picture = essence.is_empty() || essence.starts_with("image/") || essence == "application/octet-stream";
    if !may_be_picture && !begins_as_picture(start) {
        return Err(CameraError::ContentType(essence));
    }
    single_picture(body.into_stream(), &essence)
}

/// The boundary that a content type of several parts names.
fn boundary_of(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary")).map(|(_, boundary)| boundary)
}

/// Whether bytes may be those of a picture in a format that is read.
fn begins_as_picture(bytes: &[u8]) -> bool {
    !matches!(image::size(bytes), Err(ImageError::Format | ImageError::Empty | ImageError::Unsupported(_)))
}

/// Reads the only picture of a body. Refuses what is neither said to be of a format that is read, nor begins as one.
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

/// Why a camera answers without pictures; `has_password` says whether the request had a name or a password.
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

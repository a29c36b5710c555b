//! Requests of a device: numbered, signed, sent until a signed answer comes.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use orco_runtime::files;
use orco_runtime::state::escape::EscapedText;
use ureq::tls::{PemItem, RootCerts, TlsConfig};

use super::download::PartSize;
use super::error::SyncError;
use super::folder::DeviceFolder;
use super::observer::{SyncObserver, SyncStep, proceed};
use crate::protocol::{
    AnswerHead, BODY_HEADER, ByteRange, DEVICE_HEADER, Fingerprint, HUB_FIELD, HubRefusal, MAX_CHUNK, MAX_MESSAGE,
    ObjectDigest, RefusalKind, RequestHead, SEQUENCE_HEADER, SIGNATURE_HEADER, Signature, SigningKey, VerifyingKey,
    body_time, bounded,
};

/// Longest answer that is read, in bytes.
const MAX_ANSWER: u64 = if MAX_CHUNK > MAX_MESSAGE as u64 { 2 * MAX_CHUNK } else { 2 * MAX_MESSAGE as u64 };

/// Path of a probe, which needs no signature.
const LIVE_PATH: &str = "/v2/health/live";
/// How long a name may take to be looked up.
const RESOLVE_TIME: Duration = Duration::from_secs(10);
/// How long a connection may take to be established, TLS included. A hub that is switched off, or a firewall
/// before it, may say nothing at all. Where the network drops IPv6, ureq spends most of this time on the hub's IPv6
/// address.
const CONNECT_TIME: Duration = Duration::from_secs(20);

/// A request as it goes over the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireRequest {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Path and query.
    pub path: String,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Vec<u8>,
}

/// An answer as it comes over the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireAnswer {
    /// Status of HTTP.
    pub status: u16,
    /// The header of the signature.
    pub signature: Option<String>,
    /// Body.
    pub body: Vec<u8>,
}

/// No answer came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub String);

/// What carries requests to the hub. It need not be reliable: requests may get lost, or arrive twice.
pub trait Transport {
    /// Carries one.
    ///
    /// # Errors
    /// [`TransportError`] if no answer came; the request may have arrived all the same.
    fn exchange(&mut self, request: &WireRequest) -> Result<WireAnswer, TransportError>;
}

/// HTTP, or HTTPS where the address says so.
#[derive(Debug)]
pub struct HttpTransport {
    agent: ureq::Agent,
    url: String,
}

impl HttpTransport {
    /// To the hub at that address, such as `http://hub:8090`. By https, the hub's certificate must be that of a public
    /// authority.
    pub fn new(url: &str) -> Self {
        Self::with_tls(url, TlsConfig::default())
    }

    /// To a hub whose certificate a file of one's own vouches for: PEM, the hub's certificate itself or its
    /// authority's.
    ///
    /// # Errors
    /// [`SyncError::File`] if the file cannot be read or holds no certificate.
    pub fn with_certificates(url: &str, file: &Path) -> Result<Self, SyncError> {
        let bytes = files::read(file, files::MAX_PEM_BYTES).map_err(SyncError::file(file))?;
        let invalid = |reason: String| SyncError::File { path: file.into(), source: io::Error::other(reason) };
        let mut certificates = Vec::new();
        for item in ureq::tls::parse_pem(&bytes) {
            if let PemItem::Certificate(certificate) = item.map_err(|error| invalid(error.to_string()))? {
                certificates.push(certificate);
            }
        }
        if certificates.is_empty() {
            return Err(invalid("there is no certificate in it".into()));
        }
        let roots = RootCerts::Specific(Arc::new(certificates));
        Ok(Self::with_tls(url, TlsConfig::builder().root_certs(roots).build()))
    }

    /// Whether the hub answers; nothing is said of the device.
    ///
    /// # Errors
    /// [`SyncError::Unreachable`] if it does not, or something else does.
    pub fn probe(&mut self) -> Result<(), SyncError> {
        let request = WireRequest { method: "GET", path: LIVE_PATH.into(), headers: Vec::new(), body: Vec::new() };
        match self.exchange(&request) {
            Ok(WireAnswer { status: 200, body, .. }) if is_of_hub(&body) => Ok(()),
            Ok(WireAnswer { status: 200, .. }) => {
                Err(SyncError::Unreachable { reason: "another server answers at this address".into() })
            }
            Ok(WireAnswer { status, .. }) => Err(other_server(status)),
            Err(TransportError(reason)) => Err(SyncError::Unreachable { reason }),
        }
    }

    fn with_tls(url: &str, tls: TlsConfig) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_resolve(Some(RESOLVE_TIME))
            .timeout_connect(Some(CONNECT_TIME))
            .http_status_as_error(false)
            .max_redirects(0)
            .tls_config(tls);
        Self { agent: config.build().into(), url: url.trim_end_matches('/').into() }
    }

    /// What failed, and through which proxy: the variable that names it may have been set for other addresses.
    fn failure(&self, error: &ureq::Error) -> TransportError {
        let uri: ureq::http::Uri = self.url.parse().unwrap_or_default();
        let error = with_advice(error.to_string());
        TransportError(match self.agent.config().proxy().filter(|proxy| !proxy.is_no_proxy(&uri)) {
            Some(proxy) => format!(
                "{error}; it was asked through the proxy {}:{}, which an environment variable names; hosts in \
                 NO_PROXY are asked directly",
                proxy.host(),
                proxy.port()
            ),
            None => error,
        })
    }
}

/// What the network or TLS said, with advice where it names no more than the fault.
fn with_advice(said: String) -> String {
    let advice = if said.contains("UnknownIssuer") {
        "no trusted authority has signed it; name the file of the hub's certificate, or of its authority's \
         (--hub-ca-file)"
    } else if said.contains("certificate not valid yet") || said.contains("certificate expired") {
        "set this device's clock if it is wrong, else renew the hub's certificate"
    } else if said.contains("CaUsedAsEndEntity") {
        "it is an authority's, as OpenSSL makes them; give the hub one with basicConstraints=CA:FALSE"
    } else if said.contains("InvalidContentType") {
        "what listens there does not speak TLS; the address of a hub without a certificate begins with http://"
    } else {
        return said;
    };
    format!("{said}: {advice}")
}

impl Transport for HttpTransport {
    fn exchange(&mut self, request: &WireRequest) -> Result<WireAnswer, TransportError> {
        let failed = |error: ureq::Error| self.failure(&error);
        let url = format!("{}{}", self.url, request.path);
        let head = ureq::http::Request::builder().method(request.method).uri(url);
        let head = request.headers.iter().fold(head, |head, (name, value)| head.header(*name, value));
        let message = head.body(request.body.as_slice()).map_err(|error| TransportError(error.to_string()))?;
        let time = body_time(request.body.len());
        let message = self.agent.configure_request(message).timeout_global(Some(time)).build();
        let mut answer = self.agent.run(message).map_err(failed)?;
        let signature = answer.headers().get(SIGNATURE_HEADER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().map_err(failed)?;
        Ok(WireAnswer { status, signature, body })
    }
}

/// What is asked of the hub.
#[derive(Clone, Copy, Debug)]
pub(super) struct HubCall<'a> {
    pub method: &'static str,
    pub path: &'a str,
    pub range: Option<ByteRange>,
    pub body: &'a [u8],
}

impl<'a> HubCall<'a> {
    pub fn post(path: &'a str, body: &'a [u8]) -> Self {
        Self { method: "POST", path, range: None, body }
    }

    pub fn get(path: &'a str, range: ByteRange) -> Self {
        Self { method: "GET", path, range: Some(range), body: &[] }
    }
}

/// The key with which the hub's answers are verified.
#[derive(Clone, Copy, Debug)]
pub(super) enum HubKey {
    /// The key that the hub showed when the device enrolled.
    Known(VerifyingKey),
    /// While the device enrols: the first signed answer brings the key, which must have this fingerprint.
    Expected(Fingerprint),
}

/// How often and how soon a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often it is sent, at most.
    pub attempts: u32,
    /// Longest pause before it is sent the second time; twice as long before every further one. The pause is between
    /// half of that and all of it, by chance, so that devices that a hub failed at once do not ask again at once.
    pub pause: Duration,
}

impl Default for RetryPolicy {
    /// Four times within seven seconds.
    fn default() -> Self {
        Self { attempts: 4, pause: Duration::from_secs(1) }
    }
}

impl RetryPolicy {
    /// The pause before a request is sent for the `retry`-th time after the first, by a random number.
    fn pause_before(self, retry: u32, random: u32) -> Duration {
        let longest = self.pause * 2_u32.saturating_pow(retry.saturating_sub(1));
        longest.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
    }
}

/// A device's connection to its hub.
pub(super) struct HubConnection<'a> {
    pub transport: &'a mut dyn Transport,
    pub folder: &'a DeviceFolder,
    pub key: SigningKey,
    pub hub: HubKey,
    pub retry: RetryPolicy,
    /// Size of the next part of an object.
    pub part: PartSize,
    /// Whether the hub had seen the number of a message that this device had not sent yet.
    pub replayed: bool,
}

impl<'a> HubConnection<'a> {
    /// A connection over which nothing was sent yet.
    pub fn new(
        transport: &'a mut dyn Transport,
        folder: &'a DeviceFolder,
        key: SigningKey,
        hub: HubKey,
        retry: RetryPolicy,
    ) -> Self {
        Self { transport, folder, key, hub, retry, part: PartSize::default(), replayed: false }
    }

    /// Asks the hub, and returns the body of its answer. A lost sequence number, as after a restored backup, is caught
    /// up with.
    pub fn call(&mut self, call: HubCall<'_>, observer: &mut dyn SyncObserver) -> Result<Vec<u8>, SyncError> {
        match self.call_once(call, observer) {
            Err(SyncError::Refused { kind: RefusalKind::Replay { last }, .. }) => {
                // Signed by the hub, for this very request.
                self.replayed = true;
                self.folder.keep_sequence(last, observer)?;
                self.call_once(call, observer)
            }
            answered => answered,
        }
    }

    fn call_once(&mut self, call: HubCall<'_>, observer: &mut dyn SyncObserver) -> Result<Vec<u8>, SyncError> {
        let sequence = self.folder.sequence()?.saturating_add(1);
        // Before it is sent: a number that was sent and forgotten would be used twice.
        self.folder.keep_sequence(sequence, observer)?;
        let HubCall { method, path, range, body } = call;
        let device = self.key.verifying_key().device();
        let head = RequestHead {
            method: method.into(),
            path: path.into(),
            range,
            device,
            sequence,
            body: ObjectDigest::of(body),
        };
        let request = wire_request(&head, method, &head.sign(&self.key), body);
        let mut failed = SyncError::Unknown;
        for attempt in 0..self.retry.attempts {
            if attempt > 0 {
                // Without random numbers the pause is the longest.
                thread::sleep(self.retry.pause_before(attempt, getrandom::u32().unwrap_or(u32::MAX)));
            }
            proceed(observer, SyncStep::Send)?;
            failed = match self.transport.exchange(&request) {
                Err(TransportError(reason)) => SyncError::Unreachable { reason },
                Ok(answer) if self.is_signed(&head, &answer) => return read(answer),
                Ok(WireAnswer { status, .. }) => unsigned_answer(status),
            };
        }
        Err(failed)
    }

    fn is_signed(&self, head: &RequestHead, answer: &WireAnswer) -> bool {
        let Some(signature) = answer.signature.as_deref().and_then(Signature::parse) else { return false };
        let key = match self.hub {
            HubKey::Known(key) => key,
            HubKey::Expected(fingerprint) => {
                match serde_json::from_slice::<crate::protocol::EnrolmentAnswer>(&answer.body) {
                    Ok(enrolled) if enrolled.hub.fingerprint() == fingerprint => enrolled.hub,
                    _ => return false,
                }
            }
        };
        let body = ObjectDigest::of(&answer.body);
        AnswerHead { request: head.digest(), status: answer.status, body }.is_signed(&key, &signature)
    }
}

fn wire_request(head: &RequestHead, method: &'static str, signature: &Signature, body: &[u8]) -> WireRequest {
    let mut headers = vec![
        (DEVICE_HEADER, head.device.to_string()),
        (SEQUENCE_HEADER, head.sequence.to_string()),
        (BODY_HEADER, head.body.to_string()),
        (SIGNATURE_HEADER, signature.to_string()),
    ];
    headers.extend(head.range.map(|range| ("range", range.to_string())));
    WireRequest { method, path: head.path.clone(), headers, body: body.to_vec() }
}

/// The error of a request whose answer the hub did not sign.
fn unsigned_answer(status: u16) -> SyncError {
    // The hub itself answers strangers so.
    if status == 404 { SyncError::Unknown } else { other_server(status) }
}

/// Whether a hub answers a probe so.
fn is_of_hub(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|answer| answer[HUB_FIELD] == true)
}

/// The error of an answer that is none of the hub.
fn other_server(status: u16) -> SyncError {
    let reason = match status {
        // What speaks TLS calls a plain request a bad one.
        400 => "status 400 is no answer of it; the address of a hub with a certificate begins with https://".into(),
        413 => "a proxy before it refuses messages of this size, with status 413: have it pass bodies of 8 MiB".into(),
        401..=403 | 405..=510 => format!("it, or a proxy before it, failed with status {status}; its log says why"),
        _ => format!(
            "an answer of status {status} is not signed by it: another server may have this address, the network may \
             want somebody to log in, or the hub's address begins with https://"
        ),
    };
    SyncError::Unreachable { reason }
}

/// The body of a signed answer.
fn read(answer: WireAnswer) -> Result<Vec<u8>, SyncError> {
    if matches!(answer.status, 200 | 206) {
        return Ok(answer.body);
    }
    match serde_json::from_slice::<HubRefusal>(&answer.body) {
        // It goes to terminals and into reports.
        Ok(HubRefusal { kind, reason }) => {
            Err(SyncError::Refused { kind, reason: EscapedText(&bounded(&reason)).to_string() })
        }
        Err(error) => Err(SyncError::Answer { reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_differ_by_chance() {
        let retry = RetryPolicy::default();
        let milliseconds = |random| [1, 2, 3].map(|attempt| retry.pause_before(attempt, random).as_millis());
        assert_eq!(milliseconds(0), [500, 1_000, 2_000]);
        assert_eq!(milliseconds(u32::MAX), [1_000, 2_000, 4_000]);
        let between = milliseconds(u32::MAX / 2);
        assert!((749..=750).contains(&between[0]) && (2_998..=3_000).contains(&between[2]), "{between:?}");
    }

    #[test]
    fn who_has_a_certificate_that_is_refused_is_told_what_to_do() {
        // As rustls says it.
        let untrusted = |why: &str| with_advice(format!("io: invalid peer certificate: {why}"));
        assert!(untrusted("UnknownIssuer").ends_with("(--hub-ca-file)"));
        assert!(untrusted("Other(OtherError(CaUsedAsEndEntity))").ends_with("CA:FALSE"));
        for why in ["certificate not valid yet: verification time 345606 (UNIX)", "certificate expired: verification"] {
            assert!(untrusted(why).contains("set this device's clock"), "{why}");
        }
        let plain = with_advice("io: received corrupt message of type InvalidContentType".into());
        assert!(plain.ends_with("begins with http://"), "{plain}");
        assert_eq!(with_advice("io: Connection refused".into()), "io: Connection refused");
    }

    #[test]
    fn a_hub_that_refuses_says_so_in_one_line_of_some_length() {
        let refusal = HubRefusal { kind: RefusalKind::Invalid, reason: format!("no\nerror: {}", "x".repeat(1 << 20)) };
        let answer = WireAnswer { status: 422, signature: None, body: serde_json::to_vec(&refusal).unwrap() };
        let said = read(answer).unwrap_err().to_string();
        assert!(said.starts_with("the hub refuses: no\\u{a}error: xxx") && said.len() < 600, "{said}");
    }

    #[test]
    fn a_hub_that_says_nothing_is_soon_given_up() {
        let times = HttpTransport::new("http://hub:8090").agent.config().timeouts();
        assert_eq!([times.resolve, times.connect], [Some(RESOLVE_TIME), Some(CONNECT_TIME)]);
    }

    #[test]
    fn the_proxy_that_was_asked_is_named_without_its_password() {
        let request = WireRequest { method: "GET", path: "/".into(), headers: Vec::new(), body: Vec::new() };
        let said = |proxy: Option<ureq::Proxy>| {
            let agent = ureq::Agent::config_builder().proxy(proxy).build().into();
            let mut transport = HttpTransport { agent, url: "http://127.0.0.1:2".into() };
            transport.exchange(&request).unwrap_err().0
        };
        let by_proxy = said(Some(ureq::Proxy::new("http://me:secret@127.0.0.1:1").unwrap()));
        assert!(by_proxy.contains("the proxy 127.0.0.1:1,") && !by_proxy.contains("secret"), "{by_proxy}");
        let directly = said(None);
        assert!(!directly.contains("proxy"), "{directly}");
    }
}

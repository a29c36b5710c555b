//! Messages of devices.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::request_limit::{DeviceRequest, RequestLimit};
use super::{HEAD_TIMEOUT, HubService, blocking, not_found};
use crate::error::HubError;
use crate::protocol::{
    AnswerHead, BODY_HEADER, ByteRange, ChannelTarget, DEVICE_HEADER, DeviceId, DeviceReport, ENROL_PATH, Enrolment,
    MAX_CLASSES, MAX_ENROLMENT, MAX_LABEL, MAX_MESSAGE, MAX_PACK, MAX_PICTURE, MAX_RELEASES, MAX_TEXT, MAX_WARNINGS,
    OBJECTS_PATH, ObjectDigest, PACKS_PATH, REPORT_PATH, RefusalKind, RequestHead, SEQUENCE_HEADER, SIGNATURE_HEADER,
    Signature, body_time,
};
use crate::store::{HubStore, StoredAnswer, now};

/// Bytes of an answer that is sent again however often it is asked for: connections bound their memory.
const SHORT_ANSWER: usize = 64 << 10;

/// What a device asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceRoute {
    Enrol,
    Report,
    Pack,
    Picture { pack: ObjectDigest },
    Object { digest: ObjectDigest, range: ByteRange },
}

impl DeviceRoute {
    fn of(head: &RequestHead) -> Option<Self> {
        match (head.method.as_str(), head.path.as_str()) {
            ("POST", ENROL_PATH) => Some(Self::Enrol),
            ("POST", REPORT_PATH) => Some(Self::Report),
            ("POST", PACKS_PATH) => Some(Self::Pack),
            ("POST", path) => {
                let pack = path.strip_prefix(PACKS_PATH)?.strip_prefix('/')?.strip_suffix("/pictures")?;
                Some(Self::Picture { pack: ObjectDigest::parse(pack)? })
            }
            ("GET", path) => {
                let digest = ObjectDigest::parse(path.strip_prefix(OBJECTS_PATH)?.strip_prefix('/')?)?;
                Some(Self::Object { digest, range: head.range.unwrap_or(ByteRange { start: 0, last: u64::MAX }) })
            }
            _ => None,
        }
    }

    /// Bytes of a body at most.
    fn limit(self) -> usize {
        match self {
            Self::Enrol => MAX_ENROLMENT,
            Self::Report => MAX_MESSAGE,
            Self::Pack => MAX_PACK,
            Self::Picture { .. } => MAX_PICTURE,
            Self::Object { .. } => 0,
        }
    }
}

/// The route that a path of devices is of, as metrics name it, whatever the rest of the path is.
pub(super) fn route_name(path: &str) -> &'static str {
    let is_below = |parent: &str| path.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'));
    match path {
        ENROL_PATH => ENROL_PATH,
        REPORT_PATH => REPORT_PATH,
        PACKS_PATH => PACKS_PATH,
        _ if is_below(PACKS_PATH) => "/v1/packs/{pack}/pictures",
        _ if is_below(OBJECTS_PATH) => "/v1/objects/{digest}",
        _ => "none",
    }
}

/// Answers a device.
pub(super) async fn answer(State(hub): State<Arc<HubService>>, request: Request) -> Result<Response, Response> {
    let (parts, body) = request.into_parts();
    let (head, signature) = signed_head(&parts).ok_or_else(not_found)?;
    let route = DeviceRoute::of(&head).ok_or_else(not_found)?;
    let mut earlier = None;
    // An enrolment brings its own key; of all others the key is known.
    if route != DeviceRoute::Enrol {
        let head = head.clone();
        let find = move |store: &HubStore| {
            let key = store.device_key(&head.device)?.filter(|key| head.is_signed(key, &signature));
            key.map(|_| store.earlier_answer(&head)).transpose()
        };
        earlier = blocking(&hub, find).await?.ok_or_else(not_found)?;
    }
    let length =
        parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let time = body_time(length.unwrap_or(0).min(route.limit()));
    let counted = match limit_of(&hub, route, earlier.as_ref()) {
        Some(limit) => Some(limit.begin(head.device).ok_or_else(|| StatusCode::SERVICE_UNAVAILABLE.into_response())?),
        None => None,
    };
    let answer = match (earlier, route) {
        (Some(earlier), _) => {
            timeout(time, drop_all(body, route.limit())).await.ok().flatten().ok_or_else(not_found)?;
            earlier
        }
        // Strangers may send those: were there few places, they would take them. The bodies are short.
        (None, DeviceRoute::Enrol) => {
            first_answer(&hub, route, &head, signature, read(body, route, HEAD_TIMEOUT)).await?
        }
        (None, _) => {
            let _room = hub.bodies.acquire().await.map_err(|_| not_found())?;
            first_answer(&hub, route, &head, signature, read(body, route, time)).await?
        }
    };
    let answer = match route {
        DeviceRoute::Object { digest, range } if answer.status == 206 => {
            let part = blocking(&hub, move |store| store.objects().read_part(&digest, range)).await?;
            StoredAnswer { status: 206, body: part.bytes }
        }
        _ => answer,
    };
    Ok(signed(&hub, &head, answer, counted))
}

/// Which limit counts a request, if any does.
fn limit_of<'h>(hub: &'h HubService, route: DeviceRoute, earlier: Option<&StoredAnswer>) -> Option<&'h RequestLimit> {
    match (route, earlier) {
        // Nobody has proved yet that an enrolment is this device's.
        (DeviceRoute::Enrol, _) => None,
        (_, Some(answer)) if answer.status != 206 && answer.body.len() <= SHORT_ANSWER => None,
        // Whoever overheard a request may send it again, and must not take the places of the device's next ones.
        (_, Some(_)) => Some(&hub.repeat_limit),
        (_, None) => Some(&hub.request_limit),
    }
}

/// The answer to a request that did not come before, once its body is there.
async fn first_answer(
    hub: &Arc<HubService>,
    route: DeviceRoute,
    head: &RequestHead,
    signature: Signature,
    body: impl Future<Output = Option<Vec<u8>>>,
) -> Result<StoredAnswer, Response> {
    let body = body.await.filter(|body| ObjectDigest::of(body) == head.body).ok_or_else(not_found)?;
    let head = head.clone();
    blocking(hub, move |store| act(store, route, &head, &signature, &body)).await?.ok_or_else(not_found)
}

async fn read(body: Body, route: DeviceRoute, time: Duration) -> Option<Vec<u8>> {
    timeout(time, to_bytes(body, route.limit())).await.ok()?.ok().map(Into::into)
}

/// Reads a body and keeps nothing of it: were the connection closed meanwhile, the device would be told that, and not
/// the answer. None if it ends early, or has more bytes than may come.
async fn drop_all(mut body: Body, limit: usize) -> Option<()> {
    let mut left = limit;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        left = left.checked_sub(frame.ok()?.data_ref().map_or(0, Bytes::len))?;
    }
    Some(())
}

/// What a request's headers say, if they say all of it.
fn signed_head(parts: &Parts) -> Option<(RequestHead, Signature)> {
    let text = |headers: &HeaderMap, name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let range = match text(&parts.headers, header::RANGE.as_str()) {
        Some(range) => Some(ByteRange::parse(&range)?),
        None => None,
    };
    let known = [Method::GET, Method::POST].contains(&parts.method);
    let head = RequestHead {
        method: known.then(|| parts.method.to_string())?,
        path: parts.uri.path_and_query()?.as_str().to_owned(),
        range,
        device: text(&parts.headers, DEVICE_HEADER).and_then(|id| DeviceId::parse(&id))?,
        sequence: text(&parts.headers, SEQUENCE_HEADER)?.parse().ok()?,
        body: ObjectDigest::parse(&text(&parts.headers, BODY_HEADER)?)?,
    };
    Some((head, Signature::parse(&text(&parts.headers, SIGNATURE_HEADER)?)?))
}

/// Does what is asked, once.
fn act(
    store: &HubStore,
    route: DeviceRoute,
    head: &RequestHead,
    signature: &Signature,
    body: &[u8],
) -> Result<Option<StoredAnswer>, HubError> {
    match route {
        DeviceRoute::Enrol => match serde_json::from_slice::<Enrolment>(body) {
            Ok(enrolment) => store.enrol(head, signature, &enrolment, now()),
            Err(_) => Ok(None),
        },
        DeviceRoute::Report => report(store, head, body),
        DeviceRoute::Pack => store.receive_pack(head, body, now()),
        DeviceRoute::Picture { pack } => store.receive_picture(head, &pack, body, now()),
        DeviceRoute::Object { digest, .. } => store.answer_once(head, now(), |transaction| {
            if !HubStore::may_read(transaction, &head.device, &digest)? {
                return Ok(StoredAnswer::refusal(RefusalKind::Missing, "this device's channel holds no such object"));
            }
            if !store.objects().holds(&digest) {
                log::error!("the object {digest} is gone; restore it from a backup");
                return Ok(StoredAnswer::refusal(RefusalKind::Missing, format!("the hub lost the object {digest}")));
            }
            Ok(StoredAnswer::part())
        }),
    }
}

fn report(store: &HubStore, head: &RequestHead, body: &[u8]) -> Result<Option<StoredAnswer>, HubError> {
    let report = serde_json::from_slice::<DeviceReport>(body).ok().filter(is_bounded);
    store.answer_once(head, now(), |transaction| {
        let Some(mut report) = report else {
            return Ok(StoredAnswer::refusal(RefusalKind::Invalid, "this is no report, or it lists too much"));
        };
        let (pushed, pictured) = (std::mem::take(&mut report.pushed), std::mem::take(&mut report.pictured));
        report.nonce = None;
        HubStore::keep_report(transaction, &head.device, &report)?;
        let target = HubStore::target(transaction, &head.device, &report)?;
        let lost = store.lost_packs(transaction, &pushed)?;
        let lost_pictures = store.lost_pictures(transaction, &pictured)?;
        Ok(StoredAnswer::json(&ChannelTarget { lost, lost_pictures, ..target }))
    })
}

fn is_bounded(report: &DeviceReport) -> bool {
    let (health, short) = (&report.health, |text: &String| text.len() <= MAX_TEXT);
    report.classes.len() <= MAX_CLASSES
        && report.pushed.len() <= MAX_CLASSES
        && report.pictured.len() <= MAX_CLASSES
        && report.outcomes.len() <= 2 * MAX_RELEASES
        && health.warnings.len() <= MAX_WARNINGS
        && health.warnings.iter().chain([&report.version]).all(short)
        && report.bundle.iter().all(|bundle| short(&bundle.name))
        && report.outcomes.iter().all(|outcome| outcome.refused.iter().all(short))
        && report.classes.iter().all(|class| class.label.len() <= MAX_LABEL)
}

/// An answer with the hub's signature. A counted request is under way until its answer is sent.
fn signed(hub: &HubService, head: &RequestHead, answer: StoredAnswer, counted: Option<DeviceRequest>) -> Response {
    let StoredAnswer { status, body } = answer;
    let signature = AnswerHead { request: head.digest(), status, body: ObjectDigest::of(&body) }.sign(hub.store.key());
    let body = match counted {
        Some(request) => request.holding(body),
        None => body.into(),
    };
    let built = Response::builder()
        .status(StatusCode::from_u16(status).unwrap_or(StatusCode::OK))
        .header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
        .header(SIGNATURE_HEADER, signature.to_string())
        .body(Body::from(body));
    built.unwrap_or_else(|_| not_found())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ReportedBundle;

    #[test]
    fn a_bundle_of_a_report_has_a_short_name() {
        let report = |length: usize| {
            let (name, bundle_digest) = ("x".repeat(length), ObjectDigest::of(b""));
            let bundle = ReportedBundle { name, release: 1, bundle_digest };
            DeviceReport { bundle: Some(bundle), ..DeviceReport::default() }
        };
        assert!(is_bounded(&report(MAX_TEXT)) && !is_bounded(&report(MAX_TEXT + 1)));
    }
}

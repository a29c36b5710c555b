//! Requests of administrators, who have a token: `Authorization: Bearer TOKEN`. A browser that shows the page may send
//! it as the password of any user.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use orco_runtime::state::sentence::with_causes;
use orco_serve::token::bearer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{HubService, not_found};
use crate::error::HubError;
use crate::merge::{MergeError, SameLabel};
use crate::overview::FleetOverview;
use crate::page;
use crate::protocol::{MAX_ENROLMENT, ObjectDigest, ReleaseId};
use crate::rollout::{DEFAULT_CHANNEL, RolloutStage};
use crate::store::{HubStore, MAX_CODE_LIFETIME_HOURS, PackRelease, now};

type HubState = State<Arc<HubService>>;
/// The number in a path, of whatever form: a stranger must not learn that it was parsed.
type ReleaseNumber = Result<Path<i64>, PathRejection>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewCode {
    channel: Option<String>,
    hours: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRelease {
    packs: Vec<ObjectDigest>,
    channel: Option<String>,
    #[serde(rename = "percent")]
    stage: Option<RolloutStage>,
    same_label: Option<SameLabel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewStage {
    #[serde(rename = "percent")]
    stage: RolloutStage,
}

/// How long a code may be used where a request does not say.
const DEFAULT_HOURS: u32 = 24;

fn or_default(channel: Option<String>) -> String {
    channel.unwrap_or_else(|| DEFAULT_CHANNEL.into())
}

/// Whether a request brings the token.
pub(super) fn has_token(hub: &HubService, headers: &HeaderMap) -> bool {
    hub.token.as_ref().zip(bearer(headers)).is_some_and(|(token, given)| token.is(given))
}

/// The password of a request. Browsers send it by themselves, so only the page takes it for the token.
fn password(headers: &HeaderMap) -> Option<String> {
    let basic = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let pair = String::from_utf8(BASE64_STANDARD.decode(basic.trim()).ok()?).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}

pub(super) async fn page(State(hub): HubState, headers: HeaderMap) -> Result<Response, Response> {
    let Some(token) = &hub.token else { return Err(not_found()) };
    let may_enter = has_token(&hub, &headers) || password(&headers).is_some_and(|given| token.is(&given));
    if !may_enter {
        let ask = HeaderValue::from_static("Basic realm=\"OrCo hub\", charset=\"UTF-8\"");
        return Err((StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, ask)]).into_response());
    }
    let fleet = run(&hub, FleetOverview::of).await?;
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Browsers send the password wherever a page of another site embeds this one.
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    Ok((headers, Html(page::html(&fleet, now()))).into_response())
}

pub(super) async fn fleet(State(hub): HubState, headers: HeaderMap) -> Result<Response, Response> {
    if !has_token(&hub, &headers) {
        return Err(not_found());
    }
    Ok(json_response(&run(&hub, FleetOverview::of).await?))
}

pub(super) async fn new_code(State(hub): HubState, request: Request) -> Result<Response, Response> {
    let NewCode { channel, hours } = read(&hub, request).await?;
    let (channel, hours) = (or_default(channel), hours.unwrap_or(DEFAULT_HOURS));
    if !(1..=MAX_CODE_LIFETIME_HOURS).contains(&hours) {
        return Err(refused(&format!("\"hours\" must be from 1 to {MAX_CODE_LIFETIME_HOURS}")));
    }
    let lifetime = Duration::from_hours(hours.into());
    let code = run(&hub, move |store| store.new_code(&channel, lifetime, now())).await?;
    Ok(json_response(&json!({ "code": code.to_string() })))
}

pub(super) async fn release(State(hub): HubState, request: Request) -> Result<Response, Response> {
    let NewRelease { packs, channel, stage, same_label } = read(&hub, request).await?;
    let (channel, stage) = (or_default(channel), stage.unwrap_or(RolloutStage::First));
    let same_label = same_label.unwrap_or_default();
    if packs.is_empty() {
        return Err(refused("\"packs\" is empty: name at least one pack by its digest"));
    }
    let made = run(&hub, move |store| {
        let release = PackRelease { packs: &packs, channel: &channel, stage, same_label, key: None };
        store.release_packs(&release, now())
    });
    Ok(json_response(&json!({ "releases": made.await? })))
}

pub(super) async fn set_stage(
    State(hub): HubState,
    number: ReleaseNumber,
    request: Request,
) -> Result<Response, Response> {
    let NewStage { stage } = read(&hub, request).await?;
    let release = release_of(number).ok_or_else(no_release)?;
    run(&hub, move |store| store.set_stage(release, stage)).await?;
    Ok(json_response(&json!({})))
}

pub(super) async fn withdraw(
    State(hub): HubState,
    number: ReleaseNumber,
    headers: HeaderMap,
) -> Result<Response, Response> {
    if !has_token(&hub, &headers) {
        return Err(not_found());
    }
    let release = release_of(number).ok_or_else(no_release)?;
    run(&hub, move |store| store.withdraw(release)).await?;
    Ok(json_response(&json!({})))
}

/// The release that a path names.
fn release_of(number: ReleaseNumber) -> Option<ReleaseId> {
    number.ok().map(|Path(number)| ReleaseId(number))
}

fn no_release() -> Response {
    error_response(StatusCode::NOT_FOUND, "that is no release's number")
}

/// Reads the body of a request with the token.
async fn read<T: DeserializeOwned>(hub: &HubService, request: Request) -> Result<T, Response> {
    let (parts, body) = request.into_parts();
    if !has_token(hub, &parts.headers) {
        return Err(not_found());
    }
    let bytes = to_bytes(body, 16 * MAX_ENROLMENT).await.map_err(|error| refused(&error.to_string()))?;
    orco_serve::api::object(&bytes).map_err(|refusal| refused(&refusal.sentence))
}

/// Runs what changes or reads the store. What an administrator asked for in vain is said, unlike to devices.
async fn run<T: Send + 'static>(
    hub: &Arc<HubService>,
    run: impl FnOnce(&HubStore) -> Result<T, HubError> + Send + 'static,
) -> Result<T, Response> {
    let outcome = super::blocking(hub, move |store| Ok(run(store))).await?;
    outcome.map_err(|error| {
        let status = status_of(&error);
        if status.is_server_error() {
            log::error!("{}", with_causes(&error));
        }
        error_response(status, &sentence(&error))
    })
}

/// What is wrong, and which field of the request says what to do.
fn sentence(error: &HubError) -> String {
    let said = with_causes(error);
    match error {
        HubError::Merge(MergeError::Undecided { .. }) => format!("{said}: \"same_label\" says which"),
        _ => said,
    }
}

fn status_of(error: &HubError) -> StatusCode {
    match error {
        HubError::NoDevice { .. } | HubError::NoPack { .. } | HubError::NoRelease { .. } => StatusCode::NOT_FOUND,
        HubError::Database(_)
        | HubError::File { .. }
        | HubError::Full { .. }
        | HubError::Lost { .. }
        | HubError::LostPack { .. }
        | HubError::Moved { .. }
        | HubError::Unwritable { .. }
        | HubError::Damaged { .. }
        | HubError::Random => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

fn refused(reason: &str) -> Response {
    error_response(StatusCode::UNPROCESSABLE_ENTITY, reason)
}

fn error_response(status: StatusCode, reason: &str) -> Response {
    (status, Json(json!({ "error": reason }))).into_response()
}

fn json_response(value: &impl Serialize) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(value)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_a_field_of_the_request_and_no_option_of_the_program() {
        let undecided = HubError::from(MergeError::Undecided { label: "mug".into(), count: 2 });
        let said = sentence(&undecided);
        assert!(said.contains(r#""same_label" says which"#) && !said.contains("--"), "{said}");
        let said = sentence(&HubError::NoRelease { release: ReleaseId(9) });
        assert_eq!(said, "there is no release 9");
    }
}

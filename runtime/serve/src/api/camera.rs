//! What the service's own camera shows, and shots of it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_util::{StreamExt, stream};
use orco_runtime::scene::NamedRegion;
use orco_runtime::state::label;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{JPEG, JsonBody, Query, UNBUFFERED, blocking, null_as_default, shots, usable_label, whole_number};
use crate::admission::{Admitted, processing_bytes};
use crate::live::{LiveCamera, ObservedFrame};
use crate::pending_shots::Acceptance;
use crate::refusal::{ErrorCode, Refusal};
use crate::service::Service;
use crate::stream_end::StreamEnd;

/// How long a newer frame is waited for.
pub(super) const FRAME_TIMEOUT: Duration = Duration::from_secs(5);
/// After so long without a newer frame a stream shows the last one again: browsers show a picture when the next one
/// begins, and proxies end a connection on which nothing comes.
const REPEAT_INTERVAL: Duration = Duration::from_secs(1);
/// The header with the number of the frame that a picture shows.
const FRAME_NUMBER: HeaderName = HeaderName::from_static("orco-frame");

/// The service's own camera.
///
/// # Errors
/// [`Refusal`] if it has none.
pub(super) fn live(service: &Service) -> Result<&LiveCamera, Refusal> {
    let sentence = "this service has no camera of its own: start it with --camera SOURCE";
    service.live().ok_or_else(|| Refusal::new(ErrorCode::NoCamera, sentence))
}

/// Runs slow work that needs the camera on a thread for blocking work.
pub(super) async fn with_camera<T: Send + 'static>(
    service: &Arc<Service>,
    work: impl FnOnce(&Service, &LiveCamera) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let service = Arc::clone(service);
    blocking(move || work(&service, live(&service)?)).await?
}

/// A JPEG of a frame, for people.
async fn jpeg(frame: Arc<ObservedFrame>) -> Result<Bytes, Refusal> {
    blocking(move || frame.jpeg()).await
}

/// `GET /api/v1/live`
///
/// # Errors
/// [`Refusal`] if the service has no camera.
pub async fn now(State(service): State<Arc<Service>>) -> Result<Json<Value>, Refusal> {
    Ok(Json(live(&service)?.snapshot().json()))
}

/// Which frame was seen last.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameQuery {
    #[serde(default, deserialize_with = "whole_number")]
    after: u64,
}

/// `GET /api/v1/camera.jpg`: the newest frame. With `after`, waits for a later one; 204 where none comes in time or the
/// server stops.
///
/// # Errors
/// [`Refusal`] if the service has no camera, or that is not there.
pub async fn newest(
    State(service): State<Arc<Service>>,
    Extension(streams): Extension<StreamEnd>,
    Query(FrameQuery { after }): Query<FrameQuery>,
) -> Result<Response, Refusal> {
    let camera = live(&service)?;
    let seen = tokio::select! {
        seen = camera.frame_after(after, FRAME_TIMEOUT) => seen,
        () = streams.reached() => camera.latest_frame(),
    }?;
    let number = seen.frame.number;
    let numbered = [(FRAME_NUMBER, number.to_string())];
    // A lower number comes from a service that was started anew.
    if number == after {
        return Ok((StatusCode::NO_CONTENT, numbered).into_response());
    }
    Ok((numbered, [JPEG], jpeg(seen).await?).into_response())
}

/// `GET /api/v1/camera.mjpg`: one frame after another, as long as somebody looks and the server runs.
///
/// # Errors
/// [`Refusal`] if the service has no camera.
pub async fn stream(
    State(service): State<Arc<Service>>,
    Extension(streams): Extension<StreamEnd>,
) -> Result<impl IntoResponse, Refusal> {
    let newest = live(&service)?.frame_numbers();
    let parts = stream::unfold((service, newest, 0), |(service, mut newest, last)| async move {
        loop {
            // Ends with the thread that looks.
            if let Ok(newer) = tokio::time::timeout(REPEAT_INTERVAL, newest.wait_for(|newest| *newest > last)).await {
                newer.ok()?;
            }
            let Ok(seen) = live(&service).and_then(LiveCamera::latest_frame) else {
                newest.changed().await.ok()?;
                continue;
            };
            let number = seen.frame.number;
            let picture = jpeg(seen).await.ok()?;
            let head = format!("--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\n\r\n", picture.len());
            let part = [head.as_bytes(), &picture, b"\r\n"].concat();
            return Some((Ok::<_, Infallible>(part), (service, newest, number)));
        }
    });
    let kind = "multipart/x-mixed-replace; boundary=frame";
    Ok(([UNBUFFERED, (header::CONTENT_TYPE, kind)], Body::from_stream(parts.take_until(streams.reached()))))
}

/// A frame that is to be taken as a shot, and what it shows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CameraShotRequest {
    label: String,
    #[serde(default, deserialize_with = "null_as_default")]
    anyway: bool,
    frame: Option<u64>,
    /// The place of the thing in the frame, as shares of its sides; its middle by default.
    at: Option<[f32; 2]>,
    /// The region in which it is; by default the one that holds the place, or else the first.
    region: Option<String>,
}

/// `POST /api/v1/camera/shot`: takes the newest frame as a shot, at its full size.
///
/// # Errors
/// [`Refusal`] if the service has no camera, that is not there, or for what a picture that is sent is refused for.
pub async fn shoot(
    State(service): State<Arc<Service>>,
    JsonBody(CameraShotRequest { label, anyway, frame, at, region }): JsonBody<CameraShotRequest>,
) -> Result<Json<Value>, Refusal> {
    let label = usable_label(&label)?;
    at.map_or(Ok(()), check_place)?;
    let regions = shot_regions(&service, region.as_deref())?;
    let frame = live(&service)?.frame_for_shot(frame)?;
    let number = frame.number;
    let measured = Arc::clone(&frame);
    let cost = with_camera(&service, move |_, camera| camera.decoding_cost(&measured, None)).await?;
    let input = service.manifest.preprocessing;
    let permit = service.admission.admit(processing_bytes(&cost, &input) + service.scene.working_memory()).await?;
    let decoded = Arc::clone(&frame);
    let decode = move |service: &Service, camera: &LiveCamera| {
        let picture = camera.decode(&decoded, None)?;
        Ok(Admitted::new(service.scene.shot(picture, regions, at, input.mean_colour())?, permit))
    };
    let picture = with_camera(&service, decode).await?;
    let mut taken = shots::take_picture(&service, &label, picture, Acceptance::of(anyway)).await?;
    live(&service)?.keep_refused_shot((taken["accepted"] == false).then_some(frame));
    taken["frame"] = json!(number);
    Ok(Json(taken))
}

/// Checks a place in a frame: were one in pixels taken for shares, each would be the lower right corner.
fn check_place([x, y]: [f32; 2]) -> Result<(), Refusal> {
    if [x, y].iter().all(|share| (0.0..=1.0).contains(share)) {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "[{x}, {y}] is no place in the frame: expected \"at\" as [X, Y], shares of its sides, such as [0.5, 0.5]"
    )))
}

/// The regions of which a shot may be taken: all, or the one of that name.
fn shot_regions(service: &Service, name: Option<&str>) -> Result<Vec<NamedRegion>, Refusal> {
    let all = service.regions.get();
    let Some(name) = name else { return Ok(all.to_vec()) };
    let named = all.iter().find(|region| label::same(&region.name, name)).cloned();
    let none = || Refusal::new(ErrorCode::UnknownRegion, format!("there is no region \"{name}\"")).with("region", name);
    Ok(vec![named.ok_or_else(none)?])
}

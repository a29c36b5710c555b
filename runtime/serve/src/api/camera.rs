//! The service's own camera.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use orco_runtime::scene::{NamedRegion, RegionError};
use orco_runtime::state::label;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Json, Query, UNBUFFERED, blocking, shots, usable_label};
use crate::admission::{Admitted, processing_bytes};
use crate::camera_scene;
use crate::event::Event;
use crate::live::{LiveCamera, ObservedFrame};
use crate::pending_shots::Acceptance;
use crate::refusal::{ErrorCode, Refusal};
use crate::service::Service;
use crate::stream_end::StreamEnd;

/// How long a newer frame is waited for.
const FRAME_TIMEOUT: Duration = Duration::from_secs(5);
/// After so long without a newer frame a stream shows the last one again: browsers show a picture when the next one
/// begins, and proxies end a connection on which nothing comes.
const REPEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Says a picture's frame.
const FRAME: HeaderName = HeaderName::from_static("orco-frame");

fn live(service: &Service) -> Result<&LiveCamera, Refusal> {
    let sentence = "this service has no camera of its own: start it with --camera SOURCE";
    service.live().ok_or_else(|| Refusal::new(ErrorCode::NoCamera, sentence))
}

/// Runs slow work that needs the camera on a thread for blocking work.
async fn with_camera<T: Send + 'static>(
    service: &Arc<Service>,
    work: impl FnOnce(&Service, &LiveCamera) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let service = Arc::clone(service);
    blocking(move || work(&service, live(&service)?)).await?
}

/// Makes the picture to be shown.
async fn view(seen: Arc<ObservedFrame>) -> Result<Bytes, Refusal> {
    blocking(move || seen.view()).await
}

/// `GET /api/v1/live`
///
/// # Errors
/// [`Refusal`] if the service has no camera.
pub async fn now(State(service): State<Arc<Service>>) -> Result<axum::Json<Value>, Refusal> {
    Ok(axum::Json(live(&service)?.snapshot().json()))
}

/// Which frame was seen last.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameQuery {
    #[serde(default)]
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
    let numbered = [(FRAME, number.to_string())];
    // A lower number comes from a service that was started anew.
    if number == after {
        return Ok((StatusCode::NO_CONTENT, numbered).into_response());
    }
    Ok((numbered, [(header::CONTENT_TYPE, "image/jpeg")], view(seen).await?).into_response())
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
            let picture = view(seen).await.ok()?;
            let head = format!("--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\n\r\n", picture.len());
            let part = [head.as_bytes(), &picture, b"\r\n"].concat();
            return Some((Ok::<_, Infallible>(part), (service, newest, number)));
        }
    });
    let kind = "multipart/x-mixed-replace; boundary=frame";
    Ok(([UNBUFFERED, (header::CONTENT_TYPE, kind)], Body::from_stream(parts.take_until(streams.reached()))))
}

/// What a frame is a shot of.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CameraShotRequest {
    label: String,
    #[serde(default)]
    anyway: bool,
    #[serde(default)]
    frame: Option<u64>,
    /// The place of the thing in the frame, as shares of its sides; its middle by default.
    #[serde(default)]
    at: Option<[f32; 2]>,
    /// The region in which it is; by default the one that holds the place, or else the first.
    #[serde(default)]
    region: Option<String>,
}

/// `POST /api/v1/camera/shot`: takes the newest frame as a shot, at its full size.
///
/// # Errors
/// [`Refusal`] if the service has no camera, that is not there, or for what a picture that is sent is refused for.
pub async fn shoot(
    State(service): State<Arc<Service>>,
    Json(CameraShotRequest { label, anyway, frame, at, region }): Json<CameraShotRequest>,
) -> Result<axum::Json<Value>, Refusal> {
    let label = usable_label(&label)?;
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
    Ok(axum::Json(taken))
}

/// The regions of which a shot may be taken: all, or the one of that name.
fn shot_regions(service: &Service, name: Option<&str>) -> Result<Vec<NamedRegion>, Refusal> {
    let all = service.regions.get();
    let Some(name) = name else { return Ok(all.to_vec()) };
    let named = all.iter().find(|region| label::same(&region.name, name)).cloned();
    let none = || Refusal::new(ErrorCode::UnknownRegion, format!("there is no region \"{name}\"")).with("region", name);
    Ok(vec![named.ok_or_else(none)?])
}

/// `GET /api/v1/regions`: the regions of the camera's frames.
pub async fn regions(State(service): State<Arc<Service>>) -> axum::Json<Value> {
    axum::Json(json!({ "regions": service.regions.json() }))
}

/// A region of the camera's frames.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionRequest {
    name: String,
    /// Left edge, upper edge, width and height, as shares of the frame's sides.
    #[serde(rename = "box")]
    bounds: [f64; 4],
}

/// All regions of the camera's frames.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionsRequest {
    regions: Vec<RegionRequest>,
}

/// `POST /api/v1/regions`: sets all regions, and keeps them.
///
/// # Errors
/// [`Refusal`] if they cannot be used or kept.
pub async fn set_regions(
    State(service): State<Arc<Service>>,
    Json(RegionsRequest { regions }): Json<RegionsRequest>,
) -> Result<axum::Json<Value>, Refusal> {
    let region = |RegionRequest { name, bounds: [x, y, width, height] }: RegionRequest| {
        let region: NamedRegion = format!("{name}={x},{y},{width},{height}").parse()?;
        Ok(region)
    };
    let regions = regions.into_iter().map(region).collect::<Result<Vec<_>, RegionError>>();
    let regions = regions.map_err(|error| match error {
        // Pixels, which its own sentence offers, are not taken here.
        RegionError::Text { text } => Refusal::bad_request(format!(
            "[{text}] is no box: expected [X, Y, WIDTH, HEIGHT] as shares of the frame, and inside it, such as \
             [0.5, 0, 0.5, 1]"
        )),
        other => Refusal::bad_request(other.to_string()),
    })?;
    let kept = service.regions.clone();
    blocking(move || kept.keep(regions)).await??;
    service.events.send(Event::CHANGED);
    Ok(axum::Json(json!({ "regions": service.regions.json() })))
}

/// `GET /api/v1/scene`: whether the empty place is known.
pub async fn scene(State(service): State<Arc<Service>>) -> axum::Json<Value> {
    axum::Json(service.scene.status().json())
}

/// Nothing that could be chosen.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneRequest {}

/// `POST /api/v1/scene`: learns the empty place from the camera's next frames.
///
/// # Errors
/// [`Refusal`] if the service has no camera, that is not there, or its frames show no empty place.
pub async fn learn_scene(
    State(service): State<Arc<Service>>,
    Json(SceneRequest {}): Json<SceneRequest>,
) -> Result<axum::Json<Value>, Refusal> {
    let input = service.manifest.preprocessing;
    let side = camera_scene::decoded_side(&input);
    let mut frames = Vec::new();
    let mut bytes = camera_scene::WORKING_MEMORY;
    // Not what it showed before the place was cleared.
    let mut after = *live(&service)?.frame_numbers().borrow();
    for _ in 0..camera_scene::VIEWS {
        let seen = live(&service)?.frame_after(after, FRAME_TIMEOUT).await?;
        // The same frame again would say nothing of the noise, and hide a hand that is in it.
        if seen.frame.number <= after {
            let sentence = "the camera gave no new frame for five seconds: try again, or keep the empty place with \
                            `orco scene learn` if its frames come more rarely";
            return Err(Refusal::new(ErrorCode::CameraStalled, sentence));
        }
        after = seen.frame.number;
        bytes += processing_bytes(&live(&service)?.decoding_cost(&seen.frame, Some(side))?, &input);
        frames.push(seen);
    }
    let permit = service.admission.admit(bytes).await?;
    let learn = move |service: &Service, camera: &LiveCamera| {
        let views = frames.iter().map(|seen| camera.decode(&seen.frame, Some(side)));
        service.scene.learn(&views.collect::<Result<Vec<_>, _>>()?)?;
        drop(permit);
        Ok(())
    };
    with_camera(&service, learn).await?;
    service.events.send(Event::Live(Arc::new(live(&service)?.snapshot())));
    Ok(axum::Json(service.scene.status().json()))
}

/// `DELETE /api/v1/scene`: forgets the empty place.
///
/// # Errors
/// [`Refusal`] if none was known, or it cannot be removed.
pub async fn forget_scene(State(service): State<Arc<Service>>) -> Result<StatusCode, Refusal> {
    let scene = service.scene.clone();
    let forgotten = blocking(move || scene.forget()).await??;
    if let Some(live) = service.live() {
        service.events.send(Event::Live(Arc::new(live.snapshot())));
    }
    if forgotten {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Refusal::new(ErrorCode::NoScene, "no empty place is known"))
    }
}

//! The service's own camera.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, header};
use axum::response::IntoResponse;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Json, Query, blocking, shots, usable};
use crate::admission::{Admitted, picture_bytes};
use crate::error::Refusal;
use crate::live::{Live, ObservedFrame};
use crate::service::Service;

/// How long a newer frame is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Says a picture's frame.
const FRAME: HeaderName = HeaderName::from_static("orco-frame");

fn live(service: &Service) -> Result<&Live, Refusal> {
    let none = || Refusal::missing("this service has no camera of its own: start it with --camera SOURCE");
    service.live().ok_or_else(none)
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
    Ok(axum::Json(live(&service)?.json()))
}

/// Which frame was seen last.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameQuery {
    #[serde(default)]
    after: u64,
}

/// `GET /api/v1/camera.jpg`: the newest frame; after a given one, as soon as there is a newer one.
///
/// # Errors
/// [`Refusal`] if the service has no camera, or that is not there.
pub async fn newest(
    State(service): State<Arc<Service>>,
    Query(FrameQuery { after }): Query<FrameQuery>,
) -> Result<impl IntoResponse, Refusal> {
    let seen = live(&service)?.seen_after(after, PATIENCE).await?;
    let number = seen.frame.number.to_string();
    Ok(([(header::CONTENT_TYPE, "image/jpeg".to_owned()), (FRAME, number)], view(seen).await?))
}

/// `GET /api/v1/camera.mjpg`: one frame after another, as long as somebody looks.
///
/// # Errors
/// [`Refusal`] if the service has no camera.
pub async fn stream(State(service): State<Arc<Service>>) -> Result<impl IntoResponse, Refusal> {
    let newest = live(&service)?.watch();
    let parts = stream::unfold((service, newest, 0), |(service, mut newest, last)| async move {
        loop {
            // Ends with the thread that looks.
            newest.wait_for(|newest| *newest > last).await.ok()?;
            let Ok(seen) = live(&service).and_then(Live::seen) else {
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
    Ok(([(header::CONTENT_TYPE, kind)], Body::from_stream(parts)))
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
}

/// `POST /api/v1/camera/shot`: takes the newest frame as a shot, at its full size.
///
/// # Errors
/// [`Refusal`] if the service has no camera, that is not there, or for what a picture that is sent is refused for.
pub async fn shoot(
    State(service): State<Arc<Service>>,
    Json(CameraShotRequest { label, anyway, frame }): Json<CameraShotRequest>,
) -> Result<axum::Json<Value>, Refusal> {
    let label = usable(&label)?;
    let frame = live(&service)?.frame(frame)?;
    let number = frame.number;
    let (asked, theirs) = (Arc::clone(&service), Arc::clone(&frame));
    let needs = blocking(move || live(&asked)?.needs(&theirs)).await??;
    let permit = service.admission.work(picture_bytes(&needs, &service.manifest.preprocessing)).await?;
    let (asked, theirs) = (Arc::clone(&service), Arc::clone(&frame));
    let decode = move || live(&asked)?.decode(&theirs).map(|picture| Admitted::new(picture, permit));
    let picture = blocking(decode).await??;
    let mut taken = shots::take_picture(&service, &label, picture, anyway).await?;
    live(&service)?.hold((taken["accepted"] == false).then_some(frame));
    taken["frame"] = json!(number);
    Ok(axum::Json(taken))
}

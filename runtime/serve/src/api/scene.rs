//! The background of the service's own camera, learned from its empty place.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::camera::{FRAME_TIMEOUT, live, with_camera};
use super::{JsonBody, blocking};
use crate::admission::processing_bytes;
use crate::camera_scene;
use crate::event::Event;
use crate::live::LiveCamera;
use crate::refusal::{ErrorCode, Refusal};
use crate::service::Service;

/// `GET /api/v1/scene`: whether the background is known.
pub async fn status(State(service): State<Arc<Service>>) -> Json<Value> {
    Json(service.scene.status().json())
}

/// The empty body of a request that leaves nothing to choose.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneRequest {}

/// `POST /api/v1/scene`: learns the background from the camera's next frames.
///
/// # Errors
/// [`Refusal`] if the service has no camera, that is not there, or its frames show no empty place.
pub async fn learn(
    State(service): State<Arc<Service>>,
    JsonBody(SceneRequest {}): JsonBody<SceneRequest>,
) -> Result<Json<Value>, Refusal> {
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
        service.scene.learn(&views.collect::<Result<Vec<_>, _>>()?, &service.regions.get())?;
        drop(permit);
        Ok(())
    };
    with_camera(&service, learn).await?;
    service.events.send(Event::Live(Arc::new(live(&service)?.snapshot())));
    Ok(Json(service.scene.status().json()))
}

/// `DELETE /api/v1/scene`: forgets the background.
///
/// # Errors
/// [`Refusal`] if none was known, or it cannot be removed.
pub async fn forget(State(service): State<Arc<Service>>) -> Result<StatusCode, Refusal> {
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

//! Regions of the frames of the service's own camera.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use orco_runtime::scene::{NamedRegion, RegionError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{JsonBody, blocking};
use crate::event::Event;
use crate::refusal::Refusal;
use crate::service::Service;

/// `GET /api/v1/regions`: the regions of the camera's frames.
pub async fn all(State(service): State<Arc<Service>>) -> Json<Value> {
    Json(json!({ "regions": service.regions.json() }))
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
pub async fn set(
    State(service): State<Arc<Service>>,
    JsonBody(RegionsRequest { regions }): JsonBody<RegionsRequest>,
) -> Result<Json<Value>, Refusal> {
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
    Ok(Json(json!({ "regions": service.regions.json() })))
}

//! What the service's own camera saw: listed, as a file for spreadsheets, with a picture each.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::Value;

use super::{JPEG, Path, blocking};
use crate::event::Event;
use crate::refusal::{ErrorCode, Refusal};
use crate::service::Service;
use crate::sightings;

/// `GET /api/v1/sightings`: all, the newest first.
///
/// # Errors
/// [`Refusal`] if listing them fails.
pub async fn all(State(service): State<Arc<Service>>) -> Result<Json<Value>, Refusal> {
    let sightings = service.sightings.clone();
    blocking(move || sightings.json()).await.map(Json)
}

/// `GET /api/v1/sightings/{file}`: the list of all as a CSV file, or the picture of one, named by its id and `.jpg`.
///
/// # Errors
/// [`Refusal`] if there is none.
pub async fn file(State(service): State<Arc<Service>>, Path(file): Path<String>) -> Result<impl IntoResponse, Refusal> {
    let sightings = service.sightings.clone();
    if !sightings.are_kept() {
        let sentence = "no sightings are kept: start the service with --sightings FOLDER";
        return Err(Refusal::new(ErrorCode::NoSightings, sentence));
    }
    if file == sightings::LIST_FILE {
        let csv = blocking(move || sightings.csv()).await?;
        return Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], csv));
    }
    let id = file.strip_suffix(".jpg").unwrap_or(&file).to_owned();
    let sentence = format!("there is no picture of a sighting {id}: it was removed, or never was");
    let none = Refusal::new(ErrorCode::NoPicture, sentence);
    let picture = blocking(move || sightings.picture(&id)).await?.ok_or(none)?;
    Ok(([JPEG], picture))
}

/// `DELETE /api/v1/sightings`: removes all.
///
/// # Errors
/// [`Refusal`] if their folder cannot be written.
pub async fn clear(State(service): State<Arc<Service>>) -> Result<StatusCode, Refusal> {
    let sightings = service.sightings.clone();
    let cleared = blocking(move || sightings.clear()).await?;
    // Also where some are left: those of things that are still there are gone, and the list says why it is not written.
    service.events.send(Event::Sightings);
    cleared.map_err(|error| Refusal::storage(&error).about("not all sightings could be removed"))?;
    Ok(StatusCode::NO_CONTENT)
}

//! Jobs: changes that were queued, and how far they are.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::Path;
use crate::id::Id;
use crate::job::Job;
use crate::refusal::Refusal;
use crate::service::Service;

/// 202, with the job and its place.
pub(crate) fn queued(job: &Job) -> Response {
    let place = format!("/api/v1/jobs/{}", job.id);
    (StatusCode::ACCEPTED, [(header::LOCATION, place)], Json(job.json())).into_response()
}

/// `GET /api/v1/jobs`: the changes that wait or are being made.
pub async fn unfinished(State(service): State<Arc<Service>>) -> Json<Value> {
    Json(json!({ "jobs": service.changes().unfinished().iter().map(Job::json).collect::<Vec<_>>() }))
}

/// `GET /api/v1/jobs/{id}`
///
/// # Errors
/// [`Refusal`] if it is not remembered.
pub async fn job(State(service): State<Arc<Service>>, Path(id): Path<Id>) -> Result<Json<Value>, Refusal> {
    Ok(Json(service.changes().job(id)?.json()))
}

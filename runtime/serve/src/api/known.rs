//! What is known, and what pictures show.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Query, State};
use orco_runtime::state::Balance;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{decode, matches};
use crate::changes::Job;
use crate::error::Refusal;
use crate::live::Live;
use crate::report;
use crate::service::Service;

/// `GET /api/v1/status`
pub async fn status(State(service): State<Arc<Service>>) -> Json<Value> {
    let known = service.answers.knowledge();
    let manifest = &service.manifest;
    let expected = known.expected.map(|(base, learned)| json!({ "known": base, "new": learned }));
    let dial: Vec<&str> = Balance::ALL.iter().map(|balance| balance.name()).collect();
    let jobs: Vec<Value> = service.changes().unfinished().iter().map(Job::json).collect();
    Json(json!({
        "bundle": manifest.name, "release": manifest.release, "version": env!("CARGO_PKG_VERSION"),
        "classes": known.classes.len(), "base_classes": known.base, "free_targets": known.free_targets,
        "sessions": known.sessions, "balance": known.expected.map(|_| known.balance.name()), "balances": dial,
        "expected": expected, "changes": known.history.len().saturating_sub(1), "jobs": jobs,
        "camera": service.live().map(Live::json),
    }))
}

/// `GET /api/v1/classes`
pub async fn classes(State(service): State<Arc<Service>>) -> Json<Value> {
    let known = service.answers.knowledge();
    let class = |(index, class): (usize, &orco_runtime::state::Class)| {
        let learned = index >= known.base;
        json!({
            "label": class.label, "learned": learned, "session": learned.then_some(class.session),
            "shots": known.shots[index],
        })
    };
    Json(json!({ "classes": known.classes.iter().enumerate().map(class).collect::<Vec<_>>() }))
}

/// `GET /api/v1/history`
pub async fn history(State(service): State<Arc<Service>>) -> Json<Value> {
    let known = service.answers.knowledge();
    Json(json!({ "entries": known.history.iter().map(report::entry).collect::<Vec<_>>() }))
}

/// How many classes are named.
#[derive(Deserialize)]
pub struct Top {
    #[serde(default = "three")]
    top: usize,
}

fn three() -> usize {
    3
}

/// `POST /api/v1/classify`
///
/// # Errors
/// [`Refusal`] if the body is no picture, or too many wait.
pub async fn classify(
    State(service): State<Arc<Service>>,
    Query(Top { top }): Query<Top>,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let picture = decode(body).await?;
    let (width, height) = picture.dimensions();
    let named = service.answers.classify(picture).await?;
    Ok(Json(json!({ "matches": matches(&named, top), "width": width, "height": height })))
}

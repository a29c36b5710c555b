//! What is known, and what pictures show.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use orco_runtime::image;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::manifest::hexadecimal;
use orco_runtime::state::Balance;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task;

use super::{Query, matches, picture, thumbnails};
use crate::admission::Admitted;
use crate::answers::Like;
use crate::changes::Job;
use crate::error::Refusal;
use crate::inbox;
use crate::live::Live;
use crate::report;
use crate::service::Service;

/// `GET /api/v1/status`
pub async fn status(State(service): State<Arc<Service>>) -> Json<Value> {
    let health = service.health.clone();
    let problems = task::spawn_blocking(move || health.problems()).await;
    let problems = problems.unwrap_or_else(|error| vec![error.to_string()]);
    let known = service.answers.knowledge();
    let manifest = &service.manifest;
    let expected = known.expected.map(|(base, learned)| json!({ "known": base, "new": learned }));
    let dial: Vec<&str> = Balance::ALL.iter().map(|balance| balance.name()).collect();
    let jobs: Vec<Value> = service.changes().unfinished().iter().map(Job::json).collect();
    Json(json!({
        "problem": known.problem, "problems": problems,
        "bundle": manifest.name, "release": manifest.release, "version": env!("CARGO_PKG_VERSION"),
        "classes": known.classes.len(), "base_classes": known.base, "free_targets": known.free_targets,
        "sessions": known.sessions, "balance": known.expected.map(|_| known.balance.name()), "balances": dial,
        "expected": expected, "inbox": service.inbox.len(), "inbox_most": service.inbox.most(),
        "changes": known.history.len().saturating_sub(1), "jobs": jobs, "camera": service.live().map(Live::json),
    }))
}

/// `GET /api/v1/classes`
///
/// # Errors
/// [`Refusal`] if they cannot be listed.
pub async fn classes(State(service): State<Arc<Service>>) -> Result<Json<Value>, Refusal> {
    let known = service.answers.knowledge();
    let theirs = service.thumbnails.clone();
    let there = task::spawn_blocking(move || theirs.all()).await;
    let there = there.map_err(|_| Refusal::bad("the classes cannot be listed"))?;
    let stored = |index: usize| -> Vec<Value> {
        let digests = (1..).zip(&known.digests[index]);
        let shot = |(number, digest): (usize, &[u8; 32])| json!({ "id": hexadecimal(digest), "number": number, "thumbnail": there.contains(digest) });
        digests.map(shot).collect()
    };
    let class = |(index, class): (usize, &orco_runtime::state::Class)| {
        let learned = index >= known.base;
        json!({
            "label": class.label, "learned": learned, "session": learned.then_some(class.session),
            "shots": known.shots[index], "stored": stored(index),
        })
    };
    Ok(Json(json!({ "classes": known.classes.iter().enumerate().map(class).collect::<Vec<_>>() })))
}

/// `GET /api/v1/history`
pub async fn history(State(service): State<Arc<Service>>) -> Json<Value> {
    let known = service.answers.knowledge();
    Json(json!({ "entries": known.history.iter().map(report::entry).collect::<Vec<_>>() }))
}

/// What is told of a picture.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// How many classes are named.
    #[serde(default = "three")]
    top: usize,
    /// Whether the stored exemplars that it is like are named.
    #[serde(default)]
    why: bool,
    /// Whether the picture goes into the inbox if it is not recognised.
    #[serde(default)]
    inbox: bool,
}

fn three() -> usize {
    3
}

/// Stored exemplars that an answer names.
const LIKE: usize = 6;

/// `POST /api/v1/classify`
///
/// # Errors
/// [`Refusal`] if the query is not understood, the body is no picture, or too many wait.
pub async fn classify(
    State(service): State<Arc<Service>>,
    Query(Look { top, why, inbox }): Query<Look>,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    if top == 0 {
        return Err(Refusal::bad("the query: \"top\" must be at least 1"));
    }
    let permit = picture::admit(&service, body.clone()).await?;
    let input = service.manifest.preprocessing;
    let fit = move |file: &[u8], picture: RgbImage| {
        // A large picture is reduced while it is decoded.
        let size = image::size(file).unwrap_or(picture.dimensions());
        let kept = inbox.then(|| inbox::reduced(&picture));
        (size, kept, input.fit(&picture))
    };
    let ((size, kept, fitted), permit) = picture::decode(body, permit, fit).await?.into_parts();
    if kept.is_none() {
        permit.give_back_memory();
    }
    let fitted = Admitted::new(fitted, permit.clone());
    let ((width, height), looked) = (size, service.answers.look(fitted, if why { LIKE } else { 0 }).await?);
    let mut answer =
        json!({ "matches": matches(&looked.named, top), "known": looked.known, "width": width, "height": height });
    if why {
        let (theirs, like) = (Arc::clone(&service), looked.like.clone());
        let why = task::spawn_blocking(move || like.iter().map(|like| alike(&theirs, like)).collect()).await;
        answer["why"] = why.map_err(|_| Refusal::bad("the stored shots cannot be looked at"))?;
    }
    if let Some(picture) = kept {
        let picture = Admitted::new(picture, permit);
        let offered = task::spawn_blocking(move || service.inbox.offer(&picture, &looked)).await;
        answer["inbox"] = json!(offered.map_err(|_| Refusal::bad("the picture cannot be kept"))?);
    }
    Ok(Json(answer))
}

/// A stored exemplar that a picture is like, with the place of its thumbnail if it has one.
fn alike(service: &Service, like: &Like) -> Value {
    let thumbnail = like.shot.filter(|shot| service.thumbnails.has(&shot.digest));
    let place = thumbnail.map(|shot| thumbnails::place(&like.label, &shot.digest));
    let (id, number) = (like.shot.map(|shot| hexadecimal(&shot.digest)), like.shot.map(|shot| shot.number));
    json!({ "label": like.label, "similarity": like.similarity, "shot": id, "number": number, "thumbnail": place })
}

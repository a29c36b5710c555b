//! What is known, and what pictures show.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::learner::AnswerScope;
use orco_runtime::manifest::hexadecimal;
use orco_runtime::state::Balance;
use orco_runtime::state::answer::BalanceEstimate;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Query, blocking, picture, thumbnails};
use crate::admission::Admitted;
use crate::error::Refusal;
use crate::inbox;
use crate::job::Job;
use crate::prediction::{ClassProbability, SimilarExemplar};
use crate::report;
use crate::service::Service;
use crate::transfer::MAX_PACK;

/// `GET /api/v1/status`
///
/// # Errors
/// [`Refusal`] if checking the service's health fails.
pub async fn status(State(service): State<Arc<Service>>) -> Result<Json<Value>, Refusal> {
    let health = service.health.clone();
    let problems = blocking(move || health.problems()).await?;
    let known = service.answers.knowledge();
    let manifest = &service.manifest;
    let expected = known.border.map(|border| {
        json!({
            "base": border.base, "learned": border.learned, "learned_range": known.learned_range,
        })
    });
    let scopes = AnswerScope::CHOICES.map(AnswerScope::name);
    let dial: Vec<&str> = Balance::ALL.iter().map(|balance| balance.name()).collect();
    let jobs: Vec<Value> = service.changes().unfinished().iter().map(Job::json).collect();
    Ok(Json(json!({
        "problem": known.problem, "problems": problems,
        "bundle": manifest.name, "release": manifest.release, "version": env!("CARGO_PKG_VERSION"),
        "classes": known.classes.len(), "base_classes": known.base, "free_targets": known.free_targets,
        "answers": known.scope.name(), "answer_choices": scopes, "learned_only": known.is_learned_only,
        "sessions": known.sessions, "balance": known.border.map(|_| known.balance.name()), "balances": dial,
        "expected": expected, "improving": known.awaits_alignment && service.aligns,
        "inbox": service.inbox.len(), "inbox_most": service.inbox.most(),
        "changes": known.timeline.earlier().len(), "undone": known.timeline.later().len(),
        "jobs": jobs, "camera": service.live().map(|live| live.snapshot().json()),
        "regions": service.regions.json(), "sightings": service.sightings.are_kept(), "pack_bytes_most": MAX_PACK,
    })))
}

/// `GET /api/v1/classes`
///
/// # Errors
/// [`Refusal`] if they cannot be listed.
pub async fn classes(State(service): State<Arc<Service>>) -> Result<Json<Value>, Refusal> {
    let known = service.answers.knowledge();
    let theirs = service.thumbnails.clone();
    let there = blocking(move || theirs.all()).await?;
    let stored = |index: usize| -> Vec<Value> {
        let digests = (1..).zip(&known.digests[index]);
        let shot = |(number, digest): (usize, &[u8; 32])| json!({ "id": hexadecimal(digest), "number": number, "thumbnail": there.contains(digest) });
        digests.map(shot).collect()
    };
    let class = |(index, class): (usize, &orco_runtime::state::Class)| {
        let learned = index >= known.base;
        json!({
            "label": class.label, "learned": learned, "replaced": known.is_replaced(index),
            "session": learned.then_some(class.session),
            "shots": known.shots[index], "stored": stored(index),
        })
    };
    Ok(Json(json!({ "classes": known.classes.iter().enumerate().map(class).collect::<Vec<_>>() })))
}

/// `GET /api/v1/history`
pub async fn history(State(service): State<Arc<Service>>) -> Json<Value> {
    let known = service.answers.knowledge();
    Json(json!({
        "entries": known.history.iter().map(report::entry).collect::<Vec<_>>(),
        "present": known.timeline.present(), "earlier": known.timeline.earlier(), "later": known.timeline.later(),
    }))
}

/// `GET /api/v1/balance`: what answers would recognise with every balance.
///
/// # Errors
/// [`Refusal`] if too many wait.
pub async fn balance(State(service): State<Arc<Service>>) -> Result<Json<Value>, Refusal> {
    let known = service.answers.knowledge();
    let estimates = service.answers.balance_estimates().await?;
    let choice = |estimate: &BalanceEstimate| {
        json!({
            "balance": estimate.balance.name(), "shots": estimate.shots, "recognised": estimate.recognised,
            "base_samples": estimate.base_samples, "taken_for_learned": estimate.taken_for_learned,
        })
    };
    let choices: Vec<Value> = estimates.iter().map(choice).collect();
    Ok(Json(json!({ "balance": known.border.map(|_| known.balance.name()), "choices": choices })))
}

/// What is answered about a picture.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassifyQuery {
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
const SIMILAR: usize = 6;

/// `POST /api/v1/classify`
///
/// # Errors
/// [`Refusal`] if the query is not understood, the body is no picture, or too many wait.
pub async fn classify(
    State(service): State<Arc<Service>>,
    Query(ClassifyQuery { top, why, inbox }): Query<ClassifyQuery>,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    if top == 0 {
        return Err(Refusal::bad("the query: \"top\" must be at least 1"));
    }
    let admitted = picture::admit(&service, body).await?;
    let input = service.manifest.preprocessing;
    // A large picture is reduced while it is decoded: its size is that of the header.
    let (width, height) = (admitted.header.file_width, admitted.header.file_height);
    let fit = move |picture: RgbImage| (inbox.then(|| inbox::reduced(&picture)), input.fit(&picture));
    let ((kept, fitted), permit) = picture::decode(admitted, fit).await?.into_parts();
    // Only small pictures are left; the JPEG of the kept one is no larger than its pixels.
    let kept_bytes = kept.as_ref().map_or(0, |kept| 2 * kept.as_raw().len());
    permit.shrink_to((fitted.as_raw().len() + kept_bytes) as u64);
    let fitted = Admitted::new(fitted, permit.clone());
    let answer = service.answers.answer(fitted, if why { SIMILAR } else { 0 }).await?;
    let matches = ClassProbability::list_json(&answer.classes, top);
    let set = ClassProbability::set_json(&answer.classes);
    let mut json = json!({
        "matches": matches, "set": set, "known": answer.known, "width": width, "height": height,
    });
    if why {
        let (theirs, exemplars) = (Arc::clone(&service), answer.similar.clone());
        let why = blocking(move || exemplars.iter().map(|exemplar| similar_json(&theirs, exemplar)).collect()).await;
        json["why"] = why?;
    }
    if let Some(picture) = kept {
        let picture = Admitted::new(picture, permit);
        json["inbox"] = json!(blocking(move || service.inbox.offer(&picture, &answer)).await?);
    }
    Ok(Json(json))
}

/// A stored exemplar that is similar to a picture, with the place of its thumbnail if it has one.
fn similar_json(service: &Service, exemplar: &SimilarExemplar) -> Value {
    let thumbnail = exemplar.shot.filter(|shot| service.thumbnails.has(&shot.digest));
    let place = thumbnail.map(|shot| thumbnails::place(&exemplar.label, &shot.digest));
    let (id, number) = (exemplar.shot.map(|shot| hexadecimal(&shot.digest)), exemplar.shot.map(|shot| shot.number));
    json!({ "label": exemplar.label, "similarity": exemplar.similarity, "shot": id, "number": number, "thumbnail": place })
}

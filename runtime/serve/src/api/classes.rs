//! The classes that are known, the history of changes, and what every balance would recognise.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use orco_runtime::manifest::hexadecimal;
use orco_runtime::state::Class;
use orco_runtime::state::answer::BalanceEstimate;
use serde_json::{Value, json};

use super::blocking;
use crate::change_json;
use crate::refusal::Refusal;
use crate::service::Service;

/// `GET /api/v1/classes`
///
/// # Errors
/// [`Refusal`] if they cannot be listed.
pub async fn classes(State(service): State<Arc<Service>>) -> Result<Json<Value>, Refusal> {
    let known = service.answers.knowledge();
    let with_thumbnail = blocking(move || service.pictured_shots()).await?;
    let stored = |index: usize| -> Vec<Value> {
        let digests = (1..).zip(&known.digests[index]);
        let shot = |(number, digest): (usize, &[u8; 32])| {
            let has_thumbnail = with_thumbnail.contains(digest);
            json!({ "id": hexadecimal(digest), "number": number, "thumbnail": has_thumbnail })
        };
        digests.map(shot).collect()
    };
    let class = |(index, class): (usize, &Class)| {
        let learned = index >= known.base_classes;
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
        "entries": known.history.iter().map(change_json::of_entry).collect::<Vec<_>>(),
        "present": known.timeline.present(), "earlier": known.timeline.earlier(), "later": known.timeline.later(),
    }))
}

/// `GET /api/v1/balance`: what answers would recognise with every balance, and what is expected of the present one.
///
/// # Errors
/// [`Refusal`] if too many wait.
pub async fn balance(State(service): State<Arc<Service>>) -> Result<Json<Value>, Refusal> {
    let known = service.answers.knowledge();
    let outlook = service.answers.balance_outlook().await?;
    let choice = |estimate: &BalanceEstimate| {
        json!({
            "balance": estimate.balance.name(), "shots": estimate.shots, "recognised": estimate.recognised,
            "base_samples": estimate.base_samples, "taken_for_learned": estimate.taken_for_learned,
        })
    };
    let choices: Vec<Value> = outlook.choices.iter().map(choice).collect();
    let expected = outlook.expected;
    Ok(Json(json!({
        "balance": known.balance_name(), "choices": choices,
        "expected": expected.all, "expected_learned_only": expected.learned_only,
    })))
}

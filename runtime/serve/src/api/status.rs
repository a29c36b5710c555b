//! How the service is, and what it knows, in numbers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use orco_runtime::learner::AnswerScope;
use orco_runtime::state::Balance;
use serde_json::{Value, json};

use super::blocking;
use crate::job::Job;
use crate::refusal::Refusal;
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
    let scopes = AnswerScope::CHOICES.map(AnswerScope::name);
    let balances = Balance::ALL.map(Balance::name);
    let jobs: Vec<Value> = service.changes().unfinished().iter().map(Job::json).collect();
    Ok(Json(json!({
        "problem": known.problem, "problems": problems,
        "bundle": manifest.name, "release": manifest.release, "version": env!("CARGO_PKG_VERSION"),
        "classes": known.classes.len(), "base_classes": known.base_classes, "free_targets": known.free_targets,
        "answers": known.scope.name(), "answer_choices": scopes, "learned_only": known.is_learned_only,
        "sessions": known.sessions, "balance": known.balance_name(), "balances": balances,
        "expected": known.expected, "improving": known.awaits_alignment && service.aligns,
        "inbox": service.inbox.len(), "inbox_most": service.inbox.capacity(),
        "changes": known.timeline.earlier().len(), "undone": known.timeline.later().len(),
        "jobs": jobs, "camera": service.live().map(|live| live.snapshot().json()),
        "regions": service.regions.json(), "sightings": service.sightings.are_kept(), "pack_bytes_most": MAX_PACK,
    })))
}

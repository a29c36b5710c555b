//! Routes of the shots that are not learned yet; [`pending_shots`] keeps them, and says what happens to a shot.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use orco_runtime::image_rs::RgbImage;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{JPEG, JsonBody, NewLabel, Path, Query, blocking, flag, picture, usable_label};
use crate::admission::Admitted;
use crate::answers::SufficiencyAnswer;
use crate::id::Id;
use crate::pending_shots::{self, Acceptance, Candidate};
use crate::prediction::ClassProbability;
use crate::refusal::{ErrorCode, Refusal};
use crate::service::Service;

/// `GET /api/v1/shots`
pub async fn all(State(service): State<Arc<Service>>) -> Json<Value> {
    let label = |(label, shots): &(String, usize)| json!({ "label": label, "shots": shots });
    Json(json!({ "labels": service.pending_shots.labels().iter().map(label).collect::<Vec<_>>() }))
}

/// `GET /api/v1/shots/{label}`
///
/// # Errors
/// [`Refusal`] if no class may have the label.
pub async fn list(State(service): State<Arc<Service>>, Path(label): Path<String>) -> Result<Json<Value>, Refusal> {
    let label = usable_label(&label)?;
    let ids: Vec<Value> = service.pending_shots.of(&label).iter().map(|shot| json!({ "id": shot.id })).collect();
    Ok(Json(json!({ "label": label, "shots": ids })))
}

/// `GET /api/v1/shots/{label}/sufficiency`: how well the shots recognise each other, and what more would bring.
///
/// # Errors
/// [`Refusal`] if there are none, or too much waits.
pub async fn sufficiency(
    State(service): State<Arc<Service>>,
    Path(label): Path<String>,
) -> Result<Json<Value>, Refusal> {
    let label = usable_label(&label)?;
    // The shots, all of them together, and what each is compared by.
    let _permit = service.admission.admit(3 * service.pending_shots.bytes_of(&label)).await?;
    let shots = service.pending_shots.of(&label);
    let Some(features) = pending_shots::features(&shots) else {
        return Err(Refusal::no_shots(&label));
    };
    let bundle = Arc::clone(&service);
    let curve = blocking(move || bundle.learning_curve().cloned()).await?;
    let SufficiencyAnswer { sufficiency, labels } = service.answers.sufficiency(&label, features, curve).await?;
    let left_out = shots.iter().zip(&sufficiency.taken_for);
    let left_out: Vec<Value> = left_out
        .map(|(shot, other)| json!({ "id": shot.id, "taken_for": other.map(|other| &labels[other]) }))
        .collect();
    let expected = sufficiency.expected.map(|[now, one, two]| json!({ "now": now, "one_more": one, "two_more": two }));
    Ok(Json(json!({
        "label": label, "shots": shots.len(), "recognised": sufficiency.recognised(), "left_out": left_out,
        "expected": expected,
    })))
}

/// Whether a shot is taken whatever speaks against it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShotQuery {
    #[serde(default, deserialize_with = "flag")]
    anyway: bool,
}

/// `POST /api/v1/shots/{label}`
///
/// # Errors
/// [`Refusal`] if the body is no picture, no class may have the label, or too much is held or waits.
pub async fn take(
    State(service): State<Arc<Service>>,
    Path(label): Path<String>,
    Query(ShotQuery { anyway }): Query<ShotQuery>,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let label = usable_label(&label)?;
    take_picture(&service, &label, picture::admit_and_decode(&service, body).await?, Acceptance::of(anyway))
        .await
        .map(Json)
}

/// Takes a picture as a shot, unless something speaks against it; says what.
pub(super) async fn take_picture(
    service: &Service,
    label: &str,
    picture: Admitted<RgbImage>,
    acceptance: Acceptance,
) -> Result<Value, Refusal> {
    service.inbox.note_shot();
    let keep = service.keeps_shots.then_some(service.manifest.preprocessing);
    let (candidate, picture) = blocking(move || (Candidate::of(&picture, keep.as_ref()), picture)).await?;
    let features = service.answers.shot_features(picture).await?;
    let matches = ClassProbability::list_json(&features.classes, 3);
    let (id, objections) = service.pending_shots.take(label, candidate, features, acceptance)?;
    let held = service.pending_shots.of(label).len();
    if id.is_some() {
        service.pending_shots.tell_count(label, &service.events);
    }
    Ok(json!({
        "accepted": id.is_some(), "id": id, "shots": held, "matches": matches,
        "warnings": objections.iter().map(pending_shots::objection_json).collect::<Vec<_>>(),
    }))
}

/// `GET /api/v1/shots/{label}/{id}`: its thumbnail.
///
/// # Errors
/// [`Refusal`] if there is no such shot.
pub async fn thumbnail(
    State(service): State<Arc<Service>>,
    Path((label, id)): Path<(String, Id)>,
) -> Result<impl IntoResponse, Refusal> {
    let shots = service.pending_shots.of(&usable_label(&label)?);
    let shot = shots.iter().find(|shot| shot.id == id).ok_or_else(|| unknown_shot(&label, id))?;
    Ok(([JPEG], shot.thumbnail.to_vec()))
}

/// `DELETE /api/v1/shots/{label}/{id}`
///
/// # Errors
/// [`Refusal`] if there is no such shot.
pub async fn remove(
    State(service): State<Arc<Service>>,
    Path((label, id)): Path<(String, Id)>,
) -> Result<StatusCode, Refusal> {
    let label = usable_label(&label)?;
    if service.pending_shots.remove(&label, |shot| shot == id) == 0 {
        return Err(unknown_shot(&label, id));
    }
    service.pending_shots.tell_count(&label, &service.events);
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /api/v1/shots/{label}`
///
/// # Errors
/// [`Refusal`] if there are none.
pub async fn clear(State(service): State<Arc<Service>>, Path(label): Path<String>) -> Result<StatusCode, Refusal> {
    let label = usable_label(&label)?;
    if service.pending_shots.remove(&label, |_| true) == 0 {
        return Err(Refusal::no_shots(&label));
    }
    service.pending_shots.tell_count(&label, &service.events);
    Ok(StatusCode::NO_CONTENT)
}

/// `PATCH /api/v1/shots/{label}`: all shots get another label, as where it was mistyped.
///
/// # Errors
/// [`Refusal`] if there are none, they are being learned, or no class may have the label.
pub async fn relabel(
    State(service): State<Arc<Service>>,
    Path(from): Path<String>,
    JsonBody(NewLabel { label }): JsonBody<NewLabel>,
) -> Result<StatusCode, Refusal> {
    let (from, to) = (usable_label(&from)?, usable_label(&label)?);
    service.changes().check_idle(&from)?;
    if service.pending_shots.relabel(&from, &to) == 0 {
        return Err(Refusal::no_shots(&from));
    }
    service.pending_shots.tell_count(&from, &service.events);
    service.pending_shots.tell_count(&to, &service.events);
    Ok(StatusCode::NO_CONTENT)
}

fn unknown_shot(label: &str, id: Id) -> Refusal {
    let refusal = Refusal::new(ErrorCode::UnknownPendingShot, format!("\"{label}\" has no shot {id}"));
    refusal.with("label", label).with("shot", id.to_string())
}

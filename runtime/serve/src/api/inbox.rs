//! Frames that were not recognised: seen, labelled many at once, dismissed.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};

use super::shots::take_picture;
use super::{JPEG, JsonBody, Path, blocking, picture, usable_label};
use crate::id::Id;
use crate::inbox::GroupedFrame;
use crate::pending_shots::Acceptance;
use crate::refusal::{ErrorCode, Refusal};
use crate::service::Service;

/// `GET /api/v1/inbox`: all frames, those together that are alike.
///
/// # Errors
/// [`Refusal`] if grouping them fails.
pub async fn all(State(service): State<Arc<Service>>) -> Result<Json<Value>, Refusal> {
    let inbox = service.inbox.clone();
    let groups = blocking(move || inbox.groups()).await?;
    let group =
        |frames: &Vec<GroupedFrame>| json!({ "frames": frames.iter().map(GroupedFrame::json).collect::<Vec<_>>() });
    let groups: Vec<Value> = groups.iter().map(group).collect();
    Ok(Json(json!({ "groups": groups, "most": service.inbox.capacity() })))
}

/// `GET /api/v1/inbox/{id}`: the picture.
///
/// # Errors
/// [`Refusal`] if there is no such frame.
pub async fn frame(State(service): State<Arc<Service>>, Path(id): Path<Id>) -> Result<impl IntoResponse, Refusal> {
    let frame = service.inbox.frame(id).ok_or_else(|| unknown_frame(id))?;
    Ok(([JPEG], frame.jpeg.to_vec()))
}

/// Frames that show things of one class.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelFrames {
    ids: Vec<Id>,
    label: String,
}

/// `POST /api/v1/inbox/label`: makes frames shots of a label, whatever speaks against them: somebody has looked.
///
/// # Errors
/// [`Refusal`] if no class may have the label, there is no such frame, or too much is held or waits. Frames before
/// that one are shots then.
pub async fn label(
    State(service): State<Arc<Service>>,
    JsonBody(LabelFrames { ids, label }): JsonBody<LabelFrames>,
) -> Result<Json<Value>, Refusal> {
    let label = usable_label(&label)?;
    if ids.len() > service.inbox.capacity() {
        return Err(Refusal::bad_request(format!(
            "the inbox has at most {} frames: name each once",
            service.inbox.capacity()
        )));
    }
    if let Some(id) = ids.iter().find(|id| service.inbox.frame(**id).is_none()) {
        return Err(unknown_frame(*id));
    }
    let mut taken = 0;
    for id in ids {
        // Somebody else may have been faster.
        let Some(frame) = service.inbox.take(id) else { continue };
        let picture = picture::admit_and_decode(&service, Bytes::copy_from_slice(frame.jpeg())).await?;
        take_picture(&service, &label, picture, Acceptance::Anyway).await?;
        frame.used();
        taken += 1;
    }
    let held = service.pending_shots.of(&label).len();
    Ok(Json(json!({ "label": label, "taken": taken, "shots": held })))
}

/// Frames that are to be removed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DismissFrames {
    ids: Vec<Id>,
}

/// `POST /api/v1/inbox/dismiss`: removes frames.
pub async fn dismiss(
    State(service): State<Arc<Service>>,
    JsonBody(DismissFrames { ids }): JsonBody<DismissFrames>,
) -> StatusCode {
    service.inbox.remove(|id| ids.contains(&id));
    StatusCode::NO_CONTENT
}

/// `DELETE /api/v1/inbox`: removes all frames.
pub async fn clear(State(service): State<Arc<Service>>) -> StatusCode {
    service.inbox.remove(|_| true);
    StatusCode::NO_CONTENT
}

fn unknown_frame(id: Id) -> Refusal {
    Refusal::new(ErrorCode::UnknownInboxPicture, format!("the inbox has no frame {id}")).with("frame", id.to_string())
}

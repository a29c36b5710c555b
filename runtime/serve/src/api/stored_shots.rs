//! The stored shots of a class: their thumbnails, moving one to the class that it belongs to, and removing one.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use orco_runtime::manifest::{from_hexadecimal, hexadecimal};
use orco_runtime::state::escape::percent_encoded;
use orco_runtime::state::session::LearnError;

use super::jobs::queued;
use super::{JPEG, JsonBody, NewLabel, Path, blocking, usable_label};
use crate::changes::ChangeRequest;
use crate::knowledge::Knowledge;
use crate::refusal::{ErrorCode, Refusal};
use crate::service::Service;

/// The path under which a stored shot's thumbnail is served.
pub(crate) fn thumbnail_path(label: &str, shot: &[u8; 32]) -> String {
    format!("/api/v1/classes/{}/shots/{}.jpg", percent_encoded(label), hexadecimal(shot))
}

/// The stored shot that a path names: its id, with or without `.jpg`.
fn shot(file: &str) -> Result<[u8; 32], Refusal> {
    let id = file.strip_suffix(".jpg").unwrap_or(file);
    from_hexadecimal(id).ok_or_else(|| {
        Refusal::bad_request(format!(
            "\"{id}\" is no id of a stored shot: send the \"id\" that GET /api/v1/classes gives, 64 hexadecimal \
             digits; numbers are not taken, since the next change may give them to other shots"
        ))
    })
}

/// Refuses a shot that is not stored in a class, by what is known now.
fn check_stored(known: &Knowledge, label: &str, shot: &[u8; 32]) -> Result<(), Refusal> {
    if known.digests[known.class(label)?].contains(shot) {
        return Ok(());
    }
    let sentence =
        format!("the shot is not one of \"{label}\" any more, or never was: it was moved, forgotten or undone");
    Err(Refusal::new(ErrorCode::UnknownStoredShot, sentence).with("label", label))
}

/// `GET /api/v1/classes/{label}/shots/{file}`, the file being the shot's id and `.jpg`.
///
/// # Errors
/// [`Refusal`] if there is none.
pub async fn thumbnail(
    State(service): State<Arc<Service>>,
    Path((label, file)): Path<(String, String)>,
) -> Result<impl IntoResponse, Refusal> {
    let (label, shot) = (usable_label(&label)?, shot(&file)?);
    check_stored(&service.answers.knowledge(), &label, &shot)?;
    let gone = || Refusal::new(ErrorCode::NoPicture, format!("no picture of the shot of \"{label}\" was kept"));
    let jpeg = blocking(move || service.picture_of_shot(&shot)).await?.ok_or_else(gone)?;
    Ok(([JPEG], jpeg))
}

/// `PATCH /api/v1/classes/{label}/shots/{file}`, the file being the shot's id.
///
/// # Errors
/// [`Refusal`] if there is no such class or shot, or too many changes wait.
pub async fn move_shot(
    State(service): State<Arc<Service>>,
    Path((from, file)): Path<(String, String)>,
    JsonBody(NewLabel { label: to }): JsonBody<NewLabel>,
) -> Result<Response, Refusal> {
    let (from, to, exemplar) = (usable_label(&from)?, usable_label(&to)?, shot(&file)?);
    let known = service.answers.knowledge();
    check_stored(&known, &from, &exemplar)?;
    let (source, target) = (known.class(&from)?, known.class(&to)?);
    if source == target {
        return Err(Refusal::from(&LearnError::SameClass { label: to }));
    }
    check_not_last(&known, source, &from)?;
    Ok(queued(&service.changes().request(ChangeRequest::Move { from, exemplar, to })?))
}

/// `DELETE /api/v1/classes/{label}/shots/{file}`, the file being the shot's id.
///
/// # Errors
/// [`Refusal`] if there is no such class or shot, it is the last one of a learned class, or too many changes wait.
pub async fn remove_shot(
    State(service): State<Arc<Service>>,
    Path((label, file)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let (label, exemplar) = (usable_label(&label)?, shot(&file)?);
    let known = service.answers.knowledge();
    check_stored(&known, &label, &exemplar)?;
    check_not_last(&known, known.class(&label)?, &label)?;
    Ok(queued(&service.changes().request(ChangeRequest::RemoveShot { label, exemplar })?))
}

/// A learned class keeps one shot at least.
fn check_not_last(known: &Knowledge, class: usize, label: &str) -> Result<(), Refusal> {
    if class >= known.base_classes && known.shots[class] == 1 {
        return Err(Refusal::from(&LearnError::LastShot { label: label.into() }));
    }
    Ok(())
}

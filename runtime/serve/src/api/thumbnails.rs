//! Small pictures of the stored shots of a class, and moving a shot to the class that it belongs to.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::task;

use super::changes::queued;
use super::{Json, Path, usable};
use crate::changes::Change;
use crate::error::Refusal;
use crate::service::Service;

/// Where a stored shot's thumbnail is served.
pub(crate) fn place(label: &str, shot: usize) -> String {
    // What a URL's path may hold as it is.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escaped: String = label
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("/api/v1/classes/{escaped}/shots/{shot}.jpg")
}

/// SHA-256 of a stored shot that has a thumbnail.
///
/// # Errors
/// [`Refusal`] if there is no such class or shot, or it has none.
pub(crate) fn digest(service: &Service, label: &str, shot: usize) -> Result<[u8; 32], Refusal> {
    let known = service.answers.knowledge();
    let index = known.class(label)?;
    let digest = shot.checked_sub(1).and_then(|before| known.digests[index].get(before)).copied();
    let digest = digest.ok_or_else(|| Refusal::missing(format!("\"{label}\" has no stored shot {shot}")))?;
    match service.thumbnails.has(&digest) {
        true => Ok(digest),
        false => Err(Refusal::missing(format!("no picture of shot {shot} of \"{label}\" was kept"))),
    }
}

/// The number in `3.jpg` or `3`.
fn number(file: &str) -> Result<usize, Refusal> {
    let number = file.strip_suffix(".jpg").unwrap_or(file).parse().ok();
    number.ok_or_else(|| Refusal::missing(format!("\"{file}\" is no shot: name one by its number, such as 1.jpg")))
}

/// `GET /api/v1/classes/{label}/shots/{file}`, the file being `1.jpg` and so on.
///
/// # Errors
/// [`Refusal`] if there is none.
pub async fn thumbnail(
    State(service): State<Arc<Service>>,
    Path((label, file)): Path<(String, String)>,
) -> Result<impl IntoResponse, Refusal> {
    let (label, shot) = (usable(&label)?, number(&file)?);
    let gone = move || Refusal::missing(format!("the picture of shot {shot} is gone"));
    let read = move || digest(&service, &label, shot).map(|digest| service.thumbnails.read(&digest));
    let jpeg = task::spawn_blocking(read).await.map_err(|_| gone())??.ok_or_else(gone)?;
    Ok(([(header::CONTENT_TYPE, "image/jpeg")], jpeg))
}

/// The class that a shot is moved to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    label: String,
}

/// `PATCH /api/v1/classes/{label}/shots/{file}`, the file being the shot's number.
///
/// # Errors
/// [`Refusal`] if there is no such class or shot, or too many changes wait.
pub async fn move_shot(
    State(service): State<Arc<Service>>,
    Path((from, file)): Path<(String, String)>,
    Json(Move { label: to }): Json<Move>,
) -> Result<Response, Refusal> {
    let (from, to, number) = (usable(&from)?, usable(&to)?, number(&file)?);
    let known = service.answers.knowledge();
    let (source, target) = (known.class(&from)?, known.class(&to)?);
    let shots = known.shots[source];
    if !(1..=shots).contains(&number) {
        return Err(Refusal::missing(format!("\"{from}\" has no shot {number}: {shots} of it are stored")));
    }
    if source == target {
        return Err(Refusal::conflict(format!("the shot belongs to \"{to}\" already")));
    }
    if source >= known.base && shots == 1 {
        return Err(Refusal::conflict(format!("this is the last shot of \"{from}\"; forget the class instead")));
    }
    Ok(queued(&service.changes().ask(Change::Move { from, number, to })?))
}

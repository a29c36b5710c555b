//! Backups and packs: what leaves the device in a file, and classes that come in one.

use std::fs::File;
use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream::try_unfold;
use orco_runtime::state::escape::percent_encoded;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::sync::OwnedSemaphorePermit;

use super::changes::learned_label;
use super::jobs::queued;
use super::{Path, Query, blocking, usable_label};
use crate::changes::ChangeRequest;
use crate::refusal::{ErrorCode, Refusal};
use crate::service::Service;
use crate::transfer::WrittenBackup;

/// Bytes of a file that are sent at a time.
const CHUNK: usize = 64 << 10;
/// Most characters of a label in the plain name of a file.
const MAX_PLAIN_LABEL: usize = 200;
/// The content type of backups and packs, which have none of their own.
const CONTENT_TYPE: &str = "application/octet-stream";

/// `GET /api/v1/backup`: all that the device knows in one file, as `orco backup` writes it.
///
/// # Errors
/// [`Refusal`] if nothing was learned, or the backup cannot be written now.
pub async fn backup(State(service): State<Arc<Service>>) -> Result<Response, Refusal> {
    let transfer = service.transfer.clone();
    let WrittenBackup { file, bytes, name, place } = blocking(move || transfer.backup()).await??;
    let attached = format!("attachment; filename=\"{name}\"");
    let headers = [
        (header::CONTENT_TYPE, CONTENT_TYPE.to_owned()),
        (header::CONTENT_LENGTH, bytes.to_string()),
        (header::CONTENT_DISPOSITION, attached),
    ];
    Ok((headers, streamed(file, place)).into_response())
}

/// A file from where it stands to its end, piece by piece; its place on the disk is given back with it.
fn streamed(file: File, place: OwnedSemaphorePermit) -> Body {
    Body::from_stream(try_unfold((tokio::fs::File::from_std(file), place), |(mut file, place)| async {
        let mut chunk = vec![0; CHUNK];
        let read = file.read(&mut chunk).await?;
        chunk.truncate(read);
        Ok::<_, io::Error>((read > 0).then(|| (Bytes::from(chunk), (file, place))))
    }))
}

/// `GET /api/v1/classes/{label}/pack`: a learned class in a file, for another device with the same bundle, as
/// `orco export` writes it.
///
/// # Errors
/// [`Refusal`] if no learned class has the label, it cannot be exported, or too many packs wait to be read.
pub async fn pack(State(service): State<Arc<Service>>, Path(label): Path<String>) -> Result<Response, Refusal> {
    let label = learned_label(&service, &label)?;
    let (transfer, exported) = (service.transfer.clone(), label.clone());
    let bytes = blocking(move || transfer.pack(&exported)).await??;
    let mut permit = service.admission.body();
    // It waits until the client reads it.
    permit.grow_to(bytes.len())?;
    let headers =
        [(header::CONTENT_TYPE, CONTENT_TYPE.to_owned()), (header::CONTENT_DISPOSITION, attached_pack(&label))];
    Ok((headers, permit.holding(bytes)).into_response())
}

/// What clients are told to call the file of a pack, in both forms (RFC 6266, appendix D): curl and others read the
/// plain one alone, and without it would call every pack `pack`.
fn attached_pack(label: &str) -> String {
    let label = percent_encoded(label);
    format!("attachment; filename=\"{}.orcopack\"; filename*=UTF-8''{label}.orcopack", beginning(&label))
}

/// As much of an escaped label as a name of a file holds everywhere. No escape is cut in two.
fn beginning(escaped: &str) -> &str {
    let Some(beginning) = escaped.get(..MAX_PLAIN_LABEL) else { return escaped };
    match beginning.rfind('%') {
        Some(start) if start + 3 > MAX_PLAIN_LABEL => &beginning[..start],
        _ => beginning,
    }
}

/// How the class of a pack is called here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportQuery {
    label: Option<String>,
}

/// `POST /api/v1/import`: learns the class of a pack, under its own label or another one.
///
/// # Errors
/// [`Refusal`] if the pack is not taken, its label is known already, no target is free, too little memory is
/// free, or too many changes wait.
pub async fn import(
    State(service): State<Arc<Service>>,
    Query(ImportQuery { label }): Query<ImportQuery>,
    bytes: Bytes,
) -> Result<Response, Refusal> {
    let transfer = service.transfer.clone();
    // What is decoded takes as much again, until it is learned.
    let mut permit = service.admission.body_beside(bytes.len());
    permit.grow_to(bytes.len())?;
    let pack = blocking(move || transfer.open(&bytes)).await??;
    let label = usable_label(label.as_deref().unwrap_or(&pack.label))?;
    let knowledge = service.answers.knowledge();
    if knowledge.class(&label).is_ok() {
        let sentence = format!("the label \"{label}\" exists already: import the class under another one");
        return Err(Refusal::new(ErrorCode::LabelTaken, sentence).with("label", label));
    }
    knowledge.check_free_target()?;
    Ok(queued(&service.changes().request(ChangeRequest::Import {
        label,
        pack: Box::new(pack),
        permit: permit.into(),
    })?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_has_a_plain_name_and_one_of_any_language() {
        assert_eq!(attached_pack("mug"), "attachment; filename=\"mug.orcopack\"; filename*=UTF-8''mug.orcopack");
        let escaped = "%C3%9F%22.orcopack";
        assert_eq!(attached_pack("ß\""), format!("attachment; filename=\"{escaped}\"; filename*=UTF-8''{escaped}"));
    }

    #[test]
    fn a_long_plain_name_is_cut_between_two_escapes() {
        for (plain, kept) in [(197, 200), (198, 198), (199, 199), (200, 200), (201, 200)] {
            let label = "m".repeat(plain) + "ßß";
            assert_eq!(beginning(&percent_encoded(&label)).len(), kept, "{plain}");
            assert!(attached_pack(&label).ends_with("%C3%9F%C3%9F.orcopack"), "{plain}");
        }
    }
}

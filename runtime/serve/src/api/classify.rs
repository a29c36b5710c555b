//! What a picture shows.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::manifest::hexadecimal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Query, blocking, flag, picture, stored_shots, whole_number};
use crate::admission::Admitted;
use crate::inbox;
use crate::prediction::{ClassProbability, SimilarExemplar};
use crate::refusal::Refusal;
use crate::service::Service;

/// What is answered about a picture.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassifyQuery {
    /// How many classes are named.
    #[serde(default = "default_top", deserialize_with = "whole_number")]
    top: usize,
    /// Whether the stored exemplars that it is like are named.
    #[serde(default, deserialize_with = "flag")]
    why: bool,
    /// Whether the picture goes into the inbox if it is not recognised.
    #[serde(default, deserialize_with = "flag")]
    inbox: bool,
}

fn default_top() -> usize {
    3
}

/// Most stored exemplars that an answer names.
const MAX_SIMILAR: usize = 6;

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
        return Err(Refusal::bad_request("the query: \"top\" must be at least 1"));
    }
    let admitted = picture::admit(&service, body).await?;
    let input = service.manifest.preprocessing;
    // A large picture is reduced while it is decoded: its size is that of the header.
    let (width, height) = (admitted.cost.file_width, admitted.cost.file_height);
    let fit = move |picture: RgbImage| (inbox.then(|| inbox::reduced(&picture)), input.fit(&picture));
    let ((kept, fitted), permit) = picture::decode(admitted, fit).await?.into_parts();
    // Only small pictures are left; the JPEG of the kept one is no larger than its pixels.
    let kept_bytes = kept.as_ref().map_or(0, |kept| 2 * kept.as_raw().len());
    permit.shrink_to((fitted.as_raw().len() + kept_bytes) as u64);
    let fitted = Admitted::new(fitted, permit.clone());
    let answer = service.answers.answer(fitted, if why { MAX_SIMILAR } else { 0 }).await?;
    let matches = ClassProbability::list_json(&answer.classes, top);
    let set = ClassProbability::set_json(&answer.classes);
    let mut json = json!({
        "matches": matches, "set": set, "known": answer.known, "width": width, "height": height,
    });
    if why {
        let (device, exemplars) = (Arc::clone(&service), answer.similar.clone());
        let why = move || exemplars.iter().map(|exemplar| similar_json(&device, exemplar)).collect();
        json["why"] = blocking(why).await?;
    }
    if let Some(picture) = kept {
        let picture = Admitted::new(picture, permit);
        json["inbox"] = json!(blocking(move || service.inbox.offer(&picture, &answer)).await?);
    }
    Ok(Json(json))
}

/// A stored exemplar that is similar to a picture, with the path of its small picture if it has one.
fn similar_json(service: &Service, exemplar: &SimilarExemplar) -> Value {
    let thumbnail = exemplar.shot.filter(|shot| service.has_picture_of_shot(&shot.digest));
    let path = thumbnail.map(|shot| stored_shots::thumbnail_path(&exemplar.label, &shot.digest));
    let (id, number) = (exemplar.shot.map(|shot| hexadecimal(&shot.digest)), exemplar.shot.map(|shot| shot.number));
    json!({
        "label": exemplar.label, "similarity": exemplar.similarity, "shot": id, "number": number, "thumbnail": path,
    })
}

//! The Open Inference Protocol, version 2, over HTTP, with its extension for binary tensors.
//!
//! The model takes either `image`, BYTES `[n]` (JPEG, PNG or WebP files; Base64 where they stand in JSON), or
//! `features`, FP32 `[n, features]`; it returns `label` BYTES `[n]`, `probability` FP32 `[n]`, `probabilities` FP32
//! `[n, classes]` in the order of `GET /api/v1/classes`, and `known` BOOL `[n]`: whether a picture is like anything
//! known.

pub mod model;
mod response;
mod tensor;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use orco_runtime::ndarray::{Array2, Axis};
use orco_runtime::state::label;

use self::model::ModelPath;
use self::response::{TensorAnswer, respond};
use self::tensor::{InferenceRequest, MAX_ROWS, Tensor};
use super::{Path, blocking, picture};
use crate::admission::{Admitted, BodyPermit, UNCOUNTED_BYTES};
use crate::inference_statistics::InferenceTimes;
use crate::prediction::Prediction;
use crate::refusal::Refusal;
use crate::route::{self, BodyKind};
use crate::service::Service;

/// Header that says where the JSON of a request with binary tensors ends.
const JSON_LENGTH: &str = "inference-header-content-length";
/// Most bytes of JSON that a thread that serves reads or writes itself; longer JSON goes to those that decode.
const MAX_INLINE_JSON_BYTES: usize = 4 << 10;
/// Most feature vectors that are classified in one call.
const MAX_ROWS_PER_CALL: usize = 64;
/// Bytes that a class takes for each vector that is classified: its score, and its place among all.
const BYTES_PER_MATCH: usize = 32;
/// Most characters of a probability in an answer.
const MAX_PROBABILITY_CHARS: usize = 16;
/// Most bytes that an answer holds once for each vector beside its label: best probability, whether it is known, and
/// what stands around them.
const MAX_ROW_BYTES: usize = 64;

/// `POST /v2/models/{name}/infer`, and the same with the model's version.
///
/// # Errors
/// [`Refusal`] if the bundle has another name or release, the request is not understood, or too many wait.
pub async fn infer(
    State(service): State<Arc<Service>>,
    Path(model): Path<ModelPath>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<impl IntoResponse, Refusal> {
    model.check(&service)?;
    let began = Instant::now();
    let answered = answer_request(&service, &headers, body).await;
    service.statistics.count(began, answered.as_ref().ok().map(|(_, count, times)| (*count, *times)));
    answered.map(|(answer, ..)| answer)
}

/// How many bytes of a body are JSON, at most all: binary tensors follow.
///
/// # Errors
/// [`Refusal`] if the header names no such number, or that is more JSON than is taken.
fn json_length(headers: &HeaderMap, body_length: usize) -> Result<usize, Refusal> {
    let length = match headers.get(JSON_LENGTH) {
        None => body_length,
        Some(length) => length.to_str().ok().and_then(|length| length.parse().ok()).unwrap_or(usize::MAX),
    };
    if length == 0 && body_length > 0 {
        return Err(Refusal::bad_request(
            "this service takes no raw binary requests (Inference-Header-Content-Length: 0), since the model has two \
             inputs: send JSON that names one, and its binary tensor after it",
        ));
    }
    if length > body_length {
        return Err(Refusal::bad_request("Inference-Header-Content-Length is not the length of the JSON in the body"));
    }
    // Whatever the body calls itself.
    let most = BodyKind::Tensors.limit("application/json");
    if length > most {
        let sentence = format!("at most {most} bytes of JSON are taken: send a binary tensor");
        return Err(Refusal::body_limit(most, sentence));
    }
    if length < body_length && length > route::MAX_JSON_BYTES {
        return Err(Refusal::bad_request(format!(
            "before a binary tensor at most {} bytes of JSON are taken",
            route::MAX_JSON_BYTES
        )));
    }
    Ok(length)
}

/// The answer to a request, the number of its pictures or feature vectors, and where the time went.
async fn answer_request(
    service: &Arc<Service>,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<(TensorAnswer, usize, InferenceTimes), Refusal> {
    let mut times = InferenceTimes::default();
    let length = json_length(headers, body.len())?;
    let binary = body.len() - length;
    // A number takes two characters at least, and becomes four bytes; binary ones are copied.
    let read_bytes = if body.len() > UNCOUNTED_BYTES {
        2 * length + binary.min(MAX_ROWS * service.features * size_of::<f32>())
    } else {
        0
    };
    let mut permit = service.admission.body_beside(body.len());
    permit.grow_to(read_bytes)?;
    let features = service.features;
    let is_short = body.len() <= MAX_INLINE_JSON_BYTES;
    let read = move || (tensor::read(&body, length, features), permit);
    let reading = Instant::now();
    let (tensor, _permit) = if is_short { read() } else { blocking(read).await? };
    let InferenceRequest { tensor, form } = tensor?;
    times.input = reading.elapsed();
    let mut permit = service.admission.body_beside(read_bytes);
    let predictions = match tensor {
        Tensor::Rows(rows) => classify_rows(service, rows, &mut permit, &mut times).await?,
        Tensor::Pictures(files) => classify_pictures(service, files, &mut times).await?,
    };
    let (count, writing) = (predictions.len(), Instant::now());
    let answer = respond(service, form, predictions, permit).await?;
    times.output = writing.elapsed();
    Ok((answer, count, times))
}

/// Classifies pictures one after the other. Each is admitted by itself, so that pictures of others come in between.
async fn classify_pictures(
    service: &Arc<Service>,
    files: Vec<Bytes>,
    times: &mut InferenceTimes,
) -> Result<Vec<Prediction>, Refusal> {
    let (input, count) = (service.manifest.preprocessing, files.len());
    let mut predictions = Vec::with_capacity(count);
    for (index, file) in files.into_iter().enumerate() {
        let mut clock = Instant::now();
        let admitted = picture::admit(service, file).await.map_err(|refusal| of_picture(refusal, index, count))?;
        times.queue += lap(&mut clock);
        let fitted = picture::decode(admitted, move |picture| input.fit(&picture)).await;
        let fitted = fitted.map_err(|refusal| of_picture(refusal, index, count))?;
        times.input += lap(&mut clock);
        let (fitted, permit) = fitted.into_parts();
        permit.shrink_to(fitted.as_raw().len() as u64);
        predictions.push(service.answers.classify(Admitted::new(fitted, permit)).await?);
        times.infer += lap(&mut clock);
    }
    Ok(predictions)
}

/// Says which picture is refused, where the request holds several.
fn of_picture(refusal: Refusal, index: usize, count: usize) -> Refusal {
    if count == 1 { refusal } else { refusal.about(&format!("picture {} of {count}", index + 1)) }
}

/// Time since the last lap.
fn lap(clock: &mut Instant) -> Duration {
    let now = Instant::now();
    now.duration_since(std::mem::replace(clock, now))
}

/// Classifies feature vectors a few at a time, so that requests of others come in between. Takes memory for the answer,
/// too.
async fn classify_rows(
    service: &Arc<Service>,
    rows: Array2<f32>,
    permit: &mut BodyPermit,
    times: &mut InferenceTimes,
) -> Result<Vec<Prediction>, Refusal> {
    // One more may be being learned.
    let classes = service.answers.knowledge().classes.len() + 1;
    let without_labels = rows.nrows() * (classes * (size_of::<f32>() + MAX_PROBABILITY_CHARS) + MAX_ROW_BYTES);
    // Which labels come is not known yet, and classes may be renamed meanwhile.
    permit.grow_to(without_labels + rows.nrows() * label::MAX_TEXT)?;
    let mut clock = Instant::now();
    let _admitted = service.admission.admit((MAX_ROWS_PER_CALL * classes * BYTES_PER_MATCH) as u64).await?;
    times.queue = lap(&mut clock);
    let mut predictions = Vec::with_capacity(rows.nrows());
    for some in rows.axis_chunks_iter(Axis(0), MAX_ROWS_PER_CALL) {
        predictions.extend(service.answers.classify_features(some.to_owned()).await?);
    }
    times.infer = lap(&mut clock);
    // Labels in JSON take up to twice their length: memory for that, whatever they are, would double the whole.
    permit.grow_to(without_labels + predictions.iter().map(|one| label_bytes(&one.label)).sum::<usize>())?;
    Ok(predictions)
}

/// Bytes of a label, and of the same in JSON, which escapes quotation marks and backslashes; no label holds control
/// characters.
fn label_bytes(label: &str) -> usize {
    let escapes = label.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    2 * label.len() + escapes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_label_has_room_in_an_answer() {
        let label = "\"".repeat(label::MAX_TEXT);
        assert!(label::is_usable(&label));
        let row = serde_json::to_vec(&(&label, f32::MIN_POSITIVE, false)).unwrap();
        assert!(label.len() + row.len() <= label_bytes(&label) + MAX_ROW_BYTES, "{} bytes", row.len());
    }
}

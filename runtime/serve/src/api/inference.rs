//! The Open Inference Protocol, version 2, over HTTP, with its extension for binary tensors.
//!
//! The model takes either `image`, BYTES `[n]` (JPEG or PNG files; Base64 where they stand in JSON), or `features`,
//! FP32 `[n, features]`; it returns `label` BYTES `[n]`, `probability` FP32 `[n]`, `probabilities` FP32 `[n,
//! classes]` in the order of `GET /api/v1/classes`, and `known` BOOL `[n]`: whether a picture is like anything known.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::IntoResponse;
use orco_runtime::ndarray::{Array2, Axis};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task;

use super::tensor::{self, ROWS, Tensor};
use super::{Path, picture};
use crate::admission::{FREE, FileRoom};
use crate::answers::{Judged, Named};
use crate::error::Refusal;
use crate::route::{self, Body};
use crate::service::Service;

/// Where the JSON of a request with binary tensors ends.
const JSON_LENGTH: &str = "inference-header-content-length";
/// Bytes of a request that are read at once; more are read away from the threads that serve.
const FEW: usize = 4 << 10;
/// Feature vectors that are looked at together.
const TOGETHER: usize = 64;
/// Bytes that a class takes of each vector that is looked at: its score, and its place among all.
const MATCH: usize = 32;
/// Most characters of a probability in an answer.
const PROBABILITY: usize = 16;
/// Most bytes of what stands once for each vector in an answer.
const ROW: usize = 512;

/// `GET /v2/health/live`: it answers.
pub async fn live() -> StatusCode {
    StatusCode::OK
}

/// `GET /v2/health/ready`: a service that listens has opened everything; no thread is down, and its state can be read and
/// written.
///
/// # Errors
/// [`Refusal`] if something of that is not so any more; the status says what, to those who may know.
pub async fn ready(State(service): State<Arc<Service>>) -> Result<StatusCode, Refusal> {
    service.health.check().await?;
    match service.answers.knowledge().problem {
        None => Ok(StatusCode::OK),
        Some(_) => Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the state cannot be used any more: GET /api/v1/status says why",
        )),
    }
}

/// `GET /v2`
pub async fn server() -> Json<Value> {
    Json(json!({ "name": "orco", "version": env!("CARGO_PKG_VERSION"), "extensions": ["binary_tensor_data"] }))
}

/// `GET /v2/models/{name}`
///
/// # Errors
/// [`Refusal`] if the bundle has another name.
pub async fn model(State(service): State<Arc<Service>>, Path(name): Path<String>) -> Result<Json<Value>, Refusal> {
    check_name(&service, &name)?;
    let tensor = |name: &str, kind: &str, shape: &[i64]| json!({ "name": name, "datatype": kind, "shape": shape });
    Ok(Json(json!({
        "name": name, "versions": [service.manifest.release.to_string()], "platform": "orco",
        "inputs": [tensor("image", "BYTES", &[-1]), tensor("features", "FP32", &[-1, service.features as i64])],
        "outputs": [
            tensor("label", "BYTES", &[-1]), tensor("probability", "FP32", &[-1]),
            tensor("probabilities", "FP32", &[-1, -1]), tensor("known", "BOOL", &[-1]),
        ],
    })))
}

/// `GET /v2/models/{name}/ready`
///
/// # Errors
/// [`Refusal`] if the bundle has another name, or as for [`ready`].
pub async fn model_ready(State(service): State<Arc<Service>>, Path(name): Path<String>) -> Result<StatusCode, Refusal> {
    check_name(&service, &name)?;
    ready(State(service)).await
}

fn check_name(service: &Service, name: &str) -> Result<(), Refusal> {
    let served = &service.manifest.name;
    if name == served { Ok(()) } else { Err(Refusal::missing(format!("the model of this service is \"{served}\""))) }
}

/// `POST /v2/models/{name}/infer`
///
/// # Errors
/// [`Refusal`] if the bundle has another name, the request is not understood, or too many wait.
pub async fn infer(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<impl IntoResponse, Refusal> {
    check_name(&service, &name)?;
    let length = match headers.get(JSON_LENGTH) {
        None => body.len(),
        Some(length) => length.to_str().ok().and_then(|length| length.parse().ok()).unwrap_or(usize::MAX),
    };
    if length > body.len() {
        return Err(Refusal::bad("Inference-Header-Content-Length is not the length of the JSON in the body"));
    }
    // Whatever the body calls itself.
    let most = Body::Tensors.limit("application/json");
    if length > most {
        return Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("at most {most} bytes of JSON are taken: send a binary tensor"),
        ));
    }
    let binary = body.len() - length;
    if binary > 0 && length > route::JSON {
        return Err(Refusal::bad(format!("before a binary tensor at most {} bytes of JSON are taken", route::JSON)));
    }
    // A number takes two characters at least, and becomes four bytes; binary ones are copied.
    let mut room = service.admission.file();
    if body.len() > FREE {
        room.grow_to(2 * length + binary.min(ROWS * service.features * size_of::<f32>()))?;
    }
    let features = service.features;
    let is_short = body.len() <= FEW;
    let read = move || (tensor::read(&body, length, features), room);
    let read = if is_short { Ok(read()) } else { task::spawn_blocking(read).await };
    let (tensor, _room) = read.map_err(|_| Refusal::bad("the request cannot be read"))?;
    match tensor? {
        (id, Tensor::Rows(rows)) => rows_judged(&service, id, rows).await,
        (id, Tensor::Pictures(files)) => {
            let judged = pictures_judged(&service, files).await?;
            answer(&service, id, &judged, service.admission.file())
        }
    }
}

/// What pictures show, looked at one after the other. Each is admitted by itself, so that pictures of others come between
/// them.
async fn pictures_judged(service: &Arc<Service>, files: Vec<Bytes>) -> Result<Vec<Judged>, Refusal> {
    let input = service.manifest.preprocessing;
    let mut judged = Vec::with_capacity(files.len());
    for file in files {
        let permit = picture::admit(service, file.clone()).await?;
        let fitted = picture::decode(file, permit, move |_, picture| input.fit(&picture)).await?;
        let looked = service.answers.look(fitted, 0).await?;
        let known = service.answers.knowledge();
        let places: HashMap<&str, usize> =
            known.classes.iter().enumerate().map(|(place, class)| (class.label.as_str(), place)).collect();
        // A class that is being learned comes last.
        let place = |named: &Named| places.get(named.label.as_str()).copied().unwrap_or(usize::MAX);
        let label = looked.named.first().map_or_else(String::new, |named| named.label.clone());
        let mut named = looked.named;
        named.sort_by_key(place);
        let probabilities = named.iter().map(|named| named.probability).collect();
        judged.push(Judged { label, probabilities, known: looked.known });
    }
    Ok(judged)
}

/// What feature vectors are like, a few at a time, so that others come between them.
async fn rows_judged(service: &Arc<Service>, id: Option<String>, rows: Array2<f32>) -> Result<Answer, Refusal> {
    // One more may be being learned.
    let classes = service.answers.knowledge().classes.len() + 1;
    let mut room = service.admission.file();
    room.grow_to(rows.nrows() * (classes * (size_of::<f32>() + PROBABILITY) + ROW))?;
    let permit = service.admission.work((TOGETHER * classes * MATCH) as u64).await?;
    let mut judged = Vec::with_capacity(rows.nrows());
    for some in rows.axis_chunks_iter(Axis(0), TOGETHER) {
        judged.extend(service.answers.classify_features(some.to_owned()).await?);
    }
    drop((permit, rows));
    answer(service, id, &judged, room)
}

/// JSON, with the room that it takes.
type Answer = ([(HeaderName, &'static str); 1], Bytes);

#[derive(Serialize)]
struct Response<'a> {
    model_name: &'a str,
    model_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    outputs: (Output<Vec<&'a str>>, Numbers, Numbers, Output<Vec<bool>>),
}

type Numbers = Output<Vec<f32>>;

#[derive(Serialize)]
struct Output<T> {
    name: &'static str,
    datatype: &'static str,
    shape: Vec<usize>,
    data: T,
}

fn answer(service: &Service, id: Option<String>, judged: &[Judged], mut room: FileRoom) -> Result<Answer, Refusal> {
    let (count, classes) = (judged.len(), judged.first().map_or(0, |first| first.probabilities.len()));
    if judged.iter().any(|other| other.probabilities.len() != classes) {
        return Err(Refusal::busy("a class was learned or forgotten meanwhile; ask again"));
    }
    let all: Vec<f32> = judged.iter().flat_map(|one| &one.probabilities).copied().collect();
    if !all.iter().all(|probability| probability.is_finite()) {
        return Err(Refusal::bad(
            "the features are too great for an answer: features are of the size that the backbone gives",
        ));
    }
    let best = |one: &Judged| one.probabilities.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let response = Response {
        model_name: &service.manifest.name,
        model_version: service.manifest.release.to_string(),
        id,
        outputs: (
            Output {
                name: "label",
                datatype: "BYTES",
                shape: vec![count],
                data: judged.iter().map(|one| &*one.label).collect(),
            },
            Output {
                name: "probability",
                datatype: "FP32",
                shape: vec![count],
                data: judged.iter().map(best).collect(),
            },
            Output { name: "probabilities", datatype: "FP32", shape: vec![count, classes], data: all },
            Output {
                name: "known",
                datatype: "BOOL",
                shape: vec![count],
                data: judged.iter().map(|one| one.known).collect(),
            },
        ),
    };
    let text = serde_json::to_vec(&response).map_err(|error| Refusal::bad(error.to_string()))?;
    // The answer waits for whoever asked to read it.
    room.grow_to(text.len())?;
    Ok(([(header::CONTENT_TYPE, "application/json")], room.holding(text)))
}

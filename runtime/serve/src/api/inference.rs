//! The Open Inference Protocol, version 2, over HTTP, with its extension for binary tensors.
//!
//! The model takes either `image`, BYTES `[n]` (JPEG or PNG files; Base64 where they stand in JSON), or `features`,
//! FP32 `[n, features]`; it returns `label` BYTES `[n]`, `probability` FP32 `[n]`, `probabilities` FP32 `[n,
//! classes]` in the order of `GET /api/v1/classes`, and `known` BOOL `[n]`: whether a picture is like anything known.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orco_runtime::ndarray::Array2;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Path, decode};
use crate::answers::Judged;
use crate::error::Refusal;
use crate::service::Service;

/// Where the JSON of a request with binary tensors ends.
const JSON_LENGTH: &str = "inference-header-content-length";
/// Most pictures of a request.
const PICTURES: usize = 64;
/// Most feature vectors of a request.
const ROWS: usize = 4096;

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

#[derive(Deserialize)]
struct Request {
    id: Option<String>,
    inputs: Vec<Input>,
}

#[derive(Deserialize)]
struct Input {
    name: String,
    datatype: String,
    shape: Vec<usize>,
    #[serde(default)]
    parameters: Parameters,
    data: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Parameters {
    binary_data_size: Option<usize>,
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
) -> Result<Json<Value>, Refusal> {
    check_name(&service, &name)?;
    let length = match headers.get(JSON_LENGTH) {
        None => body.len(),
        Some(length) => length.to_str().ok().and_then(|length| length.parse().ok()).unwrap_or(usize::MAX),
    };
    if length > body.len() {
        return Err(Refusal::bad("Inference-Header-Content-Length is not the length of the JSON in the body"));
    }
    let request = serde_json::from_slice(&body[..length]);
    let Request { id, inputs } = request.map_err(|error| Refusal::bad(format!("the request: {error}")))?;
    let [input] = inputs.as_slice() else {
        return Err(Refusal::bad("give one input, \"image\" or \"features\""));
    };
    let binary = input.parameters.binary_data_size.map(|size| {
        let binary = body.slice(length..);
        (binary.len() == size).then_some(binary).ok_or_else(|| Refusal::bad("binary_data_size does not match the body"))
    });
    let binary = binary.transpose()?;
    let answers = match (input.name.as_str(), input.datatype.as_str()) {
        ("image", "BYTES") => {
            let mut answers = Vec::new();
            for file in files(input, binary)? {
                let looked = service.answers.look(decode(file).await?, 0).await?;
                answers.push((looked.named, looked.known));
            }
            answers
        }
        ("features", "FP32") => service.answers.classify_features(rows(input, binary, service.features)?).await?,
        _ => return Err(Refusal::bad("the input must be \"image\" of BYTES or \"features\" of FP32")),
    };
    Ok(Json(outputs(&service, id, &answers)))
}

/// The files of pictures.
fn files(input: &Input, binary: Option<Bytes>) -> Result<Vec<Bytes>, Refusal> {
    let [count @ 1..=PICTURES] = input.shape[..] else {
        return Err(Refusal::bad(format!("the shape of \"image\" must be [n], n from 1 to {PICTURES}")));
    };
    let files = match binary {
        Some(mut rest) => {
            let mut files = Vec::new();
            while !rest.is_empty() {
                let cut = || Refusal::bad("a binary tensor of BYTES is a length of 4 bytes before each element");
                let length = rest.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize);
                let length = length.filter(|length| *length <= rest.len() - 4).ok_or_else(cut)?;
                files.push(rest.slice(4..4 + length));
                rest = rest.slice(4 + length..);
            }
            files
        }
        None => {
            let texts = input.data.as_ref().and_then(Value::as_array);
            let file = |text: &Value| Some(Bytes::from(STANDARD.decode(text.as_str()?).ok()?));
            let files = texts.and_then(|texts| texts.iter().map(file).collect());
            files.ok_or_else(|| Refusal::bad("\"data\" of \"image\" must be a list of files in Base64"))?
        }
    };
    if files.len() == count {
        Ok(files)
    } else {
        Err(Refusal::bad("\"image\" has another number of files than its shape"))
    }
}

/// Feature vectors.
fn rows(input: &Input, binary: Option<Bytes>, features: usize) -> Result<Array2<f32>, Refusal> {
    let [count @ 1..=ROWS, width] = input.shape[..] else {
        return Err(Refusal::bad(format!("the shape of \"features\" must be [n, {features}], n from 1 to {ROWS}")));
    };
    let numbers: Vec<f32> = match binary {
        Some(bytes) => {
            let chunks = bytes.as_chunks::<4>();
            if !chunks.1.is_empty() {
                return Err(Refusal::bad("a binary tensor of FP32 has four bytes for each number"));
            }
            chunks.0.iter().map(|number| f32::from_le_bytes(*number)).collect()
        }
        None => {
            let data = input.data.clone().unwrap_or_default();
            // Nested lists are allowed, too.
            flat(&data).ok_or_else(|| Refusal::bad("\"data\" of \"features\" must be a list of numbers"))?
        }
    };
    if !numbers.iter().all(|number| number.is_finite()) {
        return Err(Refusal::bad("features must be finite"));
    }
    let rows = (width == features).then(|| Array2::from_shape_vec((count, features), numbers).ok()).flatten();
    rows.ok_or_else(|| Refusal::bad(format!("\"features\" must have the shape [n, {features}] and as many numbers")))
}

fn flat(data: &Value) -> Option<Vec<f32>> {
    let rows = data.as_array()?;
    let mut numbers = Vec::with_capacity(rows.len());
    for value in rows {
        match value {
            Value::Array(row) => {
                for number in row {
                    numbers.push(number.as_f64()? as f32);
                }
            }
            number => numbers.push(number.as_f64()? as f32),
        }
    }
    Some(numbers)
}

fn outputs(service: &Service, id: Option<String>, answers: &[Judged]) -> Value {
    let classes = answers.first().map_or(0, |(named, _)| named.len());
    let known = service.answers.knowledge();
    let of = |(answer, _): &Judged| -> Vec<f32> {
        // A class that is being learned comes last.
        let place = |label: &str| known.classes.iter().position(|class| class.label == label).unwrap_or(usize::MAX);
        let mut ordered: Vec<_> = answer.iter().map(|named| (place(&named.label), named.probability)).collect();
        ordered.sort_by_key(|(place, _)| *place);
        ordered.into_iter().map(|(_, probability)| probability).collect()
    };
    let best = |(answer, _): &Judged| answer.first().cloned();
    let labels: Vec<String> = answers.iter().filter_map(best).map(|named| named.label).collect();
    let probability: Vec<f32> = answers.iter().filter_map(best).map(|named| named.probability).collect();
    let all: Vec<f32> = answers.iter().flat_map(of).collect();
    let is_known: Vec<bool> = answers.iter().map(|(_, known)| *known).collect();
    let count = answers.len();
    let mut response = json!({
        "model_name": service.manifest.name, "model_version": service.manifest.release.to_string(),
        "outputs": [
            { "name": "label", "datatype": "BYTES", "shape": [count], "data": labels },
            { "name": "probability", "datatype": "FP32", "shape": [count], "data": probability },
            { "name": "probabilities", "datatype": "FP32", "shape": [count, classes], "data": all },
            { "name": "known", "datatype": "BOOL", "shape": [count], "data": is_known },
        ],
    });
    if let Some(id) = id {
        response["id"] = id.into();
    }
    response
}

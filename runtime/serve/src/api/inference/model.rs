//! What the Open Inference Protocol tells of the server and its one model: metadata, and the extensions for its
//! configuration, the index of the repository and statistics.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::tensor::OUTPUTS;
use crate::api::{Path, null_as_default, object, without_mark};
use crate::refusal::{ErrorCode, Refusal};
use crate::service::Service;

/// Which model a path names.
#[derive(Deserialize)]
pub struct ModelPath {
    name: String,
    version: Option<String>,
}

impl ModelPath {
    /// Whether it is the model that is served.
    ///
    /// # Errors
    /// [`Refusal`] if the bundle has another name or release.
    pub(super) fn check(&self, service: &Service) -> Result<(), Refusal> {
        let (served, release) = (&service.manifest.name, version(service));
        let unknown = |sentence| {
            let refusal = Refusal::new(ErrorCode::UnknownModel, sentence);
            refusal.with("model", served.as_str()).with("version", release.as_str())
        };
        if self.name != *served {
            return Err(unknown(format!("the model of this service is \"{served}\"")));
        }
        match &self.version {
            Some(asked) if *asked != release => {
                Err(unknown(format!("\"{served}\" is served in version {release} alone")))
            }
            _ => Ok(()),
        }
    }
}

/// The model's version: the bundle's release.
pub(super) fn version(service: &Service) -> String {
    service.manifest.release.to_string()
}

/// A tensor of requests or of answers.
struct TensorDescription {
    name: &'static str,
    /// Its type, as requests write it.
    datatype: &'static str,
    /// Its sides; -1 stands for any length.
    shape: Vec<i64>,
}

impl TensorDescription {
    fn new(name: &'static str, datatype: &'static str, shape: &[i64]) -> Self {
        Self { name, datatype, shape: shape.into() }
    }

    /// As the model's metadata describe it.
    fn metadata(&self) -> Value {
        json!({ "name": self.name, "datatype": self.datatype, "shape": self.shape })
    }

    /// As the model's configuration describes it, which has other words for types.
    fn configuration(&self) -> Value {
        let kind = if self.datatype == "BYTES" { "STRING" } else { self.datatype };
        json!({ "name": self.name, "data_type": format!("TYPE_{kind}"), "dims": self.shape })
    }
}

fn inputs(service: &Service) -> [TensorDescription; 2] {
    let features = service.features as i64;
    [TensorDescription::new("image", "BYTES", &[-1]), TensorDescription::new("features", "FP32", &[-1, features])]
}

fn outputs() -> [TensorDescription; 4] {
    let [label, probability, probabilities, known] = OUTPUTS;
    [
        TensorDescription::new(label, "BYTES", &[-1]),
        TensorDescription::new(probability, "FP32", &[-1]),
        TensorDescription::new(probabilities, "FP32", &[-1, -1]),
        TensorDescription::new(known, "BOOL", &[-1]),
    ]
}

/// `GET /v2/health/live`: it answers.
pub async fn live() -> Json<Value> {
    Json(json!({ "live": true }))
}

/// `GET /v2/health/ready`: a service that listens has opened everything; no thread is down, and its state can be read
/// and written.
///
/// # Errors
/// [`Refusal`] if something of that is not so any more; the status says what, to those who may know.
pub async fn server_ready(State(service): State<Arc<Service>>) -> Result<Json<Value>, Refusal> {
    check_ready(&service).await?;
    // The protocol's text calls it "live" here, too; KServe's client reads "ready".
    Ok(Json(json!({ "live": true, "ready": true })))
}

async fn check_ready(service: &Service) -> Result<(), Refusal> {
    service.health.check().await?;
    if service.answers.knowledge().problem.is_some() {
        let sentence = "the state cannot be used any more: GET /api/v1/status says why";
        return Err(Refusal::new(ErrorCode::Degraded, sentence));
    }
    Ok(())
}

/// `GET /v2`
pub async fn server() -> Json<Value> {
    let extensions = ["binary_tensor_data", "model_configuration", "statistics"];
    Json(json!({ "name": "orco", "version": env!("CARGO_PKG_VERSION"), "extensions": extensions }))
}

/// `GET /v2/models/{name}`, and the same with its version.
///
/// # Errors
/// [`Refusal`] if the bundle has another name or release.
pub async fn metadata(
    State(service): State<Arc<Service>>,
    Path(model): Path<ModelPath>,
) -> Result<Json<Value>, Refusal> {
    model.check(&service)?;
    Ok(Json(json!({
        "name": model.name, "versions": [version(&service)], "platform": "orco",
        "inputs": inputs(&service).map(|tensor| tensor.metadata()),
        "outputs": outputs().map(|tensor| tensor.metadata()),
    })))
}

/// `GET /v2/models/{name}/ready`, and the same with its version.
///
/// # Errors
/// [`Refusal`] if the bundle has another name or release, or as for [`server_ready`].
pub async fn ready(State(service): State<Arc<Service>>, Path(model): Path<ModelPath>) -> Result<Json<Value>, Refusal> {
    model.check(&service)?;
    check_ready(&service).await?;
    Ok(Json(json!({ "name": model.name, "ready": true })))
}

/// `GET /v2/models/{name}/config`, and the same with its version.
///
/// # Errors
/// [`Refusal`] if the bundle has another name or release.
pub async fn config(State(service): State<Arc<Service>>, Path(model): Path<ModelPath>) -> Result<Json<Value>, Refusal> {
    model.check(&service)?;
    // A request has one of the two.
    let optional = |tensor: TensorDescription| {
        let mut tensor = tensor.configuration();
        tensor["optional"] = true.into();
        tensor
    };
    Ok(Json(json!({
        "name": model.name, "platform": "orco", "backend": "orco",
        "version_policy": { "specific": { "versions": [service.manifest.release] } },
        // The first side of a shape is written out.
        "max_batch_size": 0,
        "input": inputs(&service).map(optional),
        "output": outputs().map(|tensor| tensor.configuration()),
    })))
}

/// `GET /v2/models/{name}/stats`, and the same with its version.
///
/// # Errors
/// [`Refusal`] if the bundle has another name or release.
pub async fn statistics(
    State(service): State<Arc<Service>>,
    Path(model): Path<ModelPath>,
) -> Result<Json<Value>, Refusal> {
    model.check(&service)?;
    Ok(all_statistics(State(service)).await)
}

/// `GET /v2/models/stats`
pub async fn all_statistics(State(service): State<Arc<Service>>) -> Json<Value> {
    Json(service.statistics.json(&service.manifest.name, &version(&service)))
}

/// Which models the index lists.
#[derive(Default, Deserialize)]
pub struct IndexRequest {
    #[serde(default, deserialize_with = "null_as_default")]
    ready: bool,
}

/// `POST /v2/repository/index`
///
/// # Errors
/// [`Refusal`] if the body is neither empty nor understood.
pub async fn index(State(service): State<Arc<Service>>, body: Bytes) -> Result<Json<Value>, Refusal> {
    let is_empty = without_mark(&body).trim_ascii().is_empty();
    let request: IndexRequest = if is_empty { IndexRequest::default() } else { object(&body)? };
    let problem = check_ready(&service).await.err().map(|refusal| refusal.sentence);
    if request.ready && problem.is_some() {
        return Ok(Json(json!([])));
    }
    let state = if problem.is_none() { "READY" } else { "UNAVAILABLE" };
    Ok(Json(json!([{
        "name": service.manifest.name, "version": version(&service), "state": state,
        "reason": problem.unwrap_or_default(),
    }])))
}

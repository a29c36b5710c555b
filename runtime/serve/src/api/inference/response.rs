//! The answer to an inference request: JSON, and binary tensors behind it where the request asks for those.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use serde::{Serialize, Serializer};

use super::tensor::{AnswerForm, OUTPUTS, OutputForm};
use super::{JSON_LENGTH, MAX_INLINE_JSON_BYTES, MAX_PROBABILITY_CHARS, model};
use crate::admission::BodyPermit;
use crate::blocking::blocking;
use crate::prediction::Prediction;
use crate::refusal::{ErrorCode, Refusal};
use crate::service::Service;

/// JSON, and binary tensors behind it, with the memory that they take.
pub(super) type TensorAnswer = (HeaderMap, Bytes);

#[derive(Serialize)]
struct Response<'a> {
    model_name: &'a str,
    model_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    outputs: Vec<OutputTensor<'a>>,
}

#[derive(Serialize)]
struct OutputTensor<'a> {
    name: &'static str,
    datatype: &'static str,
    shape: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<BinarySize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<OutputData<'a>>,
}

#[derive(Serialize)]
struct BinarySize {
    binary_data_size: usize,
}

/// The numbers or texts of an output.
#[derive(Serialize)]
#[serde(untagged)]
enum OutputData<'a> {
    Labels(Vec<&'a str>),
    Numbers(Vec<f32>),
    Flattened(Flattened<'a>),
    Flags(Vec<bool>),
}

impl OutputData<'_> {
    fn datatype(&self) -> &'static str {
        match self {
            Self::Labels(_) => "BYTES",
            Self::Numbers(_) | Self::Flattened(_) => "FP32",
            Self::Flags(_) => "BOOL",
        }
    }

    /// Writes it as a binary tensor.
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Labels(labels) => labels.iter().for_each(|label| {
                to.extend_from_slice(&(label.len() as u32).to_le_bytes());
                to.extend_from_slice(label.as_bytes());
            }),
            Self::Numbers(numbers) => numbers.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes())),
            Self::Flattened(all) => all.numbers().for_each(|number| to.extend_from_slice(&number.to_le_bytes())),
            Self::Flags(flags) => to.extend(flags.iter().map(|flag| u8::from(*flag))),
        }
    }
}

/// The probabilities of all predictions as one flat list.
struct Flattened<'a>(&'a [Prediction]);

impl Flattened<'_> {
    fn numbers(&self) -> impl Iterator<Item = &f32> {
        self.0.iter().flat_map(|prediction| &prediction.probabilities)
    }
}

impl Serialize for Flattened<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.numbers())
    }
}

/// Writes the answer; a large one away from the threads that serve.
pub(super) async fn respond(
    service: &Arc<Service>,
    form: AnswerForm,
    predictions: Vec<Prediction>,
    permit: BodyPermit,
) -> Result<TensorAnswer, Refusal> {
    let numbers: usize = predictions.iter().map(|prediction| prediction.probabilities.len()).sum();
    let service = Arc::clone(service);
    let write = move || write_answer(&service, form, &predictions, permit);
    if numbers * MAX_PROBABILITY_CHARS <= MAX_INLINE_JSON_BYTES { write() } else { blocking(write).await? }
}

/// Refuses predictions that cannot be answered as one table: of different classes, or none that are numbers. Returns
/// how many classes each has.
fn check_predictions(predictions: &[Prediction]) -> Result<usize, Refusal> {
    let classes = predictions.first().map_or(0, |first| first.probabilities.len());
    if predictions.iter().any(|other| other.probabilities.len() != classes) {
        let sentence = "a class was learned or forgotten meanwhile; ask again";
        return Err(Refusal::new(ErrorCode::StateChanged, sentence));
    }
    if !Flattened(predictions).numbers().all(|probability| probability.is_finite()) {
        return Err(Refusal::bad_request(
            "the features are too large to classify: send features as the backbone gives them",
        ));
    }
    Ok(classes)
}

fn write_answer(
    service: &Service,
    AnswerForm { id, outputs }: AnswerForm,
    predictions: &[Prediction],
    mut permit: BodyPermit,
) -> Result<TensorAnswer, Refusal> {
    let (count, classes) = (predictions.len(), check_predictions(predictions)?);
    let best = |one: &Prediction| one.probabilities.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let data = [
        OutputData::Labels(predictions.iter().map(|one| &*one.label).collect()),
        OutputData::Numbers(predictions.iter().map(best).collect()),
        OutputData::Flattened(Flattened(predictions)),
        OutputData::Flags(predictions.iter().map(|one| one.known).collect()),
    ];
    let mut binary = Vec::new();
    let mut written = Vec::with_capacity(OUTPUTS.len());
    for ((name, data), form) in OUTPUTS.into_iter().zip(data).zip(outputs.0) {
        let Some(form) = form else { continue };
        let shape = if matches!(data, OutputData::Flattened(_)) { vec![count, classes] } else { vec![count] };
        let (datatype, before) = (data.datatype(), binary.len());
        let (parameters, data) = match form {
            OutputForm::Json => (None, Some(data)),
            OutputForm::Binary => {
                data.write(&mut binary);
                (Some(BinarySize { binary_data_size: binary.len() - before }), None)
            }
        };
        written.push(OutputTensor { name, datatype, shape, parameters, data });
    }
    let response =
        Response { model_name: &service.manifest.name, model_version: model::version(service), id, outputs: written };
    let is_binary = response.outputs.iter().any(|output| output.data.is_none());
    let mut body = serde_json::to_vec(&response).map_err(|error| Refusal::internal(error.to_string()))?;
    let mut headers = HeaderMap::new();
    if is_binary {
        headers.insert(JSON_LENGTH, body.len().into());
    }
    let kind = if is_binary { "application/octet-stream" } else { "application/json" };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    body.append(&mut binary);
    // The answer waits until the client reads it.
    permit.grow_to(body.len())?;
    Ok((headers, permit.holding(body)))
}

//! The tensors of an inference request, read into memory of bounded size: never more numbers or files than the model
//! takes, and no tree of JSON values, which takes forty times the bytes that it is written with.

mod elements;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orco_runtime::ndarray::Array2;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use self::elements::{ElementSink, read_list};
use crate::api::{null_as_default, without_mark};
use crate::refusal::Refusal;

/// Most pictures of a request.
pub(super) const MAX_PICTURES: usize = 64;
/// Most feature vectors of a request.
pub(super) const MAX_ROWS: usize = 4096;
/// Most bytes of a request's identifier, which is sent back.
const MAX_ID_BYTES: usize = 256;
/// Names of the outputs.
pub(super) const OUTPUTS: [&str; 4] = ["label", "probability", "probabilities", "known"];
/// Most characters of a number in JSON, with what stands around it.
const MAX_NUMBER_CHARS: usize = 64;

/// What is asked.
pub(super) struct InferenceRequest {
    pub tensor: Tensor,
    pub form: AnswerForm,
}

/// What a request says of its answer.
pub(super) struct AnswerForm {
    /// Sent back.
    pub id: Option<String>,
    pub outputs: RequestedOutputs,
}

/// Which outputs are answered, in the order of [`OUTPUTS`], and whether as binary tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestedOutputs(pub [Option<OutputForm>; OUTPUTS.len()]);

/// How an output is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputForm {
    Json,
    Binary,
}

impl OutputForm {
    fn of(is_binary: bool) -> Self {
        if is_binary { Self::Binary } else { Self::Json }
    }
}

/// What is to be classified.
#[derive(Debug)]
pub(super) enum Tensor {
    /// Files of pictures.
    Pictures(Vec<Bytes>),
    /// Feature vectors, finite, as are their norms.
    Rows(Array2<f32>),
}

#[derive(Deserialize)]
struct Request<'a> {
    id: Option<String>,
    #[serde(borrow, deserialize_with = "only_one")]
    inputs: InputTensor<'a>,
    outputs: Option<OutputList>,
    #[serde(default, deserialize_with = "null_as_default")]
    parameters: RequestParameters,
}

#[derive(Default, Deserialize)]
struct RequestParameters {
    binary_data_output: Option<bool>,
}

/// What a request says of each output.
#[derive(Default)]
struct OutputList([OutputRequest; OUTPUTS.len()]);

/// What a request says of an output.
#[derive(Clone, Copy, Default)]
enum OutputRequest {
    #[default]
    Unnamed,
    /// Named, in the form that the request has for all.
    InCommonForm,
    /// Named, in a form of its own.
    In(OutputForm),
}

#[derive(Deserialize)]
struct RequestedOutput<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default, deserialize_with = "null_as_default")]
    parameters: OutputParameters,
}

#[derive(Default, Deserialize)]
struct OutputParameters {
    binary_data: Option<bool>,
    classification: Option<IgnoredAny>,
    shared_memory_region: Option<IgnoredAny>,
}

impl OutputParameters {
    /// Why they cannot be answered: they are of an extension that is not there, and without it the answer would be
    /// another one than was asked for.
    fn objection(&self) -> Option<&'static str> {
        if self.classification.is_some() {
            return Some(
                "this service has no classification extension: ask for \"label\" or \"probabilities\" as they are",
            );
        }
        let sentence = "this service has no shared memory extension: take the data from the answer";
        self.shared_memory_region.is_some().then_some(sentence)
    }
}

impl<'de> Deserialize<'de> for OutputList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = OutputList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of outputs, of {}", OUTPUTS.join(", "))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OutputList, A::Error> {
                let mut outputs = OutputList::default();
                while let Some(RequestedOutput { name, parameters }) = list.next_element()? {
                    let known = OUTPUTS.iter().position(|output| *output == name);
                    let place = known.ok_or_else(|| A::Error::unknown_variant(&name, &OUTPUTS))?;
                    if let Some(objection) = parameters.objection() {
                        return Err(A::Error::custom(objection));
                    }
                    outputs.0[place] = match parameters.binary_data {
                        Some(is_binary) => OutputRequest::In(OutputForm::of(is_binary)),
                        None => OutputRequest::InCommonForm,
                    };
                }
                Ok(outputs)
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl RequestedOutputs {
    /// All of them where a request names none.
    fn of(list: Option<OutputList>, common: OutputForm) -> Self {
        let OutputList(outputs) = list.unwrap_or_default();
        let names_none = outputs.iter().all(|output| matches!(output, OutputRequest::Unnamed));
        Self(outputs.map(|output| match output {
            OutputRequest::In(own) => Some(own),
            OutputRequest::InCommonForm => Some(common),
            OutputRequest::Unnamed => names_none.then_some(common),
        }))
    }
}

#[derive(Deserialize)]
struct InputTensor<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    datatype: Cow<'a, str>,
    shape: Shape,
    #[serde(default, deserialize_with = "null_as_default")]
    parameters: InputParameters,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct InputParameters {
    binary_data_size: Option<usize>,
    shared_memory_region: Option<IgnoredAny>,
}

/// A request, whose first `json_length` bytes are JSON and the others binary; `features` is the length of a feature
/// vector.
///
/// # Errors
/// [`Refusal`] if it is not understood, or is more than the model takes.
pub(super) fn read(body: &Bytes, json_length: usize, features: usize) -> Result<InferenceRequest, Refusal> {
    let request = serde_json::from_slice(without_mark(&body[..json_length]));
    let Request { id, inputs: input, outputs, parameters } =
        request.map_err(|error| Refusal::not_understood("the request", &error))?;
    if id.as_ref().is_some_and(|id| id.len() > MAX_ID_BYTES) {
        return Err(Refusal::bad_request(format!("\"id\" must have at most {MAX_ID_BYTES} bytes")));
    }
    if input.parameters.shared_memory_region.is_some() {
        return Err(Refusal::bad_request("this service has no shared memory extension: send the data itself"));
    }
    let binary = input.parameters.binary_data_size.map(|size| {
        let binary = body.slice(json_length..);
        (binary.len() == size)
            .then_some(binary)
            .ok_or_else(|| Refusal::bad_request("binary_data_size does not match the body"))
    });
    let binary = binary.transpose()?;
    let tensor = match (&*input.name, &*input.datatype) {
        ("image", "BYTES") => Tensor::Pictures(files(&input, binary)?),
        ("features", "FP32") => Tensor::Rows(rows(&input, binary, features)?),
        _ => {
            let sentence = "the input must be \"image\" of BYTES, files of pictures, or \"features\" of FP32";
            return Err(Refusal::bad_request(sentence));
        }
    };
    let outputs = RequestedOutputs::of(outputs, OutputForm::of(parameters.binary_data_output == Some(true)));
    Ok(InferenceRequest { tensor, form: AnswerForm { id, outputs } })
}

/// What stands for a tensor in the JSON.
fn json_data<'a>(input: &InputTensor<'a>) -> Result<&'a str, Refusal> {
    input.data.map(RawValue::get).ok_or_else(|| {
        let name = &input.name;
        Refusal::bad_request(format!("\"{name}\" has neither \"data\" nor \"binary_data_size\" in its parameters"))
    })
}

/// The files of pictures.
fn files(input: &InputTensor<'_>, binary: Option<Bytes>) -> Result<Vec<Bytes>, Refusal> {
    let Shape::One(count @ 1..=MAX_PICTURES) = input.shape else {
        return Err(Refusal::bad_request(format!("the shape of \"image\" must be [n], n from 1 to {MAX_PICTURES}")));
    };
    let other_number = || Refusal::bad_request("the number of files in \"image\" does not match its shape");
    let mut files = Vec::new();
    match binary {
        Some(mut rest) => {
            while !rest.is_empty() {
                let cut =
                    || Refusal::bad_request("a binary tensor of BYTES is a length of 4 bytes before each element");
                let length = rest.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize);
                let length = length.filter(|length| *length <= rest.len() - 4).ok_or_else(cut)?;
                if files.len() == count {
                    return Err(other_number());
                }
                files.push(rest.slice(4..4 + length));
                rest = rest.slice(4 + length..);
            }
        }
        None => {
            let data = json_data(input)?;
            let mut push = |text: &str| {
                files.push(Bytes::from(STANDARD.decode(text).map_err(|_| "no Base64")?));
                Ok(())
            };
            let mut sink = ElementSink::Text(&mut push);
            read_list(data, count, 1, &mut sink).map_err(|error| {
                Refusal::not_understood("\"data\" of \"image\" must be a list of files in Base64", &error)
            })?;
        }
    }
    if files.len() == count { Ok(files) } else { Err(other_number()) }
}

/// Feature vectors.
fn rows(input: &InputTensor<'_>, binary: Option<Bytes>, features: usize) -> Result<Array2<f32>, Refusal> {
    let Shape::Two(count @ 1..=MAX_ROWS, width) = input.shape else {
        return Err(Refusal::bad_request(format!(
            "the shape of \"features\" must be [n, {features}], n from 1 to {MAX_ROWS}"
        )));
    };
    let wrong =
        || Refusal::bad_request(format!("\"features\" must have the shape [n, {features}] and as many numbers"));
    if width != features {
        return Err(wrong());
    }
    let most = count * features;
    let numbers: Vec<f32> = match binary {
        Some(bytes) => {
            let chunks = bytes.as_chunks::<4>();
            if !chunks.1.is_empty() {
                return Err(Refusal::bad_request("a binary tensor of FP32 has four bytes for each number"));
            }
            if chunks.0.len() != most {
                return Err(wrong());
            }
            chunks.0.iter().map(|number| f32::from_le_bytes(*number)).collect()
        }
        None => {
            let data = json_data(input)?;
            if data.len() > (most + 1) * MAX_NUMBER_CHARS {
                return Err(wrong());
            }
            let mut numbers = Vec::with_capacity(most.min(data.len() / 2 + 1));
            let mut push = |number: f64| numbers.push(number as f32);
            // Nested lists are allowed, too.
            let mut sink = ElementSink::Number(&mut push);
            read_list(data, most, 2, &mut sink).map_err(|error| {
                Refusal::not_understood("\"data\" of \"features\" must be a list of numbers", &error)
            })?;
            numbers
        }
    };
    let rows = Array2::from_shape_vec((count, features), numbers).map_err(|_| wrong())?;
    // Of greater vectors no direction can be computed.
    let is_finite = |row: &[f32]| row.iter().map(|value| value * value).sum::<f32>().is_finite();
    if rows.as_slice().is_some_and(|all| all.chunks_exact(features.max(1)).all(is_finite)) {
        return Ok(rows);
    }
    Err(Refusal::bad_request("features must be finite, and so must the sum of squares of each vector (in FP32)"))
}

/// A shape, as far as any input has one.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    One(usize),
    Two(usize, usize),
    Other,
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sides;
        impl<'de> Visitor<'de> for Sides {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a shape: a list of whole numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sides: A) -> Result<Shape, A::Error> {
                let Some(first) = sides.next_element()? else { return Ok(Shape::Other) };
                let Some(second) = sides.next_element()? else { return Ok(Shape::One(first)) };
                let mut shape = Shape::Two(first, second);
                // Pixels have three sides and more: that they are none of the inputs says more than the length.
                while sides.next_element::<IgnoredAny>()?.is_some() {
                    shape = Shape::Other;
                }
                Ok(shape)
            }
        }
        deserializer.deserialize_seq(Sides)
    }
}

/// A list of one input.
fn only_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<InputTensor<'de>, D::Error> {
    struct One;
    impl<'de> Visitor<'de> for One {
        type Value = InputTensor<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("one input, \"image\" or \"features\"")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut inputs: A) -> Result<InputTensor<'de>, A::Error> {
            let input = inputs.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
            match inputs.next_element::<IgnoredAny>()? {
                None => Ok(input),
                Some(_) => Err(A::Error::invalid_length(2, &self)),
            }
        }
    }
    deserializer.deserialize_seq(One)
}

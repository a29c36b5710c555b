//! The tensors of an inference request, read into memory of bounded size: never more numbers or files than the model
//! takes, and no tree of JSON values, which takes forty times the bytes that it is written with.

use std::borrow::Cow;
use std::fmt;

use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orco_runtime::ndarray::Array2;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

use super::without_mark;
use crate::error::Refusal;

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
    #[serde(default)]
    outputs: Option<OutputList>,
    #[serde(default, deserialize_with = "or_default")]
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
    #[serde(default, deserialize_with = "or_default")]
    parameters: OutputParameters,
}

#[derive(Default, Deserialize)]
struct OutputParameters {
    binary_data: Option<bool>,
    classification: Option<IgnoredAny>,
    shared_memory_region: Option<IgnoredAny>,
}

impl OutputParameters {
    /// Why they cannot be answered: they are of an extension that is not there, and without it the answer would be another
    /// one than was asked for.
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

/// A value, or its default where it is null, as clients write fields that they leave empty.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
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
    #[serde(default, deserialize_with = "or_default")]
    parameters: Parameters,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Parameters {
    binary_data_size: Option<usize>,
    shared_memory_region: Option<IgnoredAny>,
}

/// A request, whose first `json` bytes are JSON and the others binary.
///
/// # Errors
/// [`Refusal`] if it is not understood, or is more than the model takes.
pub(super) fn read(body: &Bytes, json: usize, features: usize) -> Result<InferenceRequest, Refusal> {
    let request = serde_json::from_slice(without_mark(&body[..json]));
    let Request { id, inputs: input, outputs, parameters } =
        request.map_err(|error| Refusal::bad_request(format!("the request: {error}")))?;
    if id.as_ref().is_some_and(|id| id.len() > MAX_ID_BYTES) {
        return Err(Refusal::bad_request(format!("\"id\" must have at most {MAX_ID_BYTES} bytes")));
    }
    if input.parameters.shared_memory_region.is_some() {
        return Err(Refusal::bad_request("this service has no shared memory extension: send the data itself"));
    }
    let binary = input.parameters.binary_data_size.map(|size| {
        let binary = body.slice(json..);
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

/// The files of pictures.
fn files(input: &InputTensor<'_>, binary: Option<Bytes>) -> Result<Vec<Bytes>, Refusal> {
    let Shape::One(count @ 1..=MAX_PICTURES) = input.shape else {
        return Err(Refusal::bad_request(format!("the shape of \"image\" must be [n], n from 1 to {MAX_PICTURES}")));
    };
    let other_number = || Refusal::bad_request("\"image\" has another number of files than its shape");
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
            let data = input.data.map_or("null", RawValue::get);
            let mut push = |text: &str| {
                files.push(Bytes::from(STANDARD.decode(text).map_err(|_| "no Base64")?));
                Ok(())
            };
            let mut sink = ElementSink::Text(&mut push);
            let read = Elements::list(count, 1, &mut sink).deserialize(&mut serde_json::Deserializer::from_str(data));
            read.map_err(|error| {
                Refusal::bad_request(format!("\"data\" of \"image\" must be a list of files in Base64: {error}"))
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
            let data = input.data.map_or("null", RawValue::get);
            if data.len() > (most + 1) * MAX_NUMBER_CHARS {
                return Err(wrong());
            }
            let mut numbers = Vec::with_capacity(most.min(data.len() / 2 + 1));
            let mut push = |number: f64| numbers.push(number as f32);
            // Nested lists are allowed, too.
            let mut sink = ElementSink::Number(&mut push);
            let read = Elements::list(most, 2, &mut sink).deserialize(&mut serde_json::Deserializer::from_str(data));
            read.map_err(|error| {
                Refusal::bad_request(format!("\"data\" of \"features\" must be a list of numbers: {error}"))
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
    Err(Refusal::bad_request("features must be finite, and so must the sum of the squares of each vector's (in FP32)"))
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

/// Takes each element of a list.
enum ElementSink<'a> {
    Number(&'a mut dyn FnMut(f64)),
    Text(&'a mut dyn FnMut(&str) -> Result<(), &'static str>),
}

/// Reads a list of at most so many elements, or one of its elements, which may be a list in turn. Returns how many
/// elements there were.
struct Elements<'a, 'b> {
    most: usize,
    /// How deep lists may still lie within each other.
    depth: u32,
    /// Whether this may be an element alone, and not only a list.
    is_within: bool,
    sink: &'a mut ElementSink<'b>,
}

impl<'a, 'b> Elements<'a, 'b> {
    /// Of a list.
    fn list(most: usize, depth: u32, sink: &'a mut ElementSink<'b>) -> Self {
        Self { most, depth, is_within: false, sink }
    }

    fn take<E: de::Error>(self, take: impl FnOnce(&mut ElementSink<'_>) -> Result<(), E>) -> Result<usize, E> {
        if self.most == 0 {
            return Err(E::custom("it has more elements than its shape"));
        }
        take(self.sink).map(|()| 1)
    }

    fn number<E: de::Error>(self, number: f64) -> Result<usize, E> {
        self.take(|sink| match sink {
            ElementSink::Number(push) => {
                push(number);
                Ok(())
            }
            ElementSink::Text(_) => Err(E::invalid_type(de::Unexpected::Float(number), &"a text")),
        })
    }
}

impl<'de> DeserializeSeed<'de> for Elements<'_, '_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        if self.is_within { deserializer.deserialize_any(self) } else { deserializer.deserialize_seq(self) }
    }
}

impl<'de> Visitor<'de> for Elements<'_, '_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.sink {
            _ if !self.is_within => "a list",
            ElementSink::Number(_) => "a number",
            ElementSink::Text(_) => "a text",
        })
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<usize, E> {
        self.number(number)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<usize, E> {
        self.number(number as f64)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<usize, E> {
        self.number(number as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<usize, E> {
        self.take(|sink| match sink {
            ElementSink::Text(push) => push(text).map_err(E::custom),
            ElementSink::Number(_) => Err(E::invalid_type(de::Unexpected::Other("a text"), &"a number")),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let Some(depth) = self.depth.checked_sub(1) else { return Err(A::Error::custom("its lists lie too deep")) };
        let mut count = 0;
        loop {
            let element = Elements { most: self.most - count, depth, is_within: true, sink: &mut *self.sink };
            match list.next_element_seed(element)? {
                None => return Ok(count),
                Some(more) => count += more,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Tensor, String> {
        let body = Bytes::copy_from_slice(json.as_bytes());
        super::read(&body, body.len(), 3).map(|request| request.tensor).map_err(|refusal| refusal.sentence)
    }

    fn features(shape: &str, data: &str) -> Result<Vec<f32>, String> {
        let json = format!(r#"{{"inputs":[{{"data":{data},"name":"features","datatype":"FP32","shape":{shape}}}]}}"#);
        match read(&json)? {
            Tensor::Rows(rows) => Ok(rows.into_raw_vec_and_offset().0),
            Tensor::Pictures(_) => unreachable!(),
        }
    }

    fn images(shape: &str, data: &str) -> Result<Vec<Bytes>, String> {
        let json = format!(r#"{{"inputs":[{{"name":"image","datatype":"BYTES","shape":{shape},"data":{data}}}]}}"#);
        match read(&json)? {
            Tensor::Pictures(files) => Ok(files),
            Tensor::Rows(_) => unreachable!(),
        }
    }

    #[test]
    fn numbers_are_read_flat_or_in_rows_whatever_comes_first() {
        assert_eq!(features("[1,3]", "[1,-2.5,3e2]").unwrap(), [1.0, -2.5, 300.0]);
        assert_eq!(features("[2,3]", "[[1,2,3],[4,5,6]]").unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(features("[1,3]", " [ 9223372036854775807 , -4611686018427387904,0]").unwrap()[2], 0.0);
    }

    #[test]
    fn what_is_more_than_its_shape_is_refused_where_it_begins() {
        for (shape, data, told) in [
            ("[1,3]", "[1,2,3,4]", "more elements than its shape"),
            ("[1,3]", "[[1,2],[3,4]]", "more elements than its shape"),
            ("[1,3]", "[1,2]", "as many numbers"),
            ("[1,3]", "[[[1,2,3]]]", "too deep"),
            ("[1,3]", r#"[1,2,"3"]"#, "expected a number"),
            ("[1,3]", "[1,2,null]", "expected a number"),
            ("[1,3]", "{}", "expected a list"),
            ("[1,3]", "null", "expected a list"),
            ("[1,3]", "3", "expected a list"),
            ("[4097,3]", "[]", "n from 1 to 4096"),
            ("[0,3]", "[]", "n from 1 to 4096"),
            ("[3]", "[1,2,3]", "must be [n, 3]"),
            ("[]", "[]", "must be [n, 3]"),
            ("[1,4]", "[1,2,3,4]", "must have the shape [n, 3]"),
            ("[1,1,3]", "[1,2,3]", "must be [n, 3]"),
            ("3", "[1,2,3]", "a list of whole numbers"),
            ("[-1,3]", "[1,2,3]", "invalid value"),
            ("[18446744073709551615,3]", "[1]", "n from 1 to 4096"),
        ] {
            let error = features(shape, data).unwrap_err();
            assert!(error.contains(told), "{shape} {data}: {error}");
        }
        let long = format!("[{}1,2,3]", " ".repeat(MAX_NUMBER_CHARS * 5));
        assert!(features("[1,3]", &long).is_err(), "spaces are not counted as numbers");
    }

    #[test]
    fn numbers_without_a_norm_are_refused() {
        for data in ["[3e38,0,0]", "[1e20,0,0]", "[1e39,0,0]", "[-3.4e38,1,1]"] {
            assert!(features("[1,3]", data).unwrap_err().contains("must be finite"), "{data}");
        }
        assert!(features("[1,3]", "[1e18,1e18,-1e18]").is_ok() && features("[1,3]", "[1e999,0,0]").is_err());
    }

    #[test]
    fn files_are_read_from_base64_also_where_it_is_escaped() {
        assert_eq!(images("[2]", r#"["AAEC","\/\/79"]"#).unwrap(), [&[0u8, 1, 2][..], &[255, 254, 253]]);
        for (shape, data, told) in [
            ("[1]", r#"["AAEC","AAEC"]"#, "more elements than its shape"),
            ("[2]", r#"["AAEC"]"#, "another number of files"),
            ("[1]", r#"["AAE"]"#, "no Base64"),
            ("[1]", "[1]", "expected a text"),
            ("[1]", r#"[["AAEC"]]"#, "too deep"),
            ("[65]", "[]", "n from 1 to 64"),
            ("[1,1]", r#"["AAEC"]"#, "n from 1 to 64"),
            ("[1,1,1,1]", r#"["AAEC"]"#, "n from 1 to 64"),
        ] {
            let error = images(shape, data).unwrap_err();
            assert!(error.contains(told), "{shape} {data}: {error}");
        }
    }

    #[test]
    fn whoever_sends_pixels_is_told_that_files_are_taken() {
        for datatype in ["UINT8", "FP32"] {
            let shape = "[1,1,2,3]";
            let json = format!(
                r#"{{"inputs":[{{"name":"image","datatype":"{datatype}","shape":{shape},"data":[1,2,3,4,5,6]}}]}}"#
            );
            assert!(read(&json).unwrap_err().contains("\"image\" of BYTES, files of pictures"), "{datatype}");
        }
    }

    #[test]
    fn one_input_is_taken_and_a_short_identifier() {
        let input = r#"{"name":"image","datatype":"BYTES","shape":[1],"data":["AAEC"]}"#;
        assert!(read(&format!(r#"{{"id":"7","inputs":[{input}],"outputs":[{{"name":"label"}}]}}"#)).is_ok());
        // Some clients write the fields that they leave empty.
        let empty = input.replace(r#""shape""#, r#""parameters":null,"shape""#);
        let outputs = r#"[{"name":"label","parameters":null}]"#;
        let request = format!(r#"{{"id":null,"inputs":[{empty}],"outputs":{outputs},"parameters":null}}"#);
        assert!(read(&request).is_ok(), "{:?}", read(&request).err());
        assert!(read(&format!("\u{feff}{request}")).is_ok(), "a file of Windows");
        for (json, told) in [
            (format!(r#"{{"inputs":[{input},{input}]}}"#), "expected one input"),
            (r#"{"inputs":[]}"#.into(), "expected one input"),
            ("{}".into(), "missing field `inputs`"),
            (format!(r#"{{"id":"{}","inputs":[{input}]}}"#, "7".repeat(257)), "at most 256 bytes"),
            (format!(r#"{{"inputs":[{}]}}"#, input.replace("BYTES", "FP32")), "the input must be"),
            (format!("{}{}", "[".repeat(200), "]".repeat(200)), "the request: "),
        ] {
            let error = read(&json).unwrap_err();
            assert!(error.contains(told), "{json}: {error}");
        }
    }

    #[test]
    fn parameters_of_extensions_that_are_not_there_are_refused() {
        let input = r#"{"name":"image","datatype":"BYTES","shape":[1],"parameters":{},"data":["AAEC"]}"#;
        let request = |input: &str, parameters: &str| {
            let outputs = format!(r#"[{{"name":"label","parameters":{{{parameters}}}}}]"#);
            read(&format!(r#"{{"inputs":[{input}],"outputs":{outputs}}}"#)).map(drop)
        };
        assert_eq!(request(input, r#""binary_data":false,"classification":null"#), Ok(()));
        let (region, classes) = (r#""shared_memory_region":"gpu""#, r#""classification":2"#);
        let in_memory = input.replace("{}", &format!("{{{region}}}"));
        for (input, parameters, told) in [
            (input, classes, "no classification extension"),
            (input, region, "no shared memory extension: take the data from the answer"),
            (in_memory.as_str(), "", "no shared memory extension: send the data itself"),
        ] {
            let error = request(input, parameters).unwrap_err();
            assert!(error.contains(told), "{input} {parameters}: {error}");
        }
    }

    #[test]
    fn the_openapi_document_says_how_long_an_identifier_may_be() {
        let document: serde_json::Value = serde_json::from_str(crate::page::OPENAPI).unwrap();
        let id = &document["components"]["schemas"]["InferenceRequest"]["properties"]["id"];
        assert_eq!(id["maxLength"], MAX_ID_BYTES);
    }

    #[test]
    fn outputs_are_those_that_are_named_in_the_form_that_is_asked_for() {
        use OutputForm::{Binary, Json};
        let outputs = |more: &str| {
            let input = r#"{"name":"features","datatype":"FP32","shape":[1,3],"data":[1,2,3]}"#;
            let json = format!(r#"{{"inputs":[{input}]{more}}}"#);
            let body = Bytes::from(json);
            super::read(&body, body.len(), 3).map(|request| request.form.outputs.0).map_err(|refusal| refusal.sentence)
        };
        assert_eq!(outputs(""), Ok([Some(Json); 4]));
        assert_eq!(outputs(r#","outputs":[]"#), Ok([Some(Json); 4]));
        assert_eq!(outputs(r#","parameters":{"binary_data_output":true}"#), Ok([Some(Binary); 4]));
        let label = r#","outputs":[{"name":"label","parameters":{"binary_data":true}},{"name":"known"}]"#;
        assert_eq!(outputs(label), Ok([Some(Binary), None, None, Some(Json)]));
        let unknown = outputs(r#","outputs":[{"name":"zzz"}]"#).unwrap_err();
        assert!(unknown.contains("zzz") && unknown.contains("probabilities"), "{unknown}");
    }

    #[test]
    fn binary_files_stand_behind_their_lengths() {
        let head = |size: usize, count: usize| {
            format!(
                r#"{{"inputs":[{{"name":"image","datatype":"BYTES","shape":[{count}],"parameters":{{"binary_data_size":{size}}}}}]}}"#
            )
        };
        let read = |count: usize, binary: &[u8]| {
            let json = head(binary.len(), count);
            let body = Bytes::from([json.as_bytes(), binary].concat());
            super::read(&body, json.len(), 3).map(|request| request.tensor)
        };
        let binary = [2, 0, 0, 0, 7, 8, 0, 0, 0, 0];
        let Ok(Tensor::Pictures(files)) = read(2, &binary) else { panic!() };
        assert_eq!(files, [&[7u8, 8][..], &[]]);
        assert!(read(1, &binary).is_err() && read(3, &binary).is_err() && read(2, &binary[..9]).is_err());
    }
}

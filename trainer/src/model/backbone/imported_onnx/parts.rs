//! A model taken apart as far as it is changed: what is not named here stays in the bytes in which it came.

use std::collections::HashSet;

use prost::bytes::Bytes;
use prost::{DecodeError, Message};

use crate::model::onnx_proto::attribute_type::{GRAPH, GRAPHS};
use crate::model::onnx_proto::{FLOAT, NodeProto, OperatorSetProto, StringEntryProto, TensorProto, ValueInfoProto};

/// `onnx.ModelProto` with its graph in parts.
#[derive(Clone, PartialEq, Message)]
pub struct ModelParts {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(string, tag = "3")]
    pub producer_version: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphParts>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetProto>,
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringEntryProto>,
}

impl ModelParts {
    /// The version of ONNX's own operators.
    pub fn operators(&self) -> i64 {
        let own = self.opset_import.iter().filter(|set| is_onnx_domain(&set.domain));
        own.map(|set| set.version).max().unwrap_or(0)
    }
}

/// What is said of a part of the model that is damaged.
pub fn unreadable(_: DecodeError) -> String {
    "its graph cannot be read".to_owned()
}

/// Whether a domain is that of ONNX's own operators.
pub fn is_onnx_domain(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

/// `onnx.GraphProto` with its parts as they came, so that none loses what [`crate::model::onnx_proto`] does not name.
#[derive(Clone, PartialEq, Message)]
pub struct GraphParts {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub node: Vec<Vec<u8>>,
    #[prost(string, tag = "2")]
    pub name: String,
    /// Its weights. Those of a model that is read from [`Bytes`] stay where they lie there, and are not copied.
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub initializer: Vec<Bytes>,
    #[prost(bytes = "vec", repeated, tag = "11")]
    pub input: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "12")]
    pub output: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "13")]
    pub value_info: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    pub quantization_annotation: Vec<Vec<u8>>,
}

impl GraphParts {
    /// Its nodes, as far as [`crate::model::onnx_proto`] names what they have.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn nodes(&self) -> Result<Vec<NodeProto>, DecodeError> {
        self.node.iter().map(|bytes| NodeProto::decode(bytes.as_slice())).collect()
    }

    /// The names of its weights.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn weights(&self) -> Result<HashSet<String>, DecodeError> {
        self.initializer.iter().map(|bytes| Ok(TensorHeader::decode(&bytes[..])?.name)).collect()
    }

    /// The values that it declares: inputs, outputs and those between nodes.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn values(&self) -> Result<Vec<ValueInfoProto>, DecodeError> {
        let all = self.input.iter().chain(&self.output).chain(&self.value_info);
        all.map(|bytes| ValueInfoProto::decode(bytes.as_slice())).collect()
    }

    /// Some nodes and outputs with the inputs of this graph, and with those of its weights that they read: copies of
    /// the others would take as much memory as the model, each time that shapes are inferred.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn with_what_is_read(&self, nodes: Self) -> Result<Self, DecodeError> {
        let inputs = nodes.nodes()?.into_iter().flat_map(|node| node.input);
        let read: HashSet<String> = inputs.chain(names_of(&nodes.output)?).collect();
        let (mut initializer, mut unread) = (Vec::new(), HashSet::new());
        for bytes in &self.initializer {
            let TensorHeader { name, .. } = TensorHeader::decode(&bytes[..])?;
            if read.contains(&name) {
                initializer.push(bytes.clone());
            } else {
                unread.insert(name);
            }
        }
        // Old models list their weights among the inputs.
        let inputs = self.input.iter().zip(names_of(&self.input)?);
        let input = inputs.filter(|(_, name)| !unread.contains(name)).map(|(bytes, _)| bytes.clone()).collect();
        Ok(Self { initializer, input, ..nodes })
    }

    /// Adds nodes behind all others, and constants that they read.
    pub fn append(&mut self, nodes: &[NodeProto], constants: &[TensorProto]) {
        self.node.extend(nodes.iter().map(Message::encode_to_vec));
        self.initializer.extend(constants.iter().map(|constant| Bytes::from(constant.encode_to_vec())));
    }
}

/// Whether a node has graphs of its own, as control flow has. They read values of the graph around them.
pub fn has_graphs(node: &NodeProto) -> bool {
    node.attribute.iter().any(|own| matches!(own.r#type, GRAPH | GRAPHS))
}

/// `onnx.NodeProto` with its attributes as they came.
#[derive(Clone, PartialEq, Message)]
pub struct NodeParts {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub attribute: Vec<Vec<u8>>,
    #[prost(string, tag = "7")]
    pub domain: String,
}

/// `onnx.AttributeProto`, of which the name and what may be a number, a text or a tensor are read.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeParts {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub t: Option<Vec<u8>>,
    #[prost(int32, tag = "20")]
    pub r#type: i32,
}

/// `onnx.TensorProto` without its numbers.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct TensorHeader {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(string, tag = "8")]
    pub name: String,
}

/// `onnx.TensorProto` with its numbers, which stand in its bytes or in the list for their type.
#[derive(Clone, PartialEq, Message)]
pub struct NumberTensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Also int8, truth values, and the bits of half precision.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub name: String,
    /// Little-endian.
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "13")]
    pub external_data: Vec<Vec<u8>>,
}

/// A part of a model anew; none where it stays as it is.
pub type Replacement = Result<Option<Vec<u8>>, DecodeError>;

/// Replaces the parts of which something else is made; whether there was one.
///
/// # Errors
/// If one cannot be read.
pub fn replace<P: AsRef<[u8]> + From<Vec<u8>>>(
    parts: &mut [P],
    change: impl Fn(&[u8]) -> Replacement,
) -> Result<bool, DecodeError> {
    let mut is_replaced = false;
    for part in parts {
        if let Some(changed) = change(part.as_ref())? {
            *part = changed.into();
            is_replaced = true;
        }
    }
    Ok(is_replaced)
}

/// A value as one of f32; none where it is no tensor, or its name and the type of its elements are not meant.
///
/// # Errors
/// If it cannot be read.
pub fn as_floats(value: &[u8], is_meant: impl Fn(&str, i32) -> bool) -> Replacement {
    let mut value = ValueInfoProto::decode(value)?;
    let Some(tensor) = value.r#type.as_mut().and_then(|kind| kind.tensor_type.as_mut()) else { return Ok(None) };
    if !is_meant(&value.name, tensor.elem_type) {
        return Ok(None);
    }
    tensor.elem_type = FLOAT;
    Ok(Some(value.encode_to_vec()))
}

/// The names of values, in their order.
///
/// # Errors
/// If one cannot be read.
pub fn names_of(values: &[Vec<u8>]) -> Result<Vec<String>, DecodeError> {
    values.iter().map(|bytes| Ok(ValueInfoProto::decode(bytes.as_slice())?.name)).collect()
}

//! The part of ONNX's protocol buffers that a backbone needs (onnx.proto, IR version 8), for prost.

use prost::Message;

/// `onnx.ModelProto`.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(string, tag = "3")]
    pub producer_version: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetProto>,
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringEntryProto>,
}

impl ModelProto {
    /// Three numbers out of the metadata, one for each colour channel; NaN where something else stands there.
    pub fn three(&self, key: &str) -> Option<[f32; 3]> {
        let entry = self.metadata_props.iter().find(|entry| entry.key == key)?;
        Some(serde_json::from_str(&entry.value).unwrap_or([f32::NAN; 3]))
    }
}

/// `onnx.OperatorSetIdProto`.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetProto {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// `onnx.StringStringEntryProto`.
#[derive(Clone, PartialEq, Message)]
pub struct StringEntryProto {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `onnx.GraphProto`.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
}

/// `onnx.NodeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    #[prost(string, tag = "7")]
    pub domain: String,
}

impl NodeProto {
    /// The attribute of this name.
    pub fn named(&self, name: &str) -> Option<&AttributeProto> {
        self.attribute.iter().find(|attribute| attribute.name == name)
    }

    /// The whole number of the attribute of this name.
    pub fn whole_number(&self, name: &str) -> Option<i64> {
        self.named(name).and_then(|attribute| attribute.i)
    }
}

/// `onnx.AttributeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    pub r#type: i32,
}

/// `onnx.AttributeProto.AttributeType`.
pub mod attribute_type {
    pub const FLOAT: i32 = 1;
    pub const INT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const GRAPH: i32 = 5;
    pub const INTS: i32 = 7;
    pub const GRAPHS: i32 = 10;
}

/// `onnx.TensorProto`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(string, tag = "8")]
    pub name: String,
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
}

/// `onnx.TensorProto.FLOAT`.
pub const FLOAT: i32 = 1;
/// `onnx.TensorProto.UINT8`.
pub const UINT8: i32 = 2;
/// `onnx.TensorProto.INT8`.
pub const INT8: i32 = 3;
/// `onnx.TensorProto.INT64`.
pub const INT64: i32 = 7;
/// `onnx.TensorProto.INT32`.
pub const INT32: i32 = 6;
/// `onnx.TensorProto.BOOL`.
pub const BOOL: i32 = 9;
/// `onnx.TensorProto.FLOAT16`.
pub const FLOAT16: i32 = 10;
/// `onnx.TensorProto.BFLOAT16`.
pub const BFLOAT16: i32 = 16;

/// `onnx.ValueInfoProto`.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// `onnx.TypeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// `onnx.TypeProto.TensorTypeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<ShapeProto>,
}

/// `onnx.TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct ShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// `onnx.TensorShapeProto.DimensionProto`: exactly one of the two is set.
#[derive(Clone, PartialEq, Message)]
pub struct DimensionProto {
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}

impl ValueInfoProto {
    /// A tensor of these dimensions.
    pub fn new(name: impl Into<String>, elem_type: i32, dim: Vec<DimensionProto>) -> Self {
        let tensor_type = TensorTypeProto { elem_type, shape: Some(ShapeProto { dim }) };
        Self { name: name.into(), r#type: Some(TypeProto { tensor_type: Some(tensor_type) }) }
    }

    /// A tensor of these sides, open where they are 0.
    #[cfg(test)]
    pub fn of_sides(name: impl Into<String>, elem_type: i32, sides: &[i64]) -> Self {
        let dim = sides.iter().map(|&size| DimensionProto { dim_value: (size > 0).then_some(size), dim_param: None });
        Self::new(name, elem_type, dim.collect())
    }

    /// Sizes of its dimensions, `None` where one is not fixed; `None` for all if it is not of floats.
    pub fn sizes(&self) -> Option<Vec<Option<i64>>> {
        let tensor = self.r#type.as_ref()?.tensor_type.as_ref()?;
        let dimensions = &tensor.shape.as_ref()?.dim;
        (tensor.elem_type == FLOAT)
            .then(|| dimensions.iter().map(|dim| dim.dim_value.filter(|&size| size > 0)).collect())
    }
}

/// A node of one output, whose name it has.
pub fn node(operator: &str, input: Vec<String>, name: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        input,
        output: vec![name.into()],
        name: name.into(),
        op_type: operator.into(),
        attribute,
        domain: String::new(),
    }
}

/// An attribute that is a whole number.
pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i: Some(value), r#type: attribute_type::INT, ..AttributeProto::default() }
}

/// An attribute that is a list of whole numbers.
pub fn ints(name: &str, ints: Vec<i64>) -> AttributeProto {
    AttributeProto { name: name.into(), ints, r#type: attribute_type::INTS, ..AttributeProto::default() }
}

/// An attribute that is a text.
pub fn text(name: &str, text: &str) -> AttributeProto {
    let s = Some(text.as_bytes().to_vec());
    AttributeProto { name: name.into(), s, r#type: attribute_type::STRING, ..AttributeProto::default() }
}

/// A constant of whole numbers, a single one where it has no dimensions.
pub fn whole_numbers(name: &str, dims: Vec<i64>, values: &[i64]) -> TensorProto {
    let raw_data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    TensorProto { dims, data_type: INT64, name: name.into(), raw_data }
}

/// A constant that is a list of whole numbers.
pub fn list_of_whole_numbers(name: &str, values: &[i64]) -> TensorProto {
    whole_numbers(name, vec![values.len() as i64], values)
}

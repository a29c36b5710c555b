//! Writes single numbers of int8 as f32 again. `onnxruntime.quantization` quantises the constants of GELU, which
//! several nodes read. On x86, where OrCo has it multiply exactly, ONNX Runtime makes each reader's copy unsigned under
//! one name, and refuses the second.

use std::collections::HashMap;

use prost::{DecodeError, Message};

use super::parts::{GraphParts, TensorHeader, is_onnx_domain};
use crate::model::onnx_proto::{FLOAT, INT8, NodeProto, TensorProto};

/// `onnx.TensorProto` of one number, f32 or int8.
#[derive(Clone, PartialEq, Message)]
struct NumberTensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(float, repeated, tag = "4")]
    float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    int32_data: Vec<i32>,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
}

impl NumberTensor {
    /// Its number, if it is of this type.
    fn of(&self, data_type: i32) -> Option<f32> {
        if self.data_type != data_type {
            return None;
        }
        match (data_type, &self.raw_data[..], &self.float_data[..], &self.int32_data[..]) {
            (FLOAT, &[a, b, c, d], [], []) => Some(f32::from_le_bytes([a, b, c, d])),
            (FLOAT, [], &[number], []) => Some(number),
            (INT8, &[byte], [], []) => Some(f32::from(i8::from_le_bytes([byte]))),
            (INT8, [], [], &[number]) => i8::try_from(number).ok().map(f32::from),
            _ => None,
        }
    }
}

impl GraphParts {
    /// Makes constants of f32 of the single numbers of int8 that nodes dequantise. Whether there was one.
    pub(super) fn dequantise_numbers(&mut self) -> Result<bool, DecodeError> {
        let nodes = self.nodes()?;
        if !nodes.iter().any(dequantises) {
            return Ok(false);
        }
        let mut numbers = HashMap::new();
        for bytes in &self.initializer {
            let TensorHeader { dims, name, .. } = TensorHeader::decode(&bytes[..])?;
            if dims.iter().all(|&side| side == 1) {
                numbers.insert(name, NumberTensor::decode(&bytes[..])?);
            }
        }
        let mut constants = Vec::new();
        for (bytes, node) in std::mem::take(&mut self.node).into_iter().zip(&nodes) {
            match dequantised(node, &numbers) {
                Some(constant) => constants.push(constant),
                None => self.node.push(bytes),
            }
        }
        self.append(&[], &constants);
        Ok(!constants.is_empty())
    }
}

fn dequantises(node: &NodeProto) -> bool {
    node.op_type == "DequantizeLinear" && is_onnx_domain(&node.domain)
}

/// What a node gives that dequantises one of these numbers.
fn dequantised(node: &NodeProto, numbers: &HashMap<String, NumberTensor>) -> Option<TensorProto> {
    let (true, [number, scale, zero_point @ ..]) = (dequantises(node), &node.input[..]) else { return None };
    let tensor = numbers.get(number)?;
    let (number, scale) = (tensor.of(INT8)?, numbers.get(scale)?.of(FLOAT)?);
    let zero_point = match zero_point {
        [] => 0.0,
        [name] => numbers.get(name)?.of(INT8)?,
        _ => return None,
    };
    let raw_data = ((number - zero_point) * scale).to_le_bytes().into();
    let name = node.output.first()?.clone();
    Some(TensorProto { dims: tensor.dims.clone(), data_type: FLOAT, name, raw_data })
}

#[cfg(test)]
mod tests {
    use prost::bytes::Bytes;

    use super::*;
    use crate::model::onnx_proto::{UINT8, node};

    #[test]
    fn single_numbers_of_int8_become_f32() {
        let named = |name: &str, tensor: NumberTensor| {
            // The name comes behind the rest; the order of fields is free.
            let name = TensorHeader { name: name.into(), ..TensorHeader::default() }.encode_to_vec();
            Bytes::from([tensor.encode_to_vec(), name].concat())
        };
        // As onnxruntime.quantization writes them: numbers as bytes, scales and zero points as numbers.
        let bytes = |data_type, dims: &[i64], raw_data: &[u8]| NumberTensor {
            dims: dims.to_vec(),
            data_type,
            raw_data: raw_data.to_vec(),
            ..NumberTensor::default()
        };
        let scale = NumberTensor { data_type: FLOAT, float_data: vec![0.25], ..NumberTensor::default() };
        let zero_point = NumberTensor { data_type: INT8, int32_data: vec![-128], ..NumberTensor::default() };
        let dequantise = |inputs: &[&str], output: &str| {
            let inputs = inputs.iter().map(|&input| input.into()).collect();
            node("DequantizeLinear", inputs, output, vec![]).encode_to_vec()
        };
        let kept = [dequantise(&["weight", "scale"], "w"), dequantise(&["byte", "scale"], "u")];
        let mut graph = GraphParts {
            node: vec![
                dequantise(&["number", "scale", "zero"], "half"),
                kept[0].clone(),
                dequantise(&["side", "scale"], "plain"),
                kept[1].clone(),
            ],
            initializer: vec![
                named("number", bytes(INT8, &[], &[0x82])),
                named("side", bytes(INT8, &[1], &[0xff])),
                named("weight", bytes(INT8, &[2], &[1, 2])),
                named("byte", bytes(UINT8, &[], &[7])),
                named("scale", scale),
                named("zero", zero_point),
            ],
            ..GraphParts::default()
        };
        assert!(graph.dequantise_numbers().unwrap());
        assert_eq!(graph.node, kept);
        let constant = |name: &str, dims: &[i64], number: f32| TensorProto {
            dims: dims.to_vec(),
            data_type: FLOAT,
            name: name.into(),
            raw_data: number.to_le_bytes().into(),
        };
        let added = graph.initializer[6..].iter().map(|bytes| TensorProto::decode(&bytes[..]).unwrap());
        assert_eq!(added.collect::<Vec<_>>(), [constant("half", &[], 0.5), constant("plain", &[1], -0.25)]);
        assert!(!graph.dequantise_numbers().unwrap(), "a second time");
    }
}

//! Writes numbers of int8 as f32 again where several nodes read them. `onnxruntime.quantization` quantises the constants
//! of GELU, and weights that layers share. On x86, where OrCo has it multiply exactly, ONNX Runtime makes each reader's
//! copy unsigned under one name, and refuses the second.

use std::collections::{HashMap, HashSet};

use prost::{DecodeError, Message};

use super::parts::{GraphParts, TensorHeader, is_onnx_domain};
use crate::model::onnx_proto::{FLOAT, INT8, NodeProto, TensorProto};

/// `onnx.TensorProto` of f32 or int8.
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
    /// Its numbers, if it is of this type.
    fn of(&self, data_type: i32) -> Option<Vec<f32>> {
        match data_type {
            _ if self.data_type != data_type => None,
            FLOAT => {
                let raw = self.raw_data.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
                Some(raw.chain(self.float_data.iter().copied()).collect())
            }
            INT8 => {
                let raw = self.raw_data.iter().map(|&byte| Some(f32::from(byte.cast_signed())));
                let listed = self.int32_data.iter().map(|&number| i8::try_from(number).ok().map(f32::from));
                raw.chain(listed).collect()
            }
            _ => None,
        }
    }

    /// Its number, if it is one of this type.
    fn one(&self, data_type: i32) -> Option<f32> {
        match self.of(data_type)?[..] {
            [number] => Some(number),
            _ => None,
        }
    }
}

impl GraphParts {
    /// Makes constants of f32 of what nodes dequantise, where it is single numbers of int8, or several nodes read it
    /// and it has one scale. Returns whether anything was changed.
    pub(super) fn dequantise_shared(&mut self) -> Result<bool, DecodeError> {
        let nodes = self.nodes()?;
        if !nodes.iter().any(dequantises) {
            return Ok(false);
        }
        let (mut read, mut shared) = (HashSet::new(), HashSet::new());
        for input in nodes.iter().flat_map(|node| &node.input) {
            if !read.insert(input) {
                shared.insert(input);
            }
        }
        let is_shared =
            |node: &&NodeProto| node.input.iter().take(1).chain(&node.output).any(|name| shared.contains(name));
        let of_shared = nodes.iter().filter(|node| dequantises(node)).filter(is_shared);
        let wanted: HashSet<&String> = of_shared.flat_map(|node| &node.input).collect();
        let mut tensors = HashMap::new();
        for bytes in &self.initializer {
            let TensorHeader { dims, name, .. } = TensorHeader::decode(&bytes[..])?;
            if wanted.contains(&name) || dims.iter().all(|&side| side == 1) {
                tensors.insert(name, NumberTensor::decode(&bytes[..])?);
            }
        }
        let mut constants = Vec::new();
        for (bytes, node) in std::mem::take(&mut self.node).into_iter().zip(&nodes) {
            match dequantised(node, &tensors) {
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

/// What a node gives that dequantises one of these tensors by one scale.
fn dequantised(node: &NodeProto, tensors: &HashMap<String, NumberTensor>) -> Option<TensorProto> {
    let (true, [numbers, scale, zero_point @ ..]) = (dequantises(node), &node.input[..]) else { return None };
    let tensor = tensors.get(numbers)?;
    let (numbers, scale) = (tensor.of(INT8)?, tensors.get(scale)?.one(FLOAT)?);
    let zero_point = match zero_point {
        [] => 0.0,
        [name] => tensors.get(name)?.one(INT8)?,
        _ => return None,
    };
    let raw_data = numbers.iter().flat_map(|number| ((number - zero_point) * scale).to_le_bytes()).collect();
    let name = node.output.first()?.clone();
    Some(TensorProto { dims: tensor.dims.clone(), data_type: FLOAT, name, raw_data })
}

#[cfg(test)]
mod tests {
    use prost::bytes::Bytes;

    use super::*;
    use crate::model::onnx_proto::{UINT8, node};

    #[test]
    fn single_and_shared_numbers_of_int8_become_f32() {
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
        let add = node("Add", vec!["both".into(), "w".into()], "added", vec![]);
        let multiply = node("Mul", vec!["added".into(), "both".into()], "multiplied", vec![]);
        let kept = [
            dequantise(&["weight", "scale"], "w"),
            dequantise(&["byte", "scale"], "u"),
            add.encode_to_vec(),
            multiply.encode_to_vec(),
        ];
        let mut graph = GraphParts {
            node: vec![
                dequantise(&["number", "scale", "zero"], "half"),
                kept[0].clone(),
                dequantise(&["side", "scale"], "plain"),
                kept[1].clone(),
                dequantise(&["shared", "scale", "zero"], "both"),
                kept[2].clone(),
                kept[3].clone(),
            ],
            initializer: vec![
                named("number", bytes(INT8, &[], &[0x82])),
                named("side", bytes(INT8, &[1], &[0xff])),
                named("weight", bytes(INT8, &[2], &[1, 2])),
                named("shared", bytes(INT8, &[2], &[0x80, 0x84])),
                named("byte", bytes(UINT8, &[], &[7])),
                named("scale", scale),
                named("zero", zero_point),
            ],
            ..GraphParts::default()
        };
        assert!(graph.dequantise_shared().unwrap());
        assert_eq!(graph.node, kept);
        let constant = |name: &str, dims: &[i64], numbers: &[f32]| TensorProto {
            dims: dims.to_vec(),
            data_type: FLOAT,
            name: name.into(),
            raw_data: numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        };
        let added = graph.initializer[7..].iter().map(|bytes| TensorProto::decode(&bytes[..]).unwrap());
        let expected =
            [constant("half", &[], &[0.5]), constant("plain", &[1], &[-0.25]), constant("both", &[2], &[0.0, 1.0])];
        assert_eq!(added.collect::<Vec<_>>(), expected);
        assert!(!graph.dequantise_shared().unwrap(), "a second time");
    }
}

//! Separates constants of int8 that several nodes read. On x86, where OrCo has it multiply exactly, ONNX Runtime makes
//! each reader's copy unsigned under one name, and refuses the second.
//!
//! Numbers become f32 again: `onnxruntime.quantization` quantises the constants of GELU, and weights that layers share.
//! Zero points are copied: onnxslim and ONNX Runtime itself write equal ones once.

use std::collections::{HashMap, HashSet};

use prost::{DecodeError, Message};

use super::parts::{GraphParts, NodeParts, NumberTensor, TensorHeader, is_onnx_domain};
use crate::model::onnx_proto::{FLOAT, INT8, NodeProto, TensorProto};

impl NumberTensor {
    /// Its numbers, if it is of this type, f32 or int8.
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
    /// Leaves no constant of int8 to several nodes that dequantise it. Nodes must be in order. Returns whether anything
    /// was changed.
    pub(super) fn separate_int8(&mut self) -> Result<bool, DecodeError> {
        if !self.nodes()?.iter().any(dequantises) {
            return Ok(false);
        }
        let is_dequantised = self.dequantise_shared()?;
        if is_dequantised {
            // A dequantised number leaves its scale behind.
            self.drop_unread()?;
        }
        Ok(self.copy_zero_points()? || is_dequantised)
    }

    /// Gives nodes that dequantise constants of int8 a zero point each, where several read one. Returns whether
    /// anything was changed.
    fn copy_zero_points(&mut self) -> Result<bool, DecodeError> {
        let nodes = self.nodes()?;
        let mut constants = HashMap::new();
        for bytes in &self.initializer {
            let TensorHeader { data_type, name, .. } = TensorHeader::decode(&bytes[..])?;
            if data_type == INT8 {
                constants.insert(name, bytes.clone());
            }
        }
        let (mut read, mut copies) = (HashSet::new(), Vec::new());
        for (bytes, node) in self.node.iter_mut().zip(&nodes).filter(|(_, node)| dequantises(node)) {
            let ([numbers, _, zero_point], [output]) = (&node.input[..], &node.output[..]) else { continue };
            let Some(constant) = constants.get(zero_point).filter(|_| constants.contains_key(numbers)) else {
                continue;
            };
            if read.insert(zero_point) {
                continue;
            }
            let tensor = NumberTensor::decode(&constant[..])?;
            let Some(values) = tensor.of(INT8) else { continue };
            let raw_data = values.iter().map(|&value| (value as i8).cast_unsigned()).collect();
            let name = format!("{output}.orco.zero_point");
            if constants.contains_key(&name) {
                continue;
            }
            let mut parts = NodeParts::decode(bytes.as_slice())?;
            parts.input[2].clone_from(&name);
            *bytes = parts.encode_to_vec();
            copies.push(TensorProto { dims: tensor.dims, data_type: INT8, name, raw_data });
        }
        self.append(&[], &copies);
        Ok(!copies.is_empty())
    }

    /// Makes constants of f32 of what nodes dequantise, where it is single numbers of int8, or several nodes read it
    /// and it has one scale. Returns whether anything was changed.
    fn dequantise_shared(&mut self) -> Result<bool, DecodeError> {
        let nodes = self.nodes()?;
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
            Bytes::from(NumberTensor { name: name.into(), ..tensor }.encode_to_vec())
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

    #[test]
    fn equal_zero_points_are_copied() {
        let constant = |name: &str, data_type, numbers: &[u8]| TensorProto {
            dims: vec![numbers.len() as i64],
            data_type,
            name: name.into(),
            raw_data: numbers.to_vec(),
        };
        let dequantise = |numbers: &str, zero_point: &str, output: &str| {
            let inputs = [numbers, "scale", zero_point].map(str::to_owned).to_vec();
            node("DequantizeLinear", inputs, output, vec![]).encode_to_vec()
        };
        let constants = [
            constant("one", INT8, &[1, 2]),
            constant("two", INT8, &[3, 4]),
            constant("bytes", UINT8, &[5, 6]),
            constant("zero", INT8, &[0x80, 7]),
        ];
        let mut graph = GraphParts {
            node: vec![
                dequantise("x", "zero", "activation"),
                dequantise("one", "zero", "first"),
                dequantise("two", "zero", "second"),
                dequantise("bytes", "zero", "unsigned"),
            ],
            initializer: constants.iter().map(|constant| constant.encode_to_vec().into()).collect(),
            ..GraphParts::default()
        };
        assert!(graph.copy_zero_points().unwrap());
        let zero_points = graph.nodes().unwrap().into_iter().map(|node| node.input[2].clone()).collect::<Vec<_>>();
        assert_eq!(zero_points, ["zero", "zero", "second.orco.zero_point", "zero"]);
        let [copy] = &graph.initializer[4..] else { panic!("one copy") };
        assert_eq!(TensorProto::decode(&copy[..]).unwrap(), constant("second.orco.zero_point", INT8, &[0x80, 7]));
        assert!(!graph.copy_zero_points().unwrap(), "a second time");
    }
}

//! Widens a model of half precision to f32. rten computes in f32 alone, and ONNX Runtime has no kernels of half
//! precision for most operators on a processor: it would widen and narrow again around each. Every number of 16 bits
//! has an equal one of 32, so nothing is lost but the rounding between layers.

use std::collections::HashSet;

use half::{bf16, f16};
use prost::{DecodeError, Message};

use super::parts::{
    AttributeParts, GraphParts, NodeParts, NumberTensor, Replacement, TensorHeader, as_floats, is_onnx_domain, replace,
};
use crate::model::onnx_proto::{BFLOAT16, FLOAT, FLOAT16, TensorProto};

/// Attributes that name a type of numbers.
const TYPES: [&str; 5] = ["dtype", "output_dtype", "softmax_precision", "stash_type", "to"];

/// The numbers of a tensor of half precision as f32; none where they are not in the file, or not all of them.
fn widened(half: NumberTensor) -> Option<TensorProto> {
    let raw = half.raw_data.as_chunks().0.iter().map(|&bytes| u16::from_le_bytes(bytes));
    let bits = raw.chain(half.int32_data.iter().map(|&bits| bits as u16));
    let number = |bits| match half.data_type {
        BFLOAT16 => bf16::from_bits(bits).to_f32(),
        _ => f16::from_bits(bits).to_f32(),
    };
    let raw_data: Vec<u8> = bits.flat_map(|bits| number(bits).to_le_bytes()).collect();
    let elements = half.dims.iter().try_fold(4usize, |all, &side| all.checked_mul(usize::try_from(side).ok()?));
    let is_whole = elements == Some(raw_data.len()) && half.external_data.is_empty();
    is_whole.then_some(TensorProto { dims: half.dims, data_type: FLOAT, name: half.name, raw_data })
}

fn is_half(data_type: i32) -> bool {
    matches!(data_type, FLOAT16 | BFLOAT16)
}

/// A tensor of half precision as f32; none where it is another one, or cannot be widened, for which it is refused
/// later.
fn tensor(bytes: &[u8]) -> Replacement {
    if !is_half(TensorHeader::decode(bytes)?.data_type) {
        return Ok(None);
    }
    Ok(widened(NumberTensor::decode(bytes)?).map(|wide| wide.encode_to_vec()))
}

/// A value of half precision as one of f32; none where it is another one.
fn value(bytes: &[u8]) -> Replacement {
    as_floats(bytes, |_, data_type| is_half(data_type))
}

/// An attribute that names half precision or is a tensor of it, with f32; none where it is another one.
fn attribute(bytes: &[u8]) -> Replacement {
    let mut attribute = AttributeParts::decode(bytes)?;
    let names_half = attribute.i.is_some_and(|number| i32::try_from(number).is_ok_and(is_half));
    if names_half && TYPES.contains(&attribute.name.as_str()) {
        attribute.i = Some(FLOAT.into());
    } else if let Some(wide) = attribute.t.as_deref().map(tensor).transpose()?.flatten() {
        attribute.t = Some(wide);
    } else {
        return Ok(None);
    }
    Ok(Some(attribute.encode_to_vec()))
}

/// A node with its attributes widened; none where nothing in them is of half precision.
fn node(bytes: &[u8]) -> Replacement {
    let mut node = NodeParts::decode(bytes)?;
    let is_widened = replace(&mut node.attribute, attribute)?;
    Ok(is_widened.then(|| node.encode_to_vec()))
}

impl GraphParts {
    /// Widens all that is of half precision, unless it is weights of f16 alone, each of which the model widens itself: a
    /// file of this program whose weights take half the room ([`orco_runtime::manifest::WeightFormat`]). Returns whether
    /// anything was changed.
    pub(super) fn half_precision_to_f32(&mut self) -> Result<bool, DecodeError> {
        if !self.needs_widening()? {
            return Ok(false);
        }
        replace(&mut self.initializer, tensor)?;
        replace(&mut self.node, node)?;
        for values in [&mut self.input, &mut self.output, &mut self.value_info] {
            replace(values, value)?;
        }
        log::info!("the backbone is of half precision; it becomes one of f32");
        Ok(true)
    }

    /// Whether anything but a cast gets numbers of half precision, or weights are of bf16, which rten does not read.
    fn needs_widening(&self) -> Result<bool, DecodeError> {
        let weights = self.initializer.iter().map(|bytes| TensorHeader::decode(&bytes[..]));
        let weights = weights.collect::<Result<Vec<_>, _>>()?;
        if weights.iter().any(|weight| weight.data_type == BFLOAT16) {
            return Ok(true);
        }
        let halves: HashSet<&str> =
            weights.iter().filter(|weight| is_half(weight.data_type)).map(|weight| weight.name.as_str()).collect();
        for bytes in self.input.iter().chain(&self.output) {
            if value(bytes)?.is_some() {
                return Ok(true);
            }
        }
        for bytes in &self.node {
            let parts = NodeParts::decode(bytes.as_slice())?;
            let is_cast = parts.op_type == "Cast" && is_onnx_domain(&parts.domain);
            if node(bytes)?.is_some() || (!is_cast && parts.input.iter().any(|input| halves.contains(input.as_str()))) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::onnx_proto::{INT64, int, node as plain};

    const NUMBERS: [f32; 3] = [0.5, -65504.0, f32::NEG_INFINITY];

    /// The numbers in either form, whole or without the last.
    fn halves(data_type: i32, is_raw: bool, count: usize) -> Vec<u8> {
        let bits: Vec<u16> = match data_type {
            BFLOAT16 => NUMBERS.iter().map(|&number| bf16::from_f32(number).to_bits()).collect(),
            _ => NUMBERS.iter().map(|&number| f16::from_f32(number).to_bits()).collect(),
        };
        let bits = &bits[..count];
        let raw_data = if is_raw { bits.iter().flat_map(|bits| bits.to_le_bytes()).collect() } else { vec![] };
        let int32_data = if is_raw { vec![] } else { bits.iter().map(|&bits| bits.into()).collect() };
        let (dims, name) = (vec![3, 1], "w".to_owned());
        NumberTensor { dims, data_type, int32_data, name, raw_data, ..NumberTensor::default() }.encode_to_vec()
    }

    fn numbers(bytes: &[u8]) -> Vec<f32> {
        let tensor = TensorProto::decode(bytes).unwrap();
        assert_eq!((tensor.data_type, &*tensor.name, &tensor.dims[..]), (FLOAT, "w", &[3, 1][..]));
        tensor.raw_data.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    }

    #[test]
    fn numbers_in_both_forms_stay_the_same() {
        for is_raw in [true, false] {
            assert_eq!(numbers(&tensor(&halves(FLOAT16, is_raw, 3)).unwrap().unwrap()), NUMBERS);
            let wide = numbers(&tensor(&halves(BFLOAT16, is_raw, 3)).unwrap().unwrap());
            assert_eq!(wide, NUMBERS.map(|number| bf16::from_f32(number).to_f32()));
            assert_eq!(tensor(&halves(FLOAT16, is_raw, 2)).unwrap(), None, "not all are there");
            assert_eq!(tensor(&halves(INT64, is_raw, 3)).unwrap(), None, "of another type");
        }
        let mut outside = NumberTensor::decode(&*halves(FLOAT16, true, 3)).unwrap();
        outside.external_data = vec![vec![]];
        assert_eq!(tensor(&outside.encode_to_vec()).unwrap(), None, "outside the file");
    }

    #[test]
    fn attributes_are_widened_where_they_name_half_precision() {
        for (name, number, expected) in [("to", 10, Some(1)), ("to", 16, Some(1)), ("to", 7, None), ("axis", 10, None)]
        {
            let changed = attribute(&int(name, number).encode_to_vec()).unwrap();
            let changed = changed.map(|bytes| AttributeParts::decode(&*bytes).unwrap().i.unwrap());
            assert_eq!(changed, expected, "{name} {number}");
        }
        let value = AttributeParts {
            name: "value".into(),
            t: Some(halves(FLOAT16, true, 3)),
            r#type: 4,
            ..AttributeParts::default()
        };
        let changed = AttributeParts::decode(&*attribute(&value.encode_to_vec()).unwrap().unwrap()).unwrap();
        assert_eq!((numbers(&changed.t.unwrap()), changed.r#type), (NUMBERS.to_vec(), 4));
    }

    #[test]
    fn weights_that_the_model_widens_itself_stay_small() {
        let reads = |operator: &str, attribute| plain(operator, vec!["w".into()], "y", attribute).encode_to_vec();
        let graph = |node| GraphParts {
            node: vec![node],
            initializer: vec![halves(FLOAT16, true, 3).into()],
            ..GraphParts::default()
        };
        let mut of_bf16 = GraphParts {
            initializer: vec![halves(BFLOAT16, true, 3).into()],
            ..graph(reads("Cast", vec![int("to", 1)]))
        };
        assert!(of_bf16.half_precision_to_f32().unwrap(), "rten does not read bf16");
        assert_eq!(numbers(&of_bf16.initializer[0]), NUMBERS.map(|number| bf16::from_f32(number).to_f32()));
        let mut small = graph(reads("Cast", vec![int("to", 1)]));
        let before = small.clone();
        assert!(!small.half_precision_to_f32().unwrap());
        assert_eq!(small, before);
        for node in [reads("Relu", vec![]), reads("Cast", vec![int("to", 10)])] {
            let mut wide = graph(node);
            assert!(wide.half_precision_to_f32().unwrap());
            assert_eq!(numbers(&wide.initializer[0]), NUMBERS);
        }
    }
}

//! Models whose images are bytes, and which normalise these themselves: they get the same numbers as f32.

use std::collections::HashSet;

use prost::Message;

use super::parts::{GraphParts, as_floats, is_onnx_domain, replace, unreadable};
use crate::data::dataset::ChannelStatistics;
use crate::model::onnx_proto::{FLOAT, NodeProto, TensorTypeProto, UINT8, ValueInfoProto};

/// Channels by which normalising turns the numbers of an image, 0 to 1, into bytes, 0 to 255.
pub const BYTE_CHANNELS: ChannelStatistics = ChannelStatistics { mean: [0.0; 3], deviation: [1.0 / 255.0; 3] };

/// Operators that move elements and change none.
pub const MOVES: [&str; 9] =
    ["Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"];

/// Whether channels are [`BYTE_CHANNELS`], up to the digits that people leave out.
pub fn are_byte_channels(channels: ChannelStatistics) -> bool {
    let pairs = |of: fn(&ChannelStatistics) -> [f32; 3]| of(&channels).into_iter().zip(of(&BYTE_CHANNELS));
    pairs(|channels| channels.mean).all(|(own, bytes)| own == bytes)
        && pairs(|channels| channels.deviation).all(|(own, bytes)| (own / bytes - 1.0).abs() < 1e-2)
}

impl GraphParts {
    /// Where the images are bytes which become f32 before anything is computed of them, makes the model take them as
    /// f32. Returns whether it did.
    ///
    /// # Errors
    /// A sentence if something is computed of bytes.
    pub(super) fn take_floats_for_bytes(&mut self) -> Result<bool, String> {
        let weights = self.weights().map_err(unreadable)?;
        for at in 0..self.input.len() {
            let value = ValueInfoProto::decode(self.input[at].as_slice()).map_err(unreadable)?;
            if weights.contains(&value.name) || !is_image_of_bytes(&value) {
                continue;
            }
            let bytes = self.values_of_bytes(&value.name)?;
            let is_meant = |name: &str, data_type: i32| data_type == UINT8 && bytes.contains(name);
            for values in [&mut self.input, &mut self.value_info] {
                replace(values, |value| as_floats(value, is_meant)).map_err(unreadable)?;
            }
            log::info!(
                "the backbone takes images of bytes; it gets them as f32 from 0 to 255 and normalises them itself"
            );
            return Ok(true);
        }
        Ok(false)
    }

    /// The values that hold the bytes of an input until they become f32.
    fn values_of_bytes(&self, input: &str) -> Result<HashSet<String>, String> {
        let mut bytes = HashSet::from([input.to_owned()]);
        for node in &self.nodes().map_err(|_| "its nodes cannot be read")? {
            let read = node.input.iter().filter(|input| bytes.contains(*input)).count();
            if read == 0 || node.op_type == "Shape" {
                continue;
            }
            let is_own = is_onnx_domain(&node.domain);
            if is_own && casts_to_floats(node) {
                continue;
            }
            let is_first = node.input.first().is_some_and(|input| bytes.contains(input));
            let is_all = node.op_type != "Concat" || read == node.input.len();
            if !is_own || !MOVES.contains(&node.op_type.as_str()) || !is_first || !is_all {
                return Err(format!(
                    "its images are bytes, of which {:?} computes something before they become f32; export it for f32 \
                     images",
                    node.op_type
                ));
            }
            bytes.extend(node.output.iter().cloned());
        }
        Ok(bytes)
    }
}

fn casts_to_floats(node: &NodeProto) -> bool {
    node.op_type == "Cast" && node.named("to").is_some_and(|to| to.i == Some(FLOAT.into()))
}

fn is_image_of_bytes(value: &ValueInfoProto) -> bool {
    let tensor = value.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
    let is_image = |tensor: &TensorTypeProto| tensor.shape.as_ref().is_some_and(|shape| shape.dim.len() == 4);
    tensor.is_some_and(|tensor| tensor.elem_type == UINT8 && is_image(tensor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::onnx_proto::{int, node};

    fn value(elem_type: i32, name: &str) -> ValueInfoProto {
        ValueInfoProto::of_sides(name, elem_type, &[0, 3, 8, 8])
    }

    fn graph(nodes: &[NodeProto]) -> GraphParts {
        let node = nodes.iter().map(Message::encode_to_vec).collect();
        let input = vec![value(UINT8, "x").encode_to_vec()];
        let value_info = vec![value(UINT8, "turned").encode_to_vec(), value(UINT8, "other").encode_to_vec()];
        GraphParts { node, input, value_info, ..GraphParts::default() }
    }

    #[test]
    fn bytes_that_become_floats_are_taken_as_such() {
        let turned = node("Transpose", vec!["x".into()], "turned", vec![]);
        let mut taken = graph(&[turned, node("Cast", vec!["turned".into()], "y", vec![int("to", FLOAT.into())])]);
        assert!(taken.take_floats_for_bytes().unwrap());
        assert_eq!(taken.input, [value(FLOAT, "x").encode_to_vec()]);
        let expected = [value(FLOAT, "turned"), value(UINT8, "other")].map(|value| value.encode_to_vec());
        assert_eq!(taken.value_info, expected);
        assert!(!taken.take_floats_for_bytes().unwrap(), "a second time");
    }

    #[test]
    fn bytes_of_which_something_is_computed_are_refused() {
        for computed in [
            node("Cast", vec!["x".into()], "y", vec![int("to", 6)]),
            node("Add", vec!["x".into(), "x".into()], "y", vec![]),
            node("Concat", vec!["x".into(), "zeros".into()], "y", vec![]),
            node("DequantizeLinear", vec!["x".into(), "scale".into()], "y", vec![]),
        ] {
            let mut refused = graph(std::slice::from_ref(&computed));
            let before = refused.clone();
            let reason = refused.take_floats_for_bytes().unwrap_err();
            assert!(reason.contains(&format!("of which {:?} computes something", computed.op_type)), "{reason}");
            assert_eq!(refused, before);
        }
    }

    #[test]
    fn channels_of_bytes_are_known_by_a_few_digits() {
        let channels = |mean, deviation| ChannelStatistics { mean: [mean; 3], deviation: [deviation; 3] };
        assert!(are_byte_channels(BYTE_CHANNELS) && are_byte_channels(channels(0.0, 0.00392)));
        for other in [channels(0.0, 1.0), channels(0.485, 0.00392), channels(0.0, 0.0045)] {
            assert!(!are_byte_channels(other), "{other:?}");
        }
    }
}

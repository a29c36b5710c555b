//! Writes out settings that a file leaves to their defaults and without which rten does not compute, and lets dropout
//! pass its input on, which rten lacks.

use std::collections::{HashMap, HashSet};

use prost::{DecodeError, Message};

use super::parts::{GraphParts, NumberTensor, TensorHeader, is_onnx_domain, names_of};
use crate::model::onnx_proto::{AttributeProto, BOOL, NodeProto, ints};

/// What is known of the weights of a graph.
#[derive(Default)]
struct Weights {
    sides: HashMap<String, Vec<i64>>,
    /// The names of those that are one truth value, false.
    switched_off: HashSet<String>,
}

impl Weights {
    fn of(graph: &GraphParts) -> Result<Self, DecodeError> {
        let mut weights = Self::default();
        for bytes in &graph.initializer {
            let TensorHeader { dims, data_type, name } = TensorHeader::decode(&bytes[..])?;
            if data_type == BOOL && dims.iter().all(|&side| side == 1) {
                let NumberTensor { int32_data, raw_data, .. } = NumberTensor::decode(&bytes[..])?;
                if int32_data.iter().all(|&value| value == 0) && raw_data.iter().all(|&value| value == 0) {
                    weights.switched_off.insert(name.clone());
                }
            }
            weights.sides.insert(name, dims);
        }
        Ok(weights)
    }
}

impl GraphParts {
    /// Writes out the kernels of convolutions and the strides of pooling, and makes dropout an identity. Returns
    /// whether anything was changed.
    pub(super) fn write_defaults(&mut self) -> Result<bool, DecodeError> {
        let weights = Weights::of(self)?;
        let nodes = self.nodes()?;
        let mut read: HashSet<String> = names_of(&self.output)?.into_iter().collect();
        read.extend(nodes.iter().flat_map(|node| node.input.iter().cloned()));
        let mut is_changed = false;
        for (bytes, mut node) in self.node.iter_mut().zip(nodes) {
            if !is_onnx_domain(&node.domain) {
                continue;
            }
            if let Some(setting) = missing_setting(&node, &weights.sides) {
                node.attribute.push(setting);
            } else if is_plain_dropout(&node, &read, &weights.switched_off) {
                node.op_type = "Identity".into();
                node.attribute.clear();
                node.input.truncate(1);
                node.output.truncate(1);
            } else {
                continue;
            }
            *bytes = node.encode_to_vec();
            is_changed = true;
        }
        Ok(is_changed)
    }
}

/// The setting that a window lacks, by which rten knows over how many axes it slides.
fn missing_setting(node: &NodeProto, sides: &HashMap<String, Vec<i64>>) -> Option<AttributeProto> {
    /// Most axes of a kernel; the audit refuses tensors of more.
    const MOST_AXES: usize = 6;
    let list = |name: &str| node.named(name).map(|own| &own.ints[..]);
    match node.op_type.as_str() {
        "Conv" if list("kernel_shape").is_none() => {
            let kernel = sides.get(node.input.get(1)?)?.get(2..)?;
            (kernel.len() <= MOST_AXES).then(|| ints("kernel_shape", kernel.to_vec()))
        }
        "AveragePool" | "MaxPool" if list("strides").is_none() => {
            Some(ints("strides", vec![1; list("kernel_shape")?.len()]))
        }
        _ => None,
    }
}

/// Whether a node is dropout whose mask nothing reads, and which nothing switches to training.
fn is_plain_dropout(node: &NodeProto, read: &HashSet<String>, switched_off: &HashSet<String>) -> bool {
    let is_given = |name: &String| !name.is_empty();
    let training = node.input.get(2).filter(|&name| is_given(name) && !switched_off.contains(name));
    let switches = training.is_some() || node.named("is_test").is_some();
    let is_read = node.output.iter().skip(1).any(|mask| read.contains(mask));
    let has_ends = node.input.first().is_some_and(is_given) && node.output.first().is_some_and(is_given);
    node.op_type == "Dropout" && has_ends && !switches && !is_read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::onnx_proto::{TensorProto, ValueInfoProto, node};

    fn graph(nodes: &[NodeProto]) -> GraphParts {
        let weight = TensorProto { dims: vec![8, 3, 5, 7], name: "w".into(), ..TensorProto::default() };
        let output = ValueInfoProto { name: "y".into(), r#type: None };
        GraphParts {
            node: nodes.iter().map(Message::encode_to_vec).collect(),
            initializer: vec![weight.encode_to_vec().into()],
            output: vec![output.encode_to_vec()],
            ..GraphParts::default()
        }
    }

    fn of(operator: &str, inputs: &[&str], settings: Vec<AttributeProto>) -> NodeProto {
        node(operator, inputs.iter().map(|&name| name.into()).collect(), "y", settings)
    }

    #[test]
    fn windows_say_over_how_many_axes_they_slide() {
        let kernel = || ints("kernel_shape", vec![2, 3]);
        for (before, setting) in [
            (of("Conv", &["x", "w"], vec![]), ints("kernel_shape", vec![5, 7])),
            (of("MaxPool", &["x"], vec![kernel()]), ints("strides", vec![1, 1])),
            (of("AveragePool", &["x"], vec![kernel()]), ints("strides", vec![1, 1])),
        ] {
            let mut changed = graph(std::slice::from_ref(&before));
            assert!(changed.write_defaults().unwrap(), "{before:?}");
            let mut expected = before;
            expected.attribute.push(setting);
            assert_eq!(changed.nodes().unwrap(), [expected]);
            assert!(!changed.write_defaults().unwrap(), "a second time");
        }
        for kept in [of("Conv", &["x", "computed"], vec![]), of("MaxPool", &["x"], vec![]), of("Relu", &["x"], vec![])]
        {
            assert!(!graph(&[kept]).write_defaults().unwrap());
        }
    }

    #[test]
    fn dropout_passes_its_input_on_unless_it_is_switched_to_training() {
        let mut dropout = of("Dropout", &["x", "ratio"], vec![ints("seed", vec![])]);
        dropout.output.push("mask".into());
        let mut changed = graph(std::slice::from_ref(&dropout));
        assert!(changed.write_defaults().unwrap());
        assert_eq!(changed.nodes().unwrap(), [of("Identity", &["x"], vec![])]);
        let reader = node("Cast", vec!["mask".into()], "z", vec![]);
        assert!(!graph(&[dropout, reader]).write_defaults().unwrap());
        // jax2onnx names a constant that says no.
        for (value, is_changed) in [(0, true), (1, false)] {
            let switch = TensorProto { dims: vec![], data_type: BOOL, name: "training".into(), raw_data: vec![value] };
            let mut switched = graph(&[of("Dropout", &["x", "", "training"], vec![])]);
            assert!(!switched.write_defaults().unwrap(), "nobody knows what it says");
            switched.initializer.push(switch.encode_to_vec().into());
            assert_eq!(switched.write_defaults().unwrap(), is_changed, "{value}");
        }
    }
}

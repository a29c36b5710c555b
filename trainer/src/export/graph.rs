//! The ONNX graph of a backbone in the making: what its float form and its int8 form have in common.

use prost::Message;
use tch::Tensor;

use crate::model::backbone::{Activation, ConvNorm, Description, Network};
use crate::model::onnx_proto::{
    AttributeProto, DimensionProto, FLOAT, GraphProto, INT64, ModelProto, NodeProto, OperatorSetProto,
    StringEntryProto, TensorProto, ValueInfoProto, attribute_type, int, ints, node,
};

const IR_VERSION: i64 = 8;
const OPSET: i64 = 17;
/// Name of the model's input, f32 `[batch, 3, height, width]`, normalised.
pub(super) const INPUT: &str = "image";
/// Name of its output, f32 `[batch, features]`.
const OUTPUT: &str = "feature";

/// Nodes and weights of a graph in the making.
#[derive(Default)]
pub(super) struct OnnxGraph {
    nodes: Vec<NodeProto>,
    weights: Vec<TensorProto>,
}

impl OnnxGraph {
    /// Adds a node and returns the name of its output, which is the node's own.
    pub(super) fn node(
        &mut self,
        kind: &str,
        name: &str,
        inputs: Vec<String>,
        attributes: Vec<AttributeProto>,
    ) -> String {
        self.nodes.push(node(kind, inputs, name, attributes));
        name.to_owned()
    }

    pub(super) fn convolution(&mut self, inputs: Vec<String>, conv: &ConvNorm) -> String {
        let mut attributes = vec![
            ints("kernel_shape", vec![conv.kernel; 2]),
            ints("pads", vec![conv.padding[0], conv.padding[0], conv.padding[1], conv.padding[1]]),
            ints("strides", vec![conv.stride; 2]),
        ];
        if conv.groups != 1 {
            attributes.push(int("group", conv.groups));
        }
        self.node("Conv", &conv.name, inputs, attributes)
    }

    pub(super) fn activation(&mut self, x: String, name: &str, activation: Activation) -> String {
        let name = format!("{name}.activation");
        match activation {
            Activation::Relu => self.node("Relu", &name, vec![x], vec![]),
            Activation::Relu6 => {
                let bounds = [("relu6.low", 0.0), ("relu6.high", 6.0)];
                for (bound, value) in bounds {
                    if !self.weights.iter().any(|weight| weight.name == bound) {
                        self.floats(bound, &[], &[value]);
                    }
                }
                let inputs = vec![x, bounds[0].0.into(), bounds[1].0.into()];
                self.node("Clip", &name, inputs, vec![])
            }
            Activation::LeakyRelu(slope) => {
                let alpha = AttributeProto {
                    name: "alpha".into(),
                    f: Some(slope as f32),
                    r#type: attribute_type::FLOAT,
                    ..AttributeProto::default()
                };
                self.node("LeakyRelu", &name, vec![x], vec![alpha])
            }
        }
    }

    pub(super) fn pool(&mut self, x: String, side: i64, name: &str) -> String {
        let attributes = vec![ints("kernel_shape", vec![side; 2]), ints("strides", vec![side; 2])];
        self.node("MaxPool", name, vec![x], attributes)
    }

    pub(super) fn stem_pool(&mut self, x: String, name: &str) -> String {
        let attributes = vec![ints("kernel_shape", vec![3; 2]), ints("pads", vec![1; 4]), ints("strides", vec![2; 2])];
        self.node("MaxPool", name, vec![x], attributes)
    }

    /// Adds a tensor of f32.
    pub(super) fn floats(&mut self, name: &str, dims: &[i64], numbers: &[f32]) {
        self.tensor(name, FLOAT, dims, numbers.iter().flat_map(|number| number.to_le_bytes()).collect());
    }

    /// Adds a tensor of little-endian bytes.
    pub(super) fn tensor(&mut self, name: &str, data_type: i32, dims: &[i64], raw_data: Vec<u8>) {
        self.weights.push(TensorProto { dims: dims.into(), data_type, name: name.into(), raw_data });
    }

    /// What the network sees: the images, and behind them their mirror images if the features are averaged over both.
    pub(super) fn start(&mut self, description: &Description) -> String {
        if !description.mirrored {
            return INPUT.to_owned();
        }
        const WIDTH: i64 = 3;
        let steps = [("starts", -1), ("ends", i64::MIN), ("axes", WIDTH), ("steps", -1)];
        let mut inputs = vec![INPUT.to_owned()];
        for (step, value) in steps {
            let name = format!("mirror.{step}");
            self.tensor(&name, INT64, &[1], value.to_le_bytes().into());
            inputs.push(name);
        }
        let mirror = self.node("Slice", "mirror", inputs, vec![]);
        self.node("Concat", "both", vec![INPUT.to_owned(), mirror], vec![int("axis", 0)])
    }

    /// Bytes of the model whose last layer gave `x`, which is averaged over the image.
    pub(super) fn finish(mut self, x: String, description: &Description, metadata: &[(&str, String)]) -> Vec<u8> {
        let average = self.node("GlobalAveragePool", "average", vec![x], vec![]);
        if description.mirrored {
            let shape = [2, -1, description.features()];
            self.tensor("halves.shape", INT64, &[3], shape.iter().flat_map(|side| side.to_le_bytes()).collect());
            let halves = self.node("Reshape", "halves", vec![average, "halves.shape".into()], vec![]);
            let attributes = vec![ints("axes", vec![0]), int("keepdims", 0)];
            self.nodes.push(node("ReduceMean", vec![halves], OUTPUT, attributes));
        } else {
            self.nodes.push(node("Flatten", vec![average], OUTPUT, vec![int("axis", 1)]));
        }
        let input: Vec<DimensionProto> = std::iter::once(batch()).chain(description.input.map(fixed)).collect();
        let graph = GraphProto {
            node: self.nodes,
            name: description.name.clone(),
            initializer: self.weights,
            input: vec![ValueInfoProto::new(INPUT, FLOAT, input)],
            output: vec![ValueInfoProto::new(OUTPUT, FLOAT, vec![batch(), fixed(description.features())])],
        };
        let entry = |(key, value): &(&str, String)| StringEntryProto { key: (*key).into(), value: value.clone() };
        let model = ModelProto {
            ir_version: IR_VERSION,
            producer_name: "orco-train".into(),
            producer_version: env!("CARGO_PKG_VERSION").into(),
            graph: Some(graph),
            opset_import: vec![OperatorSetProto { domain: String::new(), version: OPSET }],
            metadata_props: metadata.iter().map(entry).collect(),
        };
        model.encode_to_vec()
    }
}

/// Weight and bias of a convolution with its norm folded in: W' = W s / sqrt(v + e), b' = o - m s / sqrt(v + e), for
/// scale s, offset o, mean m, variance v.
pub(super) fn folded(network: &Network, conv: &ConvNorm) -> (Tensor, Tensor) {
    let tensors = network.tensors(conv);
    let factor = &tensors.scale / (&tensors.variance + network.description.norm_epsilon).sqrt();
    let weight = &tensors.weight * factor.view([-1, 1, 1, 1]);
    let bias = &tensors.offset - &tensors.mean * &factor;
    (weight, bias)
}

fn batch() -> DimensionProto {
    DimensionProto { dim_value: None, dim_param: Some("batch".into()) }
}

fn fixed(size: i64) -> DimensionProto {
    DimensionProto { dim_value: Some(size), dim_param: None }
}

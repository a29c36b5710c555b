//! A backbone as an ONNX model, written from the description that built the network; batch norm is folded into the
//! convolutions: W' = W s / sqrt(v + e), b' = o - m s / sqrt(v + e), for scale s, offset o, mean m, variance v.

use prost::Message;
use tch::{Kind, Tensor};

use super::proto::{
    Attribute, Dimension, Entry, FLOAT, Graph, Model, Node, OperatorSet, Shape, TensorData, TensorType, Type,
    ValueInfo, attribute_type,
};
use crate::backbone::{Activation, ConvNorm, NORM_EPSILON, Network};

const IR_VERSION: i64 = 8;
const OPSET: i64 = 17;
/// Name of the model's input, f32 `[batch, 3, height, width]`, normalised.
pub const INPUT: &str = "image";
/// Name of its output, f32 `[batch, features]`.
pub const OUTPUT: &str = "feature";

/// Bytes of the ONNX file of a network in inference mode; the same network gives the same bytes.
pub fn encode(network: &Network, metadata: &[(&str, String)]) -> Vec<u8> {
    let description = &network.description;
    let mut writer = Writer { network, nodes: Vec::new(), weights: Vec::new() };
    let mut x = INPUT.to_owned();
    if let Some(stem) = &description.stem {
        x = writer.convolution(&x, stem);
        x = writer.activation(&x, &stem.name);
    }
    for (index, block) in description.blocks.iter().enumerate() {
        let name = format!("block{}", index + 1);
        let mut y = x.clone();
        for (position, conv) in block.convs.iter().enumerate() {
            y = writer.convolution(&y, conv);
            if position + 1 < block.convs.len() {
                y = writer.activation(&y, &conv.name);
            }
        }
        if let Some(shortcut) = &block.shortcut {
            x = writer.convolution(&x, shortcut);
        }
        x = writer.node("Add", &format!("{name}.sum"), vec![y, x], vec![]);
        x = writer.activation(&x, &name);
        if let Some(pool) = block.pool {
            let attributes = vec![ints("kernel_shape", vec![pool; 2]), ints("strides", vec![pool; 2])];
            x = writer.node("MaxPool", &format!("{name}.pool"), vec![x], attributes);
        }
    }
    x = writer.node("GlobalAveragePool", "average", vec![x], vec![]);
    let flatten = Attribute { name: "axis".into(), i: Some(1), r#type: attribute_type::INT, ..Attribute::default() };
    writer.nodes.push(node("Flatten", vec![x], OUTPUT, vec![flatten]));
    let input: Vec<Dimension> = std::iter::once(batch()).chain(description.input.map(fixed)).collect();
    let graph = Graph {
        node: writer.nodes,
        name: description.name.clone(),
        initializer: writer.weights,
        input: vec![value(INPUT, input)],
        output: vec![value(OUTPUT, vec![batch(), fixed(description.features())])],
    };
    let entry = |(key, value): &(&str, String)| Entry { key: (*key).into(), value: value.clone() };
    let model = Model {
        ir_version: IR_VERSION,
        producer_name: "orco-train".into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        graph: Some(graph),
        opset_import: vec![OperatorSet { domain: String::new(), version: OPSET }],
        metadata_props: metadata.iter().map(entry).collect(),
    };
    model.encode_to_vec()
}

struct Writer<'a> {
    network: &'a Network,
    nodes: Vec<Node>,
    weights: Vec<TensorData>,
}

impl Writer<'_> {
    /// Adds a node and returns the name of its output, which is the node's own.
    fn node(&mut self, kind: &str, name: &str, inputs: Vec<String>, attributes: Vec<Attribute>) -> String {
        self.nodes.push(node(kind, inputs, name, attributes));
        name.to_owned()
    }

    fn convolution(&mut self, x: &str, conv: &ConvNorm) -> String {
        let tensors = self.network.tensors(conv);
        let factor = &tensors.scale / (&tensors.variance + NORM_EPSILON).sqrt();
        let weight = &tensors.weight * factor.view([-1, 1, 1, 1]);
        let bias = &tensors.offset - &tensors.mean * &factor;
        let (weight_name, bias_name) = (format!("{}.weight", conv.name), format!("{}.bias", conv.name));
        self.weights.push(tensor(&weight_name, &weight));
        self.weights.push(tensor(&bias_name, &bias));
        let attributes = vec![
            ints("kernel_shape", vec![conv.kernel; 2]),
            ints("pads", vec![conv.kernel / 2; 4]),
            ints("strides", vec![conv.stride; 2]),
        ];
        self.node("Conv", &conv.name, vec![x.to_owned(), weight_name, bias_name], attributes)
    }

    fn activation(&mut self, x: &str, name: &str) -> String {
        let name = format!("{name}.activation");
        match self.network.description.activation {
            Activation::Relu => self.node("Relu", &name, vec![x.to_owned()], vec![]),
            Activation::LeakyRelu(slope) => {
                let alpha = Attribute {
                    name: "alpha".into(),
                    f: Some(slope as f32),
                    r#type: attribute_type::FLOAT,
                    ..Attribute::default()
                };
                self.node("LeakyRelu", &name, vec![x.to_owned()], vec![alpha])
            }
        }
    }
}

fn node(kind: &str, input: Vec<String>, name: &str, attribute: Vec<Attribute>) -> Node {
    Node { input, output: vec![name.into()], name: name.into(), op_type: kind.into(), attribute }
}

fn ints(name: &str, ints: Vec<i64>) -> Attribute {
    Attribute { name: name.into(), ints, r#type: attribute_type::INTS, ..Attribute::default() }
}

fn batch() -> Dimension {
    Dimension { dim_value: None, dim_param: Some("batch".into()) }
}

fn fixed(size: i64) -> Dimension {
    Dimension { dim_value: Some(size), dim_param: None }
}

fn value(name: &str, dim: Vec<Dimension>) -> ValueInfo {
    let tensor_type = TensorType { elem_type: FLOAT, shape: Some(Shape { dim }) };
    ValueInfo { name: name.into(), r#type: Some(Type { tensor_type: Some(tensor_type) }) }
}

fn tensor(name: &str, values: &Tensor) -> TensorData {
    let flat = values.detach().to_device(tch::Device::Cpu).to_kind(Kind::Float).contiguous().view(-1);
    let numbers = Vec::<f32>::try_from(flat).expect("a flat f32 tensor");
    TensorData {
        dims: values.size(),
        data_type: FLOAT,
        name: name.into(),
        raw_data: numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
    }
}

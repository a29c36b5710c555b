//! A backbone as an ONNX model in floating point, written from the description that built the network; batch norm is
//! folded into the convolutions.

use orco_runtime::manifest::WeightFormat;

use super::graph::{OnnxGraph, folded};
use crate::model::backbone::{Builder, ConvNorm, Network};
use crate::platform::device::values;

/// Bytes of the ONNX file of a network in inference mode; the same network gives the same bytes.
pub fn encode(network: &Network, metadata: &[(&str, String)]) -> Vec<u8> {
    encode_with(network, WeightFormat::F32, metadata)
}

/// As [`encode`], with weights of convolutions stored as `weights` says.
pub fn encode_with(network: &Network, weights: WeightFormat, metadata: &[(&str, String)]) -> Vec<u8> {
    let mut writer = FloatWriter { network, weights, graph: OnnxGraph::default() };
    let x = writer.graph.start(&network.description);
    let x = network.description.build(x, &mut writer);
    writer.graph.finish(x, &network.description, metadata)
}

/// Writes a network in floating point.
struct FloatWriter<'a> {
    network: &'a Network,
    weights: WeightFormat,
    graph: OnnxGraph,
}

impl Builder for FloatWriter<'_> {
    type Value = String;

    fn convolution(&mut self, x: &String, conv: &ConvNorm) -> String {
        let (weight, bias) = folded(self.network, conv);
        let weight = self.graph.weight(&format!("{}.weight", conv.name), &conv.shape(), &values(&weight), self.weights);
        let name = format!("{}.bias", conv.name);
        self.graph.floats(&name, &bias.size(), &values(&bias));
        self.graph.convolution(vec![x.clone(), weight, name], conv)
    }

    fn activation(&mut self, x: String, name: &str) -> String {
        self.graph.activation(x, name, self.network.description.activation)
    }

    fn sum(&mut self, x: String, shortcut: &String, name: &str) -> String {
        self.graph.node("Add", name, vec![x, shortcut.clone()], vec![])
    }

    fn pool(&mut self, x: String, side: i64, name: &str) -> String {
        self.graph.pool(x, side, name)
    }

    fn stem_pool(&mut self, x: String, name: &str) -> String {
        self.graph.stem_pool(x, name)
    }
}

//! The graph that takes any number of images, as far as it is made.

use prost::Message;

use super::super::parts::{GraphParts, NodeParts};
use super::axis::BatchAxis;
use super::values::BatchStep;
use crate::model::onnx_proto::{self, NodeProto, TensorProto, int, list_of_whole_numbers};

/// Name of the value that is the number of images, and what the names of all added values begin with.
pub const BATCH: &str = "orco.batch";

/// The nodes of a model that takes any number of images, as far as they are made, and the constants that they need
/// beside the model's own.
#[derive(Default)]
pub struct OpenedGraph {
    pub nodes: Vec<Vec<u8>>,
    pub constants: Vec<TensorProto>,
    /// How many constants are repeated for each image.
    pub repeated: usize,
    /// Whether a node reads the number of images.
    is_counted: bool,
}

impl OpenedGraph {
    /// Adds a list, and returns its name.
    pub fn list(&mut self, name: String, values: &[i64]) -> String {
        self.constants.push(list_of_whole_numbers(&name, values));
        name
    }

    /// Adds a shape with the batch left open, of a value that has the shape `one` for one image.
    pub fn open_list(&mut self, name: String, axis: BatchAxis, one: &[u64]) -> String {
        let mut shape = signed(one);
        shape[axis.index] = -1;
        self.list(name, &shape)
    }

    /// Adds nodes that compute a list: the number of images between other numbers.
    pub fn list_with_batch(&mut self, name: String, before: &[i64], after: &[i64]) -> String {
        self.is_counted = true;
        let mut parts = Vec::new();
        if !before.is_empty() {
            parts.push(self.list(format!("{name}.before"), before));
        }
        parts.push(BATCH.to_owned());
        if !after.is_empty() {
            parts.push(self.list(format!("{name}.after"), after));
        }
        self.nodes.push(onnx_proto::node("Concat", parts, &name, vec![int("axis", 0)]).encode_to_vec());
        name
    }

    /// Moves images along the axis where a node has to find them, if they lie along another one.
    pub fn move_batch(&mut self, node: &NodeProto, parts: &mut NodeParts, step: BatchStep<'_>) {
        let Some(moved) = step.moved else { return };
        let name = format!("{BATCH}.{}.moved", node.output[0]);
        let shape = self.open_list(format!("{name}.sides"), moved, step.from);
        let inputs = vec![node.input[step.input].clone(), shape];
        self.nodes.push(onnx_proto::node("Reshape", inputs, &name, vec![]).encode_to_vec());
        parts.input[step.input] = name;
    }

    /// Puts the nodes into the place of a graph's, behind those that count its `images` if one reads their number.
    pub fn replace_nodes_of(self, graph: &mut GraphParts, images: &str) {
        let Self { nodes, mut constants, is_counted, .. } = self;
        graph.node.clear();
        if is_counted {
            let [all, first] = ["sides", "first"].map(|part| format!("{BATCH}.{part}"));
            constants.push(list_of_whole_numbers(&first, &[0]));
            let counting = [
                onnx_proto::node("Shape", vec![images.to_owned()], &all, vec![]),
                onnx_proto::node("Gather", vec![all.clone(), first], BATCH, vec![]),
            ];
            graph.append(&counting, &[]);
        }
        graph.node.extend(nodes);
        graph.append(&[], &constants);
    }
}

/// A shape as ONNX has it in a list.
pub fn signed(shape: &[u64]) -> Vec<i64> {
    shape.iter().map(|length| length.cast_signed()).collect()
}

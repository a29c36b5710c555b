//! Opens shapes into which the exporter wrote one image.

use super::super::lists::Lists;
use super::super::parts::NodeParts;
use super::opened_graph::{BATCH, OpenedGraph, signed};
use super::values::BatchStep;
use crate::model::onnx_proto::NodeProto;

impl OpenedGraph {
    /// Opens the shape that a node gives to images, by a list that is a constant.
    pub fn open_shape(&mut self, node: &NodeProto, parts: &mut NodeParts, step: BatchStep<'_>, lists: &Lists) {
        let axis = step.axis.index;
        let list = node.input.get(1).and_then(|input| lists.get(input));
        // There, 0 takes over a length, and -1 takes what is left.
        let is_open = list.and_then(|shape| shape.get(axis)).is_some_and(|&length| length <= 0);
        let has_sizes = node.input.get(3).is_some_and(|sizes| !sizes.is_empty()) && node.named("axes").is_none();
        let mut shape = signed(step.to);
        let (length, name) = (shape[axis], format!("{BATCH}.{}.sides", node.output[0]));
        match node.op_type.as_str() {
            "Reshape" if !is_open && node.input.len() == 2 => {
                parts.input[1] = self.open_list(name, step.axis, step.to);
            }
            // An axis of the length 1 is broadcast already.
            "Expand" if length > 1 => {
                shape[axis] = 1;
                parts.input[1] = self.list(name, &shape);
            }
            "Resize" if length == 1 && has_sizes => {
                parts.input[3] = self.list_with_batch(name, &shape[..axis], &shape[axis + 1..]);
            }
            _ => {}
        }
    }
}

//! Gathers that take all numbers of a list in their order only reshape it. PyTorch's newer exporter writes views of
//! tensors so, where their strides change nothing.

use prost::{DecodeError, Message};

use super::super::parts::GraphParts;
use super::opened_graph::{BATCH, signed};
use super::values::Shapes;
use crate::model::onnx_proto::{self, NodeProto, list_of_whole_numbers};

impl GraphParts {
    /// Writes such gathers as reshapes, through which images can be followed.
    pub(super) fn reshape_ordered_gathers(&mut self, shapes: &Shapes) -> Result<(), DecodeError> {
        for at in 0..self.node.len() {
            let node = NodeProto::decode(self.node[at].as_slice())?;
            let ("Gather", [list, order], [output]) = (node.op_type.as_str(), &node.input[..], &node.output[..]) else {
                continue;
            };
            let (Some([length]), Some(to)) = (shapes.get(list).map(Vec::as_slice), shapes.get(output)) else {
                continue;
            };
            let is_ordered = |order: Vec<i64>| order.into_iter().eq(0..length.cast_signed());
            if !self.whole_numbers_of(order)?.is_some_and(is_ordered) {
                continue;
            }
            let shape = list_of_whole_numbers(&format!("{BATCH}.{output}.shape"), &signed(to));
            let inputs = vec![list.clone(), shape.name.clone()];
            self.node[at] = onnx_proto::node("Reshape", inputs, output, vec![]).encode_to_vec();
            self.append(&[], &[shape]);
        }
        Ok(())
    }
}

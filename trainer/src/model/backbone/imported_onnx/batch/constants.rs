//! Repeats constants for each image: class tokens that are joined to the tokens of images, masks that are added to
//! windows of images, and the like.

use prost::Message;

use super::super::parts::NodeParts;
use super::axis::{BatchAxis, axis_of};
use super::opened_graph::{BATCH, OpenedGraph};
use super::values::{BatchStep, Values};
use crate::model::onnx_proto::{self, NodeProto};

/// Operators whose inputs are broadcast against each other, sorted.
const ELEMENTWISE: [&str; 16] = [
    "Add",
    "And",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Min",
    "Mul",
    "Or",
    "Pow",
    "Sub",
    "Sum",
    "Where",
];

impl OpenedGraph {
    /// Repeats the constants of a node that must have a part for each image, as images have along their axis.
    pub fn repeat_constants(
        &mut self,
        node: &NodeProto,
        parts: &mut NodeParts,
        step: BatchStep<'_>,
        values: &Values<'_>,
    ) {
        let (axis, rank) = (step.axis, step.to.len());
        if !pairs_constants(node, axis, rank) || axis.blocks > 1 {
            return;
        }
        let is_joining = node.op_type == "Concat";
        for (input, constant) in node.input.iter().enumerate().filter(|(_, name)| values.is_constant(name)) {
            let Some(shape) = values.shape(constant) else { continue };
            // Those that lack the axis, or have the length 1 there, are broadcast.
            let Some(index) = (axis.index + shape.len()).checked_sub(rank) else { continue };
            if shape.get(index).is_none_or(|&length| length == 1 && !is_joining) {
                continue;
            }
            let name = format!("{BATCH}.{}.{input}", node.output[0]);
            let (before, after) = (vec![1; index], vec![1; shape.len() - index - 1]);
            let repeats = self.list_with_batch(format!("{name}.repeats"), &before, &after);
            self.nodes.push(onnx_proto::node("Tile", vec![constant.clone(), repeats], &name, vec![]).encode_to_vec());
            parts.input[input] = name;
            self.repeated += 1;
        }
    }
}

/// Whether a node pairs what lies along the batch's axis of its inputs: it joins them along another axis, multiplies
/// matrices for each, or computes elementwise.
fn pairs_constants(node: &NodeProto, axis: BatchAxis, rank: usize) -> bool {
    let is_batch = |named: i64| usize::try_from(named.rem_euclid(rank.max(1) as i64)) == Ok(axis.index);
    match node.op_type.as_str() {
        "Concat" => axis_of(node).is_some_and(|named| !is_batch(named)),
        "MatMul" => axis.index + 2 < rank,
        operator => ELEMENTWISE.binary_search(&operator).is_ok(),
    }
}

//! Operators that reduce a tensor along some axes.

use crate::encoder::audit::call::{ELEMENT_COST, NodeCall, NodeOutput, RuleError, RuleResult};
use crate::encoder::audit::tensor::{DataType, TensorType};

const EMPTY: RuleError = RuleError("it reduces an empty tensor");

/// The input's shape without the reduced axes, or with a length of 1 for each.
fn reduced_shape(input: &TensorType, axes: &[bool], keep: bool) -> Vec<u64> {
    let shape = input.shape.iter().zip(axes);
    shape.filter(|(_, reduced)| keep || !**reduced).map(|(side, reduced)| if *reduced { 1 } else { *side }).collect()
}

/// A reduction: a sum, a mean, a norm.
pub fn reduce(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    // The mean of no integers would be divided by zero.
    if input.elements() == 0 {
        return Err(EMPTY);
    }
    let axes = call.attribute_or_input("axes", 1)?.unwrap_or_default();
    let mut reduced = call.axes(axes, input.rank())?;
    if axes.is_empty() && !call.flag("noop_with_empty_axes", false)? {
        reduced.fill(true);
    }
    let shape = reduced_shape(input, &reduced, call.flag("keepdims", true)?);
    Ok(NodeOutput::of(TensorType::of(shape, input.data_type), 0)
        .with_work(input.elements().saturating_mul(2 * ELEMENT_COST)))
}

/// A product. One of known lengths is known: tf2onnx joins axes by it, for the attention of Keras.
pub fn product(call: &NodeCall<'_>) -> RuleResult {
    let mut result = reduce(call)?;
    let values = call.input(0)?.values.as_ref().filter(|_| result.outputs[0].elements() == 1);
    let product = values.and_then(|values| values.iter().try_fold(1i64, |product, &value| product.checked_mul(value)));
    result.outputs[0] = result.outputs[0].clone().with_values(product.map(|product| vec![product]));
    Ok(result)
}

/// The index of the largest element along an axis.
pub fn arg_max(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    if input.elements() == 0 {
        return Err(EMPTY);
    }
    let mut reduced = vec![false; input.rank()];
    reduced[call.axis("axis", 0, input)?] = true;
    let shape = reduced_shape(input, &reduced, call.flag("keepdims", true)?);
    Ok(NodeOutput::of(TensorType::of(shape, DataType::INT64), 0)
        .with_work(input.elements().saturating_mul(ELEMENT_COST)))
}

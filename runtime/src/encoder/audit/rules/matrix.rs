//! Products of matrices.

use crate::encoder::audit::call::{MISMATCH, NodeCall, NodeOutput, RuleResult, broadcast};
use crate::encoder::audit::tensor::{DataType, TensorType, product};

/// The product of stacks of matrices, stretched to each other as NumPy does it.
fn stacks(a: &TensorType, b: &TensorType, kind: DataType) -> RuleResult {
    if a.rank() == 0 || b.rank() == 0 {
        return Err(MISMATCH);
    }
    // A vector is a matrix of one row at the left, of one column at the right.
    let left = if a.rank() == 1 { vec![1, a.sides[0]] } else { a.sides.clone() };
    let right = if b.rank() == 1 { vec![b.sides[0], 1] } else { b.sides.clone() };
    let (left_stack, left) = left.split_at(left.len() - 2);
    let (right_stack, right) = right.split_at(right.len() - 2);
    if left[1] != right[0] {
        return Err(MISMATCH);
    }
    let stack = broadcast(left_stack, right_stack)?;
    let work = product(&stack).saturating_mul(product(&[left[0], left[1], right[1]]));
    let mut sides = stack;
    sides.extend((a.rank() > 1).then_some(left[0]));
    sides.extend((b.rank() > 1).then_some(right[1]));
    let scratch = packed(a).saturating_add(packed(b));
    Ok(NodeOutput { outputs: vec![TensorType::of(sides, kind)], work, scratch })
}

/// Engines copy what they multiply into an order that suits the processor, bytes perhaps as wider numbers.
fn packed(tensor: &TensorType) -> u64 {
    tensor.elements().saturating_mul(4)
}

pub fn multiply(call: &NodeCall<'_>) -> RuleResult {
    let a = call.input(0)?;
    stacks(a, call.input(1)?, a.kind)
}

pub fn multiply_bytes(call: &NodeCall<'_>) -> RuleResult {
    stacks(call.input(0)?, call.input(1)?, DataType::INT32)
}

/// The product of bytes, as bytes: a, scale, zero, b, scale, zero, scale, zero.
pub fn multiply_quantised(call: &NodeCall<'_>) -> RuleResult {
    stacks(call.input(0)?, call.input(3)?, call.input(7)?.kind)
}

/// A product of two matrices plus a third, which is stretched to it.
pub fn product_and_sum(call: &NodeCall<'_>) -> RuleResult {
    let turned = |name: &str, tensor: &TensorType| -> RuleResult<TensorType> {
        let &[rows, columns] = &tensor.sides[..] else { return Err(MISMATCH) };
        let sides = if call.flag(name, false)? { vec![columns, rows] } else { vec![rows, columns] };
        Ok(TensorType::of(sides, tensor.kind))
    };
    let (a, b) = (turned("transA", call.input(0)?)?, turned("transB", call.input(1)?)?);
    let effect = stacks(&a, &b, a.kind)?;
    match call.optional(2) {
        Some(c) if broadcast(&c.sides, &effect.outputs[0].sides)? != effect.outputs[0].sides => Err(MISMATCH),
        _ => Ok(effect),
    }
}

//! Products of matrices.

use crate::encoder::audit::call::{MISMATCH, NodeCall, NodeOutput, RuleResult, broadcast};
use crate::encoder::audit::tensor::{DataType, TensorType, product};

/// The product of stacks of matrices, broadcast to each other as NumPy does it.
fn product_of_stacks(a: &TensorType, b: &TensorType, kind: DataType) -> RuleResult {
    if a.rank() == 0 || b.rank() == 0 {
        return Err(MISMATCH);
    }
    // A vector is a matrix of one row at the left, of one column at the right.
    let left = if a.rank() == 1 { vec![1, a.shape[0]] } else { a.shape.clone() };
    let right = if b.rank() == 1 { vec![b.shape[0], 1] } else { b.shape.clone() };
    let (left_stack, left) = left.split_at(left.len() - 2);
    let (right_stack, right) = right.split_at(right.len() - 2);
    if left[1] != right[0] {
        return Err(MISMATCH);
    }
    let stack = broadcast(left_stack, right_stack)?;
    let work = product(&stack).saturating_mul(product(&[left[0], left[1], right[1]]));
    let mut shape = stack;
    shape.extend((a.rank() > 1).then_some(left[0]));
    shape.extend((b.rank() > 1).then_some(right[1]));
    let scratch = packed_bytes(a).saturating_add(packed_bytes(b));
    Ok(NodeOutput { outputs: vec![TensorType::of(shape, kind)], work, scratch })
}

/// Engines copy what they multiply into an order that suits the processor, bytes perhaps as wider integers.
fn packed_bytes(tensor: &TensorType) -> u64 {
    tensor.elements().saturating_mul(4)
}

pub fn matmul(call: &NodeCall<'_>) -> RuleResult {
    let a = call.input(0)?;
    product_of_stacks(a, call.input(1)?, a.data_type)
}

pub fn matmul_integer(call: &NodeCall<'_>) -> RuleResult {
    product_of_stacks(call.input(0)?, call.input(1)?, DataType::INT32)
}

/// The product of bytes, as bytes: a, scale, zero, b, scale, zero, scale, zero.
pub fn qlinear_matmul(call: &NodeCall<'_>) -> RuleResult {
    product_of_stacks(call.input(0)?, call.input(3)?, call.input(7)?.data_type)
}

/// A product of two matrices plus a third, which is broadcast to it.
pub fn gemm(call: &NodeCall<'_>) -> RuleResult {
    let turned = |name: &str, tensor: &TensorType| -> RuleResult<TensorType> {
        let &[rows, columns] = &tensor.shape[..] else { return Err(MISMATCH) };
        let shape = if call.flag(name, false)? { vec![columns, rows] } else { vec![rows, columns] };
        Ok(TensorType::of(shape, tensor.data_type))
    };
    let (a, b) = (turned("transA", call.input(0)?)?, turned("transB", call.input(1)?)?);
    let result = product_of_stacks(&a, &b, a.data_type)?;
    match call.optional(2) {
        Some(c) if broadcast(&c.shape, &result.outputs[0].shape)? != result.outputs[0].shape => Err(MISMATCH),
        _ => Ok(result),
    }
}

//! Products of matrices.

use std::collections::BTreeMap;

use crate::encoder::audit::call::{MISMATCH, NodeCall, NodeOutput, RuleError, RuleResult, broadcast};
use crate::encoder::audit::tensor::{DataType, TensorType, product};

const EQUATION: RuleError =
    RuleError("its equation is not of one or two inputs with a letter for every axis, and an output after \"->\"");

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

/// Sums of products by an equation such as `bij,bjk->bik`.
pub fn einsum(call: &NodeCall<'_>) -> RuleResult {
    let equation: String = call.text("equation")?.unwrap_or_default().chars().filter(|c| !c.is_whitespace()).collect();
    let (terms, output) = equation.split_once("->").ok_or(EQUATION)?;
    let (terms, inputs): (Vec<&str>, _) = (terms.split(',').collect(), call.all()?);
    if terms.len() != inputs.len() || terms.len() > 2 {
        return Err(EQUATION);
    }
    let mut sides = BTreeMap::new();
    for (term, input) in terms.iter().zip(&inputs) {
        if !has_distinct_letters(term) || term.len() != input.rank() {
            return Err(EQUATION);
        }
        for (letter, &side) in term.chars().zip(&input.shape) {
            if *sides.entry(letter).or_insert(side) != side {
                return Err(MISMATCH);
            }
        }
    }
    if !has_distinct_letters(output) {
        return Err(EQUATION);
    }
    let shape = output.chars().map(|letter| sides.get(&letter).copied().ok_or(EQUATION)).collect::<RuleResult<_>>()?;
    let output = TensorType::of(shape, inputs[0].data_type);
    let work = product(&sides.into_values().collect::<Vec<_>>());
    // Inputs are brought into the order of a matrix product, and its result into that of the output.
    let copied = inputs
        .iter()
        .map(|input| packed_bytes(input).saturating_mul(2))
        .fold(packed_bytes(&output), u64::saturating_add);
    Ok(NodeOutput { outputs: vec![output], work, scratch: copied })
}

/// Whether it is letters alone, none of which comes twice.
fn has_distinct_letters(term: &str) -> bool {
    let is_new = |(at, letter): (usize, char)| letter.is_ascii_alphabetic() && !term[..at].contains(letter);
    term.char_indices().all(is_new)
}

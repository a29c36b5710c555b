//! Operators that make large tensors out of a few values.

use crate::encoder::audit::call::{
    ELEMENT_COST, MISMATCH, NodeCall, NodeOutput, RuleError, RuleResult, UNKNOWN, broadcast, broadcast_indices,
    to_shape,
};
use crate::encoder::audit::tensor::{DataType, SHORT, TensorType, axis_of, product};

const COUNT: RuleError = RuleError("it counts without an end");

/// A constant.
pub fn constant(call: &NodeCall<'_>) -> RuleResult {
    let constant = if let Some(tensor) = call.tensor("value")? {
        tensor.clone()
    } else if let Some(value) = call.int("value_int")? {
        TensorType::of(vec![], DataType::INT64).with_values(Some(vec![value]))
    } else if let Some(values) = call.ints("value_ints")? {
        TensorType::list(values.to_vec())
    } else if call.has("value_float") {
        TensorType::of(vec![], DataType::FLOAT)
    } else {
        TensorType::of(vec![call.float_count("value_floats")?], DataType::FLOAT)
    };
    Ok(NodeOutput::of(constant, ELEMENT_COST))
}

/// One value, repeated.
pub fn constant_of_shape(call: &NodeCall<'_>) -> RuleResult {
    let shape = to_shape(call.values(0)?)?;
    let value = call.tensor("value")?;
    let kind = value.map_or(DataType::FLOAT, |value| value.data_type);
    let number = value.and_then(|value| value.values.as_ref()?.first().copied());
    let count = product(&shape);
    let values = number.filter(|_| count <= SHORT).map(|number| vec![number; count as usize]);
    Ok(NodeOutput::of(TensorType::of(shape, kind).with_values(values), ELEMENT_COST))
}

/// A tensor that is broadcast to a shape.
pub fn expand(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let output = TensorType::of(broadcast(&input.shape, &to_shape(call.values(1)?)?)?, input.data_type);
    let values = input.values.as_ref().filter(|_| output.elements() <= SHORT);
    let values = values.map(|values| broadcast_indices(&output.shape, &input.shape).map(|at| values[at]).collect());
    Ok(NodeOutput::of(output.with_values(values), ELEMENT_COST))
}

/// A tensor, repeated along each axis.
pub fn tile(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let repeats = to_shape(call.values(1)?)?;
    if repeats.len() != input.rank() {
        return Err(MISMATCH);
    }
    let shape = input.shape.iter().zip(repeats).map(|(side, count)| side.saturating_mul(count)).collect();
    Ok(NodeOutput::of(TensorType::of(shape, input.data_type), ELEMENT_COST))
}

/// Numbers from a start to before an end, in steps.
pub fn range(call: &NodeCall<'_>) -> RuleResult {
    if call.folds && call.input(0)?.data_type == DataType::FLOAT {
        return range_of_floats(call);
    }
    let number = |index| match call.values(index)? {
        [number] => Ok(i128::from(*number)),
        _ => Err(MISMATCH),
    };
    let (start, end, step) = (number(0)?, number(1)?, number(2)?);
    if step == 0 {
        return Err(COUNT);
    }
    let (span, length) = if step > 0 { (end - start, step) } else { (start - end, -step) };
    let count = if span > 0 { (span + length - 1) / length } else { 0 };
    let count = u64::try_from(count).map_err(|_| COUNT)?;
    let each = |index| i64::try_from(start + i128::from(index) * step).ok();
    let values = (count <= SHORT).then(|| (0..count).map(each).collect()).flatten();
    Ok(NodeOutput::of(TensorType::of(vec![count], call.input(0)?.data_type).with_values(values), ELEMENT_COST))
}

/// Floats in steps of one from a half or a whole number to another, as tables of positions count the middles of
/// patches: how many there are comes out the same however it is computed. Constants, which an engine does not get to
/// see.
fn range_of_floats(call: &NodeCall<'_>) -> RuleResult {
    let number = |index| {
        let float = call.input(index)?.floats.as_ref().ok_or(UNKNOWN)?;
        let is_exact = |float: f32| float.abs() < 2f32.powi(20) && (2.0 * float).fract() == 0.0;
        float.first().copied().filter(|&float| is_exact(float)).ok_or(UNKNOWN)
    };
    let (start, end) = (number(0)?, number(1)?);
    if number(2)? != 1.0 {
        return Err(UNKNOWN);
    }
    let count = (end - start).ceil().max(0.0) as u64;
    Ok(NodeOutput::of(TensorType::of(vec![count], DataType::FLOAT), ELEMENT_COST))
}

/// Ones on a diagonal, zeros elsewhere.
pub fn eye_like(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let kind = call
        .int("dtype")?
        .map_or(Ok(input.data_type), |kind| u64::try_from(kind).map(DataType).map_err(|_| MISMATCH))?;
    Ok(NodeOutput::of(TensorType::of(input.shape.clone(), kind), ELEMENT_COST))
}

/// For each index a row with a mark at that index.
pub fn one_hot(call: &NodeCall<'_>) -> RuleResult {
    let (input, kind) = (call.input(0)?, call.input(2)?.data_type);
    let [depth] = *call.values(1)? else { return Err(MISMATCH) };
    let depth = u64::try_from(depth).map_err(|_| MISMATCH)?;
    let rank = input.rank() + 1;
    let axis = axis_of(call.int_or("axis", -1)?, rank).ok_or(MISMATCH)?;
    let mut shape = input.shape.clone();
    shape.insert(axis, depth);
    Ok(NodeOutput::of(TensorType::of(shape, kind), ELEMENT_COST))
}

/// The positions of the elements that are not zero.
pub fn nonzero(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let values = input.values.as_ref().ok_or(UNKNOWN)?;
    let count = values.iter().filter(|value| **value != 0).count() as u64;
    Ok(NodeOutput::of(TensorType::of(vec![input.rank() as u64, count], DataType::INT64), ELEMENT_COST))
}

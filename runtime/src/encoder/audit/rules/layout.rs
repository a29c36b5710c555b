//! Operators that change the shape of a tensor, split it or join several.

use crate::encoder::audit::call::{
    ELEMENT_COST, MISMATCH, NodeCall, NodeOutput, RuleError, RuleResult, gather_values, to_shape,
};
use crate::encoder::audit::tensor::{DataType, TensorType, axis_of, product};

const PARTS: RuleError = RuleError("it says neither how long its parts are nor how many there are");
const UNKNOWN_SHAPE: RuleError = RuleError("its new shape cannot be inferred");

/// The elements of `input` in another shape.
fn reshaped(input: &TensorType, shape: Vec<u64>) -> RuleResult {
    if product(&shape) != input.elements() {
        return Err(MISMATCH);
    }
    Ok(NodeOutput::of(TensorType::of(shape, input.data_type).with_values(input.values.clone()), ELEMENT_COST))
}

pub fn reshape(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let wanted = call.attribute_or_input("shape", 1)?.ok_or(UNKNOWN_SHAPE)?;
    let keep_zeros = call.flag("allowzero", false)?;
    let (mut shape, mut open) = (Vec::new(), None);
    for (axis, &side) in wanted.iter().enumerate() {
        shape.push(match side {
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            0 if !keep_zeros => *input.shape.get(axis).ok_or(MISMATCH)?,
            side => u64::try_from(side).map_err(|_| UNKNOWN_SHAPE)?,
        });
    }
    if let Some(axis) = open {
        shape[axis] = input.elements().checked_div(product(&shape)).ok_or(UNKNOWN_SHAPE)?;
    }
    reshaped(input, shape)
}

/// A matrix: the first axes are its rows, the others its columns.
pub fn flatten(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let axis = call.int_or("axis", 1)?;
    let axis = if axis == input.rank() as i64 { input.rank() } else { input.axis(axis).ok_or(MISMATCH)? };
    let (rows, columns) = input.shape.split_at(axis);
    reshaped(input, vec![product(rows), product(columns)])
}

/// Without some axes of length 1.
pub fn squeeze(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let gone = match call.attribute_or_input("axes", 1)? {
        Some(axes) => call.axes(axes, input.rank())?,
        None => input.shape.iter().map(|side| *side == 1).collect(),
    };
    let kept = input.shape.iter().zip(gone).filter(|(_, gone)| !gone).map(|(side, _)| *side);
    reshaped(input, kept.collect())
}

/// The same elements, with further axes of length 1.
pub fn unsqueeze(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let axes = call.attribute_or_input("axes", 1)?.ok_or(UNKNOWN_SHAPE)?;
    let new = call.axes(axes, input.rank() + axes.len())?;
    let mut old = input.shape.iter().copied();
    reshaped(input, new.into_iter().map(|new| if new { 1 } else { old.next().unwrap_or(1) }).collect())
}

/// Axes in another order, by default from the last to the first.
pub fn transpose(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let turned: Vec<i64> = (0..input.rank() as i64).rev().collect();
    let order = call.ints("perm")?.unwrap_or(&turned);
    if order.len() != input.rank() || !call.axes(order, input.rank())?.into_iter().all(|named| named) {
        return Err(MISMATCH);
    }
    let axes =
        order.iter().map(|&axis| axis_of(axis, input.rank()).ok_or(MISMATCH)).collect::<RuleResult<Vec<usize>>>()?;
    let shape: Vec<u64> = axes.iter().map(|&axis| input.shape[axis]).collect();
    let values = gather_values(input, &shape, |own| {
        let mut place = vec![0; own.len()];
        axes.iter().zip(own).for_each(|(&axis, own)| place[axis] = *own);
        Some(place)
    });
    Ok(NodeOutput::of(TensorType::of(shape, input.data_type).with_values(values), ELEMENT_COST))
}

/// Tensors side by side along an axis.
pub fn concat(call: &NodeCall<'_>) -> RuleResult {
    let inputs = call.all()?;
    let axis = call.int("axis")?.and_then(|axis| inputs[0].axis(axis)).ok_or(MISMATCH)?;
    let mut shape = inputs[0].shape.clone();
    for input in &inputs[1..] {
        let mut others = input.shape.clone();
        if others.len() != shape.len() {
            return Err(MISMATCH);
        }
        let length = shape[axis].checked_add(others[axis]).ok_or(MISMATCH)?;
        others[axis] = shape[axis];
        if others != shape {
            return Err(MISMATCH);
        }
        shape[axis] = length;
    }
    let values = match shape.len() {
        1 => inputs.iter().map(|input| input.values.clone()).collect::<Option<Vec<_>>>().map(|parts| parts.concat()),
        _ => None,
    };
    Ok(NodeOutput::of(TensorType::of(shape, inputs[0].data_type).with_values(values), ELEMENT_COST))
}

/// Parts of a tensor along an axis.
pub fn split(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let axis = call.axis("axis", 0, input)?;
    let (length, count) = (input.shape[axis], call.output_count() as u64);
    if call.int("num_outputs")?.is_some_and(|named| u64::try_from(named) != Ok(count)) {
        return Err(MISMATCH);
    }
    let parts = match call.attribute_or_input("split", 1)? {
        Some(parts) => to_shape(parts)?,
        // rten returns all of some tensors as the first part then.
        None if !call.has("num_outputs") => return Err(PARTS),
        None => {
            // The last part may be shorter.
            let each = length.div_ceil(count.max(1));
            (0..count).map(|part| length.saturating_sub(part * each).min(each)).collect()
        }
    };
    if parts.iter().try_fold(0, |sum: u64, part| sum.checked_add(*part)) != Some(length) || parts.len() as u64 != count
    {
        return Err(MISMATCH);
    }
    let mut start = 0;
    let mut outputs = Vec::new();
    for part in parts {
        let mut shape = input.shape.clone();
        shape[axis] = part;
        let values = input.values.as_ref().filter(|_| input.rank() == 1);
        let values = values.map(|values| values[start as usize..(start + part) as usize].to_vec());
        outputs.push(TensorType::of(shape, input.data_type).with_values(values));
        start += part;
    }
    Ok(NodeOutput { outputs, work: input.elements().saturating_mul(ELEMENT_COST), scratch: 0 })
}

/// The shape of a tensor, or a part of it.
pub fn shape(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let rank = input.rank() as i64;
    let bound = |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
    let (start, end) = (bound(call.int_or("start", 0)?), bound(call.int_or("end", rank)?));
    let shape = input.shape.get(start..end).unwrap_or_default();
    let shape = shape.iter().map(|&side| i64::try_from(side).map_err(|_| UNKNOWN_SHAPE)).collect::<RuleResult<_>>()?;
    Ok(NodeOutput::of(TensorType::list(shape), ELEMENT_COST))
}

/// The number of elements of a tensor.
pub fn size(call: &NodeCall<'_>) -> RuleResult {
    let count = i64::try_from(call.input(0)?.elements()).map_err(|_| UNKNOWN_SHAPE)?;
    Ok(NodeOutput::of(TensorType::of(vec![], DataType::INT64).with_values(Some(vec![count])), ELEMENT_COST))
}

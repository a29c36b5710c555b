//! Operators that select elements by index, write them by index, or pad.

use crate::encoder::audit::call::{ELEMENT_COST, MISMATCH, NodeCall, NodeOutput, RuleError, RuleResult, gather_values};
use crate::encoder::audit::rules::elementwise;
use crate::encoder::audit::tensor::{TensorType, axis_of};

const PADDING: RuleError = RuleError("its padding does not fit its input");

/// Slices along an axis, by index.
pub fn gather(call: &NodeCall<'_>) -> RuleResult {
    let (input, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", 0, input)?;
    let shape = [&input.shape[..axis], &indices.shape, &input.shape[axis + 1..]].concat();
    let taken = |values: &Vec<i64>| {
        let take = |&index: &i64| axis_of(index, values.len()).map(|at| values[at]);
        indices.values.as_ref()?.iter().map(take).collect()
    };
    let values = input.values.as_ref().filter(|_| input.rank() == 1).and_then(taken);
    Ok(NodeOutput::of(TensorType::of(shape, input.data_type).with_values(values), ELEMENT_COST))
}

/// One element for each index.
pub fn gather_elements(call: &NodeCall<'_>) -> RuleResult {
    let (input, indices) = (call.input(0)?, call.input(1)?);
    if input.rank() != indices.rank() {
        return Err(MISMATCH);
    }
    Ok(NodeOutput::of(TensorType::of(indices.shape.clone(), input.data_type), 2 * ELEMENT_COST))
}

/// Slices by rows of indices.
pub fn gather_nd(call: &NodeCall<'_>) -> RuleResult {
    let (input, indices) = (call.input(0)?, call.input(1)?);
    let batch = usize::try_from(call.int_or("batch_dims", 0)?).map_err(|_| MISMATCH)?;
    let (row, places) = indices.shape.split_last().ok_or(MISMATCH)?;
    let behind = usize::try_from(*row).ok().and_then(|row| row.checked_add(batch)).ok_or(MISMATCH)?;
    if batch > places.len() || input.shape.get(..batch) != places.get(..batch) {
        return Err(MISMATCH);
    }
    let shape = [places, input.shape.get(behind..).ok_or(MISMATCH)?].concat();
    Ok(NodeOutput::of(TensorType::of(shape, input.data_type), 2 * ELEMENT_COST))
}

/// A tensor with some of its slices replaced.
pub fn scatter_nd(call: &NodeCall<'_>) -> RuleResult {
    let updates = call.input(2)?.elements().saturating_mul(2 * ELEMENT_COST);
    let result = elementwise::simple(call)?;
    let work = result.work.saturating_add(updates);
    Ok(result.with_work(work))
}

/// The elements from a start to before an end, in steps, along some axes.
pub fn slice(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let starts = call.attribute_or_input("starts", 1)?.ok_or(MISMATCH)?;
    let ends = call.attribute_or_input("ends", 2)?.ok_or(MISMATCH)?;
    let all: Vec<i64> = (0..starts.len() as i64).collect();
    let axes = call.attribute_or_input("axes", 3)?.unwrap_or(&all);
    let ones = vec![1; starts.len()];
    let steps = call.attribute_or_input("steps", 4)?.unwrap_or(&ones);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(MISMATCH);
    }
    call.axes(axes, input.rank())?;
    let mut shape = input.shape.clone();
    let mut ways = vec![(0, 1); input.rank()];
    for (((&start, &end), &axis), &step) in starts.iter().zip(ends).zip(axes).zip(steps) {
        let axis = input.axis(axis).ok_or(MISMATCH)?;
        let length = i64::try_from(input.shape[axis]).map_err(|_| MISMATCH)?;
        let bound =
            |at: i64, low: i64, high: i64| (if at < 0 { at.saturating_add(length) } else { at }).clamp(low, high);
        let (start, span) = match step {
            0 => return Err(MISMATCH),
            1.. => {
                let start = bound(start, 0, length);
                (start, bound(end, 0, length) - start)
            }
            _ if length == 0 => (0, 0),
            _ => {
                let start = bound(start, 0, length - 1);
                (start, start - bound(end, -1, length - 1))
            }
        };
        let count = if span > 0 { span.unsigned_abs().div_ceil(step.unsigned_abs()) } else { 0 };
        (shape[axis], ways[axis]) = (count, (start, step));
    }
    let values = gather_values(input, &shape, |own| {
        let at = |(&own, &(start, step)): (&u64, &(i64, i64))| {
            let at = i64::try_from(own).ok()?.checked_mul(step)?.checked_add(start)?;
            u64::try_from(at).ok()
        };
        own.iter().zip(&ways).map(at).collect()
    });
    Ok(NodeOutput::of(TensorType::of(shape, input.data_type).with_values(values), ELEMENT_COST))
}

/// More elements at the ends of some axes, or fewer.
pub fn pad(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let pads = call.attribute_or_input("pads", 1)?.ok_or(PADDING)?;
    let all: Vec<i64> = (0..input.rank() as i64).collect();
    let axes = match call.optional(3) {
        Some(_) => call.values(3)?,
        None => &all,
    };
    call.axes(axes, input.rank())?;
    if pads.len() != 2 * axes.len() {
        return Err(PADDING);
    }
    let (before, after) = pads.split_at(axes.len());
    let mode = call.text("mode")?.unwrap_or("constant");
    let mut shape = input.shape.clone();
    for ((&axis, &before), &after) in axes.iter().zip(before).zip(after) {
        let axis = input.axis(axis).ok_or(PADDING)?;
        let side = i64::try_from(input.shape[axis]).map_err(|_| PADDING)?;
        // What is mirrored or repeated has to be there.
        let reach = match mode {
            "constant" => i64::MIN..=i64::MAX,
            "reflect" => 0..=side - 1,
            "edge" if side > 0 => 0..=i64::MAX,
            "wrap" => 0..=side,
            _ => return Err(PADDING),
        };
        // Cutting off more than there is would leave a side that the other end has to make up for.
        let cut = before.min(0).checked_add(after.min(0)).and_then(|cut| cut.checked_add(side));
        if !reach.contains(&before) || !reach.contains(&after) || cut.is_none_or(|left| left < 0) {
            return Err(PADDING);
        }
        let padded = side.checked_add(before).and_then(|side| side.checked_add(after));
        shape[axis] = padded.and_then(|side| u64::try_from(side).ok()).ok_or(PADDING)?;
    }
    Ok(NodeOutput::of(TensorType::of(shape, input.data_type), ELEMENT_COST))
}

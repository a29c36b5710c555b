//! Operators that take numbers by their places, or put them there.

use crate::encoder::audit::call::{MISMATCH, NodeCall, NodeOutput, RuleError, RuleResult, TOUCH, picked};
use crate::encoder::audit::rules::elementwise;
use crate::encoder::audit::tensor::{TensorType, axis_of};

const PADDING: RuleError = RuleError("its padding does not fit its input");

/// Parts along an axis, by their numbers.
pub fn gather(call: &NodeCall<'_>) -> RuleResult {
    let (input, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", 0, input)?;
    let sides = [&input.sides[..axis], &indices.sides, &input.sides[axis + 1..]].concat();
    let taken = |values: &Vec<i64>| {
        let take = |&index: &i64| axis_of(index, values.len()).map(|at| values[at]);
        indices.values.as_ref()?.iter().map(take).collect()
    };
    let values = input.values.as_ref().filter(|_| input.rank() == 1).and_then(taken);
    Ok(NodeOutput::of(TensorType::of(sides, input.kind).with_values(values), TOUCH))
}

/// As many numbers as there are indices.
pub fn gather_elements(call: &NodeCall<'_>) -> RuleResult {
    let (input, indices) = (call.input(0)?, call.input(1)?);
    if input.rank() != indices.rank() {
        return Err(MISMATCH);
    }
    Ok(NodeOutput::of(TensorType::of(indices.sides.clone(), input.kind), 2 * TOUCH))
}

/// Parts by rows of indices.
pub fn gather_rows(call: &NodeCall<'_>) -> RuleResult {
    let (input, indices) = (call.input(0)?, call.input(1)?);
    let batch = usize::try_from(call.int_or("batch_dims", 0)?).map_err(|_| MISMATCH)?;
    let (row, places) = indices.sides.split_last().ok_or(MISMATCH)?;
    let behind = usize::try_from(*row).ok().and_then(|row| row.checked_add(batch)).ok_or(MISMATCH)?;
    if batch > places.len() || input.sides.get(..batch) != places.get(..batch) {
        return Err(MISMATCH);
    }
    let sides = [places, input.sides.get(behind..).ok_or(MISMATCH)?].concat();
    Ok(NodeOutput::of(TensorType::of(sides, input.kind), 2 * TOUCH))
}

/// A tensor with some of its parts replaced.
pub fn scatter(call: &NodeCall<'_>) -> RuleResult {
    let updates = call.input(2)?.elements().saturating_mul(2 * TOUCH);
    let effect = elementwise::cheap(call)?;
    let work = effect.work.saturating_add(updates);
    Ok(effect.with_work(work))
}

/// From a first place to before a last one, in steps, along some axes.
pub fn slice(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let starts = call.setting_or_input("starts", 1)?.ok_or(MISMATCH)?;
    let ends = call.setting_or_input("ends", 2)?.ok_or(MISMATCH)?;
    let all: Vec<i64> = (0..starts.len() as i64).collect();
    let axes = call.setting_or_input("axes", 3)?.unwrap_or(&all);
    let ones = vec![1; starts.len()];
    let steps = call.setting_or_input("steps", 4)?.unwrap_or(&ones);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(MISMATCH);
    }
    call.axes(axes, input.rank())?;
    let mut sides = input.sides.clone();
    let mut ways = vec![(0, 1); input.rank()];
    for (((&start, &end), &axis), &step) in starts.iter().zip(ends).zip(axes).zip(steps) {
        let axis = input.axis(axis).ok_or(MISMATCH)?;
        let length = i64::try_from(input.sides[axis]).map_err(|_| MISMATCH)?;
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
        (sides[axis], ways[axis]) = (count, (start, step));
    }
    let values = picked(input, &sides, |own| {
        let at = |(&own, &(start, step)): (&u64, &(i64, i64))| {
            let at = i64::try_from(own).ok()?.checked_mul(step)?.checked_add(start)?;
            u64::try_from(at).ok()
        };
        own.iter().zip(&ways).map(at).collect()
    });
    Ok(NodeOutput::of(TensorType::of(sides, input.kind).with_values(values), TOUCH))
}

/// With more numbers around, or fewer.
pub fn pad(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let pads = call.setting_or_input("pads", 1)?.ok_or(PADDING)?;
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
    let mut sides = input.sides.clone();
    for ((&axis, &before), &after) in axes.iter().zip(before).zip(after) {
        let axis = input.axis(axis).ok_or(PADDING)?;
        let side = i64::try_from(input.sides[axis]).map_err(|_| PADDING)?;
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
        sides[axis] = padded.and_then(|side| u64::try_from(side).ok()).ok_or(PADDING)?;
    }
    Ok(NodeOutput::of(TensorType::of(sides, input.kind), TOUCH))
}

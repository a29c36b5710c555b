//! Operators that give the same numbers other sides, or part and join them.

use crate::encoder::audit::call::{MISMATCH, NodeCall, NodeOutput, RuleError, RuleResult, TOUCH, picked, to_sides};
use crate::encoder::audit::tensor::{DataType, TensorType, axis_of, product};

const OPEN: RuleError = RuleError("its new shape cannot be told");

/// The same numbers with other sides.
fn reshaped(input: &TensorType, sides: Vec<u64>) -> RuleResult {
    if product(&sides) != input.elements() {
        return Err(MISMATCH);
    }
    Ok(NodeOutput::of(TensorType::of(sides, input.kind).with_values(input.values.clone()), TOUCH))
}

pub fn reshape(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let wanted = call.setting_or_input("shape", 1)?.ok_or(OPEN)?;
    let keep_zeros = call.flag("allowzero", false)?;
    let (mut sides, mut open) = (Vec::new(), None);
    for (axis, &side) in wanted.iter().enumerate() {
        sides.push(match side {
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            0 if !keep_zeros => *input.sides.get(axis).ok_or(MISMATCH)?,
            side => u64::try_from(side).map_err(|_| OPEN)?,
        });
    }
    if let Some(axis) = open {
        sides[axis] = input.elements().checked_div(product(&sides)).ok_or(OPEN)?;
    }
    reshaped(input, sides)
}

/// A matrix: the first axes are its rows, the others its columns.
pub fn flatten(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let axis = call.int_or("axis", 1)?;
    let axis = if axis == input.rank() as i64 { input.rank() } else { input.axis(axis).ok_or(MISMATCH)? };
    let (rows, columns) = input.sides.split_at(axis);
    reshaped(input, vec![product(rows), product(columns)])
}

/// Without axes of one number.
pub fn squeeze(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let gone = match call.setting_or_input("axes", 1)? {
        Some(axes) => call.axes(axes, input.rank())?,
        None => input.sides.iter().map(|side| *side == 1).collect(),
    };
    let kept = input.sides.iter().zip(gone).filter(|(_, gone)| !gone).map(|(side, _)| *side);
    reshaped(input, kept.collect())
}

/// With further axes of one number.
pub fn unsqueeze(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let axes = call.setting_or_input("axes", 1)?.ok_or(OPEN)?;
    let new = call.axes(axes, input.rank() + axes.len())?;
    let mut old = input.sides.iter().copied();
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
    let sides: Vec<u64> = axes.iter().map(|&axis| input.sides[axis]).collect();
    let values = picked(input, &sides, |own| {
        let mut place = vec![0; own.len()];
        axes.iter().zip(own).for_each(|(&axis, own)| place[axis] = *own);
        Some(place)
    });
    Ok(NodeOutput::of(TensorType::of(sides, input.kind).with_values(values), TOUCH))
}

/// Tensors side by side along an axis.
pub fn concat(call: &NodeCall<'_>) -> RuleResult {
    let inputs = call.all()?;
    let axis = call.int("axis")?.and_then(|axis| inputs[0].axis(axis)).ok_or(MISMATCH)?;
    let mut sides = inputs[0].sides.clone();
    for input in &inputs[1..] {
        let mut others = input.sides.clone();
        if others.len() != sides.len() {
            return Err(MISMATCH);
        }
        let length = sides[axis].checked_add(others[axis]).ok_or(MISMATCH)?;
        others[axis] = sides[axis];
        if others != sides {
            return Err(MISMATCH);
        }
        sides[axis] = length;
    }
    let values = match sides.len() {
        1 => inputs.iter().map(|input| input.values.clone()).collect::<Option<Vec<_>>>().map(|parts| parts.concat()),
        _ => None,
    };
    Ok(NodeOutput::of(TensorType::of(sides, inputs[0].kind).with_values(values), TOUCH))
}

/// Parts of a tensor along an axis.
pub fn split(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let axis = call.axis("axis", 0, input)?;
    let (length, count) = (input.sides[axis], call.outputs() as u64);
    if call.int("num_outputs")?.is_some_and(|named| u64::try_from(named) != Ok(count)) {
        return Err(MISMATCH);
    }
    let parts = match call.setting_or_input("split", 1)? {
        Some(parts) => to_sides(parts)?,
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
        let mut sides = input.sides.clone();
        sides[axis] = part;
        let values = input.values.as_ref().filter(|_| input.rank() == 1);
        let values = values.map(|values| values[start as usize..(start + part) as usize].to_vec());
        outputs.push(TensorType::of(sides, input.kind).with_values(values));
        start += part;
    }
    Ok(NodeOutput { outputs, work: input.elements().saturating_mul(TOUCH), scratch: 0 })
}

/// A tensor's own sides.
pub fn shape(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let rank = input.rank() as i64;
    let bound = |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
    let (start, end) = (bound(call.int_or("start", 0)?), bound(call.int_or("end", rank)?));
    let sides = input.sides.get(start..end).unwrap_or_default();
    let sides = sides.iter().map(|&side| i64::try_from(side).map_err(|_| OPEN)).collect::<RuleResult<_>>()?;
    Ok(NodeOutput::of(TensorType::list(sides), TOUCH))
}

/// How many numbers a tensor has.
pub fn size(call: &NodeCall<'_>) -> RuleResult {
    let count = i64::try_from(call.input(0)?.elements()).map_err(|_| OPEN)?;
    Ok(NodeOutput::of(TensorType::of(vec![], DataType::INT64).with_values(Some(vec![count])), TOUCH))
}

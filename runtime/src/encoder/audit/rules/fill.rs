//! Operators that make large tensors out of a few numbers.

use crate::encoder::audit::call::{Call, Effect, Fault, MISMATCH, Ruled, TOUCH, UNKNOWN, broadcast, places, to_sides};
use crate::encoder::audit::tensor::{Kind, SHORT, Tensor, product};

const COUNT: Fault = Fault("it counts without an end");

/// A constant.
pub fn constant(call: &Call<'_>) -> Ruled {
    let constant = if let Some(tensor) = call.tensor("value")? {
        tensor.clone()
    } else if let Some(value) = call.int("value_int")? {
        Tensor::of(vec![], Kind::INT64).with_values(Some(vec![value]))
    } else if let Some(values) = call.ints("value_ints")? {
        Tensor::list(values.to_vec())
    } else if call.has("value_float") {
        Tensor::of(vec![], Kind::FLOAT)
    } else {
        Tensor::of(vec![call.floats("value_floats")?], Kind::FLOAT)
    };
    Ok(Effect::of(constant, TOUCH))
}

/// One number again and again.
pub fn constant_of_shape(call: &Call<'_>) -> Ruled {
    let sides = to_sides(call.values(0)?)?;
    let value = call.tensor("value")?;
    let kind = value.map_or(Kind::FLOAT, |value| value.kind);
    let number = value.and_then(|value| value.values.as_ref()?.first().copied());
    let count = product(&sides);
    let values = number.filter(|_| count <= SHORT).map(|number| vec![number; count as usize]);
    Ok(Effect::of(Tensor::of(sides, kind).with_values(values), TOUCH))
}

/// A tensor that is stretched to sides.
pub fn expand(call: &Call<'_>) -> Ruled {
    let input = call.input(0)?;
    let output = Tensor::of(broadcast(&input.sides, &to_sides(call.values(1)?)?)?, input.kind);
    let values = input.values.as_ref().filter(|_| output.elements() <= SHORT);
    let values = values.map(|values| places(&output.sides, &input.sides).map(|at| values[at]).collect());
    Ok(Effect::of(output.with_values(values), TOUCH))
}

/// A tensor again and again along each axis.
pub fn tile(call: &Call<'_>) -> Ruled {
    let input = call.input(0)?;
    let repeats = to_sides(call.values(1)?)?;
    if repeats.len() != input.rank() {
        return Err(MISMATCH);
    }
    let sides = input.sides.iter().zip(repeats).map(|(side, count)| side.saturating_mul(count)).collect();
    Ok(Effect::of(Tensor::of(sides, input.kind), TOUCH))
}

/// Whole numbers from a first one, before a last one, in steps.
pub fn range(call: &Call<'_>) -> Ruled {
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
    Ok(Effect::of(Tensor::of(vec![count], call.input(0)?.kind).with_values(values), TOUCH))
}

/// Ones on a diagonal, zeros elsewhere.
pub fn eye(call: &Call<'_>) -> Ruled {
    let input = call.input(0)?;
    let kind = call.int("dtype")?.map_or(Ok(input.kind), |kind| u64::try_from(kind).map(Kind).map_err(|_| MISMATCH))?;
    Ok(Effect::of(Tensor::of(input.sides.clone(), kind), TOUCH))
}

/// For each number a row that has a mark in the number's place.
pub fn one_hot(call: &Call<'_>) -> Ruled {
    let (input, kind) = (call.input(0)?, call.input(2)?.kind);
    let [depth] = *call.values(1)? else { return Err(MISMATCH) };
    let depth = u64::try_from(depth).map_err(|_| MISMATCH)?;
    let rank = input.rank() + 1;
    let axis = super::super::tensor::axis_of(call.int_or("axis", -1)?, rank).ok_or(MISMATCH)?;
    let mut sides = input.sides.clone();
    sides.insert(axis, depth);
    Ok(Effect::of(Tensor::of(sides, kind), TOUCH))
}

/// The places of the numbers that are not zero.
pub fn nonzero(call: &Call<'_>) -> Ruled {
    let input = call.input(0)?;
    let values = input.values.as_ref().ok_or(UNKNOWN)?;
    let count = values.iter().filter(|value| **value != 0).count() as u64;
    Ok(Effect::of(Tensor::of(vec![input.rank() as u64, count], Kind::INT64), TOUCH))
}

//! Operators that compute each number from the numbers in the same place.

use crate::encoder::audit::call::{Call, Effect, FUNCTION, Fault, MISMATCH, Ruled, TOUCH, broadcast, places};
use crate::encoder::audit::tensor::{Kind, Tensor};

const WHOLE_DIVISION: Fault = Fault("it divides whole numbers by what may be zero");

/// As many numbers as the first input has.
fn like(call: &Call<'_>, cost: u64) -> Ruled {
    let input = call.input(0)?;
    Ok(Effect::of(Tensor::of(input.sides.clone(), input.kind), cost))
}

/// A cheap function of each number.
pub fn cheap(call: &Call<'_>) -> Ruled {
    like(call, TOUCH)
}

/// An exponential or the like of each number.
pub fn function(call: &Call<'_>) -> Ruled {
    like(call, FUNCTION)
}

/// The input as it is.
pub fn identity(call: &Call<'_>) -> Ruled {
    Ok(Effect::of(call.input(0)?.clone(), TOUCH))
}

/// The input, and which of its numbers were kept.
pub fn dropout(call: &Call<'_>) -> Ruled {
    let mut effect = like(call, TOUCH)?;
    effect.outputs.push(Tensor::of(effect.outputs[0].sides.clone(), Kind::BOOL));
    Ok(effect)
}

fn mapped(call: &Call<'_>, map: fn(i64) -> Option<i64>) -> Ruled {
    let mut effect = cheap(call)?;
    let values = call.input(0)?.values.as_ref().and_then(|values| values.iter().map(|&value| map(value)).collect());
    effect.outputs[0] = effect.outputs[0].clone().with_values(values);
    Ok(effect)
}

pub fn negative(call: &Call<'_>) -> Ruled {
    mapped(call, i64::checked_neg)
}

pub fn absolute(call: &Call<'_>) -> Ruled {
    mapped(call, i64::checked_abs)
}

pub fn not(call: &Call<'_>) -> Ruled {
    mapped(call, |value| Some(i64::from(value == 0)))
}

/// Numbers of another kind.
pub fn cast(call: &Call<'_>) -> Ruled {
    let input = call.input(0)?;
    let kind = u64::try_from(call.int("to")?.unwrap_or(0)).map(Kind).map_err(|_| KIND)?;
    kind.bits().ok_or(KIND)?;
    let truth = |values: &Vec<i64>| values.iter().map(|&value| i64::from(value != 0)).collect();
    let values = input.values.as_ref().map(|values| if kind == Kind::BOOL { truth(values) } else { values.clone() });
    Ok(Effect::of(Tensor::of(input.sides.clone(), kind).with_values(values), TOUCH))
}

const KIND: Fault = Fault("it makes numbers of an unknown kind");

/// Bytes of numbers.
pub fn quantise(call: &Call<'_>) -> Ruled {
    let kind = match call.int("output_dtype")? {
        Some(kind) if kind != 0 => u64::try_from(kind).map(Kind).map_err(|_| KIND)?,
        _ => call.kind_of(2, Kind::UINT8),
    };
    kind.bits().ok_or(KIND)?;
    Ok(Effect::of(Tensor::of(call.input(0)?.sides.clone(), kind), 2 * TOUCH))
}

/// Numbers of bytes.
pub fn dequantise(call: &Call<'_>) -> Ruled {
    Ok(Effect::of(Tensor::of(call.input(0)?.sides.clone(), call.input(1)?.kind), TOUCH))
}

/// Bytes of numbers, with the scale and the zero that fit them.
pub fn quantise_dynamically(call: &Call<'_>) -> Ruled {
    let mut effect = Effect::of(Tensor::of(call.input(0)?.sides.clone(), Kind::UINT8), 4 * TOUCH);
    effect.outputs.extend([Tensor::of(vec![], Kind::FLOAT), Tensor::of(vec![], Kind::UINT8)]);
    Ok(effect)
}

/// One kind of function of numbers in the same place of tensors that are stretched to each other's sides.
fn joined(call: &Call<'_>, kind: Kind, cost: u64, value: fn(&[i64]) -> Option<i64>) -> Ruled {
    let inputs = call.all()?;
    let mut sides = inputs[0].sides.clone();
    for input in &inputs[1..] {
        sides = broadcast(&sides, &input.sides)?;
    }
    let output = Tensor::of(sides, kind);
    let known = || {
        let values: Vec<&Vec<i64>> = inputs.iter().map(|input| input.values.as_ref()).collect::<Option<_>>()?;
        if output.elements() > super::super::tensor::SHORT {
            return None;
        }
        let mut places: Vec<_> = inputs.iter().map(|input| places(&output.sides, &input.sides)).collect();
        let mut each = || -> Option<i64> {
            let at = places.iter_mut().map(Iterator::next).collect::<Option<Vec<usize>>>()?;
            value(&at.iter().zip(&values).map(|(&at, values)| values[at]).collect::<Vec<i64>>())
        };
        (0..output.elements()).map(|_| each()).collect()
    };
    let values = known();
    Ok(Effect::of(output.with_values(values), cost.saturating_mul(inputs.len() as u64)))
}

fn arithmetic(call: &Call<'_>, value: fn(&[i64]) -> Option<i64>) -> Ruled {
    joined(call, call.input(0)?.kind, TOUCH, value)
}

fn two(values: &[i64], value: fn(i64, i64) -> Option<i64>) -> Option<i64> {
    if let &[a, b] = values { value(a, b) } else { None }
}

fn exactly_two(call: &Call<'_>) -> Ruled<()> {
    if call.inputs.len() == 2 { Ok(()) } else { Err(MISMATCH) }
}

pub fn add(call: &Call<'_>) -> Ruled {
    exactly_two(call)?;
    arithmetic(call, |values| two(values, i64::checked_add))
}

pub fn subtract(call: &Call<'_>) -> Ruled {
    exactly_two(call)?;
    arithmetic(call, |values| two(values, i64::checked_sub))
}

pub fn multiply(call: &Call<'_>) -> Ruled {
    exactly_two(call)?;
    arithmetic(call, |values| two(values, i64::checked_mul))
}

/// Whole numbers that are divided by zero end the process, as does the smallest of them that is divided by -1.
fn check_divisor(call: &Call<'_>) -> Ruled<()> {
    exactly_two(call)?;
    let divisor = call.input(1)?;
    let is_safe = |values: &Vec<i64>| values.iter().all(|value| !matches!(value, 0 | -1));
    let whole = divisor.kind.is_whole() || call.input(0)?.kind.is_whole();
    if whole && !divisor.values.as_ref().is_some_and(is_safe) { Err(WHOLE_DIVISION) } else { Ok(()) }
}

pub fn divide(call: &Call<'_>) -> Ruled {
    check_divisor(call)?;
    arithmetic(call, |values| two(values, i64::checked_div))
}

pub fn modulo(call: &Call<'_>) -> Ruled {
    check_divisor(call)?;
    // With `fmod` the sign is the dividend's, else the divisor's.
    if call.flag("fmod", false)? {
        arithmetic(call, |values| two(values, i64::checked_rem))
    } else {
        arithmetic(call, |values| {
            two(values, |a, b| {
                let rest = a.checked_rem(b)?;
                Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
            })
        })
    }
}

pub fn power(call: &Call<'_>) -> Ruled {
    exactly_two(call)?;
    joined(call, call.input(0)?.kind, FUNCTION, |_| None)
}

/// A slope for each number, stretched to the first input alone.
pub fn slopes(call: &Call<'_>) -> Ruled {
    exactly_two(call)?;
    let effect = arithmetic(call, |_| None)?;
    if effect.outputs[0].sides == call.input(0)?.sides { Ok(effect) } else { Err(MISMATCH) }
}

pub fn largest(call: &Call<'_>) -> Ruled {
    arithmetic(call, |values| values.iter().copied().max())
}

pub fn smallest(call: &Call<'_>) -> Ruled {
    arithmetic(call, |values| values.iter().copied().min())
}

pub fn sum(call: &Call<'_>) -> Ruled {
    arithmetic(call, |values| values.iter().try_fold(0, |sum: i64, &value| sum.checked_add(value)))
}

fn truth(call: &Call<'_>, value: fn(&[i64]) -> Option<i64>) -> Ruled {
    exactly_two(call)?;
    joined(call, Kind::BOOL, TOUCH, value)
}

pub fn equal(call: &Call<'_>) -> Ruled {
    truth(call, |values| two(values, |a, b| Some((a == b).into())))
}

pub fn greater(call: &Call<'_>) -> Ruled {
    truth(call, |values| two(values, |a, b| Some((a > b).into())))
}

pub fn at_least(call: &Call<'_>) -> Ruled {
    truth(call, |values| two(values, |a, b| Some((a >= b).into())))
}

pub fn less(call: &Call<'_>) -> Ruled {
    truth(call, |values| two(values, |a, b| Some((a < b).into())))
}

pub fn at_most(call: &Call<'_>) -> Ruled {
    truth(call, |values| two(values, |a, b| Some((a <= b).into())))
}

pub fn and(call: &Call<'_>) -> Ruled {
    truth(call, |values| two(values, |a, b| Some((a != 0 && b != 0).into())))
}

pub fn or(call: &Call<'_>) -> Ruled {
    truth(call, |values| two(values, |a, b| Some((a != 0 || b != 0).into())))
}

/// Of two tensors, the one that a truth value names, number for number.
pub fn choose(call: &Call<'_>) -> Ruled {
    if call.inputs.len() != 3 {
        return Err(MISMATCH);
    }
    joined(call, call.input(1)?.kind, TOUCH, |values| match *values {
        [0, _, other] => Some(other),
        [_, one, _] => Some(one),
        _ => None,
    })
}

/// A norm over parts of its input, with up to two statistics beside it, which are no larger.
pub fn norm(call: &Call<'_>) -> Ruled {
    like(call, 4 * TOUCH)
}

/// The norm of a batch, with the statistics of each channel beside it when it trains.
pub fn batch_norm(call: &Call<'_>) -> Ruled {
    let mut effect = norm(call)?;
    let (channels, kind) = (call.input(3)?.sides.clone(), effect.outputs[0].kind);
    effect.outputs.extend((0..4).map(|_| Tensor::of(channels.clone(), kind)));
    Ok(effect)
}

/// The norm of the last axes, with the mean and the deviation of each part beside it.
pub fn layer_norm(call: &Call<'_>) -> Ruled {
    let mut effect = norm(call)?;
    let input = call.input(0)?;
    let axis = call.axis("axis", -1, input)?;
    let mut sides = input.sides.clone();
    sides[axis..].fill(1);
    effect.outputs.extend((0..2).map(|_| Tensor::of(sides.clone(), Kind::FLOAT)));
    Ok(effect)
}

/// The norm of each number by those of the neighbouring channels.
pub fn local_norm(call: &Call<'_>) -> Ruled {
    let size = u64::try_from(call.int("size")?.unwrap_or(0)).map_err(|_| MISMATCH)?;
    let channels = call.input(0)?.sides.get(1).copied().ok_or(MISMATCH)?;
    like(call, FUNCTION.saturating_add(size.min(channels).saturating_mul(TOUCH)))
}

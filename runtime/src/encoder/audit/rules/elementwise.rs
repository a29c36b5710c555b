//! Operators that compute each number from the numbers in the same place.

use crate::encoder::audit::call::{
    FUNCTION, MISMATCH, NodeCall, NodeOutput, RuleError, RuleResult, TOUCH, broadcast, places,
};
use crate::encoder::audit::tensor::{DataType, TensorType};

const WHOLE_DIVISION: RuleError = RuleError("it divides whole numbers by what may be zero");

/// As many numbers as the first input has.
fn like(call: &NodeCall<'_>, cost: u64) -> RuleResult {
    let input = call.input(0)?;
    Ok(NodeOutput::of(TensorType::of(input.sides.clone(), input.kind), cost))
}

/// A cheap function of each number.
pub fn cheap(call: &NodeCall<'_>) -> RuleResult {
    like(call, TOUCH)
}

/// An exponential or the like of each number.
pub fn function(call: &NodeCall<'_>) -> RuleResult {
    like(call, FUNCTION)
}

/// The input as it is.
pub fn identity(call: &NodeCall<'_>) -> RuleResult {
    Ok(NodeOutput::of(call.input(0)?.clone(), TOUCH))
}

/// The input, and which of its numbers were kept.
pub fn dropout(call: &NodeCall<'_>) -> RuleResult {
    let mut effect = like(call, TOUCH)?;
    effect.outputs.push(TensorType::of(effect.outputs[0].sides.clone(), DataType::BOOL));
    Ok(effect)
}

fn mapped(call: &NodeCall<'_>, map: fn(i64) -> Option<i64>) -> RuleResult {
    let mut effect = cheap(call)?;
    let values = call.input(0)?.values.as_ref().and_then(|values| values.iter().map(|&value| map(value)).collect());
    effect.outputs[0] = effect.outputs[0].clone().with_values(values);
    Ok(effect)
}

pub fn negative(call: &NodeCall<'_>) -> RuleResult {
    mapped(call, i64::checked_neg)
}

pub fn absolute(call: &NodeCall<'_>) -> RuleResult {
    mapped(call, i64::checked_abs)
}

pub fn not(call: &NodeCall<'_>) -> RuleResult {
    mapped(call, |value| Some(i64::from(value == 0)))
}

/// Numbers of another kind.
pub fn cast(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let kind = u64::try_from(call.int("to")?.unwrap_or(0)).map(DataType).map_err(|_| KIND)?;
    kind.bits().ok_or(KIND)?;
    let truth = |values: &Vec<i64>| values.iter().map(|&value| i64::from(value != 0)).collect();
    let values =
        input.values.as_ref().map(|values| if kind == DataType::BOOL { truth(values) } else { values.clone() });
    Ok(NodeOutput::of(TensorType::of(input.sides.clone(), kind).with_values(values), TOUCH))
}

const KIND: RuleError = RuleError("it makes numbers of an unknown kind");

/// Bytes of numbers.
pub fn quantise(call: &NodeCall<'_>) -> RuleResult {
    let kind = match call.int("output_dtype")? {
        Some(kind) if kind != 0 => u64::try_from(kind).map(DataType).map_err(|_| KIND)?,
        _ => call.kind_of(2, DataType::UINT8),
    };
    kind.bits().ok_or(KIND)?;
    Ok(NodeOutput::of(TensorType::of(call.input(0)?.sides.clone(), kind), 2 * TOUCH))
}

/// Numbers of bytes.
pub fn dequantise(call: &NodeCall<'_>) -> RuleResult {
    Ok(NodeOutput::of(TensorType::of(call.input(0)?.sides.clone(), call.input(1)?.kind), TOUCH))
}

/// Bytes of numbers, with the scale and the zero that fit them.
pub fn quantise_dynamically(call: &NodeCall<'_>) -> RuleResult {
    let mut effect = NodeOutput::of(TensorType::of(call.input(0)?.sides.clone(), DataType::UINT8), 4 * TOUCH);
    effect.outputs.extend([TensorType::of(vec![], DataType::FLOAT), TensorType::of(vec![], DataType::UINT8)]);
    Ok(effect)
}

/// One kind of function of numbers in the same place of tensors that are stretched to each other's sides.
fn joined(call: &NodeCall<'_>, kind: DataType, cost: u64, value: fn(&[i64]) -> Option<i64>) -> RuleResult {
    let inputs = call.all()?;
    let mut sides = inputs[0].sides.clone();
    for input in &inputs[1..] {
        sides = broadcast(&sides, &input.sides)?;
    }
    let output = TensorType::of(sides, kind);
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
    Ok(NodeOutput::of(output.with_values(values), cost.saturating_mul(inputs.len() as u64)))
}

fn arithmetic(call: &NodeCall<'_>, value: fn(&[i64]) -> Option<i64>) -> RuleResult {
    joined(call, call.input(0)?.kind, TOUCH, value)
}

fn two(values: &[i64], value: fn(i64, i64) -> Option<i64>) -> Option<i64> {
    if let &[a, b] = values { value(a, b) } else { None }
}

fn exactly_two(call: &NodeCall<'_>) -> RuleResult<()> {
    if call.inputs.len() == 2 { Ok(()) } else { Err(MISMATCH) }
}

pub fn add(call: &NodeCall<'_>) -> RuleResult {
    exactly_two(call)?;
    arithmetic(call, |values| two(values, i64::checked_add))
}

pub fn subtract(call: &NodeCall<'_>) -> RuleResult {
    exactly_two(call)?;
    arithmetic(call, |values| two(values, i64::checked_sub))
}

pub fn multiply(call: &NodeCall<'_>) -> RuleResult {
    exactly_two(call)?;
    arithmetic(call, |values| two(values, i64::checked_mul))
}

/// Whole numbers that are divided by zero end the process, as does the smallest of them that is divided by -1.
fn check_divisor(call: &NodeCall<'_>) -> RuleResult<()> {
    exactly_two(call)?;
    let divisor = call.input(1)?;
    let is_safe = |values: &Vec<i64>| values.iter().all(|value| !matches!(value, 0 | -1));
    let whole = divisor.kind.is_whole() || call.input(0)?.kind.is_whole();
    if whole && !divisor.values.as_ref().is_some_and(is_safe) { Err(WHOLE_DIVISION) } else { Ok(()) }
}

pub fn divide(call: &NodeCall<'_>) -> RuleResult {
    check_divisor(call)?;
    arithmetic(call, |values| two(values, i64::checked_div))
}

pub fn modulo(call: &NodeCall<'_>) -> RuleResult {
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

pub fn power(call: &NodeCall<'_>) -> RuleResult {
    exactly_two(call)?;
    joined(call, call.input(0)?.kind, FUNCTION, |_| None)
}

/// A slope for each number, stretched to the first input alone.
pub fn slopes(call: &NodeCall<'_>) -> RuleResult {
    exactly_two(call)?;
    let effect = arithmetic(call, |_| None)?;
    if effect.outputs[0].sides == call.input(0)?.sides { Ok(effect) } else { Err(MISMATCH) }
}

pub fn largest(call: &NodeCall<'_>) -> RuleResult {
    arithmetic(call, |values| values.iter().copied().max())
}

pub fn smallest(call: &NodeCall<'_>) -> RuleResult {
    arithmetic(call, |values| values.iter().copied().min())
}

pub fn sum(call: &NodeCall<'_>) -> RuleResult {
    arithmetic(call, |values| values.iter().try_fold(0, |sum: i64, &value| sum.checked_add(value)))
}

fn truth(call: &NodeCall<'_>, value: fn(&[i64]) -> Option<i64>) -> RuleResult {
    exactly_two(call)?;
    joined(call, DataType::BOOL, TOUCH, value)
}

pub fn equal(call: &NodeCall<'_>) -> RuleResult {
    truth(call, |values| two(values, |a, b| Some((a == b).into())))
}

pub fn greater(call: &NodeCall<'_>) -> RuleResult {
    truth(call, |values| two(values, |a, b| Some((a > b).into())))
}

pub fn at_least(call: &NodeCall<'_>) -> RuleResult {
    truth(call, |values| two(values, |a, b| Some((a >= b).into())))
}

pub fn less(call: &NodeCall<'_>) -> RuleResult {
    truth(call, |values| two(values, |a, b| Some((a < b).into())))
}

pub fn at_most(call: &NodeCall<'_>) -> RuleResult {
    truth(call, |values| two(values, |a, b| Some((a <= b).into())))
}

pub fn and(call: &NodeCall<'_>) -> RuleResult {
    truth(call, |values| two(values, |a, b| Some((a != 0 && b != 0).into())))
}

pub fn or(call: &NodeCall<'_>) -> RuleResult {
    truth(call, |values| two(values, |a, b| Some((a != 0 || b != 0).into())))
}

/// Of two tensors, the one that a truth value names, number for number.
pub fn choose(call: &NodeCall<'_>) -> RuleResult {
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
pub fn norm(call: &NodeCall<'_>) -> RuleResult {
    like(call, 4 * TOUCH)
}

/// The norm of a batch, with the statistics of each channel beside it when it trains.
pub fn batch_norm(call: &NodeCall<'_>) -> RuleResult {
    let mut effect = norm(call)?;
    let (channels, kind) = (call.input(3)?.sides.clone(), effect.outputs[0].kind);
    effect.outputs.extend((0..4).map(|_| TensorType::of(channels.clone(), kind)));
    Ok(effect)
}

/// The norm of the last axes, with the mean and the deviation of each part beside it.
pub fn layer_norm(call: &NodeCall<'_>) -> RuleResult {
    let mut effect = norm(call)?;
    let input = call.input(0)?;
    let axis = call.axis("axis", -1, input)?;
    let mut sides = input.sides.clone();
    sides[axis..].fill(1);
    effect.outputs.extend((0..2).map(|_| TensorType::of(sides.clone(), DataType::FLOAT)));
    Ok(effect)
}

/// The norm of each number by those of the neighbouring channels.
pub fn local_norm(call: &NodeCall<'_>) -> RuleResult {
    let size = u64::try_from(call.int("size")?.unwrap_or(0)).map_err(|_| MISMATCH)?;
    let channels = call.input(0)?.sides.get(1).copied().ok_or(MISMATCH)?;
    like(call, FUNCTION.saturating_add(size.min(channels).saturating_mul(TOUCH)))
}

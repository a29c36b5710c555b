//! Operators that compute each element from the elements at the same position.

use crate::encoder::audit::call::{
    ELEMENT_COST, FUNCTION_COST, MISMATCH, NodeCall, NodeOutput, RuleError, RuleResult, at_each_position, broadcast,
};
use crate::encoder::audit::tensor::{DataType, SHORT, TensorType};

const TRAINING: RuleError = RuleError("the model was exported as in training; call model.eval() before the export");
const INTEGER_DIVISION: RuleError = RuleError("it divides integers by what may be zero");
const SEVERAL_AXES: RuleError = RuleError(
    "before version 13 of ONNX's operators it takes several axes together, which not all engines do; convert the model \
     (onnx.version_converter.convert_version(model, 13))",
);

/// An output of the first input's type, each of whose elements has this cost.
fn same_shape(call: &NodeCall<'_>, cost: u64) -> RuleResult {
    let input = call.input(0)?;
    Ok(NodeOutput::of(TensorType::of(input.shape.clone(), input.data_type), cost))
}

/// A function that is cheap to compute, such as a comparison or a rounding.
pub fn simple(call: &NodeCall<'_>) -> RuleResult {
    same_shape(call, ELEMENT_COST)
}

/// A function that costs as much as an exponential.
pub fn transcendental(call: &NodeCall<'_>) -> RuleResult {
    same_shape(call, FUNCTION_COST)
}

/// `Softmax` and `LogSoftmax` as they were before version 13 of ONNX's operators: over all axes from one on, by default
/// the second. rten computes them along that one axis, by default the last; both are the same if the others are of
/// length 1.
pub fn softmax_of_several_axes(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let (first, alone) = (call.axis("axis", 1, input)?, call.axis("axis", -1, input)?);
    let mut others = input.shape.iter().enumerate().skip(first).filter(|(axis, _)| *axis != alone);
    if others.any(|(_, side)| *side != 1) { Err(SEVERAL_AXES) } else { transcendental(call) }
}

/// The input as it is.
pub fn identity(call: &NodeCall<'_>) -> RuleResult {
    Ok(NodeOutput::of(call.input(0)?.clone(), ELEMENT_COST))
}

/// The input, and a mask of the elements that are kept.
pub fn dropout(call: &NodeCall<'_>) -> RuleResult {
    // An input since version 12 of the operator.
    if call.optional(2).is_some_and(|training| training.values.as_deref() != Some(&[0][..])) {
        return Err(TRAINING);
    }
    let mut result = same_shape(call, ELEMENT_COST)?;
    result.outputs.push(TensorType::of(result.outputs[0].shape.clone(), DataType::BOOL));
    Ok(result)
}

fn map_values(call: &NodeCall<'_>, map: fn(i64) -> Option<i64>) -> RuleResult {
    let mut result = simple(call)?;
    let values = call.input(0)?.values.as_ref().and_then(|values| values.iter().map(|&value| map(value)).collect());
    result.outputs[0] = result.outputs[0].clone().with_values(values);
    Ok(result)
}

pub fn neg(call: &NodeCall<'_>) -> RuleResult {
    map_values(call, i64::checked_neg)
}

pub fn abs(call: &NodeCall<'_>) -> RuleResult {
    map_values(call, i64::checked_abs)
}

/// Whether each element is no number. PyTorch's exporter asks so of the softmax of attention, which a row that is
/// masked as a whole would make of nothing.
pub fn is_nan(call: &NodeCall<'_>) -> RuleResult {
    Ok(NodeOutput::of(TensorType::of(call.input(0)?.shape.clone(), DataType::BOOL), ELEMENT_COST))
}

pub fn not(call: &NodeCall<'_>) -> RuleResult {
    map_values(call, |value| Some(i64::from(value == 0)))
}

/// Values of another data type.
pub fn cast(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let kind = u64::try_from(call.int("to")?.unwrap_or(0)).map(DataType).map_err(|_| DATA_TYPE)?;
    kind.bits().ok_or(DATA_TYPE)?;
    let truth = |values: &Vec<i64>| values.iter().map(|&value| i64::from(value != 0)).collect();
    let values =
        input.values.as_ref().map(|values| if kind == DataType::BOOL { truth(values) } else { values.clone() });
    Ok(NodeOutput::of(TensorType::of(input.shape.clone(), kind).with_values(values), ELEMENT_COST))
}

const DATA_TYPE: RuleError = RuleError("it makes values of an unknown data type");

/// Floats to bytes.
pub fn quantize_linear(call: &NodeCall<'_>) -> RuleResult {
    let kind = match call.int("output_dtype")? {
        Some(kind) if kind != 0 => u64::try_from(kind).map(DataType).map_err(|_| DATA_TYPE)?,
        _ => call.data_type_of(2, DataType::UINT8),
    };
    kind.bits().ok_or(DATA_TYPE)?;
    Ok(NodeOutput::of(TensorType::of(call.input(0)?.shape.clone(), kind), 2 * ELEMENT_COST))
}

/// Bytes to floats.
pub fn dequantize_linear(call: &NodeCall<'_>) -> RuleResult {
    Ok(NodeOutput::of(TensorType::of(call.input(0)?.shape.clone(), call.input(1)?.data_type), ELEMENT_COST))
}

/// A function of the elements at the same position of tensors that are broadcast to each other.
fn broadcast_values(call: &NodeCall<'_>, kind: DataType, cost: u64, value: fn(&[i64]) -> Option<i64>) -> RuleResult {
    let inputs = call.all()?;
    let mut shape = inputs[0].shape.clone();
    for input in &inputs[1..] {
        shape = broadcast(&shape, &input.shape)?;
    }
    let output = TensorType::of(shape, kind);
    let known = inputs.iter().map(|input| Some((&*input.shape, input.values.as_deref()?))).collect::<Option<Vec<_>>>();
    let known = known.filter(|_| output.elements() <= SHORT);
    let values = known.and_then(|known| at_each_position(&output.shape, &known, value));
    Ok(NodeOutput::of(output.with_values(values), cost.saturating_mul(inputs.len() as u64)))
}

fn arithmetic(call: &NodeCall<'_>, value: fn(&[i64]) -> Option<i64>) -> RuleResult {
    broadcast_values(call, call.input(0)?.data_type, ELEMENT_COST, value)
}

fn binary(values: &[i64], value: fn(i64, i64) -> Option<i64>) -> Option<i64> {
    if let &[a, b] = values { value(a, b) } else { None }
}

fn need_two_inputs(call: &NodeCall<'_>) -> RuleResult<()> {
    if call.inputs.len() == 2 { Ok(()) } else { Err(MISMATCH) }
}

pub fn add(call: &NodeCall<'_>) -> RuleResult {
    need_two_inputs(call)?;
    arithmetic(call, |values| binary(values, i64::checked_add))
}

pub fn sub(call: &NodeCall<'_>) -> RuleResult {
    need_two_inputs(call)?;
    arithmetic(call, |values| binary(values, i64::checked_sub))
}

pub fn mul(call: &NodeCall<'_>) -> RuleResult {
    need_two_inputs(call)?;
    arithmetic(call, |values| binary(values, i64::checked_mul))
}

/// Dividing an integer by zero ends the process, and so does dividing the smallest integer by -1.
fn check_divisor(call: &NodeCall<'_>) -> RuleResult<()> {
    need_two_inputs(call)?;
    let divisor = call.input(1)?;
    let is_safe = |values: &Vec<i64>| values.iter().all(|value| !matches!(value, 0 | -1));
    let integers = divisor.data_type.is_integer() || call.input(0)?.data_type.is_integer();
    if integers && !divisor.values.as_ref().is_some_and(is_safe) { Err(INTEGER_DIVISION) } else { Ok(()) }
}

pub fn div(call: &NodeCall<'_>) -> RuleResult {
    check_divisor(call)?;
    arithmetic(call, |values| binary(values, i64::checked_div))
}

pub fn modulo(call: &NodeCall<'_>) -> RuleResult {
    check_divisor(call)?;
    // With `fmod` the sign is the dividend's, else the divisor's.
    if call.flag("fmod", false)? {
        arithmetic(call, |values| binary(values, i64::checked_rem))
    } else {
        arithmetic(call, |values| {
            binary(values, |a, b| {
                let rest = a.checked_rem(b)?;
                Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
            })
        })
    }
}

pub fn pow(call: &NodeCall<'_>) -> RuleResult {
    need_two_inputs(call)?;
    broadcast_values(call, call.input(0)?.data_type, FUNCTION_COST, |_| None)
}

/// A slope for each element; slopes are broadcast to the input, which keeps its shape.
pub fn prelu(call: &NodeCall<'_>) -> RuleResult {
    need_two_inputs(call)?;
    let result = arithmetic(call, |_| None)?;
    if result.outputs[0].shape == call.input(0)?.shape { Ok(result) } else { Err(MISMATCH) }
}

pub fn max(call: &NodeCall<'_>) -> RuleResult {
    arithmetic(call, |values| values.iter().copied().max())
}

pub fn min(call: &NodeCall<'_>) -> RuleResult {
    arithmetic(call, |values| values.iter().copied().min())
}

pub fn sum(call: &NodeCall<'_>) -> RuleResult {
    arithmetic(call, |values| values.iter().try_fold(0, |sum: i64, &value| sum.checked_add(value)))
}

fn comparison(call: &NodeCall<'_>, value: fn(&[i64]) -> Option<i64>) -> RuleResult {
    need_two_inputs(call)?;
    broadcast_values(call, DataType::BOOL, ELEMENT_COST, value)
}

pub fn equal(call: &NodeCall<'_>) -> RuleResult {
    comparison(call, |values| binary(values, |a, b| Some((a == b).into())))
}

pub fn greater(call: &NodeCall<'_>) -> RuleResult {
    comparison(call, |values| binary(values, |a, b| Some((a > b).into())))
}

pub fn greater_or_equal(call: &NodeCall<'_>) -> RuleResult {
    comparison(call, |values| binary(values, |a, b| Some((a >= b).into())))
}

pub fn less(call: &NodeCall<'_>) -> RuleResult {
    comparison(call, |values| binary(values, |a, b| Some((a < b).into())))
}

pub fn less_or_equal(call: &NodeCall<'_>) -> RuleResult {
    comparison(call, |values| binary(values, |a, b| Some((a <= b).into())))
}

pub fn and(call: &NodeCall<'_>) -> RuleResult {
    comparison(call, |values| binary(values, |a, b| Some((a != 0 && b != 0).into())))
}

pub fn or(call: &NodeCall<'_>) -> RuleResult {
    comparison(call, |values| binary(values, |a, b| Some((a != 0 || b != 0).into())))
}

/// `Where`: element by element, the second input where the first is true, else the third.
pub fn select(call: &NodeCall<'_>) -> RuleResult {
    if call.inputs.len() != 3 {
        return Err(MISMATCH);
    }
    broadcast_values(call, call.input(1)?.data_type, ELEMENT_COST, |values| match *values {
        [0, _, other] => Some(other),
        [_, one, _] => Some(one),
        _ => None,
    })
}

/// A normalisation over parts of the input.
pub fn normalization(call: &NodeCall<'_>) -> RuleResult {
    same_shape(call, 4 * ELEMENT_COST)
}

/// A batch normalisation by statistics that the model brings. In training it would compute those of the batch, and
/// return them as further outputs.
pub fn batch_normalization(call: &NodeCall<'_>) -> RuleResult {
    if call.flag("training_mode", false)? || call.output_count() > 1 {
        return Err(TRAINING);
    }
    normalization(call)
}

/// A normalisation over the last axes, with the mean and the deviation of each part as further outputs.
pub fn layer_normalization(call: &NodeCall<'_>) -> RuleResult {
    let mut result = normalization(call)?;
    let input = call.input(0)?;
    let axis = call.axis("axis", -1, input)?;
    let mut shape = input.shape.clone();
    shape[axis..].fill(1);
    result.outputs.extend((0..2).map(|_| TensorType::of(shape.clone(), DataType::FLOAT)));
    Ok(result)
}

/// A local response normalisation: each element by its neighbours in other channels.
pub fn lrn(call: &NodeCall<'_>) -> RuleResult {
    let size = u64::try_from(call.int("size")?.unwrap_or(0)).map_err(|_| MISMATCH)?;
    let channels = call.input(0)?.shape.get(1).copied().ok_or(MISMATCH)?;
    same_shape(call, FUNCTION_COST.saturating_add(size.min(channels).saturating_mul(ELEMENT_COST)))
}

//! Follows a few floats through a model whose constants are going to be folded, as whole numbers are followed
//! everywhere: exporters cast sides to floats to divide them by strides and round up, or take the root of a number of
//! patches.
//!
//! What is followed here is computed by ONNX Runtime afterwards. So only operations count whose result IEEE 754 fixes
//! to the last bit: one that came out otherwise there could be multiplied to another shape than the one that was
//! bounded.

use super::call::{NodeCall, at_each_position};
use super::tensor::{DataType, SHORT, TensorType};

/// The output of a node with its floats, or with whole numbers that were floats, where they are known.
pub fn follow(call: &NodeCall<'_>, output: TensorType) -> TensorType {
    if output.elements() > SHORT {
        return output;
    }
    let operator = call.node.operator.as_str();
    match (operator, output.data_type) {
        ("Cast", DataType::FLOAT) => {
            let values = call.optional(0).and_then(|input| input.values.as_ref());
            let floats = values.map(|values| values.iter().map(|&value| value as f32).collect());
            TensorType { floats: floats.or_else(|| floats_of(call, 0).cloned()), ..output }
        }
        ("Cast", DataType::INT64 | DataType::INT32) => {
            let values = floats_of(call, 0).and_then(|floats| floats.iter().copied().map(whole).collect());
            if values.is_some() { output.with_values(values) } else { output }
        }
        ("Reshape" | "Squeeze" | "Unsqueeze", DataType::FLOAT) => {
            TensorType { floats: floats_of(call, 0).cloned(), ..output }
        }
        ("Concat", DataType::FLOAT) if output.rank() == 1 => {
            let parts: Option<Vec<Vec<f32>>> = (0..call.inputs.len()).map(|at| floats_of(call, at).cloned()).collect();
            TensorType { floats: parts.map(|parts| parts.concat()), ..output }
        }
        ("Clip", DataType::FLOAT) => TensorType { floats: clipped(call), ..output },
        (_, DataType::FLOAT) => {
            let floats = arithmetic(operator).and_then(|value| elementwise(call, &output.shape, value));
            TensorType { floats: floats.or_else(|| output.floats.clone()), ..output }
        }
        _ => output,
    }
}

fn floats_of<'a>(call: &NodeCall<'a>, at: usize) -> Option<&'a Vec<f32>> {
    call.optional(at)?.floats.as_ref()
}

/// A float without its fraction, if that is a number of 64 bits.
fn whole(float: f32) -> Option<i64> {
    (float.abs() < 2f32.powi(62)).then_some(float as i64)
}

/// Makes one float of those at the same position of each input; none if it takes another number of them.
type FloatFunction = fn(&[f32]) -> Option<f32>;

/// What an operator makes of floats at the same position.
fn arithmetic(operator: &str) -> Option<FloatFunction> {
    Some(match operator {
        "Add" => |floats| two(floats, |a, b| a + b),
        "Sub" => |floats| two(floats, |a, b| a - b),
        "Mul" => |floats| two(floats, |a, b| a * b),
        "Div" => |floats| two(floats, |a, b| a / b),
        "Pow" => power,
        "Ceil" => |floats| one(floats, f32::ceil),
        "Floor" => |floats| one(floats, f32::floor),
        "Neg" => |floats| one(floats, |a| -a),
        "Sqrt" => |floats| one(floats, f32::sqrt),
        _ => return None,
    })
}

fn one(floats: &[f32], value: fn(f32) -> f32) -> Option<f32> {
    if let &[a] = floats { Some(value(a)) } else { None }
}

fn two(floats: &[f32], value: fn(f32, f32) -> f32) -> Option<f32> {
    if let &[a, b] = floats { Some(value(a, b)) } else { None }
}

/// The root of a whole number's square, which every function of powers finds exactly. No standard fixes the last bit of
/// others.
fn power(floats: &[f32]) -> Option<f32> {
    let &[base, exponent] = floats else { return None };
    let root = base.sqrt();
    // Squares up to here are exact.
    (exponent == 0.5 && root.fract() == 0.0 && root < 4096.0 && root * root == base).then_some(root)
}

/// Floats within bounds, of which either may be left out.
fn clipped(call: &NodeCall<'_>) -> Option<Vec<f32>> {
    let bound = |at: usize, default: f32| match call.optional(at) {
        None => Some(default),
        Some(bound) => bound.floats.as_ref()?.first().copied(),
    };
    let (low, high) = (bound(1, f32::MIN)?, bound(2, f32::MAX)?);
    let is_sound = low <= high && !call.has("min") && !call.has("max");
    let floats = floats_of(call, 0).filter(|floats| is_sound && floats.iter().all(|float| !float.is_nan()))?;
    Some(floats.iter().map(|float| float.clamp(low, high)).collect())
}

/// What is made of floats at the same position of inputs that are broadcast to the shape of the output.
fn elementwise(call: &NodeCall<'_>, shape: &[u64], value: FloatFunction) -> Option<Vec<f32>> {
    let known = call.inputs.iter().map(|input| {
        let input = (*input)?;
        Some((&*input.shape, input.floats.as_deref()?))
    });
    at_each_position(shape, &known.collect::<Option<Vec<_>>>()?, value)
}

#[cfg(test)]
mod tests {
    use super::super::call::NodeOutput;
    use super::super::graph::{Attribute, Node};
    use super::super::operators;
    use super::*;

    fn scalar(float: f32) -> TensorType {
        TensorType { floats: Some(vec![float]), ..TensorType::of(vec![], DataType::FLOAT) }
    }

    fn side(value: i64) -> TensorType {
        TensorType::of(vec![], DataType::INT64).with_values(Some(vec![value]))
    }

    /// What is known of a node's output.
    fn output(operator: &str, inputs: &[TensorType], to: Option<i64>) -> TensorType {
        let attributes = to.map(|to| ("to".to_owned(), Attribute::Int(to))).into_iter().collect();
        let (name, rule) = (String::new(), operators::rule(operator).unwrap());
        let node = Node { name, operator: operator.into(), rule, inputs: vec![], outputs: vec![], attributes };
        let inputs: Vec<Option<&TensorType>> = inputs.iter().map(Some).collect();
        let call = NodeCall { node: &node, inputs: &inputs, folds: true };
        let Ok(NodeOutput { outputs, .. }) = rule(&call) else { panic!("{operator}") };
        follow(&call, outputs.into_iter().next().unwrap())
    }

    #[test]
    fn a_side_that_is_divided_in_floats_and_rounded_up_is_known() {
        let float = output("Cast", &[side(7)], Some(1));
        let half = output("Div", &[float, scalar(2.0)], None);
        assert_eq!(half.floats, Some(vec![3.5]));
        let up = output("Cast", &[output("Ceil", &[half], None)], Some(7));
        assert_eq!(up.values, Some(vec![4]));
    }

    #[test]
    fn only_powers_that_are_exact_are_known() {
        let powers =
            [(1369.0, 0.5, Some(37.0)), (1370.0, 0.5, None), (3.0, 2.0, None), (1e30, 0.5, None), (-4.0, 0.5, None)];
        for (base, exponent, expected) in powers {
            let power = output("Pow", &[scalar(base), scalar(exponent)], None);
            assert_eq!(power.floats, expected.map(|root| vec![root]), "{base} ^ {exponent}");
        }
    }

    #[test]
    fn floats_are_clipped_where_their_bounds_are_known() {
        let clipped = |inputs: &[TensorType]| output("Clip", inputs, None).floats;
        assert_eq!(clipped(&[scalar(-1.0), scalar(0.0)]), Some(vec![0.0]));
        assert_eq!(clipped(&[scalar(9.0), scalar(0.0), scalar(6.0)]), Some(vec![6.0]));
        assert_eq!(clipped(&[scalar(9.0), scalar(7.0), scalar(6.0)]), None);
        assert_eq!(clipped(&[scalar(9.0), scalar(f32::NAN)]), None);
        assert_eq!(clipped(&[scalar(9.0), TensorType::of(vec![], DataType::FLOAT)]), None);
    }

    #[test]
    fn floats_are_counted_in_steps_of_one() {
        let count = |start, end, step| output("Range", &[scalar(start), scalar(end), scalar(step)], None).shape;
        assert_eq!((count(0.5, 14.0, 1.0), count(0.0, 3.0, 1.0), count(2.0, 1.0, 1.0)), (vec![14], vec![3], vec![0]));
    }

    #[test]
    fn floats_that_are_no_numbers_of_64_bits_become_none() {
        for float in [f32::NAN, f32::INFINITY, 1e30, -1e30] {
            assert_eq!(output("Cast", &[scalar(float)], Some(7)).values, None, "{float}");
        }
        assert_eq!(output("Cast", &[scalar(-1.5)], Some(7)).values, Some(vec![-1]));
    }

    #[test]
    fn other_functions_make_floats_unknown() {
        assert_eq!(output("Exp", &[scalar(1.0)], None).floats, None);
        assert_eq!(output("Add", &[scalar(1.0), TensorType::of(vec![], DataType::FLOAT)], None).floats, None);
        let many = TensorType::of(vec![SHORT + 1], DataType::FLOAT);
        assert_eq!(output("Add", &[many, scalar(1.0)], None).floats, None);
    }
}

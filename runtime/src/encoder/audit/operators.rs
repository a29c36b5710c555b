//! The operators that a backbone may be made of: those that our exporter writes, and what feature extractors are made
//! of elsewhere. Left out are control flow, sequences and texts, random numbers, and whatever makes a large tensor out
//! of a few numbers (`ConstantOfShape`, `Expand`, `Range`, `Resize`, `Tile`). Another operator is one more entry here, of
//! an existing rule or of one more function in [`super::rules`].

use super::call::ShapeRule;
use super::rules::{elementwise, fill, index, layout, matrix, reduce, window};

/// The allowed operators of ONNX's own domain with the rules by which their shapes are inferred, sorted by name.
const ALLOWED: [(&str, ShapeRule); 76] = [
    ("Abs", elementwise::absolute),
    ("Add", elementwise::add),
    ("AveragePool", window::pool),
    ("BatchNormalization", elementwise::batch_norm),
    ("Cast", elementwise::cast),
    ("Ceil", elementwise::cheap),
    ("Clip", elementwise::cheap),
    ("Concat", layout::concat),
    ("Constant", fill::constant),
    ("Conv", window::convolution),
    ("ConvInteger", window::convolution_of_bytes),
    ("DequantizeLinear", elementwise::dequantise),
    ("Div", elementwise::divide),
    ("Dropout", elementwise::dropout),
    ("DynamicQuantizeLinear", elementwise::quantise_dynamically),
    ("Elu", elementwise::function),
    ("Equal", elementwise::equal),
    ("Erf", elementwise::function),
    ("Exp", elementwise::function),
    ("Flatten", layout::flatten),
    ("Floor", elementwise::cheap),
    ("Gather", index::gather),
    ("Gelu", elementwise::function),
    ("Gemm", matrix::product_and_sum),
    ("GlobalAveragePool", window::global_pool),
    ("GlobalMaxPool", window::global_pool),
    ("GroupNormalization", elementwise::norm),
    ("HardSigmoid", elementwise::function),
    ("HardSwish", elementwise::function),
    ("Identity", elementwise::identity),
    ("InstanceNormalization", elementwise::norm),
    ("LRN", elementwise::local_norm),
    ("LayerNormalization", elementwise::layer_norm),
    ("LeakyRelu", elementwise::cheap),
    ("Log", elementwise::function),
    ("LogSoftmax", elementwise::function),
    ("LpNormalization", elementwise::norm),
    ("MatMul", matrix::multiply),
    ("MatMulInteger", matrix::multiply_bytes),
    ("Max", elementwise::largest),
    ("MaxPool", window::pool),
    ("Min", elementwise::smallest),
    ("Mish", elementwise::function),
    ("Mul", elementwise::multiply),
    ("Neg", elementwise::negative),
    ("PRelu", elementwise::slopes),
    ("Pad", index::pad),
    ("Pow", elementwise::power),
    ("QLinearConv", window::quantised_convolution),
    ("QLinearMatMul", matrix::multiply_quantised),
    ("QuantizeLinear", elementwise::quantise),
    ("Reciprocal", elementwise::function),
    ("ReduceL2", reduce::reduce),
    ("ReduceMax", reduce::reduce),
    ("ReduceMean", reduce::reduce),
    ("ReduceSum", reduce::reduce),
    ("Relu", elementwise::cheap),
    ("Reshape", layout::reshape),
    ("Round", elementwise::cheap),
    ("Selu", elementwise::function),
    ("Shape", layout::shape),
    ("Sigmoid", elementwise::function),
    ("Sign", elementwise::cheap),
    ("Slice", index::slice),
    ("Softmax", elementwise::function),
    ("Softplus", elementwise::function),
    ("Softsign", elementwise::function),
    ("Split", layout::split),
    ("Sqrt", elementwise::function),
    ("Squeeze", layout::squeeze),
    ("Sub", elementwise::subtract),
    ("Sum", elementwise::sum),
    ("Tanh", elementwise::function),
    ("Transpose", layout::transpose),
    ("Unsqueeze", layout::unsqueeze),
    ("Where", elementwise::choose),
];

/// Further operators by which exporters compute constants, such as paddings and tables of positions, sorted.
const FOLDABLE: [(&str, ShapeRule); 23] = [
    ("And", elementwise::and),
    ("ArgMax", reduce::argument),
    ("ConstantOfShape", fill::constant_of_shape),
    ("CumSum", elementwise::function),
    ("Expand", fill::expand),
    ("EyeLike", fill::eye),
    ("GatherElements", index::gather_elements),
    ("GatherND", index::gather_rows),
    ("Greater", elementwise::greater),
    ("GreaterOrEqual", elementwise::at_least),
    ("Less", elementwise::less),
    ("LessOrEqual", elementwise::at_most),
    ("Mod", elementwise::modulo),
    ("NonZero", fill::nonzero),
    ("Not", elementwise::not),
    ("OneHot", fill::one_hot),
    ("Or", elementwise::or),
    ("Range", fill::range),
    ("ReduceMin", reduce::reduce),
    ("ReduceProd", reduce::reduce),
    ("ScatterND", index::scatter),
    ("Size", layout::size),
    ("Tile", fill::tile),
];

/// Whether an operator of a domain may be used, or makes constants and so may go once they are folded.
#[cfg(feature = "onnx")]
pub fn is_foldable(domain: &str, operator: &str) -> bool {
    is_allowed(domain, operator) || (matches!(domain, "" | "ai.onnx") && find(&FOLDABLE, operator).is_some())
}

/// Whether an operator of a domain may be used.
pub fn is_allowed(domain: &str, operator: &str) -> bool {
    matches!(domain, "" | "ai.onnx") && find(&ALLOWED, operator).is_some()
}

/// By which rule the shapes of an operator of ONNX's own domain are inferred.
pub fn rule(operator: &str) -> Option<ShapeRule> {
    find(&ALLOWED, operator).or_else(|| find(&FOLDABLE, operator))
}

fn find(operators: &[(&str, ShapeRule)], operator: &str) -> Option<ShapeRule> {
    operators.binary_search_by_key(&operator, |(name, _)| name).ok().map(|at| operators[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_without_control_flow() {
        assert!(ALLOWED.is_sorted_by_key(|(name, _)| *name));
        assert!(is_allowed("", "Conv") && is_allowed("ai.onnx", "Where"));
        assert!(!is_allowed("com.microsoft", "Conv"));
        for operator in ["If", "Loop", "Scan", "ConstantOfShape", "conv", ""] {
            assert!(!is_allowed("", operator), "{operator}");
        }
    }

    #[cfg(feature = "onnx")]
    #[test]
    fn operators_that_make_constants_may_be_folded() {
        assert!(FOLDABLE.is_sorted_by_key(|(name, _)| *name));
        assert!(!FOLDABLE.iter().any(|(operator, _)| is_allowed("", operator)));
        assert!(is_foldable("", "ConstantOfShape") && is_foldable("", "Conv"));
        for operator in ["If", "Loop", "Scan", "RandomNormal", "StringConcat", ""] {
            assert!(!is_foldable("", operator), "{operator}");
        }
        assert!(!is_foldable("com.microsoft", "Range"));
    }
}

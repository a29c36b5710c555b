//! The operators that a backbone may be made of: those that our exporter writes, and what feature extractors are made
//! of elsewhere. Left out are control flow, sequences and texts, random numbers, and whatever makes a large tensor out
//! of a few numbers (`ConstantOfShape`, `Expand`, `Range`, `Resize`, `Tile`). Another operator is one more entry here, of
//! an existing rule or of one more function in [`super::rules`].

use super::call::ShapeRule;
use super::rules::{elementwise, fill, index, layout, matrix, reduce, window};

/// The allowed operators of ONNX's own domain with their shape rules, sorted by name.
const ALLOWED: [(&str, ShapeRule); 76] = [
    ("Abs", elementwise::abs),
    ("Add", elementwise::add),
    ("AveragePool", window::pool),
    ("BatchNormalization", elementwise::batch_normalization),
    ("Cast", elementwise::cast),
    ("Ceil", elementwise::simple),
    ("Clip", elementwise::simple),
    ("Concat", layout::concat),
    ("Constant", fill::constant),
    ("Conv", window::conv),
    ("ConvInteger", window::conv_integer),
    ("DequantizeLinear", elementwise::dequantize_linear),
    ("Div", elementwise::div),
    ("Dropout", elementwise::dropout),
    ("DynamicQuantizeLinear", elementwise::dynamic_quantize_linear),
    ("Elu", elementwise::transcendental),
    ("Equal", elementwise::equal),
    ("Erf", elementwise::transcendental),
    ("Exp", elementwise::transcendental),
    ("Flatten", layout::flatten),
    ("Floor", elementwise::simple),
    ("Gather", index::gather),
    ("Gelu", elementwise::transcendental),
    ("Gemm", matrix::gemm),
    ("GlobalAveragePool", window::global_pool),
    ("GlobalMaxPool", window::global_pool),
    ("GroupNormalization", elementwise::normalization),
    ("HardSigmoid", elementwise::transcendental),
    ("HardSwish", elementwise::transcendental),
    ("Identity", elementwise::identity),
    ("InstanceNormalization", elementwise::normalization),
    ("LRN", elementwise::lrn),
    ("LayerNormalization", elementwise::layer_normalization),
    ("LeakyRelu", elementwise::simple),
    ("Log", elementwise::transcendental),
    ("LogSoftmax", elementwise::transcendental),
    ("LpNormalization", elementwise::normalization),
    ("MatMul", matrix::matmul),
    ("MatMulInteger", matrix::matmul_integer),
    ("Max", elementwise::max),
    ("MaxPool", window::pool),
    ("Min", elementwise::min),
    ("Mish", elementwise::transcendental),
    ("Mul", elementwise::mul),
    ("Neg", elementwise::neg),
    ("PRelu", elementwise::prelu),
    ("Pad", index::pad),
    ("Pow", elementwise::pow),
    ("QLinearConv", window::qlinear_conv),
    ("QLinearMatMul", matrix::qlinear_matmul),
    ("QuantizeLinear", elementwise::quantize_linear),
    ("Reciprocal", elementwise::transcendental),
    ("ReduceL2", reduce::reduce),
    ("ReduceMax", reduce::reduce),
    ("ReduceMean", reduce::reduce),
    ("ReduceSum", reduce::reduce),
    ("Relu", elementwise::simple),
    ("Reshape", layout::reshape),
    ("Round", elementwise::simple),
    ("Selu", elementwise::transcendental),
    ("Shape", layout::shape),
    ("Sigmoid", elementwise::transcendental),
    ("Sign", elementwise::simple),
    ("Slice", index::slice),
    ("Softmax", elementwise::transcendental),
    ("Softplus", elementwise::transcendental),
    ("Softsign", elementwise::transcendental),
    ("Split", layout::split),
    ("Sqrt", elementwise::transcendental),
    ("Squeeze", layout::squeeze),
    ("Sub", elementwise::sub),
    ("Sum", elementwise::sum),
    ("Tanh", elementwise::transcendental),
    ("Transpose", layout::transpose),
    ("Unsqueeze", layout::unsqueeze),
    ("Where", elementwise::select),
];

/// Further operators by which exporters compute constants, such as paddings and tables of positions, sorted.
const FOLDABLE: [(&str, ShapeRule); 23] = [
    ("And", elementwise::and),
    ("ArgMax", reduce::arg_max),
    ("ConstantOfShape", fill::constant_of_shape),
    ("CumSum", elementwise::transcendental),
    ("Expand", fill::expand),
    ("EyeLike", fill::eye_like),
    ("GatherElements", index::gather_elements),
    ("GatherND", index::gather_nd),
    ("Greater", elementwise::greater),
    ("GreaterOrEqual", elementwise::greater_or_equal),
    ("Less", elementwise::less),
    ("LessOrEqual", elementwise::less_or_equal),
    ("Mod", elementwise::modulo),
    ("NonZero", fill::nonzero),
    ("Not", elementwise::not),
    ("OneHot", fill::one_hot),
    ("Or", elementwise::or),
    ("Range", fill::range),
    ("ReduceMin", reduce::reduce),
    ("ReduceProd", reduce::reduce),
    ("ScatterND", index::scatter_nd),
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

/// The shape rule of an operator of ONNX's own domain.
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

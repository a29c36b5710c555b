//! The operators that a backbone may be made of: those that our exporter writes, and what feature extractors are made
//! of elsewhere. Left out are control flow, sequences and texts, random numbers, whatever makes a tensor of a size that
//! depends on its numbers (`NonZero`), and quantisation by scales that all pictures of a batch share
//! (`DynamicQuantizeLinear` and the products of integers behind it). Another operator is one more entry here, of an
//! existing rule or of one more function in [`super::rules`].

use super::call::ShapeRule;
use super::rules::{elementwise, fill, index, layout, matrix, reduce, window};

/// The operators of layers, of ONNX's own domain, with their shape rules, sorted by name.
const LAYERS: [(&str, ShapeRule); 79] = [
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
    ("Cos", elementwise::transcendental),
    ("DequantizeLinear", elementwise::dequantize_linear),
    ("Div", elementwise::div),
    ("Dropout", elementwise::dropout),
    ("Einsum", matrix::einsum),
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
    ("ReduceL1", reduce::reduce),
    ("ReduceL2", reduce::reduce),
    ("ReduceMax", reduce::reduce),
    ("ReduceMean", reduce::reduce),
    ("ReduceSum", reduce::reduce),
    ("ReduceSumSquare", reduce::reduce),
    ("Relu", elementwise::simple),
    ("Reshape", layout::reshape),
    ("Resize", window::resize),
    ("Round", elementwise::simple),
    ("Selu", elementwise::transcendental),
    ("Shape", layout::shape),
    ("Sigmoid", elementwise::transcendental),
    ("Sign", elementwise::simple),
    ("Sin", elementwise::transcendental),
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

/// Operators by which exporters compute shapes, masks and tables of positions, sorted. What depends on the batch stays
/// in a model; its size is inferred like any other ([`super::bounds`]), and what is constant is folded away.
const TABLES: [(&str, ShapeRule); 21] = [
    ("And", elementwise::and),
    ("ArgMax", reduce::arg_max),
    ("ConstantOfShape", fill::constant_of_shape),
    ("CumSum", elementwise::transcendental),
    ("Expand", fill::expand),
    ("GatherElements", index::gather_elements),
    ("GatherND", index::gather_nd),
    ("Greater", elementwise::greater),
    ("GreaterOrEqual", elementwise::greater_or_equal),
    ("IsNaN", elementwise::is_nan),
    ("Less", elementwise::less),
    ("LessOrEqual", elementwise::less_or_equal),
    ("Mod", elementwise::modulo),
    ("Not", elementwise::not),
    ("Or", elementwise::or),
    ("Range", fill::range),
    ("ReduceMin", reduce::reduce),
    ("ReduceProd", reduce::product),
    ("ScatterND", index::scatter_nd),
    ("Size", layout::size),
    ("Tile", fill::tile),
];

/// Further operators that may make constants and nothing else, sorted.
const FOLDABLE: [(&str, ShapeRule); 4] = [
    ("EyeLike", fill::eye_like),
    ("NonZero", fill::nonzero),
    ("OneHot", fill::one_hot),
    ("Trilu", elementwise::simple),
];

/// Whether an operator of a domain may be used, or makes constants and so may go once they are folded.
#[cfg(feature = "onnx")]
pub fn is_foldable(domain: &str, operator: &str) -> bool {
    is_allowed(domain, operator) || (is_onnx(domain) && find(&FOLDABLE, operator).is_some())
}

/// Whether an operator of a domain may be used.
pub fn is_allowed(domain: &str, operator: &str) -> bool {
    is_layer(domain, operator) || (is_onnx(domain) && find(&TABLES, operator).is_some())
}

/// Whether an operator of a domain is one of layers.
pub fn is_layer(domain: &str, operator: &str) -> bool {
    is_onnx(domain) && find(&LAYERS, operator).is_some()
}

fn is_onnx(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

/// The shape rule of an operator of ONNX's own domain.
pub fn rule(operator: &str) -> Option<ShapeRule> {
    [&LAYERS[..], &TABLES, &FOLDABLE].into_iter().find_map(|operators| find(operators, operator))
}

/// The shape rule of an operator of ONNX's own domain, in a version of that domain.
pub fn rule_in_version(version: u64, operator: &str) -> Option<ShapeRule> {
    /// From here on, `Softmax` takes one axis.
    const ONE_AXIS: u64 = 13;
    match operator {
        "LogSoftmax" | "Softmax" if version < ONE_AXIS => Some(elementwise::softmax_of_several_axes),
        _ => rule(operator),
    }
}

fn find(operators: &[(&str, ShapeRule)], operator: &str) -> Option<ShapeRule> {
    operators.binary_search_by_key(&operator, |(name, _)| name).ok().map(|at| operators[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_disjoint_and_without_control_flow() {
        assert!([&LAYERS[..], &TABLES, &FOLDABLE].iter().all(|list| list.is_sorted_by_key(|(name, _)| *name)));
        assert!(!TABLES.iter().any(|(operator, _)| is_layer("", operator)));
        assert!(!FOLDABLE.iter().any(|(operator, _)| is_allowed("", operator)));
        assert!(is_allowed("", "Conv") && is_allowed("ai.onnx", "Where") && is_allowed("", "Range"));
        assert!(!is_layer("", "Range"));
        for domain in ["com.microsoft", "ai.onnx.ml"] {
            assert!(!is_allowed(domain, "Conv") && !is_allowed(domain, "Range"));
        }
        for operator in ["If", "Loop", "Scan", "NonZero", "ConvInteger", "conv", ""] {
            assert!(!is_allowed("", operator), "{operator}");
        }
    }

    #[cfg(feature = "onnx")]
    #[test]
    fn operators_that_make_constants_may_be_folded() {
        assert!(["NonZero", "ConstantOfShape", "Conv", "Trilu"].iter().all(|operator| is_foldable("", operator)));
        assert!(!is_allowed("", "Trilu"));
        for operator in ["If", "Loop", "Scan", "RandomNormal", "StringConcat", ""] {
            assert!(!is_foldable("", operator), "{operator}");
        }
        assert!(!is_foldable("com.microsoft", "Range"));
    }
}

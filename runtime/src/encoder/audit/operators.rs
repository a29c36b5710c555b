//! The operators that a backbone may be made of: those that our exporter writes, and what feature extractors are made
//! of elsewhere. Left out are control flow, sequences and texts, random numbers, and whatever makes a large tensor out
//! of a few numbers (`ConstantOfShape`, `Expand`, `Range`, `Resize`, `Tile`).

/// Names of the allowed operators of ONNX's own domain, sorted.
const ALLOWED: [&str; 76] = [
    "Abs",
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Ceil",
    "Clip",
    "Concat",
    "Constant",
    "Conv",
    "ConvInteger",
    "DequantizeLinear",
    "Div",
    "Dropout",
    "DynamicQuantizeLinear",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Flatten",
    "Floor",
    "Gather",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "InstanceNormalization",
    "LRN",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "MatMul",
    "MatMulInteger",
    "Max",
    "MaxPool",
    "Min",
    "Mish",
    "Mul",
    "Neg",
    "PRelu",
    "Pad",
    "Pow",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
    "Reciprocal",
    "ReduceL2",
    "ReduceMax",
    "ReduceMean",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Round",
    "Selu",
    "Shape",
    "Sigmoid",
    "Sign",
    "Slice",
    "Softmax",
    "Softplus",
    "Softsign",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Sum",
    "Tanh",
    "Transpose",
    "Unsqueeze",
    "Where",
];

/// Names of further operators by which exporters compute constants, such as paddings and tables of positions, sorted.
#[cfg(feature = "onnx")]
const FOLDABLE: [&str; 23] = [
    "And",
    "ArgMax",
    "ConstantOfShape",
    "CumSum",
    "Expand",
    "EyeLike",
    "GatherElements",
    "GatherND",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Mod",
    "NonZero",
    "Not",
    "OneHot",
    "Or",
    "Range",
    "ReduceMin",
    "ReduceProd",
    "ScatterND",
    "Size",
    "Tile",
];

/// Whether an operator of a domain may be used, or makes constants and so may go once they are folded.
#[cfg(feature = "onnx")]
pub fn is_foldable(domain: &str, operator: &str) -> bool {
    is_allowed(domain, operator) || (matches!(domain, "" | "ai.onnx") && FOLDABLE.binary_search(&operator).is_ok())
}

/// Whether an operator of a domain may be used.
pub fn is_allowed(domain: &str, operator: &str) -> bool {
    matches!(domain, "" | "ai.onnx") && ALLOWED.binary_search(&operator).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_without_control_flow() {
        assert!(ALLOWED.is_sorted());
        assert!(is_allowed("", "Conv") && is_allowed("ai.onnx", "Where"));
        assert!(!is_allowed("com.microsoft", "Conv"));
        for operator in ["If", "Loop", "Scan", "ConstantOfShape", "conv", ""] {
            assert!(!is_allowed("", operator), "{operator}");
        }
    }

    #[cfg(feature = "onnx")]
    #[test]
    fn operators_that_make_constants_may_be_folded() {
        assert!(FOLDABLE.is_sorted() && !FOLDABLE.iter().any(|operator| is_allowed("", operator)));
        assert!(is_foldable("", "ConstantOfShape") && is_foldable("", "Conv"));
        for operator in ["If", "Loop", "Scan", "RandomNormal", "StringConcat", ""] {
            assert!(!is_foldable("", operator), "{operator}");
        }
        assert!(!is_foldable("com.microsoft", "Range"));
    }
}

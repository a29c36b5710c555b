//! Why a model is refused.

/// Why a model is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The bytes are no ONNX model, or damaged.
    #[error("it is no ONNX model, or damaged: its {part} cannot be read")]
    Damaged {
        /// The part that cannot be read.
        part: &'static str,
    },
    /// A part has a field that this program does not know, or in another form than it should have.
    #[error("its {part} has a field {field}, which is unknown or not of the form that it should have")]
    Field {
        /// The part.
        part: &'static str,
        /// Number of the field.
        field: u32,
    },
    /// A tensor's data lie in another file.
    #[error(
        "the data of the tensor {tensor:?} lie outside the file; export the model into a single file \
         (torch.onnx.export: external_data=False)"
    )]
    ExternalData {
        /// Name of the tensor.
        tensor: String,
    },
    /// The model has sparse tensors.
    #[error("it has sparse tensors; export it with dense ones")]
    Sparse,
    /// The operator of a node, or its domain, is not on the list.
    #[error(
        "the node {node:?} is of the operator {operator:?}, which is not on the list of allowed ones{}",
        advice(operator)
    )]
    Operator {
        /// Name of the node.
        node: String,
        /// Its operator, with its domain if it is not ONNX's own.
        operator: String,
    },
    /// A node carries a graph of its own.
    #[error(
        "the node {node:?} carries a graph of its own, as control flow does; where its condition is known beforehand, \
         export the model with dynamo=True, or write it anew with onnxslim"
    )]
    Subgraph {
        /// Name of the node.
        node: String,
    },
    /// The model brings functions or steps of training.
    #[error("it brings functions or steps of training; write functions out (onnx.inliner.inline_local_functions)")]
    Program,
    /// A tensor makes no sense or is too large.
    #[error("the tensor {tensor:?} {reason}")]
    Tensor {
        /// Name of the tensor.
        tensor: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// An attribute of a node makes no sense.
    #[error("the attribute {attribute:?} of the node {node:?} makes no sense or is too large")]
    Attribute {
        /// Name of the node.
        node: String,
        /// Name of the attribute.
        attribute: String,
    },
    /// The name of a value between nodes is missing, ambiguous or unknown.
    #[error("the value {value:?} {reason}")]
    Value {
        /// Name of the value.
        value: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A field that may come once comes twice; engines differ in which one they read.
    #[error("its {part} has the field {field} twice")]
    Twice {
        /// The part.
        part: &'static str,
        /// Number of the field.
        field: u32,
    },
    /// The output shape of a node cannot be inferred before it runs.
    #[error("cannot infer the output shape of node {node:?}, operator {operator:?}: {reason}")]
    Shape {
        /// Name of the node.
        node: String,
        /// Its operator.
        operator: String,
        /// Why not.
        reason: &'static str,
    },
    /// A node exceeds a limit of memory or of work ([`limits`](super::limits)).
    #[error("the node {node:?} of the operator {operator:?} {what} {actual}; at most {limit} are accepted")]
    Large {
        /// Name of the node.
        node: String,
        /// Its operator.
        operator: String,
        /// What it does, with the unit.
        what: &'static str,
        /// How much it comes to, at least.
        actual: u64,
        /// How much is accepted.
        limit: u64,
    },
    /// There are too many of something.
    #[error("it has more than {limit} {what}")]
    TooMany {
        /// What it is.
        what: &'static str,
        /// How many are accepted.
        limit: usize,
    },
}

/// What helps where a model has this operator, with its domain, as the end of a sentence.
fn advice(operator: &str) -> &'static str {
    /// For operators that draw random numbers, as those of dropout.
    const RANDOM: &str =
        "; it draws random numbers, as a model does in training: call model.eval() on all of it before the export";
    const KERAS_AT_RANDOM: &str = "; Keras writes it for layers that change images in training, such as RandomFlip: export \
         keras.Model(images, model(images, training=False)) of an images = keras.Input((224, 224, 3))";
    match operator {
        "ConvInteger" | "DynamicQuantizeLinear" | "MatMulInteger" => {
            "; a picture's features would depend on the others of its batch: quantise the model statically (QDQ), or not \
             at all"
        }
        "Attention" | "RMSNormalization" | "RotaryEmbedding" | "Swish" => "; export the model with opset_version=18",
        "com.microsoft.DequantizeLinear" | "com.microsoft.QuantizeLinear" => "; quantise the model to 8 bits",
        // The domain has a convolution of its own only where ONNX Runtime turned channels around.
        _ if operator.starts_with("com.microsoft.QLinear") && operator != "com.microsoft.QLinearConv" => {
            "; quantise the model in QDQ form (quant_format=QuantFormat.QDQ), or, if it has that form, take the file as it \
             was before ONNX Runtime optimised it"
        }
        _ if operator.starts_with("com.microsoft.") => "; take the file as it was before ONNX Runtime optimised it",
        // As Keras's RandomFlip and its neighbours are written; `model.eval()` is not known there.
        "ReverseSequence" => KERAS_AT_RANDOM,
        _ if operator.starts_with("StatelessRandom") => KERAS_AT_RANDOM,
        "Bernoulli" | "Multinomial" => RANDOM,
        _ if operator.starts_with("Random") => RANDOM,
        _ if operator.starts_with("ai.onnx.ml.") && operator.ends_with("Classifier") => {
            "; it classifies: end the model before it (backbone.output)"
        }
        _ if operator.starts_with("ai.onnx.ml.") => {
            "; write the model in ONNX's own operators, as skl2onnx.to_onnx(..., black_op={\"Normalizer\", \"Scaler\"}) \
             does"
        }
        "StatefulPartitionedCall" => {
            "; TensorFlow compiles this part, as Keras's convolutions in groups, and tf2onnx cannot write it: take another \
             network"
        }
        "Upsample" => "; convert the model (onnx.version_converter.convert_version(model, 13))",
        _ => {
            "; if it comes behind the features, end the model before it (backbone.output); if it computes constants, use \
             onnxslim; else take another network"
        }
    }
}

/// What the walk and the inference return.
pub type AuditResult<T = ()> = Result<T, AuditError>;

//! Makes a feature vector of what a model gives that the user brought: one of several outputs, and the mean or the first
//! of its tokens, or the mean of its feature map.

use orco_runtime::encoder::audit::{AuditError, audit_layers};
use prost::Message;

use super::fold::{GraphParts, ModelShell};
use super::source::sizes;
use crate::config::Pooling;
use crate::model::onnx_proto::{
    AttributeProto, DimensionProto, INT64, NodeProto, TensorProto, ValueInfoProto, attribute_type,
};

/// Names of what is added begin with this.
const PREFIX: &str = "orco.pool";
/// From this version of ONNX's operators on, `ReduceMean` takes its axes as an input.
const AXES_AS_INPUT: i64 = 18;

/// The model with one output, the chosen one, pooled if wished. What is no model at all, or must be refused, stays as it
/// is.
///
/// # Errors
/// A sentence if there is no such output, or it cannot be pooled in this way.
pub(super) fn choose(model: Vec<u8>, output: Option<&str>, pool: Option<Pooling>) -> Result<Vec<u8>, String> {
    // Writing it anew would leave out the parts for which it is refused.
    let is_refused = audit_layers(&model).is_err_and(|error| !matches!(error, AuditError::Operator { .. }));
    if is_refused || (output.is_none() && pool.is_none()) {
        return Ok(model);
    }
    let unreadable = |_| "its graph cannot be read".to_owned();
    let mut shell = ModelShell::decode(model.as_slice()).map_err(unreadable)?;
    let mut graph = GraphParts::decode(shell.graph.as_slice()).map_err(unreadable)?;
    let outputs = graph.output.iter().map(|value| ValueInfoProto::decode(value.as_slice()));
    let outputs: Vec<ValueInfoProto> = outputs.collect::<Result<_, _>>().map_err(unreadable)?;
    let chosen = match output {
        Some(name) => outputs.iter().find(|value| value.name == name),
        None => outputs.first().filter(|_| outputs.len() == 1),
    };
    let Some(chosen) = chosen else { return Err(format!("backbone.output must be one of {}", names(&outputs))) };
    let features = match pool {
        None => chosen.clone(),
        Some(pool) => {
            let operators = shell.opset_import.iter().filter(|set| matches!(set.domain.as_str(), "" | "ai.onnx"));
            let version = operators.map(|set| set.version).max().unwrap_or(0);
            let pooled = Pooled::of(chosen, pool, version)?;
            graph.node.extend(pooled.nodes.iter().map(Message::encode_to_vec));
            graph.initializer.extend(pooled.constants.iter().map(Message::encode_to_vec));
            pooled.output
        }
    };
    graph.output = vec![features.encode_to_vec()];
    shell.graph = graph.encode_to_vec();
    Ok(shell.encode_to_vec())
}

/// The names of values, for people.
pub(super) fn names(values: &[ValueInfoProto]) -> String {
    values.iter().map(|value| format!("{:?}", value.name)).collect::<Vec<_>>().join(", ")
}

/// What pooling adds to a graph.
struct Pooled {
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    output: ValueInfoProto,
}

impl Pooled {
    fn of(output: &ValueInfoProto, pool: Pooling, version: i64) -> Result<Self, String> {
        let rank = sizes(output).map_or(0, |sizes| sizes.len());
        let (name, pooled) = (output.name.as_str(), format!("{PREFIX}.features"));
        let integer = |name: &str, value: i64| AttributeProto {
            i: Some(value),
            r#type: attribute_type::INT,
            ..AttributeProto { name: name.into(), ..AttributeProto::default() }
        };
        let (nodes, constants) = match (rank, pool) {
            (4, Pooling::Mean) => {
                let mean = format!("{PREFIX}.map");
                let nodes = vec![
                    node("GlobalAveragePool", &[name], &mean, vec![]),
                    node("Flatten", &[&mean], &pooled, vec![integer("axis", 1)]),
                ];
                (nodes, vec![])
            }
            (3, Pooling::Mean) if version >= AXES_AS_INPUT => {
                let axes = format!("{PREFIX}.axes");
                let nodes = vec![node("ReduceMean", &[name, &axes], &pooled, vec![integer("keepdims", 0)])];
                (nodes, vec![number(&axes, &[1], 1)])
            }
            (3, Pooling::Mean) => {
                let axes = AttributeProto {
                    name: "axes".into(),
                    ints: vec![1],
                    r#type: attribute_type::INTS,
                    ..AttributeProto::default()
                };
                (vec![node("ReduceMean", &[name], &pooled, vec![axes, integer("keepdims", 0)])], vec![])
            }
            (3, Pooling::First) => {
                let first = format!("{PREFIX}.first");
                let nodes = vec![node("Gather", &[name, &first], &pooled, vec![integer("axis", 1)])];
                (nodes, vec![number(&first, &[], 0)])
            }
            _ => {
                return Err(format!(
                    "its output {name:?} cannot be pooled by backbone.pool = {:?}: \"mean\" takes tokens [batch, tokens, \
                     features] or a map [batch, features, height, width], \"first\" tokens",
                    pool.name()
                ));
            }
        };
        Ok(Self { nodes, constants, output: vector(output, &pooled, if rank == 4 { 1 } else { 2 }) })
    }
}

fn node(operator: &str, inputs: &[&str], output: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        name: format!("{output}.{operator}"),
        op_type: operator.to_owned(),
        attribute,
    }
}

/// A constant of one whole number.
fn number(name: &str, dims: &[i64], value: i64) -> TensorProto {
    let raw_data = value.to_le_bytes().to_vec();
    TensorProto { dims: dims.to_vec(), data_type: INT64, name: name.to_owned(), raw_data }
}

/// The value of a vector for each image, whose length is an axis of `of`.
fn vector(of: &ValueInfoProto, name: &str, axis: usize) -> ValueInfoProto {
    let mut value = ValueInfoProto { name: name.to_owned(), ..of.clone() };
    let shape = value.r#type.as_mut().and_then(|kind| kind.tensor_type.as_mut()).and_then(|kind| kind.shape.as_mut());
    if let Some(shape) = shape {
        let kept: Vec<DimensionProto> = [0, axis].iter().filter_map(|&axis| shape.dim.get(axis).cloned()).collect();
        shape.dim = kept;
    }
    value
}

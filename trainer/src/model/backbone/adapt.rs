//! Adapts a model that the user brought: images of any size get a fixed one, and a feature vector is made of what it gives,
//! one of several outputs, the mean or the first of its tokens, or the mean of its feature map.

use orco_runtime::encoder::audit::{AuditError, audit_layers};
use prost::{DecodeError, Message};

use super::fold::{GraphParts, ModelShell};
use super::source::sizes;
use crate::config::Pooling;
use crate::model::onnx_proto::{
    AttributeProto, DimensionProto, FLOAT, INT64, NodeProto, TensorProto, ValueInfoProto, attribute_type,
};

/// Names of what is added begin with this.
const PREFIX: &str = "orco.pool";
/// From this version of ONNX's operators on, `ReduceMean` takes its axes as an input.
const AXES_AS_INPUT: i64 = 18;

/// What a model is made to take and to give.
#[derive(Clone, Copy)]
pub(super) struct Adaptation<'a> {
    /// Sides of its images, where the model leaves them open.
    pub side: u32,
    /// Which of several outputs gives features.
    pub output: Option<&'a str>,
    /// How one vector is made of them.
    pub pool: Option<Pooling>,
}

/// The model with images of a fixed size and one output, the chosen one, pooled if wished. What is no model at all, or must
/// be refused, stays as it is.
///
/// # Errors
/// A sentence if there is no such output, or it cannot be pooled in this way.
pub(super) fn adapt(model: Vec<u8>, to: Adaptation<'_>) -> Result<Vec<u8>, String> {
    // Writing it anew would leave out the parts for which it is refused.
    if audit_layers(&model).is_err_and(|error| !matches!(error, AuditError::Operator { .. })) {
        return Ok(model);
    }
    let unreadable = |_| "its graph cannot be read".to_owned();
    let mut shell = ModelShell::decode(model.as_slice()).map_err(unreadable)?;
    let mut graph = GraphParts::decode(shell.graph.as_slice()).map_err(unreadable)?;
    let before = graph.clone();
    graph.fix_images(to.side).map_err(unreadable)?;
    if to.output.is_some() || to.pool.is_some() {
        let operators = shell.opset_import.iter().filter(|set| matches!(set.domain.as_str(), "" | "ai.onnx"));
        let version = operators.map(|set| set.version).max().unwrap_or(0);
        graph.choose_output(to, version)?;
    }
    if graph == before {
        return Ok(model);
    }
    shell.graph = graph.encode_to_vec();
    Ok(shell.encode_to_vec())
}

impl GraphParts {
    /// Gives inputs of images of any size three colours and this size.
    fn fix_images(&mut self, side: u32) -> Result<(), DecodeError> {
        for bytes in &mut self.input {
            let mut value = ValueInfoProto::decode(bytes.as_slice())?;
            let tensor = value.r#type.as_mut().and_then(|kind| kind.tensor_type.as_mut());
            let Some(shape) =
                tensor.filter(|tensor| tensor.elem_type == FLOAT).and_then(|tensor| tensor.shape.as_mut())
            else {
                continue;
            };
            let [_, sides @ ..] = &mut shape.dim[..] else { continue };
            let is_open = |dimension: &DimensionProto| dimension.dim_value.is_none_or(|size| size <= 0);
            if sides.len() != 3 || !sides.iter().any(is_open) {
                continue;
            }
            for (dimension, size) in sides.iter_mut().zip([3, side, side]).filter(|(dimension, _)| is_open(dimension)) {
                *dimension = DimensionProto { dim_value: Some(size.into()), dim_param: None };
            }
            log::info!(
                "the backbone takes images of any size; it gets {side} x {side} pixels, as data.image_size says"
            );
            *bytes = value.encode_to_vec();
        }
        Ok(())
    }

    /// Leaves one output, pooled if wished.
    fn choose_output(&mut self, to: Adaptation<'_>, version: i64) -> Result<(), String> {
        let outputs = self.output.iter().map(|value| ValueInfoProto::decode(value.as_slice()));
        let outputs = outputs.collect::<Result<Vec<_>, _>>().map_err(|_| "its outputs cannot be read".to_owned())?;
        let chosen = match to.output {
            Some(name) => outputs.iter().find(|value| value.name == name),
            None => outputs.first().filter(|_| outputs.len() == 1),
        };
        let Some(chosen) = chosen else { return Err(format!("backbone.output must be one of {}", names(&outputs))) };
        let features = match to.pool {
            None => chosen.clone(),
            Some(pool) => {
                let pooled = Pooled::of(chosen, pool, version)?;
                self.node.extend(pooled.nodes.iter().map(Message::encode_to_vec));
                self.initializer.extend(pooled.constants.iter().map(Message::encode_to_vec));
                pooled.output
            }
        };
        self.output = vec![features.encode_to_vec()];
        Ok(())
    }
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

//! Folds the constants of a model that the user brings. Exporters write paddings, shapes and tables as nodes that
//! compute them from numbers known beforehand (`ConstantOfShape`, `Range`), which costs time in every call and bars an
//! engine's own optimisations.
//!
//! ONNX Runtime folds what depends on constants alone, and infers shapes. It does not look into the shape of a tensor
//! whose batch is left open; so nodes that take fixed sides out of such a shape become constants here, and it folds on,
//! until nothing is left to fold. The batch stays open.

use std::collections::{HashMap, HashSet};

use orco_runtime::encoder::EncodeError;
use orco_runtime::encoder::audit::bounds::check_declared;
use orco_runtime::encoder::audit::{AuditError, audit, audit_layers};
use orco_runtime::encoder::onnx::fold_constants;
use prost::Message;

use crate::model::onnx_proto::{
    INT64, NodeProto, OperatorSetProto, StringEntryProto, TensorProto, ValueInfoProto, whole_numbers,
};

/// A model as the engines accept it: as it is, or with constants folded if it has operators that make some, or such whose
/// shapes cannot be inferred.
///
/// # Errors
/// [`EncodeError::Refused`] names what is refused even so.
pub(super) fn without_constant_nodes(model: Vec<u8>) -> Result<Vec<u8>, EncodeError> {
    let found = audit_layers(&model).and_then(|()| check_declared(&model).map(drop));
    // What is no model at all is found to be none by its reader.
    if !matches!(found, Err(AuditError::Operator { .. } | AuditError::Shape { .. })) {
        return Ok(model);
    }
    let damaged = |_| EncodeError::Refused(AuditError::Damaged { part: "graph" });
    let metadata = ModelShell::decode(model.as_slice()).map_err(damaged)?.metadata_props;
    let mut folded = fold_constants(&model)?;
    // Shapes behind what was folded are inferred anew when the library reads the model again.
    let mut settled = false;
    loop {
        let mut shell = ModelShell::decode(folded.as_slice()).map_err(damaged)?;
        let mut graph = GraphParts::decode(shell.graph.as_slice()).map_err(damaged)?;
        let known = graph.fix_sides().map_err(damaged)?;
        if known == 0 && settled {
            // The library names the domains of all operators that it has.
            shell.opset_import.retain(|set| matches!(set.domain.as_str(), "" | "ai.onnx"));
            graph.value_info.clear();
            (shell.graph, shell.metadata_props) = (graph.encode_to_vec(), metadata);
            let folded = shell.encode_to_vec();
            audit(&folded).map_err(EncodeError::Refused)?;
            log::info!("folded the constants of the backbone: {} nodes are left", graph.node.len());
            return Ok(folded);
        }
        settled = known == 0;
        shell.graph = graph.encode_to_vec();
        folded = fold_constants(&shell.encode_to_vec())?;
    }
}

/// `onnx.ModelProto` with its graph as it came.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelShell {
    #[prost(int64, tag = "1")]
    pub(super) ir_version: i64,
    #[prost(string, tag = "2")]
    pub(super) producer_name: String,
    #[prost(string, tag = "3")]
    pub(super) producer_version: String,
    #[prost(bytes = "vec", tag = "7")]
    pub(super) graph: Vec<u8>,
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSetProto>,
    #[prost(message, repeated, tag = "14")]
    pub(super) metadata_props: Vec<StringEntryProto>,
}

/// `onnx.GraphProto` with its parts as they came, so that none loses what [`crate::model::onnx_proto`] does not name.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphParts {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) node: Vec<Vec<u8>>,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(super) initializer: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "11")]
    pub(super) input: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "12")]
    pub(super) output: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "13")]
    pub(super) value_info: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    pub(super) quantization_annotation: Vec<Vec<u8>>,
}

/// `onnx.TensorProto`, one of whole numbers.
#[derive(Clone, PartialEq, Message)]
struct Numbers {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(int64, repeated, tag = "7")]
    int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
}

impl Numbers {
    fn values(&self) -> Vec<i64> {
        let raw = self.raw_data.chunks_exact(8).map(|eight| i64::from_le_bytes(eight.try_into().expect("eight bytes")));
        self.int64_data.iter().copied().chain(raw).collect()
    }
}

/// Sides of a tensor, `None` where one is open.
type Sides = Vec<Option<i64>>;

/// Values and dimensions of constants, by name.
type Constants = HashMap<String, (Vec<i64>, Vec<i64>)>;

impl GraphParts {
    /// Replaces the nodes that take fixed sides out of a tensor's shape by constants; how many there were.
    fn fix_sides(&mut self) -> Result<usize, prost::DecodeError> {
        let nodes = self.node.iter().map(|node| NodeProto::decode(node.as_slice())).collect::<Result<Vec<_>, _>>()?;
        let constants = self.constants()?;
        let sides = self.sides()?;
        let shapes: HashMap<&str, Sides> = nodes
            .iter()
            .filter(|node| node.op_type == "Shape")
            .filter_map(|node| Some((node.output.first()?.as_str(), shape(node, sides.get(node.input.first()?)?))))
            .collect();
        let fixed: Vec<Option<TensorProto>> = nodes.iter().map(|node| taken(node, &shapes, &constants)).collect();
        let used: HashSet<&str> = nodes
            .iter()
            .zip(&fixed)
            .filter(|(_, fixed)| fixed.is_none())
            .flat_map(|(node, _)| &node.input)
            .map(String::as_str)
            .collect();
        let outputs = self.output.iter().map(|value| ValueInfoProto::decode(value.as_slice()));
        let outputs: Vec<String> = outputs.map(|value| Ok(value?.name)).collect::<Result<_, prost::DecodeError>>()?;
        let is_read = |name: &String| used.contains(name.as_str()) || outputs.contains(name);
        let mut kept = Vec::new();
        let mut known = 0;
        for ((bytes, node), fixed) in std::mem::take(&mut self.node).into_iter().zip(&nodes).zip(fixed) {
            match fixed {
                Some(constant) => {
                    known += 1;
                    self.initializer.push(constant.encode_to_vec());
                }
                None if node.op_type == "Shape" && !node.output.iter().any(is_read) => {}
                None => kept.push(bytes),
            }
        }
        self.node = kept;
        Ok(known)
    }

    /// Short constants of whole numbers, with their dimensions, by name.
    fn constants(&self) -> Result<Constants, prost::DecodeError> {
        const SHORT: usize = 1024;
        let short = self.initializer.iter().filter(|bytes| bytes.len() <= SHORT);
        let read = short.map(|bytes| Numbers::decode(bytes.as_slice())).collect::<Result<Vec<_>, _>>()?;
        let whole = read.into_iter().filter(|tensor| tensor.data_type == INT64);
        Ok(whole.map(|tensor| (tensor.name.clone(), (tensor.values(), tensor.dims))).collect())
    }

    /// Sides of the values whose shapes are known, by name.
    fn sides(&self) -> Result<HashMap<String, Sides>, prost::DecodeError> {
        let mut sides = HashMap::new();
        for bytes in self.input.iter().chain(&self.value_info) {
            let value = ValueInfoProto::decode(bytes.as_slice())?;
            let tensor = value.r#type.and_then(|kind| kind.tensor_type);
            if let Some(shape) = tensor.and_then(|tensor| tensor.shape) {
                let side = |side: Option<i64>| side.filter(|side| *side >= 0);
                sides.insert(value.name, shape.dim.iter().map(|dimension| side(dimension.dim_value)).collect());
            }
        }
        Ok(sides)
    }
}

/// What a `Shape` node gives of a tensor with these sides.
fn shape(node: &NodeProto, sides: &Sides) -> Sides {
    let attribute = |name: &str| node.attribute.iter().find(|attribute| attribute.name == name)?.i;
    let rank = sides.len() as i64;
    let [start, end] = [attribute("start").unwrap_or(0), attribute("end").unwrap_or(rank)].map(|at| at_most(at, rank));
    sides.get(start..end).unwrap_or_default().to_vec()
}

/// An index that counts from the end if it is negative, within bounds.
fn at_most(index: i64, length: i64) -> usize {
    let index = if index < 0 { index.saturating_add(length) } else { index };
    index.clamp(0, length) as usize
}

/// The constant that a node takes out of a shape, if it takes fixed sides alone.
fn taken(node: &NodeProto, shapes: &HashMap<&str, Sides>, constants: &Constants) -> Option<TensorProto> {
    let sides = shapes.get(node.input.first()?.as_str())?;
    let constant = |input: usize| constants.get(node.input.get(input)?);
    let length = sides.len() as i64;
    let (values, dims) = match node.op_type.as_str() {
        "Gather" => {
            let (indices, dims) = constant(1)?;
            let side = |index: &i64| *sides.get(usize::try_from(index + if *index < 0 { length } else { 0 }).ok()?)?;
            (indices.iter().map(side).collect::<Option<Vec<i64>>>()?, dims.clone())
        }
        "Slice" => {
            let is_absent = |input: usize| node.input.get(input).is_none_or(String::is_empty);
            let is =
                |input: usize, value: i64| is_absent(input) || constant(input).is_some_and(|(all, _)| *all == [value]);
            let ([start], [end]) = (&constant(1)?.0[..], &constant(2)?.0[..]) else { return None };
            if !is(3, 0) || !is(4, 1) {
                return None;
            }
            let part = sides.get(at_most(*start, length)..at_most(*end, length))?;
            (part.iter().copied().collect::<Option<Vec<i64>>>()?, vec![part.len() as i64])
        }
        _ => return None,
    };
    Some(whole_numbers(node.output.first()?, dims, &values))
}

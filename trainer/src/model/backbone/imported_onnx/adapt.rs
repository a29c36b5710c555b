//! Adapts an imported model: it ends at the value that was chosen, half precision is widened, bytes become floats,
//! shared numbers of int8 are dequantised, operators that one engine lacks are decomposed, inputs that nothing reads are
//! left out, channels-last input (NHWC) becomes channels-first (NCHW), images of any size get a fixed one, padding that
//! engines put on different sides is written out, a batch of one is opened, and tokens or a feature map are pooled into
//! one vector.

use std::collections::HashSet;

use orco_runtime::encoder::audit::bounds::check_declared;
use orco_runtime::encoder::audit::{AuditError, audit_layers};
use prost::bytes::Bytes;
use prost::{DecodeError, Message};

use super::parts::{GraphParts, ModelParts, has_graphs, names_of};
use crate::config::Pooling;
use crate::model::onnx_proto::{
    DimensionProto, FLOAT, NodeProto, ShapeProto, TensorProto, TensorTypeProto, TypeProto, ValueInfoProto, int, ints,
    list_of_whole_numbers, node, whole_numbers,
};

/// Names of what pooling adds begin with this.
const PREFIX: &str = "orco.pool";
/// What the input is called once its channels come first.
const CHANNELS_FIRST: &str = "orco.images";
/// From this version of ONNX's operators on, `ReduceMean` takes its axes as an input.
const AXES_AS_INPUT: i64 = 18;

/// What a model is made to take and to give.
#[derive(Clone, Copy)]
pub struct Adaptation<'a> {
    /// Sides of its images, where the model leaves them open.
    pub side: u32,
    /// Which of its outputs, or of the values inside it, gives features.
    pub output: Option<&'a str>,
    /// How one vector is made of them.
    pub pool: Option<Pooling>,
}

/// An adapted model.
pub struct AdaptedModel {
    pub model: Vec<u8>,
    /// Whether its images are bytes, which it normalises itself.
    pub takes_bytes: bool,
    /// Whether it was exported for one image at a time.
    pub took_one: bool,
}

/// The model in f32, made of operators that both engines have, with images of a fixed size and channels first, without
/// inputs, nodes and weights that nothing reads, and with the chosen value for its only output, pooled if wished. What
/// is no model at all, or is refused for more than a node, stays as it is.
///
/// # Errors
/// A sentence if there is no such value, or it cannot be pooled in this way, or the model computes of bytes.
pub fn adapt(model: Vec<u8>, wanted: Adaptation<'_>) -> Result<AdaptedModel, String> {
    // Writing it anew would drop functions and other fields for which the audit refuses it. Operators and graphs inside
    // a node stay, unless no output needs them.
    let is_of_node = |error: &AuditError| matches!(error, AuditError::Operator { .. } | AuditError::Subgraph { .. });
    if audit_layers(&model).is_err_and(|error| !is_of_node(&error)) {
        return Ok(AdaptedModel { model, takes_bytes: false, took_one: false });
    }
    let unreadable = |_| "its graph cannot be read".to_owned();
    // The weights of the parts lie in these bytes.
    let model = Bytes::from(model);
    let mut parts = ModelParts::decode(model.clone()).map_err(unreadable)?;
    let mut graph = parts.graph.take().unwrap_or_default();
    let mut is_changed = graph.sort_nodes().map_err(unreadable)?;
    if let Some(name) = wanted.output {
        if !graph.end_at(name).map_err(unreadable)? {
            let (outputs, last) = (graph.outputs().map_err(unreadable)?, graph.last_values().map_err(unreadable)?);
            return Err(no_such_value(name, &outputs, &last));
        }
        is_changed = true;
    }
    is_changed |= graph.drop_unread().map_err(unreadable)?;
    is_changed |= graph.half_precision_to_f32().map_err(unreadable)?;
    let takes_bytes = graph.take_floats_for_bytes()?;
    is_changed |= takes_bytes;
    let is_dequantised = graph.dequantise_shared().map_err(unreadable)?;
    if graph.decompose().map_err(unreadable)? || is_dequantised {
        // Nodes that were replaced leave behind what only they read: a weight's norm its statistics, a dequantised
        // number its scale.
        graph.drop_unread().map_err(unreadable)?;
        is_changed = true;
    }
    is_changed |= graph.write_defaults().map_err(unreadable)?;
    is_changed |= graph.drop_unread_inputs().map_err(unreadable)?;
    let was_channels_last = graph.put_channels_first().map_err(unreadable)?;
    is_changed |= was_channels_last;
    is_changed |= graph.fix_images(wanted.side).map_err(unreadable)?;
    is_changed |= graph.spell_out_same_lower(&parts).map_err(unreadable)?;
    is_changed |= graph.pool_whole_maps(&parts).map_err(unreadable)?;
    let took_one = graph.open_batch(&parts).map_err(unreadable)?;
    if took_one {
        // Shapes that were replaced leave behind what they were computed from.
        graph.drop_unread().map_err(unreadable)?;
        is_changed = true;
    }
    is_changed |= graph.declare_outputs(&parts).map_err(unreadable)?;
    if let Some(pool) = wanted.pool {
        graph.pool_output(pool, parts.operators(), was_channels_last)?;
        is_changed = true;
    }
    if wanted.output.is_none()
        && let Some(before) = graph.before_classifier().map_err(unreadable)?
    {
        log::warn!(
            "the backbone seems to be a classifier, and gives a score for each of its classes; what its last layer reads \
             makes better features: set backbone.output = {before:?}"
        );
    }
    if !is_changed {
        // Bytes that nothing else holds are not copied.
        drop(graph);
        return Ok(AdaptedModel { model: model.into(), takes_bytes, took_one });
    }
    drop(model);
    parts.graph = Some(graph);
    Ok(AdaptedModel { model: parts.encode_to_vec(), takes_bytes, took_one })
}

/// Channels and sides of the images that a value declares; none where it is no batch of images of floats.
fn image_dimensions(value: &mut ValueInfoProto) -> Option<&mut [DimensionProto; 3]> {
    let tensor = value.r#type.as_mut()?.tensor_type.as_mut()?;
    let shape = (tensor.elem_type == FLOAT).then_some(tensor.shape.as_mut())??;
    shape.dim.get_mut(1..)?.try_into().ok()
}

impl GraphParts {
    /// Leaves out inputs that no node reads. tf2onnx declares some for the constants of Keras's own normalisation,
    /// though they are in the file elsewhere. Whether there was one.
    fn drop_unread_inputs(&mut self) -> Result<bool, DecodeError> {
        let nodes = self.nodes()?;
        // Control flow reads values that its node does not list; the audit refuses it later.
        if nodes.iter().any(has_graphs) {
            return Ok(false);
        }
        let (inputs, outputs) = (names_of(&self.input)?, names_of(&self.output)?);
        let read: HashSet<&String> = nodes.iter().flat_map(|node| &node.input).chain(&outputs).collect();
        let mut names = inputs.iter();
        self.input.retain(|_| names.next().is_some_and(|name| read.contains(name)));
        Ok(self.input.len() < inputs.len())
    }

    /// Where an input takes images with their channels last (NHWC), as Keras writes them, makes it take them first
    /// (NCHW), and transposes them. Whether there was one.
    fn put_channels_first(&mut self) -> Result<bool, DecodeError> {
        // Old models list their weights among the inputs.
        let weights = self.weights()?;
        for bytes in &mut self.input {
            let mut value = ValueInfoProto::decode(bytes.as_slice())?;
            let is_weight = weights.contains(&value.name);
            let Some(dimensions) = image_dimensions(&mut value).filter(|_| !is_weight) else { continue };
            if dimensions[0].dim_value == Some(3) || dimensions[2].dim_value != Some(3) {
                continue;
            }
            dimensions.rotate_right(1);
            let turned = std::mem::replace(&mut value.name, CHANNELS_FIRST.into());
            log::info!("the backbone takes images [batch, height, width, 3]; a transposition is put before it");
            *bytes = value.encode_to_vec();
            let to_last = ints("perm", vec![0, 2, 3, 1]);
            let transposition = node("Transpose", vec![CHANNELS_FIRST.into()], &turned, vec![to_last]);
            self.node.insert(0, transposition.encode_to_vec());
            return Ok(true);
        }
        Ok(false)
    }

    /// Fixes what inputs of images leave open: three channels, sides of this length. Whether there was one.
    fn fix_images(&mut self, side: u32) -> Result<bool, DecodeError> {
        let mut is_fixed = false;
        for bytes in &mut self.input {
            let mut value = ValueInfoProto::decode(bytes.as_slice())?;
            let Some(sides) = image_dimensions(&mut value) else { continue };
            let is_open = |dimension: &DimensionProto| dimension.dim_value.is_none_or(|size| size <= 0);
            if !sides.iter().any(is_open) {
                continue;
            }
            for (dimension, size) in sides.iter_mut().zip([3, side, side]).filter(|(dimension, _)| is_open(dimension)) {
                *dimension = DimensionProto { dim_value: Some(size.into()), dim_param: None };
            }
            log::info!(
                "the backbone leaves sides of its images open; these get {side} pixels, as data.image_size says"
            );
            *bytes = value.encode_to_vec();
            is_fixed = true;
        }
        Ok(is_fixed)
    }

    /// Declares outputs that are declared without a type or sides, as where somebody cut a classifier, and maps whose
    /// sides are open, as the audit infers them. Whether there was one.
    fn declare_outputs(&mut self, parts: &ModelParts) -> Result<bool, DecodeError> {
        let outputs = self.outputs()?;
        if !outputs.iter().any(is_open) {
            return Ok(false);
        }
        let model = ModelParts { graph: Some(self.clone()), ..parts.clone() };
        // What cannot be inferred is refused later.
        let Ok(inferred) = check_declared(&model.encode_to_vec()) else { return Ok(false) };
        let mut is_declared = false;
        for ((bytes, value), sides) in self.output.iter_mut().zip(outputs).zip(inferred.outputs) {
            if is_open(&value) {
                *bytes = declared(value.name, &sides).encode_to_vec();
                is_declared = true;
            }
        }
        Ok(is_declared)
    }

    /// Whether its images are as high as they are wide.
    fn takes_squares(&self) -> bool {
        let is_square = |bytes: &Vec<u8>| {
            let Ok(mut value) = ValueInfoProto::decode(bytes.as_slice()) else { return false };
            image_dimensions(&mut value).is_none_or(|[_, height, width]| height.dim_value == width.dim_value)
        };
        self.input.iter().all(is_square)
    }

    /// Its outputs, as it declares them.
    fn outputs(&self) -> Result<Vec<ValueInfoProto>, DecodeError> {
        self.output.iter().map(|value| ValueInfoProto::decode(value.as_slice())).collect()
    }

    /// Pools its output. Maps of a model whose input had its channels last have their features last, too, unless their
    /// sides tell.
    fn pool_output(&mut self, pool: Pooling, version: i64, was_channels_last: bool) -> Result<(), String> {
        let outputs = self.outputs().map_err(|_| "its outputs cannot be read".to_owned())?;
        let [output] = &outputs[..] else {
            return Err(format!("backbone.output must name one of its outputs: {}", names(&outputs)));
        };
        let sides = output.sizes().filter(|_| self.takes_squares()).unwrap_or_default();
        let is_last = has_features_last(&sides).unwrap_or(was_channels_last);
        let added = PoolingNodes::of(output, pool, version, is_last)?;
        self.append(&added.nodes, &added.constants);
        self.output = vec![added.output.encode_to_vec()];
        Ok(())
    }
}

/// Says that there is no value of that name, and which there are.
fn no_such_value(name: &str, outputs: &[ValueInfoProto], last: &[String]) -> String {
    let last = last.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    format!("it has no value {name:?} for backbone.output; its outputs are {}, its last values {last}", names(outputs))
}

/// Whether an output of floats, or of what is not said, lacks sides, or is a map of which more than the batch is open.
fn is_open(output: &ValueInfoProto) -> bool {
    const UNDEFINED: i32 = 0;
    let Some(tensor) = output.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref()) else {
        return output.r#type.is_none();
    };
    if !matches!(tensor.elem_type, FLOAT | UNDEFINED) {
        return false;
    }
    match output.sizes().as_deref() {
        Some([_, map @ ..]) => map.len() == 3 && map.contains(&None),
        _ => true,
    }
}

/// Declares floats of these sides for each image.
fn declared(name: String, sides: &[u64]) -> ValueInfoProto {
    let side = |(axis, &side): (usize, &u64)| DimensionProto {
        dim_value: i64::try_from(side).ok().filter(|_| axis > 0),
        dim_param: None,
    };
    let shape = ShapeProto { dim: sides.iter().enumerate().map(side).collect() };
    let tensor_type = TensorTypeProto { elem_type: FLOAT, shape: Some(shape) };
    ValueInfoProto { name, r#type: Some(TypeProto { tensor_type: Some(tensor_type) }) }
}

/// Whether a map of a square image has its features last, as Swin has: where two sides are equal and the third is not,
/// the two are its height and width. None where they do not tell.
fn has_features_last(sides: &[Option<i64>]) -> Option<bool> {
    match *sides {
        [_, Some(one), Some(two), Some(three)] if one != three => match (one == two, two == three) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// The names of values, for people.
pub fn names<'a>(values: impl IntoIterator<Item = &'a ValueInfoProto>) -> String {
    values.into_iter().map(|value| format!("{:?}", value.name)).collect::<Vec<_>>().join(", ")
}

/// What pooling adds to a graph, and the output that it leaves.
struct PoolingNodes {
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    output: ValueInfoProto,
}

impl PoolingNodes {
    fn of(output: &ValueInfoProto, pool: Pooling, version: i64, is_last: bool) -> Result<Self, String> {
        /// Axes of the features: of tokens, of a map.
        const OF_TOKENS: usize = 2;
        const OF_MAP: usize = 1;
        const OF_MAP_LAST: usize = 3;
        let rank = output.sizes().map_or(0, |sizes| sizes.len());
        let (from, to, constant) = (&output.name, format!("{PREFIX}.features"), format!("{PREFIX}.constant"));
        let mean_over = |axes: &[i64]| {
            if version >= AXES_AS_INPUT {
                let inputs = vec![from.clone(), constant.clone()];
                let axes = list_of_whole_numbers(&constant, axes);
                (vec![node("ReduceMean", inputs, &to, vec![int("keepdims", 0)])], vec![axes])
            } else {
                let attributes = vec![ints("axes", axes.to_vec()), int("keepdims", 0)];
                (vec![node("ReduceMean", vec![from.clone()], &to, attributes)], vec![])
            }
        };
        let (axis, (nodes, constants)) = match (rank, pool) {
            (4, Pooling::Mean) if is_last => (OF_MAP_LAST, mean_over(&[1, 2])),
            (4, Pooling::Mean) => {
                let mean = format!("{PREFIX}.mean");
                let average = node("GlobalAveragePool", vec![from.clone()], &mean, vec![]);
                (OF_MAP, (vec![average, node("Flatten", vec![mean], &to, vec![int("axis", 1)])], vec![]))
            }
            (3, Pooling::Mean) => (OF_TOKENS, mean_over(&[1])),
            (3, Pooling::First) => {
                let inputs = vec![from.clone(), constant.clone()];
                let first = node("Gather", inputs, &to, vec![int("axis", 1)]);
                (OF_TOKENS, (vec![first], vec![whole_numbers(&constant, vec![], &[0])]))
            }
            _ => {
                return Err(format!(
                    "its output {from:?} cannot be pooled by backbone.pool = {:?}: \"mean\" takes f32 tokens [batch, tokens, \
                     features] or a map [batch, features, height, width], \"first\" tokens",
                    pool.name()
                ));
            }
        };
        Ok(Self { nodes, constants, output: vector(output, &to, axis) })
    }
}

/// Declares one vector for each image: of the tensor that `of` declares, only the batch and this axis are left.
fn vector(of: &ValueInfoProto, name: &str, axis: usize) -> ValueInfoProto {
    let mut value = ValueInfoProto { name: name.to_owned(), ..of.clone() };
    let shape = value.r#type.as_mut().and_then(|kind| kind.tensor_type.as_mut()).and_then(|kind| kind.shape.as_mut());
    if let Some(shape) = shape {
        let kept: Vec<DimensionProto> = [0, axis].iter().filter_map(|&axis| shape.dim.get(axis).cloned()).collect();
        shape.dim = kept;
    }
    value
}

#[cfg(test)]
mod tests;

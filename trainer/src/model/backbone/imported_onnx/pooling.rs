//! Pools tokens or a feature map into one vector.

use prost::Message;

use super::outputs::names;
use super::parts::GraphParts;
use crate::config::Pooling;
use crate::model::onnx_proto::{
    DimensionProto, NodeProto, TensorProto, ValueInfoProto, int, ints, list_of_whole_numbers, node, whole_numbers,
};

/// Names of what pooling adds begin with this.
const PREFIX: &str = "orco.pool";
/// From this version of ONNX's operators on, `ReduceMean` takes its axes as an input.
pub const AXES_AS_INPUT: i64 = 18;

impl GraphParts {
    /// Pools its output. Maps of a model whose input had its channels last have their features last, too, unless their
    /// sides tell.
    pub(super) fn pool_output(&mut self, pool: Pooling, version: i64, was_channels_last: bool) -> Result<(), String> {
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

/// Whether a map of a square image has its features last, as Swin has: where two sides are equal and the third is not,
/// the two are its height and width. None where they do not tell.
pub fn has_features_last(sides: &[Option<i64>]) -> Option<bool> {
    match *sides {
        [_, Some(one), Some(two), Some(three)] if one != three => match (one == two, two == three) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// What pooling adds to a graph, and the output that it leaves.
pub struct PoolingNodes {
    pub nodes: Vec<NodeProto>,
    pub constants: Vec<TensorProto>,
    pub output: ValueInfoProto,
}

impl PoolingNodes {
    pub fn of(output: &ValueInfoProto, pool: Pooling, version: i64, is_last: bool) -> Result<Self, String> {
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

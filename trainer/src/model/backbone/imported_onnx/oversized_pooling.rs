//! Writes pooling by a window that is larger than its map as pooling over the whole map.

use orco_runtime::encoder::audit::bounds::check_declared;
use prost::{DecodeError, Message};

use super::parts::{GraphParts, ModelParts, is_onnx_domain};
use crate::model::onnx_proto::{NodeProto, ValueInfoProto, node};

/// Most windows that are tried; each needs the shape of its map, for which the model before it is gone through.
const MOST_WINDOWS: usize = 8;

impl GraphParts {
    /// Writes pooling whose one window covers all of its map and more as pooling over the map. rten goes through every
    /// place of such a window, and Hugging Face's EfficientNet has one as wide as it has features. Returns whether
    /// anything was changed.
    pub(super) fn pool_whole_maps(&mut self, model: &ModelParts) -> Result<bool, DecodeError> {
        let mut seen = 0;
        let mut is_changed = false;
        for at in 0..self.node.len() {
            let pooling = NodeProto::decode(self.node[at].as_slice())?;
            let Some(window) = Window::of(&pooling) else { continue };
            seen += 1;
            if seen > MOST_WINDOWS {
                break;
            }
            let (Some(map), Some(pooled)) = (pooling.input.first(), pooling.output.first()) else { continue };
            if self.map_before(model, at, map).is_some_and(|sides| window.exceeds(sides)) {
                self.node[at] = node(window.over_all, vec![map.clone()], pooled, vec![]).encode_to_vec();
                is_changed = true;
            }
        }
        Ok(is_changed)
    }

    /// Height and width of a map, from the nodes before the one that pools it.
    fn map_before(&self, model: &ModelParts, at: usize, map: &str) -> Option<[u64; 2]> {
        let output = ValueInfoProto { name: map.to_owned(), r#type: None }.encode_to_vec();
        let before = Self { node: self.node[..at].to_vec(), output: vec![output], ..Self::default() };
        let before = self.with_what_is_read(before).ok()?;
        let model = ModelParts { graph: Some(before), ..model.clone() };
        match check_declared(&model.encode_to_vec()).ok()?.outputs.first()?.as_slice() {
            [_, _, height, width] => Some([*height, *width]),
            _ => None,
        }
    }
}

/// A window of pooling that may stand out beyond its map.
#[derive(Debug, PartialEq)]
struct Window {
    sides: [u64; 2],
    strides: [u64; 2],
    /// The operator that pools over all of a map.
    over_all: &'static str,
}

impl Window {
    /// The window of a node that pools with its number of places rounded up, and pads nothing.
    fn of(node: &NodeProto) -> Option<Self> {
        let over_all = match node.op_type.as_str() {
            "AveragePool" => "GlobalAveragePool",
            "MaxPool" if node.output.len() == 1 => "GlobalMaxPool",
            _ => return None,
        };
        let pads_itself =
            node.named("auto_pad").is_some_and(|attribute| !matches!(attribute.s.as_deref(), Some(b"NOTSET")));
        let list = |name: &str| node.named(name).map(|attribute| &attribute.ints[..]);
        let sides = |name: &str, default: [u64; 2]| match list(name) {
            None => Some(default),
            Some(&[height, width]) => Some([u64::try_from(height).ok()?, u64::try_from(width).ok()?]),
            Some(_) => None,
        };
        let is_plain = list("pads").is_none_or(|pads| pads.iter().all(|&pad| pad == 0))
            && list("dilations").is_none_or(|dilations| dilations.iter().all(|&dilation| dilation == 1));
        let rounds_up = node.whole_number("ceil_mode") == Some(1);
        let (window, strides) = (sides("kernel_shape", [0; 2])?, sides("strides", [1; 2])?);
        let is_wanted = is_onnx_domain(&node.domain) && is_plain && rounds_up && !pads_itself;
        is_wanted.then_some(Self { sides: window, strides, over_all })
    }

    /// Whether it has one place on a map, covers all of it, and stands out on a side.
    fn exceeds(&self, map: [u64; 2]) -> bool {
        let fits = |axis: usize| {
            let beyond = self.sides[axis].checked_sub(map[axis]);
            beyond.is_some_and(|beyond| beyond < self.strides[axis])
        };
        fits(0) && fits(1) && self.sides != map
    }
}

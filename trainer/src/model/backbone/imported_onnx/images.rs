//! What a model takes: images of a fixed size with their channels first, and nothing beside them that no node reads.

use std::collections::HashSet;

use prost::{DecodeError, Message};

use super::parts::{GraphParts, has_graphs, names_of};
use crate::model::onnx_proto::{DimensionProto, FLOAT, ValueInfoProto, ints, node};

/// What the input is called once its channels come first.
pub const CHANNELS_FIRST: &str = "orco.images";

/// Channels and sides of the images that a value declares; none where it is no batch of images of floats.
fn image_dimensions(value: &mut ValueInfoProto) -> Option<&mut [DimensionProto; 3]> {
    let tensor = value.r#type.as_mut()?.tensor_type.as_mut()?;
    let shape = (tensor.elem_type == FLOAT).then_some(tensor.shape.as_mut())??;
    shape.dim.get_mut(1..)?.try_into().ok()
}

impl GraphParts {
    /// Leaves out inputs that are weights, as which files of before 2019 list theirs, in any order: a caller might have
    /// given others. Returns whether anything was changed.
    pub(super) fn drop_listed_weights(&mut self) -> Result<bool, DecodeError> {
        let (weights, inputs) = (self.weights()?, names_of(&self.input)?);
        let mut names = inputs.iter();
        self.input.retain(|_| names.next().is_some_and(|name| !weights.contains(name)));
        Ok(self.input.len() < inputs.len())
    }

    /// Leaves out inputs that no node reads. tf2onnx declares some for the constants of Keras's own normalisation,
    /// though they are in the file elsewhere. Returns whether anything was changed.
    pub(super) fn drop_unread_inputs(&mut self) -> Result<bool, DecodeError> {
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
    /// (NCHW), and transposes them. Returns whether anything was changed.
    pub(super) fn put_channels_first(&mut self) -> Result<bool, DecodeError> {
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

    /// Fixes what inputs of images leave open: three channels, sides of this length. Returns whether anything was
    /// changed.
    pub(super) fn fix_images(&mut self, side: u32) -> Result<bool, DecodeError> {
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

    /// Whether its images are as high as they are wide.
    pub(super) fn takes_squares(&self) -> bool {
        let is_square = |bytes: &Vec<u8>| {
            let Ok(mut value) = ValueInfoProto::decode(bytes.as_slice()) else { return false };
            image_dimensions(&mut value).is_none_or(|[_, height, width]| height.dim_value == width.dim_value)
        };
        self.input.iter().all(is_square)
    }
}

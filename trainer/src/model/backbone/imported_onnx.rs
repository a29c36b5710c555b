//! Graphs of ONNX models that the user brings: ended where features are, adapted to what this program feeds and takes,
//! widened to f32, written in operators that both engines have, and folded to what engines accept. [`super::source`]
//! opens such a model by all of it.

mod adapt;
mod decompose;
mod defaults;
mod fold;
mod half_precision;
mod order;
mod padding;
mod parts;
mod pixels;
mod quantised;
mod truncate;

pub(super) use adapt::{Adaptation, AdaptedModel, adapt, names};
pub(super) use fold::without_constant_nodes;
pub(super) use pixels::{BYTE_CHANNELS, are_byte_channels};

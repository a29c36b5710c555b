//! Graphs of ONNX models that the user brings, rewritten until both engines accept them. [`super::onnx_backbone`] opens
//! such a model by all of it. `external_data` brings weights beside a model into it. `adapt` leads a graph, taken apart
//! by `parts` (`lists` reads its constant shapes and axes), through these passes:
//!
//! | file | pass |
//! |---|---|
//! | `images` | inputs that are weights are left out |
//! | `order` | nodes in topological order |
//! | `truncate` | ends at the value that gives features; drops what it does not need |
//! | `half_precision` | f16 and bf16 become f32 |
//! | `pixels` | images of bytes (uint8) become f32 |
//! | `quantised` | int8 that several nodes read is dequantised, zero points are copied |
//! | `decompose` | operators that one engine lacks become several that both have |
//! | `defaults` | writes out attributes that rten needs; dropout becomes identity |
//! | `images` | drops inputs that nothing reads; channels first, fixed image size |
//! | `padding` | `auto_pad = SAME_LOWER`, and that of dilated windows, becomes `pads` |
//! | `oversized_pooling` | pooling by a window larger than its map becomes global |
//! | `batch` | a batch of one image becomes one of any size |
//! | `outputs` | declares outputs |
//! | `pooling` | tokens or a feature map become one vector |
//! | `fold` | constants are folded, after all of these |
//!
//! Which operators a model may then have is decided by the audit, [`orco_runtime::encoder::audit`], not here.

mod adapt;
mod batch;
mod decompose;
mod defaults;
mod external_data;
mod fold;
mod half_precision;
mod images;
mod lists;
mod order;
mod outputs;
mod oversized_pooling;
mod padding;
mod parts;
mod pixels;
mod pooling;
mod quantised;
mod truncate;

pub(super) use adapt::{Adaptation, AdaptedModel, adapt};
pub(super) use external_data::with_external_data;
pub(super) use fold::without_constant_nodes;
pub(super) use outputs::names;
pub(super) use pixels::{BYTE_CHANNELS, are_byte_channels};

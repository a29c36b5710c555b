//! Backbones: one layer description builds both the tch network and the ONNX file.

mod description;
mod head;
mod network;

pub use description::{Activation, Block, ConvNorm, Description};
pub use head::{Head, unit};
pub use network::{NORM_EPSILON, Network};

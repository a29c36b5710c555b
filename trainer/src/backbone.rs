//! Backbones: one layer description builds both the tch network and the ONNX file.

mod build;
mod description;
mod families;
mod head;
mod network;
mod source;
pub mod torchvision;

pub use build::Builder;
pub use description::{Activation, Block, ConvNorm, Description, Shortcut};
pub use head::{Head, unit};
pub use network::{NORM_EPSILON, Network};
pub use source::{FeatureSource, OnnxBackbone, OnnxBackboneError};

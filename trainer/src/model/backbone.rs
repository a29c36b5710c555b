//! Backbones: one layer description builds both the tch network and the ONNX file.
//!
//! - `families` describes each architecture as a `description`; `build` walks along one, `network` (with `norm`) makes
//!   tensors of it, [`crate::export::onnx`] an ONNX file. `head` is the projection head.
//! - `source` is where features come from. A network of others in ONNX is an `onnx_backbone`, after `imported_onnx` and
//!   `probe`.
//! - Weights to start from: [`pth`] and [`exported_onnx`] read files, `tensor_names` knows what others call a tensor.

mod build;
mod description;
pub mod exported_onnx;
mod families;
mod head;
mod imported_onnx;
mod network;
mod norm;
mod onnx_backbone;
mod probe;
pub mod pth;
mod source;
mod tensor_names;

pub use build::Builder;
pub use description::{Activation, Block, ConvNorm, Description, Shortcut};
pub use head::{ProjectionHead, linear_init, unit};
pub use network::{ForwardMode, NORM_MOMENTUM, Network};
pub(crate) use onnx_backbone::UNSOUND_METADATA;
pub use onnx_backbone::{OnnxBackbone, OnnxBackboneError};
pub(crate) use probe::cosine;
pub use source::{FeatureSource, LookingSource, parts};
pub(crate) use tensor_names::torchvision;
pub use tensor_names::{names_of, published_names};

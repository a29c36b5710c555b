//! The hand-over: a trained model becomes a bundle.

mod bundle;
mod card;
pub mod onnx;
mod proto;

pub use bundle::{Exported, check_output, write_bundle};

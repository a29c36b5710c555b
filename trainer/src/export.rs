//! The hand-over: a trained model becomes a bundle.

mod bundle;
mod card;
mod exported;
mod fidelity;
mod graph;
mod int8;
mod metadata;
pub mod onnx;
mod output;
mod preset;
mod quantise;
mod sign;
mod source;
mod statistics;
mod weights;

pub use bundle::write_bundle;
pub use exported::{ExportReport, Parity};
pub use fidelity::Fidelity;
pub use metadata::{OnnxFacts, metadata};
pub use output::BundleOutput;
pub use preset::set_preset;
pub use quantise::{Ranges, encode_int8};
pub use sign::{seal, write_key};
pub use source::BundleSource;
pub use statistics::add_statistics;

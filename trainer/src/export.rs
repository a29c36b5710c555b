//! The hand-over: a trained model becomes a bundle.
//!
//! `bundle` is the whole of it: from what a `source` gives it has features computed, writes every file into a staged
//! folder (`output`) and measures what it wrote. Files are made by [`onnx`] (with `graph`, `weights` and `metadata`),
//! `int8` and `quantise`, `statistics` and `card`. `fidelity` and `report` say how close a written backbone is to
//! the trained one. `preset`, `sign` and [`add_statistics`] change a bundle that is there.

mod bundle;
mod card;
mod fidelity;
mod graph;
mod int8;
mod metadata;
pub mod onnx;
mod output;
mod preset;
mod quantise;
mod report;
mod sign;
mod source;
mod statistics;
mod weights;

pub use bundle::write_bundle;
pub use fidelity::Fidelity;
pub use metadata::{OnnxFacts, metadata};
pub use output::BundleOutput;
pub use preset::set_preset;
pub use quantise::{Ranges, encode_int8};
pub use report::{ExportReport, Parity};
pub use sign::{seal, write_key};
pub use source::BundleSource;
pub use statistics::add_statistics;

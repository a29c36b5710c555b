//! Export: a trained model becomes a bundle.
//!
//! `bundle` does all of it: it computes `features` of the images of a `source`, writes every file into a staged folder
//! (`output`) and measures the result. Files are made by [`onnx`] (with `graph`, `weights` and `metadata`), `int8` and
//! `quantise`, `statistics` and `card`. `fidelity` and `report` say how close a written backbone is to the trained one.
//! `preset`, `sign` and [`add_statistics`] change an existing bundle.

mod bundle;
mod card;
mod features;
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

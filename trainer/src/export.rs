//! The hand-over: a trained model becomes a bundle.

mod bundle;
mod card;
mod fidelity;
mod int8;
mod metadata;
pub mod onnx;
mod place;
pub(crate) mod proto;
mod quantise;
mod sign;
mod weights;

pub(crate) use bundle::Source;
pub use bundle::{Exported, Parity, write_bundle};
pub use fidelity::Fidelity;
pub use metadata::{Facts, metadata};
pub use place::Place;
pub use quantise::Ranges;
pub use sign::{seal, write_key};

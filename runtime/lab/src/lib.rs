//! Measuring OrCo by the field's protocol; no device carries this.
//!
//! - [`benchmark`]: features to measure on, as a bundle carries them;
//! - [`statistics`]: what a workstation computes from all base images, for answers on the device;
//! - [`cifar100`], [`from_cifar100`]: features computed anew from a data set's images;
//! - [`ablation`]: sessions that differ from a device's in a choice that its settings do not leave open;
//! - [`Measurement`]: runs a benchmark's sessions through the runtime's own learner and through the rivals;
//! - [`unknown`]: how well answers know what they do not know;
//! - [`Row`], [`Summary`]: harmonic means, accuracies and their spread over draws; [`csv`] writes them.

pub mod ablation;
pub mod benchmark;
pub mod cifar100;
pub mod csv;
mod evaluate;
mod images;
mod metrics;
mod ridge;
pub mod statistics;
pub mod unknown;

pub use evaluate::{EvaluateError, Measurement, System};
pub use images::{ImagesError, from_cifar100};
pub use metrics::{Draw, Measured, Row, Summary, percent_or_dash, summarise};

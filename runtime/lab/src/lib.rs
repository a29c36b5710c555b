//! Measuring OrCo by the field's protocol; no device carries this.
//!
//! - [`benchmark`]: features to measure on, as a bundle carries them;
//! - [`statistics`]: what a workstation computes from all base images, for answers on the device;
//! - [`cifar100`], [`from_cifar100`]: features computed anew from a data set's images;
//! - [`ablation`]: sessions that differ from a device's in a choice that its settings do not leave open;
//! - [`Measurement`]: runs a benchmark's sessions through any [`System`]: the runtime's own learner, and its rivals;
//! - [`unknown`]: how well answers know what they do not know;
//! - [`published`]: what authors report;
//! - `report` (feature `report`): all of it as JSON, CSV, pictures, and a page;
//! - `tables` (feature `report`): the reports of several bundles as pages of the book;
//! - `trials` (feature `trials`): the paper's ablations of phase 3;
//! - `seeds` (feature `trials`): trainings of one recipe with several seeds;
//! - [`Row`], [`Summary`]: harmonic means, accuracies and their spread over draws; [`csv`] writes them, [`shown`] shows
//!   them on a terminal.

pub mod ablation;
pub mod benchmark;
pub mod cifar100;
pub mod csv;
mod evaluate;
mod images;
mod metrics;
pub mod published;
#[cfg(feature = "report")]
pub mod report;
#[cfg(feature = "trials")]
pub mod seeds;
pub mod shown;
pub mod statistics;
mod system;
#[cfg(feature = "report")]
pub mod tables;
#[cfg(feature = "trials")]
pub mod trials;
pub mod unknown;

pub use evaluate::{EvaluateError, Measurement, Scored};
pub use images::{ImagesError, from_cifar100};
pub use metrics::{Draw, Measured, Row, Summary, percent_or_dash, summarise};
pub use system::System;

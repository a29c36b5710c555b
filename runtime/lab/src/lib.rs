//! The laboratory: OrCo beside its rivals, by the field's protocol. No device carries it; what a device measures of itself
//! is in `orco-benchmark`, on which this builds.
//!
//! - [`Measurement`]: runs a benchmark's sessions through any [`System`]: the device's own learner, and its rivals;
//! - [`ablation`]: sessions that differ from a device's in a choice that its settings do not leave open;
//! - [`statistics`]: what a workstation computes from all base images, for answers on the device;
//! - [`unknown`]: how well answers know what they do not know;
//! - [`published`]: what authors report;
//! - `report` (feature `report`): all of it as JSON, CSV, pictures, and a page;
//! - `tables` (feature `report`): the reports of several bundles as pages of the book;
//! - `trials` (feature `trials`): the paper's ablations of phase 3;
//! - `seeds` (feature `trials`): trainings of one recipe with several seeds;
//! - [`shown`] shows summaries on a terminal.

pub mod ablation;
mod evaluate;
pub mod geometry;
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

pub use evaluate::Measurement;
pub use system::System;

//! The laboratory: OrCo beside its rivals, by the field's protocol. No device carries it; what a device measures of
//! itself is in `orco-benchmark`, on which this builds.
//!
//! - [`Measurement`]: runs a benchmark's sessions through any [`System`]: the device's own learner, and its rivals;
//! - [`method`]: what a method is called, wherever it is measured;
//! - [`ablation`]: sessions that differ from a device's in a choice that its settings do not leave open;
//! - [`question`]: what ablations vary; [`published`]: what authors report;
//! - [`statistics`]: what a workstation computes from all base images, for answers on the device;
//! - [`geometry`]: how classes lie in the projected space;
//! - [`unknown`]: how well probabilities are calibrated, and how well unknown pictures are told from known ones;
//! - [`estimates`]: how far a device's estimated accuracies and sets of labels are off;
//! - `results` (feature `ablations`): the one form of results as JSON;
//! - `phase3_ablations` (feature `ablations`): the paper's ablations of phase 3; `kept_measurements`, in files;
//! - `seeds` (feature `ablations`): trainings of one recipe with several seeds;
//! - `rival_results` (feature `ablations`): rivals that train the backbone, as the trainer's laboratory writes them;
//! - `report` (feature `report`): a bundle's results as JSON, CSV, pictures, and a page;
//! - `results_pages` (feature `report`): the reports of several bundles, and rivals, as pages of the book;
//! - `scenes` (feature `report`): how well things learned in one place are recognised in others;
//! - [`format`](mod@format) shows summaries on a terminal.

pub mod ablation;
pub mod estimates;
pub mod format;
pub mod geometry;
#[cfg(feature = "ablations")]
pub mod kept_measurements;
mod measurement;
pub mod method;
#[cfg(feature = "ablations")]
pub mod phase3_ablations;
pub mod published;
pub mod question;
#[cfg(feature = "report")]
pub mod report;
#[cfg(feature = "ablations")]
pub mod results;
#[cfg(feature = "report")]
pub mod results_pages;
#[cfg(feature = "ablations")]
pub mod rival_results;
#[cfg(feature = "report")]
pub mod scenes;
#[cfg(feature = "ablations")]
pub mod seeds;
pub mod statistics;
mod system;
pub mod unknown;

pub use measurement::Measurement;
pub use system::System;

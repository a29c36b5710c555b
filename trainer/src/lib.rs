//! The workstation side of OrCo (few-shot class-incremental learning by orthogonal pseudo-targets and contrast,
//! CVPR 2024), in the order in which a run passes through it:
//!
//! - [`config`] reads the recipe and checks it once.
//! - [`data`] downloads a data set, reads and splits its images, and draws random views of them.
//! - [`model`] is the backbone with its projection head.
//! - [`train`] holds the losses, the optimisers and the training loop. Phase 1 is [`train::pretrain`], phase 2
//!   [`train::align`].
//! - [`export`] writes the bundle.
//! - [`run`] keeps a run's folder: checkpoints, metrics, its record.
//! - [`platform`] stands between training and the machine: devices, processes that train together, signals.
//!
//! Research beside that: [`mod@tune`] chooses settings of phase 3, [`mod@compare`] trains f in the incremental
//! sessions too, [`mod@ablate`] trains changed recipes, and [`mod@rival`] trains other methods by the same recipe.
//!
//! The command line of the program is in `bin/orco-train`.

pub mod ablate;
pub mod compare;
pub mod config;
pub mod data;
pub mod export;
mod measured;
pub mod model;
pub mod platform;
pub mod rival;
pub mod run;
pub mod train;
pub mod tune;

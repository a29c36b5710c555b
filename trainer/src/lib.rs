//! The workstation side of OrCo (few-shot class-incremental learning by orthogonal pseudo-targets and contrast,
//! CVPR 2024). Modules stand in layers, each importing only from those above:
//!
//! - [`config`] reads the recipe and checks it once;
//! - [`platform`] stands between training and the machine: devices, processes that train together, signals;
//! - [`run`] keeps a run's folder: checkpoints, metrics, its record;
//! - [`data`] downloads a data set, reads and splits its images, and draws random views of them;
//! - [`model`] is the backbone with its projection head;
//! - [`train`] holds the losses, the optimisers and the training loop. Phase 1 is [`train::pretrain`], phase 2
//!   [`train::base_align`];
//! - [`export`] writes the bundle;
//! - [`job`] binds these together for a program: a recipe with its data, model and run, and the arguments that name
//!   them.
//!
//! The command line of the program is in `bin/orco-train`. Research that trains backbones - rivals, ablations,
//! comparisons - is the crate `orco-trainer-lab` beside this one.

pub mod config;
pub mod data;
pub mod export;
pub mod job;
pub mod model;
pub mod platform;
pub mod run;
pub mod train;

//! The workstation side of OrCo (few-shot class-incremental learning by orthogonal pseudo-targets and contrast,
//! CVPR 2024), in the order in which a run passes through it:
//!
//! [`mod@download`] fetches a data set - [`config`] reads the recipe, checks it once and hands its tables on -
//! [`dataset`] holds the images and the split - [`augment`] draws views - [`backbone`] is the network, [`model`] that
//! with the heads - [`objective`] is what is minimised: pseudo-targets, PSCL, CE, ORTH - [`optimiser`] steps - [`fit`]
//! is the training loop, which [`mod@pretrain`] (phase 1) and [`mod@align`] (phase 2) fill in - [`export`] writes the
//! bundle - [`mod@tune`] chooses settings of phase 3 with the runtime's own learner - [`mod@compare`] trains f too in
//! the incremental sessions, for the paper's comparison - [`mod@ablate`] trains by changed recipes, for its ablations -
//! [`mod@rival`] trains as others do, by the same recipe. [`run`] keeps a run's folder.
//!
//! [`mod@distributed`] has several processes train one model.
//!
//! Around it: [`device`] chooses where tensors live, [`doctor`] describes the machine ([`mod@system`]) and its GPUs
//! ([`gpu`]), [`failure`] puts libtorch's failures into words, [`mod@waiting`] keeps its threads from spinning beside
//! other work, [`kernels`] keeps MKL from choosing by a race, [`interrupt`] stops at Ctrl-C and SIGTERM, [`speed`]
//! compares with what the GPU could do.
//!
//! The command line of the program is in `bin/orco-train`.

pub mod ablate;
pub mod align;
#[cfg(test)]
mod alone;
pub mod augment;
pub mod backbone;
mod checksum;
pub mod compare;
pub mod config;
pub mod dataset;
pub mod device;
pub mod distributed;
pub mod doctor;
pub mod download;
pub mod export;
pub mod failure;
mod files;
pub mod fit;
pub mod gpu;
pub mod interrupt;
pub mod kernels;
mod measured;
pub mod model;
pub mod objective;
mod onnx_proto;
pub mod optimiser;
pub mod pretrain;
mod progress;
pub mod rival;
pub mod run;
pub mod speed;
pub mod system;
pub mod tune;
pub mod waiting;

//! The workstation side of OrCo (few-shot class-incremental learning by orthogonal pseudo-targets and contrast,
//! CVPR 2024), in the order in which a run passes through it:
//!
//! [`config`] reads the recipe - [`dataset`] the images and the split - [`augment`] draws views - [`backbone`] is the
//! network - [`loss`] the objectives - [`mod@pretrain`] phase 1. [`run`] keeps a run's folder.

pub mod augment;
pub mod backbone;
pub mod config;
pub mod dataset;
pub mod loss;
pub mod model;
pub mod optimiser;
pub mod pretrain;
mod progress;
pub mod run;

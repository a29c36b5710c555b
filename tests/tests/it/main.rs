//! Tests across the packages, all in one program: each program of its own would link libtorch and the trainer again.
//!
//! Beside it lie those that need a program to themselves: `corpus` and `image_bombs` count the memory that their
//! program takes, `golden_text` and `golden_trainer` tell libtorch how many threads to take.

mod backbone_matrix;
mod backbones;
mod comparison;
mod compatibility;
mod documents;
mod exported_backbones;
mod features;
mod fleet;
mod golden_runtime;
mod hostile_files;
mod imports;
mod onnx_export;
mod published_weights;
mod training;
mod views;
mod wear;

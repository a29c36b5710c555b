//! What the tests across packages share.
//!
//! The golden tests, `tests/it/golden_runtime.rs` and `tests/golden_trainer.rs`, compare our losses, gradients, target
//! generation, assignment, schedule and training with vectors that the method's authors' functions gave: [`golden`]
//! reads the file, [`golden_checks`] holds the checks that both make, [`phase3`] gives the recorded training step by
//! step, [`compare`] compares numbers.
//!
//! [`tiny`] is a training that takes seconds, for the tests of the trainer.
//!
//! [`fuzz`] is what the fuzz targets in `tests/fuzzing` do with arbitrary bytes.
//!
//! To use other vectors of the same layout, whatever their sizes:
//! `ORCO_GOLDEN=/path/to/vectors.safetensors cargo test --release -p orco-tests --test it golden_runtime::`, and with
//! `--test golden_trainer` in place of `--test it golden_runtime::`.

pub mod compare;
pub mod fuzz;
pub mod golden;
pub mod golden_checks;
pub mod phase3;
pub mod tiny;

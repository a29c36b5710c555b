//! Training: the two phases on the workstation, their losses and optimisers, and the loop over epochs.
//!
//! | the method (OrCo) | where |
//! |---|---|
//! | phase 1: SCL + SSCL, Eq. 2, cross entropy beside them | [`pretrain`]; the losses are in [`BatchLosses`] |
//! | pseudo-targets, section 3.1 | [`objective::pseudo_targets`] |
//! | phase 2: one-to-one assignment, then PSCL + CE + ORTH | [`base_align`] |
//! | PSCL, CE and ORTH over the targets by role, Eqs. 5 to 7 | [`Objective`]; each loss alone is in [`loss`] |
//!
//! Phase 3 runs on devices ([`orco_core::align`]). [`optimiser`] has SGD and LARS; [`training_loop`] runs the epochs of
//! a phase and saves checkpoints; [`seed`] gives each part of a training its random numbers.
//!
//! [`BatchLosses`]: pretrain::BatchLosses
//! [`Objective`]: objective::Objective

use anyhow::{Result, ensure};

pub mod base_align;
pub mod loss;
pub mod objective;
pub mod optimiser;
pub mod pretrain;
pub mod seed;
pub mod training_loop;

/// Refuses a batch larger than the number of base images; `setting` is the recipe's name of the batch size.
///
/// # Errors
/// If the batch is larger.
pub fn require_full_batch(setting: &str, batch: usize, images: usize) -> Result<()> {
    ensure!(images >= batch, "the {images} base images do not fill one batch of {batch}; lower {setting}");
    Ok(())
}

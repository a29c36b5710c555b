//! Training: losses, optimisers, the loop over epochs, and the two phases that run in it.
//!
//! - [`pretrain`]: phase 1; [`base_align`]: phase 2, which also assigns pseudo-targets to the base classes;
//! - [`loss`]: PSCL, CE and ORTH in libtorch; [`objective`]: their sum over the pseudo-targets, which phase 2
//!   minimises, and the pseudo-targets that a recipe asks for;
//! - [`optimiser`]: SGD and LARS; [`fit`]: the loop over epochs, with its checkpoints.

use anyhow::{Result, ensure};

pub mod base_align;
pub mod fit;
pub mod loss;
pub mod objective;
pub mod optimiser;
pub mod pretrain;

/// Refuses a batch that the base images do not fill; `setting` is the recipe's name of its size.
///
/// # Errors
/// If they do not fill it.
pub fn require_full_batch(setting: &str, batch: usize, images: usize) -> Result<()> {
    ensure!(images >= batch, "the {images} base images do not fill one batch of {batch}; lower {setting}");
    Ok(())
}

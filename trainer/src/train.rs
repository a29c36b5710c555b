//! Training: losses, optimisers, the loop over epochs, and the two phases that run in it.

pub mod base_align;
pub mod fit;
pub mod objective;
pub mod optimiser;
pub mod pretrain;

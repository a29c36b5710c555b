//! Training: losses, optimisers, the loop over epochs, and the two phases that run in it.
//!
//! - [`pretrain`]: phase 1; [`base_align`]: phase 2, which also assigns pseudo-targets to the base classes;
//! - [`objective`]: PSCL, CE and ORTH in libtorch, and the pseudo-targets that a recipe asks for;
//! - [`optimiser`]: SGD and LARS; [`fit`]: the loop over epochs, with its checkpoints.

pub mod base_align;
pub mod fit;
pub mod objective;
pub mod optimiser;
pub mod pretrain;

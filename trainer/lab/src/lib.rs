//! Research that trains backbones, beside the lab (`orco-lab`), which measures bundles and needs no libtorch.
//!
//! - [`ablation`] trains changed recipes: the paper's ablations.
//! - [`comparison`] trains f in the incremental sessions too.
//! - [`rival`] trains other methods by the same recipe.
//! - [`tuning`] chooses settings of phase 3 on held-out base classes.
//! - [`measurements`] keeps what was measured, by all that it depends on; `sessions` leads a rival through the
//!   incremental sessions and measures it.
//!
//! The command line of the program is in `bin/orco-train-lab`; what it shares with `orco-train` is
//! [`orco_trainer::job`].

pub mod ablation;
pub mod comparison;
pub mod measurements;
pub mod rival;
mod sessions;
pub mod tuning;

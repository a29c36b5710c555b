//! Research that trains backbones, beside the lab (`orco-lab`), which measures bundles and needs no libtorch. Modules
//! stand in layers, each importing only from those above:
//!
//! - [`measurements`] keeps measurements in a run, under a digest of their inputs;
//! - `sessions` takes a learner through the incremental sessions and measures it;
//! - [`comparison`] trains f in these sessions too;
//! - [`ablation`] trains changed recipes: the paper's ablations;
//! - [`rival`] trains other methods by the same recipe;
//! - [`tuning`] chooses settings of phase 3 on held-out base classes.
//!
//! The command line of the program is in `bin/orco-train-lab`; what it shares with `orco-train` is
//! [`orco_trainer::job`].

pub mod ablation;
pub mod comparison;
pub mod measurements;
pub mod rival;
mod sessions;
pub mod tuning;

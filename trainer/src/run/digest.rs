//! Digests that say whether something was made from the same inputs.

pub use orco_lab::kept_measurements::digest;
use serde_json::{Value, json};

use crate::config::Recipe;

/// What [`phase_1_inputs`] are called in a recipe.
pub(super) const PHASE_1_INPUTS: [&str; 6] = ["[data]", "[split]", "[backbone]", "[head]", "[pretrain]", "the seed"];

/// The parts of a recipe that phase 1 depends on, beside the data.
pub fn phase_1_inputs(recipe: &Recipe) -> [Value; 6] {
    let Recipe { data, split, backbone, head, pretrain, seed, .. } = recipe;
    [json!(data), json!(split), json!(backbone), json!(head), json!(pretrain), json!(seed)]
}

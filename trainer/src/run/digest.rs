//! Digests that say whether something was made from the same inputs.

use anyhow::Result;
pub use orco_lab::kept_measurements::digest;
use serde_json::{Value, json};

use super::trained_on;
use crate::config::Recipe;
use crate::data::dataset::DataSet;

/// What [`phase_1_inputs`] are called in a recipe.
pub(super) const PHASE_1_INPUTS: [&str; 6] = ["[data]", "[split]", "[backbone]", "[head]", "[pretrain]", "the seed"];

/// The parts of a recipe that phase 1 depends on, beside the data.
pub fn phase_1_inputs(recipe: &Recipe) -> [Value; 6] {
    let Recipe { data, split, backbone, head, pretrain, seed, .. } = recipe;
    [json!(data), json!(split), json!(backbone), json!(head), json!(pretrain), json!(seed)]
}

/// A digest of what sessions draw their shots from and measure on, beside the data that a run holds fast.
///
/// # Errors
/// If the pixels cannot be read.
pub fn session_digest(data: &DataSet) -> Result<String> {
    let split = &data.split;
    Ok(digest(json!([split.candidates, split.fixed_draw, split.measured, trained_on::images(&data.test)?])))
}

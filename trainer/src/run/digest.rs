//! Digests that say whether something was made from the same inputs.

use anyhow::Result;
use orco_runtime::manifest::hexadecimal;
use orco_state::codec;
use serde_json::{Value, json};

use super::trained_on;
use crate::config::Recipe;
use crate::data::dataset::DataSet;

/// A digest of all that something depends on, in hexadecimal digits: the same whatever order objects keep their keys in,
/// which with `serde_json` depends on what else a program is built of.
pub fn digest(mut depends: Value) -> String {
    depends.sort_all_objects();
    hexadecimal(&codec::digest(depends.to_string().as_bytes()))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_does_not_depend_on_the_order_of_keys() {
        let (one, other) = (json!({ "a": { "c": 1, "b": 2 }, "d": 3 }), json!({ "d": 3, "a": { "b": 2, "c": 1 } }));
        assert_eq!(digest(one), digest(other));
        assert_ne!(digest(json!({ "a": 1 })), digest(json!({ "a": 2 })));
    }
}

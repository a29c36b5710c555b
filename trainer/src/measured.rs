//! What commands measured that train several things: kept by content, and written beside what others published.

use std::fs;
use std::path::Path;

use anyhow::Result;
use orco_lab::Summary;
use orco_lab::csv::csv;
pub(crate) use orco_lab::trials::PROGRAM;
use orco_runtime::manifest::hexadecimal;
use orco_state::codec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::Recipe;
use crate::dataset::DataSet;
use crate::files::write_atomically;
use crate::run::trained_on;

/// A digest of all that something depends on, in hexadecimal digits: the same whatever order objects keep their keys in,
/// which with `serde_json` depends on what else a program is built of.
pub(crate) fn digest(mut depends: Value) -> String {
    depends.sort_all_objects();
    hexadecimal(&codec::digest(depends.to_string().as_bytes()))
}

/// The parts of a recipe that phase 1 depends on, beside the data.
pub(crate) fn of_phase_1(recipe: &Recipe) -> [Value; 6] {
    let Recipe { data, split, backbone, head, pretrain, seed, .. } = recipe;
    [json!(data), json!(split), json!(backbone), json!(head), json!(pretrain), json!(seed)]
}

/// A digest of what sessions draw their shots from and measure on, beside the data that a run holds fast.
///
/// # Errors
/// If the pixels cannot be read.
pub fn of_sessions(data: &DataSet) -> Result<String> {
    let split = &data.split;
    Ok(digest(json!([split.candidates, split.fixed_draw, split.measured, trained_on::images(&data.test)?])))
}

/// What is kept in a file.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    /// What it depends on, beside the run that it lies in.
    key: String,
    measured: T,
}

/// What a file keeps under this key; nothing where it cannot be read, which is then measured again.
pub(crate) fn read<T: DeserializeOwned>(file: &Path, key: &str) -> Option<T> {
    let kept: Kept<T> = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    (kept.key == key).then_some(kept.measured)
}

/// Keeps it.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn keep(file: &Path, key: String, measured: &impl Serialize) -> Result<()> {
    write_atomically(file, &serde_json::to_vec(&Kept { key, measured })?)
}

/// What a file keeps under this key, or what is measured now and kept in it.
///
/// # Errors
/// If it cannot be measured, or the file cannot be written.
pub(crate) fn once<T: Serialize + DeserializeOwned>(
    file: &Path,
    key: String,
    measure: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if let Some(kept) = read(file, &key) {
        return Ok(kept);
    }
    let measured = measure()?;
    keep(file, key, &measured)?;
    Ok(measured)
}

/// A system that was measured, as it stands in files.
#[derive(Serialize)]
pub(crate) struct Entry<T> {
    pub measured: Summary,
    /// What others published of it.
    pub published: Option<T>,
}

/// Writes all that was measured by a recipe as NAME.json and NAME.csv.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write<T: Serialize>(folder: &Path, name: &str, recipe: &Recipe, systems: &[Entry<T>]) -> Result<()> {
    let all = json!({ "recipe": recipe, "systems": systems });
    write_atomically(&folder.join(format!("{name}.json")), &serde_json::to_vec_pretty(&all)?)?;
    let summaries: Vec<Summary> = systems.iter().map(|entry| entry.measured.clone()).collect();
    write_atomically(&folder.join(format!("{name}.csv")), csv(&summaries).as_bytes())
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

    #[test]
    fn what_is_kept_is_not_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kept.json");
        let measured = |key: &str, value: f64| once(&file, key.into(), || Ok(value)).unwrap();
        assert!(once::<f64>(&file, "one".into(), || anyhow::bail!("stopped")).is_err() && !file.exists());
        assert_eq!([measured("one", 1.5), measured("one", 2.5), measured("other", 3.5)], [1.5, 1.5, 3.5]);
    }
}

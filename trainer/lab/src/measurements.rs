//! What commands measured that train several things: kept by content, and written beside what others published.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use orco_benchmark::Summary;
use orco_benchmark::csv::csv;
pub(crate) use orco_lab::trials::PROGRAM;
use orco_trainer::config::Recipe;
use orco_trainer::data::dataset::DataSet;
use orco_trainer::run::Run;
use orco_trainer::run::checksum::{self, Checksum};
use orco_trainer::run::files::write_atomically;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a system is trained and measured on.
#[derive(Clone, Copy)]
pub struct Experiment<'a> {
    /// How it is trained.
    pub recipe: &'a Recipe,
    /// The images.
    pub data: &'a DataSet,
    /// Takes checkpoints, metrics, and what was measured.
    pub run: &'a Run,
    /// The [`session_digest`](orco_trainer::run::digest::session_digest) of the
    /// images.
    pub sessions: &'a str,
    /// Draws of the shots that are measured.
    pub draws: usize,
}

/// What is kept in a file.
#[derive(Serialize, Deserialize)]
struct StoredMeasurement<T> {
    /// What it depends on, beside the run that it lies in.
    key: String,
    measured: T,
}

/// What a file keeps under this key; nothing where it cannot be read or is damaged, which is then measured again.
pub(crate) fn read<T: DeserializeOwned>(file: &Path, key: &str) -> Option<T> {
    let bytes = fs::read(file).ok()?;
    let kept = serde_json::from_slice::<StoredMeasurement<T>>(&bytes);
    let checksum = Checksum::of(&bytes);
    // A file of another name's key is no damage.
    match kept {
        Ok(kept) if checksum::may_be_used(file, checksum) => (kept.key == key).then_some(kept.measured),
        _ => {
            log::warn!("{} is damaged; it is measured again", file.display());
            None
        }
    }
}

/// Keeps it.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn keep(file: &Path, key: String, measured: &impl Serialize) -> Result<()> {
    write_atomically(file, &checksum::json(&StoredMeasurement { key, measured })?)
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
pub(crate) struct MeasuredSystem<T> {
    pub measured: Summary,
    /// What others published of it.
    pub published: Option<T>,
}

/// Refuses a folder in which NAME.json or NAME.csv is not what a command of this program wrote.
///
/// # Errors
/// If so.
pub fn claim(folder: &Path, name: &str) -> Result<()> {
    let [json, csv] = ["json", "csv"].map(|ending| folder.join(format!("{name}.{ending}")));
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    let is_ours = || {
        let read = fs::read(&json).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        read.is_some_and(|read| read.get("systems").is_some() && read.get("recipe").is_some())
    };
    if (is_there(&json) || is_there(&csv)) && !is_ours() {
        bail!(
            "{} holds a {name}.json or {name}.csv that this program did not write and would overwrite; move it away, or \
             choose another folder with --run",
            folder.display()
        );
    }
    Ok(())
}

/// Writes all that was measured by a recipe as NAME.json and NAME.csv.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write<T: Serialize>(
    folder: &Path,
    name: &str,
    recipe: &Recipe,
    systems: &[MeasuredSystem<T>],
) -> Result<()> {
    claim(folder, name)?;
    let all = json!({ "recipe": recipe, "systems": systems });
    write_atomically(&folder.join(format!("{name}.json")), &serde_json::to_vec_pretty(&all)?)?;
    let summaries: Vec<Summary> = systems.iter().map(|entry| entry.measured.clone()).collect();
    write_atomically(&folder.join(format!("{name}.csv")), csv(&summaries).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
        for _ in 0..2 {
            write::<()>(folder.path(), "rivals", &recipe, &[]).unwrap();
        }
        for name in ["targets.json", "losses.csv"] {
            fs::write(folder.path().join(name), "{}").unwrap();
            let refused = write::<()>(folder.path(), name.split_once('.').unwrap().0, &recipe, &[]);
            assert!(refused.unwrap_err().to_string().contains("this program did not write"));
            assert_eq!(fs::read(folder.path().join(name)).unwrap(), b"{}");
        }
    }

    #[test]
    fn what_is_damaged_is_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kept.json");
        once(&file, "one".into(), || Ok(1.5)).unwrap();
        let bytes = fs::read(&file).unwrap();
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, damaged).unwrap();
            assert!(read::<f64>(&file, "one").is_none_or(|kept| kept == 1.5), "bit {bit}");
        }
        fs::write(&file, String::from_utf8(bytes).unwrap().replace("1.5", "2.5")).unwrap();
        assert_eq!(once(&file, "one".into(), || Ok(1.5)).unwrap(), 1.5);
        assert_eq!(read::<f64>(&file, "one"), Some(1.5));
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

//! Measurements of commands that train several models: kept in a run, and written as results.

use std::path::Path;

use anyhow::{Context, Result};
use orco_lab::kept_measurements;
use orco_lab::results::{self, Results};
use orco_lab::rival_results::RivalRun;
use orco_trainer::config::Recipe;
use orco_trainer::data::dataset::DataSet;
use orco_trainer::run::Run;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a system is trained and measured on.
#[derive(Clone, Copy)]
pub struct Experiment<'a> {
    /// How it is trained.
    pub recipe: &'a Recipe,
    /// The images.
    pub data: &'a DataSet,
    /// Takes checkpoints, metrics, and what was measured.
    pub run: &'a Run,
    /// The [`session_digest`](orco_trainer::data::digest::session_digest) of the images.
    pub sessions: &'a str,
    /// Draws of the shots that are measured.
    pub draws: usize,
}

/// Reads what a file keeps under this [fingerprint](kept_measurements::fingerprint), else measures and keeps it.
///
/// # Errors
/// If it cannot be measured, or the file cannot be written.
pub(crate) fn read_or_measure<T: Serialize + DeserializeOwned>(
    file: &Path,
    fingerprint: &str,
    measure: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if let Some(kept) = kept_measurements::read(file, fingerprint) {
        return Ok(kept);
    }
    let measured = measure()?;
    keep(file, fingerprint, &measured)?;
    Ok(measured)
}

/// Keeps what was measured.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn keep(file: &Path, fingerprint: &str, measured: &impl Serialize) -> Result<()> {
    kept_measurements::keep(file, fingerprint, measured).with_context(|| format!("cannot write {}", file.display()))
}

/// What was measured by a recipe, as it stands in files.
#[derive(Serialize)]
struct RecipeResults<'a> {
    #[serde(flatten)]
    results: &'a Results,
    recipe: &'a Recipe,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a RivalRun>,
}

/// What results were measured with, as their files tell it.
#[derive(Clone, Copy)]
pub struct ResultsContext<'a> {
    /// The recipe of the training.
    pub recipe: &'a Recipe,
    /// Seed that drew the test images from all, where the data do not set them apart.
    pub test_seed: Option<u64>,
    /// Draws of the shots.
    pub draws: usize,
}

impl ResultsContext<'_> {
    /// Results without any system yet.
    pub(crate) fn empty_results(&self) -> Results {
        Results::new(&self.recipe.name, self.recipe.measured_on(self.test_seed), self.draws)
    }
}

/// Writes what was measured by a recipe as NAME.json, of rivals with their `run`, and `csv` as NAME.csv.
///
/// # Errors
/// If a file cannot be written, or is none of ours.
pub(crate) fn write(
    folder: &Path,
    name: &str,
    recipe: &Recipe,
    run: Option<&RivalRun>,
    results: &Results,
    csv: &str,
) -> Result<()> {
    results::claim(folder, name)?;
    results::write(folder, name, &RecipeResults { results, recipe, run }, csv)
        .with_context(|| format!("cannot write {name}.json or {name}.csv in {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn results_stand_beside_their_recipe_and_are_read_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
        let results = ResultsContext { recipe: &recipe, test_seed: None, draws: 2 }.empty_results();
        for _ in 0..2 {
            write(folder.path(), "rivals", &recipe, None, &results, "").unwrap();
        }
        let bytes = fs::read(folder.path().join("rivals.json")).unwrap();
        assert_eq!(serde_json::from_slice::<Results>(&bytes).unwrap(), results);
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&json["subject"], &json["recipe"]["name"]), (&"synthetic-tiny".into(), &"synthetic-tiny".into()));
        assert!(json.get("run").is_none(), "{json}");
    }

    #[test]
    fn results_on_test_images_that_other_seeds_drew_are_told_apart() {
        let recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
        let [one, other, all] = [Some(1), Some(2), None]
            .map(|test_seed| ResultsContext { recipe: &recipe, test_seed, draws: 2 }.empty_results());
        assert!(one != other && one != all, "{one:?}");
        assert_eq!(one.source, "synthetic objects test images, drawn with seed 1");
    }

    #[test]
    fn what_is_kept_is_not_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kept.json");
        let measured = |key: &str, value: f64| read_or_measure(&file, key, || Ok(value)).unwrap();
        assert!(read_or_measure::<f64>(&file, "one", || anyhow::bail!("stopped")).is_err() && !file.exists());
        assert_eq!([measured("one", 1.5), measured("one", 2.5), measured("other", 3.5)], [1.5, 1.5, 3.5]);
        let bytes = fs::read_to_string(&file).unwrap();
        fs::write(&file, bytes.replace("3.5", "4.5")).unwrap();
        assert_eq!(measured("other", 5.5), 5.5, "a damaged file is measured again");
    }
}

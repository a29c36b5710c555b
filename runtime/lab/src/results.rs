//! The one form of results as JSON. `orco-lab eval`, `report`, `seeds` and `ablate` write it, and so do the trainer's
//! rivals, comparisons and ablations: a reader of one reads all. A file may hold more beside it, such as the recipe or
//! what the pictures of a report show. What `orco-lab scenes` writes has a form of its own, in `scenes/results.rs`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use orco_benchmark::benchmark::SEED;
use orco_benchmark::{Metric, Summary};
use orco_runtime::files::replace_shared;
use orco_runtime::manifest::{MANIFEST, hexadecimal};
use orco_state::codec;
use serde::{Deserialize, Serialize};

use crate::estimates::EstimateRow;
use crate::published::PublishedNumber;
use crate::seeds::{SeedStatistic, SeedSummary};
use crate::unknown::UnknownRow;

/// What was measured of several systems in the same way.
///
/// ```
/// let json = r#"{"subject": "cifar100-edge", "source": "CIFAR-100 test images", "draws": 3, "seed": 1, "systems": []}"#;
/// let results: orco_lab::results::Results = serde_json::from_str(json)?;
/// assert_eq!((results.subject.as_str(), results.draws), ("cifar100-edge", 3));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// What was measured: the name of a bundle, or of a recipe.
    pub subject: String,
    /// What it was measured on, in words.
    pub source: String,
    /// Version and commit of this library, by which the program measured; none in files of earlier ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// SHA-256 of the `manifest.toml` of each bundle that was measured, in hexadecimal digits. It holds those of the
    /// bundle's other files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
    /// Draws of the shots.
    pub draws: usize,
    /// Their seed.
    pub seed: u64,
    /// Seeds of the trainings that were measured; none where there was one training, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub training_seeds: Vec<u64>,
    /// Every system, in the order in which they stand in tables.
    pub systems: Vec<MeasuredSystem>,
    /// How well a device knows what it does not know, and whether its estimates come true; none where that was not
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<UnknownResults>,
}

/// How well a device knows what it does not know, and whether its estimates come true: means over the draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnknownResults {
    /// Share of known pictures that may be taken for unknown ones, 0..1.
    pub false_alarms: f32,
    /// Calibration, and how well unknown pictures are told from known ones, after each session.
    pub sessions: Vec<UnknownRow>,
    /// Whether estimated accuracies and sets of labels come true, after each session.
    pub estimate_errors: Vec<EstimateRow>,
}

/// A system's numbers, beside what others report of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredSystem {
    /// Means over all draws, and over all trainings where there are several; deviations are those over the draws.
    #[serde(flatten)]
    pub summary: Summary,
    /// Seconds of learning all sessions of a draw, where times were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// What was measured of each training, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trainings: Option<Trainings>,
    /// What its authors, or others, report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedNumber>,
}

/// What was measured of several trainings by one recipe with different seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trainings {
    /// The means of [`MeasuredSystem::summary`]. Deviations are those of the trainings' means, each over its draws.
    pub over_seeds: Summary,
    /// Each training, in the order of [`Results::training_seeds`].
    pub each: Vec<Summary>,
}

impl Results {
    /// Of nothing yet, with the seed of draws that programs take by default.
    pub fn new(subject: impl Into<String>, source: impl Into<String>, draws: usize) -> Self {
        Self {
            subject: subject.into(),
            source: source.into(),
            program: Some(program()),
            manifests: Vec::new(),
            draws,
            seed: SEED,
            training_seeds: Vec::new(),
            systems: Vec::new(),
            unknown: None,
        }
    }

    /// With the digests of the manifests in these folders of bundles.
    ///
    /// # Errors
    /// If a manifest cannot be read.
    pub fn with_manifests_of(mut self, folders: &[impl AsRef<Path>]) -> io::Result<Self> {
        let digest = |folder: &Path| Ok(hexadecimal(&codec::digest(&fs::read(folder.join(MANIFEST))?)));
        self.manifests = folders.iter().map(|folder| digest(folder.as_ref())).collect::<io::Result<_>>()?;
        Ok(self)
    }

    /// The numbers of a system.
    pub fn summary(&self, system: &str) -> Option<&Summary> {
        self.summaries().find(|summary| summary.name == system)
    }

    /// The numbers of all systems.
    pub fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.systems.iter().map(|system| &system.summary)
    }
}

/// Version and commit of this library.
fn program() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match (option_env!("ORCO_COMMIT"), option_env!("ORCO_CHANGED_FILES")) {
        (Some(commit), Some("0")) => format!("{version}, commit {commit}"),
        (Some(commit), Some(changed)) => format!("{version}, commit {commit}, files changed since: {changed}"),
        _ => version.to_owned(),
    }
}

impl From<Summary> for MeasuredSystem {
    fn from(summary: Summary) -> Self {
        Self { summary, seconds: None, trainings: None, published: Vec::new() }
    }
}

impl MeasuredSystem {
    /// With what is published of it beside it.
    pub fn beside(self, published: impl IntoIterator<Item = PublishedNumber>) -> Self {
        Self { published: published.into_iter().collect(), ..self }
    }

    /// Of several trainings, each with its own numbers.
    pub fn of_trainings(over: &SeedSummary, each: Vec<Summary>) -> Self {
        let trainings = Some(Trainings { over_seeds: over.over_seeds.clone(), each });
        Self { trainings, ..over.over_draws.clone().into() }
    }

    /// A number over all sessions as a table shows it, with its deviation over draws, and over seeds where there are
    /// several trainings; `-` where it was not measured.
    pub fn cell(&self, metric: Metric) -> String {
        let Some(Trainings { over_seeds, .. }) = &self.trainings else { return self.summary.cell(metric) };
        let total = SeedStatistic::total(&self.summary, over_seeds, metric);
        total.map_or_else(|| "-".to_owned(), |total| total.to_string())
    }
}

/// Whether a file's bytes are results, with or without more beside them.
pub fn are_results(json: &[u8]) -> bool {
    serde_json::from_slice::<Results>(json).is_ok()
}

/// A folder holds something else than results under their names.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} holds a {name}.json or {name}.csv that this program did not write and would overwrite; move it away, or choose \
     another folder", folder.display()
)]
pub struct ClaimError {
    folder: PathBuf,
    name: String,
}

/// Makes sure that NAME.json and NAME.csv can be [written](write()) into a folder without a loss: that they are not
/// there, or hold results.
///
/// # Errors
/// [`ClaimError`] if not.
pub fn claim(folder: &Path, name: &str) -> Result<(), ClaimError> {
    let [json, csv] = ["json", "csv"].map(|ending| folder.join(format!("{name}.{ending}")));
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    let holds_results = || fs::read(&json).is_ok_and(|bytes| are_results(&bytes));
    if (is_there(&json) || is_there(&csv)) && !holds_results() {
        return Err(ClaimError { folder: folder.to_owned(), name: name.to_owned() });
    }
    Ok(())
}

/// Writes results, with what `value` holds beside them, as NAME.json, and a table of the same as NAME.csv.
///
/// # Errors
/// If a file cannot be written.
pub fn write(folder: &Path, name: &str, value: &impl Serialize, csv: &str) -> io::Result<()> {
    let mut json = serde_json::to_vec_pretty(value)?;
    json.push(b'\n');
    replace_shared(&folder.join(format!("{name}.json")), &json)?;
    replace_shared(&folder.join(format!("{name}.csv")), csv.as_bytes())
}

#[cfg(test)]
mod tests {
    use orco_benchmark::{AccuracyEstimateError, Draw, SessionAccuracy, summarise};

    use super::*;
    use crate::published::PaperTable;

    #[test]
    fn results_are_read_as_they_were_written_whatever_stands_beside_them() {
        let row = |session, inc| SessionAccuracy { session, base: 0.1 + 0.2, inc, hm: inc, top1: 60.25, area: None };
        let rows = vec![row(0, None), row(1, Some(50.0))];
        let summary = summarise("ours", &[Draw { operations: 1e9, seconds: 0.5, ..Draw::of_rows(rows) }]);
        let number = PublishedNumber { table: PaperTable::MiniImagenet, metric: Metric::Ahm, value: 58.12 };
        let over = SeedSummary::of(&[summary.clone(), summary.clone()]);
        let mut results = Results::new("bundle", "CIFAR-100 test images", 1);
        let timed = MeasuredSystem { seconds: Some(0.5), ..summary.clone().into() };
        let trained = MeasuredSystem::of_trainings(&over, vec![summary.clone(); 2]).beside([number]);
        results.systems = vec![timed, trained];
        results.training_seeds = vec![1, 2];
        assert!(
            serde_json::to_value(&results).unwrap().get("unknown").is_none(),
            "what was not measured is not written"
        );
        let unknown = UnknownRow { session: 8, ece: Some(3.25), auroc: None, false_alarms: 5.0, passed: Some(42.25) };
        let (sessions, estimate_errors) = (vec![unknown], vec![EstimateRow::example()]);
        results.unknown = Some(UnknownResults { false_alarms: 0.05, sessions, estimate_errors });
        let mut json = serde_json::to_value(&results).unwrap();
        assert_eq!(json["systems"][0]["name"], "ours");
        assert_eq!(
            json["systems"][1]["published"],
            serde_json::json!([{ "table": "mini-ImageNet", "metric": "aHM", "value": 58.12 }])
        );
        json["recipe"] = serde_json::json!({ "seed": 7 });
        let read: Results = serde_json::from_value(json).unwrap();
        // Seconds of a summary are not stored.
        let stored = |mut results: Results| {
            for system in &mut results.systems {
                system.summary.seconds = 0.0;
                for each in system.trainings.iter_mut().flat_map(|of| of.each.iter_mut().chain([&mut of.over_seeds])) {
                    each.seconds = 0.0;
                }
            }
            results
        };
        assert_eq!(read, stored(results));
    }

    #[test]
    fn one_draw_is_stored_without_deviations_and_old_files_are_read() {
        let row = |session, inc| SessionAccuracy { session, base: 80.0, inc, hm: inc, top1: 60.25, area: inc };
        let estimate_errors = vec![AccuracyEstimateError { base: 1.0, learned: 2.0, overall: 1.5 }];
        let draw =
            |inc| Draw { estimate_errors: estimate_errors.clone(), ..Draw::of_rows(vec![row(0, None), row(1, inc)]) };
        let one = summarise("ours", &[draw(Some(50.0))]);
        let json = serde_json::to_value(&one).unwrap();
        let deviations: Vec<_> =
            json.as_object().unwrap().iter().filter(|(name, _)| name.contains("deviation")).collect();
        assert!(deviations.len() == 7 && deviations.iter().all(|(_, value)| value.is_null()), "{deviations:?}");
        assert_eq!(
            (&json["estimate_errors"]["deviation"], &json["last_hm"]),
            (&serde_json::Value::Null, &serde_json::json!(50.0))
        );
        assert_eq!(serde_json::from_value::<Summary>(json.clone()).unwrap(), one);
        // As older programs wrote it.
        let mut old = json;
        for (name, value) in old.as_object_mut().unwrap().iter_mut().filter(|(name, _)| name.ends_with("_deviation")) {
            assert!(value.is_null(), "{name}");
            *value = serde_json::json!(0.0);
        }
        old["deviations"] = serde_json::to_value(&one.deviations).unwrap();
        old["estimate_errors"]["deviation"] = serde_json::json!({ "base": 0.0, "learned": 0.0, "overall": 0.0 });
        assert_eq!(serde_json::from_value::<Summary>(old).unwrap(), one);
        // Of two draws nothing is left out.
        let two = summarise("ours", &[draw(Some(50.0)), draw(Some(54.0))]);
        let json = serde_json::to_value(&two).unwrap();
        assert_eq!(json["ahm_deviation"].as_f64(), Some(8f64.sqrt()));
        assert!(json["deviations"][1]["hm"].is_f64() && json["estimate_errors"]["deviation"]["base"].is_f64());
        assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), two);
    }

    #[test]
    fn what_is_no_result_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            claim(folder.path(), "losses").unwrap();
            write(folder.path(), "losses", &Results::new("recipe", "images", 1), "").unwrap();
        }
        for file in ["targets.json", "rivals.csv", "losses.json"] {
            fs::write(folder.path().join(file), "{}").unwrap();
            let refused = claim(folder.path(), file.split_once('.').unwrap().0).unwrap_err().to_string();
            assert!(refused.contains("this program did not write"), "{refused}");
        }
    }
}

//! A run's folder: the recipe it belongs to, its checkpoints, its metrics.

pub(crate) mod checkpoint;
pub mod checksum;
pub mod digest;
mod events;
pub mod files;
mod folder;
mod lock;
mod metrics;
pub mod progress;
mod record;
mod trained_on;

pub use record::{Git, Hardware, RunRecord};
pub use trained_on::TrainedOn;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, bail};
use orco_runtime::manifest::MANIFEST;

use self::checksum::Checksum;
use self::digest::{PHASE_1_INPUTS, phase_1_inputs};
use crate::config::Recipe;
use crate::platform::distributed::RankGroup;
use crate::run::files::write_atomically;
use events::EventFile;
use lock::RunLock;

/// Name of the copy of the recipe that a run goes by.
pub(crate) const RECIPE: &str = "recipe.toml";
/// What it says of its checksum.
const RECIPE_WORDS: &str =
    "- orco-train checks this copy; for other settings, change the recipe that the run began with";
/// Name of the file that says how a run was begun.
pub(crate) const RECORD: &str = "run.json";
/// Name of the file of metrics.
const METRICS: &str = "metrics.jsonl";
/// Name of the checkpoint of phase 1.
pub const PRETRAIN_CHECKPOINT: &str = "pretrain.safetensors";
/// Name of the checkpoint of a finished phase 2.
pub const ALIGN_CHECKPOINT: &str = "align.safetensors";

/// Reads the recipe in a run's folder.
///
/// # Errors
/// If it is not what the program wrote, or cannot be read.
pub fn read_recipe(folder: &Path) -> Result<Recipe> {
    let path = folder.join(RECIPE);
    let shown = path.display();
    let bytes = fs::read(&path).with_context(|| format!("cannot read {shown}"))?;
    let whole = checksum::may_be_used(&path, Checksum::of(&bytes));
    let Some(text) = str::from_utf8(&bytes).ok().filter(|_| whole) else {
        bail!(
            "{shown} is not as orco-train wrote it: it is damaged, or was changed; put back what was there (for other \
             settings, change the recipe that the run began with), or remove its first line if it is right as it is"
        );
    };
    Ok(Recipe::parse(text, &path)?)
}

/// The recipe, whose files are found from whichever folder the run is continued in.
fn with_absolute_paths(recipe: &Recipe) -> Result<Recipe> {
    let mut recipe = recipe.clone();
    for file in [&mut recipe.backbone.weights, &mut recipe.backbone.onnx].into_iter().flatten() {
        *file = std::path::absolute(&*file).with_context(|| format!("the path {}", file.display()))?;
    }
    Ok(recipe)
}

/// The inputs of phase 1 in which two recipes differ, by [`PHASE_1_INPUTS`]. Weights and an imported backbone may have
/// moved: [`TrainedOn`] compares their content.
fn differing_inputs(there: &Recipe, here: &Recipe) -> Vec<&'static str> {
    let without_paths = |recipe: &Recipe| {
        let mut recipe = recipe.clone();
        recipe.backbone.weights = recipe.backbone.weights.map(|_| PathBuf::new());
        recipe.backbone.onnx = recipe.backbone.onnx.map(|_| PathBuf::new());
        phase_1_inputs(&recipe)
    };
    let pairs = without_paths(there).into_iter().zip(without_paths(here));
    let differing = PHASE_1_INPUTS.into_iter().zip(pairs).filter(|(_, (there, here))| there != here);
    differing.map(|(name, _)| name).collect()
}

/// The folder that one run writes into. Of several ranks the first one alone does; the others know what it reads.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
    /// TensorBoard's file of this process, begun with the first numbers.
    events: Mutex<Option<EventFile>>,
    /// What computes, in words, once the run's record is written.
    machine: OnceLock<String>,
    /// Who trains this run.
    group: RankGroup,
    /// Keeps other processes out; the first rank has it.
    _lock: Option<RunLock>,
}

impl Run {
    /// Creates the folder, or opens it to continue.
    ///
    /// # Errors
    /// If the folder cannot be made, belongs to another recipe, or another process works in it.
    pub fn open(folder: &Path, recipe: &Recipe) -> Result<Self> {
        Self::open_with(folder, recipe, None, RankGroup::alone())
    }

    /// Refuses ranks that have different recipes or data.
    ///
    /// # Errors
    /// If they have, or one of them has ended.
    pub fn compare_ranks(recipe: &Recipe, trained_on: &TrainedOn, group: &RankGroup) -> Result<()> {
        group.require_same("a recipe", &toml::to_string(recipe).context("recipe")?)?;
        let (data, files) = trained_on.data_and_files();
        group.require_same("images, labels or a split", &serde_json::to_string(&data).context("data")?)?;
        group.require_same(
            "a file of backbone.weights or backbone.onnx",
            &serde_json::to_string(&files).context("files")?,
        )?;
        Ok(())
    }

    /// Creates the folder, or opens it to continue with the same data. Of several ranks, which
    /// [are alike](Self::compare_ranks), the first does so, and the others wait for it.
    ///
    /// # Errors
    /// If the folder cannot be made, belongs to another recipe or other data, or another process works in it. An
    /// existing run is unchanged then.
    pub fn open_on(folder: &Path, recipe: &Recipe, trained_on: &TrainedOn, group: &RankGroup) -> Result<Self> {
        let run = if group.is_first() {
            Self::open_with(folder, recipe, Some(trained_on), group.clone())?
        } else {
            let (events, machine) = (Mutex::default(), OnceLock::new());
            Self { folder: folder.into(), events, machine, group: group.clone(), _lock: None }
        };
        group.barrier()?;
        Ok(run)
    }

    fn open_with(folder: &Path, recipe: &Recipe, trained_on: Option<&TrainedOn>, group: RankGroup) -> Result<Self> {
        if folder.join(MANIFEST).exists() {
            bail!("{} holds a bundle; name another folder with --run", folder.display());
        }
        fs::create_dir_all(folder).with_context(|| format!("cannot create the run folder {}", folder.display()))?;
        folder::claim(folder)?;
        let lock = RunLock::take(folder)?;
        let path = folder.join(RECIPE);
        let text = toml::to_string(&with_absolute_paths(recipe)?).context("recipe")?;
        if path.exists() {
            // Settings of phases 2 and 3 may change over a trained backbone; those of phase 1 may not.
            let differing = differing_inputs(&read_recipe(folder)?, recipe);
            if !differing.is_empty() {
                bail!(
                    "{} holds a run of another recipe, which differs in {}; choose another folder with --run",
                    folder.display(),
                    differing.join(", ")
                );
            }
        }
        if let Some(trained_on) = trained_on {
            trained_on.check(folder)?;
            trained_on.write(folder)?;
        }
        write_atomically(&path, &checksum::toml(&text, RECIPE_WORDS))?;
        let (events, machine) = (Mutex::default(), OnceLock::new());
        Ok(Self { folder: folder.into(), events, machine, group, _lock: Some(lock) })
    }

    /// The ranks that train this run.
    pub fn group(&self) -> &RankGroup {
        &self.group
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of a file of the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes `run.json`: what makes this run, and how it continues.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record(&self, record: &RunRecord) -> Result<()> {
        if !self.group.is_first() {
            return Ok(());
        }
        let text = checksum::json(record).context(RECORD)?;
        self.machine.get_or_init(|| record.machine());
        write_atomically(&self.path(RECORD), &text)
    }

    /// Appends one line to `metrics.jsonl`, and its numbers to TensorBoard's event file: the tags are the line's
    /// `phase` and the names of its numbers, the step is its `epoch`. A line that gives `seconds` gets the `machine`.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn log(&self, metrics: &serde_json::Value) -> Result<()> {
        if !self.group.is_first() {
            return Ok(());
        }
        let mut line = metrics.clone();
        if let (Some(fields), Some(machine)) = (line.as_object_mut(), self.machine.get())
            && fields.contains_key("seconds")
        {
            fields.insert("machine".into(), machine.as_str().into());
        }
        metrics::append(&self.path(METRICS), &line)?;
        self.append_events(metrics)
            .with_context(|| format!("cannot write TensorBoard's events in {}", self.folder.display()))
    }

    /// Appends a line's numbers to TensorBoard's event file, which the first one begins.
    fn append_events(&self, metrics: &serde_json::Value) -> std::io::Result<()> {
        let phase = metrics["phase"].as_str().unwrap_or("run");
        let fields = metrics.as_object().into_iter().flatten().filter(|(name, _)| *name != "epoch");
        let numbers = fields.filter_map(|(name, value)| Some((format!("{phase}/{name}"), value.as_f64()?))).collect();
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let events = match &mut *events {
            Some(events) => events,
            none => none.insert(EventFile::create(&self.folder)?),
        };
        events.scalars(metrics["epoch"].as_i64().unwrap_or(0), numbers)
    }

    /// The lines of `metrics.jsonl` that belong to a phase; lines cut off by a kill are passed over.
    pub fn metrics(&self, phase: &str) -> Vec<serde_json::Value> {
        metrics::read(&self.path(METRICS), phase)
    }

    /// Drops a phase's lines of epochs after `epoch`, which no checkpoint has: they are logged before the checkpoint is
    /// saved, so that a kill in between loses none, and come again when the run continues.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn rewind(&self, phase: &str, epoch: usize) -> Result<()> {
        if self.group.is_first() { metrics::rewind(&self.path(METRICS), phase, epoch) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_and_a_refusal_changes_nothing() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("run");
        let mut recipe: Recipe = toml::from_str(include_str!("../recipes/synthetic-tiny.toml")).unwrap();
        let first = Run::open(&folder, &recipe).unwrap();
        let second = Run::open(&folder, &recipe).unwrap_err().to_string();
        assert!(second.contains("another orco-train works on this run"), "{second}");
        drop(first);
        let before = fs::read(folder.join("recipe.toml")).unwrap();
        recipe.seed += 1;
        let other = Run::open(&folder, &recipe).unwrap_err().to_string();
        assert!(other.contains("holds a run of another recipe, which differs in the seed; choose"), "{other}");
        recipe.split.ways += 1;
        let other = Run::open(&folder, &recipe).unwrap_err().to_string();
        assert!(other.contains("which differs in [split], the seed; choose"), "{other}");
        assert_eq!(fs::read(folder.join("recipe.toml")).unwrap(), before);
        let bundle = root.path().join("bundle");
        fs::create_dir(&bundle).unwrap();
        fs::write(bundle.join("manifest.toml"), "").unwrap();
        assert!(Run::open(&bundle, &recipe).unwrap_err().to_string().contains("holds a bundle"));
        assert_eq!(fs::read_dir(&bundle).unwrap().count(), 1);
    }

    #[test]
    fn weights_and_an_imported_backbone_may_be_moved() {
        for onnx in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let at = |path: Option<&str>| {
                let mut recipe: Recipe = toml::from_str(include_str!("../recipes/synthetic-tiny.toml")).unwrap();
                let named = if onnx { &mut recipe.backbone.onnx } else { &mut recipe.backbone.weights };
                *named = path.map(PathBuf::from);
                Run::open(root.path(), &recipe).map(drop)
            };
            at(Some("here")).unwrap();
            at(Some("there")).unwrap();
            // The run may be continued from any folder.
            let kept = read_recipe(root.path()).unwrap().backbone;
            let kept = if onnx { kept.onnx } else { kept.weights };
            assert_eq!(kept, Some(std::env::current_dir().unwrap().join("there")));
            assert!(at(None).unwrap_err().to_string().contains("holds a run of another recipe"));
        }
    }

    #[test]
    fn measured_times_name_the_machine() {
        let root = tempfile::tempdir().unwrap();
        let recipe: Recipe = toml::from_str(include_str!("../recipes/synthetic-tiny.toml")).unwrap();
        let run = Run::open(root.path(), &recipe).unwrap();
        let record = RunRecord::new(1, tch::Device::Cpu, serde_json::Value::Null);
        run.record(&record).unwrap();
        run.log(&serde_json::json!({"phase": "pretrain", "epoch": 1, "seconds": 2.0})).unwrap();
        run.log(&serde_json::json!({"phase": "data", "left_out": ["a"]})).unwrap();
        assert_eq!(run.metrics("pretrain")[0]["machine"], record.machine());
        assert!(run.metrics("data")[0].get("machine").is_none());
    }
}

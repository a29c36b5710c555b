//! A run's folder: the recipe it belongs to, its checkpoints, its metrics.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tch::Tensor;

use crate::config::Recipe;

/// The folder that one run writes into.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
}

impl Run {
    /// Creates the folder, or opens it to continue.
    ///
    /// # Errors
    /// If the folder cannot be made, or belongs to another recipe.
    pub fn open(folder: &Path, recipe: &Recipe) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create the run folder {}", folder.display()))?;
        let path = folder.join("recipe.toml");
        let text = toml::to_string(recipe).context("recipe")?;
        if path.exists() {
            let there = Recipe::read(&path)?;
            // Phases 2 and 3 may be set anew over a trained backbone; what phase 1 was trained with may not.
            let same = (&there.data, &there.split, &there.backbone, &there.head, &there.pretrain, there.seed)
                == (&recipe.data, &recipe.split, &recipe.backbone, &recipe.head, &recipe.pretrain, recipe.seed);
            if !same {
                bail!(
                    "{} holds a run of another recipe; choose another folder with --run, or remove this one",
                    folder.display()
                );
            }
        }
        write_atomically(&path, text.as_bytes())?;
        Ok(Self { folder: folder.into() })
    }

    /// Path of a file of the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Appends one line to `metrics.jsonl`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn log(&self, metrics: &serde_json::Value) -> Result<()> {
        let path = self.path("metrics.jsonl");
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        writeln!(file, "{metrics}").with_context(|| format!("cannot write {}", path.display()))
    }

    /// The lines of `metrics.jsonl` that belong to a phase; lines cut off by a kill are passed over.
    pub fn metrics(&self, phase: &str) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.path("metrics.jsonl")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.filter(|line| line["phase"] == phase).collect()
    }

    /// Writes a checkpoint: into a temporary file, synced, then renamed over the old one.
    ///
    /// # Errors
    /// If the file cannot be written; the old checkpoint is then still there.
    pub fn save(&self, name: &str, tensors: &[(String, Tensor)]) -> Result<()> {
        let path = self.path(name);
        let temporary = path.with_extension("tmp");
        Tensor::write_safetensors(tensors, &temporary)
            .with_context(|| format!("cannot write the checkpoint {}", temporary.display()))?;
        File::open(&temporary)?.sync_all()?;
        fs::rename(&temporary, &path).with_context(|| format!("cannot write {}", path.display()))?;
        File::open(&self.folder)?.sync_all()?;
        Ok(())
    }

    /// Reads a checkpoint, if there is one.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn load(&self, name: &str) -> Result<Option<HashMap<String, Tensor>>> {
        let path = self.path(name);
        if !path.exists() {
            return Ok(None);
        }
        let tensors = Tensor::read_safetensors(&path).with_context(|| {
            format!("the checkpoint {} is damaged; remove it to start this phase again", path.display())
        })?;
        Ok(Some(tensors.into_iter().collect()))
    }
}

/// Replaces a file by new bytes so that a crash leaves the old or the new ones.
///
/// # Errors
/// If the file cannot be written.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    written.with_context(|| format!("cannot write {}", path.display()))
}

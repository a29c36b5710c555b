//! A run's folder: the recipe it belongs to, its checkpoints, its metrics.

mod events;
mod record;

pub use record::{Git, Hardware, Record};

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use tch::{Kind, Tensor};

use crate::config::Recipe;
use events::Events;

/// The folder that one run writes into.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
    /// TensorBoard's file of this process, begun with the first numbers.
    events: Mutex<Option<Events>>,
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
        Ok(Self { folder: folder.into(), events: Mutex::new(None) })
    }

    /// Path of a file of the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes `run.json`: what makes this run, and how it continues.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record(&self, record: &Record) -> Result<()> {
        let text = serde_json::to_string_pretty(record).context("run.json")?;
        write_atomically(&self.path("run.json"), text.as_bytes())
    }

    /// Appends one line to `metrics.jsonl`, and its numbers to TensorBoard's event file: the tags are the line's
    /// `phase` and the names of its numbers, the step is its `epoch`.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn log(&self, metrics: &serde_json::Value) -> Result<()> {
        let path = self.path("metrics.jsonl");
        let line = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            file.write_all(format!("{metrics}\n").as_bytes())
        };
        line().with_context(|| format!("cannot write {}", path.display()))?;
        let phase = metrics["phase"].as_str().unwrap_or("run");
        let fields = metrics.as_object().into_iter().flatten().filter(|(name, _)| *name != "epoch");
        let numbers = fields.filter_map(|(name, value)| Some((format!("{phase}/{name}"), value.as_f64()?))).collect();
        let board = || -> std::io::Result<()> {
            let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            let events = match &mut *events {
                Some(events) => events,
                none => none.insert(Events::create(&self.folder)?),
            };
            events.scalars(metrics["epoch"].as_i64().unwrap_or(0), numbers)
        };
        board().with_context(|| format!("cannot write TensorBoard's events in {}", self.folder.display()))
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
        let bytes = checkpoint(tensors).with_context(|| format!("checkpoint {}", path.display()))?;
        write_atomically(&path, &bytes).context("cannot save the checkpoint; the one before it is kept")
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

/// Tensors as the bytes of a safetensors file.
fn checkpoint(tensors: &[(String, Tensor)]) -> Result<Vec<u8>> {
    let plain = |(name, tensor): &(String, Tensor)| -> Result<(String, Dtype, Vec<usize>, Vec<u8>)> {
        let kind = match tensor.kind() {
            Kind::Float => Dtype::F32,
            Kind::Double => Dtype::F64,
            Kind::Int64 => Dtype::I64,
            Kind::Uint8 => Dtype::U8,
            other => bail!("{name} is of kind {other:?}, which no checkpoint holds"),
        };
        let tensor = tensor.detach().to_device(tch::Device::Cpu).contiguous();
        let mut bytes = vec![0; tensor.numel() * tensor.kind().elt_size_in_bytes()];
        tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
        Ok((name.clone(), kind, tensor.size().iter().map(|&size| size as usize).collect(), bytes))
    };
    let plain = tensors.iter().map(plain).collect::<Result<Vec<_>>>()?;
    let views =
        plain.iter().map(|(name, kind, shape, bytes)| Ok((name, TensorView::new(*kind, shape.clone(), bytes)?)));
    Ok(safetensors::serialize(views.collect::<Result<Vec<_>>>()?, None)?)
}

/// Replaces a file by new bytes so that a crash leaves the old or the new ones.
///
/// # Errors
/// If the file cannot be written; the old one is then still there.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
            _ => Ok(()),
        }
    })();
    if written.is_err() {
        // A half-written file would only take the room that is short.
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

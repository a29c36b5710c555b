//! How a run remembers the command that began it, and continues by it.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::TrainingArguments;
use crate::run::RECIPE;

/// Fields of a command that are paths.
const PATHS: [&str; 7] = ["recipe", "data", "run", "lists", "output", "backbone", "sign"];

/// A command as `run.json` keeps it: with absolute paths, so that it can be resumed from any folder.
///
/// # Errors
/// If a path is not valid Unicode.
pub fn encode(command: &impl Serialize) -> Result<Value> {
    let mut value = serde_json::to_value(command).context("the paths of the command must be valid Unicode")?;
    make_absolute(&mut value)?;
    Ok(value)
}

fn make_absolute(value: &mut Value) -> Result<()> {
    for (name, field) in value.as_object_mut().into_iter().flatten() {
        match field.as_str() {
            Some(path) if PATHS.contains(&name.as_str()) => *field = serde_json::to_value(std::path::absolute(path)?)?,
            _ => make_absolute(field)?,
        }
    }
    Ok(())
}

/// The command that the run in a folder was begun with, by the `request` of its record.
///
/// # Errors
/// If it is no command of this program.
pub fn decode<C: DeserializeOwned>(request: Value, folder: &Path) -> Result<C> {
    serde_json::from_value(request).with_context(|| {
        format!(
            "{} does not say how to resume; start the run again with its first command",
            folder.join("run.json").display()
        )
    })
}

impl TrainingArguments {
    /// Names the run in a folder, which may have been carried anywhere since it was begun, and the recipe in it.
    pub fn continue_in(&mut self, folder: &Path) {
        self.images.recipe = folder.join(RECIPE);
        self.run = folder.into();
    }
}

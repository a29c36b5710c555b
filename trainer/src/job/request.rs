//! How a run remembers the command that began it, and continues by it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::run::RECORD;

/// A command as `run.json` keeps it. Its paths are [absolute](absolute_path), so that it can be resumed from any
/// folder.
///
/// # Errors
/// If a path is empty or not valid Unicode.
pub fn encode(command: &impl Serialize) -> Result<Value> {
    serde_json::to_value(command).context("the paths of the command cannot be kept")
}

/// Serialises a path of a command that can be resumed.
///
/// # Errors
/// If it is empty or not valid Unicode.
pub fn absolute_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    std::path::absolute(path).map_err(S::Error::custom)?.serialize(serializer)
}

/// As [`absolute_path`], of a path that may be left out.
///
/// # Errors
/// As for [`absolute_path`].
pub fn optional_absolute_path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => absolute_path(path, serializer),
        None => serializer.serialize_none(),
    }
}

/// The command that the run in a folder was begun with, by the `request` of its record.
///
/// # Errors
/// If it is no command of this program.
pub fn decode<C: DeserializeOwned>(request: Value, folder: &Path) -> Result<C> {
    serde_json::from_value(request).with_context(|| {
        format!(
            "{} does not say how to resume; start the run again with its first command",
            folder.join(RECORD).display()
        )
    })
}

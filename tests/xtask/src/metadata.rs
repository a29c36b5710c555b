//! What Cargo says of the workspace, and where it keeps things.

use std::error::Error;
use std::path::PathBuf;

use serde_json::Value;

use crate::environment::{cargo, path_from_variable, workspace};
use crate::process::output;

/// The members of the workspace and where they are built, as `cargo metadata` says it.
#[derive(Debug)]
pub struct Metadata(Value);

impl Metadata {
    /// # Errors
    /// If Cargo does not say.
    pub fn read() -> Result<Self, Box<dyn Error>> {
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1", "--locked", "--no-deps"]).current_dir(workspace());
        Ok(Self(serde_json::from_str(&output(&mut command)?)?))
    }

    /// The packages of the workspace.
    pub fn packages(&self) -> impl Iterator<Item = &Value> {
        self.0["packages"].as_array().into_iter().flatten()
    }

    /// Where the workspace is built.
    ///
    /// # Errors
    /// If Cargo does not say.
    pub fn target_folder(&self) -> Result<PathBuf, Box<dyn Error>> {
        Ok(self.0["target_directory"].as_str().ok_or("cargo metadata names no target folder")?.into())
    }
}

/// Where the workspace is built, for those who ask nothing else.
///
/// # Errors
/// If Cargo does not say.
pub fn target_folder() -> Result<PathBuf, Box<dyn Error>> {
    Metadata::read()?.target_folder()
}

/// Where Cargo keeps programs, and sources of crates.
///
/// # Errors
/// If there is no home folder.
pub fn cargo_home() -> Result<PathBuf, Box<dyn Error>> {
    let home = path_from_variable("CARGO_HOME").or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    Ok(home.ok_or("neither CARGO_HOME nor HOME is set")?)
}

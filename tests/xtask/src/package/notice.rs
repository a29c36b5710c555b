//! Licences of the crates that are in the program, by cargo-about.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::environment::workspace;
use crate::process::output;
use crate::tool::CARGO_ABOUT;

/// Writes the licences of all crates that are in the program for a target, each text once, under the crates that it
/// goes for.
///
/// # Errors
/// If cargo-about cannot be had, or finds a licence that its settings do not accept.
pub fn write(triple: &str, file: &Path) -> Result<(), Box<dyn Error>> {
    let folder = workspace().join("runtime/app/deploy/notice");
    let mut command = Command::new(CARGO_ABOUT.locate()?);
    // What the crates hold is enough, and the same every time.
    command.args(["generate", "--frozen", "--fail", "--manifest-path"]);
    command.arg(workspace().join("runtime/app/Cargo.toml")).args(["--target", triple]);
    command.arg("--config").arg(folder.join("about.toml"));
    let text = output(command.arg(folder.join("notice.hbs")).current_dir(workspace()))?;
    // A crate is named once for each of its files with the same text.
    let mut lines: Vec<&str> = text.lines().collect();
    lines.dedup_by(|line, before| line == before && line.starts_with("- "));
    Ok(fs::write(file, lines.join("\n") + "\n")?)
}

//! The program that a package holds, and how whatever is released is compiled: stripped, and without the paths of the
//! checkout, Cargo's home and the target folder.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::build_date::{self, BuildDate};
use crate::cross::Cross;
use crate::environment::{cargo, workspace};
use crate::metadata::cargo_home;
use crate::process::{must_run, output};

/// What the checkout's folder is called in whatever is released.
pub const CHECKOUT: &str = "/orco";
/// What a shell may have set for other builds.
const FOREIGN: [&str; 4] = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER"];

/// Builds the package `orco`.
///
/// # Errors
/// If Cargo fails.
pub fn build(
    cross: Option<&Cross>,
    triple: Option<&str>,
    profile: &str,
    target: &Path,
    date: &BuildDate,
) -> Result<(), Box<dyn Error>> {
    let mut command = match cross {
        Some(cross) => cross.command(&[], &["cargo"]),
        None => cargo(),
    };
    command.args(["build", "--locked", "--package", "orco", "--profile", profile]);
    command.args(triple.iter().flat_map(|triple| ["--target", triple]));
    let host = host()?;
    compile_alike(&mut command, triple.unwrap_or(&host), profile, target, date)?;
    must_run(command.current_dir(workspace()))
}

/// Has Cargo, or a program that hands `--config` on to it, compile for a target as on every other machine.
///
/// # Errors
/// If Cargo's home is unknown.
pub fn compile_alike(
    command: &mut Command,
    triple: &str,
    profile: &str,
    target: &Path,
    date: &BuildDate,
) -> Result<(), Box<dyn Error>> {
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    command.env(build_date::VARIABLE, date.seconds().to_string());
    let flags = mapped_paths(target)?;
    // Cargo appends these to flags of the same target in the environment, such as those of the linker.
    command.args(["--config", &format!("target.{triple}.rustflags = {flags}")]);
    command.args(["--config", &format!("profile.{profile}.strip = \"symbols\"")]);
    Ok(())
}

/// Flags for the compiler, as TOML: folders of this machine get names that are the same everywhere. The last that fits
/// counts, so folders that may lie in others come later.
fn mapped_paths(target: &Path) -> Result<Value, Box<dyn Error>> {
    let home = cargo_home()?;
    let folders = [(workspace(), CHECKOUT), (target, "/orco/target"), (home.as_path(), "/cargo")];
    let flags = folders.map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()));
    Ok(Value::from(flags.to_vec()))
}

/// The triple of this machine.
pub fn host() -> Result<String, Box<dyn Error>> {
    let said = output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc -vV names no host")?.to_owned())
}

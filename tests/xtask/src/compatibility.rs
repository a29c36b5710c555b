//! Whether the crates still serve those who depend on them: programs written for the last release, and the oldest Rust
//! that `Cargo.toml` states.

use std::error::Error;
use std::process::{Command, ExitCode};

use crate::environment::{cargo, workspace};
use crate::process::{must_run, output};
use crate::release::LIBRARIES;
use crate::tool::CARGO_SEMVER_CHECKS;

/// Version that `rust-version` states.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Compares the public API of the libraries with that of a commit or tag; without one, with that of the last release,
/// where there is one.
///
/// # Errors
/// If cargo-semver-checks finds that the version should have been raised further, or cannot run.
pub fn api(baseline: Option<String>) -> Result<ExitCode, Box<dyn Error>> {
    let Some(baseline) = baseline.or_else(last_release) else {
        println!("no tag v* marks a release yet: name a commit with --baseline");
        return Ok(ExitCode::SUCCESS);
    };
    let mut command = Command::new(CARGO_SEMVER_CHECKS.locate()?);
    command.args(["semver-checks", "--baseline-rev", &baseline]).env_remove("RUSTC_WORKSPACE_WRAPPER");
    command.args(LIBRARIES.iter().flat_map(|name| ["--package", name]));
    must_run(command.current_dir(workspace()))?;
    Ok(ExitCode::SUCCESS)
}

/// The newest tag of a release that this commit builds on.
fn last_release() -> Option<String> {
    let tag =
        output(Command::new("git").args("describe --tags --match v* --abbrev=0".split(' ')).current_dir(workspace()));
    tag.ok().map(|tag| tag.trim().to_owned())
}

/// Compiles the crates that are published, with the oldest Rust that they state.
///
/// # Errors
/// If they do not compile, or rustup has no such toolchain.
pub fn oldest_rust() -> Result<ExitCode, Box<dyn Error>> {
    let version = output(Command::new("rustc").arg("--version"))?;
    let is_oldest = version.split_whitespace().nth(1).is_some_and(|version| version.starts_with(&format!("{OLDEST}.")));
    let mut command = if is_oldest { cargo() } else { Command::new("rustup") };
    if !is_oldest {
        command.args(["run", OLDEST, "cargo"]);
    }
    command.args(["check", "--locked", "--release", "--package", "orco"]);
    command.args(LIBRARIES.iter().flat_map(|name| ["--package", name]));
    must_run(command.current_dir(workspace()))?;
    println!("the published crates compile with Rust {OLDEST}");
    Ok(ExitCode::SUCCESS)
}

//! Whether the crates still serve those who depend on them: programs written for the last release, or for the commit
//! that stands in for it before there is one, and the oldest Rust that `Cargo.toml` states.

use std::error::Error;
use std::process::{Command, ExitCode};

use crate::environment::{cargo, workspace};
use crate::process::{git, must_run, output};
use crate::release::LIBRARIES;
use crate::tool::CARGO_SEMVER_CHECKS;

/// Version that `rust-version` states.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");
/// Names the commit that stands in for the last release where no tag marks one.
const BASELINE_FILE: &str = "tests/xtask/api-baseline";
const BASELINE: &str = include_str!("../api-baseline");

/// Compares the public API of the libraries with that of a commit or tag; without one, with that of the last release,
/// or of the commit that [`BASELINE_FILE`] names where there is none.
///
/// # Errors
/// If cargo-semver-checks finds that the version should have been raised further, or cannot run.
pub fn api(baseline: Option<String>) -> Result<ExitCode, Box<dyn Error>> {
    let Some(baseline) = baseline.or_else(last_release).or_else(|| kept(BASELINE.trim())) else {
        println!(
            "skipped: no tag v* marks a release, and this clone lacks the commit that {BASELINE_FILE} names: \
             git fetch --unshallow --tags brings both"
        );
        return Ok(ExitCode::SUCCESS);
    };
    println!("the public API is compared with {baseline}");
    let mut command = Command::new(CARGO_SEMVER_CHECKS.locate()?);
    command.args(["semver-checks", "--baseline-rev", &baseline]).env_remove("RUSTC_WORKSPACE_WRAPPER");
    command.args(LIBRARIES.iter().flat_map(|name| ["--package", name]));
    must_run(command.current_dir(workspace()))?;
    Ok(ExitCode::SUCCESS)
}

/// The newest tag of a release that this commit builds on.
fn last_release() -> Option<String> {
    let tag = git(&["describe", "--tags", "--match", "v*", "--abbrev=0"]);
    tag.ok().map(|tag| tag.trim().to_owned())
}

/// The commit, if this clone has it: a shallow one has few.
fn kept(commit: &str) -> Option<String> {
    let found = git(&["cat-file", "-e", &format!("{commit}^{{commit}}")]);
    found.ok().map(|_| commit.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_is_one_commit_by_its_whole_name() {
        let name = BASELINE.strip_suffix('\n').unwrap_or_default();
        assert!(name.len() == 40 && name.bytes().all(|byte| b"0123456789abcdef".contains(&byte)), "{BASELINE:?}");
    }

    #[test]
    fn a_commit_that_a_clone_lacks_is_no_baseline() {
        assert_eq!(kept("0000000000000000000000000000000000000000"), None);
        assert_eq!(kept("HEAD").is_some(), workspace().join(".git").exists());
    }
}

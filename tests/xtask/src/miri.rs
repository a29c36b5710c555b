//! `cargo xtask test miri`: what is `unsafe` in the crates without an operating system, run by Miri, which finds
//! undefined behaviour and data races.
//!
//! The interpreter is too slow for tests that compute: the short ones that reach every unsafe block run, by name. It
//! knows no assembly, of which libraries have some for x86-64 and aarch64, so it interprets another architecture.
//! Kernels run by their portable path there; the others are compared with it by ordinary tests.

use std::error::Error;
use std::process::{Command, ExitCode};

use orco_trials::skipped;

use crate::environment::workspace;
use crate::process::must_run;

/// Crates, and the names of the tests that run.
const TESTS: [(&str, &[&str]); 2] =
    [("runtime/core", &["linalg::", "workers::", "align::memory::"]), ("runtime/state", &["parallel::", "label::"])];
/// One for which no library has assembly.
const TARGET: &str = "riscv64gc-unknown-linux-gnu";
/// Property tests read files with earlier failures, and a few cases reach all that is unsafe.
const SETTINGS: [(&str, &str); 2] = [("MIRIFLAGS", "-Zmiri-disable-isolation"), ("PROPTEST_CASES", "3")];

/// What is said where there is no Miri.
const MISSING: &str = "Miri is missing: rustup toolchain install nightly --component miri,rust-src";

/// Runs the tests. Where nightly Rust with Miri is missing, that is an error, or is said and is none.
///
/// # Errors
/// If Miri is missing and must not be, or a test fails.
pub fn run(may_be_missing: bool) -> Result<ExitCode, Box<dyn Error>> {
    let is_there = Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        return without_miri(may_be_missing);
    }
    for (package, tests) in TESTS {
        let manifest = workspace().join(package).join("Cargo.toml");
        // The toolchain is chosen by cargo's first argument, which needs rustup's cargo.
        let mut miri = Command::new("cargo");
        miri.args(["+nightly", "miri", "test", "--lib", "--target", TARGET, "--manifest-path"]).arg(manifest);
        miri.arg("--").args(tests);
        must_run(miri.envs(SETTINGS).env_remove("RUSTC_WORKSPACE_WRAPPER"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn without_miri(may_be_missing: bool) -> Result<ExitCode, Box<dyn Error>> {
    if !may_be_missing {
        return Err(MISSING.into());
    }
    skipped(MISSING);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_miri_is_an_error_unless_it_is_allowed() {
        assert_eq!(without_miri(false).unwrap_err().to_string(), MISSING);
    }
}

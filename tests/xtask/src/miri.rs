//! `cargo xtask test miri`: what is `unsafe` in the crates without an operating system, run by Miri, which finds
//! undefined behaviour and data races.
//!
//! The interpreter is too slow for tests that compute: the short ones that reach every unsafe block run, by name. It
//! knows no assembly, of which libraries have some for x86-64 and aarch64, so it interprets another architecture.
//! Kernels run by their portable path there; the others are compared with it by ordinary tests.

use std::error::Error;
use std::process::{Command, ExitCode};

use crate::environment::workspace;
use crate::process::must_run;

/// Crates, and the names of the tests that run.
const TESTS: [(&str, &[&str]); 2] =
    [("runtime/core", &["linalg::", "workers::", "align::memory::"]), ("runtime/state", &["parallel::", "label::"])];
/// One for which no library has assembly.
const TARGET: &str = "riscv64gc-unknown-linux-gnu";
/// Property tests read files with earlier failures, and a few cases reach all that is unsafe.
const SETTINGS: [(&str, &str); 2] = [("MIRIFLAGS", "-Zmiri-disable-isolation"), ("PROPTEST_CASES", "3")];

/// Runs the tests.
///
/// # Errors
/// If nightly Rust with Miri is missing, or a test fails.
pub fn run() -> Result<ExitCode, Box<dyn Error>> {
    let is_there = Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        return Err("Miri is missing: rustup toolchain install nightly --component miri,rust-src".into());
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

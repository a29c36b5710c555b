//! `cargo xtask test micro`: the firmware in tests/microcontroller is built in a Debian that has the compiler's own
//! library as source, and runs on QEMU's Cortex-M7 there, beside the host.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::debian_root::{DebianRoot, folders_of_cargo};
use crate::environment::{cargo, workspace};
use crate::metadata::target_folder;
use crate::process::must_run;

/// The firmware's package, and its program.
const FIRMWARE: &str = "tests/microcontroller/firmware";

/// Builds the firmware and runs the trial.
///
/// # Errors
/// If something cannot be built.
pub fn run() -> Result<ExitCode, Box<dyn Error>> {
    let root = DebianRoot::of_compilers()?;
    let target = target_folder()?;
    let shared = folders_of_cargo(&target)?;
    let shared = shared.each_ref().map(PathBuf::as_path);
    // Crates come over the network here; inside there is none. The compiler's library has its own.
    let library = root.path("usr/lib/rustlib/src").join(fs::read_link(root.path("usr/lib/rustlib/src/rust"))?);
    let manifests = [workspace().join(FIRMWARE).join("Cargo.toml"), library.join("library/Cargo.toml")];
    for manifest in &manifests {
        // The firmware's own settings ask for a compiler that this machine may not have.
        let mut fetch = cargo();
        fetch.args(["fetch", "--quiet", "--locked", "--manifest-path"]).arg(manifest).current_dir("/");
        must_run(fetch.env("RUSTC_BOOTSTRAP", "1"))?;
    }
    let mut build = root.command(&shared, &["cargo", "build", "--release", "--offline", "--locked"]);
    build.env("CARGO_HOME", shared[1]).env("CARGO_TARGET_DIR", target.join("micro")).env("RUSTC_BOOTSTRAP", "1");
    must_run(build.current_dir(workspace().join(FIRMWARE)))?;

    let mut build = cargo();
    build.args(["build", "--locked", "--package", "orco-micro-trial"]);
    must_run(build.current_dir(workspace()))?;
    let trial = target.join("debug/orco-micro-trial").to_string_lossy().into_owned();
    let firmware =
        target.join("micro/thumbv7em-none-eabihf/release/orco-micro-firmware").to_string_lossy().into_owned();
    let mut trial = root.command(&shared, &[&trial, "--firmware", &firmware]);
    must_run(trial.current_dir(workspace()))?;
    Ok(ExitCode::SUCCESS)
}

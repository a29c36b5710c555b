//! Cargo for aarch64: it runs in the Debian with compilers, links to the release of Debian that packages are made for,
//! and what it builds runs there, too.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::debian_root::{DebianRoot, folders_of_cargo};
use crate::environment::{cargo, workspace};
use crate::library::ONNX_RUNTIME_AARCH64;
use crate::metadata::target_folder;
use crate::process::must_run;

/// Rust's target triple of these machines.
pub const TRIPLE: &str = "aarch64-unknown-linux-gnu";

/// Builds for aarch64, and runs what it built.
#[derive(Debug)]
pub struct Cross {
    compilers: DebianRoot,
    /// The Debian for aarch64 whose libraries are linked to.
    system: DebianRoot,
    onnx_runtime: PathBuf,
    target: PathBuf,
    shared: Vec<PathBuf>,
}

impl Cross {
    /// Makes all that is needed, unless it is there, and has Cargo download the crates.
    ///
    /// # Errors
    /// If a Debian cannot be made, or ONNX Runtime or a crate not be had.
    pub fn set_up() -> Result<Self, Box<dyn Error>> {
        demand_no_space(&Cache::of_user()?.path(""))?;
        let compilers = DebianRoot::of_compilers()?;
        let system = DebianRoot::of_aarch64(&compilers)?;
        let onnx_runtime = std::path::absolute(ONNX_RUNTIME_AARCH64.locate()?)?;
        // Another compiler than this machine's: neither should find the other's files.
        let target = target_folder()?.join("aarch64");
        // Inside there is no network.
        must_run(cargo().args(["fetch", "--quiet", "--locked"]).current_dir(workspace()))?;
        let mut shared = folders_of_cargo(&target)?.to_vec();
        shared.extend([system.path(""), onnx_runtime.parent().unwrap_or(Path::new("/")).to_owned()]);
        Ok(Self { compilers: compilers.with_aarch64(), system, onnx_runtime, target, shared })
    }

    /// A Debian for arm64.
    pub fn system(&self) -> &DebianRoot {
        &self.system
    }

    /// ONNX Runtime's shared library.
    pub fn onnx_runtime(&self) -> &Path {
        &self.onnx_runtime
    }

    /// Where Cargo builds.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// A command in the Debian with compilers, started in the checkout, which sees also `folders`; programs for aarch64
    /// run, and find ONNX Runtime.
    pub fn command(&self, folders: &[&Path], words: &[&str]) -> Command {
        let shared: Vec<&Path> = self.shared.iter().map(PathBuf::as_path).chain(folders.iter().copied()).collect();
        let mut command = self.compilers.command(&shared, words);
        command.env("CARGO_HOME", &self.shared[1]).env("CARGO_TARGET_DIR", &self.target);
        command.env("CARGO_NET_OFFLINE", "true").env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", GCC);
        let system = self.system.path("");
        let system = system.to_string_lossy();
        let system = system.trim_end_matches('/');
        // The compiler would find its own libc first, which is newer than that of the release.
        let libraries = format!("{system}/usr/lib/aarch64-linux-gnu");
        let link = format!("-Clink-arg=--sysroot={system} -Clink-arg=-B{libraries} -Clink-arg=-L{libraries}");
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", link);
        command.env("CC_aarch64_unknown_linux_gnu", GCC);
        command.env("CFLAGS_aarch64_unknown_linux_gnu", format!("--sysroot={system}"));
        // Where the profile is not the one of releases, tables of lines are enough.
        command.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        command.env("ORT_DYLIB_PATH", &self.onnx_runtime).env("ORT_DISABLE_TELEMETRY", "1");
        command.current_dir(workspace());
        command
    }

    /// Cargo for aarch64.
    pub fn cargo(&self, task: &str, words: &[&str]) -> Command {
        self.command(&[], &[&["cargo", task, "--locked", "--target", TRIPLE], words].concat())
    }
}

/// Refuses a cache whose path flags of compilers cannot name: they are divided at spaces.
fn demand_no_space(cache: &Path) -> Result<(), Box<dyn Error>> {
    if cache.to_string_lossy().contains(char::is_whitespace) {
        let why = "has a space in its path, at which compilers divide flags; name another one with ORCO_CACHE";
        return Err(format!("the cache {} {why}", cache.display()).into());
    }
    Ok(())
}

/// The compiler and linker.
const GCC: &str = "aarch64-linux-gnu-gcc";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_flags_cannot_name_is_refused() {
        assert!(demand_no_space(Path::new("/home/me/.cache/orco")).is_ok());
        let refused = demand_no_space(Path::new("/home/me/my cache")).unwrap_err().to_string();
        assert!(refused.starts_with("the cache /home/me/my cache has a space"), "{refused}");
    }
}

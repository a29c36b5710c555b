//! Programs that Cargo builds into the cache, because no wheel has them.

use std::error::Error;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::debian_root::failed;
use crate::environment::{cargo, own_copy};
use crate::process::must_run;

/// A program of one crate.
#[derive(Debug)]
pub struct Tool {
    /// Where Cargo puts the program, which is called like its crate.
    program: &'static str,
    /// The release that was tried.
    version: &'static str,
    /// Arguments for `cargo install`.
    arguments: &'static [&'static str],
    /// Environment variable that names a program to take instead.
    variable: &'static str,
}

/// Makes Debian packages.
pub const CARGO_DEB: Tool = Tool {
    program: "bin/cargo-deb",
    version: "3.8.0",
    // xz is called as a program: Debian always has it.
    arguments: &["--no-default-features"],
    variable: "ORCO_CARGO_DEB",
};

/// Gathers licences of crates.
pub const CARGO_ABOUT: Tool = Tool {
    program: "bin/cargo-about",
    version: "0.9.3",
    arguments: &["--features", "cli"],
    variable: "ORCO_CARGO_ABOUT",
};

/// Lists what a program is made of, as CycloneDX.
pub const CARGO_CYCLONEDX: Tool =
    Tool { program: "bin/cargo-cyclonedx", version: "0.5.9", arguments: &[], variable: "ORCO_CARGO_CYCLONEDX" };

/// Compares public APIs.
pub const CARGO_SEMVER_CHECKS: Tool = Tool {
    program: "bin/cargo-semver-checks",
    version: "0.51.0",
    arguments: &[],
    variable: "ORCO_CARGO_SEMVER_CHECKS",
};

impl Tool {
    /// The program: the one that the variable names, else the one in the cache, into which Cargo builds it if it is not
    /// there.
    ///
    /// # Errors
    /// If there is no cache, or Cargo cannot build the program.
    pub fn locate(&self) -> Result<PathBuf, Box<dyn Error>> {
        if let Some(own) = own_copy(self.variable) {
            return Ok(own);
        }
        let (cache, folder) = (Cache::of_user()?, format!("{}-{}", self.name(), self.version));
        cache.install(&folder, &[self.program], |kept, _| self.build(kept).map_err(failed(kept)))?;
        Ok(cache.path(&folder).join(self.program))
    }

    /// Name of the crate.
    fn name(&self) -> &'static str {
        self.program.trim_start_matches("bin/")
    }

    fn build(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        let mut command = cargo();
        // Lints that a shell has Cargo apply are for this workspace.
        command.env_remove("RUSTC_WORKSPACE_WRAPPER");
        command.args(["install", self.name(), "--locked", "--version", self.version]).args(self.arguments);
        must_run(command.arg("--root").arg(folder))
    }
}

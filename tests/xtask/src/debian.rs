//! Programs that Debian packages.

use std::error::Error;
use std::process::{Command, Stdio};

/// Installs packages with apt unless all of `programs` start already.
///
/// # Errors
/// A sentence that says what to install, where apt cannot: it is not there, or this is not root.
pub fn install(what: &str, programs: &[&str], packages: &[&str]) -> Result<(), Box<dyn Error>> {
    let start = || programs.iter().all(|program| starts(program));
    if start() {
        return Ok(());
    }
    eprintln!("Installing {what}: apt-get install {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    // The lists may be old, or not there.
    if (apt(&install) || apt(&["update"]) && apt(&install)) && start() {
        return Ok(());
    }
    Err(format!("{what} could not be installed; as root: apt-get install {}", packages.join(" ")).into())
}

fn starts(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Some ask for their version by another word, and refuse this one.
    command.status().is_ok()
}

//! Commands that must succeed.

use std::error::Error;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

use crate::environment::workspace;

/// Runs a command that must succeed.
///
/// # Errors
/// If it does not.
pub fn must_run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.stdin(Stdio::null()).status().map_err(|error| not_started(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed ({status})", shown(command)).into()) }
}

/// Runs a command that must succeed and returns what it writes to standard output.
///
/// # Errors
/// If it does not; with what it wrote.
pub fn output(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| not_started(command, &error))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} failed ({}): {said}{errors}", shown(command), output.status).into())
}

/// What git says of this workspace.
///
/// # Errors
/// As for [`output`].
pub fn git(words: &[&str]) -> Result<String, Box<dyn Error>> {
    output(Command::new("git").args(words).current_dir(workspace()))
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    if error.kind() == ErrorKind::NotFound {
        let program = command.get_program().to_string_lossy();
        return format!("{program} is not installed, or not in PATH; it is wanted for: {}", shown(command));
    }
    format!("{} cannot be started: {error}", shown(command))
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.collect::<Vec<_>>().join(OsStr::new(" ")).to_string_lossy().into_owned()
}

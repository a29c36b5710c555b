//! What the tests share.

mod recipes;

use std::fs;
use std::path::Path;
use std::process::Output;
#[cfg(unix)]
use std::process::{Child, Command};

pub use recipes::{recipe, synthetic};

/// What a program wrote to its standard error.
pub fn error_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The sentence with which a program failed: the last line of what it wrote to its standard error.
pub fn failure(output: &Output) -> String {
    let said = error_text(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: "), "{said}");
    last.to_owned()
}

/// Epochs of a run that its metrics tell of.
pub fn epochs(run: &Path) -> usize {
    fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default().lines().count()
}

/// Sends a signal, by its name behind a dash.
#[cfg(unix)]
pub fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

//! Which trials the tests of all packages make, what they measure with, and what they counted.

pub mod alone;
pub mod layers;
pub mod memory;
pub mod record;
#[cfg(target_os = "linux")]
pub mod threads;

use std::io::Write;

/// Whether trials are made in full, which takes minutes: `cargo xtask test full` sets the variable.
pub fn heavy() -> bool {
    std::env::var_os("ORCO_HEAVY").is_some()
}

/// Says past the test harness's capture that something was not run, and why.
pub fn skipped(what: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}");
}

/// Says that something was not run because a part of the machine is missing, unless a variable says that it is here:
/// `cargo xtask test --install` sets it where it has seen to it.
///
/// # Panics
/// If the variable is set.
pub fn missing(variable: &str, what: &str, reason: &str) {
    assert!(std::env::var_os(variable).is_none(), "{what}: {variable} is set, but {reason}");
    skipped(&format!("{what}: {reason}"));
}

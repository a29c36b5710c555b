//! Which trials the tests of all packages make, and what they measure with.

pub mod memory;

use std::io::Write;

/// Whether trials are made in full, which takes minutes: `cargo xtask test full` sets the variable.
pub fn heavy() -> bool {
    std::env::var_os("ORCO_HEAVY").is_some()
}

/// Says past the test harness's capture that something was not run, and why.
pub fn skipped(what: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}");
}

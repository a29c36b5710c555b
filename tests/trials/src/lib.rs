//! Which trials the tests of all packages make, what they measure with, and what they counted.

pub mod alone;
pub mod benchmark;
pub mod memory;
pub mod png;
pub mod record;
pub mod system;
#[cfg(target_os = "linux")]
pub mod threads;
pub mod tmpfs;

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Names the file that [`skipped`] adds its lines to, beside saying them: `cargo xtask test` prints them when all tests
/// have run, for what a test says that succeeds is not shown.
pub const SKIPPED: &str = "ORCO_SKIPPED";

/// How long a test waits for what must come; none depends on how soon it does.
const TIMEOUT: Duration = Duration::from_secs(240);

static TORCH_GENERATOR: Mutex<()> = Mutex::new(());

/// For tests that draw from torch's random generator, of which a process has one: they take turns.
pub fn torch_generator() -> MutexGuard<'static, ()> {
    TORCH_GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until something is so.
///
/// # Panics
/// If it is not within four minutes.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < TIMEOUT, "not so after {TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The middle one of what was measured, or the higher of two in the middle.
///
/// # Panics
/// If there is none, or one is no number.
pub fn median<T: Copy + PartialOrd>(mut values: Vec<T>) -> T {
    values.sort_by(|one, other| one.partial_cmp(other).expect("a measured number is one"));
    values[values.len() / 2]
}

/// Whether trials are made in full, which takes minutes: `cargo xtask test full` sets the variable.
pub fn heavy() -> bool {
    std::env::var_os("ORCO_HEAVY").is_some()
}

/// Says past the test harness's capture that something was not run, and why.
///
/// # Panics
/// If the file that [`SKIPPED`] names cannot be written.
pub fn skipped(what: &str) {
    let line = format!("skipped: {what}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os(SKIPPED).filter(|path| !path.is_empty()) {
        // One write, so that lines of several processes stay whole.
        let file = OpenOptions::new().append(true).open(path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        assert!(written.is_ok(), "{SKIPPED}: the line cannot be written: {written:?}");
    }
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

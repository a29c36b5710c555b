//! Helpers for the tests and benchmarks of all packages: waiting, skipping, running programs, measuring, copying
//! folders, and records of what long trials counted.

pub mod alone;
pub mod benchmark;
pub mod folder;
pub mod memory;
pub mod png;
pub mod system;
#[cfg(target_os = "linux")]
pub mod threads;
pub mod tmpfs;
pub mod trial;

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Names the file that [`skipped`] adds its lines to, beside printing them: the output of a test that succeeds is not
/// shown, so `cargo xtask test` prints these lines when all tests have run.
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

/// Runs a program, which must succeed.
///
/// # Panics
/// If it cannot be started, or fails.
pub fn succeeds(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    let printed = [&output.stdout[..], &output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&printed));
    output
}

/// Prints that something was not run, and why, on standard error itself, which the test harness does not capture.
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

/// Prints that something was not run because the machine lacks a program. `cargo xtask test --install` installs the
/// program and sets `variable`: then a lack is a failure.
///
/// # Panics
/// If the variable is set.
pub fn missing(variable: &str, what: &str, reason: &str) {
    assert!(std::env::var_os(variable).is_none(), "{what}: {variable} is set, but {reason}");
    skipped(&format!("{what}: {reason}"));
}

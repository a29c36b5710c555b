//! Ctrl-C: the first asks for a stop after the epoch, the second ends the program at once.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// Exit status of a program that Ctrl-C ended.
pub const EXIT: i32 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);

/// The run was stopped on purpose; every finished epoch is saved.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("stopped by Ctrl-C; every finished epoch is saved, and the same command or `orco-train resume` continues")]
pub struct Interrupted;

/// Watches for Ctrl-C from now on; to be called once.
///
/// # Errors
/// If the system refuses the handler.
pub fn watch() -> Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            eprintln!("stopped at once; the epochs finished before are saved");
            std::process::exit(EXIT);
        }
        eprintln!("Ctrl-C: stopping as soon as this epoch is saved; press it again to stop at once");
    })
    .context("cannot watch for Ctrl-C")
}

/// Whether a stop was asked for.
///
/// # Errors
/// [`Interrupted`] if so.
pub fn check() -> Result<(), Interrupted> {
    if ASKED.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}

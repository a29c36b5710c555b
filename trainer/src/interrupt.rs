//! Ctrl-C: the first asks for a stop after the step, the second ends the program at once.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// Exit status of a program that Ctrl-C ended.
pub const EXIT: i32 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);

/// The run was stopped on purpose; phase 1 is saved up to its last step.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "stopped by Ctrl-C; phase 1 is saved up to its last step, and the same command or `orco-train resume` continues"
)]
pub struct Interrupted;

/// Watches for Ctrl-C from now on; to be called once.
///
/// # Errors
/// If the system refuses the handler.
pub fn watch() -> Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            eprintln!("stopped at once; the last checkpoint is kept");
            end();
        }
        eprintln!("Ctrl-C: stopping as soon as this step is saved; press it again to stop at once");
    })
    .context("cannot watch for Ctrl-C")
}

/// Ends the program as it stands. The orderly way would tear down libtorch beneath the thread that computes.
fn end() -> ! {
    #[cfg(unix)]
    // SAFETY: takes nothing and does not return.
    unsafe {
        libc::_exit(EXIT)
    }
    #[cfg(not(unix))]
    std::process::exit(EXIT)
}

/// Whether a stop was asked for.
///
/// # Errors
/// [`Interrupted`] if so.
pub fn check() -> Result<(), Interrupted> {
    if ASKED.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}

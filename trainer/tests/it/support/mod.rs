//! What the tests share.

mod recipes;

use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use recipes::{recipe, synthetic};

static TURN: Mutex<()> = Mutex::new(());

/// For tests that draw from torch's random generator, of which a process has one: they take turns.
pub fn take_turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a program wrote to its standard error.
pub fn error_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

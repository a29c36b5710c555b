//! What the tests share.

mod recipes;

use std::process::Output;

pub use recipes::{recipe, synthetic};

/// What a program wrote to its standard error.
pub fn error_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

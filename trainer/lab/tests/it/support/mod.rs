//! What the tests share: small recipes, and commands over them.

#[path = "../../../../tests/it/support/recipes.rs"]
mod recipes;

use std::path::Path;
use std::process::{Command, Output};

use orco_trials::succeeds;

pub use recipes::recipe;

/// A command over that recipe, which must succeed.
pub fn train(folder: &Path, command: &str, what: &str, options: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_orco-train-lab"));
    program.args([command, what, "recipe.toml", "--run", "run", "--threads", "1", "--device", "cpu"]).args(options);
    succeeds(program.current_dir(folder))
}

/// What it printed.
pub fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

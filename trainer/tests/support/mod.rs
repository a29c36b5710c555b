//! What the tests share of commands that train several things.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Writes a recipe of a very small network on few synthetic objects; `more` are further numbers in it, by table and
/// field.
pub fn recipe(folder: &Path, more: &[(&str, &str, i64)]) {
    let mut recipe: toml::Table = include_str!("../../recipes/synthetic-tiny.toml").parse().unwrap();
    let small = [
        ("data", "train_per_class", 16),
        ("data", "test_per_class", 3),
        ("split", "base_classes", 6),
        ("split", "sessions", 2),
        ("split", "ways", 2),
        ("backbone", "width", 2),
        ("pretrain", "epochs", 2),
        ("export", "candidates_per_class", 6),
    ];
    for &(table, field, value) in small.iter().chain(more) {
        recipe[table].as_table_mut().unwrap().insert(field.into(), value.into());
    }
    fs::write(folder.join("recipe.toml"), recipe.to_string()).unwrap();
}

/// A command over that recipe, which must succeed.
pub fn train(folder: &Path, command: &str, what: &str, options: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_orco-train"));
    program.args([command, what, "recipe.toml", "--run", "run", "--threads", "1", "--device", "cpu"]).args(options);
    let output = program.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What it printed.
pub fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

//! Recipes of synthetic objects that train in seconds.

use std::fs;
use std::path::{Path, PathBuf};

/// Writes the recipe of synthetic objects with other values in it, by table and field.
pub fn synthetic<V: Clone + Into<toml::Value>>(folder: &Path, changes: &[(&str, &str, V)]) -> PathBuf {
    let mut recipe: toml::Table = include_str!("../../../recipes/synthetic-tiny.toml").parse().unwrap();
    for (table, field, value) in changes {
        recipe[*table].as_table_mut().unwrap().insert((*field).into(), value.clone().into());
    }
    let path = folder.join("recipe.toml");
    fs::write(&path, recipe.to_string()).unwrap();
    path
}

/// Writes a recipe of a very small network on few synthetic objects; `more` are further numbers in it, by table and
/// field.
pub fn recipe(folder: &Path, more: &[(&str, &str, i64)]) {
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
    synthetic(folder, &[&small[..], more].concat());
}

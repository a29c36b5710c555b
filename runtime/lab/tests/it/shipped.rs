//! Shipped bundles, and copies of them.

use std::fs;
use std::path::{Path, PathBuf};

/// Folder of the shipped bundles.
pub fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
}

/// Copies a shipped bundle, without its report.
pub fn copy(name: &str, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(models().join(name)).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

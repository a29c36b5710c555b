//! Shipped bundles, and copies of them.

use std::path::{Path, PathBuf};

use orco_trials::folder::copy_folder;

/// Folder of the shipped bundles.
pub fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
}

/// Copies a shipped bundle, without its report.
pub fn copy(name: &str, to: &Path) {
    copy_folder(&models().join(name), to);
}

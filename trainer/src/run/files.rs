//! Files of a run, which a crash leaves whole; errors name them.

use std::path::Path;

use anyhow::{Context, Result};
use orco_runtime::files;

/// Replaces a file by new bytes so that a crash leaves the old or the new ones; see [`files::replace_shared`].
///
/// # Errors
/// If the file cannot be written; the old one is then still there.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    files::replace_shared(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

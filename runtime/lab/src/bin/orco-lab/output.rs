//! Files that commands write: whether they may be is known before anything is measured.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use orco_lab::report::writable;
use orco_lab::results_pages::ESTIMATES_FOLDER;
use orco_runtime::files::{folder_of, replace_shared};

/// Makes a folder, and refuses one that nothing can be written into.
pub fn prepare_folder(folder: &Path) -> Result<()> {
    writable(folder).with_context(|| format!("cannot write into the folder {}", folder.display()))
}

/// Refuses a file inside the bundle but for its folder [`ESTIMATES_FOLDER`], and one as [`check_replaced`] does.
pub fn check_output(path: &Path, is_ours: fn(&[u8]) -> bool, bundle: &Path) -> Result<()> {
    let folder = check_replaced(path, is_ours, "a result")?;
    let is_below = |other: &Path| fs::canonicalize(other).is_ok_and(|other| folder.starts_with(other));
    if is_below(bundle) && !is_below(&bundle.join(ESTIMATES_FOLDER)) {
        bail!("cannot write {}: it lies in the folder of the bundle; name another place", path.display());
    }
    Ok(())
}

/// Refuses a file in a folder that is not there, or one that is neither empty nor ours: a mistyped name must not cost a
/// photograph. Returns the folder without links.
pub fn check_replaced(path: &Path, is_ours: fn(&[u8]) -> bool, what: &str) -> Result<PathBuf> {
    let cannot = || format!("cannot write {}", path.display());
    let there = match fs::metadata(path) {
        // Who reads a pipe waits for somebody to write into it.
        Ok(facts) if !facts.is_file() && !facts.is_dir() => Vec::new(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        _ => fs::read(path).with_context(cannot)?,
    };
    if !there.is_empty() && !is_ours(&there) {
        bail!("cannot write {}: it holds something else than {what}; name another place", path.display());
    }
    fs::canonicalize(folder_of(path)).with_context(cannot)
}

/// Writes a file whole or not at all. A pipe is written into as it is, and so is what a link leads to.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let is_replaceable = fs::symlink_metadata(path).map_or(true, |facts| facts.is_file());
    let written = if is_replaceable { replace_shared(path, text.as_bytes()) } else { fs::write(path, text) };
    written.with_context(|| format!("cannot write {}", path.display()))
}

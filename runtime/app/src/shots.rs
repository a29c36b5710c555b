//! Folders of pictures.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Endings of the files that count as pictures.
const ENDINGS: [&str; 3] = ["jpg", "jpeg", "png"];

/// The pictures of a folder, sorted by name; other files are passed over, and hidden ones: `._1.jpg`, which a Mac writes
/// beside `1.jpg`, is none.
pub fn pictures(folder: &Path) -> Result<Vec<PathBuf>> {
    let shown = folder.display();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read the folder {shown}"))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read the folder {shown}"))?.path();
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.is_file() && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        bail!("the folder {shown} holds no pictures (.jpg, .jpeg or .png)");
    }
    paths.sort();
    Ok(paths)
}

/// Opens a picture; the error names it.
pub fn open(path: &Path) -> Result<image::RgbImage> {
    orco_runtime::image::open(path).map_err(|error| anyhow::anyhow!("{} {error}", path.display()))
}

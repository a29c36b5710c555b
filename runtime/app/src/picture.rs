//! Pictures that the command line names.

use std::path::Path;

use anyhow::Result;

/// Opens a picture; the error names it.
pub fn open(path: &Path) -> Result<image::RgbImage> {
    orco_runtime::image::open(path).map_err(|error| anyhow::anyhow!("{} {error}", path.display()))
}

//! Pictures that the command line names.

use std::path::Path;

use anyhow::Result;
use image::RgbImage;
use orco_runtime::image::DecodedPicture;

/// Opens a picture; the error names it.
pub fn open(path: &Path) -> Result<RgbImage> {
    Ok(open_with_size(path)?.picture)
}

/// Opens a picture, with its size in the file; the error names it.
pub fn open_with_size(path: &Path) -> Result<DecodedPicture> {
    Ok(orco_runtime::image::open_with_size(path)?)
}

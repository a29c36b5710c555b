//! Small pictures of shots, which a pack may carry and which can be taken out again.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use image::codecs::jpeg::JpegEncoder;
use image::imageops;
use orco_runtime::pack::{MAX_THUMBNAIL, MAX_THUMBNAILS, Pack, Thumbnail};

use crate::shots;

/// Longest side of a thumbnail, in pixels.
const SIDE: u32 = 96;
const QUALITY: u8 = 75;

/// Thumbnails of the pictures of a folder, JPEG, without the pictures' own descriptions (place, time, camera).
pub fn of_folder(folder: &Path) -> Result<Vec<Thumbnail>> {
    let paths = shots::pictures(folder)?;
    if paths.len() > MAX_THUMBNAILS {
        bail!("the folder {} holds {} pictures; a pack takes at most {MAX_THUMBNAILS}", folder.display(), paths.len());
    }
    paths.iter().map(|path| small(&shots::open(path)?)).collect()
}

fn small(picture: &image::RgbImage) -> Result<Thumbnail> {
    let (width, height) = picture.dimensions();
    let longest = width.max(height).max(SIDE);
    let side = |length: u32| (length * SIDE / longest).max(1);
    let scaled = imageops::thumbnail(picture, side(width), side(height));
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, QUALITY).encode_image(&scaled).context("cannot encode a thumbnail")?;
    if bytes.len() > MAX_THUMBNAIL {
        bail!("a thumbnail takes {} bytes, more than {MAX_THUMBNAIL}", bytes.len());
    }
    Ok(Thumbnail(bytes))
}

/// Makes sure that what a pack carries are pictures, before anything else is done with it.
pub fn check(pack: &Pack) -> Result<()> {
    for (place, Thumbnail(bytes)) in pack.thumbnails.iter().enumerate() {
        if let Err(error) = orco_runtime::image::decode(bytes) {
            bail!("thumbnail {} {error}", place + 1);
        }
    }
    Ok(())
}

/// Writes a pack's thumbnails as `FOLDER/LABEL/1.jpg` and so on; returns how many there are.
pub fn write(pack: &Pack, label: &str, folder: &Path) -> Result<usize> {
    // A label out of a file must not lead anywhere else.
    let safe: String = label.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let folder = folder.join(safe);
    let failed = || format!("the class was learned, but its thumbnails cannot be written into {}", folder.display());
    for (place, Thumbnail(bytes)) in pack.thumbnails.iter().enumerate() {
        fs::create_dir_all(&folder).with_context(failed)?;
        fs::write(folder.join(format!("{}.jpg", place + 1)), bytes).with_context(failed)?;
    }
    Ok(pack.thumbnails.len())
}

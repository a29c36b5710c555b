//! Pictures for the tests of this module.

use std::fs;
use std::path::Path;

/// Writes a picture of one colour, as JPEG or PNG by the name's end; makes its folder.
pub(super) fn write_picture(path: &Path, width: u32, height: u32, colour: [u8; 3]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    image::RgbImage::from_pixel(width, height, image::Rgb(colour)).save(path).unwrap();
}

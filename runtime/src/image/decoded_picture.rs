//! A decoded picture beside the size of the one in its file.

use ::image::RgbImage;
use ::image::metadata::Orientation;

use super::upright_size;

/// A decoded picture, and how large the picture in its file is: larger than this one if it was decoded at reduced
/// scale. Use it, not the pixels alone, where places are told in pixels: people know those of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedPicture {
    /// The pixels, upright.
    pub picture: RgbImage,
    /// Width and height of the picture in the file, upright, in pixels.
    pub size_in_file: [u32; 2],
}

impl DecodedPicture {
    /// A picture decoded from a file, where it has this size before it is turned upright.
    pub(super) fn new(picture: RgbImage, size: [usize; 2], orientation: Orientation) -> Self {
        Self { picture, size_in_file: upright_size(size.map(|side| side as u32), orientation) }
    }
}

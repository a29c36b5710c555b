//! Reduced pictures: for people to look at, not for the backbone.

use std::borrow::Cow;

use ::image::RgbImage;
use ::image::codecs::jpeg::JpegEncoder;

use super::resize::resize;

/// Quality of reduced JPEG pictures, 1..100.
const QUALITY: u8 = 75;

/// A picture whose sides have at most `side` pixels: itself if it is small enough.
pub fn reduced(picture: &RgbImage, side: u32) -> Cow<'_, RgbImage> {
    let (width, height) = picture.dimensions();
    let longest = width.max(height);
    if longest <= side {
        return Cow::Borrowed(picture);
    }
    let scaled = |length: u32| ((f64::from(length) * f64::from(side) / f64::from(longest)).round() as u32).max(1);
    Cow::Owned(resize(picture, [scaled(width), scaled(height)]))
}

/// A JPEG of a picture, with at most `side` pixels a side and without the picture's own description (place, time,
/// camera).
///
/// # Panics
/// Never: writing a picture into memory cannot fail.
pub fn reduced_jpeg(picture: &RgbImage, side: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = JpegEncoder::new_with_quality(&mut bytes, QUALITY).encode_image(&*reduced(picture, side));
    written.expect("writing a picture into memory cannot fail");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image;

    #[test]
    fn sides_shrink_alike_and_none_vanishes() {
        for (size, side, expected) in
            [((40, 30), 96, (40, 30)), ((400, 300), 96, (96, 72)), ((100, 5000), 96, (2, 96)), ((9000, 3), 96, (96, 1))]
        {
            let picture = RgbImage::new(size.0, size.1);
            assert_eq!(reduced(&picture, side).dimensions(), expected, "{size:?}");
            assert_eq!(image::decode(&reduced_jpeg(&picture, side)).unwrap().dimensions(), expected, "{size:?}");
        }
    }
}

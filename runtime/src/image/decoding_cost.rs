//! The memory that decoding a picture takes, known from its header.

use ::image::metadata::Orientation;

use super::resize::resize_memory;
use super::{Preprocessing, upright_size};

/// What the header of a picture file says: its size, the size of the picture that comes of decoding it, and the memory
/// that decoding takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodingCost {
    /// Width of the picture in the file, upright, in pixels.
    pub file_width: u32,
    /// Height of the picture in the file, upright, in pixels.
    pub file_height: u32,
    /// Width of the decoded picture, in pixels.
    pub width: u32,
    /// Height of the decoded picture, in pixels.
    pub height: u32,
    /// Most bytes while it is decoded, the picture among them, the file apart.
    pub peak: u64,
}

impl DecodingCost {
    /// The cost of a picture that has this size before it is turned upright, decoded at a scale of 1 to `by`.
    pub(super) fn new(size: [usize; 2], by: usize, orientation: Orientation, peak: usize) -> Self {
        let [file_width, file_height] = upright_size(size.map(|side| side as u32), orientation);
        let [width, height] = [file_width, file_height].map(|side| side.div_ceil(by as u32));
        Self { file_width, file_height, width, height, peak: peak as u64 }
    }

    /// For a picture that is in memory in another form and becomes red, green and blue bytes.
    pub fn of_pixels(width: u32, height: u32) -> Self {
        let peak = 3 * u64::from(width) * u64::from(height);
        Self { file_width: width, file_height: height, width, height, peak }
    }

    /// Bytes of the decoded picture.
    pub fn picture_bytes(&self) -> u64 {
        3 * u64::from(self.width) * u64::from(self.height)
    }

    /// Most bytes while the picture is decoded, and then it or a crop of it is scaled to an input's size.
    pub fn with_scaling(&self, input: &Preprocessing) -> u64 {
        let [width, height] = [self.width, self.height].map(u64::from);
        // A crop of aspect ratio 4/3, or of the input's own.
        let canvas @ [input_width, input_height] = input.canvas().map(u64::from);
        let own = height * input_width / input_height.max(1);
        let crop = width.min((width * height * 4 / 3).isqrt().max(own) + 1);
        let scaled = resize_memory([crop, height], canvas);
        self.peak.max(self.picture_bytes() + scaled)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use ::image::{ImageFormat, RgbImage};

    use crate::image::{self, Look, MAX_MEMORY, Preprocessing};

    fn written(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Vec::new();
        RgbImage::new(width, height).write_to(&mut Cursor::new(&mut bytes), format).unwrap();
        bytes
    }

    #[test]
    fn the_announced_size_is_that_of_the_decoded_picture() {
        // One entry of EXIF data: to be turned by a quarter.
        let exif = [&b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01"[..], b"\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"];
        let jpeg = written(40, 30, ImageFormat::Jpeg);
        let turned = [&jpeg[..2], &exif.concat(), &jpeg[2..]].concat();
        let pictures = [
            jpeg,
            turned,
            written(40, 30, ImageFormat::Png),
            written(5000, 4000, ImageFormat::Png),
            written(5000, 4500, ImageFormat::Jpeg),
        ];
        for bytes in pictures {
            let (memory, picture) = (image::decoding_cost(&bytes).unwrap(), image::decode(&bytes).unwrap());
            assert_eq!((memory.width, memory.height), picture.dimensions());
            assert_eq!((memory.file_width, memory.file_height), image::size(&bytes).unwrap());
            assert_eq!(memory.picture_bytes(), picture.as_raw().len() as u64);
            assert!((memory.picture_bytes()..=MAX_MEMORY).contains(&memory.peak), "{memory:?}");
        }
        let large = written(2000, 1500, ImageFormat::Jpeg);
        for (side, width) in [(100, 250), (300, 500), (1000, 2000)] {
            let memory = image::decoding_cost_reduced(&large, side).unwrap();
            assert_eq!(image::decode_reduced(&large, side).unwrap().dimensions(), (memory.width, memory.height));
            assert_eq!(memory.width, width);
        }
        assert!(image::decoding_cost(b"GIF89a").is_err() && image::decoding_cost(b"").is_err());
    }

    #[test]
    fn scaling_takes_a_crop_and_not_the_whole_of_a_long_picture() {
        let input = Preprocessing { width: 224, height: 224, mean: [0.0; 3], deviation: [1.0; 3], look: Look::WHOLE };
        let long = image::DecodingCost::of_pixels(65_535, 300);
        assert!(long.with_scaling(&input) < long.picture_bytes() + (20 << 20));
        let (small, large) = (image::DecodingCost::of_pixels(1, 1), image::DecodingCost::of_pixels(4600, 4600));
        assert!(small.with_scaling(&input) >= 3 * 224 * 224 && large.with_scaling(&input) < 96 << 20);
    }
}

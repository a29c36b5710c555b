//! Pictures: from a file's bytes to the backbone's input.

use std::fmt;
use std::io::{self, Cursor};
use std::path::Path;
use std::vec::Vec;

use ::image::imageops::{self, FilterType};
use ::image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};
use serde::{Deserialize, Serialize};

use crate::files;

/// Largest width and height of a picture, in pixels.
pub const MAX_SIDE: u32 = 4096;
/// Most bytes that a decoded picture may take.
pub const MAX_DECODED: u64 = 64 << 20;
/// Largest picture file that is read, in bytes.
pub const MAX_FILE: u64 = 64 << 20;

/// What the backbone expects of its input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preprocessing {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Mean of red, green and blue, in 0..1.
    pub mean: [f32; 3],
    /// Deviation of red, green and blue, in 0..1.
    pub deviation: [f32; 3],
}

/// Why a picture could not be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImageError {
    /// The file could not be read.
    Read(io::Error),
    /// The bytes are neither JPEG nor PNG.
    Format,
    /// The picture is larger than [`MAX_SIDE`] or takes more than [`MAX_DECODED`] bytes.
    TooLarge,
    /// The picture is damaged; what the decoder said.
    Damaged(std::string::String),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot be read: {error}"),
            Self::Format => write!(f, "is neither a JPEG nor a PNG picture"),
            Self::TooLarge => write!(
                f,
                "is too large: at most {MAX_SIDE} x {MAX_SIDE} pixels and {} MiB decoded are accepted",
                MAX_DECODED >> 20
            ),
            Self::Damaged(reason) => write!(f, "is damaged: {reason}"),
        }
    }
}

impl std::error::Error for ImageError {}

/// Reads a JPEG or PNG file, turned upright as its EXIF data say.
///
/// # Errors
/// [`ImageError`] if the file cannot be read, is no such picture, is damaged or too large.
pub fn open(path: &Path) -> Result<RgbImage, ImageError> {
    decode(&files::read(path, MAX_FILE).map_err(ImageError::Read)?)
}

/// Decodes the bytes of a JPEG or PNG file, turned upright as its EXIF data say.
///
/// # Errors
/// [`ImageError`] if the bytes are no such picture, are damaged or cut off, or decode to something too large.
pub fn decode(bytes: &[u8]) -> Result<RgbImage, ImageError> {
    let failed = |error: ::image::ImageError| match error {
        ::image::ImageError::Limits(_) => ImageError::TooLarge,
        other => ImageError::Damaged(std::string::ToString::to_string(&other).trim_end().into()),
    };
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(ImageError::Read)?;
    if !matches!(reader.format(), Some(ImageFormat::Jpeg | ImageFormat::Png)) {
        return Err(ImageError::Format);
    }
    if reader.format() == Some(ImageFormat::Jpeg) && !is_whole(bytes) {
        return Err(ImageError::Damaged("it has no end, as a file that was cut off".into()));
    }
    let mut limits = Limits::default();
    (limits.max_image_width, limits.max_image_height) = (Some(MAX_SIDE), Some(MAX_SIDE));
    limits.max_alloc = Some(MAX_DECODED);
    // Before the decoder is made: PNG's unpacks texts and colour profiles within the limits that it is made with.
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(failed)?;
    if decoder.total_bytes() > MAX_DECODED {
        return Err(ImageError::TooLarge);
    }
    let orientation = decoder.orientation().map_err(failed)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(failed)?;
    picture.apply_orientation(orientation);
    Ok(picture.into_rgb8())
}

/// Whether a JPEG file has the marker that ends its picture. Decoders fill what is missing before it with grey.
fn is_whole(jpeg: &[u8]) -> bool {
    let mut rest = jpeg;
    loop {
        let skipped = match *rest {
            [0xff, 0xd9, ..] => return true,
            // Alone: a byte of a scan that is 0xff itself, and markers of the start and of restarts.
            [0xff, 0x00 | 0x01 | 0xd0..=0xd8, ..] => 2,
            // Filling before a marker.
            [0xff, 0xff, ..] => 1,
            // A segment; it may hold a preview, with an end of its own.
            [0xff, _, high, low, ..] => 2 + usize::from(u16::from_be_bytes([high, low])),
            [_, ..] => 1,
            [] => return false,
        };
        rest = rest.get(skipped..).unwrap_or_default();
    }
}

/// A picture from planes of red, green and blue bytes, row-major.
///
/// # Panics
/// If `planes` does not hold `3 * width * height` bytes.
pub fn from_planes(width: u32, height: u32, planes: &[u8]) -> RgbImage {
    let pixels = (width * height) as usize;
    assert_eq!(planes.len(), 3 * pixels, "planes do not match the size");
    let interleaved = (0..pixels).flat_map(|pixel| [planes[pixel], planes[pixels + pixel], planes[2 * pixels + pixel]]);
    RgbImage::from_raw(width, height, interleaved.collect()).expect("length was checked")
}

impl Preprocessing {
    /// Whether the values make sense; to be asked after decoding.
    pub fn is_sound(&self) -> bool {
        let sides = [self.width, self.height].iter().all(|side| (1..=1024).contains(side));
        let finite = self.mean.iter().chain(&self.deviation).all(|value| value.is_finite());
        sides && finite && self.deviation.iter().all(|value| *value > 0.0)
    }

    /// The largest centred part of the picture with the input's aspect ratio, scaled to the input's size.
    pub fn fit(&self, picture: &RgbImage) -> RgbImage {
        let (width, height) = (u64::from(picture.width()), u64::from(picture.height()));
        let (wanted_width, wanted_height) = (u64::from(self.width), u64::from(self.height));
        let crop_width = width.min(height * wanted_width / wanted_height).max(1);
        let crop_height = height.min(width * wanted_height / wanted_width).max(1);
        self.scale(
            picture,
            [(width - crop_width) / 2, (height - crop_height) / 2, crop_width, crop_height].map(|value| value as u32),
        )
    }

    /// The part `[x, y, width, height]` of the picture, scaled to the input's size (triangle filter, antialiased).
    pub(crate) fn scale(&self, picture: &RgbImage, [x, y, width, height]: [u32; 4]) -> RgbImage {
        let part = imageops::crop_imm(picture, x, y, width, height).to_image();
        if (width, height) == (self.width, self.height) {
            return part;
        }
        imageops::resize(&part, self.width, self.height, FilterType::Triangle)
    }

    /// Appends the normalised planes of a picture of the input's size.
    ///
    /// # Shapes
    /// Appends f32 `[3, height, width]`: (byte / 255 - mean) / deviation.
    /// # Panics
    /// If the picture has another size.
    pub fn append(&self, picture: &RgbImage, planes: &mut Vec<f32>) {
        assert_eq!((picture.width(), picture.height()), (self.width, self.height), "picture was not fitted");
        for channel in 0..3 {
            let (mean, deviation) = (self.mean[channel], self.deviation[channel]);
            planes.extend(picture.pixels().map(|pixel| (f32::from(pixel[channel]) / 255.0 - mean) / deviation));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(picture: &RgbImage) -> Vec<u8> {
        let mut bytes = Vec::new();
        picture.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).unwrap();
        bytes
    }

    #[test]
    fn a_picture_is_cropped_in_the_middle_and_normalised() {
        let picture = RgbImage::from_fn(8, 4, |x, _| ::image::Rgb([if (2..6).contains(&x) { 255 } else { 0 }, 51, 0]));
        let input = Preprocessing { width: 4, height: 4, mean: [0.5; 3], deviation: [0.5; 3] };
        let mut planes = Vec::new();
        input.append(&input.fit(&decode(&png(&picture)).unwrap()), &mut planes);
        assert!(planes[..16].iter().all(|value| *value == 1.0));
        assert!(planes[16..32].iter().all(|value| (value + 0.6).abs() < 1e-6));
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        assert!(matches!(decode(b"GIF89a"), Err(ImageError::Format)));
        assert!(matches!(decode(b""), Err(ImageError::Format)));
        let bytes = png(&RgbImage::new(40, 40));
        assert!(matches!(decode(&bytes[..bytes.len() / 2]), Err(ImageError::Damaged(_))));
        assert!(matches!(decode(&png(&RgbImage::new(4097, 1))), Err(ImageError::TooLarge)));
    }

    #[test]
    fn half_a_jpeg_is_refused_and_bytes_behind_one_do_no_harm() {
        let picture = RgbImage::from_fn(64, 64, |x, y| ::image::Rgb([(x * y) as u8, (x * 7) as u8, (y * 5) as u8]));
        let mut bytes = Vec::new();
        picture.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Jpeg).unwrap();
        // A small picture for previews within the file, as cameras write it, has an end of its own; before markers may
        // stand any number of 0xff; restarts stand between blocks of a scan.
        let preview = [&[0xff, 0xe1, 0, 7][..], &[0xff, 0xda, 0xff, 0xd9, 0]].concat();
        let camera = [&bytes[..2], &preview, &[0xff, 0xff], &bytes[2..]].concat();
        for whole in [&bytes, &camera] {
            assert_eq!(decode(whole).unwrap().dimensions(), (64, 64));
            assert!(decode(&[whole, &[0u8; 100][..]].concat()).is_ok());
            for length in 0..whole.len() {
                assert!(decode(&whole[..length]).is_err(), "length {length}");
            }
        }
        let scan = |inner: &[u8]| [&[0xff, 0xd8, 0xff, 0xda, 0, 2][..], inner, &[0xff, 0xd9]].concat();
        for inner in [&[1, 0xff, 0xd0, 2, 0xff, 0xd7][..], &[0xff, 0, 0xff, 0xc4, 0, 4, 0xff, 0xd9, 5], &[0xff, 0xff]] {
            let whole = scan(inner);
            assert!(is_whole(&whole) && (0..whole.len()).all(|length| !is_whole(&whole[..length])), "{inner:x?}");
        }
    }
}

//! WebP: whole pictures in bounded memory. There is no way to read one at reduced scale: what would take more memory is
//! refused, and so are animations.

mod lossless;

use std::io::Cursor;

use ::image::RgbImage;
use ::image::metadata::Orientation;
use image_webp::{DecodingError, WebPDecoder};

use self::lossless::CodeGroups;
use super::colours::{self, Conversion, ProfileKind};
use super::{
    DecodedPicture, DecodingCost, ImageError, MAX_MEMORY, UnsupportedFormat, blend, check_size, exif, swaps_sides,
    upright,
};

/// Bytes of the container's head: `RIFF`, the number of bytes that follow, `WEBP`.
const HEAD: usize = 12;
/// Most bytes that the decoder takes for its tables.
const OVERHEAD: usize = 4 << 20;

/// Whether a file with these first bytes is one.
pub(super) fn is_webp(start: &[u8]) -> bool {
    start.len() >= HEAD && start.starts_with(b"RIFF") && start[8..HEAD] == *b"WEBP"
}

/// Decodes a WebP file.
pub(super) fn decode(webp: &[u8]) -> Result<DecodedPicture, ImageError> {
    WebpFile::read(webp)?.decode()
}

/// The memory that [`decode`] takes for the same file.
pub(super) fn decoding_cost(webp: &[u8]) -> Result<DecodingCost, ImageError> {
    let file = WebpFile::read(webp)?;
    Ok(DecodingCost::new(file.size(), 1, file.orientation, file.peak_bytes()?))
}

/// Width and height as they are stored, and how the picture is to be turned.
pub(super) fn size(webp: &[u8]) -> Result<((u32, u32), Orientation), ImageError> {
    let file = WebpFile::read(webp)?;
    Ok((file.decoder.dimensions(), file.orientation))
}

/// A WebP file whose chunks have been found.
struct WebpFile<'a> {
    decoder: WebPDecoder<Cursor<&'a [u8]>>,
    orientation: Orientation,
    conversion: Option<Conversion>,
    is_lossy: bool,
    file: &'a [u8],
}

impl<'a> WebpFile<'a> {
    fn read(webp: &'a [u8]) -> Result<Self, ImageError> {
        check_whole(webp)?;
        let mut decoder = WebPDecoder::new(Cursor::new(webp)).map_err(failed)?;
        let (width, height) = decoder.dimensions();
        check_size(width, height)?;
        if decoder.is_animated() {
            return Err(ImageError::Unsupported(UnsupportedFormat::ANIMATED_WEBP));
        }
        if width == 0 || height == 0 {
            return Err(ImageError::Damaged("it has no pixels".into()));
        }
        decoder.set_memory_limit(colours::MAX_PROFILE);
        let found = decoder.exif_metadata().ok().flatten();
        let orientation = found.and_then(|found| exif::orientation(&found)).unwrap_or(Orientation::NoTransforms);
        let icc = decoder.icc_profile().ok().flatten();
        let conversion = icc.and_then(|icc| Conversion::of_profile(&icc, ProfileKind::Rgb));
        let is_lossy = decoder.is_lossy();
        Ok(Self { decoder, orientation, conversion, is_lossy, file: webp })
    }

    /// Width and height as they are stored.
    fn size(&self) -> [usize; 2] {
        let (width, height) = self.decoder.dimensions();
        [width, height].map(|side| side as usize)
    }

    /// Most bytes that decoding takes, the file apart.
    fn peak_bytes(&self) -> Result<usize, ImageError> {
        let [width, height] = self.size().map(|side| side.next_multiple_of(16));
        let converting = Conversion::peak_bytes(self.conversion.as_ref());
        // A lossy file is copied in parts.
        let copied = if self.is_lossy { self.file.len() } else { 0 };
        let bytes = self.within(OVERHEAD + converting + copied + self.bytes_each() * width * height)?;
        self.within(bytes + self.code_groups()?.bytes())
    }

    /// This number of bytes, if decoding may take them.
    fn within(&self, bytes: usize) -> Result<usize, ImageError> {
        let (width, height) = self.decoder.dimensions();
        if bytes <= MAX_MEMORY as usize { Ok(bytes) } else { Err(ImageError::LargeWebp { width, height }) }
    }

    /// The groups of codes of what is lossless: the picture, or the transparency of a lossy one.
    fn code_groups(&self) -> Result<CodeGroups, ImageError> {
        let size = self.size();
        // The decoder takes the first of each kind, too.
        let first =
            |wanted: &[u8; 4]| WebpChunks(&self.file[HEAD..]).find(|(name, _)| *name == wanted).map(|(_, chunk)| chunk);
        let picture = first(b"VP8L").map_or(Ok(CodeGroups(0)), |chunk| CodeGroups::of_picture(chunk, size));
        let transparency = match first(b"ALPH") {
            // The lowest two bits say whether it is compressed.
            Some([head, stream @ ..]) if head & 3 == 1 => CodeGroups::of_stream(stream, size),
            _ => Ok(CodeGroups(0)),
        };
        let damaged = |_| ImageError::Damaged("its codes make no sense".into());
        let (CodeGroups(picture), CodeGroups(transparency)) =
            (picture.map_err(damaged)?, transparency.map_err(damaged)?);
        Ok(CodeGroups(picture + transparency))
    }

    /// Most bytes for each pixel.
    fn bytes_each(&self) -> usize {
        /// Luma, chroma at half its width and height, and what is known of each block.
        const LOSSY: usize = 2;
        /// What predicts pixels of a lossless picture.
        const LOSSLESS: usize = 1;
        /// Transparency is coded as a lossless picture of its own.
        const TRANSPARENCY: usize = LOSSLESS + 4 + 1;
        let (rgb, rgba) = (3, 4);
        let decoding = match (self.is_lossy, self.decoder.has_alpha()) {
            (true, true) => LOSSY + TRANSPARENCY + rgba,
            (true, false) => LOSSY + rgb,
            (false, true) => LOSSLESS + rgba,
            (false, false) => LOSSLESS + rgba + rgb,
        };
        decoding.max(if swaps_sides(self.orientation) { 2 * rgb } else { 0 })
    }

    /// The picture, upright, on white and in sRGB's colours.
    fn decode(mut self) -> Result<DecodedPicture, ImageError> {
        self.peak_bytes()?;
        let (width, height) = self.decoder.dimensions();
        let mut pixels = vec![0; self.decoder.output_buffer_size().ok_or(ImageError::TooLarge)?];
        self.decoder.read_image(&mut pixels).map_err(failed)?;
        if self.decoder.has_alpha() {
            put_on_white(&mut pixels);
        }
        let picture = RgbImage::from_raw(width, height, pixels).expect("as many bytes as the size asks for");
        let mut picture = upright(picture.into(), self.orientation).into_rgb8();
        if let Some(conversion) = &self.conversion {
            conversion.apply(&mut picture);
        }
        Ok(DecodedPicture::new(picture, self.size(), self.orientation))
    }
}

/// The chunks of a file, each with its name.
struct WebpChunks<'a>(&'a [u8]);

impl<'a> Iterator for WebpChunks<'a> {
    type Item = (&'a [u8; 4], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = self.0.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = (u32::from_le_bytes(*length) as usize).min(rest.len());
        let (chunk, rest) = rest.split_at(length);
        // One byte more where the number is odd.
        self.0 = rest.get(length % 2..).unwrap_or_default();
        Some((name, chunk))
    }
}

/// Whether all bytes are there that the head announces: the decoder would fill up what is missing.
fn check_whole(webp: &[u8]) -> Result<(), ImageError> {
    let announced =
        webp.get(4..8).and_then(|length| length.first_chunk::<4>()).map_or(0, |four| u32::from_le_bytes(*four));
    let is_whole = webp.len() as u64 >= 8 + u64::from(announced);
    if is_whole { Ok(()) } else { Err(ImageError::Damaged("its end is missing".into())) }
}

/// Red, green, blue and alpha become red, green and blue, in place.
fn put_on_white(pixels: &mut Vec<u8>) {
    let count = pixels.len() / 4;
    for pixel in 0..count {
        let alpha = pixels[4 * pixel + 3];
        for channel in 0..3 {
            pixels[3 * pixel + channel] = blend(pixels[4 * pixel + channel], alpha);
        }
    }
    pixels.truncate(3 * count);
    pixels.shrink_to_fit();
}

fn failed(error: DecodingError) -> ImageError {
    match error {
        DecodingError::ImageTooLarge | DecodingError::MemoryLimitExceeded => ImageError::TooLarge,
        other => ImageError::Damaged(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use ::image::Rgb;
    use image_webp::{ColorType, WebPEncoder};

    use super::*;
    use crate::image;

    /// A lossless file of pixels of that kind.
    fn webp(size: [u32; 2], colours: ColorType, pixels: &[u8], exif: Option<Vec<u8>>) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = WebPEncoder::new(&mut file);
        if let Some(exif) = exif {
            encoder.set_exif_metadata(exif);
        }
        encoder.encode(pixels, size[0], size[1], colours).unwrap();
        file
    }

    fn picture() -> RgbImage {
        RgbImage::from_fn(40, 30, |x, y| Rgb([(x * 6) as u8, (y * 8) as u8, (x * y) as u8]))
    }

    #[test]
    fn a_lossless_picture_comes_back_to_the_bit_and_is_turned_as_its_exif_data_say() {
        let picture = picture();
        let file = webp([40, 30], ColorType::Rgb8, picture.as_raw(), None);
        assert_eq!(image::decode(&file).unwrap(), picture);
        assert_eq!(image::size(&file).unwrap(), (40, 30));
        let quarter = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0".to_vec();
        let turned = webp([40, 30], ColorType::Rgb8, picture.as_raw(), Some(quarter.clone()));
        assert_eq!(image::size(&turned).unwrap(), (30, 40));
        let upright = image::decode(&turned).unwrap();
        assert_eq!(upright, ::image::imageops::rotate90(&picture));
        let as_in_jpeg = webp([40, 30], ColorType::Rgb8, picture.as_raw(), Some([b"Exif\0\0", &quarter[..]].concat()));
        assert_eq!(image::size(&as_in_jpeg).unwrap(), (30, 40));
        assert_eq!(image::decode(&as_in_jpeg).unwrap(), upright);
        let cost = image::decoding_cost(&turned).unwrap();
        assert_eq!((cost.width, cost.height), upright.dimensions());
        assert!((cost.picture_bytes()..=MAX_MEMORY).contains(&cost.peak), "{cost:?}");
    }

    #[test]
    fn a_lossy_picture_is_as_another_decoder_reads_it() {
        // Written by libwebp, of the same 40 x 30 pixels.
        let [lossy, transparent] =
            [&include_bytes!("samples/lossy.webp")[..], include_bytes!("samples/transparent.webp")];
        let near = |one: &RgbImage, other: &RgbImage| {
            let differences = one.as_raw().iter().zip(other.as_raw()).map(|(a, b)| u64::from(a.abs_diff(*b)));
            differences.sum::<u64>() as f64 / one.as_raw().len() as f64
        };
        let decoded = image::decode(lossy).unwrap();
        assert!(near(&decoded, &picture()) < 8.0, "{}", near(&decoded, &picture()));
        // Its left half is transparent.
        let decoded = image::decode(transparent).unwrap();
        assert_eq!(decoded.get_pixel(3, 15).0, [255; 3]);
        // Chroma is coarse: red and green change slowly, blue does not.
        let [seen, meant] = [decoded.get_pixel(36, 15).0, picture().get_pixel(36, 15).0];
        assert!((0..2).all(|channel| seen[channel].abs_diff(meant[channel]) < 40), "{seen:?} {meant:?}");
    }

    #[test]
    fn colours_below_transparent_pixels_do_not_matter() {
        let pixels = |hidden: [u8; 3]| {
            let pixel = move |index: usize| match index % 2 {
                0 => [hidden[0], hidden[1], hidden[2], 0],
                _ => [100, 100, 100, 128],
            };
            let all: Vec<u8> = (0..64).flat_map(pixel).collect();
            image::decode(&webp([8, 8], ColorType::Rgba8, &all, None)).unwrap()
        };
        assert_eq!(pixels([0; 3]), pixels([9, 200, 70]));
        assert_eq!([0, 1].map(|x| pixels([1; 3]).get_pixel(x, 0).0), [[255; 3], [177; 3]]);
    }

    #[test]
    fn what_is_cut_off_damaged_or_too_large_is_refused() {
        let file = webp([40, 30], ColorType::Rgb8, picture().as_raw(), None);
        for length in 0..file.len() {
            assert!(image::decode(&file[..length]).is_err(), "length {length}");
        }
        let lossy = include_bytes!("samples/lossy.webp");
        for length in 0..lossy.len() {
            assert!(image::decode(&lossy[..length]).is_err(), "length {length}");
        }
        // Lossless, of that many pixels a side.
        let head = |side: u32| {
            let mut head = b"RIFF\x16\0\0\0WEBPVP8L\x0a\0\0\0\x2f".to_vec();
            head.extend(((side - 1) | (side - 1) << 14).to_le_bytes());
            head.resize(30, 0);
            head
        };
        assert!(matches!(image::decode(&head(16_383)), Err(ImageError::TooLarge)));
        assert!(matches!(image::decoding_cost(&head(16_383)), Err(ImageError::TooLarge)));
        // Of fewer pixels than other formats may have.
        let told = "is a WebP picture of 4096 x 4096 pixels, too large to decode within 64 MiB: save it as JPEG or make it \
                    smaller";
        assert_eq!(image::decode(&head(4096)).unwrap_err().to_string(), told);
        assert_eq!(image::decoding_cost(&head(4096)).unwrap_err().to_string(), told);
    }

    #[test]
    fn a_small_file_with_very_many_tables_is_refused_before_any_is_made() {
        // Bits, the lowest first: one pixel, no transforms, no cache, groups of codes by an image of one pixel whose
        // red and green say that 65,536 groups follow.
        let mut bits: Vec<bool> = Vec::new();
        let mut put = |number: u32, count: u32| bits.extend((0..count).map(|place| number >> place & 1 == 1));
        put(0, 1); // no transform
        put(0, 1); // no cache
        put(1, 1); // groups
        put(0, 3); // of 4 x 4 pixels
        put(0, 1); // no cache
        for symbol in [255, 255, 0, 0, 0] {
            put(0b101, 3); // one symbol, of 8 bits
            put(symbol, 8);
        }
        let stream = bits.chunks(8).map(|eight| eight.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
        let chunk: Vec<u8> = [0x2f, 0, 0, 0, 0].into_iter().chain(stream).collect();
        let padded = chunk.len().next_multiple_of(2);
        let mut file = [&b"RIFF"[..], &(12 + padded as u32).to_le_bytes(), b"WEBPVP8L"].concat();
        file.extend((chunk.len() as u32).to_le_bytes());
        file.extend(&chunk);
        file.resize(20 + padded, 0);
        assert_eq!(CodeGroups::of_picture(&chunk, [1, 1]), Ok(CodeGroups(65_536)));
        assert!(matches!(image::decode(&file), Err(ImageError::LargeWebp { width: 1, height: 1 })));
        assert_eq!(image::size(&file).unwrap(), (1, 1));
        // One of libwebp's own, with four groups, is read.
        let regions = image::decode(include_bytes!("samples/regions.webp")).unwrap();
        assert_eq!((regions.dimensions(), regions.get_pixel(20, 20).0), ((256, 192), [16, 16, 128]));
    }
}

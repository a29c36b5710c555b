//! Whole pictures, decoded by `zune-jpeg`.
//!
//! The decoder would keep copies of the metadata in a file: of what spreads over several segments two, and after every
//! segment it would look through all of them again. Nothing of the metadata is needed here, so it gets a copy of the
//! file in which they are segments that it passes over.

use ::image::{DynamicImage, GrayImage, RgbImage};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::frame::{APP14, Colours, EOI, JpegFrame, Segments, adobe_transform};
use super::scan;
use crate::image::{ImageError, swaps_sides};

/// The markers of metadata that the decoder keeps: EXIF and XMP, ICC profiles, IPTC.
const METADATA: [u8; 3] = [0xe1, 0xe2, 0xed];
/// A marker of application data of which no meaning is known.
const UNKNOWN: u8 = 0xef;

/// Whether the decoder reads such a picture. It refuses sampling factors of 3, and misplaces the blocks of a picture
/// whose first component has fewer samples than another, and of a sequential one whose components come in several
/// scans.
pub(super) fn can_read(frame: &JpegFrame) -> bool {
    let has_thirds = frame.components.iter().any(|own| own.sampling.contains(&3));
    let is_first_finest = frame.components[0].sampling == frame.sampling;
    (frame.progressive || frame.interleaved) && is_first_finest && !has_thirds
}

/// Decodes the picture as it is stored. Its scans must have been [walked](super::scan::walk) through.
pub(super) fn decode(jpeg: &[u8], frame: &JpegFrame) -> Result<DynamicImage, ImageError> {
    let [width, height] = frame.size;
    let is_grey = frame.colours == Colours::Grey;
    let (colours, samples) = if is_grey { (ColorSpace::Luma, 1) } else { (ColorSpace::RGB, 3) };
    let options = DecoderOptions::default().set_strict_mode(false).jpeg_set_out_colorspace(colours);
    let options = options.set_max_width(width).set_max_height(height);
    let file = without_metadata(jpeg, frame.colours);
    let mut pixels = vec![0; samples * width * height];
    JpegDecoder::new_with_options(ZCursor::new(file.as_slice()), options)
        .decode_into(&mut pixels)
        .map_err(|error| ImageError::Damaged(error.to_string().trim_end().into()))?;
    let (width, height) = (width as u32, height as u32);
    let picture = if is_grey {
        GrayImage::from_raw(width, height, pixels).map(DynamicImage::from)
    } else {
        RgbImage::from_raw(width, height, pixels).map(DynamicImage::from)
    };
    Ok(picture.expect("as many bytes as the size asks for"))
}

/// A copy of the file whose metadata have the marker of [`UNKNOWN`] data. So has Adobe's segment where it names RGB and
/// the header of JFIF, which the decoder does not read, YCbCr.
fn without_metadata(jpeg: &[u8], colours: Colours) -> Vec<u8> {
    let mut file = jpeg.to_vec();
    let mut segments = Segments::with_scans(jpeg);
    while let Ok((marker, content)) = segments.next()
        && marker != EOI
    {
        let names_rgb = adobe_transform(content) == Some(0);
        if METADATA.contains(&marker) || marker == APP14 && names_rgb && colours == Colours::YCbCr {
            // Before the content stand the marker and two bytes of its length.
            file[segments.at - content.len() - 3] = UNKNOWN;
        }
    }
    file
}

/// Most bytes that decoding the whole picture takes, its file apart.
pub(super) fn peak_bytes(frame: &JpegFrame, file: usize) -> usize {
    let pixels = frame.size[0] * frame.size[1];
    let grey = frame.colours == Colours::Grey;
    let decoded = if grey { pixels } else { 3 * pixels };
    // The decoder gets a copy of the file, and keeps all coefficients until the last scan.
    let coefficients = if frame.progressive { 64 * size_of::<i16>() * frame.blocks() } else { 0 };
    let turned = if swaps_sides(frame.orientation) { decoded } else { 0 };
    let converted = if grey { 3 * pixels } else { 0 };
    scan::peak_bytes(frame).max(file + decoded + coefficients.max(turned).max(converted))
}

//! JPEG: whole pictures as they are, large ones at a half, a quarter or an eighth of their size, in bounded memory.
//!
//! Every scan is walked through first ([`scan`]), since decoders fill what is missing with grey. A picture that can be
//! decoded within the bounds of memory is then decoded by `zune-jpeg`; of a larger one the walk itself keeps as much as
//! its reduced picture needs. (No kept library decodes at reduced scale: `zune-jpeg` has none, `jpeg-decoder` keeps all
//! coefficients of progressive pictures and reads what is missing as zeros.)

mod bits;
mod frame;
mod profile;
mod reduced;
mod scan;
#[cfg(test)]
mod tests;

use std::io::Cursor;

use ::image::codecs::jpeg::JpegDecoder;
use ::image::metadata::Orientation;
use ::image::{DynamicImage, RgbImage};

use super::colours::{self, Conversion, ProfileKind};
use super::{DecodingMemory, ImageError, MAX_MEMORY, check_size, damaged, swaps_sides, turned};
use frame::{Colours, JpegFrame};
use reduced::Reduced;

/// Small change: tables, rows of blocks, what the decoder holds besides.
const BESIDES: usize = 2 << 20;

/// How a picture is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// By the decoder, as it is.
    Whole,
    /// At a scale of 1 to `by`, from so much [detail](reduced::DETAIL).
    Reduced { by: usize, detail: usize },
}

impl Plan {
    /// For a file of so many bytes, with the most bytes that decoding it takes, `besides` the picture's own among them.
    fn of(frame: &JpegFrame, file: usize, besides: usize) -> Result<(Self, usize), ImageError> {
        check_size(frame.size[0] as u32, frame.size[1] as u32)?;
        let reduced = [2, 4, 8].into_iter().flat_map(|by| reduced::DETAIL.map(|detail| Self::Reduced { by, detail }));
        let plans = core::iter::once(Self::Whole).chain(reduced);
        let mut plans = plans.map(|plan| (plan, besides + plan.bytes(frame, file)));
        plans.find(|(_, bytes)| *bytes <= MAX_MEMORY as usize).ok_or(ImageError::TooLarge)
    }

    /// The smallest scale that leaves so many pixels a side, if it is smaller than that of [`Plan::of`].
    fn leaving(frame: &JpegFrame, side: u32, besides: usize) -> Result<Option<(Self, usize)>, ImageError> {
        let [width, height] = frame.size;
        check_size(width as u32, height as u32)?;
        // Of a whole block one coefficient tells the mean, of its quarters four do nearly. To make less than that of a
        // picture takes longer than all of it.
        let plans = [(8, 1), (4, 2)].into_iter().filter(|(by, _)| width.min(height).div_ceil(*by) >= side as usize);
        let plans = plans.map(|(by, detail)| Self::Reduced { by, detail });
        let mut plans = plans.map(|plan| (plan, besides + plan.bytes(frame, 0)));
        Ok(plans.find(|(_, bytes)| *bytes <= MAX_MEMORY as usize))
    }

    fn needs(self, frame: &JpegFrame, bytes: usize) -> DecodingMemory {
        DecodingMemory::new(frame.size.map(|side| side.div_ceil(self.scale())), frame.orientation, bytes)
    }

    fn bytes(self, frame: &JpegFrame, file: usize) -> usize {
        match self {
            Self::Whole => whole(frame, file),
            Self::Reduced { by, detail } => at_reduced_scale(frame, by, detail),
        }
    }

    fn scale(self) -> usize {
        match self {
            Self::Whole => 1,
            Self::Reduced { by, .. } => by,
        }
    }
}

/// Decodes a JPEG file.
pub(super) fn decode(jpeg: &[u8]) -> Result<RgbImage, ImageError> {
    let failed = |damage: bits::Damage| ImageError::Damaged(damage.into());
    let frame = JpegFrame::read(jpeg).map_err(failed)?;
    let conversion = conversion(jpeg, &frame);
    let (plan, _) = Plan::of(&frame, jpeg.len(), besides(conversion.as_ref()))?;
    let picture = match plan {
        Plan::Whole => {
            scan::walk(jpeg, &frame, None).map_err(failed)?;
            let picture = JpegDecoder::new(Cursor::new(jpeg)).and_then(DynamicImage::from_decoder).map_err(damaged)?;
            turned(picture, frame.orientation).into_rgb8()
        }
        Plan::Reduced { by, detail } => reduce(jpeg, &frame, by, detail).map_err(failed)?,
    };
    Ok(converted(picture, conversion.as_ref()))
}

/// What turns the picture's colours into sRGB's, where they are others. Mixtures of inks stay as they are.
fn conversion(jpeg: &[u8], frame: &JpegFrame) -> Option<Conversion> {
    let kind = match frame.colours {
        Colours::Grey => ProfileKind::Grey,
        Colours::Rgb | Colours::YCbCr => ProfileKind::Rgb,
        Colours::Cmyk | Colours::Ycck => return None,
    };
    profile::read(jpeg).and_then(|icc| Conversion::of_profile(&icc, kind))
}

/// Most bytes that decoding takes beside the picture.
fn besides(conversion: Option<&Conversion>) -> usize {
    BESIDES + conversion.map_or(0, |_| colours::BYTES)
}

/// The picture in sRGB's colours.
fn converted(mut picture: RgbImage, conversion: Option<&Conversion>) -> RgbImage {
    if let Some(conversion) = conversion {
        conversion.apply(&mut picture);
    }
    picture
}

/// What [`decode`] takes for the same file.
pub(super) fn needs(jpeg: &[u8]) -> Result<DecodingMemory, ImageError> {
    let frame = JpegFrame::read(jpeg).map_err(|damage| ImageError::Damaged(damage.into()))?;
    let (plan, bytes) = Plan::of(&frame, jpeg.len(), besides(conversion(jpeg, &frame).as_ref()))?;
    Ok(plan.needs(&frame, bytes))
}

/// Width and height as they are stored, and how the picture is to be turned.
pub(super) fn size(jpeg: &[u8]) -> Result<((u32, u32), Orientation), ImageError> {
    let frame = JpegFrame::read(jpeg).map_err(|damage| ImageError::Damaged(damage.into()))?;
    let [width, height] = frame.size.map(|side| side as u32);
    check_size(width, height)?;
    Ok(((width, height), frame.orientation))
}

/// Decodes a JPEG file at the smallest scale that leaves so many pixels a side.
pub(super) fn decode_reduced(jpeg: &[u8], side: u32) -> Result<RgbImage, ImageError> {
    let failed = |damage: bits::Damage| ImageError::Damaged(damage.into());
    let frame = JpegFrame::read(jpeg).map_err(failed)?;
    let conversion = conversion(jpeg, &frame);
    match Plan::leaving(&frame, side, besides(conversion.as_ref()))?.map(|(plan, _)| plan) {
        Some(Plan::Reduced { by, detail }) => {
            let reduced = reduce(jpeg, &frame, by, detail).map_err(failed)?;
            Ok(converted(reduced, conversion.as_ref()))
        }
        _ => decode(jpeg),
    }
}

/// What [`decode_reduced`] takes for the same file.
pub(super) fn needs_reduced(jpeg: &[u8], side: u32) -> Result<DecodingMemory, ImageError> {
    let frame = JpegFrame::read(jpeg).map_err(|damage| ImageError::Damaged(damage.into()))?;
    let besides = besides(conversion(jpeg, &frame).as_ref());
    let leaving = Plan::leaving(&frame, side, besides)?;
    let (plan, bytes) = leaving.map_or_else(|| Plan::of(&frame, jpeg.len(), besides), Ok)?;
    Ok(plan.needs(&frame, bytes))
}

/// Decodes at a scale of 1 to `by`: 2, 4 or 8.
fn reduce(jpeg: &[u8], frame: &JpegFrame, by: usize, detail: usize) -> Result<RgbImage, bits::Damage> {
    let mut planes = Reduced::new(frame, by, detail);
    scan::walk(jpeg, frame, Some(&mut planes))?;
    let (width, height, rgb) = planes.to_rgb(frame, by);
    drop(planes);
    let picture = RgbImage::from_raw(width, height, rgb).expect("as many bytes as the size asks for");
    Ok(turned(picture.into(), frame.orientation).into_rgb8())
}

/// Most bytes that decoding the whole picture takes, its file apart.
fn whole(frame: &JpegFrame, file: usize) -> usize {
    let pixels = frame.size[0] * frame.size[1];
    let grey = frame.colours == Colours::Grey;
    let decoded = if grey { pixels } else { 3 * pixels };
    // The decoder keeps all coefficients until the last scan, and a copy of the file.
    let coefficients = if frame.progressive || !frame.together { 64 * size_of::<i16>() * frame.blocks() } else { 0 };
    let turned = if swaps_sides(frame.orientation) { decoded } else { 0 };
    let converted = if grey { 3 * pixels } else { 0 };
    let walked = if frame.progressive { size_of::<u64>() * frame.blocks() } else { 0 };
    walked.max(file + decoded + coefficients.max(turned).max(converted))
}

/// Most bytes that decoding at reduced scale takes, the file apart.
fn at_reduced_scale(frame: &JpegFrame, by: usize, detail: usize) -> usize {
    let pixels = frame.size[0].div_ceil(by) * frame.size[1].div_ceil(by);
    let walked = if frame.progressive { size_of::<u64>() * frame.blocks() } else { 0 };
    let turned = if swaps_sides(frame.orientation) { 3 * pixels } else { 0 };
    let planes = reduced::bytes(frame, by, detail);
    (walked + planes).max(planes + 3 * pixels).max(3 * pixels + turned)
}

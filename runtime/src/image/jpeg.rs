//! JPEG: whole pictures as they are, large ones at a half, a quarter or an eighth of their size, in bounded memory.
//!
//! Every scan is walked through first ([`scan`]), since decoders fill what is missing with grey. A picture that can be
//! decoded within the bounds of memory is then decoded by `zune-jpeg` ([`whole`]); a larger one, and one that
//! `zune-jpeg` cannot read, is decoded during the walk ([`reduced`]), the latter at full size where there is room. (No
//! kept library decodes at reduced scale: `zune-jpeg` has none, `jpeg-decoder` keeps all coefficients of progressive
//! pictures and reads what is missing as zeros.)

mod bits;
mod frame;
mod profile;
mod reduced;
mod scan;
#[cfg(test)]
mod tests;
mod whole;

use ::image::RgbImage;
use ::image::metadata::Orientation;

use super::colours::{Conversion, ProfileKind};
use super::{DecodedPicture, DecodingCost, ImageError, MAX_MEMORY, check_size, swaps_sides, upright};
use bits::Damage;
use frame::{Colours, JpegFrame};
use reduced::ReducedPlanes;

/// The bytes that a JPEG file begins with.
pub(super) const SIGNATURE: [u8; 3] = [0xff, 0xd8, 0xff];

/// Tables, rows of blocks, and what else the decoder holds beside the picture.
const OVERHEAD: usize = 2 << 20;

/// How a picture is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecodingPlan {
    /// As a whole, by the decoder.
    Whole,
    /// At a scale of 1 to `by`, from this much [detail](reduced::DETAIL).
    Reduced { by: usize, detail: usize },
}

impl DecodingPlan {
    fn scale(self) -> usize {
        match self {
            Self::Whole => 1,
            Self::Reduced { by, .. } => by,
        }
    }
}

/// A JPEG file whose header has been read.
struct JpegFile<'a> {
    bytes: &'a [u8],
    frame: JpegFrame,
    conversion: Option<Conversion>,
}

impl<'a> JpegFile<'a> {
    /// Reads the header and the colour profile of a file.
    fn read(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let frame = read_frame(bytes)?;
        let conversion = conversion(bytes, &frame);
        Ok(Self { bytes, frame, conversion })
    }

    /// The largest scale that can be decoded within [`MAX_MEMORY`], with the most detail.
    fn largest_plan(&self) -> Result<DecodingPlan, ImageError> {
        let reduced =
            [2, 4, 8].into_iter().flat_map(|by| reduced::DETAIL.map(|detail| DecodingPlan::Reduced { by, detail }));
        let unreduced = DecodingPlan::Reduced { by: 1, detail: 8 };
        let first = if whole::can_read(&self.frame) { DecodingPlan::Whole } else { unreduced };
        let mut plans = core::iter::once(first).chain(reduced);
        plans.find(|plan| self.fits(*plan)).ok_or(ImageError::TooLarge)
    }

    /// The smallest scale that leaves `side` pixels a side; [`Self::largest_plan`] where none does.
    fn plan_leaving(&self, side: u32) -> Result<DecodingPlan, ImageError> {
        let [width, height] = self.frame.size;
        // One coefficient tells the mean of a whole block, four nearly tell those of its quarters. At a scale of 1/2,
        // decoding takes longer than for the whole picture.
        let plans = [(8, 1), (4, 2)].into_iter().filter(|(by, _)| width.min(height).div_ceil(*by) >= side as usize);
        let mut plans = plans.map(|(by, detail)| DecodingPlan::Reduced { by, detail });
        plans.find(|plan| self.fits(*plan)).map_or_else(|| self.largest_plan(), Ok)
    }

    fn fits(&self, plan: DecodingPlan) -> bool {
        self.peak_bytes(plan) <= MAX_MEMORY as usize
    }

    /// Most bytes that decoding takes, the file apart.
    fn peak_bytes(&self, plan: DecodingPlan) -> usize {
        let converting = Conversion::peak_bytes(self.conversion.as_ref());
        let decoding = match plan {
            DecodingPlan::Whole => whole::peak_bytes(&self.frame, self.bytes.len()),
            DecodingPlan::Reduced { by, detail } => reduced_peak_bytes(&self.frame, by, detail),
        };
        OVERHEAD + converting + decoding
    }

    fn cost(&self, plan: DecodingPlan) -> DecodingCost {
        DecodingCost::new(self.frame.size, plan.scale(), self.frame.orientation, self.peak_bytes(plan))
    }

    /// Decodes the picture, upright and in sRGB's colours.
    fn decode(&self, plan: DecodingPlan) -> Result<RgbImage, ImageError> {
        let mut picture = match plan {
            DecodingPlan::Whole => {
                scan::walk(self.bytes, &self.frame, None).map_err(damaged)?;
                upright(whole::decode(self.bytes, &self.frame)?, self.frame.orientation).into_rgb8()
            }
            DecodingPlan::Reduced { by, detail } => reduce(self.bytes, &self.frame, by, detail).map_err(damaged)?,
        };
        if let Some(conversion) = &self.conversion {
            conversion.apply(&mut picture);
        }
        Ok(picture)
    }
}

/// Decodes a JPEG file.
pub(super) fn decode(jpeg: &[u8]) -> Result<DecodedPicture, ImageError> {
    let file = JpegFile::read(jpeg)?;
    let picture = file.decode(file.largest_plan()?)?;
    Ok(DecodedPicture::new(picture, file.frame.size, file.frame.orientation))
}

/// The memory that [`decode`] takes for the same file.
pub(super) fn decoding_cost(jpeg: &[u8]) -> Result<DecodingCost, ImageError> {
    let file = JpegFile::read(jpeg)?;
    Ok(file.cost(file.largest_plan()?))
}

/// Decodes a JPEG file at the smallest scale that leaves `side` pixels a side.
pub(super) fn decode_reduced(jpeg: &[u8], side: u32) -> Result<RgbImage, ImageError> {
    let file = JpegFile::read(jpeg)?;
    file.decode(file.plan_leaving(side)?)
}

/// The memory that [`decode_reduced`] takes for the same file.
pub(super) fn decoding_cost_reduced(jpeg: &[u8], side: u32) -> Result<DecodingCost, ImageError> {
    let file = JpegFile::read(jpeg)?;
    Ok(file.cost(file.plan_leaving(side)?))
}

/// Width and height as they are stored, and how the picture is to be turned.
pub(super) fn size(jpeg: &[u8]) -> Result<((u32, u32), Orientation), ImageError> {
    let frame = read_frame(jpeg)?;
    let [width, height] = frame.size.map(|side| side as u32);
    Ok(((width, height), frame.orientation))
}

/// Reads the header of a picture of an accepted size.
fn read_frame(jpeg: &[u8]) -> Result<JpegFrame, ImageError> {
    let frame = JpegFrame::read(jpeg).map_err(damaged)?;
    let [width, height] = frame.size;
    check_size(width as u32, height as u32)?;
    Ok(frame)
}

fn damaged(damage: Damage) -> ImageError {
    ImageError::Damaged(damage.into())
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

/// Decodes at a scale of 1 to `by`: 1, 2, 4 or 8.
fn reduce(jpeg: &[u8], frame: &JpegFrame, by: usize, detail: usize) -> Result<RgbImage, Damage> {
    let mut planes = ReducedPlanes::new(frame, by, detail);
    scan::walk(jpeg, frame, Some(&mut planes))?;
    let (width, height, rgb) = planes.to_rgb(frame, by);
    drop(planes);
    let picture = RgbImage::from_raw(width, height, rgb).expect("as many bytes as the size asks for");
    Ok(upright(picture.into(), frame.orientation).into_rgb8())
}

/// Most bytes that decoding at reduced scale takes, the file apart.
fn reduced_peak_bytes(frame: &JpegFrame, by: usize, detail: usize) -> usize {
    let pixels = frame.size[0].div_ceil(by) * frame.size[1].div_ceil(by);
    let turned = if swaps_sides(frame.orientation) { 3 * pixels } else { 0 };
    let planes = reduced::plane_bytes(frame, by, detail);
    (scan::peak_bytes(frame) + planes).max(planes + 3 * pixels).max(3 * pixels + turned)
}

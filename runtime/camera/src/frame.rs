//! One picture of a camera, as it came.

use std::fmt;
use std::time::Instant;

use orco_runtime::image::{self, DecodingCost, ImageError};
use orco_runtime::image_rs::RgbImage;

use crate::yuyv::Yuyv;

/// Most bytes of a picture, and most that a stream may send before its first boundary.
pub const MAX_PICTURE_BYTES: usize = 32 << 20;

/// What a camera gave.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CameraPicture {
    /// The bytes of a JPEG, PNG or WebP file, or of whatever else it sent.
    File(Vec<u8>),
    /// Raw pixels.
    Yuyv(Yuyv),
}

/// Its size in place of its bytes.
impl fmt::Debug for CameraPicture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(bytes) => write!(f, "File({} bytes)", bytes.len()),
            Self::Yuyv(raw) => f.debug_tuple("Yuyv").field(raw).finish(),
        }
    }
}

/// A picture of a camera, with its number and its time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CameraFrame {
    /// Greater than those of all frames before it.
    pub number: u64,
    /// When its last byte had come.
    pub taken: Instant,
    /// The picture.
    pub picture: CameraPicture,
}

impl CameraFrame {
    /// The picture at its full size, as far as that can be decoded within [`image::MAX_MEMORY`]. With `side`, a JPEG
    /// picture is reduced while it is decoded; at least `side` pixels are left in width and in height.
    ///
    /// # Errors
    /// [`ImageError`] if it is no picture, is damaged or too large.
    pub fn decode(&self, side: Option<u32>) -> Result<RgbImage, ImageError> {
        match (&self.picture, side) {
            (CameraPicture::File(bytes), None) => image::decode(bytes),
            (CameraPicture::File(bytes), Some(side)) => image::decode_reduced(bytes, side),
            (CameraPicture::Yuyv(raw), _) => Ok(raw.to_rgb()),
        }
    }

    /// Memory that [`CameraFrame::decode`] takes with the same `side`.
    ///
    /// # Errors
    /// [`ImageError`] if it is no picture, or too large.
    pub fn decoding_cost(&self, side: Option<u32>) -> Result<DecodingCost, ImageError> {
        match (&self.picture, side) {
            (CameraPicture::File(bytes), None) => image::decoding_cost(bytes),
            (CameraPicture::File(bytes), Some(side)) => image::decoding_cost_reduced(bytes, side),
            (CameraPicture::Yuyv(raw), _) => {
                let (width, height) = raw.size();
                Ok(DecodingCost::of_pixels(width, height))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_printed_without_its_bytes() {
        assert_eq!(format!("{:?}", CameraPicture::File(vec![7; 300])), "File(300 bytes)");
        let raw = Yuyv::new(4, 2, 8, &[7; 16]).unwrap();
        let printed = format!("{:?}", CameraPicture::Yuyv(raw));
        assert_eq!(printed, "Yuyv(Yuyv { width: 4, height: 2, .. })");
    }
}

//! A picture for a viewfinder, in the pixels of its file.

use ::image::RgbImage;

use super::region::PixelRect;
use crate::image::DecodedPicture;

/// A picture for a [`Viewfinder`](super::Viewfinder). Regions and boxes are in pixels of its file, which has more of
/// them where the picture was decoded at reduced scale.
#[derive(Clone, Copy, Debug)]
pub struct ViewedPicture<'a> {
    pub(super) picture: &'a RgbImage,
    /// Width and height of the picture in the file.
    pub(super) size_in_file: [u32; 2],
}

impl<'a> From<&'a DecodedPicture> for ViewedPicture<'a> {
    fn from(decoded: &'a DecodedPicture) -> Self {
        Self { picture: &decoded.picture, size_in_file: decoded.size_in_file }
    }
}

/// A picture at its full size.
impl<'a> From<&'a RgbImage> for ViewedPicture<'a> {
    fn from(picture: &'a RgbImage) -> Self {
        Self { picture, size_in_file: [picture.width(), picture.height()] }
    }
}

impl ViewedPicture<'_> {
    fn size(self) -> [u32; 2] {
        [self.picture.width(), self.picture.height()]
    }

    /// A rectangle of the file's picture in this one.
    pub(super) fn in_picture(self, rect: PixelRect) -> PixelRect {
        scaled(rect, self.size_in_file, self.size())
    }

    /// A rectangle of this picture in the file's.
    pub(super) fn in_file(self, rect: PixelRect) -> PixelRect {
        scaled(rect, self.size(), self.size_in_file)
    }
}

/// A rectangle of a picture of one size in the same picture of another size. Both edges are rounded, so that neighbours
/// neither overlap nor leave a gap, except for those that are less than a pixel wide.
fn scaled(rect: PixelRect, from: [u32; 2], to: [u32; 2]) -> PixelRect {
    let edge = |place: u32, axis: usize| {
        let (place, from, to) = (u64::from(place), u64::from(from[axis].max(1)), u64::from(to[axis]));
        ((2 * place * to + from) / (2 * from)) as u32
    };
    let along = |low: u32, high: u32, axis: usize| {
        let first = edge(low, axis).min(to[axis].saturating_sub(1));
        (first, edge(high, axis).clamp(first + 1, to[axis].max(first + 1)) - first)
    };
    let (x, width) = along(rect.x, rect.right(), 0);
    let (y, height) = along(rect.y, rect.bottom(), 1);
    PixelRect { x, y, width, height }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_keep_their_place_at_another_scale() {
        let (file, half) = ([3025, 4031], [1513, 2016]);
        let rect = |x, y, width, height| PixelRect { x, y, width, height };
        for whole in [rect(0, 2016, 3025, 2015), rect(10, 20, 31, 47), rect(3009, 4015, 16, 16)] {
            let small = scaled(whole, file, half);
            assert!(small.right() <= half[0] && small.bottom() <= half[1], "{small:?}");
            let back = scaled(small, half, file);
            let off = [
                whole.x.abs_diff(back.x),
                whole.right().abs_diff(back.right()),
                whole.bottom().abs_diff(back.bottom()),
            ];
            assert!(off.iter().all(|off| *off <= 1), "{whole:?} {back:?}");
            assert_eq!(scaled(whole, file, file), whole);
        }
        assert_eq!(scaled(rect(0, 0, 16, 16), [1600, 1600], [100, 100]), rect(0, 0, 1, 1));
        assert_eq!(scaled(rect(3024, 0, 1, 1), file, [1, 1]), rect(0, 0, 1, 1), "something is left");
    }
}

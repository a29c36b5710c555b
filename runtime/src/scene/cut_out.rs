//! Parts of a frame as square pictures of their own.

use ::image::imageops;
use ::image::{GrayImage, Rgb, RgbImage};

use super::foreground::{Foreground, Thing};
use super::region::PixelRect;
use crate::image::resize_part;

/// Space around a thing, on each side, as a share of the square's side.
const MARGIN: f64 = 0.1;
/// Largest side of a square, in pixels: more than backbones see.
const MAX_SIDE: u32 = 448;
/// Least side of a square, in pixels.
const MIN_SIDE: u32 = 32;

/// A square around a part of a frame, which may reach beyond the frame, in its pixels.
struct Square {
    left: f64,
    top: f64,
    side: f64,
    /// Pixels of the picture that is made of it.
    pixels: u32,
}

impl Square {
    /// The square around bounds, with a margin on each side, as a share of the square's side.
    fn around(bounds: PixelRect, margin: f64) -> Self {
        let [middle_x, middle_y] = bounds.doubled_middle().map(|doubled| doubled as f64 / 2.0);
        let side = f64::from(bounds.width.max(bounds.height).max(1)) / (1.0 - 2.0 * margin);
        let pixels = (side.round() as u32).clamp(MIN_SIDE, MAX_SIDE);
        Self { left: middle_x - side / 2.0, top: middle_y - side / 2.0, side, pixels }
    }

    /// Pixels of its picture for one of the frame.
    fn scale(&self) -> f64 {
        f64::from(self.pixels) / self.side
    }

    /// What of `bounds` lies in it, with `fill` around that.
    fn picture(&self, frame: &RgbImage, bounds: PixelRect, fill: [u8; 3]) -> RgbImage {
        let scale = self.scale();
        // First pixel and length in the frame, and the same in the picture.
        let part = |start: f64, from: u32, to: u32| {
            let low = (start.floor().max(0.0) as u32).clamp(from, to - 1);
            let high = ((start + self.side).ceil().max(0.0) as u32).clamp(low + 1, to);
            let place = ((f64::from(low) - start) * scale).round() as i64;
            let scaled = ((f64::from(high - low) * scale).round() as u32).max(1);
            (low, high - low, place, scaled)
        };
        let (x, width, column, small_width) = part(self.left, bounds.x, bounds.right());
        let (y, height, row, small_height) = part(self.top, bounds.y, bounds.bottom());
        let part = resize_part(frame, [x, y, width, height], [small_width, small_height]);
        let mut picture = RgbImage::from_pixel(self.pixels, self.pixels, Rgb(fill));
        imageops::replace(&mut picture, &part, column, row);
        picture
    }
}

/// A part of a frame as a square picture, with `fill` on both sides of what is no square.
pub(super) fn square(frame: &RgbImage, bounds: PixelRect, fill: [u8; 3]) -> RgbImage {
    Square::around(bounds, 0.0).picture(frame, bounds, fill)
}

impl Foreground {
    /// A thing as a square picture: its pixels as they are, all else in the colour `fill`. Choose the colour that the
    /// bundle's preprocessing maps to zero ([`Preprocessing::mean_colour`](crate::image::Preprocessing::mean_colour)).
    ///
    /// The thing takes the same share of every cut-out, however near it was. A side has at most 448 pixels.
    ///
    /// # Panics
    /// If the picture has another size than the frame that was compared.
    pub fn cut_out(&self, picture: &RgbImage, thing: &Thing, fill: [u8; 3]) -> RgbImage {
        assert_eq!([picture.width(), picture.height()], self.frame_size, "the picture is another one");
        let square = Square::around(thing.bounds, MARGIN);
        let mut cut_out = square.picture(picture, PixelRect::whole(self.frame_size), fill);
        let columns: Vec<Cells> = (0..square.pixels).map(|x| self.cells(0, square.left, square.scale(), x)).collect();
        for y in 0..square.pixels {
            let row = self.cells(1, square.top, square.scale(), y);
            for (x, column) in columns.iter().enumerate() {
                let cover = cover(&self.marks, thing.mark, column, &row);
                let pixel = cut_out.get_pixel_mut(x as u32, y);
                for channel in 0..3 {
                    let (own, rest) = (f32::from(pixel[channel]), f32::from(fill[channel]));
                    pixel[channel] = (rest + cover * (own - rest)).round() as u8;
                }
            }
        }
        cut_out
    }

    /// The pixels of the small frame between which the `place`-th pixel of a square lies.
    fn cells(&self, axis: usize, start: f64, scale: f64, place: u32) -> Cells {
        let size = [self.marks.width(), self.marks.height()][axis];
        let in_frame = start + (f64::from(place) + 0.5) / scale;
        let at = in_frame * f64::from(size) / f64::from(self.frame_size[axis]) - 0.5;
        let last = f64::from(size - 1);
        let cell = |at: f64| at.clamp(0.0, last) as u32;
        Cells { cells: [cell(at.floor()), cell(at.floor() + 1.0)], share: (at - at.floor()) as f32 }
    }
}

/// Two neighbours along one axis.
struct Cells {
    cells: [u32; 2],
    /// What the second counts.
    share: f32,
}

/// How much of a place belongs to a thing, 0..1.
fn cover(marks: &GrayImage, mark: u8, column: &Cells, row: &Cells) -> f32 {
    let is_own = |x: usize, y: usize| f32::from(u8::from(marks.get_pixel(column.cells[x], row.cells[y])[0] == mark));
    let across = |y: usize| is_own(0, y) * (1.0 - column.share) + is_own(1, y) * column.share;
    across(0) * (1.0 - row.share) + across(1) * row.share
}

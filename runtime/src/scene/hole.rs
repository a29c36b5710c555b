//! Whether a piece of foreground is a hole: the place itself, where the empty views showed a thing that is gone now.
//!
//! A thing that stood there in every empty view was learned as a part of the place. Once it is taken away, what was
//! behind it differs from the background, and would be taken for a thing for ever. Its outline tells a hole, which
//! Cucchiara and others (2003) call a ghost, from a thing: along the outline of a thing, the frame has an edge, and the
//! background need not have one; along the outline of a hole, the background has an edge, and the frame goes on across
//! it. A place with a pattern has edges everywhere, in both pictures. Those of a pattern run in all directions; where
//! an outline is, the picture changes more across it than along it. A shadow or a lamp changes the light inside, and
//! leaves the colours as they were; it is no hole, whichever of both pictures shows it. The thresholds were set on
//! pasted scenes (journal of the book, 2026-11-30, holes).

use std::ops::AddAssign;

use ::image::GrayImage;

use super::background::Background;
use super::difference::Difference;
use super::exposure::aligned;
use super::filter::box_mean;
use super::region::PixelRect;
use super::small_frame::{CLIPPED, SmallFrame};

/// Radius of the square over which a piece is smoothed, so that its outline has a direction.
const SMOOTHING: usize = 3;
/// Least slope of the smoothed piece, per pixel, that has a direction: thin parts have none.
const MIN_SLOPE: f32 = 0.03;
/// Distances from the outline, in pixels of the small frame, at which edges are looked for: it is that uncertain.
const NEAR: [f32; 3] = [-1.0, 0.0, 1.0];
/// Distances at which the frame must not be clipped.
const SIDES: [f32; 4] = [-4.0, -3.0, 3.0, 4.0];
/// Distance outwards that must lie in what is analysed, and in no piece of foreground.
const BESIDE: f32 = 5.0;
/// Fewest points of an outline by which a hole is told.
const MIN_POINTS: usize = 12;
/// How many times steeper the background must be across the outline of a hole than along it, at least.
const MIN_OUTLINED: f32 = 1.4;
/// How many times steeper the frame may be, at the most.
const MAX_OUTLINED: f32 = 1.3;
/// Largest share of a hole that may differ as light does.
const MAX_EVEN: f32 = 0.5;

/// A frame that was compared with a background, whose pieces are judged.
pub(super) struct HoleSearch<'a> {
    place: &'a [[f32; 3]],
    /// The frame as it was taken.
    seen: &'a [[f32; 3]],
    /// The frame with the exposure of the place.
    frame: Vec<[f32; 3]>,
    difference: &'a Difference,
    size: [usize; 2],
}

/// A point of a piece's outline.
struct OutlinePoint {
    /// Column and row.
    at: [f32; 2],
    /// The direction from the inside to the outside, as long as a pixel.
    outwards: [f32; 2],
}

/// How steeply a picture's channels rise at points of an outline, in steps per pixel, summed over the points.
#[derive(Clone, Copy, Default)]
struct Edges {
    across: f32,
    along: f32,
}

impl AddAssign for Edges {
    fn add_assign(&mut self, other: Self) {
        self.across += other.across;
        self.along += other.along;
    }
}

impl Edges {
    /// How many times steeper it is across the outline than along it: 1 where nothing follows the outline.
    fn outlined(self) -> f32 {
        self.across / self.along.max(f32::MIN_POSITIVE)
    }
}

impl<'a> HoleSearch<'a> {
    /// One for a frame that differs so from the background.
    pub fn new(background: &'a Background, small: &'a SmallFrame, difference: &'a Difference) -> Self {
        let place = if difference.is_grey { background.in_grey() } else { background };
        Self {
            place: &place.colours,
            seen: &small.pixels,
            frame: aligned(&small.pixels, &difference.gains),
            difference,
            size: [small.width, small.pixels.len() / small.width],
        }
    }

    /// Whether the piece with a mark is a hole. `marks` are those of all pieces, `searched` is what of the small frame
    /// they were looked for in.
    pub fn is_hole(&self, marks: &GrayImage, mark: u8, searched: PixelRect) -> bool {
        let is_inside: Vec<bool> = marks.as_raw().iter().map(|other| *other == mark).collect();
        if self.even_share(&is_inside) > MAX_EVEN {
            return false;
        }
        let is_beside = |pixel: [u32; 2]| searched.contains(pixel) && marks.get_pixel(pixel[0], pixel[1])[0] == 0;
        let points = self.outline(&is_inside, is_beside);
        let (mut place, mut frame) = (Edges::default(), Edges::default());
        for point in &points {
            for distance in NEAR {
                let index = self.beside(point, distance);
                place += self.edges(self.place, index, point.outwards);
                frame += self.edges(&self.frame, index, point.outwards);
            }
        }
        points.len() >= MIN_POINTS
            && place.outlined() >= MIN_OUTLINED
            && frame.outlined() <= MAX_OUTLINED
            && place.across > frame.across
    }

    /// The share of a piece that differs from the background as light does.
    fn even_share(&self, is_inside: &[bool]) -> f32 {
        let (mut even, mut all) = (0usize, 0usize);
        for index in (0..is_inside.len()).filter(|index| is_inside[*index]) {
            all += 1;
            even += usize::from(self.difference.is_even(index));
        }
        even as f32 / all.max(1) as f32
    }

    /// The points of a piece's outline that have a direction, beside which there is nothing else, and where the frame
    /// is not clipped, which would hide an edge.
    fn outline(&self, is_inside: &[bool], is_beside: impl Fn([u32; 2]) -> bool) -> Vec<OutlinePoint> {
        let [width, height] = self.size;
        let plane: Vec<f32> = is_inside.iter().map(|inside| f32::from(u8::from(*inside))).collect();
        let smooth = box_mean(&plane, width, SMOOTHING);
        // Both sides of a point must lie in the frame.
        let reach = BESIDE as usize + 1;
        let rows = reach..height.saturating_sub(reach);
        let indices = rows.flat_map(|y| (reach..width.saturating_sub(reach)).map(move |x| y * width + x));
        let is_outline = |index: &usize| {
            is_inside[*index] && [index - 1, index + 1, index - width, index + width].iter().any(|at| !is_inside[*at])
        };
        let point = |index: usize| {
            let slope = [smooth[index - 1] - smooth[index + 1], smooth[index - width] - smooth[index + width]];
            let slope = slope.map(|value| value / 2.0);
            let steepness = libm::hypotf(slope[0], slope[1]);
            let at = [(index % width) as f32, (index / width) as f32];
            (steepness > MIN_SLOPE).then(|| OutlinePoint { at, outwards: slope.map(|value| value / steepness) })
        };
        let is_clipped = |index: usize| self.seen[index].iter().any(|channel| *channel >= CLIPPED);
        let counts = |point: &OutlinePoint| {
            let beside = self.beside(point, BESIDE);
            is_beside([beside % width, beside / width].map(|place| place as u32))
                && !SIDES.iter().any(|distance| is_clipped(self.beside(point, *distance)))
        };
        indices.filter(is_outline).filter_map(point).filter(counts).collect()
    }

    /// The pixel at that distance from a point outwards, or inwards if it is negative.
    fn beside(&self, point: &OutlinePoint, distance: f32) -> usize {
        let place = |axis: usize| libm::roundf(point.at[axis] + distance * point.outwards[axis]) as usize;
        place(1) * self.size[0] + place(0)
    }

    /// How steep a picture is at a pixel that does not lie at its edge (Sobel), across an outline of that direction and
    /// along it.
    fn edges(&self, pixels: &[[f32; 3]], index: usize, [x, y]: [f32; 2]) -> Edges {
        let width = self.size[0];
        let at = |index: usize, channel: usize| pixels[index][channel];
        let (mut across, mut along) = (0.0, 0.0);
        for channel in 0..3 {
            let column =
                |index: usize| at(index - width, channel) + 2.0 * at(index, channel) + at(index + width, channel);
            let row = |index: usize| at(index - 1, channel) + 2.0 * at(index, channel) + at(index + 1, channel);
            let (right, down) = (column(index + 1) - column(index - 1), row(index + width) - row(index - width));
            across += (right * x + down * y).powi(2);
            along += (down * x - right * y).powi(2);
        }
        Edges { across: libm::sqrtf(across / 3.0) / 8.0, along: libm::sqrtf(along / 3.0) / 8.0 }
    }
}

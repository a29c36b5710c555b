//! Whether a piece of foreground is a hole: the place itself, where the empty views showed a thing that is gone now.
//!
//! A thing that stood there in every empty view was learned as a part of the place. Once it is taken away, what was
//! behind it differs from the background, and would be taken for a thing for ever. Its outline tells it from one
//! (Cucchiara and others, 2003, call it a ghost): along the outline of a thing, the frame changes its colour from the
//! inside to the outside, and the background need not; along that of a hole, the background does, and the frame goes
//! on. A shadow or a lamp changes the light inside, and leaves the colours as they were; it is no hole, whichever of
//! both shows it. The thresholds were set on pasted scenes (journal of the book, 2026-11-30, holes).

use ::image::GrayImage;

use super::background::Background;
use super::difference::Difference;
use super::exposure::aligned;
use super::filter::box_mean;
use super::region::PixelRect;
use super::small_frame::{CLIPPED, SmallFrame, brightness};

/// Radius of the square over which a piece is smoothed, so that its outline has a direction.
const SMOOTHING: usize = 3;
/// Least slope of the smoothed piece, per pixel, that has a direction: thin parts have none.
const MIN_SLOPE: f32 = 0.03;
/// Distances from the outline, in pixels of the small frame, at which the colours on its two sides are taken: as near
/// as a soft outline and an uncertain one allow.
const DISTANCES: [f32; 2] = [3.0, 4.0];
/// Distance from the outline that must lie in what is analysed, and beyond each piece of foreground.
const BESIDE: f32 = 5.0;
/// Fewest points of an outline from which anything is told.
const MIN_POINTS: usize = 12;
/// How many times the contrast across the outline must be that of the other picture, beyond noise, to be the stronger.
const STRONGER: f32 = 1.5;
/// Least share of the outline along which the background has the stronger contrast.
const MIN_SHARE: f32 = 0.4;
/// How many times this share must be that along which the frame has it.
const MAJORITY: f32 = 3.0;
/// Most of a piece that may differ as light does.
const MAX_EVEN: f32 = 0.5;
/// Steps of brightness, 0..255, added to both sides of a ratio of the light, so that it is near 1 in the dark.
const DARK: f32 = 4.0;
/// Range of that ratio: as far as exposures go.
const LIGHT: [f32; 2] = [0.3, 3.3];

/// A frame that was compared with a background, whose pieces are judged.
pub(super) struct HoleSearch<'a> {
    place: &'a [[f32; 3]],
    /// The frame as it was taken.
    seen: &'a [[f32; 3]],
    /// The frame with the exposure of the place.
    frame: Vec<[f32; 3]>,
    difference: &'a Difference,
    /// Contrast that is noise.
    noise: f32,
    size: [usize; 2],
}

/// A point of a piece's outline.
struct OutlinePoint {
    /// Column and row.
    at: [f32; 2],
    /// The direction from the inside to the outside, as long as a pixel.
    outwards: [f32; 2],
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
            noise: place.noise,
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
        let outline = self.outline(&is_inside, is_beside);
        let contrasts: Vec<[f32; 2]> = outline.iter().filter_map(|point| self.contrasts(point)).collect();
        if contrasts.len() < MIN_POINTS {
            return false;
        }
        let is_stronger = |one: f32, other: f32| one > STRONGER * other + self.noise;
        let of_place = contrasts.iter().filter(|[place, frame]| is_stronger(*place, *frame)).count() as f32;
        let of_frame = contrasts.iter().filter(|[place, frame]| is_stronger(*frame, *place)).count() as f32;
        of_place >= (MIN_SHARE * contrasts.len() as f32).max(MAJORITY * of_frame)
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

    /// The points of a piece's outline that have a direction, and beside which there is nothing else.
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
        let points = indices.filter(is_outline).filter_map(point);
        points.filter(|point| is_beside(point.beside(BESIDE).map(|place| place as u32))).collect()
    }

    /// The difference between the colours on the two sides of an outline: in the background, and in the frame once the
    /// light outside is that of the background. None where the frame is clipped, which hides differences.
    fn contrasts(&self, point: &OutlinePoint) -> Option<[f32; 2]> {
        let index = |distance: f32| {
            let [x, y] = point.beside(distance).map(|place| place as usize);
            y * self.size[0] + x
        };
        let sides = [-1.0, 1.0].map(|side| DISTANCES.map(|distance| index(side * distance)));
        if sides.as_flattened().iter().any(|index| self.seen[*index].iter().any(|channel| *channel >= CLIPPED)) {
            return None;
        }
        let [place, frame] = [self.place, &self.frame[..]].map(|pixels| sides.map(|side| mean_colour(pixels, side)));
        let [level_in_place, level_in_frame] = [place, frame].map(|[_, outside]| brightness(&outside) + DARK);
        let light = (level_in_frame / level_in_place).clamp(LIGHT[0], LIGHT[1]);
        Some([contrast(place), contrast(frame) / light])
    }
}

/// The mean colour of two pixels.
fn mean_colour(pixels: &[[f32; 3]], at: [usize; 2]) -> [f32; 3] {
    let [one, other] = at.map(|index| pixels[index]);
    [0, 1, 2].map(|channel| f32::midpoint(one[channel], other[channel]))
}

/// How far two colours are apart, in steps of brightness.
fn contrast([inside, outside]: [[f32; 3]; 2]) -> f32 {
    let squares = [0, 1, 2].map(|channel| (inside[channel] - outside[channel]).powi(2));
    libm::sqrtf(squares.iter().sum::<f32>() / 3.0)
}

impl OutlinePoint {
    /// The pixel at that distance outwards, or inwards if it is negative.
    fn beside(&self, distance: f32) -> [f32; 2] {
        [0, 1].map(|axis| libm::roundf(self.at[axis] + distance * self.outwards[axis]))
    }
}

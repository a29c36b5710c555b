//! Is a picture fit to be learned from? Exposure, sharpness, and whether it was seen before.
//!
//! All is measured on the largest square in the middle, which is what the backbone sees, at [`SIDE`] pixels a side: so
//! a camera's resolution does not matter, and a blur counts if the backbone could see it. One colour around a thing that
//! was cut out, or around a region that is no square, is left out: its edge would be sharp whatever the thing is. That a
//! picture looks like a class which is known already is the classifier's to say
//! ([`crate::learner::Learner::classify`]).
//!
//! ```
//! use orco_runtime::image;
//! use orco_runtime::quality::{Quality, Thresholds};
//!
//! let duck = image::open("../examples/shots/learn/rubber-duck/1.jpg".as_ref())?;
//! let quality = Quality::of(&duck);
//! assert_eq!(Thresholds::default().flaws(&quality), []);
//! assert_eq!(quality.distance(&Quality::of(&duck)), 0);
//! # Ok::<(), image::ImageError>(())
//! ```

mod objection;
#[cfg(test)]
mod tests;

use std::fmt;

use ::image::RgbImage;

use crate::image::{self, Look, Preprocessing};

pub use objection::{BestClass, EarlierShot, LOOKS_LIKE_PROBABILITY, Objection, ShotCandidate};

/// Width and height, in pixels, at which pictures are judged.
pub const SIDE: u32 = 128;
/// Rows and columns of the fingerprint.
const CELLS: u32 = 16;
/// Brightness, 0..255, below which a pixel is dark.
const DARK: f32 = 40.0;
/// Brightness from which a pixel is clipped.
const CLIPPED: f32 = 250.0;
/// Brightness by which two neighbouring cells of the fingerprint may differ and still count as alike.
const FLAT: f32 = 0.5;
/// Steps by which a cell's colour may lie outside those of the other picture's cells around there.
const UNLIKE: f32 = 12.0;
/// Pixels around a colour that fills a picture that are its edge.
const EDGE: u32 = 2;
/// A picture is judged as a whole where less than one in so many pixels shows something.
const LEAST_SHOWN: usize = 50;
/// Colour below which the ratio of two cells says nothing of the light.
const FAINT: u8 = 16;

/// What was measured on a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Share of dark pixels, 0..1.
    pub dark: f32,
    /// Share of clipped pixels, 0..1.
    pub clipped: f32,
    /// Variance of the brightness's Laplacian (Pech-Pacheco et al., ICPR 2000) over the variance of the brightness, so
    /// that neither light nor contrast matters. 0 for a blank picture.
    pub sharpness: f32,
    /// As [`Quality::sharpness`], at a half of [`SIDE`] and at a quarter of it.
    pub coarse_sharpness: [f32; 2],
    /// Whether brightness falls from a cell to the next one of its row (difference hash): a bit for each of 16 x 16
    /// cells, row by row, the lowest bit first.
    pub fingerprint: [u64; 4],
    /// Where both cells are alike, so that the fingerprint says nothing: around a thing that was cut out, for one.
    pub flat: [u64; 4],
    /// Mean colours of 16 x 16 cells, row by row.
    pub colours: [[u8; 3]; (CELLS * CELLS) as usize],
}

impl Quality {
    /// Measures a picture.
    pub fn of(picture: &RgbImage) -> Self {
        let square = square(picture, SIDE);
        let shown = shown(&square);
        let light = brightnesses(&square);
        let share = |is: &dyn Fn(f32) -> bool| {
            let those = light.iter().zip(&shown).filter(|(light, shown)| **shown && is(**light)).count();
            those as f32 / shown.iter().filter(|shown| **shown).count() as f32
        };
        let coarse = |side| sharpness(&self::square(picture, side));
        let (fingerprint, flat) = fingerprint(&square);
        Self {
            dark: share(&|light| light < DARK),
            clipped: share(&|light| light >= CLIPPED),
            sharpness: sharpness(&square),
            coarse_sharpness: [2, 4].map(|part| coarse(SIDE / part)),
            fingerprint,
            flat,
            colours: colours(&square),
        }
    }

    /// In how many of 256 places the fingerprints differ: about half of them for two pictures, few for one that was
    /// compressed, brightened or moved a little. Places where both pictures are flat do not count; the others stand for
    /// them.
    pub fn distance(&self, other: &Self) -> u32 {
        let telling = |part: usize| !(self.flat[part] & other.flat[part]);
        let differing = |part: usize| telling(part) & (self.fingerprint[part] ^ other.fingerprint[part]);
        let count = |of: &dyn Fn(usize) -> u64| (0..4).map(|part| of(part).count_ones()).sum::<u32>();
        CELLS * CELLS * count(&differing) / count(&telling).max(1)
    }

    /// In how many of 256 cells one of two pictures has a colour that the other has not around there, whatever the light:
    /// a thing in front of the same background is another picture, however small it is.
    pub fn unlike_cells(&self, other: &Self) -> usize {
        unlike_cells(&self.colours, &other.colours).max(unlike_cells(&other.colours, &self.colours))
    }
}

fn colours(square: &RgbImage) -> [[u8; 3]; (CELLS * CELLS) as usize] {
    let cells = image::resize(square, [CELLS; 2]);
    core::array::from_fn(|cell| cells.get_pixel(cell as u32 % CELLS, cell as u32 / CELLS).0)
}

/// The cells of a picture, brought to the light of another, whose colour none of the other's cells around them has.
fn unlike_cells(one: &[[u8; 3]], other: &[[u8; 3]]) -> usize {
    let side = CELLS as usize;
    let gains: [f32; 3] = core::array::from_fn(|channel| {
        let cells = one.iter().zip(other).map(|(one, other)| [one[channel], other[channel]]);
        let usable = cells.filter(|cell| cell.iter().all(|colour| *colour >= FAINT));
        let mut ratios: Vec<f32> = usable.map(|[one, other]| f32::from(other) / f32::from(one)).collect();
        ratios.sort_by(f32::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or(1.0)
    });
    let around = |at: usize| at.saturating_sub(1)..=(at + 1).min(side - 1);
    let is_unlike = |cell: &usize| {
        (0..3).any(|channel| {
            let colour = f32::from(one[*cell][channel]) * gains[channel];
            let near = around(cell / side).flat_map(|y| around(cell % side).map(move |x| other[y * side + x][channel]));
            let (low, high) = near.fold((u8::MAX, 0), |(low, high), near| (low.min(near), high.max(near)));
            colour < f32::from(low) - UNLIKE || colour > f32::from(high) + UNLIKE
        })
    };
    (0..one.len()).filter(is_unlike).count()
}

/// The largest square in the middle, at that many pixels a side.
fn square(picture: &RgbImage, side: u32) -> RgbImage {
    Preprocessing { width: side, height: side, mean: [0.0; 3], deviation: [1.0; 3], look: Look::WHOLE }.fit(picture)
}

/// Brightness, 0..255.
fn brightness(pixel: [u8; 3]) -> f32 {
    image::luma(pixel.map(f32::from))
}

fn brightnesses(picture: &RgbImage) -> Vec<f32> {
    picture.pixels().map(|pixel| brightness(pixel.0)).collect()
}

/// Which pixels of a square show something: all but the one colour that all four corners have, and what is near it,
/// where that is neither dark nor clipped. All of them where nothing else is left.
fn shown(square: &RgbImage) -> Vec<bool> {
    let side = square.width();
    let fill = square.get_pixel(0, 0).0;
    let is_fill = |x: u32, y: u32| square.get_pixel(x, y).0.iter().zip(fill).all(|(one, fill)| one.abs_diff(fill) <= 1);
    let is_filled = [(0, 0), (side - 1, 0), (0, side - 1), (side - 1, side - 1)].iter().all(|(x, y)| is_fill(*x, *y));
    let all = vec![true; (side * side) as usize];
    if !is_filled || !(DARK..CLIPPED).contains(&brightness(fill)) {
        return all;
    }
    let near = |at: u32| at.saturating_sub(EDGE)..=(at + EDGE).min(side - 1);
    let is_shown = |at: u32| {
        let (x, y) = (at % side, at / side);
        !near(y).any(|y| near(x).any(|x| is_fill(x, y)))
    };
    let shown: Vec<bool> = (0..side * side).map(is_shown).collect();
    if shown.iter().filter(|shown| **shown).count() * LEAST_SHOWN < shown.len() { all } else { shown }
}

/// See [`Quality::sharpness`].
fn sharpness(square: &RgbImage) -> f32 {
    let (light, shown, side) = (brightnesses(square), shown(square), square.width() as usize);
    let inner = (1..side - 1).flat_map(|y| (1..side - 1).map(move |x| y * side + x)).filter(|at| shown[*at]);
    // Four times each inner pixel less its neighbours.
    let laplacian: Vec<f32> =
        inner.map(|at| 4.0 * light[at] - light[at - 1] - light[at + 1] - light[at - side] - light[at + side]).collect();
    let light: Vec<f32> = light.into_iter().zip(shown).filter(|(_, shown)| *shown).map(|(light, _)| light).collect();
    variance(&laplacian) / variance(&light).max(1.0)
}

fn variance(values: &[f32]) -> f32 {
    let count = values.len().max(1) as f32;
    let mean = values.iter().sum::<f32>() / count;
    values.iter().map(|value| (value - mean) * (value - mean)).sum::<f32>() / count
}

/// The fingerprint, and where it says nothing.
fn fingerprint(square: &RgbImage) -> ([u64; 4], [u64; 4]) {
    let cells = image::resize(square, [CELLS + 1, CELLS]);
    let light = |x, y| brightness(cells.get_pixel(x, y).0);
    let (mut bits, mut flat) = ([0; 4], [0; 4]);
    for (bit, (x, y)) in (0..CELLS).flat_map(|y| (0..CELLS).map(move |x| (x, y))).enumerate() {
        let fall = light(x, y) - light(x + 1, y);
        bits[bit / 64] |= u64::from(fall > 0.0) << (bit % 64);
        flat[bit / 64] |= u64::from(fall.abs() < FLAT) << (bit % 64);
    }
    (bits, flat)
}

/// From where on a picture is refused as a shot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Most dark pixels, 0..1.
    pub dark: f32,
    /// Most clipped pixels, 0..1.
    pub clipped: f32,
    /// Least sharpness.
    pub sharpness: f32,
    /// A picture that is not sharp enough at [`SIDE`] counts as enlarged, not as blurred, if it is sharp enough at half
    /// of that and its sharpness at a quarter is at most this many times that at a half. Below its real size an enlarged
    /// picture gains little; a blurred one keeps gaining.
    pub growth: f32,
    /// Most sharpness.
    pub noise: f32,
    /// Most places in which the fingerprint of a repeated picture differs.
    pub distance: u32,
    /// Most cells in which a repeated picture has another colour.
    pub cells: usize,
}

impl Default for Thresholds {
    /// Chosen on the sample pictures and on 500 photographs of Caltech-101, with the largest square in their middle. Of
    /// those photographs none was called blurred, 97.2 % were after a blur of two of 128 pixels; 0.6 % were called too
    /// dark, 0.6 % too bright (`quality/tests.rs`). White noise has a sharpness of 6 and more, as long as it has at least 96 pixels a
    /// side; of 600 photographs of mini-ImageNet none has more than 0.9, of the sample pictures none more than 1.7.
    ///
    /// `growth` was chosen on the sample pictures and on 500 other photographs of Caltech-101. Of those, enlarged from 80
    /// pixels a side, 0.6 % are called blurred, and 11.6 % from 64; without this rule 5.2 % and 26 % were. Of those
    /// blurred by two of 128 pixels, 97.8 % are, with the rule or without.
    ///
    /// `distance` and `cells` are for a camera that stands still as much as for one in the hand. Of 500 other
    /// photographs of Caltech-101, 91.2 % are found again when framed 3 % closer, all when compressed or darkened by a
    /// tenth, and 0.001 % of all pairs are taken for the same. Of 39 pairs of sample things before one background, a
    /// fifth of the picture each, none is.
    fn default() -> Self {
        Self { dark: 0.8, clipped: 0.8, sharpness: 0.025, growth: 3.5, noise: 5.0, distance: 36, cells: 8 }
    }
}

/// What is wrong with a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// Nearly everything is dark.
    TooDark,
    /// Nearly everything is clipped to white.
    TooBright,
    /// No fine detail: out of focus, moved, or blank.
    Blurred,
    /// Nothing but fine detail: noise, in which no pixel is like its neighbours.
    Noise,
}

impl Flaw {
    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooDark => "too-dark",
            Self::TooBright => "too-bright",
            Self::Blurred => "blurred",
            Self::Noise => "noise",
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooDark => "too dark",
            Self::TooBright => "too bright",
            Self::Blurred => "blurred",
            Self::Noise => "nothing but noise",
        })
    }
}

impl Thresholds {
    /// Everything that is wrong with a picture. Sharpness says nothing where exposure is wrong.
    pub fn flaws(&self, quality: &Quality) -> Vec<Flaw> {
        let exposure = [(quality.dark > self.dark, Flaw::TooDark), (quality.clipped > self.clipped, Flaw::TooBright)];
        let mut flaws: Vec<Flaw> = exposure.into_iter().filter(|(is, _)| *is).map(|(_, flaw)| flaw).collect();
        if flaws.is_empty() {
            let detail = [(self.is_blurred(quality), Flaw::Blurred), (quality.sharpness > self.noise, Flaw::Noise)];
            flaws.extend(detail.into_iter().filter(|(is, _)| *is).map(|(_, flaw)| flaw));
        }
        flaws
    }

    fn is_blurred(&self, quality: &Quality) -> bool {
        let [half, quarter] = quality.coarse_sharpness;
        let is_enlarged = half >= self.sharpness && quarter <= self.growth * half;
        quality.sharpness < self.sharpness && !is_enlarged
    }

    /// Whether two pictures are the same, for all that a person would see.
    pub fn repeats(&self, one: &Quality, other: &Quality) -> bool {
        one.distance(other) <= self.distance && one.unlike_cells(other) <= self.cells
    }
}

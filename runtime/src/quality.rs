//! Checks whether a picture is fit to be learned from: exposure, sharpness, and whether it was seen before.
//!
//! All is measured on the largest square in the middle, which is what the backbone sees, at [`SIDE`] pixels a side: so
//! a camera's resolution does not matter, and a blur counts if the backbone could see it. A smaller picture, such as a
//! thing far away that was cut out, is judged at its own size: enlarged, it would be blurred. One colour around a thing
//! that was cut out, or around a region that is no square, is left out: its edge would be sharp whatever the thing is.
//! Whether a picture looks like a known class is for the classifier to say ([`crate::learner::Learner::classify`]).
//!
//! ```
//! use orco_runtime::image;
//! use orco_runtime::quality::{Quality, Thresholds};
//!
//! let duck = image::open("../examples/shots/learn/rubber-duck/1.jpg")?;
//! let quality = Quality::of(&duck);
//! assert_eq!(Thresholds::default().flaws(&quality), []);
//! assert_eq!(quality.fingerprint.distance(&Quality::of(&duck).fingerprint), 0);
//! # Ok::<(), image::PictureFileError>(())
//! ```

mod objection;
mod place;
mod repeat;
#[cfg(test)]
mod tests;

use std::fmt;

use ::image::RgbImage;

use crate::image::{self, Look, Preprocessing};

pub use objection::{BestClass, EarlierShot, LOOKS_LIKE_PROBABILITY, Objection, ShotCandidate};
pub use place::show_different_places;
pub use repeat::PictureFingerprint;

/// Width and height, in pixels, at which pictures of at least this size are judged.
pub const SIDE: u32 = 128;
/// Least width and height at which pictures are judged: of smaller ones, a quarter shows too little.
const MIN_SIDE: u32 = 32;
/// Brightness, 0..255, below which a pixel is dark.
const DARK: f32 = 40.0;
/// Brightness from which a pixel is clipped.
const CLIPPED: f32 = 250.0;
/// Brightness from which a pixel is bright.
const BRIGHT: f32 = 128.0;
/// Share of bright pixels from which a dark picture shows something lit in the dark, and share of dark ones from which
/// a clipped picture shows something before a light. Photographs lit too little or too much have only a few of them.
const MIN_THING_SHARE: f32 = 0.01;
/// Share of shaded pixels, among those that are not clipped, from which a clipped picture shows something on white
/// ground. Shaded ones are not bright. In photographs lit too much, most pixels that are not clipped nearly are.
const MIN_SHADED_SHARE: f32 = 0.25;
/// Pixels around a filled part of a picture that belong to its edge.
const FILL_EDGE: u32 = 2;
/// Factor on [`Thresholds::noise`] for a picture that is judged in its own pixels: its default limit is 12. At that
/// scale, fine print has a sharpness of 8, white noise one of 17 and more. Noise whose colours a camera interpolated
/// (demosaicing) has 7: no limit tells it from print.
const UNSCALED_NOISE_FACTOR: f32 = 2.4;
/// A picture is judged as a whole where fewer than one in this many pixels show something.
const PIXELS_PER_SHOWN: usize = 50;

/// What was measured on a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quality {
    /// Share of dark pixels, 0..1.
    pub dark: f32,
    /// Share of clipped pixels, 0..1.
    pub clipped: f32,
    /// Share of bright pixels, 0..1.
    pub bright: f32,
    /// Variance of the brightness's Laplacian (Pech-Pacheco et al., ICPR 2000) over the variance of the brightness, so
    /// that neither light nor contrast matters. 0 for a blank picture.
    pub sharpness: f32,
    /// As [`Quality::sharpness`], at half as many pixels a side and at a quarter.
    pub coarse_sharpness: [f32; 2],
    /// What tells whether another picture repeats it.
    pub fingerprint: PictureFingerprint,
    /// Whether it was judged in its own pixels. Scaling makes pixels more like their neighbours.
    is_unscaled: bool,
}

impl Quality {
    /// Measures a picture.
    ///
    /// # Panics
    /// If it has no pixels.
    pub fn of(picture: &RgbImage) -> Self {
        let whole = square(picture, SIDE);
        let own_side = picture.width().min(picture.height());
        let side = own_side.clamp(MIN_SIDE, SIDE);
        let at = |side| BrightnessMap::of(&square(picture, side));
        let light = if side == SIDE { BrightnessMap::of(&whole) } else { at(side) };
        Self {
            dark: light.share(|light| light < DARK),
            clipped: light.share(|light| light >= CLIPPED),
            bright: light.share(|light| light >= BRIGHT),
            sharpness: light.sharpness(),
            coarse_sharpness: [2, 4].map(|part| at(side / part).sharpness()),
            fingerprint: PictureFingerprint::of(&whole),
            is_unscaled: side == own_side,
        }
    }

    /// Whether a picture that is clipped nearly everywhere shows something on white ground, as in a light box.
    fn shows_thing_on_white(&self) -> bool {
        1.0 - self.bright >= MIN_THING_SHARE.max(MIN_SHADED_SHARE * (1.0 - self.clipped))
    }
}

/// The largest square in the middle, at that many pixels a side.
fn square(picture: &RgbImage, side: u32) -> RgbImage {
    Preprocessing { width: side, height: side, mean: [0.0; 3], deviation: [1.0; 3], look: Look::WHOLE }.fit(picture)
}

/// Brightness, 0..255.
fn brightness(pixel: [u8; 3]) -> f32 {
    image::luma(pixel.map(f32::from))
}

/// The brightness of a square picture, as far as that shows something.
struct BrightnessMap {
    /// 0..255, row by row.
    light: Vec<f32>,
    /// Whether a pixel shows something.
    shown: Vec<bool>,
    side: usize,
}

impl BrightnessMap {
    fn of(square: &RgbImage) -> Self {
        let light = square.pixels().map(|pixel| brightness(pixel.0)).collect();
        Self { light, shown: shown(square), side: square.width() as usize }
    }

    /// The brightness of all pixels that show something.
    fn shown_light(&self) -> Vec<f32> {
        self.light.iter().zip(&self.shown).filter(|(_, shown)| **shown).map(|(light, _)| *light).collect()
    }

    /// The share of these that is of some brightness.
    fn share(&self, is: impl Fn(f32) -> bool) -> f32 {
        let light = self.shown_light();
        light.iter().filter(|light| is(**light)).count() as f32 / light.len() as f32
    }

    /// See [`Quality::sharpness`].
    fn sharpness(&self) -> f32 {
        let Self { light, shown, side } = self;
        let inner = (1..side - 1).flat_map(|y| (1..side - 1).map(move |x| y * side + x)).filter(|at| shown[*at]);
        // Four times each inner pixel less its neighbours.
        let laplacian: Vec<f32> = inner
            .map(|at| 4.0 * light[at] - light[at - 1] - light[at + 1] - light[at - side] - light[at + side])
            .collect();
        variance(&laplacian) / variance(&self.shown_light()).max(1.0)
    }
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
    let near = |at: u32| at.saturating_sub(FILL_EDGE)..=(at + FILL_EDGE).min(side - 1);
    let is_shown = |at: u32| {
        let (x, y) = (at % side, at / side);
        !near(y).any(|y| near(x).any(|x| is_fill(x, y)))
    };
    let shown: Vec<bool> = (0..side * side).map(is_shown).collect();
    if shown.iter().filter(|shown| **shown).count() * PIXELS_PER_SHOWN < shown.len() { all } else { shown }
}

fn variance(values: &[f32]) -> f32 {
    let count = values.len().max(1) as f32;
    let mean = values.iter().sum::<f32>() / count;
    values.iter().map(|value| (value - mean) * (value - mean)).sum::<f32>() / count
}

/// Limits beyond which a picture is refused as a shot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Most dark pixels, 0..1, where hardly anything is bright.
    pub dark: f32,
    /// Most clipped pixels, 0..1, where hardly anything is dark, and what is not clipped is bright.
    pub clipped: f32,
    /// Least sharpness.
    pub sharpness: f32,
    /// A picture that is not sharp enough counts as enlarged, not as blurred, if it is sharp enough at half as many
    /// pixels a side and its sharpness at a quarter is at most this many times that at a half. Below its real size an
    /// enlarged picture gains little; a blurred one keeps gaining.
    pub growth: f32,
    /// Most sharpness of a picture that is scaled to be judged; 2.4 times as much for one judged in its own pixels.
    pub noise: f32,
    /// Most places in which the fingerprint of a repeated picture differs ([`PictureFingerprint::distance`]).
    pub distance: u32,
    /// Most cells in which a repeated picture has another colour ([`PictureFingerprint::mismatched_cells`]).
    pub mismatched_cells: usize,
}

impl Default for Thresholds {
    /// Chosen on the sample pictures and on photographs of Caltech-101. How often they err there is in
    /// `docs/src/journal/2026-11-30-shot-checks.md`; `quality/tests.rs` prints such rates.
    fn default() -> Self {
        Self { dark: 0.8, clipped: 0.8, sharpness: 0.025, growth: 3.5, noise: 5.0, distance: 36, mismatched_cells: 8 }
    }
}

/// What is wrong with a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// Nearly everything is dark, and nothing bright.
    TooDark,
    /// Nearly everything is clipped to white, nothing is dark, and what is not white is bright.
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
        let is_dark = quality.dark > self.dark && quality.bright < MIN_THING_SHARE;
        let is_bright =
            quality.clipped > self.clipped && quality.dark < MIN_THING_SHARE && !quality.shows_thing_on_white();
        let noise = if quality.is_unscaled { UNSCALED_NOISE_FACTOR * self.noise } else { self.noise };
        let exposure = [(is_dark, Flaw::TooDark), (is_bright, Flaw::TooBright)];
        let detail = [(self.is_blurred(quality), Flaw::Blurred), (quality.sharpness > noise, Flaw::Noise)];
        let is_well_exposed = exposure.iter().all(|(is_flawed, _)| !is_flawed);
        let flaws = if is_well_exposed { detail } else { exposure };
        flaws.into_iter().filter_map(|(is_flawed, flaw)| is_flawed.then_some(flaw)).collect()
    }

    fn is_blurred(&self, quality: &Quality) -> bool {
        let [half, quarter] = quality.coarse_sharpness;
        let is_enlarged = half >= self.sharpness && quarter <= self.growth * half;
        quality.sharpness < self.sharpness && !is_enlarged
    }

    /// Whether one picture repeats another, for all that a person would see: fingerprint and colours both agree.
    pub fn repeats(&self, one: &Quality, other: &Quality) -> bool {
        one.fingerprint.distance(&other.fingerprint) <= self.distance
            && one.fingerprint.mismatched_cells(&other.fingerprint) <= self.mismatched_cells
    }

    /// Whether one picture copies another, for shots of two classes: as [`Thresholds::repeats`], but only an eighth as
    /// many cells may have another colour. Two pears before one background differ in few.
    pub fn repeats_across_classes(&self, one: &Quality, other: &Quality) -> bool {
        Self { mismatched_cells: self.mismatched_cells / 8, ..*self }.repeats(one, other)
    }
}

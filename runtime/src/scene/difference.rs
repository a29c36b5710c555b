//! Where a frame differs from the background.

use orco_core::math::ln_of_normal;

use super::background::{Background, NOISE};
use super::camera_pose::CameraPose;
use super::exposure::{aligned, gains};
use super::filter::box_mean;
use super::place_fit::PlaceFit;
use super::small_frame::{CLIPPED, SmallFrame, brightness};

/// Deviations, over 3 x 3 pixels, from which a pixel may belong to a thing that begins nearby.
const WEAK: f32 = 3.0;
/// Deviations from which a thing begins.
const STRONG: f32 = 6.0;
/// Pixels by which a picture may shake.
const SHAKE: f32 = 0.35;
/// Range of a shadow's or a reflection's brightness, as a ratio to the background's.
const LIT_RATIOS: [f32; 2] = [0.45, 1.12];
/// Range of ratios whose logarithms are compared: as far below 1 as above, and far wider than [`LIT_RATIOS`].
const LOG_RATIOS: [f32; 2] = [0.02, 50.0];
/// Most deviations by which a shadow's or a reflection's colour differs once its brightness is that of the background.
const MAX_TINT: f32 = 3.0;
/// Most deviation, in a shadow, of the logarithm of the ratio from its mean over 5 x 5 pixels. In a shadow the ratio
/// changes evenly; on a thing it does not.
const MAX_ROUGHNESS: f32 = 0.02;
/// Brightness, 0..255, below which noise makes ratios uncertain.
const DARK: f32 = 12.0;
/// Added to both sides of a ratio of squares over three channels, so that it is near 1 for dark pixels.
const DARK_SQUARES: f32 = 3.0 * DARK * DARK;
/// Brightness rise from which a pixel of the background is an edge, in steps per pixel above what noise makes.
const EDGE: f32 = 4.0;
/// Least share of edges by which a moved camera is recognised.
const MIN_EDGES: f32 = 0.02;
/// Share of the pixels that certainly show the place, from whose deviations the frame's own noise is estimated.
const CERTAIN: f32 = 0.25;
/// Deviations within which that share of normal values is.
const CERTAIN_DEVIATIONS: f32 = 0.3186;
/// One pixel of this many is used to estimate the frame's noise.
const STEP: usize = 5;
/// Steps between a pixel's channels up to which it may be grey, and from which it certainly has a colour.
const GREY: f32 = 4.0;
const COLOURED: f32 = 16.0;
/// Most pixels with a colour, as a share, of a frame without colours, and least of a place that has some.
const STRAY: f32 = 0.01;
const COLOURFUL: f32 = 0.02;

/// How much a pixel differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It shows the place in the light that it had.
    None,
    /// It seems to show the place in another light: a shadow, a reflection.
    Light,
    /// It may show a thing.
    Weak,
    /// It shows a thing.
    Strong,
}

impl Change {
    /// Whether a pixel may show a thing.
    pub fn may_be_thing(self) -> bool {
        matches!(self, Self::Weak | Self::Strong)
    }
}

/// Where a frame differs from the background.
pub(super) struct Difference {
    /// How much each pixel differs.
    pub changes: Vec<Change>,
    /// Whether the background can be recognised there by its structure: it is no place of one colour.
    pub edges: Vec<bool>,
    /// Whether each pixel has the colour of the place and differs in brightness as those around it do, however much.
    even: Vec<bool>,
    /// How bright each pixel is, as a ratio to the background's brightness, once exposures are alike.
    ratios: Vec<f32>,
    /// Factor by which the frame is brighter, channel by channel.
    pub gains: [f32; 3],
    /// Whether the frame has no colours, and the place does: brightness alone was compared.
    pub is_grey: bool,
    /// The share of the place that cannot be found in the frame, 0..1: of its edges or of its surface, whichever is
    /// more. A moved camera shows every edge elsewhere.
    pub lost: f32,
    /// How the camera stands. [`Background::difference`] finds that out; until then it counts as kept.
    pub pose: CameraPose,
}

impl Difference {
    /// Compares a frame with the background, which has its size. That of a camera that gives no colours at night is
    /// compared by brightness alone.
    pub fn of(background: &Background, small: &SmallFrame) -> Self {
        let is_grey =
            coloured_share(&small.pixels, GREY) <= STRAY && coloured_share(&background.colours, COLOURED) >= COLOURFUL;
        if is_grey {
            return Self { is_grey, ..Self::compare(background.in_grey(), small) };
        }
        Self::compare(background, small)
    }

    /// As [`Difference::of`], whatever colours they have.
    pub fn compare(background: &Background, small: &SmallFrame) -> Self {
        let gains = gains(&small.pixels, &background.colours);
        let aligned = aligned(&small.pixels, &gains);
        let allowed = allowed_variances(background, &aligned);
        let squares = squared_deviations(background, &aligned, &small.pixels, &gains);
        let ratios = ratios(background, &aligned);
        let even = even(background, &aligned, &allowed, &ratios);
        let relative: Vec<f32> = squares.iter().zip(&allowed).map(|(square, allowed)| square / allowed).collect();
        let relative = box_mean(&relative, background.width, 1);
        let is_lit = |index: usize| even[index] && (LIT_RATIOS[0]..LIT_RATIOS[1]).contains(&ratios[index]);
        let change = |(index, square): (usize, &f32)| match square {
            square if *square <= WEAK * WEAK => Change::None,
            _ if is_lit(index) => Change::Light,
            square if *square <= STRONG * STRONG => Change::Weak,
            _ => Change::Strong,
        };
        let changes = relative.iter().enumerate().map(change).collect();
        let edges = background.slopes.iter().map(|slope| *slope > EDGE + background.noise).collect();
        let (is_grey, lost, pose) = (false, 0.0, CameraPose::Kept);
        let mut difference = Self { changes, edges, even, ratios, gains, is_grey, lost, pose };
        difference.lost = difference.lost_where(|_| true);
        difference
    }

    /// Whether a pixel has the colour of the place, and differs in brightness as those around it do.
    pub fn is_even(&self, index: usize) -> bool {
        self.even[index]
    }

    /// How bright a pixel is, as the logarithm of a ratio to the background's brightness.
    pub fn log_ratio(&self, index: usize) -> f32 {
        clamped_log(self.ratios[index])
    }

    /// Whether another comparison of the same frame can find more of it to be the place in another light.
    pub fn may_hide_light(&self) -> bool {
        self.changes.iter().zip(&self.even).any(|(change, even)| change.may_be_thing() && *even)
    }

    /// Takes what another comparison of the same frame finds to be the place, among pixels that count, for the place in
    /// another light. The outline of a thing is none: where a shadow became part of the place, a thing may have the
    /// colours that were there before.
    pub fn accept_as_light(&mut self, other: &Self, counts: impl Fn(usize) -> bool) {
        let pairs = self.changes.iter_mut().zip(&self.even).zip(&other.changes);
        for (index, ((change, even), other)) in pairs.enumerate() {
            if change.may_be_thing() && *even && !other.may_be_thing() && counts(index) {
                *change = Change::Light;
            }
        }
        self.lost = self.lost_where(|_| true);
    }

    /// How well the place is found in the frame, with what is lost of the frame or of a region, whichever is less: a
    /// thing may fill the region, and a person beside it most of the frame, but a moved camera has lost both.
    pub fn fit(&self, is_in_region: impl Fn(usize) -> bool) -> PlaceFit {
        PlaceFit { lost: self.lost.min(self.lost_where(is_in_region)), pose: self.pose }
    }

    /// [`Difference::lost`] of the pixels that count alone; 0 where there are none.
    fn lost_where(&self, counts: impl Fn(usize) -> bool) -> f32 {
        let (mut surface, mut edges) = (ChangedShare::default(), ChangedShare::default());
        for index in (0..self.changes.len()).filter(|index| counts(*index)) {
            let is_changed = self.changes[index].may_be_thing();
            surface.add(is_changed);
            if self.edges[index] {
                edges.add(is_changed);
            }
        }
        let has_edges = edges.all as f32 >= MIN_EDGES * surface.all as f32;
        if has_edges { surface.share().max(edges.share()) } else { surface.share() }
    }
}

/// The share of pixels whose channels are more than `steps` steps apart.
fn coloured_share(pixels: &[[f32; 3]], steps: f32) -> f32 {
    let is_coloured = |[red, green, blue]: &&[f32; 3]| red.max(*green).max(*blue) - red.min(*green).min(*blue) > steps;
    pixels.iter().filter(is_coloured).count() as f32 / pixels.len().max(1) as f32
}

/// How many pixels have changed.
#[derive(Default)]
struct ChangedShare {
    changed: usize,
    all: usize,
}

impl ChangedShare {
    fn add(&mut self, is_changed: bool) {
        self.all += 1;
        self.changed += usize::from(is_changed);
    }

    /// 0 of no pixels.
    fn share(&self) -> f32 {
        self.changed as f32 / self.all.max(1) as f32
    }
}

/// The mean squared deviation of each pixel from the background, over its channels. A channel that is clipped in both
/// has none.
fn squared_deviations(background: &Background, aligned: &[[f32; 3]], seen: &[[f32; 3]], gains: &[f32; 3]) -> Vec<f32> {
    let square = |index: usize| -> f32 {
        let squares = (0..3).map(|channel| {
            let colour = background.colours[index][channel];
            let clipped = seen[index][channel] >= CLIPPED && colour * gains[channel].max(1.0) >= CLIPPED;
            let off = if clipped { 0.0 } else { aligned[index][channel] - colour };
            off * off
        });
        squares.sum::<f32>() / 3.0
    };
    (0..aligned.len()).map(square).collect()
}

/// The squared deviation that each pixel may have: by its own noise, by that of the frame, and by a small shake.
fn allowed_variances(background: &Background, aligned: &[[f32; 3]]) -> Vec<f32> {
    let noise = frame_noise(background, aligned);
    let of_pixel = |(variance, slope): (&f32, &f32)| {
        let shake = SHAKE * slope;
        variance.max(noise * noise) + shake * shake
    };
    background.variances.iter().zip(&background.slopes).map(of_pixel).collect()
}

/// The noise of a frame, by the pixels that deviate least: a thing may cover most of a frame.
fn frame_noise(background: &Background, aligned: &[[f32; 3]]) -> f32 {
    let pairs = aligned.iter().zip(&background.colours).step_by(STEP);
    let mut offs: Vec<f32> = pairs.flat_map(|(one, other)| [0, 1, 2].map(|c| (one[c] - other[c]).abs())).collect();
    let index = (CERTAIN * offs.len() as f32) as usize;
    let (_, off, _) = offs.select_nth_unstable_by(index, f32::total_cmp);
    (*off / CERTAIN_DEVIATIONS).clamp(background.noise, (3.0 * background.noise).min(NOISE[1]))
}

/// How bright each pixel is, as a ratio to the background's brightness.
fn ratios(background: &Background, aligned: &[[f32; 3]]) -> Vec<f32> {
    let pairs = aligned.iter().zip(&background.colours);
    pairs.map(|(pixel, colour)| (dot(pixel, colour) + DARK_SQUARES) / (dot(colour, colour) + DARK_SQUARES)).collect()
}

/// Whether each pixel has the background's colour, and a ratio to its brightness that rises and falls evenly, as in a
/// shadow or a reflection.
fn even(background: &Background, aligned: &[[f32; 3]], allowed: &[f32], ratios: &[f32]) -> Vec<bool> {
    let width = background.width;
    let tints: Vec<f32> = aligned
        .iter()
        .zip(&background.colours)
        .zip(ratios.iter().zip(allowed))
        .map(|((pixel, colour), (ratio, allowed))| {
            let off = [0, 1, 2].map(|channel| pixel[channel] - ratio * colour[channel]);
            dot(&off, &off) / (3.0 * allowed)
        })
        .collect();
    let logs: Vec<f32> = ratios.iter().copied().map(clamped_log).collect();
    let off_mean = box_mean(&logs, width, 2).into_iter().zip(&logs).map(|(mean, log)| (log - mean) * (log - mean));
    let roughness = box_mean(&off_mean.collect::<Vec<f32>>(), width, 2);
    let tints = box_mean(&tints, width, 1);
    let is_even = |index: usize| {
        let level = brightness(&background.colours[index]).max(DARK);
        // Noise alone makes dark places rough.
        let most = MAX_ROUGHNESS + libm::sqrtf(allowed[index] / 3.0) / level;
        tints[index] < MAX_TINT * MAX_TINT && roughness[index] < most * most
    };
    (0..aligned.len()).map(is_even).collect()
}

/// The logarithm of a ratio, however small or large that is.
fn clamped_log(ratio: f32) -> f32 {
    ln_of_normal(ratio.clamp(LOG_RATIOS[0], LOG_RATIOS[1]))
}

fn dot(one: &[f32; 3], other: &[f32; 3]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

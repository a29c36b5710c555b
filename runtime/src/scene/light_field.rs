//! How much brighter or darker the light has become from one part of the place to another.
//!
//! One factor for each channel, as `exposure` finds it, does not describe a lamp that is switched on at one side, or the
//! sun through a curtain: parts of the place are then brighter than a reflection makes them. Where the place has
//! structure, and the frame shows the same structure, the place itself is seen, in whatever light. A polynomial through
//! the logarithms of its brightness there is the light. It tells nothing of plain parts far from such structure: a plain
//! thing before a plain wall looks like light. The thresholds were set on other draws of the pasted scenes in the
//! journal of the book (2026-11-30, a lamp at one side).

use nalgebra::{SMatrix, SVector};

use super::background::Background;
use super::difference::Difference;
use super::small_frame::{SmallFrame, brightness};
use super::structure::{BLOCK, Block, BlockSearch};

/// Correlation from which a block shows the place.
const MIN_CORRELATION: f32 = 0.8;
/// Least share of the blocks that must show it.
const MIN_SHARE: f32 = 0.25;
/// Least number of these.
const MIN_BLOCKS: usize = 6;
/// Pixels of the small frame around such blocks for which the light is known: as far as the next block reaches.
const AROUND: usize = BLOCK;
/// Of this many columns and rows, one pixel is sampled.
const STEP: usize = 4;
/// Brightness at which neither the place nor the frame is dark or clipped, 0..255.
const USABLE: core::ops::Range<f32> = 16.0..242.0;
/// Terms of a polynomial of degree 4 in two variables.
const TERMS: usize = 15;
type Terms = SVector<f64, TERMS>;
/// Fewest samples.
const MIN_SAMPLES: usize = 6 * TERMS;
/// Residual at which a sample counts a quarter, fit by fit: what covers the place must not tell its light.
const RESIDUALS: [f64; 8] = [0.6, 0.4, 0.25, 0.15, 0.1, 0.08, 0.06, 0.06];
/// Keeps the equations solvable where samples lie on a line.
const RIDGE: f64 = 1e-6;
/// Largest residual of a sample that agrees with the polynomial.
const MAX_RESIDUAL: f64 = 0.08;
/// Least share of the samples that must.
const MIN_AGREEING: f64 = 0.6;
/// Least difference of the light between two samples, as a logarithm: less is within what shadows and reflections do.
const MIN_RANGE: f64 = 0.08;
/// Largest logarithm: about 1 to 3.3, as for exposures.
const MAX_LOG: f64 = 1.2;

/// The light on the place, compared with that in which it was shown, once the frame's exposure is that of the place.
pub(super) struct LightField {
    /// Factor by which each pixel of the small frame is brighter; 1 where that is not known.
    pub factors: Vec<f32>,
    /// Whether it is known of each pixel.
    pub is_known: Vec<bool>,
}

impl LightField {
    /// The light that a frame shows in which the place's blocks were looked for. None if it shows too little of the
    /// place, or the same light everywhere.
    pub fn of(place: &Background, small: &SmallFrame, difference: &Difference, search: &BlockSearch) -> Option<Self> {
        let width = place.width;
        let height = small.pixels.len() / width;
        let blocks = seen_blocks(search)?;
        let is_seen = within(&blocks, 0, width, height);
        let is_usable = |index: &usize| {
            let levels = [brightness(&place.colours[*index]), brightness(&small.pixels[*index])];
            is_seen[*index] && difference.is_even(*index) && levels.iter().all(|level| USABLE.contains(level))
        };
        let rows = (STEP / 2..height).step_by(STEP);
        let sampled = rows.flat_map(|y| (STEP / 2..width).step_by(STEP).map(move |x| y * width + x));
        let terms_of = |index: usize| terms(index % width, index / width, width, height);
        let samples: Vec<Sample> = sampled
            .filter(is_usable)
            .map(|index| Sample { terms: terms_of(index), log: f64::from(difference.log_ratio(index)) })
            .collect();
        if samples.len() < MIN_SAMPLES {
            return None;
        }
        let polynomial = fit(&samples)?;
        let agreeing = samples.iter().filter(|sample| sample.residual(&polynomial).abs() < MAX_RESIDUAL).count();
        let values = || samples.iter().map(|sample| sample.terms.dot(&polynomial));
        let range = values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min);
        if (agreeing as f64) < MIN_AGREEING * samples.len() as f64 || range < MIN_RANGE {
            return None;
        }
        let is_known = within(&blocks, AROUND, width, height);
        let lit = |index| libm::exp(terms_of(index).dot(&polynomial).clamp(-MAX_LOG, MAX_LOG)) as f32;
        // Elsewhere the polynomial tells nothing, and must not sway the exposure.
        let factor = |index: usize| if is_known[index] { lit(index) } else { 1.0 };
        let factors = (0..small.pixels.len()).map(factor).collect();
        Some(Self { factors, is_known })
    }
}

/// The blocks of the place whose structure the frame shows where it was. None if there are too few.
fn seen_blocks(search: &BlockSearch) -> Option<Vec<Block>> {
    let seen: Vec<Block> = search.in_place_from(MIN_CORRELATION).collect();
    let enough = MIN_BLOCKS.max((MIN_SHARE * search.blocks.len() as f32) as usize);
    (seen.len() >= enough).then_some(seen)
}

/// Whether each pixel lies in one of these blocks, or at most `reach` columns and rows from one.
fn within(blocks: &[Block], reach: usize, width: usize, height: usize) -> Vec<bool> {
    let mut is_within = vec![false; width * height];
    for block in blocks {
        let [x, y] = block.middle().map(|middle| middle as usize);
        let around = |middle: usize, length: usize| {
            middle.saturating_sub(BLOCK / 2 + reach)..(middle + BLOCK / 2 + reach).min(length)
        };
        for row in around(y, height) {
            is_within[row * width..][around(x, width)].fill(true);
        }
    }
    is_within
}

/// A pixel that shows the place.
struct Sample {
    terms: Terms,
    /// Logarithm of its brightness as a ratio to the place's.
    log: f64,
}

impl Sample {
    /// How far it is from a polynomial.
    fn residual(&self, polynomial: &Terms) -> f64 {
        self.log - self.terms.dot(polynomial)
    }
}

/// The terms of the polynomial at a pixel, whose column and row are taken as -1..1.
fn terms(column: usize, row: usize, width: usize, height: usize) -> Terms {
    let along = |place: usize, length: usize| (2 * place + 1) as f64 / length as f64 - 1.0;
    let (x, y) = (along(column, width), along(row, height));
    let (xx, xy, yy) = (x * x, x * y, y * y);
    [1.0, x, y, xx, xy, yy, xx * x, xx * y, x * yy, yy * y, xx * xx, xx * xy, xx * yy, xy * yy, yy * yy].into()
}

/// The polynomial that most samples agree with: least squares, in which samples count less the farther they are from
/// the last one (iteratively reweighted). None if the equations cannot be solved.
fn fit(samples: &[Sample]) -> Option<Terms> {
    let mut polynomial: Option<Terms> = None;
    for residual in RESIDUALS {
        let mut matrix = SMatrix::<f64, TERMS, TERMS>::identity() * (RIDGE * samples.len() as f64);
        let mut right_side = Terms::zeros();
        for sample in samples {
            let weight = polynomial.as_ref().map_or(1.0, |last| {
                let off = sample.residual(last) / residual;
                1.0 / ((1.0 + off * off) * (1.0 + off * off))
            });
            matrix.ger(weight, &sample.terms, &sample.terms, 1.0);
            right_side.axpy(weight * sample.log, &sample.terms, 1.0);
        }
        polynomial = Some(matrix.cholesky()?.solve(&right_side));
    }
    polynomial
}

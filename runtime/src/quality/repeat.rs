//! Checks whether one picture repeats another, or shows the same background: fingerprints of pictures, and how far two
//! of them differ.

use ::image::RgbImage;

use super::brightness;
use crate::image;

/// Rows and columns of the cells.
const CELLS: u32 = 16;
/// Rows and columns of cells along each side that belong to the edge.
const EDGE_CELLS: usize = 3;
/// Brightness by which two neighbouring cells may differ and still count as alike.
const MAX_FLAT_DIFFERENCE: f32 = 0.5;
/// How far, in steps of a channel, a cell may lie outside the range of the cells around the same place in the other
/// picture.
const COLOUR_TOLERANCE: f32 = 12.0;
/// Channel value below which the ratio of two cells says nothing of the light.
const MIN_RATIO_LEVEL: u8 = 16;

/// A picture in 16 x 16 cells, row by row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PictureFingerprint {
    /// Whether brightness falls from a cell to the next one of its row (difference hash): a bit for each cell, the
    /// lowest first.
    pub falls: [u64; 4],
    /// Where both cells are alike, so that `falls` says nothing: around a thing that was cut out, for one.
    pub flat: [u64; 4],
    /// Mean colours.
    pub colours: [[u8; 3]; (CELLS * CELLS) as usize],
}

impl PictureFingerprint {
    /// Computes the fingerprint of a square picture.
    pub(super) fn of(square: &RgbImage) -> Self {
        let (falls, flat) = falls(square);
        let cells = image::resize(square, [CELLS; 2]);
        let colour = |cell: usize| cells.get_pixel(cell as u32 % CELLS, cell as u32 / CELLS).0;
        Self { falls, flat, colours: core::array::from_fn(colour) }
    }

    /// In how many of 256 places brightness falls otherwise: about half of them for unrelated pictures, few for a copy
    /// that was compressed, brightened or moved a little. Places that are flat in both pictures are skipped, and the
    /// count is scaled to all 256.
    pub fn distance(&self, other: &Self) -> u32 {
        let telling = |part: usize| !(self.flat[part] & other.flat[part]);
        let differing = |part: usize| telling(part) & (self.falls[part] ^ other.falls[part]);
        let count = |of: &dyn Fn(usize) -> u64| (0..4).map(|part| of(part).count_ones()).sum::<u32>();
        CELLS * CELLS * count(&differing) / count(&telling).max(1)
    }

    /// How many of the 256 cells have a colour, corrected for the light, that is not found near that place in the other
    /// picture; the larger count of both directions. Another thing before the same background has many.
    pub fn mismatched_cells(&self, other: &Self) -> usize {
        let [one, other] = [&self.colours, &other.colours];
        count_mismatched(one, other, |_| true).max(count_mismatched(other, one, |_| true))
    }

    /// The share of the cells along the edge, 0..1, that are mismatched in the same way; the mean of both directions.
    /// What is there is mostly not the thing: another background has many.
    pub fn edge_mismatch(&self, other: &Self) -> f32 {
        let [one, other] = [&self.colours, &other.colours];
        let mismatched = count_mismatched(one, other, is_at_edge) + count_mismatched(other, one, is_at_edge);
        let cells = (0..one.len()).filter(|cell| is_at_edge(*cell)).count();
        mismatched as f32 / (2 * cells) as f32
    }
}

/// See [`PictureFingerprint::falls`], and [`PictureFingerprint::flat`].
fn falls(square: &RgbImage) -> ([u64; 4], [u64; 4]) {
    let cells = image::resize(square, [CELLS + 1, CELLS]);
    let light = |x, y| brightness(cells.get_pixel(x, y).0);
    let (mut bits, mut flat) = ([0; 4], [0; 4]);
    for (bit, (x, y)) in (0..CELLS).flat_map(|y| (0..CELLS).map(move |x| (x, y))).enumerate() {
        let fall = light(x, y) - light(x + 1, y);
        bits[bit / 64] |= u64::from(fall > 0.0) << (bit % 64);
        flat[bit / 64] |= u64::from(fall.abs() < MAX_FLAT_DIFFERENCE) << (bit % 64);
    }
    (bits, flat)
}

/// Whether a cell belongs to the edge.
fn is_at_edge(cell: usize) -> bool {
    let side = CELLS as usize;
    [cell / side, cell % side].iter().any(|at| *at < EDGE_CELLS || *at >= side - EDGE_CELLS)
}

/// How many of the cells that `counts` chooses are mismatched: one picture, corrected for the light, has a colour there
/// that is not found near that cell in the other.
fn count_mismatched(one: &[[u8; 3]], other: &[[u8; 3]], counts: impl Fn(usize) -> bool) -> usize {
    let side = CELLS as usize;
    let gains: [f32; 3] = core::array::from_fn(|channel| {
        let cells = one.iter().zip(other).map(|(one, other)| [one[channel], other[channel]]);
        let usable = cells.filter(|cell| cell.iter().all(|colour| *colour >= MIN_RATIO_LEVEL));
        let mut ratios: Vec<f32> = usable.map(|[one, other]| f32::from(other) / f32::from(one)).collect();
        ratios.sort_by(f32::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or(1.0)
    });
    let around = |at: usize| at.saturating_sub(1)..=(at + 1).min(side - 1);
    let is_mismatched = |cell: &usize| {
        (0..3).any(|channel| {
            let colour = f32::from(one[*cell][channel]) * gains[channel];
            let near = around(cell / side).flat_map(|y| around(cell % side).map(move |x| other[y * side + x][channel]));
            let (low, high) = near.fold((u8::MAX, 0), |(low, high), near| (low.min(near), high.max(near)));
            colour < f32::from(low) - COLOUR_TOLERANCE || colour > f32::from(high) + COLOUR_TOLERANCE
        })
    };
    (0..one.len()).filter(|cell| counts(*cell)).filter(is_mismatched).count()
}

//! Converts pictures in other colour spaces to sRGB, on which backbones are trained. A picture without a profile, or
//! with one that is equivalent to sRGB, keeps its bytes.
//!
//! A profile that makes no sense is ignored, as in viewers: the picture counts as sRGB then, and the log says so.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use ::image::RgbImage;
use moxcms::{
    Chromaticity, CicpColorPrimaries, CicpProfile, ColorPrimaries, ColorProfile, DataColorSpace, Layout,
    MatrixCoefficients, ParsingOptions, ToneReprCurve, TransferCharacteristics, Transform8BitExecutor,
    TransformOptions,
};

/// Largest profile that is read, in bytes. Those of cameras and screens have up to some thousand, tables of colours up
/// to some hundred thousand.
pub(super) const MAX_PROFILE: usize = 1 << 20;
/// Most bytes that a conversion takes while it is made and in use, the profile apart.
const CONVERSION_BYTES: usize = 12 << 20;

/// Most entries of a profile; few have more than 20.
const MAX_ENTRIES: usize = 64;
/// Most points of a table of colours: 65 along each axis.
const MAX_POINTS: usize = 300_000;
/// Most points of a curve.
const MAX_CURVE: usize = 40_000;
/// Levels of 255 by which a profile may differ from sRGB and still counts as sRGB's: profiles of different makers,
/// whose curves are tables and formulas, differ by one or two.
const MAX_SRGB_DIFFERENCE: u8 = 2;
/// Gamma of a PNG that approximates sRGB's curve.
const SRGB_GAMMA: f32 = 0.45455;
/// How far from it a gamma may be and still count as sRGB's: a twentieth, as in libpng.
const MAX_GAMMA_DIFFERENCE: f32 = 0.05 * SRGB_GAMMA;

/// The pictures that a profile must describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProfileKind {
    /// Pictures in grey.
    Grey,
    /// Pictures in red, green and blue.
    Rgb,
}

/// A conversion of a picture's colours to sRGB.
pub(super) enum Conversion {
    /// A table for each level of grey.
    Grey(Box<[u8; 256]>),
    /// A transform of red, green and blue together.
    Rgb(Arc<Transform8BitExecutor>),
}

impl Conversion {
    /// Makes it from an ICC profile; `None` where nothing is to be converted, or the profile cannot be used.
    pub(super) fn of_profile(icc: &[u8], kind: ProfileKind) -> Option<Self> {
        if !is_bounded(icc) {
            return unusable("it is too large, or its table of contents makes no sense");
        }
        let options = ParsingOptions {
            max_profile_size: MAX_PROFILE + 1,
            max_allowed_clut_size: MAX_POINTS,
            max_allowed_trc_size: MAX_CURVE,
        };
        let profile = match ColorProfile::new_from_slice_with_options(icc, options) {
            Ok(profile) => profile,
            Err(error) => return unusable(error),
        };
        let described = match kind {
            ProfileKind::Grey => DataColorSpace::Gray,
            ProfileKind::Rgb => DataColorSpace::Rgb,
        };
        if profile.color_space != described {
            return unusable("it belongs to pictures of another kind");
        }
        Self::of(&profile, kind)
    }

    /// Makes it from the numbers of a PNG's chunk `cICP` (ITU-T H.273): primaries, transfer, matrix, and whether the
    /// range is full. Pictures of high dynamic range stay as they are.
    pub(super) fn of_code_points(primaries: u8, transfer: u8, matrix: u8, full: bool) -> Option<Self> {
        // BT.709, BT.601, BT.2020, DCI-P3 and Display P3; curves of video, gamma 2.2 and 2.8, linear, sRGB's.
        let known =
            matches!(primaries, 1 | 5 | 6 | 9 | 11 | 12) && matches!(transfer, 1 | 4 | 5 | 6 | 8 | 13 | 14 | 15);
        if !known || matrix != 0 || !full {
            return None;
        }
        let color_primaries = CicpColorPrimaries::try_from(primaries).ok()?;
        let transfer_characteristics = TransferCharacteristics::try_from(transfer).ok()?;
        let matrix_coefficients = MatrixCoefficients::Identity;
        let code = CicpProfile { color_primaries, transfer_characteristics, matrix_coefficients, full_range: full };
        Self::of(&ColorProfile::new_from_cicp(code), ProfileKind::Rgb)
    }

    /// Makes it from a PNG's chunk `gAMA` and, unless the picture is grey, `cHRM`: white, red, green and blue, x and y
    /// of each. A gamma close to that of sRGB stands for sRGB's own curve.
    pub(super) fn of_gamma(gamma: f32, chromaticities: Option<[[f32; 2]; 4]>) -> Option<Self> {
        if !(0.1..=10.0).contains(&gamma) {
            return unusable("its gamma makes no sense");
        }
        let mut profile = ColorProfile::new_srgb();
        profile.cicp = None;
        if (gamma - SRGB_GAMMA).abs() > MAX_GAMMA_DIFFERENCE {
            let curve = Some(ToneReprCurve::Parametric(vec![1.0 / gamma]));
            (profile.red_trc, profile.green_trc, profile.blue_trc) = (curve.clone(), curve.clone(), curve);
        }
        if let Some(points) = chromaticities {
            let sound = |[x, y]: &[f32; 2]| (0.0..=1.0).contains(x) && (0.001..=1.0).contains(y);
            // Twice the area of the triangle of all colours.
            let [_, [rx, ry], [gx, gy], [bx, by]] = points;
            let area = ((gx - rx) * (by - ry) - (bx - rx) * (gy - ry)).abs();
            if !points.iter().all(sound) || area < 0.01 {
                return unusable("its primaries make no sense");
            }
            let [white, red, green, blue] = points.map(|[x, y]| Chromaticity::new(x, y));
            profile.update_rgb_colorimetry(white.to_xyyb(), ColorPrimaries { red, green, blue });
        }
        Self::of(&profile, ProfileKind::Rgb)
    }

    fn of(profile: &ColorProfile, kind: ProfileKind) -> Option<Self> {
        let layout = if kind == ProfileKind::Grey { Layout::Gray } else { Layout::Rgb };
        let srgb = ColorProfile::new_srgb();
        let transform = profile.create_transform_8bit(layout, &srgb, Layout::Rgb, TransformOptions::default());
        let transform = match transform {
            Ok(transform) => transform,
            Err(error) => return unusable(error),
        };
        let levels: Vec<u8> = (0..=255).collect();
        let colours = match kind {
            ProfileKind::Grey => levels.clone(),
            ProfileKind::Rgb => probes(),
        };
        let mut converted = vec![0; if kind == ProfileKind::Grey { 3 * 256 } else { colours.len() }];
        if let Err(error) = transform.transform(&colours, &mut converted) {
            return unusable(error);
        }
        if kind == ProfileKind::Grey {
            let table: [u8; 256] = core::array::from_fn(|level| converted[3 * level]);
            let is_same = table.iter().zip(levels).all(|(to, from)| to.abs_diff(from) <= MAX_SRGB_DIFFERENCE);
            return (!is_same).then(|| Self::Grey(Box::new(table)));
        }
        let is_same = colours.iter().zip(&converted).all(|(from, to)| to.abs_diff(*from) <= MAX_SRGB_DIFFERENCE);
        (!is_same).then_some(Self::Rgb(transform))
    }

    /// Most bytes that a conversion takes, if there is one.
    pub(super) fn peak_bytes(conversion: Option<&Self>) -> usize {
        conversion.map_or(0, |_| CONVERSION_BYTES)
    }

    /// Converts a picture's colours to sRGB, row by row.
    pub(super) fn apply(&self, picture: &mut RgbImage) {
        let row = 3 * picture.width() as usize;
        match self {
            Self::Grey(table) => picture.iter_mut().for_each(|level| *level = table[usize::from(*level)]),
            Self::Rgb(transform) => {
                let mut before = vec![0; row];
                for pixels in picture.chunks_exact_mut(row.max(3)) {
                    before.copy_from_slice(pixels);
                    transform.transform(&before, pixels).expect("both rows have the same whole number of pixels");
                }
            }
        }
    }
}

/// Notes in the log why a profile is ignored.
fn unusable(why: impl std::fmt::Display) -> Option<Conversion> {
    log::info!("a picture's colour profile is ignored: {why}");
    None
}

/// Whether reading a profile is bounded: its size, its entries, and the bytes of all of them together, of which several
/// may share some.
fn is_bounded(icc: &[u8]) -> bool {
    const HEADER: usize = 128;
    let Some((count, entries)) = icc.get(HEADER..).and_then(|rest| rest.split_at_checked(4)) else { return false };
    let count = u32::from_be_bytes([count[0], count[1], count[2], count[3]]) as usize;
    if icc.len() > MAX_PROFILE || count > MAX_ENTRIES || entries.len() < 12 * count {
        return false;
    }
    let size = |entry: &[u8]| u64::from(u32::from_be_bytes([entry[8], entry[9], entry[10], entry[11]]));
    entries.chunks_exact(12).take(count).map(size).sum::<u64>() <= 4 * icc.len() as u64
}

/// Colours at which a profile is compared with sRGB: all greys, and nine levels of each component in all combinations.
fn probes() -> Vec<u8> {
    let greys = (0..=255).flat_map(|level| [level; 3]);
    let level = |index: usize| (index * 255 / 8) as u8;
    let others = (0..9 * 9 * 9).flat_map(|index| [level(index / 81), level(index / 9 % 9), level(index % 9)]);
    greys.chain(others).collect()
}

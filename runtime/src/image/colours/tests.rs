//! Pictures with profiles, whose colours are known by formulas of their own.

use std::time::{Duration, Instant};

use ::image::{Rgb, RgbImage};
use ::png::{BitDepth, ColorType, Encoder as PngEncoder, ScaledFloat, SourceChromaticities, SrgbRenderingIntent};
use jpeg_encoder::{ColorType as JpegColours, Encoder as JpegEncoder, SamplingFactor};
use moxcms::ColorProfile;
use orco_core::random::Random;
use orco_trials::heavy;
use orco_trials::png::chunk;

use super::MAX_PROFILE;
use crate::image::{decode, decode_reduced};

/// A colour space with D65 as white: from linear sRGB and back, and its curve, from linear and back.
struct ColourSpace {
    from_srgb: [[f64; 3]; 3],
    to_srgb: [[f64; 3]; 3],
    curves: [fn(f64) -> f64; 2],
}

const DISPLAY_P3: ColourSpace = ColourSpace {
    from_srgb: [[0.822_462, 0.177_538, 0.0], [0.033_194, 0.966_806, 0.0], [0.017_083, 0.072_397, 0.910_520]],
    to_srgb: [[1.224_940, -0.224_940, 0.0], [-0.042_057, 1.042_057, 0.0], [-0.019_638, -0.078_636, 1.098_274]],
    curves: [srgb_curve, linear],
};

const ADOBE_RGB: ColourSpace = ColourSpace {
    from_srgb: [[0.715_163, 0.284_837, 0.0], [0.0, 1.0, 0.0], [0.0, 0.041_170, 0.958_830]],
    to_srgb: [[1.398_356, -0.398_356, 0.0], [0.0, 1.0, 0.0], [0.0, -0.042_929, 1.042_929]],
    curves: [|value| value.powf(256.0 / 563.0), |value| value.powf(563.0 / 256.0)],
};

/// Colours in sRGB, all of which the others have, too.
const COLOURS: [[u8; 3]; 8] = [
    [255, 255, 255],
    [0, 0, 0],
    [128, 128, 128],
    [255, 0, 0],
    [20, 200, 60],
    [10, 40, 230],
    [210, 150, 120],
    [70, 60, 50],
];

fn linear(value: f64) -> f64 {
    if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

fn srgb_curve(value: f64) -> f64 {
    if value <= 0.003_130_8 { 12.92 * value } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 }
}

fn through(colour: [u8; 3], from: fn(f64) -> f64, matrix: &[[f64; 3]; 3], to: fn(f64) -> f64) -> [u8; 3] {
    let from = colour.map(|level| from(f64::from(level) / 255.0));
    matrix.map(|row| {
        let value: f64 = row.iter().zip(from).map(|(a, b)| a * b).sum();
        (255.0 * to(value.clamp(0.0, 1.0))).round() as u8
    })
}

impl ColourSpace {
    /// The numbers that a colour of sRGB has here, and what these are in sRGB: that colour, but for rounding.
    fn of(&self, colour: [u8; 3]) -> ([u8; 3], [u8; 3]) {
        let here = through(colour, linear, &self.from_srgb, self.curves[0]);
        let back = self.to_srgb(here);
        assert!(back.iter().zip(colour).all(|(a, b)| a.abs_diff(b) <= 3), "{back:?}, not {colour:?}");
        (here, back)
    }

    fn to_srgb(&self, here: [u8; 3]) -> [u8; 3] {
        through(here, self.curves[1], &self.to_srgb, srgb_curve)
    }
}

/// A picture of one colour.
fn flat(colour: [u8; 3]) -> RgbImage {
    RgbImage::from_pixel(16, 16, Rgb(colour))
}

/// A picture of all sorts of colours.
fn mixed() -> RgbImage {
    let mut random = Random::new(1, "colours");
    RgbImage::from_fn(16, 16, |_, _| Rgb([0; 3].map(|_: u8| random.bits() as u8)))
}

fn jpeg(picture: &RgbImage, icc: Option<&[u8]>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = JpegEncoder::new(&mut file, 100);
    encoder.set_sampling_factor(SamplingFactor::F_1_1);
    icc.into_iter().for_each(|icc| encoder.add_icc_profile(icc).unwrap());
    encoder.encode(picture.as_raw(), picture.width() as u16, picture.height() as u16, JpegColours::Rgb).unwrap();
    file
}

/// The chunks of a PNG file that describe its colours.
#[derive(Default)]
struct ColourChunks {
    icc: Option<Vec<u8>>,
    gamma: Option<u32>,
    chromaticities: Option<SourceChromaticities>,
    srgb: bool,
    /// Primaries and transfer of `cICP`.
    code: Option<[u8; 2]>,
}

fn png_of(colours: ColorType, samples: &[u8], [width, height]: [u32; 2], says: ColourChunks) -> Vec<u8> {
    let mut info = ::png::Info::with_size(width, height);
    (info.color_type, info.bit_depth) = (colours, BitDepth::Eight);
    info.icc_profile = says.icc.map(Into::into);
    info.srgb = says.srgb.then_some(SrgbRenderingIntent::Perceptual);
    let mut file = Vec::new();
    let mut encoder = PngEncoder::with_info(&mut file, info).unwrap();
    says.gamma.into_iter().for_each(|gamma| encoder.set_source_gamma(ScaledFloat::from_scaled(gamma)));
    says.chromaticities.into_iter().for_each(|points| encoder.set_source_chromaticities(points));
    encoder.write_header().unwrap().write_image_data(samples).unwrap();
    if let Some([primaries, transfer]) = says.code {
        // Which the encoder does not write: behind the signature and the header.
        file.splice(33..33, chunk(b"cICP", &[primaries, transfer, 0, 1]));
    }
    file
}

fn png(picture: &RgbImage, says: ColourChunks) -> Vec<u8> {
    png_of(ColorType::Rgb, picture.as_raw(), picture.dimensions().into(), says)
}

fn with_profile(icc: &[u8]) -> ColourChunks {
    ColourChunks { icc: Some(icc.to_vec()), ..ColourChunks::default() }
}

fn p3_chromaticities() -> SourceChromaticities {
    SourceChromaticities::new((0.3127, 0.329), (0.68, 0.32), (0.265, 0.69), (0.15, 0.06))
}

#[track_caller]
fn assert_near(file: &[u8], colour: [u8; 3], most: u8, what: &str) {
    let found = decode(file).unwrap().get_pixel(7, 7).0;
    let far = found.iter().zip(colour).map(|(a, b)| a.abs_diff(b)).max().unwrap();
    assert!(far <= most, "{what}: {found:?}, not {colour:?}");
}

#[test]
fn pictures_in_display_p3_and_adobe_rgb_come_out_in_srgb() {
    let spaces = [
        ("Display P3", ColorProfile::new_display_p3(), DISPLAY_P3),
        ("Adobe RGB", ColorProfile::new_adobe_rgb(), ADOBE_RGB),
    ];
    for (name, profile, space) in spaces {
        let icc = profile.encode().unwrap();
        for colour in COLOURS {
            let (here, expected) = space.of(colour);
            assert_near(&png(&flat(here), with_profile(&icc)), expected, 1, &format!("{name}, PNG"));
            let written = decode(&jpeg(&flat(here), None)).unwrap().get_pixel(7, 7).0;
            let expected = space.to_srgb(written);
            assert_near(&jpeg(&flat(here), Some(&icc)), expected, 1, &format!("{name}, JPEG"));
        }
        let red = decode(&png(&flat(space.of([255, 0, 0]).0), ColourChunks::default())).unwrap().get_pixel(0, 0).0;
        assert!(red[0] < 240, "{name} is not sRGB: {red:?}");
    }
}

#[test]
fn reduced_pictures_are_converted_too() {
    let icc = ColorProfile::new_display_p3().encode().unwrap();
    let colour = [210, 150, 120];
    let file = jpeg(&RgbImage::from_pixel(256, 256, Rgb(DISPLAY_P3.of(colour).0)), Some(&icc));
    let reduced = decode_reduced(&file, 32).unwrap();
    assert_eq!(reduced.dimensions(), (32, 32));
    assert!(reduced.pixels().all(|pixel| pixel.0.iter().zip(colour).all(|(a, b)| a.abs_diff(b) <= 3)));
}

#[test]
fn without_a_profile_and_with_one_of_srgb_the_bytes_stay() {
    let (picture, srgb) = (mixed(), ColorProfile::new_srgb().encode().unwrap());
    let points = SourceChromaticities::new((0.3127, 0.329), (0.64, 0.33), (0.3, 0.6), (0.15, 0.06));
    let p3 = Some(p3_chromaticities());
    for (what, says) in [
        ("nothing", ColourChunks::default()),
        ("sRGB's profile", with_profile(&srgb)),
        ("sRGB's gamma", ColourChunks { gamma: Some(45_455), ..ColourChunks::default() }),
        (
            "sRGB's gamma and primaries",
            ColourChunks { gamma: Some(45_455), chromaticities: Some(points), ..ColourChunks::default() },
        ),
        ("primaries without a gamma", ColourChunks { chromaticities: p3, ..ColourChunks::default() }),
        ("sRGB's code points", ColourChunks { code: Some([1, 13]), gamma: Some(100_000), ..ColourChunks::default() }),
        ("code points of high dynamic range", ColourChunks { code: Some([9, 16]), ..ColourChunks::default() }),
        ("code points that mean nothing", ColourChunks { code: Some([2, 200]), ..ColourChunks::default() }),
        ("sRGB, and what it outdoes", ColourChunks { srgb: true, gamma: Some(100_000), ..ColourChunks::default() }),
    ] {
        assert_eq!(decode(&png(&picture, says)).unwrap(), picture, "{what}");
    }
    assert_eq!(decode(&jpeg(&picture, Some(&srgb))).unwrap(), decode(&jpeg(&picture, None)).unwrap());
}

#[test]
fn gamma_and_primaries_of_a_png_count_where_it_has_no_profile() {
    let level = |value: f64| (255.0 * srgb_curve(value)).round() as u8;
    for (gamma, exponent) in [(100_000, 1.0), (55_556, 1.8)] {
        let expected = [200, 90, 30].map(|byte: u8| level((f64::from(byte) / 255.0).powf(exponent)));
        let file = png(&flat([200, 90, 30]), ColourChunks { gamma: Some(gamma), ..ColourChunks::default() });
        assert_near(&file, expected, 2, &format!("gamma {gamma}"));
    }
    for colour in COLOURS {
        let (here, expected) = DISPLAY_P3.of(colour);
        let says =
            ColourChunks { gamma: Some(45_455), chromaticities: Some(p3_chromaticities()), ..ColourChunks::default() };
        assert_near(&png(&flat(here), says), expected, 1, "primaries of Display P3");
        let says = ColourChunks { code: Some([12, 13]), srgb: true, ..ColourChunks::default() };
        assert_near(&png(&flat(here), says), expected, 1, "code points of Display P3");
    }
    let grey = |says| decode(&png_of(ColorType::Grayscale, &[90; 256], [16, 16], says)).unwrap().get_pixel(3, 3).0;
    let linear = ColorProfile::new_gray_with_gamma(1.0).encode().unwrap();
    let expected = level(90.0 / 255.0);
    for says in [with_profile(&linear), ColourChunks { gamma: Some(100_000), ..ColourChunks::default() }] {
        let found = grey(says);
        assert!(found[0].abs_diff(expected) <= 2 && found == [found[0]; 3], "{found:?}, not {expected}");
    }
    let of_colours = with_profile(&ColorProfile::new_display_p3().encode().unwrap());
    assert_eq!(grey(of_colours), [90; 3], "a profile of another kind of picture is passed over");
    for says in [
        ColourChunks { gamma: Some(1), ..ColourChunks::default() },
        ColourChunks { gamma: Some(u32::MAX), ..ColourChunks::default() },
        ColourChunks {
            gamma: Some(45_455),
            chromaticities: Some(SourceChromaticities::new((0.3, 0.3), (0.3, 0.3), (0.3, 0.3), (0.3, 0.3))),
            ..ColourChunks::default()
        },
        ColourChunks {
            gamma: Some(45_455),
            chromaticities: Some(SourceChromaticities::new((0.3, 0.0), (9.0, 0.3), (0.3, 0.6), (0.15, 0.06))),
            ..ColourChunks::default()
        },
    ] {
        assert_eq!(decode(&png(&mixed(), says)).unwrap(), mixed(), "numbers that make no sense are passed over");
    }
}

/// A JPEG with other segments before its second one.
fn jpeg_with(picture: &RgbImage, segments: &[Vec<u8>]) -> Vec<u8> {
    let plain = jpeg(picture, None);
    [&plain[..2], &segments.concat(), &plain[2..]].concat()
}

/// A part of a profile, in its segment.
fn part(number: u8, count: u8, bytes: &[u8]) -> Vec<u8> {
    let content = [&b"ICC_PROFILE\0"[..], &[number, count], bytes].concat();
    [&[0xff, 0xe2][..], &(content.len() as u16 + 2).to_be_bytes(), &content].concat()
}

#[test]
fn a_profile_in_parts_counts_if_all_of_them_are_there() {
    let icc = ColorProfile::new_display_p3().encode().unwrap();
    let (colour, thirds) = ([210, 150, 120], icc.len() / 3);
    let picture = flat(DISPLAY_P3.of(colour).0);
    let plain = decode(&jpeg(&picture, None)).unwrap();
    let pieces = [&icc[..thirds], &icc[thirds..2 * thirds], &icc[2 * thirds..]];
    let of = |numbers: &[(u8, u8, usize)]| {
        let segments: Vec<_> =
            numbers.iter().map(|&(number, count, piece)| part(number, count, pieces[piece])).collect();
        jpeg_with(&picture, &segments)
    };
    assert_near(&of(&[(1, 3, 0), (2, 3, 1), (3, 3, 2)]), colour, 3, "in order");
    assert_near(&of(&[(3, 3, 2), (1, 3, 0), (2, 3, 1)]), colour, 3, "in another order");
    for broken in [
        &[(1, 3, 0), (2, 3, 1)][..],
        &[(1, 3, 0), (3, 3, 2)],
        &[(1, 3, 0), (2, 3, 1), (2, 3, 1), (3, 3, 2)],
        &[(1, 3, 0), (2, 2, 1), (3, 3, 2)],
        &[(0, 3, 0), (1, 3, 1), (2, 3, 2)],
        &[(1, 1, 1)],
        &[],
    ] {
        assert_eq!(decode(&of(broken)).unwrap(), plain, "{broken:?}");
    }
    // Of many parts, within the bound and beyond it.
    let padded = |length: usize| {
        let mut long = icc.clone();
        long.resize(length, 0);
        let chunks: Vec<&[u8]> = long.chunks(60_000).collect();
        let count = chunks.len() as u8;
        let segments: Vec<_> = chunks.iter().zip(1..).map(|(chunk, number)| part(number, count, chunk)).collect();
        jpeg_with(&picture, &segments)
    };
    assert_near(&padded(200_000), colour, 3, "of four parts");
    assert_eq!(decode(&padded(MAX_PROFILE + 1)).unwrap(), plain, "too large");
}

#[test]
fn a_png_with_a_profile_that_is_too_large_is_read_without_it() {
    let icc = ColorProfile::new_display_p3().encode().unwrap();
    let picture = mixed();
    let converted = decode(&png(&picture, with_profile(&icc))).unwrap();
    assert_ne!(converted, picture);
    let mut random = Random::new(2, "padding");
    for (length, expected) in [(200_000, &converted), (MAX_PROFILE + 1, &picture), (12 << 20, &picture)] {
        // What cannot be packed takes as much room as it has bytes.
        let padding = (icc.len()..length).map(|_| random.bits() as u8);
        let long: Vec<u8> = icc.iter().copied().chain(padding).collect();
        assert_eq!(&decode(&png(&picture, with_profile(&long))).unwrap(), expected, "{length} bytes");
    }
}

/// A profile with a table of colours; how many points it has along each axis by its own word, and in truth.
fn table_profile(says: u8, has: usize) -> Vec<u8> {
    let mut lut = Vec::new();
    lut.extend_from_slice(b"mft2\0\0\0\0");
    lut.extend_from_slice(&[3, 3, says, 0]);
    for row in 0..9 {
        lut.extend_from_slice(&(if row % 4 == 0 { 0x1_0000u32 } else { 0 }).to_be_bytes());
    }
    lut.extend_from_slice(&[0, 2, 0, 2]);
    (0..3).for_each(|_| lut.extend_from_slice(&[0, 0, 0xff, 0xff]));
    (0..3 * has * has * has).for_each(|index| lut.extend_from_slice(&((index * 7919) as u16).to_be_bytes()));
    (0..3).for_each(|_| lut.extend_from_slice(&[0, 0, 0xff, 0xff]));
    profile(b"Lab ", &[(b"A2B0", &lut)])
}

/// A profile of RGB pictures with these entries.
fn profile(space: &[u8; 4], entries: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut header = ColorProfile::new_srgb().encode().unwrap()[..128].to_vec();
    header[20..24].copy_from_slice(space);
    let mut table = (entries.len() as u32).to_be_bytes().to_vec();
    let mut bodies = Vec::new();
    for (name, body) in entries {
        let at = 132 + 12 * entries.len() + bodies.len();
        table.extend_from_slice(*name);
        table.extend_from_slice(&(at as u32).to_be_bytes());
        table.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bodies.extend_from_slice(body);
    }
    [header, table, bodies].concat()
}

/// Decodes a picture with that profile, which may change colours, and nothing else.
fn survives(icc: &[u8], what: &str) {
    let started = Instant::now();
    for file in [
        jpeg_with(&flat([90, 150, 30]), &[part(1, 1, &icc[..icc.len().min(65_000)])]),
        png(&mixed(), with_profile(icc)),
    ] {
        assert_eq!(decode(&file).unwrap_or_else(|error| panic!("{what}: {error}")).dimensions(), (16, 16));
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{what} took {took:?}");
}

#[test]
fn no_profile_does_harm_however_it_is_broken() {
    let good = [
        ColorProfile::new_display_p3().encode().unwrap(),
        ColorProfile::new_adobe_rgb().encode().unwrap(),
        ColorProfile::new_bt2020_pq().encode().unwrap(),
        ColorProfile::new_gray_with_gamma(2.2).encode().unwrap(),
        table_profile(3, 3),
    ];
    let step = if heavy() { 1 } else { 7 };
    for icc in &good {
        // Of the first every truncation, of the others some.
        let step = if icc == &good[0] { 1 } else { step };
        (0..icc.len()).step_by(step).for_each(|length| survives(&icc[..length], &format!("{length} bytes of it")));
    }
    let mut random = Random::new(3, "broken profiles");
    for round in 0..if heavy() { 20_000 } else { 300 } {
        let mut icc = good[round % good.len()].clone();
        for _ in 0..=random.below(6) {
            let at = random.below(icc.len());
            icc[at] = [0, 0xff, 0x7f, 0x80, random.bits() as u8][random.below(5)];
        }
        survives(&icc, &format!("broken profile {round}"));
    }
    let shared = |count: usize, size: usize| {
        // `count` entries which all name the same bytes.
        let mut icc = profile(b"XYZ ", &vec![(b"desc", &b"text\0\0\0\0"[..]); count]);
        icc.resize(size, b'a');
        for entry in 0..count {
            let at = 132 + 12 * entry;
            icc[at + 4..at + 8].copy_from_slice(&((132 + 12 * count) as u32).to_be_bytes());
            let rest = (size - 132 - 12 * count) as u32;
            icc[at + 8..at + 12].copy_from_slice(&rest.to_be_bytes());
        }
        icc
    };
    survives(&shared(80_000, MAX_PROFILE), "80,000 entries");
    survives(&shared(60, MAX_PROFILE), "60 entries of a mebibyte");
    survives(&table_profile(255, 3), "a table that is not there");
    survives(&table_profile(0, 3), "a table without points");
    survives(&table_profile(1, 1), "a table of one point");
    survives(&profile(b"XYZ ", &[]), "no entries");
    survives(&[0; 132], "zeros");
    survives(&[0xff; 4096], "ones");
    survives(&[], "nothing");
}

//! JPEG pictures decoded at a reduced scale equal whole ones made smaller, and damage is noticed.

use ::image::imageops;
use jpeg_encoder::{ChromaSubsamplingMethod, ColorType, Encoder, SamplingFactor};

use super::*;

fn decode(jpeg: &[u8]) -> Result<RgbImage, ImageError> {
    Ok(super::decode(jpeg)?.picture)
}

/// Photographs as other programs write them: libjpeg's progressive ones send their coefficients bit by bit.
const SAMPLES: [(&str, &[u8]); 5] = [
    ("progressive 4:2:0", include_bytes!("samples/progressive-420.jpg")),
    ("progressive 4:4:4", include_bytes!("samples/progressive-444.jpg")),
    ("progressive grey", include_bytes!("samples/progressive-grey.jpg")),
    ("baseline 4:2:2 with restarts", include_bytes!("samples/baseline-422.jpg")),
    ("CMYK", include_bytes!("samples/cmyk.jpg")),
];

/// One photograph in the usual samplings, baseline and in ten scans, with and without restarts.
fn usual() -> Vec<(String, Vec<u8>)> {
    use SamplingFactor::*;
    written(&[R_4_4_4, R_4_4_0, R_4_2_2, R_4_2_0, R_4_1_1, F_4_1])
}

fn written(samplings: &[SamplingFactor]) -> Vec<(String, Vec<u8>)> {
    let picture = decode(SAMPLES[1].1).unwrap();
    let (width, height) = picture.dimensions();
    let mut files = Vec::new();
    for &sampling in samplings {
        for (progressive, restarts) in [(false, 0), (false, 5), (true, 0), (true, 9)] {
            let mut file = Vec::new();
            let mut encoder = Encoder::new(&mut file, 85);
            encoder.set_sampling_factor(sampling);
            encoder.set_chroma_subsampling_method(ChromaSubsamplingMethod::Average);
            encoder.set_progressive(progressive);
            if restarts > 0 {
                encoder.set_restart_interval(restarts);
            }
            encoder.encode(picture.as_raw(), width as u16, height as u16, ColorType::Rgb).unwrap();
            files.push((format!("{sampling:?}, progressive {progressive}, restarts {restarts}"), file));
        }
    }
    files
}

fn all() -> Vec<(String, Vec<u8>)> {
    let samples = SAMPLES.map(|(name, file)| (name.into(), file.to_vec()));
    samples.into_iter().chain(usual()).collect()
}

/// Mean absolute difference of two pictures of one size, in levels of 255.
fn difference(one: &RgbImage, other: &RgbImage) -> f64 {
    assert_eq!(one.dimensions(), other.dimensions());
    let sum: u64 = one.as_raw().iter().zip(other.as_raw()).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    sum as f64 / one.as_raw().len() as f64
}

/// The means of squares of a picture's pixels, as far as they lie in it whole.
fn means(picture: &RgbImage, by: u32) -> RgbImage {
    RgbImage::from_fn(picture.width() / by, picture.height() / by, |x, y| {
        let square = imageops::crop_imm(picture, x * by, y * by, by, by).to_image();
        let mean = |channel: usize| {
            let sum: u32 = square.pixels().map(|pixel| u32::from(pixel[channel])).sum();
            ((sum + by * by / 2) / (by * by)) as u8
        };
        ::image::Rgb([0, 1, 2].map(mean))
    })
}

#[test]
fn reduced_pictures_are_whole_ones_made_smaller() {
    for (name, file) in all() {
        let whole = decode(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let frame = JpegFrame::read(&file).unwrap();
        let others = ::image::load_from_memory(&file).unwrap().into_rgb8();
        if whole::can_read(&frame) {
            assert_eq!(whole, others, "small pictures stay as they are");
        } else {
            // Of those in several scans, the decoder reads the ones without colours halved downwards, and smooths them.
            assert!(difference(&whole, &others) < 2.5, "{name}: {}", difference(&whole, &others));
        }
        for by in [2, 4, 8] {
            let expected = means(&whole, by);
            let mut differences = Vec::new();
            for detail in reduced::DETAIL {
                let reduced = reduce(&file, &frame, by as usize, detail).unwrap();
                assert_eq!(reduced.dimensions(), (whole.width().div_ceil(by), whole.height().div_ceil(by)), "{name}");
                let inside = imageops::crop_imm(&reduced, 0, 0, expected.width(), expected.height()).to_image();
                differences.push(difference(&inside, &expected));
            }
            std::println!("{name}, 1/{by}: {differences:.2?}");
            // All coefficients give the means but for rounding, and for colours with fewer samples, which the other
            // decoder smooths.
            let whole_colours = frame.components.iter().all(|own| own.sampling == frame.sampling);
            assert!(differences[0] < if whole_colours { 0.5 } else { 2.5 }, "{name}, 1/{by}: {differences:?}");
            assert!(differences[3] < 4.0, "{name}, 1/{by}: {differences:?}");
        }
    }
}

#[test]
fn what_the_decoder_of_whole_pictures_cannot_read_is_read_all_the_same() {
    // The same coefficients, in one scan and in two.
    let [one, two] = [SAMPLES[3].1, include_bytes!("samples/baseline-422-scans.jpg")];
    let [first, second] = [one, two].map(|file| JpegFrame::read(file).unwrap());
    assert!(whole::can_read(&first) && !whole::can_read(&second));
    for by in [1, 2, 4, 8] {
        assert_eq!(reduce(one, &first, by, 8).unwrap(), reduce(two, &second, by, 8).unwrap(), "1/{by}");
    }
    // A colour for every three pixels across; and brightness for every four pixels, beside finer colours.
    let [thirds, fine_colours] =
        [&include_bytes!("samples/baseline-311.jpg")[..], include_bytes!("samples/baseline-142.jpg")];
    let photograph = SAMPLES[1].1;
    for (file, expected, bound) in [(two, one, 1.0), (thirds, photograph, 6.0), (fine_colours, photograph, 12.0)] {
        let [found, expected] = [file, expected].map(|file| decode(file).unwrap());
        assert!(difference(&found, &expected) < bound, "{} of {bound}", difference(&found, &expected));
    }
}

#[test]
fn a_component_of_a_sequential_picture_comes_once() {
    let file = include_bytes!("samples/baseline-422-scans.jpg");
    let last = file.windows(2).rposition(|marker| marker == [0xff, frame::SOS]).unwrap();
    let twice = [&file[..file.len() - 2], &file[last..]].concat();
    assert!(decode(file).is_ok() && decode(&twice).is_err());
}

/// The picture with one colour for every `across` x `down` of its pixels, each as bright as it was.
fn with_few_colours(picture: &RgbImage, [across, down]: [usize; 2]) -> RgbImage {
    let (across, down) = (across as u32, down as u32);
    let luma = |[r, g, b]: [f64; 3]| 0.299 * r + 0.587 * g + 0.114 * b;
    let at = |x: u32, y: u32| {
        let clamped = picture.get_pixel(x.min(picture.width() - 1), y.min(picture.height() - 1));
        clamped.0.map(f64::from)
    };
    RgbImage::from_fn(picture.width(), picture.height(), |x, y| {
        let (left, top) = (x / across * across, y / down * down);
        let mut mean = [0.0; 3];
        for (column, row) in (top..top + down).flat_map(|row| (left..left + across).map(move |column| (column, row))) {
            mean.iter_mut().zip(at(column, row)).for_each(|(mean, own)| *mean += own / f64::from(across * down));
        }
        let brighter = luma(at(x, y)) - luma(mean);
        ::image::Rgb(mean.map(|own| (own + brighter).round().clamp(0.0, 255.0) as u8))
    })
}

/// Samplings that the decoder of whole pictures does not know how to put together.
#[test]
fn colours_of_few_samples_are_put_in_their_place() {
    use SamplingFactor::*;
    let picture = decode(SAMPLES[1].1).unwrap();
    for (name, file) in written(&[R_4_1_0, F_1_4, F_2_4]) {
        let frame = JpegFrame::read(&file).unwrap();
        let held =
            with_few_colours(&picture, [0, 1].map(|axis| frame.sampling[axis] / frame.components[1].sampling[axis]));
        for by in [2, 4, 8] {
            let expected = means(&held, by);
            let reduced = reduce(&file, &frame, by as usize, 8).unwrap();
            let inside = imageops::crop_imm(&reduced, 0, 0, expected.width(), expected.height()).to_image();
            let found = difference(&inside, &expected);
            std::println!("{name}, 1/{by}: {found:.2}");
            assert!(found < 4.5, "{name}, 1/{by}: {found}");
        }
    }
}

#[test]
fn reduced_pictures_are_turned_as_whole_ones_are() {
    let picture = decode(SAMPLES[1].1).unwrap();
    for orientation in 1..=8u8 {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, 95);
        encoder.set_sampling_factor(SamplingFactor::R_4_4_4);
        let exif = [b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", &[orientation, 0, 0, 0, 0, 0, 0, 0][..]].concat();
        encoder.add_exif_metadata(&exif).unwrap();
        encoder.encode(picture.as_raw(), picture.width() as u16, picture.height() as u16, ColorType::Rgb).unwrap();
        let mut frame = JpegFrame::read(&file).unwrap();
        assert_eq!(Some(frame.orientation), Orientation::from_exif(orientation));
        let reduced = reduce(&file, &frame, 2, 8).unwrap();
        let whole = decode(&file).unwrap();
        // What lies at the edges is filled up before it is turned.
        assert_eq!(reduced.dimensions(), (whole.width().div_ceil(2), whole.height().div_ceil(2)));
        let turned_by = core::mem::replace(&mut frame.orientation, Orientation::NoTransforms);
        let lying = reduce(&file, &frame, 2, 8).unwrap();
        assert_eq!(upright(lying.into(), turned_by).into_rgb8(), reduced, "orientation {orientation}");
        let turned = upright(picture.clone().into(), turned_by).into_rgb8();
        assert!(difference(&turned, &whole) < 3.0, "orientation {orientation}");
    }
}

/// Adobe's segment that names RGB, or for four components CMYK.
const ADOBE: &[u8] = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0";

#[test]
fn the_header_of_jfif_says_more_of_colours_than_adobes_segment() {
    for (name, file) in usual() {
        assert_eq!(file[2..4], [0xff, 0xe0], "{name}: its first segment is JFIF's");
        let behind = 4 + usize::from(u16::from_be_bytes([file[4], file[5]]));
        for at in [2, behind] {
            let both = [&file[..at], ADOBE, &file[at..]].concat();
            assert_eq!(JpegFrame::read(&both).unwrap().colours, Colours::YCbCr, "{name}");
            assert_eq!(decode(&both).unwrap(), decode(&file).unwrap(), "{name}: whole");
            for side in [1, 20] {
                let reduced = super::decode_reduced(&both, side).unwrap();
                assert_eq!(reduced, super::decode_reduced(&file, side).unwrap(), "{name}: reduced to {side}");
            }
        }
        // Without one, Adobe's segment counts, for both decoders.
        let alone = [&file[..2], ADOBE, &file[behind..]].concat();
        let frame = JpegFrame::read(&alone).unwrap();
        assert_eq!(frame.colours, Colours::Rgb, "{name}");
        let whole = decode(&alone).unwrap();
        assert!(difference(&whole, &decode(&file).unwrap()) > 20.0, "{name}");
        let (reduced, expected) = (reduce(&alone, &frame, 8, 8).unwrap(), means(&whole, 8));
        let inside = imageops::crop_imm(&reduced, 0, 0, expected.width(), expected.height()).to_image();
        assert!(difference(&inside, &expected) < 2.5, "{name}: {}", difference(&inside, &expected));
    }
}

/// Where the data of the first scan begin, and where the last ones end.
fn data(file: &[u8]) -> core::ops::Range<usize> {
    let mut segments = frame::Segments::new(file);
    while segments.next().unwrap().0 != frame::SOS {}
    segments.at..file.len() - 2
}

#[test]
fn a_scan_that_is_cut_anywhere_and_ended_is_refused() {
    for (name, file) in all() {
        let data = data(&file);
        // The short trial cuts at every third byte.
        for cut in data.clone().step_by(if orco_trials::heavy() { 1 } else { 3 }) {
            let ended = [&file[..cut], &[0xff, 0xd9]].concat();
            assert!(decode(&ended).is_err(), "{name}: cut at {cut} of {data:?}");
            assert!(decode(&file[..cut]).is_err(), "{name}: cut at {cut} without an end");
        }
    }
}

/// The share of damages that are noticed; what decodes to another picture that is possible, too, cannot be.
#[test]
fn most_damage_within_scans_is_noticed() {
    let mut counts = [(0, 0); 4];
    for (_, file) in all() {
        let data = data(&file);
        let mut count = |kind: usize, damaged: &[u8]| {
            counts[kind].0 += u32::from(decode(damaged).is_err());
            counts[kind].1 += 1;
        };
        for at in data.clone().step_by(7) {
            let mut flipped = file.clone();
            flipped[at] ^= 1 << (at % 8);
            count(0, &flipped);
            let mut overwritten = file.clone();
            overwritten[at..(at + 16).min(data.end)].fill(0x55);
            count(1, &overwritten);
            count(2, &[&file[..at], &file[at + 1..]].concat());
            count(3, &[&file[..at], &file[(at + 64).min(data.end)..]].concat());
        }
    }
    let shares = counts.map(|(noticed, all)| f64::from(noticed) / f64::from(all));
    std::println!(
        "of {} each noticed: a flipped bit {:.3}, 16 bytes overwritten {:.3}, a byte lost {:.3}, 64 bytes lost {:.3}",
        counts[0].1,
        shares[0],
        shares[1],
        shares[2],
        shares[3]
    );
    assert!(shares[3] > 0.5 && shares[2] > 0.3 && shares[1] > 0.3 && shares[0] > 0.2, "{shares:?}");
}

#[test]
fn a_picture_is_reduced_as_far_as_the_side_that_is_wanted_allows() {
    for (name, file) in all() {
        let whole = decode(&file).unwrap();
        let least = whole.width().min(whole.height());
        for by in [8, 4] {
            let reduced = super::decode_reduced(&file, least.div_ceil(by)).unwrap();
            let expected = means(&whole, by);
            assert_eq!(reduced.dimensions(), (whole.width().div_ceil(by), whole.height().div_ceil(by)), "{name}");
            let inside = imageops::crop_imm(&reduced, 0, 0, expected.width(), expected.height()).to_image();
            assert!(difference(&inside, &expected) < 4.0, "{name}, 1/{by}: {}", difference(&inside, &expected));
        }
        assert_eq!(super::decode_reduced(&file, least.div_ceil(4) + 1).unwrap(), whole, "{name}");
        assert!(super::decode_reduced(&file[..file.len() - 20], 1).is_err(), "{name}");
    }
}

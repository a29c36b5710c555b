//! Orientation, metadata and transparency of PNG pictures.

use std::io::Cursor;

use ::png::Encoder;

use super::*;

fn decoded(file: Vec<u8>) -> RgbImage {
    decode(Cursor::new(file)).unwrap().picture
}

/// A PNG file of samples as they are.
fn png(size: [u32; 2], colours: ColorType, depth: BitDepth, samples: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, size[0], size[1]);
    encoder.set_color(colours);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(samples).unwrap();
    file
}

#[test]
fn a_picture_is_turned_as_its_exif_data_say_wherever_they_stand() {
    let samples: Vec<u8> = (0..3 * 4 * 3).map(|sample| sample as u8 * 7).collect();
    let quarter = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let plain = png([4, 3], ColorType::Rgb, BitDepth::Eight, &samples);
    let picture = decoded(plain.clone());
    // Some programs begin the chunk as JPEG's segment begins.
    let prefixed = [b"Exif\0\0", &quarter[..]].concat();
    for (is_behind, exif) in [(false, &quarter[..]), (true, quarter), (false, &prefixed)] {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, 4, 3);
        encoder.set_color(ColorType::Rgb);
        let mut writer = encoder.write_header().unwrap();
        if is_behind {
            writer.write_image_data(&samples).unwrap();
        }
        writer.write_chunk(::png::chunk::eXIf, exif).unwrap();
        if !is_behind {
            writer.write_image_data(&samples).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(size(Cursor::new(&file)).unwrap(), ((4, 3), Orientation::Rotate90), "{is_behind}");
        let cost = decoding_cost(Cursor::new(&file)).unwrap();
        assert_eq!((cost.file_width, cost.file_height), (3, 4), "{is_behind}");
        assert_eq!(decoded(file.clone()), ::image::imageops::rotate90(&picture), "{is_behind}");
        for length in 0..file.len() {
            assert!(decode(Cursor::new(&file[..length])).is_err(), "{is_behind}: cut at {length}");
        }
    }
    assert_eq!(size(Cursor::new(&plain)).unwrap().1, Orientation::NoTransforms);
}

#[test]
fn metadata_that_are_too_large_are_not_taken_for_too_many_pixels() {
    let mut file = Vec::new();
    let mut writer = Encoder::new(&mut file, 2, 1).write_header().unwrap();
    writer.write_chunk(::png::chunk::eXIf, &vec![0; 5 << 20]).unwrap();
    writer.write_image_data(&[7, 9]).unwrap();
    writer.finish().unwrap();
    let told = "holds more metadata than can be read, such as EXIF data: save it without";
    assert_eq!(decode(Cursor::new(&file)).unwrap_err().to_string(), told);
    assert_eq!(decoding_cost(Cursor::new(&file)).unwrap_err().to_string(), told);
}

#[test]
fn colours_below_transparent_pixels_do_not_matter() {
    let hidden = |rgb: [u8; 3]| {
        let pixel = |number: u8| match number % 3 {
            0 => [rgb[0], rgb[1], rgb[2], 0],
            1 => [10, 20, 30, 255],
            _ => [100, 100, 100, 128],
        };
        let pixels: Vec<u8> = (0..64).flat_map(pixel).collect();
        decoded(png([8, 8], ColorType::Rgba, BitDepth::Eight, &pixels))
    };
    assert_eq!(hidden([0, 0, 0]), hidden([255, 13, 77]));
    let seen = hidden([1, 2, 3]);
    assert_eq!([0, 1, 2].map(|x| seen.get_pixel(x, 0).0), [[255; 3], [10, 20, 30], [177; 3]]);
    let grey = decoded(png([2, 1], ColorType::GrayscaleAlpha, BitDepth::Eight, &[7, 0, 7, 255]));
    assert_eq!(grey.into_raw(), [255, 255, 255, 7, 7, 7]);
    let deep = [0x12, 0x34, 0, 0, 0xff, 0xff, 0, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0xff, 0xff];
    let deep = decoded(png([2, 1], ColorType::Rgba, BitDepth::Sixteen, &deep));
    assert_eq!(deep.into_raw(), [255, 255, 255, 128, 128, 128]);
}

#[test]
fn colours_that_are_named_transparent_are_white() {
    use BitDepth::*;
    const OTHERS: [u8; 3] = [40, 50, 60];
    for (colours, depth, transparent, samples, other) in [
        (ColorType::Grayscale, Two, &[0u8, 1][..], &[0b0110_0000u8][..], [170; 3]),
        (ColorType::Grayscale, Eight, &[0, 7], &[7, 9], [9; 3]),
        (ColorType::Grayscale, Sixteen, &[1, 2], &[1, 2, 0x80, 0x80], [128; 3]),
        (ColorType::Rgb, Eight, &[0, 1, 0, 2, 0, 3], &[1, 2, 3, 40, 50, 60], OTHERS),
        (ColorType::Rgb, Sixteen, &[0, 1, 0, 2, 0, 3], &[0, 1, 0, 2, 0, 3, 255, 255, 0, 0, 128, 0], [255, 0, 128]),
        (ColorType::Indexed, One, &[0], &[0b0100_0000], OTHERS),
        (ColorType::Indexed, Eight, &[0], &[0, 1], OTHERS),
    ] {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, 2, 1);
        encoder.set_color(colours);
        encoder.set_depth(depth);
        encoder.set_trns(transparent);
        if colours == ColorType::Indexed {
            encoder.set_palette(&[1u8, 2, 3, 40, 50, 60][..]);
        }
        encoder.write_header().unwrap().write_image_data(samples).unwrap();
        let pixels = decoded(file);
        let pixels = [0, 1].map(|x| pixels.get_pixel(x, 0).0);
        assert_eq!(pixels, [[255; 3], other], "{colours:?}, {depth:?}");
    }
}

#[test]
fn opaque_pictures_are_as_another_decoder_reads_them() {
    use BitDepth::*;
    let mut random = orco_core::random::Random::new(1, "png");
    for (colours, depths) in [
        (ColorType::Grayscale, &[One, Two, Four, Eight, Sixteen][..]),
        (ColorType::Rgb, &[Eight, Sixteen]),
        (ColorType::Indexed, &[One, Two, Four, Eight]),
    ] {
        for &depth in depths {
            let bytes = (13 * colours.samples() * depth as usize).div_ceil(8) * 11;
            let samples: Vec<u8> = (0..bytes).map(|_| random.bits() as u8).collect();
            let mut file = Vec::new();
            let mut encoder = Encoder::new(&mut file, 13, 11);
            encoder.set_color(colours);
            encoder.set_depth(depth);
            if colours == ColorType::Indexed {
                encoder.set_palette((0..3 << depth as usize).map(|value| (value * 37) as u8).collect::<Vec<u8>>());
            }
            encoder.write_header().unwrap().write_image_data(&samples).unwrap();
            let expected = ::image::load_from_memory(&file).unwrap().into_rgb8();
            assert_eq!(decoded(file), expected, "{colours:?}, {depth:?}");
        }
    }
}

#[test]
fn means_are_those_of_the_squares_also_at_the_edges() {
    let mut means = Means::new([5, 3], 2);
    for y in 0..3 {
        for x in 0..5 {
            means.add(x, y, [(10 * x + y) as u8, 255, 0]);
        }
    }
    let picture = means.finish();
    let red: Vec<u8> = picture.pixels().map(|pixel| pixel[0]).collect();
    // Means of 0, 10, 1, 11 and so on, rounded; at the right edge of two, below of two, in the corner of one.
    assert_eq!(red, [6, 26, 41, 7, 27, 42]);
    assert!(picture.pixels().all(|pixel| pixel.0[1..] == [255, 0]));
}

//! Large pictures, and small files that would unpack into very much: each gets a picture or a clear answer within
//! bounds of memory.

use std::io::Write;
use std::time::Instant;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use image::RgbImage;
use image::imageops::{self, FilterType};
use jpeg_encoder::{Encoder, ImageBuffer, JpegColorType, SamplingFactor};
use orco_runtime::image::{ImageError, Look, MAX_MEMORY, Preprocessing, decode};
use orco_trials::heavy;
use orco_trials::memory::{CountingAllocator, exclusive, peak_of};
use orco_trials::png::chunk;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Decodes within the bounds of memory.
fn bounded(what: &str, bytes: &[u8]) -> Result<(u32, u32), ImageError> {
    decoded(what, bytes).map(|picture| picture.dimensions())
}

/// Decodes within the bounds of memory; returns the picture.
fn decoded(what: &str, bytes: &[u8]) -> Result<RgbImage, ImageError> {
    let started = Instant::now();
    let (picture, peak) = peak_of(|| decode(bytes));
    let took = started.elapsed();
    let result = picture.as_ref().map(|picture| picture.dimensions());
    let mebibytes = peak as f64 / f64::from(1 << 20);
    println!("{what}: {} bytes of file, {mebibytes:.1} MiB of memory, {took:?}, {result:?}", bytes.len());
    assert!(peak as u64 <= MAX_MEMORY, "{what} took {peak} bytes");
    picture
}

/// So many zeros, packed.
fn zeros(count: usize) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let block = vec![0; 1 << 20];
    for first in (0..count).step_by(block.len()) {
        encoder.write_all(&block[..block.len().min(count - first)]).unwrap();
    }
    encoder.finish().unwrap()
}

/// A PNG file of that size, depth and colour type, with chunks before its pixels.
fn png(width: u32, height: u32, depth: u8, colour: u8, extra: &[u8], pixels: &[u8]) -> Vec<u8> {
    png_in_passes(width, height, [depth, colour, 0], extra, pixels)
}

/// As `png`, interlaced if the last number of `form` is 1.
fn png_in_passes(width: u32, height: u32, form: [u8; 3], extra: &[u8], pixels: &[u8]) -> Vec<u8> {
    let [depth, colour, interlaced] = form;
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[depth, colour, 0, 0, interlaced]].concat();
    let chunks = [chunk(b"IHDR", &header), extra.to_vec(), chunk(b"IDAT", pixels), chunk(b"IEND", &[])].concat();
    [&b"\x89PNG\r\n\x1a\n"[..], &chunks].concat()
}

fn segment(marker: u8, content: &[u8]) -> Vec<u8> {
    [&[0xff, marker][..], &(content.len() as u16 + 2).to_be_bytes(), content].concat()
}

/// A JPEG of one grey, in so many components; a progressive one has `scans` scans of nothing more.
fn jpeg(width: u16, height: u16, frame: u8, components: u8, scans: usize) -> Vec<u8> {
    let size = [height.to_be_bytes(), width.to_be_bytes()].concat();
    let own: Vec<u8> = (1..=components).flat_map(|id| [id, 0x11, 0]).collect();
    // One code, of one bit, 0: "no difference" and "end of block".
    let table = |class: u8| [&[class << 4, 1][..], &[0; 15], &[0]].concat();
    let blocks = usize::from(width).div_ceil(8) * usize::from(height).div_ceil(8);
    // Zeros, and at the end of the last byte ones.
    let bits = |count: usize| {
        let mut bytes = vec![0; count.div_ceil(8)];
        *bytes.last_mut().unwrap() |= (0xffu16 >> ((count - 1) % 8 + 1)) as u8;
        bytes
    };
    let scan = |ids: &[u8], band: [u8; 3], count: usize| {
        let parts: Vec<u8> = ids.iter().flat_map(|id| [*id, 0]).collect();
        [segment(0xda, &[&[ids.len() as u8][..], &parts, &band].concat()), bits(count)].concat()
    };
    let ids: Vec<u8> = (1..=components).collect();
    let data = if frame == 0xc2 {
        let mut data = scan(&ids, [0, 0, 0], ids.len() * blocks);
        ids.iter().for_each(|id| data.extend(scan(&[*id], [1, 63, 0], blocks)));
        // Refinements of coefficients that are all zero.
        data.extend(scan(&ids[..1], [1, 63, 0], blocks).repeat(scans));
        data
    } else {
        scan(&ids, [0, 63, 0], 2 * ids.len() * blocks)
    };
    [
        vec![0xff, 0xd8],
        segment(0xdb, &[&[0][..], &[1; 64]].concat()),
        segment(frame, &[&[8][..], &size, &[components], &own].concat()),
        segment(0xc4, &table(0)),
        segment(0xc4, &table(1)),
        data,
        vec![0xff, 0xd9],
    ]
    .concat()
}

/// Puts EXIF data behind the start of a JPEG: turned by a quarter, which takes a copy of the picture.
fn lying(jpeg: &[u8]) -> Vec<u8> {
    let exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    [&jpeg[..2], &segment(0xe1, exif), &jpeg[2..]].concat()
}

#[test]
fn sizes_beyond_the_bounds_are_refused_before_anything_is_unpacked() {
    let mut trial = orco_trials::trial!(10, "pictures");
    let _turn = exclusive();
    let pixels = zeros(1 << 16);
    let cases = [
        ("PNG of 2^31 pixels a side", png((1 << 31) - 1, (1 << 31) - 1, 8, 2, &[], &pixels)),
        ("PNG of 65535 pixels a side", png(65_535, 65_535, 1, 0, &[], &pixels)),
        ("PNG one pixel too wide", png(65_536, 1, 8, 0, &[], &pixels)),
        ("PNG one pixel too high", png(1, 65_536, 8, 0, &[], &pixels)),
        ("PNG of a row too many", png(10_000, 10_001, 16, 6, &[], &pixels)),
        ("JPEG of 65535 pixels a side", jpeg(65_535, 65_535, 0xc0, 1, 0)),
        ("progressive JPEG of 65535 pixels a side", jpeg(65_535, 65_535, 0xc2, 1, 0)),
        ("JPEG of a row too many", jpeg(10_000, 10_001, 0xc0, 3, 0)),
        ("progressive JPEG of 100 megapixels in four colours", jpeg(10_000, 10_000, 0xc2, 4, 0)),
    ];
    for (what, bytes) in cases {
        trial.count(1);
        let (refused, peak) = peak_of(|| decode(&bytes));
        assert!(matches!(refused, Err(ImageError::TooLarge)), "{what}: {refused:?}");
        assert!(peak < 1 << 20, "{what} was unpacked first: {peak} bytes");
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("at most 100 megapixels and 65535 pixels a side are accepted"), "{said}");
    }
}

#[test]
fn pictures_of_100_megapixels_are_decoded_within_64_mib() {
    let mut trial = orco_trials::trial!(10, "pictures");
    let _turn = exclusive();
    let mut bounded = |what: &str, bytes: &[u8]| {
        trial.count(1);
        bounded(what, bytes)
    };
    let rows = |bytes_per_row: usize| zeros(10_000 * (bytes_per_row + 1));
    let quarter = (2500, 2500);
    assert_eq!(bounded("PNG of one bit", &png(10_000, 10_000, 1, 0, &[], &rows(1250))).unwrap(), quarter);
    assert_eq!(bounded("PNG in RGB", &png(10_000, 10_000, 8, 2, &[], &rows(30_000))).unwrap(), quarter);
    // Seven passes, of eighths, quarters and halves of the sides.
    let samples = |width: usize, height: usize| if width > 0 { height * (3 * width + 1) } else { 0 };
    let passes = samples(1250, 1250) * 2 + samples(2500, 1250) + samples(2500, 2500) * 2 + samples(5000, 2500);
    let passes = zeros(passes + samples(5000, 5000) + samples(10_000, 5000));
    assert_eq!(bounded("PNG in passes", &png_in_passes(10_000, 10_000, [8, 2, 1], &[], &passes)).unwrap(), quarter);
    let strip = zeros(1525 * (65_535 * 8 + 1));
    assert_eq!(bounded("PNG of 16 bits, wide", &png(65_535, 1525, 16, 6, &[], &strip)).unwrap(), (16_384, 382));
    for components in [1, 3, 4] {
        let baseline = jpeg(10_000, 10_000, 0xc0, components, 0);
        assert_eq!(bounded(&format!("JPEG of {components}"), &baseline).unwrap(), quarter);
        if components == 3 || heavy() {
            assert_eq!(bounded(&format!("JPEG of {components}, turned"), &lying(&baseline)).unwrap(), quarter);
        }
    }
    let eighth = (1250, 1250);
    let progressive = jpeg(10_000, 10_000, 0xc2, 3, 0);
    assert_eq!(bounded("progressive JPEG of 3", &progressive).unwrap(), eighth);
    assert_eq!(bounded("progressive JPEG of 3, turned", &lying(&progressive)).unwrap(), eighth);
    assert_eq!(bounded("progressive JPEG of 1", &jpeg(10_000, 10_000, 0xc2, 1, 0)).unwrap(), quarter);
    assert_eq!(bounded("JPEG of a Pi's camera", &jpeg(4608, 2592, 0xc0, 3, 0)).unwrap(), (4608, 2592));
}

#[test]
fn pictures_in_passes_are_put_together() {
    let _turn = exclusive();
    const PASSES: [[usize; 4]; 7] =
        [[0, 0, 8, 8], [4, 0, 8, 8], [0, 4, 4, 8], [2, 0, 4, 4], [0, 2, 2, 4], [1, 0, 2, 2], [0, 1, 1, 2]];
    for (width, height) in [(1, 1), (2, 5), (5, 2), (8, 8), (21, 17)] {
        let picture =
            RgbImage::from_fn(width, height, |x, y| image::Rgb([(9 * x) as u8, (11 * y) as u8, (x * y) as u8]));
        let mut rows = Vec::new();
        for [x, y, across, down] in PASSES {
            for y in (y as u32..height).step_by(down).filter(|_| (x as u32) < width) {
                rows.push(0);
                rows.extend((x as u32..width).step_by(across).flat_map(|x| picture.get_pixel(x, y).0));
            }
        }
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&rows).unwrap();
        let file = png_in_passes(width, height, [8, 2, 1], &[], &encoder.finish().unwrap());
        assert_eq!(decode(&file).unwrap(), picture, "{width} x {height}");
    }
}

/// Something like a photograph, made row by row: slow changes, edges and grain.
struct Scene {
    size: [u16; 2],
}

impl Scene {
    fn colour(x: f32, y: f32) -> [f32; 3] {
        let wave = |a: f32, b: f32| 0.5 + 0.5 * (a * x + b * y).sin();
        let inside = (x - 3.1).powi(2) + (y - 2.2).powi(2) < 1.4 || (x * 1.7).fract() + (y * 2.3).fract() < 0.3;
        let grain = ((x * 12_989.8 + y * 78_233.0).sin() * 43_758.547).fract() * 0.06;
        let shade = if inside { 0.35 } else { 1.0 };
        [(1.3, 0.7), (-0.9, 1.9), (2.3, 0.4)].map(|(a, b)| 255.0 * (shade * wave(a, b) + grain).clamp(0.0, 1.0))
    }
}

impl ImageBuffer for &Scene {
    fn get_jpeg_color_type(&self) -> JpegColorType {
        JpegColorType::Ycbcr
    }

    fn width(&self) -> u16 {
        self.size[0]
    }

    fn height(&self) -> u16 {
        self.size[1]
    }

    fn fill_buffers(&self, y: u16, buffers: &mut [Vec<u8>; 4]) {
        let scale = 6.0 / f32::from(self.size[0]);
        for x in 0..self.size[0] {
            let [r, g, b] = Scene::colour(f32::from(x) * scale, f32::from(y) * scale);
            let luma = 0.299 * r + 0.587 * g + 0.114 * b;
            let values = [luma, 128.0 + (b - luma) / 1.772, 128.0 + (r - luma) / 1.402];
            buffers.iter_mut().zip(values).for_each(|(buffer, value)| buffer.push(value.round() as u8));
        }
    }
}

/// Mean absolute difference, in levels of 255.
fn difference(one: &RgbImage, other: &RgbImage) -> f64 {
    assert_eq!(one.dimensions(), other.dimensions());
    let sum: u64 = one.as_raw().iter().zip(other.as_raw()).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    sum as f64 / one.as_raw().len() as f64
}

#[test]
fn the_model_sees_the_same_of_a_large_photograph() {
    let _turn = exclusive();
    let photographs = [(false, SamplingFactor::R_4_2_0), (true, SamplingFactor::R_4_4_4)];
    for (progressive, sampling) in photographs.into_iter().take(if heavy() { 2 } else { 1 }) {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, 90);
        encoder.set_progressive(progressive);
        encoder.set_sampling_factor(sampling);
        encoder.encode_image(&Scene { size: [6000, 4000] }).unwrap();
        let what = format!("photograph of 24 megapixels, {sampling:?}, progressive {progressive}");
        let reduced = decoded(&what, &file).unwrap();
        assert!(reduced.width() < 6000, "{what} was decoded whole");
        let whole = image::load_from_memory(&file).unwrap().into_rgb8();
        for side in [32, 224] {
            let input =
                Preprocessing { width: side, height: side, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE };
            let found = difference(&input.fit(&reduced), &input.fit(&whole));
            println!("{what}, {side} x {side}: {found:.3} levels of 255");
            assert!(found < 1.0, "{what}, {side} x {side}: {found}");
        }
        if !progressive {
            // The same as PNG, whose pixels are averaged.
            let mut file = std::io::Cursor::new(Vec::new());
            whole.write_to(&mut file, image::ImageFormat::Png).unwrap();
            let reduced = decoded("the same as PNG", file.get_ref()).unwrap();
            assert_eq!(reduced.dimensions(), (3000, 2000));
            let smaller = imageops::resize(&reduced, 224, 149, FilterType::Triangle);
            let found = difference(&smaller, &imageops::resize(&whole, 224, 149, FilterType::Triangle));
            println!("PNG of 24 megapixels: {found:.3} levels of 255");
            assert!(found < 1.0, "PNG: {found}");
        }
    }
}

#[test]
fn what_unpacks_into_more_than_it_says_is_stopped() {
    let mut trial = orco_trials::trial!(10, "pictures");
    let _turn = exclusive();
    let mut bounded = |what: &str, bytes: &[u8]| {
        trial.count(1);
        bounded(what, bytes)
    };
    let bomb = zeros(256 << 20);
    let profile = chunk(b"iCCP", &[b"name\0\0", &bomb[..]].concat());
    let text = chunk(b"zTXt", &[b"Comment\0\0", &bomb[..]].concat());
    let international = chunk(b"iTXt", &[b"Comment\0\x01\0\0\0", &bomb[..]].concat());
    let small = zeros(8 * 9);
    for (what, extra) in [("colour profile", profile), ("text", text), ("international text", international)] {
        // Whether such a chunk is passed over or makes the picture damaged is the decoder's choice.
        let _ = bounded(what, &png(8, 8, 8, 0, &extra, &small));
    }
    let _ = bounded("pixels beyond the last", &png(8, 8, 8, 0, &[], &bomb));
    let many = chunk(b"tEXt", b"Comment\0").repeat(200_000);
    let _ = bounded("very many chunks", &png(8, 8, 8, 0, &many, &small));
    let _ = bounded("a JPEG of 1000 scans", &jpeg(4096, 4096, 0xc2, 1, 1000));
    assert!(bounded("a progressive JPEG of many scans", &jpeg(10_000, 10_000, 0xc2, 1, 250)).is_ok());
    let empty = jpeg(4096, 4096, 0xc0, 1, 0);
    let without = [&empty[..empty.len() - 2 - (512 * 512 * 2 / 8)], &[0xff, 0xd9]].concat();
    assert!(matches!(bounded("a JPEG without data", &without), Err(ImageError::Damaged(_))));
}

/// The picture with segments behind its start.
fn with_segments(jpeg: &[u8], segments: &[u8]) -> Vec<u8> {
    [&jpeg[..2], segments, &jpeg[2..]].concat()
}

/// Parts of XMP data that spread over several segments, so many of so many bytes each.
fn extended_xmp(count: usize, length: usize) -> Vec<u8> {
    let part = |index: usize| {
        let numbers = [(count * length) as u32, (index * length) as u32].map(u32::to_be_bytes).concat();
        segment(0xe1, &[&b"http://ns.adobe.com/xmp/extension/\0"[..], &[b'0'; 32], &numbers, &vec![0; length]].concat())
    };
    (0..count).flat_map(part).collect()
}

/// A decoder that kept copies of the metadata would take them in addition, and compare each part with all others.
#[test]
fn metadata_take_no_memory_beside_the_file() {
    let mut trial = orco_trials::trial!(10, "pictures");
    let _turn = exclusive();
    let photograph = jpeg(3000, 3000, 0xc0, 3, 0);
    let plain = decode(&photograph).unwrap();
    let icc = |count: usize, length: usize| {
        segment(0xe2, &[&b"ICC_PROFILE\0\x01\x02"[..], &vec![0; length]].concat()).repeat(count)
    };
    for (what, metadata) in [
        ("30 MB of XMP data", extended_xmp(500, 60_000)),
        ("300,000 parts of XMP data", extended_xmp(300_000, 0)),
        ("30 MB of colour profiles", icc(500, 60_000)),
        ("1,500,000 parts of a colour profile", icc(1_500_000, 1)),
        ("30 MB of IPTC data", segment(0xed, &[&b"Photoshop 3.0\0"[..], &[0; 60_000]].concat()).repeat(500)),
    ] {
        let (file, small) = (with_segments(&photograph, &metadata), with_segments(&jpeg(8, 8, 0xc0, 3, 0), &metadata));
        assert_eq!(decoded(what, &file).unwrap(), plain, "{what}");
        assert_eq!(bounded(&format!("{what} with a small picture"), &small).unwrap(), (8, 8));
        trial.count(2);
    }
}

#[test]
fn webp_pictures_take_no_more_than_is_announced() {
    let _turn = exclusive();
    let samples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src/image/samples");
    for name in ["lossy.webp", "transparent.webp", "regions.webp"] {
        let file = std::fs::read(samples.join(name)).unwrap();
        let announced = orco_runtime::image::decoding_cost(&file).unwrap();
        let (picture, peak) = peak_of(|| decode(&file));
        assert_eq!(picture.unwrap().dimensions(), (announced.width, announced.height), "{name}");
        assert!(peak as u64 <= announced.peak, "{name} took {peak} bytes of {announced:?}");
    }
}

#[test]
fn other_formats_are_refused() {
    let _turn = exclusive();
    let others: [&[u8]; 8] = [
        b"GIF89a\x01\0\x01\0",
        b"BM\x46\0\0\0\0\0\0\0",
        b"II*\0\x08\0\0\0",
        b"MM\0*\0\0\0\x08",
        b"\0\0\0\x20ftypavif",
        b"P6\n1 1\n255\n\0\0\0",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"qoif\0\0\0\x01\0\0\0\x01\x03\0",
    ];
    for bytes in others {
        assert!(matches!(decode(bytes), Err(ImageError::Format | ImageError::Unsupported(_))), "{bytes:?}");
    }
    // The head of a WebP file, and nothing else.
    assert!(matches!(decode(b"RIFF\x04\0\0\0WEBPVP8 "), Err(ImageError::Damaged(_))));
}

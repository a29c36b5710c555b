//! Pictures with colour profiles, ordinary and monstrous, are converted within the bounds of memory, and pictures are
//! scaled within what is said of it.

use jpeg_encoder::{ColorType, Encoder};
use orco_runtime::image::{DecodingCost, Look, MAX_MEMORY, Preprocessing, decode};
use orco_runtime::image_rs::RgbImage;
use orco_trials::memory::{CountingAllocator, peak_of};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A picture of one colour with that profile.
fn jpeg([width, height]: [u16; 2], icc: &[u8]) -> Vec<u8> {
    let pixels = [200u8, 90, 40].repeat(usize::from(width) * usize::from(height));
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, 90);
    encoder.add_icc_profile(icc).unwrap();
    encoder.encode(&pixels, width, height, ColorType::Rgb).unwrap();
    file
}

/// A profile with a table of colours of 65 points along each axis, which swaps red and blue.
fn large_table() -> Vec<u8> {
    const POINTS: usize = 65;
    let mut icc = moxcms::ColorProfile::new_srgb().encode().unwrap()[..128].to_vec();
    icc[20..24].copy_from_slice(b"Lab ");
    let mut lut = [&b"mft1\0\0\0\0"[..], &[3, 3, POINTS as u8, 0]].concat();
    (0..9).for_each(|cell| lut.extend_from_slice(&(if cell % 4 == 0 { 0x1_0000u32 } else { 0 }).to_be_bytes()));
    let ramps: Vec<u8> = (0..3).flat_map(|_| 0..=255).collect();
    lut.extend_from_slice(&ramps);
    let level = |index: usize| (index * 255 / (POINTS - 1)) as u8;
    let points = (0..POINTS.pow(3)).map(|at| [at % POINTS, at / POINTS % POINTS, at / POINTS / POINTS].map(level));
    points.for_each(|point| lut.extend_from_slice(&point));
    lut.extend_from_slice(&ramps);
    icc.extend_from_slice(&1u32.to_be_bytes());
    icc.extend_from_slice(b"A2B0");
    icc.extend_from_slice(&144u32.to_be_bytes());
    icc.extend_from_slice(&(lut.len() as u32).to_be_bytes());
    [icc, lut].concat()
}

#[test]
fn converting_stays_within_the_bounds_of_memory() {
    let p3 = moxcms::ColorProfile::new_display_p3().encode().unwrap();
    for (what, icc) in [("Display P3", p3), ("a table of 65 points a side", large_table())] {
        for size in [[64, 64], [4000, 4000], [5000, 4000]] {
            let file = jpeg(size, &icc);
            let (picture, peak) = peak_of(|| decode(&file).unwrap());
            println!("{what}, {size:?}: {:.1} MiB, {:?}", peak as f64 / f64::from(1 << 20), picture.dimensions());
            assert!(peak as u64 <= MAX_MEMORY, "{what}, {size:?} took {peak} bytes");
            if what == "Display P3" {
                let red = picture.get_pixel(9, 9).0[0];
                assert!(red > 206, "not converted: {red}");
            }
        }
    }
}

#[test]
fn scaling_takes_no_more_than_is_said() {
    for side in [16, 224] {
        let input = Preprocessing { width: side, height: side, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE };
        for [width, height] in [[1, 1], [8, 300], [640, 480], [4608, 2592], [20_000, 100], [100, 20_000]] {
            let picture = RgbImage::new(width, height);
            let said = DecodingCost::of_pixels(width, height).with_scaling(&input) - picture.as_raw().len() as u64;
            let (_, peak) = peak_of(|| input.fit(&picture));
            assert!(peak as u64 <= said, "{width} x {height} to {side}: {peak} bytes, {said} were said");
        }
    }
}

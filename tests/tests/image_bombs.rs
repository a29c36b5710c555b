//! Small picture files that would unpack into very much: each gets a clear answer within bounds of memory and time.

use std::io::Write;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use orco_runtime::image::{ImageError, decode};
use orco_tests::memory::{Counting, peak_of};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A decoded picture of 64 MiB, its copy in RGB, and what the decoder needs besides.
const MOST_MEMORY: usize = 192 << 20;

/// Decodes within the bounds of memory and time.
fn bounded(what: &str, bytes: &[u8]) -> Result<(u32, u32), ImageError> {
    let started = Instant::now();
    let (result, peak) = peak_of(|| decode(bytes).map(|picture| picture.dimensions()));
    let took = started.elapsed();
    let mebibytes = peak as f64 / f64::from(1 << 20);
    println!("{what}: {} bytes of file, {mebibytes:.1} MiB of memory, {took:?}, {result:?}", bytes.len());
    assert!(peak <= MOST_MEMORY, "{what} took {peak} bytes");
    assert!(took < Duration::from_secs(30), "{what} took {took:?}");
    result
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let named = [name, content].concat();
    [&(content.len() as u32).to_be_bytes()[..], &named, &crc(&named).to_be_bytes()].concat()
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
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[depth, colour, 0, 0, 0]].concat();
    let chunks = [chunk(b"IHDR", &header), extra.to_vec(), chunk(b"IDAT", pixels), chunk(b"IEND", &[])].concat();
    [&b"\x89PNG\r\n\x1a\n"[..], &chunks].concat()
}

/// A progressive or baseline JPEG of one component with `scans` scans of nothing.
fn jpeg(width: u16, height: u16, frame: u8, scans: usize) -> Vec<u8> {
    let segment =
        |marker: u8, content: &[u8]| [&[0xff, marker][..], &(content.len() as u16 + 2).to_be_bytes(), content].concat();
    let size = [height.to_be_bytes(), width.to_be_bytes()].concat();
    // One code, of one bit: "no difference" and "end of block".
    let table = |class: u8| [&[class << 4, 1][..], &[0; 15], &[0]].concat();
    let last = if frame == 0xc2 { 0 } else { 63 };
    let scan = [segment(0xda, &[1, 1, 0, 0, last, 0]), vec![0; 16]].concat();
    [
        vec![0xff, 0xd8],
        segment(0xdb, &[&[0][..], &[1; 64]].concat()),
        segment(frame, &[&[8][..], &size, &[1, 1, 0x11, 0]].concat()),
        segment(0xc4, &table(0)),
        segment(0xc4, &table(1)),
        scan.repeat(scans),
        vec![0xff, 0xd9],
    ]
    .concat()
}

#[test]
fn sizes_beyond_the_bounds_are_refused_before_anything_is_unpacked() {
    let pixels = zeros(1 << 16);
    let cases = [
        ("PNG of 2^31 pixels a side", png((1 << 31) - 1, (1 << 31) - 1, 8, 2, &[], &pixels)),
        ("PNG of 65535 pixels a side", png(65_535, 65_535, 1, 0, &[], &pixels)),
        ("PNG one pixel too wide", png(4097, 1, 8, 0, &[], &pixels)),
        ("PNG one pixel too high", png(1, 4097, 8, 0, &[], &pixels)),
        ("PNG of 128 MiB", png(4096, 4096, 16, 6, &[], &pixels)),
        ("JPEG of 65535 pixels a side", jpeg(65_535, 65_535, 0xc0, 1)),
        ("progressive JPEG of 65535 pixels a side", jpeg(65_535, 65_535, 0xc2, 1)),
    ];
    for (what, bytes) in cases {
        let started = Instant::now();
        let refused = bounded(what, &bytes);
        assert!(matches!(refused, Err(ImageError::TooLarge)), "{what}: {refused:?}");
        assert!(started.elapsed() < Duration::from_secs(1), "{what} was unpacked first");
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("at most 4096 x 4096 pixels and 64 MiB decoded are accepted"), "{said}");
    }
}

#[test]
fn the_largest_accepted_pictures_stay_within_the_bounds() {
    let rows = |bytes_per_row: usize| zeros(4096 * (bytes_per_row + 1));
    assert_eq!(bounded("PNG of one bit", &png(4096, 4096, 1, 0, &[], &rows(512))).unwrap(), (4096, 4096));
    assert_eq!(bounded("PNG of 64 MiB", &png(4096, 4096, 8, 6, &[], &rows(4 * 4096))).unwrap(), (4096, 4096));
}

#[test]
fn what_unpacks_into_more_than_it_says_is_stopped() {
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
    let _ = bounded("a JPEG of 1000 scans", &jpeg(4096, 4096, 0xc2, 1000));
    let _ = bounded("a JPEG without data", &jpeg(4096, 4096, 0xc0, 1));
}

#[test]
fn other_formats_are_refused() {
    let others: [&[u8]; 9] = [
        b"GIF89a\x01\0\x01\0",
        b"BM\x46\0\0\0\0\0\0\0",
        b"RIFF\x24\0\0\0WEBPVP8 ",
        b"II*\0\x08\0\0\0",
        b"MM\0*\0\0\0\x08",
        b"\0\0\0\x20ftypavif",
        b"P6\n1 1\n255\n\0\0\0",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"qoif\0\0\0\x01\0\0\0\x01\x03\0",
    ];
    for bytes in others {
        assert!(matches!(decode(bytes), Err(ImageError::Format)), "{bytes:?}");
    }
}

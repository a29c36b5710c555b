//! JPEG pictures without Huffman tables, as many webcams send them: Motion JPEG takes those of ITU-T T.81, annex K, for
//! known. Some cameras leave out the marker of a picture's end, too.

use std::borrow::Cow;

const DHT: u8 = 0xc4;
const SOS: u8 = 0xda;
/// The marker of a picture's end.
const END: [u8; 2] = [0xff, 0xd9];

/// The picture with the usual tables before its first scan, if it has none of its own, and with the marker of its end,
/// which some cameras leave out. The marker makes no whole picture of one that was cut: whoever decodes it counts its
/// scans and their codes. Blank lines before the picture, as some cameras send, are left out.
pub fn completed(jpeg: &[u8]) -> Cow<'_, [u8]> {
    let jpeg = jpeg.trim_ascii_start();
    let Some(scan) = Scan::first(jpeg) else { return Cow::Borrowed(jpeg) };
    let tables = if scan.has_tables { Vec::new() } else { tables() };
    let end: &[u8] = if ends(jpeg) { &[] } else { &END };
    if tables.is_empty() && end.is_empty() {
        return Cow::Borrowed(jpeg);
    }
    Cow::Owned([&jpeg[..scan.at], &tables, &jpeg[scan.at..], end].concat())
}

/// Whether the last bytes are the marker of the end. Zeros may fill up a buffer behind it.
fn ends(jpeg: &[u8]) -> bool {
    let filled = jpeg.iter().rev().take_while(|byte| **byte == 0).count();
    jpeg[..jpeg.len() - filled].ends_with(&END)
}

/// The first scan of a picture.
struct Scan {
    /// Where it begins.
    at: usize,
    /// Whether tables stand before it.
    has_tables: bool,
}

impl Scan {
    fn first(jpeg: &[u8]) -> Option<Self> {
        let (mut at, mut has_tables) = (2, false);
        loop {
            let &[0xff, marker, high, low] = jpeg.get(at..)?.first_chunk()? else { return None };
            match marker {
                SOS => return Some(Self { at, has_tables }),
                0xff => at += 1,
                _ => {
                    has_tables |= marker == DHT;
                    at += 2 + usize::from(u16::from_be_bytes([high, low]));
                }
            }
        }
    }
}

/// A Huffman table as it stands in a DHT segment (section B.2.4.2).
struct HuffmanTable {
    /// Its class (0 DC, 1 AC) and its number, four bits each.
    id: u8,
    /// How many codes have 1 to 16 bits.
    counts: [u8; 16],
    /// What the codes stand for.
    symbols: &'static [u8],
}

/// Table K.3.
const LUMINANCE_DC: HuffmanTable = HuffmanTable {
    id: 0x00,
    counts: [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
    symbols: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
};
/// Table K.4.
const CHROMINANCE_DC: HuffmanTable = HuffmanTable {
    id: 0x01,
    counts: [0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
    symbols: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
};
/// Table K.5.
const LUMINANCE_AC: HuffmanTable = HuffmanTable {
    id: 0x10,
    counts: [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d],
    symbols: &[
        0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71,
        0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72,
        0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37,
        0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59,
        0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83,
        0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3,
        0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
        0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
        0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    ],
};
/// Table K.6.
const CHROMINANCE_AC: HuffmanTable = HuffmanTable {
    id: 0x11,
    counts: [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77],
    symbols: &[
        0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22,
        0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1,
        0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36,
        0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
        0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a,
        0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a,
        0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba,
        0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
        0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    ],
};

/// One segment with all four tables.
fn tables() -> Vec<u8> {
    let mut content = Vec::new();
    for table in [LUMINANCE_DC, LUMINANCE_AC, CHROMINANCE_DC, CHROMINANCE_AC] {
        content.push(table.id);
        content.extend_from_slice(&table.counts);
        content.extend_from_slice(table.symbols);
    }
    let length = (content.len() as u16 + 2).to_be_bytes();
    [&[0xff, DHT][..], &length, &content].concat()
}

#[cfg(test)]
mod tests {
    use jpeg_encoder::{ColorType, Encoder};
    use orco_runtime::image;

    use super::*;

    /// The picture without its tables.
    fn stripped(jpeg: &[u8]) -> Vec<u8> {
        let mut rest = jpeg[..2].to_vec();
        let mut at = 2;
        loop {
            let length = 2 + usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
            match jpeg[at + 1] {
                SOS => return [&rest, &jpeg[at..]].concat(),
                DHT => {}
                _ => rest.extend_from_slice(&jpeg[at..at + length]),
            }
            at += length;
        }
    }

    #[test]
    fn a_webcams_picture_gets_its_tables_back() {
        let rgb: Vec<u8> = (0..48 * 32 * 3).map(|at: u32| (at * at / 7 % 251) as u8).collect();
        let mut jpeg = Vec::new();
        // This encoder writes the usual tables.
        Encoder::new(&mut jpeg, 90).encode(&rgb, 48, 32, ColorType::Rgb).unwrap();
        assert!(matches!(completed(&jpeg), Cow::Borrowed(_)));
        assert_eq!(completed(&[b"\r\n\r\n", &jpeg[..]].concat()), jpeg);
        let sent = stripped(&jpeg);
        assert!(sent.len() < jpeg.len() && image::decode(&sent).is_err());
        assert_eq!(image::decode(&completed(&sent)).unwrap(), image::decode(&jpeg).unwrap());
    }

    #[test]
    fn a_picture_gets_its_end_back_and_a_cut_one_is_refused_with_it() {
        let rgb: Vec<u8> = (0..48 * 32 * 3).map(|at: u32| (at * at / 7 % 251) as u8).collect();
        for is_progressive in [false, true] {
            let mut jpeg = Vec::new();
            let mut encoder = Encoder::new(&mut jpeg, 90);
            encoder.set_progressive(is_progressive);
            encoder.encode(&rgb, 48, 32, ColorType::Rgb).unwrap();
            let filled = [&jpeg[..], &[0; 9]].concat();
            assert!(matches!(completed(&filled), Cow::Borrowed(_)));
            let whole = jpeg.len() - END.len();
            for length in 0..whole {
                let cut = &completed(&jpeg[..length]);
                assert!(image::decode(cut).is_err(), "progressive: {is_progressive}, {length} of {whole}");
            }
            assert!(image::decode(&jpeg[..whole]).is_err());
            assert_eq!(image::decode(&completed(&jpeg[..whole])).unwrap(), image::decode(&jpeg).unwrap());
        }
    }

    #[test]
    fn what_is_no_picture_stays_as_it_is() {
        for bytes in [&b""[..], b"\xff", b"\xff\xd8", b"\xff\xd8\xff\xda", b"nothing at all", &[0xff; 40]] {
            assert_eq!(completed(bytes), bytes);
        }
    }
}

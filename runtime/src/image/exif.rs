//! The orientation in EXIF data, which are laid out as a TIFF file (TIFF 6.0, section 2).

use ::image::metadata::Orientation;

/// Number of the entry that holds the orientation.
const ORIENTATION: u32 = 0x112;

/// How EXIF data say that a picture is to be turned, if they do. EXIF has a number of two bytes there; some programs
/// write one of one byte or of four. Outside of JPEG some begin the data as JPEG's segment begins.
pub(super) fn orientation(exif: &[u8]) -> Option<Orientation> {
    let exif = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    let big_endian = match exif.get(..4)? {
        b"MM\0*" => true,
        b"II*\0" => false,
        _ => return None,
    };
    let number = |bytes: &[u8]| {
        let append = |number: u32, byte: &u8| number << 8 | u32::from(*byte);
        if big_endian { bytes.iter().fold(0, append) } else { bytes.iter().rev().fold(0, append) }
    };
    let (count, entries) = exif.get(number(exif.get(4..8)?) as usize..)?.split_at_checked(2)?;
    let mut entries = entries.chunks_exact(12).take(number(count) as usize);
    // More than one would lie elsewhere, with their place here.
    let entry = entries.find(|entry| number(&entry[..2]) == ORIENTATION && number(&entry[4..8]) == 1)?;
    let value = match number(&entry[2..4]) {
        1 => &entry[8..9],
        3 => &entry[8..10],
        4 => &entry[8..],
        _ => return None,
    };
    Orientation::from_exif(u8::try_from(number(value)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orientation_is_read_whatever_whole_number_holds_it() {
        for exif in [
            &b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"[..],
            b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x04\0\0\0\x01\0\0\0\x06",
            b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x01\0\0\0\x01\x06\0\0\0",
            b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0",
            b"II*\0\x08\0\0\0\x01\0\x12\x01\x04\0\x01\0\0\0\x06\0\0\0",
            // Behind another entry, and as in JPEG.
            b"Exif\0\0II*\0\x08\0\0\0\x02\0\0\x01\x04\0\x01\0\0\0\x06\0\0\0\
              \x12\x01\x03\0\x01\0\0\0\x06\0\0\0",
        ] {
            assert_eq!(orientation(exif), Some(Orientation::Rotate90), "{exif:?}");
            (0..exif.len()).for_each(|length| assert_eq!(orientation(&exif[..length]), None, "{exif:?} {length}"));
        }
        for none in [
            // An orientation that is none, a text, two numbers, and an entry beyond those that are counted.
            &b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x09\0\0"[..],
            b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02\0\0\0\x01\0\x06\0\0",
            b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x04\0\0\0\x02\0\0\0\x08",
            b"MM\0*\0\0\0\x08\0\0\x01\x12\0\x03\0\0\0\x01\0\x06\0\0",
            b"MM\0*\xff\xff\xff\xff\0\x01",
        ] {
            assert_eq!(orientation(none), None, "{none:?}");
        }
    }
}

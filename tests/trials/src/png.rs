//! Pieces of PNG files, for tests of what decoders take and refuse.

/// A chunk of a PNG file, with its length and its checksum (PNG, section 5.3).
///
/// # Panics
/// If it has 4 GiB or more.
pub fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("a chunk has less than 4 GiB");
    let named = [name, content].concat();
    [&length.to_be_bytes()[..], &named, &crc32(&named).to_be_bytes()].concat()
}

/// CRC-32 as PNG and zlib compute it (PNG, annex D).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_last_chunk_of_every_file() {
        assert_eq!(chunk(b"IEND", &[]), [0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82]);
    }
}

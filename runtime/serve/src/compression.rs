//! Bodies that come compressed: expanded into counted memory, and never into more than a route takes.

use std::io::Read;

use axum::body::Bytes;
use flate2::read::{MultiGzDecoder, ZlibDecoder};

use crate::admission::BodyPermit;
use crate::refusal::Refusal;

/// Bytes that are expanded at once.
const PIECE: usize = 64 << 10;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// `gzip` (RFC 1952).
    Gzip,
    /// `deflate`: zlib's format (RFC 1950), as HTTP has it.
    Deflate,
}

impl Compression {
    /// That which a `Content-Encoding` names.
    pub fn of(name: &str) -> Option<Self> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("gzip") || is("x-gzip") {
            return Some(Self::Gzip);
        }
        is("deflate").then_some(Self::Deflate)
    }

    /// The body as it was before, of at most `limit` bytes, whose memory `permit` takes.
    ///
    /// # Errors
    /// [`Refusal`] if it is damaged or cut off, has more bytes, or too little memory is free.
    pub fn expand(self, body: &Bytes, limit: usize, permit: BodyPermit) -> Result<Bytes, Refusal> {
        match self {
            Self::Gzip => read(MultiGzDecoder::new(&body[..]), limit, permit),
            Self::Deflate => read(ZlibDecoder::new(&body[..]), limit, permit),
        }
    }
}

fn read(mut source: impl Read, limit: usize, mut permit: BodyPermit) -> Result<Bytes, Refusal> {
    let mut bytes = Vec::new();
    loop {
        let length = bytes.len();
        let wanted = (length + PIECE).min(limit + 1);
        permit.grow(&mut bytes, wanted, limit + 1)?;
        bytes.resize(wanted, 0);
        let read = source.read(&mut bytes[length..]);
        let read =
            read.map_err(|error| Refusal::bad_request(format!("the compressed body cannot be expanded: {error}")))?;
        bytes.truncate(length + read);
        match read {
            0 => return Ok(permit.holding(bytes)),
            _ if bytes.len() > limit => return Err(Refusal::too_large(limit)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;
    use crate::admission::Admission;

    const MIB: usize = 1 << 20;

    fn compressed(compression: Compression, body: &[u8]) -> Bytes {
        let level = flate2::Compression::best();
        let bytes = match compression {
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), level);
                encoder.write_all(body).unwrap();
                encoder.finish()
            }
            Compression::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(body).unwrap();
                encoder.finish()
            }
        };
        bytes.unwrap().into()
    }

    fn expanded(compression: Compression, body: &Bytes, limit: usize, memory: u64) -> Result<Bytes, u16> {
        let permit = Admission::new(memory).body();
        compression.expand(body, limit, permit).map_err(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn a_body_comes_back_and_one_that_is_cut_off_or_damaged_is_refused() {
        let body: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
        for (name, compression) in [("gzip", Compression::Gzip), ("Deflate", Compression::Deflate)] {
            assert_eq!(Compression::of(name), Some(compression));
            let packed = compressed(compression, &body);
            assert!(packed.len() < body.len() / 10);
            assert_eq!(expanded(compression, &packed, MIB, 64 << 20).unwrap(), body);
            assert_eq!(
                expanded(compression, &packed, body.len(), 64 << 20).unwrap(),
                body,
                "just as many as are taken"
            );
            assert_eq!(expanded(compression, &packed.slice(..packed.len() / 2), MIB, 64 << 20), Err(400));
            assert_eq!(expanded(compression, &Bytes::from_static(b"{}"), MIB, 64 << 20), Err(400));
        }
        assert_eq!(Compression::of("br"), None);
    }

    #[test]
    fn a_small_file_does_not_become_more_than_is_taken_or_than_there_is_room_for() {
        for compression in [Compression::Gzip, Compression::Deflate] {
            let bomb = compressed(compression, &vec![0; 32 * MIB]);
            assert!(bomb.len() < MIB / 16);
            assert_eq!(expanded(compression, &bomb, 8 * MIB, 256 << 20), Err(413));
            // Of 64 MiB three eighths are for files, which will never be enough.
            assert_eq!(expanded(compression, &bomb, 64 * MIB, 64 << 20), Err(413));
            let large = compressed(compression, &vec![0; 23 * MIB]);
            assert!(expanded(compression, &large, 64 * MIB, 64 << 20).is_ok(), "what fits is taken");
        }
    }
}

//! The bytes of a slot: a header that is the same in every release, and a body that its version describes.
//!
//! | offset | bytes | what (integers little endian) |
//! |---|---|---|
//! | 0 | 8 | magic, `ORCOSLOT` |
//! | 8 | 2 | format version of the body |
//! | 10 | 8 | generation, 1 for the first save |
//! | 18 | 32 | SHA-256 of the bundle's learner file |
//! | 50 | 8 | length of the body |
//! | 58 | 32 | SHA-256 of the bytes 0..58 and the body |
//! | 90 | length | the body |

use alloc::vec::Vec;
use core::fmt;

use sha2::{Digest, Sha256};

use crate::codec::DecodeError;

const MAGIC: &[u8; 8] = b"ORCOSLOT";
/// Bytes that the checksum covers besides the body.
const CHECKED: usize = 8 + 2 + 8 + 32 + 8;
/// Bytes before the body.
pub const HEADER: usize = CHECKED + 32;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Format version of the body.
    pub version: u16,
    /// Counts saves; the slot with the higher one is newer.
    pub generation: u64,
    /// SHA-256 of the learner file of the bundle that the body belongs to.
    pub foundation: [u8; 32],
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The bytes of a slot.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.body.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.foundation);
        bytes.extend_from_slice(&(self.body.len() as u64).to_le_bytes());
        let checksum = checksum(&bytes, self.body);
        bytes.extend_from_slice(&checksum);
        bytes.extend_from_slice(self.body);
        bytes
    }

    /// Reads the bytes of a slot, whatever the version of the body.
    ///
    /// # Errors
    /// [`DecodeError`] if they are no slot, cut off, too long, or altered in any bit.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        if !bytes.starts_with(MAGIC) {
            return Err(DecodeError::Foreign);
        }
        let (header, body) = bytes.split_at_checked(HEADER).ok_or(DecodeError::Checksum)?;
        let (checked, sum) = header.split_at(CHECKED);
        let length = u64::from_le_bytes(piece(checked, 50));
        // The length first: it costs nothing, and a slot that is cut off is the commonest damage.
        if length != body.len() as u64 || sum != checksum(checked, body) {
            return Err(DecodeError::Checksum);
        }
        Ok(Self {
            version: u16::from_le_bytes(piece(checked, 8)),
            generation: u64::from_le_bytes(piece(checked, 10)),
            foundation: piece(checked, 18),
            body,
        })
    }
}

impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {}, {} bytes", self.generation, self.body.len())
    }
}

fn checksum(checked: &[u8], body: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(checked).chain_update(body).finalize().into()
}

/// `N` bytes of a header.
fn piece<const N: usize>(header: &[u8], offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[offset..][..N]);
    bytes
}

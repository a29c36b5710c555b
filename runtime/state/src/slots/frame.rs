//! The content of a slot's envelope ([`codec`]): a start that is the same in every release, and a body that the
//! envelope's version describes.
//!
//! | offset | bytes | what (integers little endian) |
//! |---|---|---|
//! | 0 | 8 | generation, 1 for the first save |
//! | 8 | 32 | SHA-256 of the bundle's learner file |
//! | 40 | rest | the body |

use alloc::vec::Vec;
use core::fmt;

use crate::codec::{self, DecodeError, FileKind, bytes_at};

const START: usize = 8 + 32;
/// Bytes before the body, those of the envelope among them.
pub const HEADER: usize = codec::HEADER + START;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotFrame<'a> {
    /// Format version of the body.
    pub version: u16,
    /// Counts saves; the slot with the higher one is newer.
    pub generation: u64,
    /// SHA-256 of the learner file of the bundle that the body belongs to.
    pub bundle_digest: [u8; 32],
    /// The body.
    pub body: &'a [u8],
}

impl<'a> SlotFrame<'a> {
    /// The bytes of a slot.
    pub fn encode(&self) -> Vec<u8> {
        codec::seal(FileKind::Slot, self.version, &[&self.generation.to_le_bytes(), &self.bundle_digest, self.body])
    }

    /// Reads the bytes of a slot, whatever the version of the body.
    ///
    /// # Errors
    /// [`DecodeError`] if they are no slot, cut off, too long, or altered in any bit.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, content) = codec::open(FileKind::Slot, bytes)?;
        let (start, body) = content.split_at_checked(START).ok_or(DecodeError::Body)?;
        Ok(Self {
            version,
            generation: u64::from_le_bytes(bytes_at(start, 0)),
            bundle_digest: bytes_at(start, 8),
            body,
        })
    }
}

impl fmt::Display for SlotFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {}, {} bytes", self.generation, self.body.len())
    }
}

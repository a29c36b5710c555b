//! The bytes of a slot: a frame, which holds a whole body, and patches, each of which turns the body before it into a
//! newer one. `STATE.md` has both byte by byte, "A slot".

use alloc::borrow::Cow;
use alloc::vec::Vec;

use serde::Serialize;

use super::patch::{PieceWriter, Segments};
use crate::codec::{self, DecodeError, FileKind, bytes_at, claimed_checksum, open_first};

/// Bytes of a frame's and a patch's content before the body and the pieces: the generation, and a SHA-256.
const START: usize = 8 + 32;
/// Bytes of a frame before the body, those of the envelope among them; as many as a patch has before the pieces.
pub const HEADER: usize = codec::HEADER + START;

/// Most patches of a slot.
const MAX_PATCHES: usize = 256;

/// Bytes of the largest frame that gets patches. They add at most half of it, so that such a slot stays below 1 GiB, as
/// files must.
const MAX_PATCHABLE_FRAME: usize = 512 << 20;

/// A slot that is written whole.
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

impl SlotFrame<'_> {
    /// The bytes of a slot. A save encodes a state without a copy of its body; this takes any body, as tests do.
    pub fn encode(&self) -> Vec<u8> {
        codec::seal(FileKind::Slot, self.version, &[&self.generation.to_le_bytes(), &self.bundle_digest, self.body])
    }
}

/// The bytes of a slot whose body is a value as postcard.
pub(super) fn seal_frame<T: Serialize>(version: u16, generation: u64, bundle_digest: &[u8; 32], body: &T) -> Vec<u8> {
    codec::seal_value(FileKind::Slot, version, &[&generation.to_le_bytes(), bundle_digest], body)
}

/// Identifies a frame: the first bytes of its SHA-256. The file name of a patch contains it, so that patches which an
/// interrupted write left are not applied to the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrameId(pub [u8; 8]);

impl FrameId {
    /// That of the frame which a slot starts with, as its header says; nothing is checked. `None` if there are too few
    /// bytes.
    pub fn claimed(slot: &[u8]) -> Option<Self> {
        claimed_checksum(slot).map(Self::of)
    }

    fn of(checksum: [u8; 32]) -> Self {
        Self(bytes_at(&checksum, 0))
    }
}

/// Tells a patch from all others. Those of a frame are applied in the order of their generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PatchId {
    /// The frame that it belongs to.
    pub frame: FrameId,
    /// The generation that the slot has with it.
    pub generation: u64,
}

impl PatchId {
    /// The generation that a patch says it makes; nothing is checked. `None` if there are too few bytes.
    pub fn claimed_generation(patch: &[u8]) -> Option<u64> {
        patch.get(codec::HEADER..HEADER).map(|start| u64::from_le_bytes(bytes_at(start, 0)))
    }
}

/// A patch that is to be appended to a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotPatch {
    /// Where it belongs.
    pub id: PatchId,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What the bytes of a slot hold: the body of the frame as the patches have changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotContent<'a> {
    /// Format version of the body.
    pub version: u16,
    /// Counts saves; the slot with the higher one is newer.
    pub generation: u64,
    /// SHA-256 of the learner file of the bundle that the body belongs to.
    pub bundle_digest: [u8; 32],
    bytes: Cow<'a, [u8]>,
    body: Segments,
    frame: FrameId,
    frame_len: usize,
    /// Number of patches that are applied.
    patches: usize,
    /// Bytes of the frame and of these patches.
    read: usize,
    /// SHA-256 of the last of their envelopes.
    last: [u8; 32],
}

impl<'a> SlotContent<'a> {
    /// Reads the bytes of a slot, whatever the version of the body.
    ///
    /// # Errors
    /// [`DecodeError`] if they are no slot, cut off, too long, or altered in any bit.
    pub fn decode(bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self, DecodeError> {
        let mut content = Self::decode_frame(bytes.into())?;
        while content.apply_next()? {}
        Ok(content)
    }

    /// Reads the frame of a slot alone.
    pub(super) fn decode_frame(bytes: Cow<'a, [u8]>) -> Result<Self, DecodeError> {
        let frame = open_first(FileKind::Slot, &bytes)?;
        let (start, body) = frame.content.split_at_checked(START).ok_or(DecodeError::Body)?;
        let frame_len = bytes.len() - frame.rest.len();
        Ok(Self {
            version: frame.version,
            generation: u64::from_le_bytes(bytes_at(start, 0)),
            bundle_digest: bytes_at(start, 8),
            body: Segments::of(frame_len - body.len()..frame_len),
            frame: FrameId::of(frame.checksum),
            frame_len,
            patches: 0,
            read: frame_len,
            last: frame.checksum,
            bytes,
        })
    }

    /// Applies the next patch; says whether there was one.
    pub(super) fn apply_next(&mut self) -> Result<bool, DecodeError> {
        let rest = &self.bytes[self.read..];
        if rest.is_empty() {
            return Ok(false);
        }
        // Behind a sound frame, whatever is wrong is no save that was cut off.
        let patch = open_first(FileKind::Patch, rest).map_err(|_| DecodeError::Patch)?;
        let (start, pieces) = patch.content.split_at_checked(START).ok_or(DecodeError::Patch)?;
        let generation = u64::from_le_bytes(bytes_at(start, 0));
        let follows = bytes_at(start, 8) == self.last && generation > self.generation;
        if !follows || patch.version < self.version {
            return Err(DecodeError::Patch);
        }
        let read = self.bytes.len() - patch.rest.len();
        // What a later release wrote is refused by its version; only its generation counts.
        if patch.version <= FileKind::Patch.version() {
            if patch.version != self.version || self.patches == MAX_PATCHES {
                return Err(DecodeError::Patch);
            }
            let patched = self.body.patched(pieces, read - pieces.len(), max_body(self.bytes.len()));
            self.body = patched.ok_or(DecodeError::Patch)?;
        }
        self.version = patch.version;
        self.generation = generation;
        self.patches += 1;
        self.last = patch.checksum;
        self.read = read;
        Ok(true)
    }

    /// The body; borrowed where no patch changed it.
    pub fn body(&self) -> Cow<'_, [u8]> {
        self.body.body(&self.bytes)
    }

    /// The body, in the memory of the slot's bytes where it lies there in one piece.
    pub fn into_body(self) -> Vec<u8> {
        self.body.into_body(self.bytes.into_owned())
    }

    /// The patch that turns the body into this one; `None` if the slot should be written whole (`STATE.md`, "Which slot
    /// is current", 2).
    pub fn patch_to<T: Serialize>(&self, generation: u64, body: &T) -> Option<SlotPatch> {
        let has_room = self.patches < MAX_PATCHES && self.frame_len <= MAX_PATCHABLE_FRAME;
        if !has_room || generation <= self.generation {
            return None;
        }
        let of_patches = self.bytes.len() - self.frame_len;
        let most = (self.frame_len / 4).min((self.frame_len / 2).checked_sub(of_patches + HEADER)?);
        let pieces = PieceWriter::new(&self.bytes, &self.body, most);
        let pieces = postcard::serialize_with_flavor(body, pieces).ok()?;
        // Readers must accept the result. They count the bytes of the patches, too, so this limit is the stricter one.
        self.body.patched(&pieces, self.bytes.len() + HEADER, max_body(self.frame_len))?;
        let bytes = codec::seal(FileKind::Patch, self.version, &[&generation.to_le_bytes(), &self.last, &pieces]);
        Some(SlotPatch { id: PatchId { frame: self.frame, generation }, bytes })
    }
}

/// Most bytes of a body that a slot of `slot` bytes holds. A body that grew beyond is written whole.
const fn max_body(slot: usize) -> usize {
    slot.saturating_mul(2)
}
